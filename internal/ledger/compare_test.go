package ledger

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
)

// TestDifferencesAsText: a difference has its sign, and a p-value is never 0.
func TestDifferencesAsText(t *testing.T) {
	micro := func(n int64) *int64 { return &n }
	for _, c := range []struct{ got, want string }{
		{signedPercent(-123_400), "-12.3 %"}, {signedPercent(0), "0.0 %"}, {signedPercent(25_000), "+2.5 %"},
		{signedDollars(nil), "unknown"}, {signedDollars(micro(0)), "$0.000000"}, {signedDollars(micro(-1_500_000)), "-$1.500000"}, {signedDollars(micro(7)), "+$0.000007"},
		{pValue(0), "< 0.000001"}, {pValue(1), "= 0.000001"}, {pValue(62_500), "= 0.062500"}, {pValue(1_000_000), "= 1.000000"},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
}

// TestPlanDifferences: what differs in any two runs makes no other plan, all else does.
func TestPlanDifferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*plan.Plan)
		want   string
	}{
		{"nothing", func(*plan.Plan) {}, ""},
		{"the id", func(m *plan.Plan) { m.RunID = "r2" }, ""},
		{"the time", func(m *plan.Plan) { m.Created = "2032-01-01T00:00:00.000Z" }, ""},
		{"the key", func(m *plan.Plan) { m.SigningKey = "another" }, ""},
		{"the program", func(m *plan.Plan) { m.Harness.Version, m.Harness.Dirty = "9", true }, ""},
		{"the salt", func(m *plan.Plan) { m.GoldCommitment = "sha256:other" }, ""},
		{"the salt of a question", func(m *plan.Plan) {
			m.Tasks = []plan.PlannedTask{{TaskID: "a", QuestionSHA256: "sha256:other"}}
		}, ""},
		{"whether there is gold", func(m *plan.Plan) { m.GoldCommitment = "" }, "gold_commitment differs"},
		{"the guidance", func(m *plan.Plan) { m.GuidanceHash = "g2" }, `guidance_hash was "g1", is "g2"`},
		{"the model", func(m *plan.Plan) { m.Model.Name = "other" }, `model was {"name":"m"`},
		{"the policy", func(m *plan.Plan) { m.PolicyHash = "p2" }, `policy_hash was "p1", is "p2"`},
		{"a budget", func(m *plan.Plan) { m.Budgets.Turns = 3 }, "budgets was "},
		{"what was approved", func(m *plan.Plan) { m.Approved = []string{"python"} }, "approved was "},
		{"a task", func(m *plan.Plan) { m.Tasks = []plan.PlannedTask{{TaskID: "b"}} }, "tasks was "},
	} {
		plan := func() plan.Plan {
			m := plan.New()
			m.RunID, m.Created, m.SigningKey, m.GoldCommitment = "r1", "2031-01-01T00:00:00.000Z", "a key", "sha256:one"
			m.Model.Name, m.GuidanceHash, m.PolicyHash = "m", "g1", "p1"
			m.Tasks = []plan.PlannedTask{{TaskID: "a"}}
			return m
		}
		a, b := plan(), plan()
		c.change(&b)
		got, err := planDifferences(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
