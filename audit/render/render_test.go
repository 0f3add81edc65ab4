package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/google/go-cmp/cmp"
)

//go:generate go test -count=1 -run ^TestPublished$ . -update

var update = flag.Bool("update", false, "write the golden files, docs/checks.md and docs/audit-report.schema.json again")

// golden holds bytes against a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not fresh (write it with -update):\n%s", path, cmp.Diff(string(want), string(got)))
	}
}

// TestPublished: what is published is made from the checks and types as they are.
func TestPublished(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "checks.md"), Checks())
	s, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "audit-report.schema.json"), s)
}

// digest is an invented one.
func digest(c string) string { return "sha256:" + string(bytes.Repeat([]byte(c), 64)) }

// someChecks are checks that do not change with the audit's.
func someChecks() []audit.Check {
	return []audit.Check{
		{ID: "AUD-1", Name: "answer-leakage", Title: "no tool brought in the answer", Why: "answers lie in the open", Fix: "void the task", Skips: "there are no probes", Severity: audit.Critical, Gate: true,
			Rules: []audit.Rule{{ID: "uuid-with-answer", Severity: audit.Critical, Version: 1, When: "a page with the task's id and its answer"},
				{ID: "question-without-gold", Severity: audit.ToReview, Version: 2, When: "a page with the question"}}},
		{ID: "AUD-8", Name: "answer-key-reads", Title: "no answer key was read", Why: "it holds the answers", Fix: "look at the file", Skips: "arguments are cut", Severity: audit.High,
			Rules: []audit.Rule{{ID: "answer-key-read", Severity: audit.High, Version: 1, When: "a read of an answer key"}}},
	}
}

// someReport has one of everything, and quiet text in all places of strangers.
func someReport() audit.Report {
	rate := func(correct int) *stats.Rate { r := stats.NewRate(correct, 3); return &r }
	closed := audit.Finding{Check: "AUD-8", ID: digest("c"), Got: "a read of keys/answers.csv", Want: "no such read", RuleID: "AUD-8.answer-key-read", RuleVersion: 1, Seq: 20,
		Severity: audit.High, TaskID: "fab1e000-0000-4000-8000-000000000002", Attempt: 2, Outcome: audit.Attempted, Closed: audit.Dismiss}
	return audit.Report{
		RunID: "01J0000000000000000000000A", Schema: audit.Schema, AuditedAt: "2031-02-03T04:05:06.789Z", ThreatModel: audit.ThreatModel, Rehearsal: true,
		Adjudications: []audit.Adjudicated{{Decision: audit.Dismiss, Finding: digest("c"), Reason: "the file is the task's own attachment", SHA256: digest("d")},
			{Decision: audit.Void, Finding: digest("e"), Reason: "as agreed", SHA256: digest("f"), Unheard: "this audit has no such finding"}},
		Inputs: audit.Inputs{Adjudications: []string{digest("d"), digest("f")}, EventsSHA256: digest("1"), MetadataSHA256: digest("2"), ResultsSHA256: digest("3"), TrajectoriesSHA256: digest("4")},
		Checks: []audit.CheckReport{
			{ID: "AUD-1", Name: "answer-leakage", Title: "no tool brought in the answer", Gate: true, Status: audit.Fail, Severity: audit.Critical, Gaps: []string{"3 results have no probes"},
				Findings: []audit.Finding{
					{Check: "AUD-1", ID: digest("b"), Got: "7 of 10 words of the question", Want: "fewer", RuleID: "AUD-1.question-without-gold", RuleVersion: 2, Seq: 14, Severity: audit.ToReview},
					{Check: "AUD-1", ID: digest("a"), Got: "https://mirror.example/q?id=1", Want: "no page with the answer", RuleID: "AUD-1.uuid-with-answer", RuleVersion: 1, Seq: 11,
						Severity: audit.Critical, TaskID: "fab1e000-0000-4000-8000-000000000001", Attempt: 1, Outcome: audit.Exploited, EvidenceSHA256: digest("9")},
				}},
			{ID: "AUD-8", Name: "answer-key-reads", Title: "no answer key was read", Status: audit.Skip, Gaps: []string{"arguments are cut"}, Findings: []audit.Finding{closed}},
			{ID: "AUD-20", Name: "judge-health", Title: "the judge withstood", Status: audit.NotApplicable, Absent: "no judge was planned", Gaps: []string{}, Findings: []audit.Finding{}},
		},
		Attestation: audit.Attestation{CriticalFailures: []string{"AUD-1"}, WarnFailures: []string{}, Skipped: []string{"AUD-8"},
			HarnessGaps: []audit.Gap{{Check: "AUD-1", Gap: "3 results have no probes"}, {Check: "AUD-8", Gap: "arguments are cut"}}},
		Totals: audit.Totals{Planned: 3, Attempts: 4, Events: 99, Critical: 1, Review: 1, Closed: 1, Raw: rate(2), Clean: rate(1), Worst: rate(1), Judge: &audit.JudgeTotals{Asked: 1, Judged: 1}},
	}
}

func TestGolden(t *testing.T) {
	r, dir := someReport(), "runs/01J0000000000000000000000A"
	s, err := sarif(r, dir, someChecks())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "report.sarif"), s)
	golden(t, filepath.Join("testdata", "report.md"), markdown(r, dir, someChecks()))
	golden(t, filepath.Join("testdata", "report.github"), GitHub(r, dir))
}

// TestUnclean: each reason is said, gaps only where they count.
func TestUnclean(t *testing.T) {
	r := someReport()
	if got, want := Unclean(r), "failed: AUD-1; could not see: AUD-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, tt := range []struct {
		name   string
		change func(*audit.Report)
		want   string
	}{
		{"high", func(r *audit.Report) {
			r.Attestation.CriticalFailures, r.Attestation.WarnFailures, r.Checks[0].Gaps = nil, []string{"AUD-8"}, nil
		}, "failed: AUD-8"},
		{"gap", func(r *audit.Report) { r.Attestation.CriticalFailures = nil }, "could not see: AUD-1"},
		{"only", func(r *audit.Report) {
			r.Attestation.CriticalFailures, r.Checks[0].Gaps, r.Only = nil, nil, []string{"AUD-1", "AUD-8"}
		}, "only asked: AUD-1, AUD-8"},
		{"clean", func(r *audit.Report) { r.Attestation.Clean = true }, ""},
	} {
		r := someReport()
		tt.change(&r)
		if got := Unclean(r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestScores: a raw score that leaves out what a decision made void does not pass
// for the one that was recorded, and one thing is no several.
func TestScores(t *testing.T) {
	r := someReport()
	if got := Scores(r); len(got) != 3 || got[0].Means != "official, as recorded" {
		t.Errorf("%+v", got)
	}
	r.Checks[0].Findings[0].Closed = audit.Void
	r.Totals.Attempts, r.Totals.Events, r.Totals.Worst = 1, 1, nil
	if got := Scores(r); len(got) != 2 || got[0].Means != "official, as recorded, but tasks void by decision counted wrong" {
		t.Errorf("%+v", got)
	}
	if md := Markdown(r, "."); !bytes.Contains(md, []byte("\n3 tasks planned, 1 attempt, 1 event.\n")) {
		t.Errorf("%s", md)
	}
}
