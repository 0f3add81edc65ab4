package plan

import (
	"strings"
	"testing"
)

// TestErrorsOf: a plan of another run's errors names that run twice, in the same way, and is never one to be submitted.
func TestErrorsOf(t *testing.T) {
	const run, other = "01JZZZZZZZ0000000000000000", "01JZZZZZZZ0000000000000001"
	digest := "sha256:" + strings.Repeat("ab", 32)
	good := Plan{RunID: other, Dataset: Dataset{ErrorsOf: ErrorsOf{ManifestSHA256: digest, Planned: 2, RunID: run}}, Tasks: make([]PlannedTask, 1)}
	if why := errorsFault(good, run); why != "" {
		t.Errorf("a good plan is refused: %s", why)
	}
	if why := errorsFault(Plan{}, ""); why != "" {
		t.Errorf("a plan of no errors is refused: %s", why)
	}
	for name, tc := range map[string]struct {
		change   func(*Plan)
		labelled string
		want     string
	}{
		"the label alone":      {func(m *Plan) { m.Dataset.ErrorsOf = ErrorsOf{} }, run, "errors_of names the run"},
		"the member alone":     {func(*Plan) {}, "", "errors_of names the run"},
		"another run":          {func(*Plan) {}, other, "errors_of names the run"},
		"no ULID":              {func(m *Plan) { m.Dataset.ErrorsOf.RunID = "mine" }, "mine", "not a ULID"},
		"itself":               {func(m *Plan) { m.RunID = run }, run, "its own run"},
		"no digest":            {func(m *Plan) { m.Dataset.ErrorsOf.ManifestSHA256 = "ab" }, run, "not a digest"},
		"more tasks than were": {func(m *Plan) { m.Tasks = make([]PlannedTask, 3) }, run, "plans 3 tasks of a run of 2"},
		"to be submitted":      {func(m *Plan) { m.SubmitIntent = true }, run, "is of a run to be submitted"},
	} {
		m := good
		tc.change(&m)
		if why := errorsFault(m, tc.labelled); !strings.Contains(why, tc.want) {
			t.Errorf("%s: refused by %q, want %q", name, why, tc.want)
		}
	}
}
