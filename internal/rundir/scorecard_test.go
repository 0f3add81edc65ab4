package rundir

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/google/go-cmp/cmp"
)

// vectors is the folder of the bundles that another implementation wrote.
var vectors = filepath.Join("..", "..", "trajectory", "witness", "testdata")

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// witnesses are the 168 bundles of the other implementation's set: eight are its own,
// and the others are made again after them, so that the card is its own, too.
func witnesses(t testing.TB) (all []witness.Bundle) {
	t.Helper()
	for data := readVector(t, "all.bin"); len(data) > 0; {
		if len(data) < 64 || int(binary.LittleEndian.Uint32(data[60:])) > len(data) {
			t.Fatal("the set is cut")
		}
		n := binary.LittleEndian.Uint32(data[60:])
		w, err := witness.Parse(data[:n])
		if err != nil {
			t.Fatal(err)
		}
		all, data = append(all, w), data[n:]
	}
	return all
}

func encodeCard(t testing.TB, c Scorecard) string {
	t.Helper()
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestScorecardOfAnother: over the other implementation's set the card is its own, but
// for what bundles do not tell.
func TestScorecardOfAnother(t *testing.T) {
	var tally Tally
	for _, w := range witnesses(t) {
		if err := tally.AddWitness(w); err != nil {
			t.Fatal(err)
		}
	}
	theirs := string(readVector(t, "scorecard.json"))
	want := regexp.MustCompile(`"rollback_count":[0-9]+`).ReplaceAllString(theirs, `"rollback_count":null`)
	want = strings.TrimSuffix(want, "}\n") + `,"mode_denials":null,"budget_denials":null,"person_refusals":null}` + "\n"
	if got := encodeCard(t, tally.Scorecard()); got != want || want == theirs {
		t.Errorf("the card is\n%s\nand theirs\n%s", got, want)
	}
}

// tallied makes a tally of tasks, bundles and runs.
func tallied(t testing.TB, all ...any) *Tally {
	t.Helper()
	var tally Tally
	for _, one := range all {
		var err error
		switch one := one.(type) {
		case TaskStats:
			err = tally.Add(one)
		case witness.Bundle:
			err = tally.AddWitness(one)
		case RunStats:
			err = tally.AddRun(one)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &tally
}

func TestScorecard(t *testing.T) {
	solved := TaskStats{Outcome: "solved", CostMicroUSD: ptr[int64](10), LatencyMs: 30, Tokens: 5, Retries: 2, Conduct: trajectory.Conduct{Rollbacks: 3, RollbacksCorrect: 2, PersonRefusals: 1}, EvidenceComplete: true}
	bare := TaskStats{Outcome: "solved", CostMicroUSD: ptr[int64](1), LatencyMs: 10,
		Conduct: trajectory.Conduct{Denials: trajectory.Denials{Budget: 5, DenyList: 1, Mode: 6, Rule: 3}}}
	unpriced := TaskStats{Outcome: "error", LatencyMs: 20, EvidenceComplete: true}
	untold := witness.Bundle{Outcome: witness.Skipped}
	for _, tt := range []struct {
		name  string
		cases []any
		want  string
	}{
		{"nothing", nil, `{"total_tasks":0,"solved":0,"failed":0,"skipped":0,"errors":0,"policy_violations":0,"rollback_count":0,"total_cost_microdollars":0,` +
			`"median_latency_ms":0,"p95_latency_ms":0,"total_tokens":0,"total_retries":0,"evidence_coverage":0,"cost_per_solve_microdollars":0,"solve_rate":0,"mode_denials":0,"budget_denials":0,"person_refusals":0}`},
		{"two solved", []any{solved, bare, TaskStats{Outcome: "failed", CostMicroUSD: ptr[int64](0)}}, `{"total_tasks":3,"solved":2,"failed":1,"skipped":0,"errors":0,` +
			`"policy_violations":4,"rollback_count":3,"total_cost_microdollars":11,"median_latency_ms":10,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,` +
			`"evidence_coverage":0.5,"cost_per_solve_microdollars":5,"solve_rate":0.6666667,"mode_denials":6,"budget_denials":5,"person_refusals":1}`},
		{"a price is unknown", []any{solved, unpriced}, `{"total_tasks":2,"solved":1,"failed":0,"skipped":0,"errors":1,"policy_violations":0,"rollback_count":3,` +
			`"total_cost_microdollars":null,"median_latency_ms":30,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,"evidence_coverage":1,` +
			`"cost_per_solve_microdollars":null,"solve_rate":0.5,"mode_denials":0,"budget_denials":0,"person_refusals":1}`},
		{"rollbacks are not told", []any{untold, solved, untold}, `{"total_tasks":3,"solved":1,"failed":0,"skipped":2,"errors":0,"policy_violations":0,"rollback_count":null,` +
			`"total_cost_microdollars":10,"median_latency_ms":0,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,"evidence_coverage":1,` +
			`"cost_per_solve_microdollars":10,"solve_rate":0.33333334,"mode_denials":null,"budget_denials":null,"person_refusals":null}`},
		{"none solved", []any{untold}, `{"total_tasks":1,"solved":0,"failed":0,"skipped":1,"errors":0,"policy_violations":0,"rollback_count":null,"total_cost_microdollars":0,` +
			`"median_latency_ms":0,"p95_latency_ms":0,"total_tokens":0,"total_retries":0,"evidence_coverage":0,"cost_per_solve_microdollars":0,"solve_rate":0,"mode_denials":null,"budget_denials":null,"person_refusals":null}`},
	} {
		got := encodeCard(t, tallied(t, tt.cases...).Scorecard())
		if diff := cmp.Diff(tt.want+"\n", got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct{ n, p, want int }{{1, 50, 0}, {1, 95, 0}, {2, 50, 1}, {3, 50, 1}, {4, 50, 2}, {19, 95, 18}, {20, 95, 19}, {21, 95, 19}, {100, 95, 95}, {10, 100, 9}} {
		var sorted []int64
		for i := range tt.n {
			sorted = append(sorted, int64(i))
		}
		if got := percentile(sorted, tt.p); got != int64(tt.want) {
			t.Errorf("p%d of %d is element %d, want %d", tt.p, tt.n, got, tt.want)
		}
	}
}

// TestTallyRefuses: what cannot be added up changes nothing.
func TestTallyRefuses(t *testing.T) {
	good := TaskStats{Outcome: "solved", CostMicroUSD: ptr[int64](1), LatencyMs: 1, Tokens: 1, Retries: 1,
		Conduct: trajectory.Conduct{Denials: trajectory.Denials{Budget: 1, DenyList: 1, Mode: 1, Rule: 1}, PersonRefusals: 1, Rollbacks: 1}}
	for name, change := range map[string]func(*TaskStats){
		"an unknown outcome":       func(c *TaskStats) { c.Outcome = "won" },
		"tokens below nothing":     func(c *TaskStats) { c.Tokens = -1 },
		"tokens beyond a file":     func(c *TaskStats) { c.Tokens = maxCounted },
		"tokens beyond a number":   func(c *TaskStats) { c.Tokens = math.MaxInt64 },
		"cost below nothing":       func(c *TaskStats) { c.CostMicroUSD = ptr[int64](-1) },
		"cost beyond a file":       func(c *TaskStats) { c.CostMicroUSD = ptr[int64](maxCounted) },
		"cost beyond a number":     func(c *TaskStats) { c.CostMicroUSD = ptr[int64](math.MaxInt64) },
		"retries below nothing":    func(c *TaskStats) { c.Retries = -1 },
		"violations beyond":        func(c *TaskStats) { c.Conduct.Denials.Rule = math.MaxInt },
		"denials below nothing":    func(c *TaskStats) { c.Conduct.Denials.Mode = -1 },
		"refusals below nothing":   func(c *TaskStats) { c.Conduct.PersonRefusals = -1 },
		"rollbacks below nothing":  func(c *TaskStats) { c.Conduct.Rollbacks = -1 },
		"more correct than there":  func(c *TaskStats) { c.Conduct.RollbacksCorrect = 2 },
		"less correct than none":   func(c *TaskStats) { c.Conduct.RollbacksCorrect = -1 },
		"rollbacks beyond a count": func(c *TaskStats) { c.Conduct.Rollbacks = math.MaxInt },
	} {
		tally := tallied(t, good)
		before := tally.Scorecard()
		bad := good
		change(&bad)
		if err := tally.Add(bad); err == nil {
			t.Errorf("%s is counted", name)
		}
		if diff := cmp.Diff(before, tally.Scorecard()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

// TestRunScorecard: the card of a run is that of its stats.
func TestRunScorecard(t *testing.T) {
	for name, script := range map[string]struct {
		m      plan.Plan
		script string
	}{"worked": {planOf(t, "a"), worked}, "mixed": {mixedPlan(t), mixed}, "one solved": {planOf(t, "a"), oneSolved}} {
		s, run, err := ReadStats(memory(files(t, script.m, script.script)), "")
		if err != nil {
			t.Fatal(err)
		}
		var tally Tally
		if err := tally.AddRun(s); err != nil {
			t.Fatal(err)
		}
		c, err := run.Scorecard()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tally.Scorecard(), c); diff != "" {
			t.Errorf("%s (-stats +run):\n%s", name, diff)
		}
		if name == "mixed" && encodeCard(t, c) != `{"total_tasks":5,"solved":1,"failed":2,"skipped":1,"errors":1,"policy_violations":0,"rollback_count":0,"total_cost_microdollars":null,`+
			`"median_latency_ms":4,"p95_latency_ms":16,"total_tokens":142,"total_retries":1,"evidence_coverage":1,"cost_per_solve_microdollars":null,"solve_rate":0.2,"mode_denials":0,"budget_denials":0,"person_refusals":0}`+"\n" {
			t.Errorf("the card is %s", encodeCard(t, c))
		}
	}
}

func TestAccept(t *testing.T) {
	solved := TaskStats{Outcome: "solved", CostMicroUSD: ptr[int64](1), EvidenceComplete: true}
	failed := TaskStats{Outcome: "failed", CostMicroUSD: ptr[int64](1)}
	untold := witness.Bundle{}
	bundle := func(c trajectory.Conduct, recorded bool) witness.Bundle {
		value, err := witness.Conduct{Conduct: c, Recorded: recorded}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w := witness.Bundle{Sections: []witness.Section{{Tag: witness.Governance, Value: value}}}
		for _, tag := range []uint16{witness.Spec, witness.Diff, witness.TestLog} {
			w.Sections = append(w.Sections, witness.Section{Tag: tag})
		}
		return w
	}
	for _, tag := range []uint16{witness.Spec, witness.Diff, witness.TestLog} {
		untold.Sections = append(untold.Sections, witness.Section{Tag: tag})
	}
	with := func(c TaskStats, change func(*TaskStats)) TaskStats {
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name  string
		cases []any
		want  Thresholds
		fails []string
	}{
		{"just enough", []any{solved, solved, solved, failed, failed}, DefaultThresholds(), nil},
		{"too little", []any{solved, failed}, DefaultThresholds(), []string{"solve_rate"}},
		{"nothing", nil, DefaultThresholds(), []string{"solve_rate", "evidence_coverage"}},
		{"enough for less", []any{solved, failed}, Thresholds{SolveRate: 0.5, EvidenceCoverage: 1, RollbackCorrectness: 1}, nil},
		{"a violation", []any{with(solved, func(c *TaskStats) { c.Conduct.Denials.Rule = 1 })}, DefaultThresholds(), []string{"policy_violations"}},
		{"a violation that is let pass", []any{with(solved, func(c *TaskStats) { c.Conduct.Denials.Rule = 1 })}, Thresholds{SolveRate: 0.6, Violations: 1, EvidenceCoverage: 1, RollbackCorrectness: 1}, nil},
		{"evidence is missing", []any{solved, with(solved, func(c *TaskStats) { c.EvidenceComplete = false })}, DefaultThresholds(), []string{"evidence_coverage"}},
		{"a rollback went right", []any{with(solved, func(c *TaskStats) { c.Conduct.Rollbacks, c.Conduct.RollbacksCorrect = 1, 1 })}, DefaultThresholds(), nil},
		{"a rollback went wrong", []any{with(solved, func(c *TaskStats) { c.Conduct.Rollbacks, c.Conduct.RollbacksCorrect = 2, 1 })}, DefaultThresholds(), []string{"rollback_correctness"}},
		{"a bundle does not tell", []any{solved, untold}, DefaultThresholds(), []string{"rollback_correctness", "recorded"}},
		{"not even where nothing is wanted", []any{untold}, Thresholds{}, []string{"rollback_correctness", "recorded"}},
		{"two policies", []any{RunStats{PolicyHash: "p1", Tasks: []TaskStats{solved}}, RunStats{PolicyHash: "p2", Tasks: []TaskStats{solved}}}, DefaultThresholds(), []string{"policies"}},
		{"two guidances", []any{RunStats{GuidanceHash: "g1", Tasks: []TaskStats{solved}}, RunStats{GuidanceHash: "g2", Tasks: []TaskStats{solved}}}, DefaultThresholds(), []string{"policies"}},
		{"resumed under other rules", []any{RunStats{GuidanceHash: "g1", Events: []RunEvent{{GuidanceHash: "g1"}, {GuidanceHash: "g2"}}, Tasks: []TaskStats{solved}}}, DefaultThresholds(), []string{"policies"}},
		{"policies that may differ", []any{RunStats{PolicyHash: "p1", Tasks: []TaskStats{solved}}, RunStats{PolicyHash: "p2", Tasks: []TaskStats{solved}}},
			Thresholds{SolveRate: 0.60, EvidenceCoverage: 1, RollbackCorrectness: 1, MixedPolicies: true}, nil},
		{"a bundle says", []any{bundle(trajectory.Conduct{Denials: trajectory.Denials{Budget: 2, Mode: 3}, PersonRefusals: 1, Rollbacks: 1, RollbacksCorrect: 1}, true)}, DefaultThresholds(), nil},
		{"a bundle says what fails", []any{bundle(trajectory.Conduct{Denials: trajectory.Denials{DenyList: 1}, Rollbacks: 2, RollbacksCorrect: 1}, false)}, DefaultThresholds(),
			[]string{"policy_violations", "rollback_correctness", "recorded"}},
		{"denials are no violations", []any{with(solved, func(c *TaskStats) {
			c.Conduct.Denials = trajectory.Denials{Budget: 1, Mode: 1}
			c.Conduct.PersonRefusals = 1
		})}, DefaultThresholds(), nil},
		{"the deny list is one", []any{with(solved, func(c *TaskStats) { c.Conduct.Denials.DenyList = 1 })}, DefaultThresholds(), []string{"policy_violations"}},
		{"recording failed", []any{RunStats{RecordingFailed: "no space left", Tasks: []TaskStats{solved}}, RunStats{Tasks: []TaskStats{solved}}}, DefaultThresholds(), []string{"recorded"}},
	} {
		got := tallied(t, tt.cases...).Accept(tt.want)
		var fails []string
		for _, c := range got.Criteria {
			if !c.Pass {
				fails = append(fails, c.Name)
			}
		}
		if diff := cmp.Diff(tt.fails, fails); diff != "" || got.Pass != (len(fails) == 0) || len(got.Criteria) != map[bool]int{false: 6, true: 5}[tt.want.MixedPolicies] {
			t.Errorf("%s: fails (-want +got):\n%s%+v", tt.name, diff, got)
		}
	}
}

// BenchmarkScorecard counts 10,000 bundles that are parsed.
func BenchmarkScorecard(b *testing.B) {
	all := witnesses(b)
	random := rand.New(rand.NewPCG(1, 2))
	cases := make([]witness.Bundle, 10_000)
	for i := range cases {
		cases[i] = all[random.IntN(len(all))]
	}
	for b.Loop() {
		var tally Tally
		for _, w := range cases {
			if err := tally.AddWitness(w); err != nil {
				b.Fatal(err)
			}
		}
		if tally.Scorecard().TotalTasks != len(cases) {
			b.Fatal("not all are counted")
		}
	}
}
