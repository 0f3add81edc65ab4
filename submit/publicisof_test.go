package submit

import (
	"bytes"
	"errors"
	"github.com/gaia-harness/gaia/internal/rundir"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestPublicIsOf: a public package is held against a full one of the same run, made
// on another day, and of others.
func TestPublicIsOf(t *testing.T) {
	long.NotRaced(t)
	first, _ := runs.Varied()
	made := func(c Config, change func(*Config)) *Verified {
		t.Helper()
		c.Out = t.TempDir()
		change(&c)
		v, err := Verify(os.DirFS(mustBuild(t, c).Path), Options{Gold: c.Gold})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	same := func(*Config) {}
	later := func(c *Config) { c.Date, c.Submitter = "2032-01-02", &Submitter{Organisation: "Harbour"} }
	c, marked := variedConfig(t, first), config(t, two)
	put(t, filepath.Join(marked.Run, rundir.MarkerFile), []byte("writing events.jsonl: no space left"))
	marked.AllowDirty = true
	for what, c := range map[string]Config{"a run with findings": c, "a clean run": config(t, two), "one that was not recorded": marked} {
		public := c
		public.Public, public.Out = true, t.TempDir()
		p, err := VerifyPublic(os.DirFS(mustBuild(t, public).Path), Options{})
		if err != nil {
			t.Fatal(what, err)
		}
		for _, change := range []func(*Config){same, later} {
			if err := p.IsOf(made(c, change)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	c.Public, c.Out = true, t.TempDir()
	files, full := load(t, mustBuild(t, c).Path), made(variedConfig(t, first), same)
	says := func(change func(*Predicate)) func(fstest.MapFS) {
		return func(p fstest.MapFS) { republish(t, p, func(s *Statement) { change(&s.Predicate) }) }
	}
	replaced := func(name, old, new string) func(fstest.MapFS) {
		return func(p fstest.MapFS) {
			p[name].Data = bytes.Replace(p[name].Data, []byte(old), []byte(new), 1)
			republish(t, p, nil)
		}
	}
	for _, tt := range []struct {
		name string
		edit func(fstest.MapFS)
		file string
	}{
		{"signed again", says(func(*Predicate) {}), ""},
		{"another record", replaced(rundir.ResultsFile, `"latency_ms":`, `"latency_ms":1`), rundir.ResultsFile},
		{"another summary", func(p fstest.MapFS) {
			p[MetadataFile].Data = bytes.Replace(p[MetadataFile].Data, []byte(`"retried_calls":`), []byte(`"retried_calls":1`), 1)
			says(func(p *Predicate) { p.Exceptions.RetriedCalls += 10 })(p)
		}, MetadataFile},
		{"more findings", says(func(p *Predicate) { p.Audit.Checks[0].Findings++ }), AttestationFile},
		{"a prettier audit", says(func(p *Predicate) {
			for i, c := range p.Audit.Checks {
				p.Audit.Checks[i] = CheckResult{Findings: 1, ID: c.ID, Status: audit.Pass}
			}
			p.Audit = newAuditResult(p.Audit.Checks)
			p.DirtyReasons, p.Dirty, p.NotForLeaderboard = []string{}, false, p.Rehearsal
			p.Name = name(p.Date, p.RunID, false, true)
		}), AttestationFile},
		{"without the gold answers", says(func(p *Predicate) {
			p.GoldAtHand = false
			p.Claims[slices.IndexFunc(p.Claims, func(c Claim) bool { return c.Claim == "official-verdicts" })].Status = Absent
		}), AttestationFile},
		{"another journal", says(func(p *Predicate) { p.Withheld[slices.IndexFunc(p.Withheld, isJournal)].SHA256 = p.Journal.Head }), AttestationFile},
		{"another date", says(func(p *Predicate) { p.Date, p.Name = "2033-01-02", strings.Replace(p.Name, p.Date, "2033-01-02", 1) }), ""},
	} {
		pkg := memory(files)
		tt.edit(pkg)
		p, err := VerifyPublic(pkg, byAnother())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		err = p.IsOf(full)
		wantFaultIn(t, tt.name, err, tt.file)
		if tt.name == "without the gold answers" && !strings.Contains(err.Error(), "was made without the gold answers, and the full package with them; ") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	p, err := VerifyPublic(memory(files), Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaultIn(t, "another run", p.IsOf(made(config(t, two), same)), plan.ManifestFile)
	other, stated := *full, full.Statement
	stated.Predicate.GoldAtHand = false
	other.Statement = stated
	for cause, v := range map[string]*Verified{"was made with the gold answers, and the full package without them; ": &other,
		"was made after findings were decided about, and the full package before; ": undecided(t, full)} {
		if err := p.IsOf(v); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%v; want %s", err, cause)
		}
	}
	earlier := *p
	earlier.Statement.Predicate.Withheld = slices.DeleteFunc(slices.Clone(p.Statement.Predicate.Withheld), func(w WithheldFile) bool { return w.Name == audit.AdjudicationsFile })
	if err := earlier.IsOf(full); err == nil || !strings.Contains(err.Error(), "was made before findings were decided about, and the full package after; ") {
		t.Errorf("made before the decisions: %v", err)
	}
	other = *full
	run := *full.Run
	run.Marked = "writing events.jsonl: no space left"
	other.Run = &run
	wantFaultIn(t, "a run that was not recorded", p.IsOf(&other), AttestationFile)
}

// undecided is a package without the decisions about its findings.
func undecided(t *testing.T, v *Verified) *Verified {
	t.Helper()
	if len(v.Report.Adjudications) == 0 {
		t.Fatal("nothing was decided")
	}
	before := *v
	before.Report.Adjudications = nil
	return &before
}

func isJournal(w WithheldFile) bool { return w.Name == trajectory.JournalFile }

// wantFaultIn wants an error to be a fault in a file; "": none.
func wantFaultIn(t *testing.T, what string, err error, file string) {
	t.Helper()
	var fault *trajectory.Fault
	if file == "" && err != nil || file != "" && (!errors.As(err, &fault) || fault.File != file) {
		t.Errorf("%s: %v, want a fault in %q", what, err, file)
	}
}
