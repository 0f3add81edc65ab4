package audit_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

func TestRefuses(t *testing.T) {
	tests := []struct {
		decision audit.Decision
		severity audit.Severity
		task     string
		want     string
	}{
		{audit.Void, audit.Critical, "a", ""},
		{audit.Void, audit.High, "a", ""},
		{audit.Void, audit.ToReview, "a", ""},
		{audit.Void, audit.Critical, "", "a finding about the whole run has no task that could be void"},
		{audit.Void, audit.High, "", "a finding about the whole run has no task that could be void"},
		{audit.Void, audit.Info, "a", "an INFO finding is a note, and keeps nothing open"},
		{audit.Dismiss, audit.High, "a", ""},
		{audit.Dismiss, audit.High, "", ""},
		{audit.Dismiss, audit.Critical, "a", ""}, // and waits for a countersignature
		{audit.Dismiss, audit.Critical, "", "a CRITICAL finding about the whole run cannot be dismissed"},
		{audit.Dismiss, audit.ToReview, "a", "only a HIGH or CRITICAL finding can be dismissed, and this one is REVIEW"},
		{audit.Dismiss, audit.Info, "", "an INFO finding is a note, and keeps nothing open"},
		{"forgive", audit.High, "a", "the decisions are void and dismiss"},
		{"", audit.High, "a", "the decisions are void and dismiss"},
	}
	for _, tt := range tests {
		if got := tt.decision.Refuses(audit.Finding{Severity: tt.severity, TaskID: tt.task}); got != tt.want {
			t.Errorf("%s of %s at %q: %q, want %q", tt.decision, tt.severity, tt.task, got, tt.want)
		}
	}
}

func TestBadReason(t *testing.T) {
	for reason, want := range map[string]string{
		"the page is the museum's own: “Brücke”, 東京": "",
		strings.Repeat("a", audit.MaxReason):         "",
		strings.Repeat("a", audit.MaxReason+1):       "has 2049 bytes, more than 2048",
		"":                                           "is empty",
		" \t":                                        "is empty",
		"a\xff":                                      "is not UTF-8",
		"a\nb":                                       "holds a control character or a line break",
		"a\x1b[2Jb":                                  "holds a control character or a line break",
		"a\u0085b":                                   "holds a control character or a line break",
		"a\u202eb":                                   "holds a control character or a line break",
		"a\u2028b":                                   "holds a control character or a line break",
		"a\u200bb":                                   "holds a control character or a line break",
	} {
		if got := audit.BadReason(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}

func TestTells(t *testing.T) {
	for _, tt := range []struct {
		text, gold string
		want       bool
	}{
		{"a page said that it was BRELLIN", "Brellin", true},
		{"a page said that it was brellin-on-sea", "Brellin", true},
		{"a page said that it was Brellinford", "Brellin", false},
		{"the sum was $1,234.50", "1234.5", true},
		{"it came to 1234", "1234.5", false},
		{"Tolm and Ostrel", "Ostrel, Tolm", true},
		{"Tolm alone", "Ostrel, Tolm", false},
		{"attempt 3 of 4", "3", false},
		{"the answer: 3", "3", true},
		{"no answer", "", false},
	} {
		if got := audit.Tells(tt.text, tt.gold); got != tt.want {
			t.Errorf("%q tells %q: %t, want %t", tt.text, tt.gold, got, tt.want)
		}
	}
}

// leaks writes a run with a CRITICAL finding about its one task.
func leaks(t testing.TB) (string, audit.Options) {
	t.Helper()
	text, err := os.ReadFile("testdata/AUD-01/fires-listing.txt")
	if err != nil {
		t.Fatal(err)
	}
	c, err := runs.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir, audit.Options{Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}}
}

// found audits a run and returns its report with its first grave finding.
func found(t testing.TB, dir string, o audit.Options) (audit.Report, audit.Finding, *rundir.Run) {
	t.Helper()
	r, run, err := audit.Run(os.DirFS(dir), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Severity == audit.Critical {
				return r, f, run
			}
		}
	}
	t.Fatal("nothing is found")
	return r, audit.Finding{}, nil
}

const decidedAt = "2031-02-03T04:05:06.789Z"

