package audit_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestChecksAreWhole: the published gate keeps its ids and names, and every
// check says what a user may ask of it.
func TestChecksAreWhole(t *testing.T) {
	gate := [][2]string{{"AUD-1", "answer-leakage"}, {"AUD-2", "no-work-pass"}, {"AUD-3", "oracle-leakage"}, {"AUD-4", "grader-isolation"},
		{"AUD-5", "normalization-collision"}, {"AUD-6", "voting-disclosure"}, {"AUD-7", "split-integrity"},
		{"AUD-11", "coverage-denominator"}, {"AUD-12", "trajectory-integrity"}, {"AUD-22", "input-provenance"}, {"AUD-23", "agent-confinement"}}
	var found [][2]string
	for _, c := range audit.Checks() {
		if c.Title == "" || c.Why == "" || c.Fix == "" || c.Skips == "" || len(c.Rules) == 0 {
			t.Errorf("%s is not whole: %+v", c.ID, c)
		}
		gravity := []audit.Severity{audit.Critical, audit.High, audit.ToReview, audit.Info}
		for i, r := range c.Rules {
			if r.ID == "" || r.When == "" || r.Version < 1 || !slices.Contains(gravity, r.Severity) {
				t.Errorf("rule %d of %s is not whole: %+v", i+1, c.ID, r)
			}
			if i > 0 && slices.Index(gravity, r.Severity) < slices.Index(gravity, c.Rules[i-1].Severity) {
				t.Errorf("%s: rule %s is graver than the one before it", c.ID, r.ID)
			}
		}
		if c.Severity != c.Rules[0].Severity {
			t.Errorf("%s is %s, and its gravest rule %s", c.ID, c.Severity, c.Rules[0].Severity)
		}
		if c.Gate {
			found = append(found, [2]string{c.ID, c.Name})
		}
	}
	if len(found) != len(gate) {
		t.Fatalf("the gate is %v", found)
	}
	for i := range gate {
		if found[i] != gate[i] {
			t.Errorf("check %d of the gate is %v, not %v", i, found[i], gate[i])
		}
	}
}

// TestReportIsDeterministic: the same evidence gives the same bytes, also under
// the names that a package gives its files.
func TestReportIsDeterministic(t *testing.T) {
	for _, name := range []string{"AUD-01/fires-uuid-json.txt", "AUD-04/fires-cache-sweep.txt", "AUD-12/fires-other-policy.txt", "honest/search-echo.txt"} {
		c := corpus(t)[name]
		want := encoded(t, audited(t, c, true))
		for range 3 {
			if got := encoded(t, audited(t, c, true)); !bytes.Equal(got, want) {
				t.Errorf("%s: another report:\n%s\n%s", name, got, want)
			}
		}
		dir := filepath.Join(t.TempDir(), "run")
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, rundir.SummaryFile), filepath.Join(dir, "metadata.json")); err != nil {
			t.Fatal(err)
		}
		r, _, err := audit.Run(os.DirFS(dir), audit.Options{Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}, Summary: "metadata.json"})
		if err != nil {
			t.Fatal(err)
		}
		if got := encoded(t, r); !bytes.Equal(got, want) {
			t.Errorf("%s, packaged: another report:\n%s\n%s", name, got, want)
		}
		r.AuditedAt = ""
		later, _, err := audit.Run(os.DirFS(dir), audit.Options{AuditedAt: "2031-02-03T04:05:06.789Z", Summary: "metadata.json"})
		if err != nil || later.AuditedAt != "2031-02-03T04:05:06.789Z" {
			t.Errorf("audited at %q, %v", later.AuditedAt, err)
		}
	}
}

// TestFindingsExpect: every finding says what was found and what was expected.
func TestFindingsExpect(t *testing.T) {
	for name, r := range reports(t) {
		for _, c := range r.Checks {
			for _, f := range c.Findings {
				if f.Got == "" || f.Want == "" {
					t.Errorf("%s: %s found %q, want %q", name, f.RuleID, f.Got, f.Want)
				}
			}
		}
	}
}

