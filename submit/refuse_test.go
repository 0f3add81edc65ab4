package submit

import (
	"bytes"
	"context"
	"errors"
	"github.com/gaia-harness/gaia/internal/rundir"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// unlisted is two in a split that has more tasks.
func unlisted(t testing.TB) string {
	t.Helper()
	return change(t, two, "-- split validation --\ncarried gold\n"+firstTask+"\n"+secondTask+"\n", "")
}

// subset is unlisted by a plan that says it has all tasks.
func subset(t testing.TB) string { return planned(unlisted(t), `{"dataset":{"selection":"all"}}`) }

// TestRefusals: each reason has its sentence, nothing is left behind, and
// AllowDirty says the same everywhere.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name string
		text string
		edit func(t *testing.T, c *Config)
		want []string // starts of the reasons
	}{
		{"no submit intent", planned(two, `{"submit_intent":false}`), nil,
			[]string{"the run was planned without --submit-intent"}},
		{"an unlabelled subset", subset(t), nil,
			[]string{`the plan says that all tasks of split "validation" were selected, but has 2 of 7: an unlabelled subset`}},
		{"no split", planned(two, `{"dataset":{"split":""}}`), nil, []string{"the plan declares no split", "AUD-7 split-integrity "}},
		{"recording failed", two, func(t *testing.T, c *Config) {
			if err := os.WriteFile(filepath.Join(c.Run, rundir.MarkerFile), []byte("no space left on \x1b device\xff\n\n\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, []string{`recording failed during the run, so part of it has no evidence: "no space left on \x1b device�"`}},
		{"a grader's cache that was written to", change(t, two, "-- task "+firstTask+" --", `-- patch security_event --
{"bad":1,"entries":[{"name":"`+strings.Repeat("ab", 32)+`","reason":"the signature is not good"}]}
-- task `+firstTask+" --"), nil, []string{"AUD-4 grader-isolation fails (CRITICAL): line 2 of events.jsonl: "}},
		{"no gold", two, func(_ *testing.T, c *Config) { c.Gold = nil }, []string{"AUD-", "AUD-5 normalization-collision could not see: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, tt.text)
			if tt.edit != nil {
				tt.edit(t, &c)
			}
			_, err := Build(context.Background(), c)
			var refused *Refusal
			if !errors.As(err, &refused) {
				t.Fatalf("%v is no refusal", err)
			}
			nothingLeft(t, c.Out)
			for _, want := range tt.want {
				found := false
				for _, reason := range refused.Reasons {
					found = found || strings.HasPrefix(reason, want)
				}
				if !found {
					t.Errorf("no reason begins with %q: %q", want, refused.Reasons)
				}
			}
			if !strings.Contains(err.Error(), refused.Reasons[0]) {
				t.Errorf("the error does not tell the reason: %v", err)
			}
			c.AllowDirty = true
			if strings.Contains(refused.Reasons[0], "an unlabelled subset") {
				return // it does not verify, so no flag makes a package of it: TestSelectionOfPackages
			}
			checkDirty(t, c, refused.Reasons)
		})
	}
}

// checkDirty builds a package all the same and looks for the marks.
func checkDirty(t *testing.T, c Config, reasons []string) {
	t.Helper()
	p := mustBuild(t, c)
	s := p.Statement.Predicate
	if !strings.HasSuffix(p.Name, "-dirty") || s.Name != p.Name || !s.Dirty || !s.NotForLeaderboard ||
		strings.Join(s.DirtyReasons, "\n") != strings.Join(reasons, "\n") {
		t.Errorf("%s: dirty %v, not for a leaderboard %v: %q; refused for %q", p.Name, s.Dirty, s.NotForLeaderboard, s.DirtyReasons, reasons)
	}
	readme := load(t, p.Path)[ReadmeFile]
	if !bytes.Contains(readme, []byte("# "+p.Name+"\n")) || !bytes.Contains(readme, []byte("**Dirty: not for a leaderboard.**")) {
		t.Error("README.md does not say that the package is dirty")
	}
	for _, reason := range reasons {
		if !bytes.Contains(readme, []byte("\n- "+code(reason)+"\n")) {
			t.Errorf("README.md does not tell the reason %q", reason)
		}
	}
	if bytes.ContainsRune(readme, '\x1b') {
		t.Error("README.md holds a terminal escape")
	}
	if v, err := Verify(os.DirFS(p.Path), Options{}); err != nil || v.Run.Marked != s.RecordingFailed {
		t.Error(v, err)
	}
	if _, err := Build(context.Background(), c); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("twice: %v", err)
	}
}

// TestNotDirty: AllowDirty does not mark what would not have been refused.
func TestNotDirty(t *testing.T) {
	c := config(t, two)
	c.AllowDirty = true
	if p := mustBuild(t, c); p.Statement.Predicate.Dirty || strings.Contains(p.Name, "dirty") {
		t.Errorf("%s is dirty: %q", p.Name, p.Statement.Predicate.DirtyReasons)
	}
	if _, err := Build(context.Background(), c); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("twice: %v", err)
	}
	nothingLeft(t, c.Out, mustName(t, c.Out))
}

func mustName(t *testing.T, out string) string {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return entries[0].Name()
}

// TestLabelledSubset: a subset that says so is no reason to refuse.
func TestLabelledSubset(t *testing.T) {
	mustBuild(t, config(t, unlisted(t)))
}

// TestForeignKey: no one can package another's run, clean or not.
func TestForeignKey(t *testing.T) {
	for _, text := range []string{two, subset(t)} {
		for _, allow := range []bool{false, true} {
			c := config(t, text)
			c.Key, c.AllowDirty = otherKey(t), allow
			_, err := Build(context.Background(), c)
			var refused *Refusal
			if !errors.As(err, &refused) {
				t.Fatalf("%v is no refusal", err)
			}
			want := "the signing key is " + c.Key.Public().ID() + ", but the run's plan was signed by " + runs.Key().Public().ID()
			if refused.Reasons[0] != want {
				t.Errorf("%q", refused.Reasons)
			}
			nothingLeft(t, c.Out)
		}
	}
}

// TestStrict: what needs review by a person keeps a run from being packaged only
// where that is asked for.
func TestStrict(t *testing.T) {
	c := config(t, two)
	c.Strict = true
	mustBuild(t, c)
	const asked = "In which town did the clockmaker Odile Varn build the tower clock of the harbour museum in the year 1852?"
	c = config(t, strings.NewReplacer("How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?", asked, "gold: 14", "gold: Brellin", "answer 14", "answer Brellin",
		"web_fetch {\"url\":\"http://almanac.example/heights.html\"}", "web_search {\"query\":\""+asked+"\"}",
		"The lamps of Ostrel were fourteen", "Results for \""+asked+"\"\n1. Odile Varn kept a workshop in Brellin. The lamps were fourteen").Replace(two))
	mustBuild(t, c)
	c.Strict, c.Date = true, "2031-02-04"
	_, err := Build(context.Background(), c)
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Final || !refused.Strict || !refused.Audit || refused.PlanKey != "" || !strings.HasSuffix(strings.SplitN(refused.Reasons[0], ":", 2)[0], "needs review by a person, and --strict was given") {
		t.Errorf("%v", err)
	}
	nothingLeft(t, c.Out, mustName(t, c.Out)) // the first package alone
}

// TestSubmitter: who submits stands in statement and README as their own word, or
// is refused.
func TestSubmitter(t *testing.T) {
	c := config(t, two)
	c.Submitter = &Submitter{Organisation: "Lab of `Ostrel`", Contact: "lab@ostrel.example"}
	p := mustBuild(t, c)
	if got := p.Statement.Predicate.Submitter; got == nil || *got != *c.Submitter {
		t.Errorf("%+v", got)
	}
	if readme := load(t, p.Path)[ReadmeFile]; !bytes.Contains(readme, []byte("- submitted by, as they say: `Lab of \\x60Ostrel\\x60`, contact `lab@ostrel.example`\n")) {
		t.Errorf("README.md does not name the submitter:\n%s", readme)
	}
	for _, by := range []Submitter{{}, {Organisation: "a\nb"}, {Contact: "\x1b[2J"}, {Organisation: " a"}, {Contact: strings.Repeat("a", maxNamed+1)}, {Organisation: "\xff"}, {Contact: "a\u202eb"}} {
		c.Submitter = &by
		if _, err := Build(context.Background(), c); err == nil {
			t.Errorf("%+v is taken", by)
		}
		if !utf8.ValidString(by.Organisation) {
			continue // no statement can hold it
		}
		pkg := memory(load(t, p.Path))
		resign(t, pkg, runs.Key(), func(s *Statement) { s.Predicate.Submitter = &by })
		wantFault(t, by.Organisation+by.Contact, pkg, "", AttestationFile)
	}
}

// TestAuditReasons: the first of the gravest findings stands for all of them.
func TestAuditReasons(t *testing.T) {
	grave := audit.Finding{Severity: audit.High, Seq: 6, TaskID: "a\x1b", Got: "`x`", Want: "y"}
	tests := []struct {
		name  string
		check audit.CheckReport
		want  string
	}{
		{"several", audit.CheckReport{ID: "AUD-1", Name: "n", Status: audit.Fail, Severity: audit.High,
			Findings: []audit.Finding{{Severity: audit.Info}, grave, {Severity: audit.ToReview}, {Severity: audit.High}, {Severity: audit.High}}},
			"AUD-1 n fails (HIGH): task \"a\\x1b\", line 7 of events.jsonl: \"`x`\", where there should be \"y\", and 2 more"},
		{"gaps of the gate", audit.CheckReport{ID: "AUD-1", Name: "n", Gate: true, Status: audit.Skip, Gaps: []string{"one\n", "two"}},
			"AUD-1 n could not see: one\\u000a\nAUD-1 n could not see: two"},
		{"gaps of another check", audit.CheckReport{ID: "AUD-8", Name: "n", Status: audit.Skip, Gaps: []string{"one"}}, ""},
		{"review", audit.CheckReport{ID: "AUD-1", Name: "n", Gate: true, Status: audit.Review, Severity: audit.ToReview, Findings: []audit.Finding{{Severity: audit.ToReview}}}, ""},
		{"no finding", audit.CheckReport{ID: "AUD-1", Name: "n", Status: audit.Fail, Severity: audit.Critical}, "AUD-1 n fails (CRITICAL): without a finding"},
	}
	run := mustBuild(t, config(t, two)).Run
	for _, tt := range tests {
		clean := audit.Report{Attestation: audit.Attestation{Clean: true}, Checks: []audit.CheckReport{tt.check}}
		got := strings.Join(reasons(run, clean, ""), "\n")
		if got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	if got := reasons(run, audit.Report{}, ""); len(got) != 1 || got[0] != "the audit does not call the run clean" {
		t.Errorf("an unclean report without a finding: %q", got)
	}
}
