package submit

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

const thirdTask = "fab1e901-0000-4000-8000-000000000003"

// leaked is a run of three tasks, two of which were answered by the benchmark's
// own record of them.
const leaked = `Two answers of three come from a person's copy of the records.
-- split validation --
carried gold
` + firstTask + `
` + secondTask + `
` + thirdTask + `
-- task ` + firstTask + ` --
question: In which town did the clockmaker Odile Varn build the tower clock of the harbour museum in the year 1852?
gold: Brellin
-- call web_fetch {"url":"http://notes.example/first"} --
[{"task_id": "` + firstTask + `", "Final answer": "Brellin", "file_name": ""}]
-- answer Brellin --
The record says so.
-- task ` + secondTask + ` --
question: Which harbour of the coast of Ostrel closed first, by the almanac of the lighthouse keepers?
gold: Tolmey
-- call web_fetch {"url":"http://notes.example/second"} --
[{"task_id": "` + secondTask + `", "Final answer": "Tolmey", "file_name": ""}]
-- answer Tolmey --
The record says so.
-- task ` + thirdTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- answer 14 --
The almanac counts fourteen lamps.
`

const leakRule = "AUD-1.uuid-with-answer"

// audited audits the run of a configuration.
func audited(t testing.TB, c Config) (audit.Report, *rundir.Run) {
	t.Helper()
	r, run, err := audit.Run(os.DirFS(c.Run), audit.Options{Gold: c.Gold})
	if err != nil {
		t.Fatal(err)
	}
	return r, run
}

// ruling returns a decision about what a rule found in a run, at a task or in
// the whole of it.
func ruling(t testing.TB, c Config, d audit.Decision, rule, task string) audit.Ruling {
	t.Helper()
	r, run := audited(t, c)
	for _, check := range r.Checks {
		for _, f := range check.Findings {
			if f.RuleID == rule && f.TaskID == task {
				return audit.NewRuling(run, f, d, "a page held the record of the task", "2031-02-03T04:05:06.789Z")
			}
		}
	}
	t.Fatalf("%s finds nothing at %q", rule, task)
	return audit.Ruling{}
}

func sealed(t testing.TB, r audit.Ruling, key sign.Key) []byte {
	t.Helper()
	envelope, err := r.Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// decide writes signed decisions into the run.
func decide(t *testing.T, c Config, all ...audit.Ruling) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(c.Run, audit.AttestationsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		put(t, filepath.Join(c.Run, r.File()), sealed(t, r, runs.Key()))
	}
}

// TestVoidTasks: what was decided about goes along, and void tasks are paid for
// nowhere.
func TestVoidTasks(t *testing.T) {
	c := config(t, leaked)
	decide(t, c, ruling(t, c, audit.Void, leakRule, firstTask))
	_, err := Build(context.Background(), c)
	if refused := (*Refusal)(nil); !errors.As(err, &refused) || len(refused.Reasons) != 1 || !strings.Contains(refused.Reasons[0], secondTask) {
		t.Fatalf("one of two findings is open: %v", err)
	}
	decide(t, c, ruling(t, c, audit.Void, leakRule, secondTask))
	p := mustBuild(t, c)
	pkg := load(t, p.Path)
	if names := slices.Sorted(maps.Keys(pkg)); !slices.Equal(names, Files(audit.AdjudicationsFile)) || !slices.IsSorted(Files(audit.AdjudicationsFile)) {
		t.Errorf("files: %q", names)
	}
	s := p.Statement.Predicate
	if s.Dirty || !s.Audit.Clean || s.NotForLeaderboard != s.Rehearsal || *s.Scores.Judged != (Score{1, 3, 333_333}) || s.Scores.Official != (Score{1, 3, 333_333}) ||
		!slices.Equal(s.VoidTasks, []string{firstTask, secondTask}) || p.NotRerun != "" {
		t.Errorf("%+v, %+v, %q", s, *s.Scores, p.NotRerun)
	}
	for i, line := range slices.Collect(bytes.Lines(pkg[LeaderboardFile])) {
		if want := []string{`"model_answer":"",`, `"model_answer":"",`, `"model_answer":"14",`}[i]; !bytes.Contains(line, []byte(want)) {
			t.Errorf("leaderboard.jsonl, line %d: %s", i+1, line)
		}
	}
	for name, want := range map[string]string{rundir.ResultsFile: `"model_answer":"Brellin","official_correct":true`, MetadataFile: `"correct":3`} {
		if !bytes.Contains(pkg[name], []byte(want)) {
			t.Errorf("%s is not as recorded: it lacks %s", name, want)
		}
	}
	for _, want := range []string{"\n2 tasks void by adjudication: counted wrong here", "\n- official scorer: 1 correct, 33.3 %\n",
		"\n- `" + leakRule + "` at task `" + secondTask + "`: `void`; `a page held the record of the task`\n", "\n- `adjudications.jsonl`: "} {
		if !bytes.Contains(pkg[ReadmeFile], []byte(want)) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	lines := slices.Collect(bytes.Lines(pkg[audit.AdjudicationsFile]))
	if len(lines) != 2 || len(p.Report.Adjudications) != 2 || p.Report.Adjudications[0].SHA256 != canonical.Digest(bytes.TrimSuffix(lines[0], []byte("\n"))) {
		t.Errorf("%d lines, told of as %+v", len(lines), p.Report.Adjudications)
	}
}

// TestPoorDecisions: what is well signed and cannot close a finding closes
// nothing, in the run and in its package.
func TestPoorDecisions(t *testing.T) {
	long.NotRaced(t)
	patched := change(t, leaked, "-- task "+firstTask+" --", `-- patch security_event --
{"bad":1,"entries":[{"name":"`+strings.Repeat("ab", 32)+`","reason":"the signature is not good"}]}
-- task `+firstTask+" --")
	of := func(c Config, d audit.Decision) audit.Ruling { return ruling(t, c, d, leakRule, firstTask) }
	tests := []struct {
		name string
		make func(c Config) audit.Ruling
		why  string
	}{
		{"void of the whole run", func(c Config) audit.Ruling { return ruling(t, c, audit.Void, "AUD-4.judge-cache-integrity", "") }, "no task that could be void"},
		{"void of the whole run, of a task", func(c Config) audit.Ruling {
			r := ruling(t, c, audit.Void, "AUD-4.judge-cache-integrity", "")
			r.TaskID = firstTask
			return r
		}, "another check, rule or task"},
		{"dismissal of a critical one about the whole run", func(c Config) audit.Ruling {
			return ruling(t, c, audit.Dismiss, "AUD-4.judge-cache-integrity", "")
		}, "a CRITICAL finding about the whole run cannot be dismissed"},
		{"of another rule", func(c Config) audit.Ruling { r := of(c, audit.Void); r.RuleID = "AUD-1.loader-output"; return r }, "another check, rule or task"},
		{"of another check", func(c Config) audit.Ruling { r := of(c, audit.Void); r.Check = "AUD-2"; return r }, "another check, rule or task"},
		{"of another task", func(c Config) audit.Ruling { r := of(c, audit.Void); r.TaskID = secondTask; return r }, "another check, rule or task"},
		{"of a note", func(c Config) audit.Ruling { return ruling(t, c, audit.Void, "AUD-7.answers-are-public", "") }, "is a note"},
		{"of what was not found", func(c Config) audit.Ruling {
			r := of(c, audit.Void)
			r.Finding = "sha256:" + strings.Repeat("0", 64)
			return r
		}, "has no such finding"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, patched)
			before, _ := audited(t, c)
			decide(t, c, tt.make(c))
			after, _ := audited(t, c)
			if after.Totals.Closed != 0 || after.Totals.Critical != before.Totals.Critical || len(after.Adjudications) != 1 || !strings.Contains(after.Adjudications[0].Unheard, tt.why) {
				t.Errorf("%+v, %+v", after.Totals, after.Adjudications)
			}
			c.AllowDirty = true
			p := mustBuild(t, c)
			if s := p.Statement.Predicate; s.Audit.Clean || !s.Dirty || s.Scores.Official.Correct != 3 || s.VoidTasks != nil {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDismissed: a HIGH finding can be dismissed, and nothing becomes wrong by
// that; what speaks against the run besides still does.
func TestDismissed(t *testing.T) {
	c := config(t, subset(t))
	decide(t, c, ruling(t, c, audit.Dismiss, "AUD-7.unlabelled-subset", ""))
	r, _ := audited(t, c)
	if !r.Attestation.Clean || r.Totals.Closed != 1 || r.Totals.High != 0 || r.Totals.Raw.Correct != 1 {
		t.Errorf("%+v, %+v", r.Attestation, r.Totals)
	}
	_, err := Build(context.Background(), c)
	if refused := (*Refusal)(nil); !errors.As(err, &refused) || len(refused.Reasons) != 1 || !strings.Contains(refused.Reasons[0], "an unlabelled subset") {
		t.Errorf("%v", err)
	}
}

// TestForgedDecisions: in a run directory, what is not a decision of the run's
// key about this very run is no evidence.
func TestForgedDecisions(t *testing.T) {
	long.NotRaced(t)
	again := config(t, "Told again.\n"+leaked)
	saying := func(change func(*audit.Ruling)) func(*testing.T, Config, audit.Ruling) string {
		return func(t *testing.T, c Config, r audit.Ruling) string {
			change(&r)
			decide(t, c, r)
			return r.File()
		}
	}
	tests := []struct {
		name string
		put  func(t *testing.T, c Config, r audit.Ruling) string // what is to be blamed
		why  string
	}{
		{"of another key", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.File()), sealed(t, r, runs.OtherKey()))
			return r.File()
		}, "signed by"},
		{"under another finding's name", func(t *testing.T, c Config, r audit.Ruling) string {
			other := ruling(t, c, audit.Void, leakRule, secondTask)
			put(t, filepath.Join(c.Run, other.File()), sealed(t, r, runs.Key()))
			return other.File()
		}, "which its name is not of"},
		{"of another run", func(t *testing.T, c Config, r audit.Ruling) string {
			other := ruling(t, again, audit.Void, leakRule, firstTask)
			put(t, filepath.Join(c.Run, other.File()), sealed(t, other, runs.Key()))
			return other.File()
		}, "is about another run"},
		{"of another end of the journal", saying(func(r *audit.Ruling) { r.Events++ }), "is about a journal of"},
		{"of another head of the journal", saying(func(r *audit.Ruling) { r.Head = canonical.Digest(nil) }), "is about a journal of"},
		{"of another plan", saying(func(r *audit.Ruling) { r.ManifestSHA256 = canonical.Digest(nil) }), "is about another run"},
		{"of no rehearsal", saying(func(r *audit.Ruling) { r.Rehearsal = false }), "is about another run"},
		{"without a reason", saying(func(r *audit.Ruling) { r.Reason = " " }), "the reason is empty"},
		{"that moves the terminal", saying(func(r *audit.Ruling) { r.Reason = "a\x1b[2J" }), "control character"},
		{"that decides nothing", saying(func(r *audit.Ruling) { r.Decision = "forgive" }), `the decision is "forgive"`},
		{"of another schema", saying(func(r *audit.Ruling) { r.Schema = "gaia.adjudication/2" }), "schema is"},
		{"of no time", saying(func(r *audit.Ruling) { r.Created = "yesterday" }), "is no time"},
		{"of no finding", saying(func(r *audit.Ruling) { r.Finding = "sha256:" + strings.Repeat("0", 16) }), "is no digest"},
		{"that is a plan", func(t *testing.T, c Config, r audit.Ruling) string {
			envelope, err := os.ReadFile(filepath.Join(c.Run, plan.EnvelopeFile))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(c.Run, r.File()), envelope)
			return r.File()
		}, "payload type is"},
		{"of another payload type", func(t *testing.T, c Config, r audit.Ruling) string {
			payload, err := canonical.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			envelope, err := sign.Seal(runs.Key(), PayloadType, payload)
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(c.Run, r.File()), envelope)
			return r.File()
		}, "payload type is"},
		{"with a newline", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.File()), append(sealed(t, r, runs.Key()), '\n'))
			return r.File()
		}, "more than one line"},
		{"empty", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.File()), nil)
			return r.File()
		}, "not the canonical JSON"},
		{"too large", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.File()), bytes.Repeat([]byte(" "), 64<<10+1))
			return r.File()
		}, "is larger than"},
		{"a link", func(t *testing.T, c Config, r audit.Ruling) string {
			aside := filepath.Join(c.Run, "aside")
			put(t, aside, sealed(t, r, runs.Key()))
			if err := os.Symlink(aside, filepath.Join(c.Run, r.File())); err != nil {
				t.Fatal(err)
			}
			return r.File()
		}, "is not a regular file"},
		{"of another name", func(t *testing.T, c Config, r audit.Ruling) string {
			name := audit.AttestationsDir + "/adjudication-x.dsse.json"
			put(t, filepath.Join(c.Run, name), sealed(t, r, runs.Key()))
			return `"` + name + `"`
		}, "is not the name of an adjudication"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, leaked)
			r := ruling(t, c, audit.Void, leakRule, firstTask)
			decide(t, c)
			want := tt.put(t, c, r)
			c.AllowDirty = true
			_, built := Build(context.Background(), c)
			_, _, seen := audit.Run(os.DirFS(c.Run), audit.Options{Gold: c.Gold})
			for what, err := range map[string]error{"packaged": built, "audited": seen} {
				var fault *trajectory.Fault
				if !errors.As(err, &fault) || fault.File != want || !strings.Contains(fault.Reason, tt.why) {
					t.Errorf("%s: %v, want %s: %s", what, err, want, tt.why)
				}
			}
		})
	}
	c := config(t, leaked)
	decide(t, c)
	put(t, filepath.Join(c.Run, audit.AttestationsDir, "notes.txt"), []byte("to be asked"))
	if r, _ := audited(t, c); len(r.Adjudications) != 0 {
		t.Errorf("%+v", r.Adjudications)
	}
}

// TestPackagedDecisions is what can be done to the decisions in a package: by
// anyone, and by the holder of the key, who signs everything again.
func TestPackagedDecisions(t *testing.T) {
	c := config(t, leaked)
	first, second := ruling(t, c, audit.Void, leakRule, firstTask), ruling(t, c, audit.Void, leakRule, secondTask)
	decide(t, c, first, second)
	files := load(t, mustBuild(t, c).Path)
	lines := slices.Collect(bytes.Lines(files[audit.AdjudicationsFile]))
	line := func(r audit.Ruling, key sign.Key) []byte { return append(sealed(t, r, key), '\n') }
	changed := first
	changed.Reason = "it was allowed"
	foreign := config(t, "Told again.\n"+leaked)
	if first.Finding > second.Finding {
		changed = second
		changed.Reason = "it was allowed"
	}
	tests := []struct {
		name string
		data []byte
		file string // blamed when all is signed again
		why  string
	}{
		{"the last removed", lines[0], audit.ReportFile, "what 1 adjudications decide"},
		{"the first removed", lines[1], audit.ReportFile, "what 1 adjudications decide"},
		{"in another order", bytes.Join([][]byte{lines[1], lines[0]}, nil), audit.AdjudicationsFile, "order of the findings' ids"},
		{"doubled", bytes.Join([][]byte{lines[0], lines[0], lines[1]}, nil), audit.AdjudicationsFile, "order of the findings' ids"},
		{"edited and signed again", bytes.Join([][]byte{line(changed, runs.Key()), lines[1]}, nil), audit.ReportFile, "what 2 adjudications decide"},
		{"by another key", bytes.Join([][]byte{line(changed, runs.OtherKey()), lines[1]}, nil), audit.AdjudicationsFile, "signed by"},
		{"of another run", line(ruling(t, foreign, audit.Void, leakRule, firstTask), runs.Key()), audit.AdjudicationsFile, "is about another run"},
		{"a bit changed", append(flipped(lines[0], len(lines[0])/2), lines[1]...), audit.AdjudicationsFile, ""},
		{"the plan's envelope", append(bytes.Clone(files[plan.EnvelopeFile]), '\n'), audit.AdjudicationsFile, "payload type is"},
		{"without a newline", bytes.TrimSuffix(files[audit.AdjudicationsFile], []byte("\n")), audit.AdjudicationsFile, "no newline"},
		{"an empty line", append(bytes.Clone(files[audit.AdjudicationsFile]), '\n'), audit.AdjudicationsFile, "not the canonical JSON"},
		{"nothing", nil, audit.AdjudicationsFile, "is empty"},
	}
	for _, tt := range tests {
		pkg := memory(files)
		pkg[audit.AdjudicationsFile].Data = tt.data
		wantFault(t, tt.name, pkg, "is not what attestation.dsse.json signs", audit.AdjudicationsFile)
		signAll(t, pkg)
		wantFault(t, tt.name+", signed again", pkg, tt.why, tt.file)
	}
	pkg := memory(files)
	signAll(t, pkg)
	if _, err := Verify(pkg, Options{Gold: c.Gold}); err != nil {
		t.Fatalf("signed again without a change: %v", err)
	}
	delete(pkg, audit.AdjudicationsFile)
	wantFault(t, "the file removed", pkg, "is missing", audit.AdjudicationsFile)
	signAll(t, pkg)
	wantFault(t, "the file removed, signed again", pkg, "what 0 adjudications decide", audit.ReportFile)
	plain := load(t, mustBuild(t, config(t, two)).Path)
	pkg = memory(plain)
	pkg[audit.AdjudicationsFile] = &fstest.MapFile{Data: files[audit.AdjudicationsFile]}
	wantFault(t, "added to a package without", pkg, "is not part of this package", audit.AdjudicationsFile)

	paid := func(s string) string {
		return strings.Replace(s, `"model_answer":"","reasoning_trace":"The record says so.","task_id":"`+firstTask, `"model_answer":"Brellin","reasoning_trace":"The record says so.","task_id":"`+firstTask, 1)
	}
	pkg = memory(files)
	pkg[LeaderboardFile].Data = []byte(paid(string(files[LeaderboardFile])))
	signAll(t, pkg)
	wantFault(t, "a void task with its answer", pkg, "is not what the journal gives", LeaderboardFile)
	for what, change := range map[string]func(*Predicate){
		"a void task paid":     func(p *Predicate) { p.Scores.Official.Correct++ },
		"a void task judged":   func(p *Predicate) { p.Scores.Judged.Correct++ },
		"a void task left out": func(p *Predicate) { p.VoidTasks = p.VoidTasks[1:] },
	} {
		pkg = memory(files)
		resign(t, pkg, runs.Key(), func(s *Statement) { change(&s.Predicate) })
		wantFault(t, what, pkg, "does not say what the package's files give", AttestationFile)
	}
}

// signAll has the holder of the key list and sign what the package now holds.
func signAll(t testing.TB, pkg fstest.MapFS) {
	t.Helper()
	listed(pkg)
	resign(t, pkg, runs.Key(), nil)
}

// TestMadeClosed: a report that closes its findings by itself does not verify,
// however it is signed.
func TestMadeClosed(t *testing.T) {
	c := config(t, leaked)
	c.AllowDirty = true
	p := mustBuild(t, c)
	files := load(t, p.Path)
	report, _ := audited(t, c)
	made := ruling(t, c, audit.Void, leakRule, firstTask)
	envelope := sealed(t, made, runs.Key())
	closed, _, err := audit.Run(os.DirFS(p.Path), audit.Options{Gold: c.Gold, Summary: MetadataFile,
		Adjudications: []audit.Adjudication{{Ruling: made, SHA256: canonical.Digest(envelope)}}})
	if err != nil || closed.Totals.Closed != 1 {
		t.Fatal(closed.Totals, err)
	}
	for i, check := range report.Checks {
		for j, f := range check.Findings {
			if f.TaskID == firstTask {
				report.Checks[i].Findings[j].Closed = audit.Void
			}
		}
	}
	for name, tt := range map[string]struct {
		report audit.Report
		why    string
	}{
		"closed by no decision":              {report, "is not closed as its adjudications say"},
		"closed by what the package has not": {closed, "what 0 adjudications decide"},
	} {
		data, err := tt.report.Encode()
		if err != nil {
			t.Fatal(err)
		}
		pkg := memory(files)
		pkg[audit.ReportFile].Data = data
		signAll(t, pkg)
		wantFault(t, name, pkg, tt.why, audit.ReportFile)
	}
}