// TestAdjudicated: a decision that lies in the run closes its finding, in every
// audit of the run; taken away, the finding is open again.
func TestAdjudicated(t *testing.T) {
	dir, o := leaks(t)
	before, f, run := found(t, dir, o)
	ruling := audit.NewRuling(run, f, audit.Void, "a page held the record", decidedAt)
	envelope, err := ruling.Seal(runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, ruling.File())
	if want := "attestations/adjudication-" + strings.TrimPrefix(f.ID, "sha256:")[:16] + ".dsse.json"; ruling.File() != want {
		t.Errorf("the file is %s, not %s", ruling.File(), want)
	}
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, envelope, 0o644); err != nil {
		t.Fatal(err)
	}
	after, again, _ := found(t, dir, o)
	if again.ID != f.ID || again.Closed != audit.Void || !after.Attestation.Clean || before.Attestation.Clean ||
		before.Totals.Raw.Correct != 1 || after.Totals.Raw.Correct != 0 || after.Totals.Worst.Correct != 0 || after.Totals.Closed != 1 || after.Totals.Critical != 0 {
		t.Errorf("%+v, %+v, %+v, raw %+v", again.Closed, after.Totals, after.Attestation, *after.Totals.Raw)
	}
	if len(after.Adjudications) != 1 || after.Adjudications[0] != (audit.Adjudicated{Decision: audit.Void, Finding: f.ID, Reason: "a page held the record", SHA256: canonical.Digest(envelope)}) ||
		len(after.Inputs.Adjudications) != 1 || after.Inputs.Adjudications[0] != canonical.Digest(envelope) {
		t.Errorf("%+v", after.Adjudications)
	}
	if _, err := audit.DecodeReport(encoded(t, after)); err != nil {
		t.Error(err)
	}
	all, err := audit.ReadAdjudications(os.DirFS(dir), run)
	if err != nil || len(all) != 1 || all[0].Ruling != ruling {
		t.Errorf("%+v, %v", all, err)
	}
	other := all[0]
	other.Reason = "it was allowed"
	for what, tt := range map[string]struct {
		report audit.Report
		by     []audit.Adjudication
		want   bool
	}{
		"its own":             {after, all, true},
		"none":                {after, nil, false},
		"another reason":      {after, []audit.Adjudication{other}, false},
		"twice":               {after, append(all, all...), false},
		"before, none":        {before, nil, true},
		"before, and decided": {before, all, false},
	} {
		if got := tt.report.Follows(tt.by); got != tt.want {
			t.Errorf("%s: %t", what, got)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if reopened, _, _ := found(t, dir, o); !bytes.Equal(encoded(t, reopened), encoded(t, before)) {
		t.Error("without the decision the audit says something else than before")
	}
}

// TestAdjudicationsAreADirectory: nothing is read through what is none.
func TestAdjudicationsAreADirectory(t *testing.T) {
	dir, o := leaks(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, audit.AttestationsDir)); err != nil {
		t.Fatal(err)
	}
	_, _, err := audit.Run(os.DirFS(dir), o)
	var fault *trajectory.Fault
	if !errors.As(err, &fault) || fault.File != audit.AttestationsDir || fault.Reason != "is not a directory" {
		t.Error(err)
	}
}

// FuzzAdjudication has the right key sign whatever comes: what is taken for a
// decision is one about this run, in the one form that it has.
func FuzzAdjudication(f *testing.F) {
	dir, o := leaks(f)
	_, at, run := found(f, dir, o)
	good, err := canonical.Encode(audit.NewRuling(run, at, audit.Void, "a page held the record", decidedAt))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"void"`), []byte(`"dismiss"`), 1))
	f.Add(bytes.Replace(good, []byte(`"events":`), []byte(`"events":1`), 1))
	f.Add(bytes.Replace(good, []byte(`page`), []byte("\\n"), 1))
	f.Add(bytes.Replace(good, []byte(`"sha256:`), []byte(`"sha256:0`), 1))
	f.Fuzz(func(t *testing.T, payload []byte) {
		envelope, err := sign.Seal(runs.Key(), audit.AdjudicationType, payload)
		if err != nil {
			t.Fatal(err)
		}
		all, err := audit.DecodeAdjudications(append(envelope, '\n'), run)
		var fault *trajectory.Fault
		if err != nil {
			if !errors.As(err, &fault) || fault.File != audit.AdjudicationsFile {
				t.Fatalf("%v is no fault of the file", err)
			}
			return
		}
		r := all[0].Ruling
		again, err := canonical.Encode(r)
		if err != nil || !bytes.Equal(again, payload) || r.RunID != run.Manifest.RunID || r.Head != run.End.Head || audit.BadReason(r.Reason) != "" || len(r.File()) != len("attestations/adjudication-0123456789abcdef.dsse.json") {
			t.Fatalf("accepted %q (%v)", payload, err)
		}
	})
}

// FuzzAdjudications: a package's file of decisions is refused as a fault or is
// one envelope a line, a decision or its countersignature.
func FuzzAdjudications(f *testing.F) {
	dir, o := leaks(f)
	_, at, run := found(f, dir, o)
	envelope, err := audit.NewRuling(run, at, audit.Void, "a page held the record", decidedAt).Seal(runs.Key())
	if err != nil {
		f.Fatal(err)
	}
	line := append(envelope, '\n')
	f.Add(line)
	f.Add(append(bytes.Clone(line), line...))
	dismissed, err := audit.NewRuling(run, at, audit.Dismiss, "a page held the record", decidedAt).Seal(runs.Key())
	if err != nil {
		f.Fatal(err)
	}
	by := runs.OtherKey()
	agreed, err := audit.NewCountersignature(audit.Adjudication{Ruling: audit.NewRuling(run, at, audit.Dismiss, "a page held the record", decidedAt), SHA256: canonical.Digest(dismissed)}, by.Public(), decidedAt).Seal(by)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(string(dismissed) + "\n" + string(agreed) + "\n"))
	f.Add(envelope)
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := audit.DecodeAdjudications(data, run)
		var fault *trajectory.Fault
		if err != nil && (!errors.As(err, &fault) || fault.File != audit.AdjudicationsFile) {
			t.Fatalf("%v is no fault of the file", err)
		}
		lines := len(all)
		for _, a := range all {
			if a.Countersigned != nil {
				lines++
			}
		}
		if err == nil && (len(all) == 0 || lines != bytes.Count(data, []byte("\n"))) {
			t.Fatalf("%d decisions in %q", len(all), data)
		}
	})
}