func encoded(t *testing.T, r audit.Report) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCoverageDenominator: derived files are rebuilt before an audit, so a run
// that verifies cannot leave anything out. The check counts again, by its own
// way, and must find what a mistake in that derivation would do.
func TestCoverageDenominator(t *testing.T) {
	yes, no := true, false
	honestly := []rundir.Result{{TaskID: "a", OfficialCorrect: &yes}, {TaskID: "b", OfficialCorrect: &no}, {TaskID: "c", OfficialCorrect: &no}}
	honest := func() *audit.Evidence {
		e := &audit.Evidence{
			Results: slices.Values(honestly),
			Summary: rundir.Summary{Outcomes: rundir.Outcomes{Solved: 1, Failed: 1, Error: 1},
				Scores: &rundir.Scores{Official: stats.NewRate(1, 3), Judged: new(stats.NewRate(1, 3))}},
		}
		e.Manifest.GoldCommitment = "sha256:…"
		for _, id := range []string{"a", "b", "c"} {
			e.Manifest.Tasks = append(e.Manifest.Tasks, plan.PlannedTask{TaskID: id})
		}
		return e
	}
	tests := []struct {
		name   string
		change func(*audit.Evidence)
		status audit.Status
		rule   string
	}{
		{"honest", func(*audit.Evidence) {}, audit.Pass, ""},
		{"unscored", func(e *audit.Evidence) { e.Summary.Scores = nil }, audit.Pass, ""},
		{"a result left out", func(e *audit.Evidence) { e.Results = slices.Values(honestly[:2]) }, audit.Fail, "coverage-differs"},
		{"a result twice", func(e *audit.Evidence) {
			e.Results = slices.Values([]rundir.Result{honestly[0], honestly[1], honestly[0]})
		}, audit.Fail, "coverage-differs"},
		{"a result too many", func(e *audit.Evidence) {
			e.Results = slices.Values(append(slices.Clone(honestly), rundir.Result{TaskID: "d"}))
		}, audit.Fail, "coverage-differs"},
		{"errors left out", func(e *audit.Evidence) { e.Summary.Outcomes.Error = 0 }, audit.Fail, "coverage-differs"},
		{"over fewer tasks", func(e *audit.Evidence) { e.Summary.Scores.Official = stats.NewRate(1, 2) }, audit.Fail, "headline-differs"},
		{"judged over fewer tasks", func(e *audit.Evidence) { e.Summary.Scores.Judged = new(stats.NewRate(1, 2)) }, audit.Fail, "headline-differs"},
		{"more correct", func(e *audit.Evidence) { e.Summary.Scores.Official = stats.NewRate(2, 3) }, audit.Fail, "headline-differs"},
		{"no plan", func(e *audit.Evidence) { e.Manifest.Tasks = nil }, audit.Skip, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := honest()
			tt.change(e)
			got := check(t, audit.Judge(e, audit.Options{}), "AUD-11")
			if got.Status != tt.status || tt.rule != "" && (len(got.Findings) == 0 || got.Findings[0].RuleID != "AUD-11."+tt.rule || got.Severity != audit.Critical) {
				t.Errorf("%s %s: %s", got.Status, got.Severity, reasons(got))
			}
		})
	}
}

// TestAnswerAfterGrading: with submit intent, no answer is committed once grading
// has begun, also in an attempt that began before. No text of the corpus can
// tell of two attempts at once.
func TestAnswerAfterGrading(t *testing.T) {
	for _, tt := range []struct {
		intent    bool
		committed int64
		status    audit.Status
	}{{true, 40, audit.Fail}, {true, 20, audit.Pass}, {false, 40, audit.Pass}} {
		e := &audit.Evidence{FirstJudged: 30}
		e.Manifest.SubmitIntent, e.Manifest.Voting = tt.intent, plan.VotingPlan{Attempts: 1, Rule: "first"}
		e.Manifest.Retry.FreeReattempts = plan.FreeReattempts
		for _, a := range []*audit.AttemptEvidence{{Number: 1, Begun: 1, Committed: 10, Judged: 30}, {Number: 1, Begun: 5, Committed: tt.committed, Judged: 50}} {
			e.Tasks = append(e.Tasks, &audit.TaskEvidence{Plan: &plan.PlannedTask{}, Attempts: []*audit.AttemptEvidence{a}})
		}
		got := check(t, audit.Judge(e, audit.Options{}), "AUD-6")
		if got.Status != tt.status || tt.status == audit.Fail && (got.Severity != audit.Critical || got.Findings[0].RuleID != "AUD-6.answer-after-grading" || got.Findings[0].Seq != 40) {
			t.Errorf("%+v: %s %s", tt, got.Status, reasons(got))
		}
	}
}

