package submit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
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
		v, err := Verify(os.DirFS(mustBuild(t, tt.c).Path), tt.o)
		if err != nil || v.NotRerun != tt.want {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	wrong := *scored.Gold
	wrong.Answers = map[string]string{firstTask: "15", secondTask: "Tolmey"}
	scored.Out = t.TempDir()
	if _, err := Verify(os.DirFS(mustBuild(t, scored).Path), Options{Gold: &wrong}); !errors.Is(err, audit.ErrGold) {
		t.Errorf("other answers: %v", err)
	}
}

// TestRerunWithBodies: a report that was made with whole documents is made again with
// all of them; it names none that the run does not have the digest of.
func TestRerunWithBodies(t *testing.T) {
	c := config(t, two)
	var bodies []string
	for line := range strings.Lines(string(load(t, c.Run)[trajectory.JournalFile])) {
		e := struct {
			Payload struct {
				Head   string `json:"head"`
				Output string `json:"output_sha256"`
			} `json:"payload"`
		}{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if canonical.Digest([]byte(e.Payload.Head)) == e.Payload.Output && !slices.Contains(bodies, e.Payload.Head) {
			bodies = append(bodies, e.Payload.Head)
		}
	}
	if len(bodies) < 2 {
		t.Fatalf("the run shows %d bodies whole", len(bodies))
	}
	one, both := map[string][]byte{}, map[string][]byte{}
	for i, body := range bodies[:2] {
		both[canonical.Digest([]byte(body))] = []byte(body)
		if i == 0 {
			one[canonical.Digest([]byte(body))] = []byte(body)
		}
	}
	c.Bodies = both
	p := mustBuild(t, c)
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"with both":   {Options{Gold: c.Gold, Bodies: both}, ""},
		"with one":    {Options{Gold: c.Gold, Bodies: one}, "needs 1 document that the audit had"},
		"with none":   {Options{Gold: c.Gold}, "needs 2 documents that the audit had"},
		"in no sense": {Options{Bodies: both}, "no gold answers"},
	} {
		v, err := Verify(os.DirFS(p.Path), tt.o)
		if err != nil || v.NotRerun != tt.want {
			t.Errorf("%s: %+v, %v, want %q", name, v, err, tt.want)
		}
		if err == nil && v.NotRerun != "" {
			if err := v.Rerun(os.DirFS(p.Path), Options{Gold: c.Gold, Bodies: both}); err != nil || v.NotRerun != "" {
				t.Errorf("%s, and given all later: %q, %v", name, v.NotRerun, err)
			}
		}
	}
	files := load(t, p.Path)
	r, err := audit.DecodeReport(files[audit.ReportFile])
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*audit.Report){
		"another body":         func(r *audit.Report) { r.Inputs.Bodies[1] = canonical.Digest([]byte("another")) },
		"one twice":            func(r *audit.Report) { r.Inputs.Bodies[1] = r.Inputs.Bodies[0] },
		"one that is not used": func(r *audit.Report) { r.Inputs.Bodies = r.Inputs.Bodies[:1] },
	} {
		forged := r
		forged.Inputs.Bodies = slices.Clone(r.Inputs.Bodies)
		change(&forged)
		data, err := forged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		pkg := memory(files)
		pkg[audit.ReportFile].Data = data
		signAll(t, pkg)
		v, err := Verify(pkg, Options{Gold: c.Gold, Bodies: both})
		var fault *trajectory.Fault
		if same := name == "one that is not used"; same && (err != nil || v.NotRerun != "") || !same && (!errors.As(err, &fault) || fault.File != audit.ReportFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Out, c.Bodies = t.TempDir(), map[string][]byte{canonical.Digest([]byte("another")): []byte("another")}
	var stray *StrayBody
	if _, err := Build(t.Context(), c); !errors.As(err, &stray) {
		t.Errorf("with a body of another run: %v", err)
	}
}

// TestReportsOfTheirOwn: what a report says that follows from itself, but not
// from the run, is found when the audit is run again.
func TestReportsOfTheirOwn(t *testing.T) {
	c := config(t, two)
	p := mustBuild(t, c)
	files := load(t, p.Path)
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
		if v, err := Verify(pkg, byAnother()); err != nil || v.NotRerun == "" {
			t.Errorf("%s, without gold: %v", name, err)
		}
		_, err = Verify(pkg, Options{Gold: c.Gold, Harness: func() (trajectory.Harness, error) { return c.Harness, nil }})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != audit.ReportFile || !strings.HasPrefix(fault.Reason, "is not what the audit gives when it is run again: ") {
			t.Fatalf("%s: %v", name, err)
		}
		want := map[string]string{"another title": "see AUD-2", "a finding left out": "see AUD-7", "another threat model": "the checks agree, and what is said besides does not"}[name]
		if !strings.HasSuffix(fault.Reason, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		_, err = Verify(pkg, Options{Gold: c.Gold, Harness: func() (trajectory.Harness, error) {
			return trajectory.Harness{Version: "v1.0.1", Commit: "fab1e", ExecutableSHA256: canonical.Digest(nil)}, nil
		}})
		if err == nil || !strings.HasSuffix(err.Error(), want+"; it was made by another program, gaia v1.0.0, and this is gaia v1.0.1 of commit fab1e: another version may find otherwise") {
			t.Errorf("%s, by another program: %v", name, err)
		}
		_, err = Verify(pkg, Options{Gold: c.Gold, Harness: func() (trajectory.Harness, error) { return trajectory.Harness{}, errors.New("it is gone") }})
		if err == nil || !strings.HasSuffix(err.Error(), want+"; whether this program made it cannot be told: it is gone") {
			t.Errorf("%s, by a program that does not know itself: %v", name, err)
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

// TestSignedAbout: what the signer says well of another run, of a part of the audit, or
// not at all, is refused for that, where no gold answers are at hand.
func TestSignedAbout(t *testing.T) {
	noted := config(t, change(t, two, "-- task "+secondTask+" --", "-- event run_resumed --\n{\"unsubmittable\":\"writing: no space\"}\n-- task "+secondTask+" --"))
	noted.AllowDirty = true
	for name, tt := range map[string]struct {
		c         Config
		report    func(*audit.Report)
		statement func(*Predicate)
		file, why string
	}{
		"another run":        {config(t, two), func(r *audit.Report) { r.RunID = "01JAAAAAAAAAAAAAAAAAAAAAAA" }, nil, audit.ReportFile, "is about another run"},
		"no rehearsal":       {config(t, two), func(r *audit.Report) { r.Rehearsal = false }, nil, audit.ReportFile, "is about another run"},
		"a part of it":       {config(t, two), partly, nil, audit.ReportFile, "is about other files than the package's"},
		"a failed recording": {noted, nil, func(s *Predicate) { s.RecordingFailed = "" }, AttestationFile, "does not say that recording failed, which the journal does"},
		"as it is":           {noted, nil, nil, "", ""},
	} {
		tt.c.Out = t.TempDir()
		p := mustBuild(t, tt.c)
		pkg, report, says := memory(load(t, p.Path)), p.Report, p.Statement.Predicate.says()
		if tt.report != nil {
			tt.report(&report)
		}
		if tt.statement != nil {
			tt.statement(&says)
		}
		var err error
		if pkg[audit.ReportFile].Data, err = report.Encode(); err != nil {
			t.Fatal(err)
		}
		listed(pkg)
		resign(t, pkg, runs.Key(), func(s *Statement) { s.Predicate = mustEvidence(t, p.Run, report, says).statement().Predicate })
		if tt.why != "" {
			wantFault(t, name, pkg, tt.why, tt.file)
		} else if _, err := Verify(pkg, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// partly makes a report say that its checks are those that were asked for.
func partly(r *audit.Report) {
	for _, c := range r.Checks {
		r.Only = append(r.Only, c.ID)
	}
	r.Attestation.Clean, r.Attestation.StrictClean = false, false
}

// TestReportLeavesOut: without gold answers, what is found without them must be in
// the report.
func TestReportLeavesOut(t *testing.T) {
	c := config(t, leaked)
	c.AllowDirty = true
	files := load(t, mustBuild(t, c).Path)
	v, err := Verify(memory(files), Options{})
	if err != nil || v.NotRerun == "" {
		t.Fatalf("%+v, %v", v, err)
	}
	r, err := audit.DecodeReport(files[audit.ReportFile])
	if err != nil {
		t.Fatal(err)
	}
	grave := func(f audit.Finding) bool { return f.Severity == audit.Critical || f.Severity == audit.High }
	left := 0
	for i := range r.Checks {
		k := &r.Checks[i]
		before := len(k.Findings)
		k.Findings = slices.DeleteFunc(k.Findings, grave)
		left += before - len(k.Findings)
		if k.Status == audit.Fail {
			k.Status, k.Severity = audit.Pass, ""
		}
		for _, f := range k.Findings {
			k.Severity = f.Severity
			if f.Severity == audit.ToReview {
				k.Status = audit.Review
				break
			}
		}
	}
	if left == 0 {
		t.Fatal("nothing is left out")
	}
	var results []rundir.Result
	for _, task := range v.Run.Tasks {
		results = append(results, v.Run.Result(task))
	}
	r.Totals.Critical, r.Totals.High = 0, 0
	r.Totals.Raw, r.Totals.Clean, r.Totals.Worst = audit.Rescore(slices.Values(results), r.Checks)
	r.Attestation.Clean, r.Attestation.CriticalFailures, r.Attestation.WarnFailures = true, []string{}, []string{}
	r.Attestation.StrictClean = !slices.ContainsFunc(r.Checks, func(c audit.CheckReport) bool { return c.Status == audit.Review })
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.DecodeReport(data); err != nil {
		t.Fatalf("the report does not follow from itself, which is not the matter here: %v", err)
	}
	pkg := memory(files)
	pkg[audit.ReportFile].Data = data
	listed(pkg)
	resign(t, pkg, runs.Key(), func(s *Statement) {
		p := &s.Predicate
		*p = mustEvidence(t, v.Run, r, p.says()).statement().Predicate
	})
	_, err = Verify(pkg, Options{})
	var fault *trajectory.Fault
	if want := "leaves out what the audit finds when it is run again, even without the gold answers: CRITICAL " + leakRule; !errors.As(err, &fault) || fault.File != audit.ReportFile || !strings.HasPrefix(fault.Reason, want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestGoldAtHand: whether the audit had the gold answers is not the signer's word
// alone.
func TestGoldAtHand(t *testing.T) {
	c := config(t, two)
	files := load(t, mustBuild(t, c).Path)
	pkg := memory(files)
	resign(t, pkg, runs.Key(), func(s *Statement) { claimGold(&s.Predicate, false, Absent) })
	wantFault(t, "audited with gold, it says without", pkg, "is not what the audit gives", audit.ReportFile)
	blind := config(t, two)
	blind.Gold, blind.AllowDirty = nil, true
	pkg = memory(load(t, mustBuild(t, blind).Path))
	resign(t, pkg, runs.Key(), func(s *Statement) { claimGold(&s.Predicate, true, BySigner) })
	if _, err := Verify(pkg, byAnother()); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(pkg, Options{Gold: c.Gold}); err == nil || !strings.Contains(err.Error(), "is not what the audit gives") {
		t.Errorf("audited without gold, it says with: %v", err)
	}
}

// claimGold lets a statement say whether the audit had the gold answers.
func claimGold(p *Predicate, had bool, status Status) {
	p.GoldAtHand = had
	for i := range p.Claims {
		if p.Claims[i].Claim == "official-verdicts" {
			p.Claims[i].Status = status
		}
	}
}
