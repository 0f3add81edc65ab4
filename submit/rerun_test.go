package submit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures/runs"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestRerun: the audit is run again as it was run, with the gold answers or
// without, or the result says that it was not.
func TestRerun(t *testing.T) {
	scored := config(t, two)
	blind := config(t, two)
	blind.Gold, blind.AllowDirty = nil, true
	test := config(t, planned(change(t, change(t, change(t, two, "gold: 14\n", ""), "gold: Tolmey\n", ""), "-- split validation --\ncarried gold\n", "-- split test --\n"),
		`{"dataset":{"split":"test"}}`))
	voided := config(t, leaked)
	decide(t, voided, ruling(t, voided, audit.Void, leakRule, firstTask), ruling(t, voided, audit.Void, leakRule, secondTask))
	for name, tt := range map[string]struct {
		c    Config
		o    Options
		want string
	}{
		"with gold":                         {scored, Options{Gold: scored.Gold}, ""},
		"without":                           {scored, Options{}, "no gold answers"},
		"once":                              {scored, Options{Gold: scored.Gold, Once: true}, "not asked for"},
		"audited without gold":              {blind, Options{}, ""},
		"audited without, and given it":     {blind, Options{Gold: scored.Gold}, ""},
		"unscored":                          {test, Options{}, ""},
		"with void tasks":                   {voided, Options{Gold: voided.Gold}, ""},
		"with void tasks, and without gold": {voided, Options{}, "no gold answers"},
	} {
		tt.c.Out = t.TempDir()
		v, err := Verify(os.DirFS(mustBuild(t, tt.c).Dir), tt.o)
		if err != nil || v.NotRerun != tt.want {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	wrong := *scored.Gold
	wrong.Answers = map[string]string{firstTask: "15", secondTask: "Tolmey"}
	scored.Out = t.TempDir()
	if _, err := Verify(os.DirFS(mustBuild(t, scored).Dir), Options{Gold: &wrong}); !errors.Is(err, audit.ErrGold) {
		t.Errorf("other answers: %v", err)
	}
}

// TestReportsOfTheirOwn: what a report says that follows from itself, but not
// from the run, is found when the audit is run again.
func TestReportsOfTheirOwn(t *testing.T) {
	c := config(t, two)
	p := mustBuild(t, c)
	files := load(t, p.Dir)
	edit := func(name string, change func(*audit.Report)) {
		r, err := audit.DecodeReport(files[audit.ReportFile])
		if err != nil {
			t.Fatal(err)
		}
		change(&r)
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		pkg := memory(files)
		pkg[audit.ReportFile].Data = data
		signAll(t, pkg)
		if v, err := Verify(pkg, Options{}); err != nil || v.NotRerun == "" {
			t.Errorf("%s, without gold: %v", name, err)
		}
		_, err = Verify(pkg, Options{Gold: c.Gold, Harness: c.Harness})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != audit.ReportFile || !strings.HasPrefix(fault.Reason, "is not what the audit gives when it is run again: ") {
			t.Fatalf("%s: %v", name, err)
		}
		want := map[string]string{"another title": "see AUD-2", "a finding left out": "see AUD-7", "another threat model": "the checks agree, and what is said besides does not"}[name]
		if !strings.HasSuffix(fault.Reason, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		_, err = Verify(pkg, Options{Gold: c.Gold, Harness: trajectory.Harness{Version: "v1.0.1", Commit: "fab1e", ExecutableSHA256: sign.Digest(nil)}})
		if err == nil || !strings.HasSuffix(err.Error(), want+"; it was made by another program, gaia v1.0.0, and this is gaia v1.0.1 of commit fab1e: another version may find otherwise") {
			t.Errorf("%s, by another program: %v", name, err)
		}
	}
	at := func(r *audit.Report, id string) *audit.CheckReport {
		return &r.Checks[slices.IndexFunc(r.Checks, func(c audit.CheckReport) bool { return c.ID == id })]
	}
	edit("another title", func(r *audit.Report) { at(r, "AUD-2").Title = "all is well" })
	edit("a finding left out", func(r *audit.Report) {
		c := at(r, "AUD-7")
		r.Totals.Info -= len(c.Findings)
		c.Findings, c.Severity = []audit.Finding{}, ""
	})
	edit("another threat model", func(r *audit.Report) { r.ThreatModel = "none" })
}

// TestGoldAtHand: whether the audit had the gold answers is not the signer's word
// alone.
func TestGoldAtHand(t *testing.T) {
	c := config(t, two)
	files := load(t, mustBuild(t, c).Dir)
	pkg := memory(files)
	claimed := func(p *Predicate, had bool, status Status) {
		p.GoldAtHand = had
		for i := range p.Claims {
			if p.Claims[i].Claim == "official-verdicts" {
				p.Claims[i].Status = status
			}
		}
	}
	resign(t, pkg, runs.Key(), func(s *Statement) { claimed(&s.Predicate, false, Absent) })
	wantFault(t, "audited with gold, it says without", pkg, "is not what the audit gives", audit.ReportFile)
	blind := config(t, two)
	blind.Gold, blind.AllowDirty = nil, true
	pkg = memory(load(t, mustBuild(t, blind).Dir))
	resign(t, pkg, runs.Key(), func(s *Statement) { claimed(&s.Predicate, true, ByCheck) })
	if _, err := Verify(pkg, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(pkg, Options{Gold: c.Gold}); err == nil || !strings.Contains(err.Error(), "is not what the audit gives") {
		t.Errorf("audited without gold, it says with: %v", err)
	}
}