// TestInterruptionsAreListed: each one is a line of the report, for the record.
func TestInterruptionsAreListed(t *testing.T) {
	long.NotRaced(t)
	listed := 0
	for name, r := range reports(t) {
		n := 0
		for _, f := range check(t, r, "AUD-6").Findings {
			if f.RuleID == "AUD-6.interrupted" {
				n++
				if f.Severity != audit.Info || !strings.HasPrefix(f.Got, "the run was interrupted after ") {
					t.Errorf("%s: %s %s", name, f.Severity, f.Got)
				}
			}
		}
		if n != r.Totals.Interruptions {
			t.Errorf("%s: %d interruptions, %d are listed", name, r.Totals.Interruptions, n)
		}
		listed += n
	}
	if listed < 5 {
		t.Errorf("the corpus has %d interruptions", listed)
	}
}

// TestNoGoldInReports: what a report says of a finding never tells the answer,
// by any of the rules that the corpus has cases of.
func TestNoGoldInReports(t *testing.T) {
	long.NotRaced(t)
	said, expected, all := map[string]bool{}, map[string]bool{}, reports(t)
	for name, c := range corpus(t) {
		for _, e := range c.Expect {
			if e.Rule != "" {
				expected[e.Check+"."+e.Rule] = true
			}
		}
		r := all[name]
		texts := append([]audit.Gap{}, r.Attestation.HarnessGaps...)
		for _, c := range r.Checks {
			for _, f := range c.Findings {
				texts = append(texts, audit.Gap{Check: f.RuleID, Gap: f.Got}, audit.Gap{Check: f.RuleID, Gap: f.Want})
			}
		}
		for _, text := range texts {
			for id, answer := range c.Gold() {
				if len(answer) < 3 {
					continue
				}
				said[text.Check] = true
				if strings.Contains(text.Gap, answer) {
					t.Errorf("%s: the answer of %s is told by %s: %s", name, id, text.Check, text.Gap)
				}
			}
		}
	}
	// Of these there can be no gold, or none of three characters.
	for _, rule := range []string{"AUD-7.test-ids-of-validation"} {
		delete(expected, rule)
	}
	for rule := range expected {
		if !said[rule] {
			t.Errorf("nothing that %s says was looked through", rule)
		}
	}
}

// TestUnfinished: a run that is not finished is no subject yet.
func TestUnfinished(t *testing.T) {
	c, err := runs.Parse("-- patch run_completed --\nnull\n\n-- task fab1e000-0000-4000-8000-000000000001 --\nquestion: Which?\ngold: This\n\n-- answer This --\n")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, run, err := audit.Run(os.DirFS(dir), audit.Options{}); !errors.Is(err, audit.ErrIncomplete) || run == nil || run.Complete {
		t.Errorf("%v", err)
	}
}

// TestMarked: what happened after recording failed is in no journal.
func TestMarked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := runs.Good()["lookup"].Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.MarkerFile), []byte("the disk was full\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, _, err := audit.Run(os.DirFS(dir), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := check(t, r, "AUD-12"); got.Status != audit.Skip || got.Gaps[0] != "recording failed: the disk was full" || r.Attestation.Clean {
		t.Errorf("%s, %q, clean %v", got.Status, got.Gaps, r.Attestation.Clean)
	}
}
