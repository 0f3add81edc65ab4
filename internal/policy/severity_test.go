package policy

import "testing"

// TestSeverity: every rule has a severity that is stated here, and what is no rule
// of this version has the one in the middle.
func TestSeverity(t *testing.T) {
	want := map[string]string{AnswerSources: "critical", GraderSurfaces: "critical", Secrets: "critical", Commands: "high", Packages: "high", Budget: "low"}
	for _, r := range Rules() {
		if got := Severity(r.ID); got != want[r.ID] {
			t.Errorf("%s is %q, want %q", r.ID, got, want[r.ID])
		}
		delete(want, r.ID)
	}
	if len(want) != 0 {
		t.Errorf("no such rules: %v", want)
	}
	for _, id := range []string{"", "R007", "r001", "AUD-1"} {
		if got := Severity(id); got != "medium" {
			t.Errorf("%q is %q, want medium", id, got)
		}
	}
}
