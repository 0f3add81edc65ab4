package rundir

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/google/go-cmp/cmp"
)

// TestConstitution: the plan's signer decides what is under its digest, so what is there must
// still be a constitution of the plan's policy, and this version's where it says so.
func TestConstitution(t *testing.T) {
	good := string(policy.Constitution(planOf(t, "a").Policy))
	const otherVersion, otherRules = `"version":"2031-01-01"}`, `"rules":[{"id":"R001","title":"none","version":1}],`
	rules := good[strings.Index(good, `"rules":[`):strings.Index(good, `"schema"`)]
	version := `"version":"` + policy.RulesVersion + `"}`
	for _, tt := range []struct{ name, old, new, want string }{
		{"this version's", "", "", ""},
		{"another version's", version, otherVersion, ""},
		{"another version's rules", rules + `"schema":"gaia.constitution/1",` + version, otherRules + `"schema":"gaia.constitution/1",` + otherVersion, ""},
		{"weaker rules of this version", `"curl",`, "", "is not what the rules of version " + policy.RulesVersion + " and the plan's policy give"},
		{"no rules of this version", rules, otherRules, "is not what the rules of version " + policy.RulesVersion + " and the plan's policy give"},
		{"another version's, of another policy", `"mode":"restricted"},` + rules + `"schema":"gaia.constitution/1",` + version,
			`"mode":"autonomous"},` + rules + `"schema":"gaia.constitution/1",` + otherVersion, "has another policy than manifest.json"},
		{"another version's, without rules by id", rules + `"schema":"gaia.constitution/1",` + version, `"rules":[{"id":"","title":"none","version":1}],"schema":"gaia.constitution/1",` + otherVersion, "has no list of rules, by id"},
		{"another schema", "constitution/1", "constitution/2", "has another schema than gaia.constitution/1"},
		{"spaces", `"schema":`, `"schema": `, "is not canonical JSON of a constitution"},
		{"no JSON", good, "x", "is not canonical JSON of a constitution"},
		{"no object", good, "[]", "is not canonical JSON of a constitution"},
		{"nothing", good, "", "is not canonical JSON of a constitution"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.old != "" && strings.Count(good, tt.old) != 1 {
				t.Fatalf("the constitution does not have %q once", tt.old)
			}
			data := strings.Replace(good, tt.old, tt.new, 1)
			m := planOf(t, "a")
			m.ConstitutionSHA256, m.GuidanceHash = canonical.Digest([]byte(data)), policy.GuidanceHash([]byte(data))
			dir := memory(files(t, m, oneSolved), plan.ConstitutionFile, data)
			if tt.want != "" {
				wantFault(t, tt.name, dir, plan.ConstitutionFile)
				if _, err := readRules(dir, m); err == nil || err.Error() != plan.ConstitutionFile+": "+tt.want {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if _, err := Verify(dir, Options{}); err != nil {
				t.Fatal(err)
			}
			want := []string{"R001", "R002", "R003", "R004", "R005", "R006"}
			if strings.Contains(data, otherRules) {
				want = want[:1]
			}
			ids, err := readRules(dir, m)
			if diff := cmp.Diff(want, ids); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}
