package rundir

import (
	"errors"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

func TestFoldFollowsARun(t *testing.T) {
	m := planOf(t, "a")
	f, records := mustFollow(t, m, oneSolved)
	if f.Completed == nil || f.Completed.Solved != 1 || len(f.Tasks) != 1 || len(records) != 1 || f.Task("a") != f.Tasks[0] || f.Task("b") != nil {
		t.Fatalf("%+v, %d records", f, len(records))
	}
	a := f.Task("a").Attempts[0]
	if a.Answer.Answer != "42" || a.Ended.Outcome != trajectory.Answered || !a.Judgment.Official || a.Turns != 2 || a.ToolCalls != 1 ||
		a.Tokens != (trajectory.Tokens{In: 30, Out: 7}) || *a.CostMicroUSD != 7 || a.Retried != 0 || strings.Join(a.ToolsUsed, " ") != "calculate" {
		t.Errorf("attempt %+v", a)
	}
	if s := f.Task("a").Sealed; s.Outcome != trajectory.Solved || s.Attempt != 1 {
		t.Errorf("sealed %+v", s)
	}
	if f.Started != "2031-02-03T04:05:07.001Z" {
		t.Errorf("started %q", f.Started)
	}
}

// TestFoldStopsAtTheRecord: the error of whoever writes the records is passed
// on as it is.
func TestFoldStopsAtTheRecord(t *testing.T) {
	m := planOf(t, "a")
	digest := canonical.Digest(encodePlan(t, m))
	full := errors.New("disk full")
	f := NewFold(m, digest, func(Trajectory) error { return full })
	_, _, err := trajectory.ReadJournal(strings.NewReader(string(write(t, m, oneSolved))), m.RunID, digest, f.Add)
	if err != full {
		t.Errorf("%v", err)
	}
	if _, _, _, err := followWithout(t, m); err != nil {
		t.Errorf("without a writer of records: %v", err)
	}
}

func followWithout(t *testing.T, m plan.Plan) (*Fold, []Trajectory, trajectory.End, error) {
	f := NewFold(m, canonical.Digest(encodePlan(t, m)), nil)
	end, _, err := trajectory.ReadJournal(strings.NewReader(string(write(t, m, oneSolved))), m.RunID, f.ManifestSHA256, f.Add)
	return f, nil, end, err
}

func TestFoldOpenAttempts(t *testing.T) {
	m := planOf(t, "a")
	steps := strings.SplitAfter(oneSolved, "\n")
	for n := 1; n < len(steps); n++ {
		f, _ := mustFollow(t, m, strings.Join(steps[:n], ""))
		task := f.Task("a")
		outcome, attempt, settled := f.Outcome(task)
		type state struct {
			open, settled bool
			outcome       string
			attempt       int
		}
		want := state{true, false, "", 0}
		switch {
		case n == 1:
			want = state{false, true, trajectory.Skipped, 0}
		case n == 14: // ended, not graded
			want = state{false, false, "", 0}
		case n >= 15:
			want = state{false, true, trajectory.Solved, 1}
		}
		if got := (state{task.Open() != nil, settled, outcome, attempt}); got != want {
			t.Errorf("after %d events: %+v, want %+v", n, got, want)
		}
		if _, all := f.RunCompleted(); all != (n >= 16) {
			t.Errorf("after %d events: all sealed: %v", n, all)
		}
	}
}

func TestFoldRefuses(t *testing.T) {
	const begun = "run started\na.1 begin\n"
	const turned = begun + "a.1.1 turn\n"
	const answered = begun + "a.1 answer 42\na.1 ended answered\n"
	const graded = answered + "a.1 graded right\n"
	const sealed = graded + "a sealed solved 1/1\n"
	const both = sealed + "b sealed skipped 0/0\n"
	tests := []struct {
		name, script string
		want         string // about the last line
	}{
		{"no run_started", "a.1 begin", "a journal has one run_started, its first line"},
		{"resumed first", "run resumed 0", "a journal has one run_started, its first line"},
		{"completed first", "run completed", "a journal has one run_started, its first line"},
		{"second run_started", begun + "run started", "a journal has one run_started, its first line"},
		{"task not planned", begun + "x.1 begin", `task "x" is not planned`},
		{"seal of a task not planned", begun + "x sealed skipped 0/0", `task "x" is not planned`},
		{"other question", "run started\na.1 begin What is b?\n" + strings.TrimPrefix(graded, begun) + "a sealed solved 1/1", "was asked another question than planned"},
		{"other question in the second attempt", begun + "a.1 error\na.1 ended error\na.2 begin What is b?", "asks another question than the attempt before it"},
		{"other attachment", "run started\na.1 begin  with other.txt", "names another file than planned"},
		{"attempt 2 first", "run started\na.2 begin", "attempt 2 cannot begin here"},
		{"attempt begun twice", begun + "a.1 begin", "attempt 1 cannot begin here"},
		{"attempt while one is open", begun + "a.2 begin", "attempt 2 cannot begin here"},
		{"attempt skipped", begun + "a.1 ended error\na.3 begin", "attempt 3 cannot begin here"},
		{"attempt begun again", begun + "a.1 ended error\na.1 begin", "attempt 1 cannot begin here"},
		{"turn of an attempt that has not begun", "run started\na.1.1 turn", "attempt 1 has not begun"},
		{"turn of the next attempt", begun + "a.2.1 turn", "attempt 2 has not begun"},
		{"grade of an attempt that has not begun", "run started\na.1 graded right", "attempt 1 has not begun"},
		{"turn 2 first", begun + "a.1.2 turn", "turn 2 cannot begin here"},
		{"turn begun twice", turned + "a.1.1 turn", "turn 1 cannot begin here"},
		{"turn skipped", turned + "a.1.3 turn", "turn 3 cannot begin here"},
		{"call before any turn", begun + "a.1.1 call", "turn 1 is not the open one"},
		{"tool before any turn", begun + "a.1.1 propose calculate", "turn 1 is not the open one"},
		{"decision before any turn", begun + "a.1.1 refuse R001", "turn 1 is not the open one"},
		{"call of the next turn", turned + "a.1.2 call", "turn 2 is not the open one"},
		{"call of the last turn", turned + "a.1.2 turn\na.1.1 call", "turn 1 is not the open one"},
		{"retry of no call", turned + "a.1.1 call retry", `repeats "01JZ0000000000000000000000", which is not the last model call of the attempt`},
		{"violation of no class", turned + "a.1.1 violation : R001", `is a violation of the class "", which its rules do not give`},
		{"violation of an unknown class", turned + "a.1.1 violation rules: R001", `is a violation of the class "rules", which its rules do not give`},
		{"violation of a rule as one of the mode", turned + "a.1.1 violation mode: R001", `is a violation of the class "mode", which its rules do not give`},
		{"violation of a rule as one of a budget", turned + "a.1.1 violation budget: R006 R001", `is a violation of the class "budget", which its rules do not give`},
		{"violation of a budget as one of a rule", turned + "a.1.1 violation rule: R006", `is a violation of the class "rule", which its rules do not give`},
		{"violation of a budget without its rule", turned + "a.1.1 violation budget:", `is a violation of the class "budget", which its rules do not give`},
		{"second answer", begun + "a.1 answer 1\na.1 answer 2", "commits a second answer"},
		{"answered without an answer", begun + "a.1 ended answered", `ends as "answered", which its events do not give`},
		{"no answer with one", begun + "a.1 answer 42\na.1 ended no_answer", `ends as "no_answer", which its events do not give`},
		{"error with an answer", begun + "a.1 answer 42\na.1 ended error", `ends as "error", which its events do not give`},
		{"unknown end", begun + "a.1 ended given_up", `ends as "given_up"`},
		{"no end", begun + "a.1 ended ", `ends as ""`},
		{"lines below nothing", begun + "a.1 ended no_answer workspace=+1--1~0", "counts lines that no workspace has"},
		{"rework below nothing", begun + "a.1 ended no_answer workspace=+1-1~-1000", "counts lines that no workspace has"},
		{"lines that no disk holds", begun + "a.1 ended no_answer workspace=+4294967297-1~0", "counts lines that no workspace has"},
		{"ended twice", answered + "a.1 ended answered", "attempt 1 has ended"},
		{"answer after the end", begun + "a.1 ended no_answer\na.1 answer 42", "attempt 1 has ended"},
		{"turn after the end", begun + "a.1 ended no_answer\na.1.1 turn", "attempt 1 has ended"},
		{"error after the end", begun + "a.1 ended error\na.1 error", "attempt 1 has ended"},
		{"event of an earlier attempt", begun + "a.1 ended error\na.2 begin\na.1.1 turn", "attempt 1 has ended"},
		{"graded twice", graded + "a.1 graded right", "attempt 1 was graded before"},
		{"graded before the answer", begun + "a.1 graded right", "grades attempt 1, which has committed no answer"},
		{"no answer graded", begun + "a.1 ended no_answer\na.1 graded right", "grades attempt 1, which has committed no answer"},
		{"error graded", begun + "a.1 ended error\na.1 graded right", "grades attempt 1, which has committed no answer"},
		{"from the cache and asked", answered + "a.1 graded recached", "takes a verdict from a cache that has none to give"},
		{"more bad entries than entries", "run started\nrun swept bad=3 checked=2", "miscounts the entries that it lists"},
		{"fewer bad entries than it names", "run started\nrun swept bad=1 checked=2 named=2", "miscounts the entries that it lists"},
		{"bad entries below nothing", "run started\nrun swept bad=-1 checked=2", "miscounts the entries that it lists"},
		{"sealed before the end", begun + "a sealed error 1/1", "is sealed before it is settled"},
		{"sealed before the grade", answered + "a sealed solved 1/1", "is sealed before it is settled"},
		{"sealed as failed though solved", graded + "a sealed failed 1/1",
			`is sealed as "failed" of attempt 1 in 1; its events give "solved" of attempt 1 in 1`},
		{"sealed as solved though failed", answered + "a.1 graded judged\na sealed solved 1/1",
			`is sealed as "solved" of attempt 1 in 1; its events give "failed" of attempt 1 in 1`},
		{"sealed as unscored though scored", graded + "a sealed unscored 1/1",
			`is sealed as "unscored" of attempt 1 in 1; its events give "solved" of attempt 1 in 1`},
		{"sealed with another attempt", graded + "a sealed solved 2/1",
			`is sealed as "solved" of attempt 2 in 1; its events give "solved" of attempt 1 in 1`},
		{"sealed without an attempt", begun + "a.1 ended error\na.2 begin\na.2 ended error\na sealed error 2/1",
			`is sealed as "error" of attempt 2 in 1; its events give "error" of attempt 2 in 2`},
		{"skipped though begun", begun + "a.1 ended no_answer\na sealed skipped 0/1",
			`is sealed as "skipped" of attempt 0 in 1; its events give "failed" of attempt 1 in 1`},
		{"sealed as failed though never begun", "run started\na sealed failed 0/0",
			`is sealed as "failed" of attempt 0 in 0; its events give "skipped" of attempt 0 in 0`},
		{"another salt", graded + "a sealed solved 1/1 salt=" + strings.Repeat("5b", 32), "was asked another question than planned"},
		{"no salt", graded + "a sealed solved 1/1 salt=", "has no salt of 32 bytes"},
		{"short salt", graded + "a sealed solved 1/1 salt=" + strings.Repeat("5a", 31), "has no salt of 32 bytes"},
		{"salt in upper case", graded + "a sealed solved 1/1 salt=" + strings.Repeat("5A", 32), "has no salt of 32 bytes"},
		{"salt that is no hex", graded + "a sealed solved 1/1 salt=" + strings.Repeat("zz", 32), "has no salt of 32 bytes"},
		{"attempt after the seal", sealed + "a.2 begin", `comes after the seal of task "a"`},
		{"grade after the seal", sealed + "a.1 graded right", `comes after the seal of task "a"`},
		{"sealed twice", sealed + "a sealed solved 1/1", `comes after the seal of task "a"`},
		{"completed before all is sealed", sealed + "run completed solved=1", "run_completed does not count what was sealed"},
		{"completed with nothing sealed", begun + "run completed", "run_completed does not count what was sealed"},
		{"counts one less", both + "run completed solved=1", "run_completed does not count what was sealed"},
		{"counts another outcome", both + "run completed failed=1 skipped=1", "run_completed does not count what was sealed"},
		{"counts another plan", both + "run completed solved=1 skipped=1 planned=1", "run_completed does not count what was sealed"},
		{"event after the end", both + "run completed solved=1 skipped=1\nrun resumed 8", "comes after run_completed"},
		{"completed twice", both + "run completed solved=1 skipped=1\nrun completed solved=1 skipped=1", "comes after run_completed"},
		{"task event after the end", both + "run completed solved=1 skipped=1\na.2 begin", "comes after run_completed"},
		{"miscounted before a resume", begun + "run resumed 3", "miscounts the events before it"},
		{"no requests at once", "run started\nrun limit from=2 to=0", "sets a number of requests at once outside of the limits"},
		{"requests below nothing", "run started\nrun limit from=-1 to=1", "sets a number of requests at once outside of the limits"},
		{"more requests than there are", "run started\nrun limit from=1 to=1048577", "sets a number of requests at once outside of the limits"},
		{"a tool's tokens below nothing", turned + "a.1.1 executed listen cost=0 out=-1", "its tokens or costs cannot be added up"},
		{"a tool's cost below nothing", turned + "a.1.1 executed listen cost=-1", "its tokens or costs cannot be added up"},
		{"tools that cost more than can be written", turned + "a.1.1 call in=9007199254740992\na.1.1 executed listen cost=1", "its tokens or costs cannot be added up"},
		{"tokens below nothing", turned + "a.1.1 call in=-1", "its tokens or costs cannot be added up"},
		{"cost below nothing", turned + "a.1.1 call cost=-1", "its tokens or costs cannot be added up"},
		{"more than can be written", turned + "a.1.1 call in=9007199254740992\na.1.1 call reasoning=1", "its tokens or costs cannot be added up"},
	}
	m := planOf(t, "a", "b")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, end, err := follow(t, m, write(t, m, tt.script))
			last := int64(strings.Count(strings.TrimSpace(tt.script), "\n") + 1)
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || *fault != (trajectory.Fault{File: trajectory.JournalFile, Line: last, Reason: tt.want}) {
				t.Errorf("%v\nwant line %d: %s", err, last, tt.want)
			}
			if end != (trajectory.End{}) {
				t.Errorf("the end is %+v", end)
			}
		})
	}
}

// TestJudgeCache: verdicts from the cache and entries that do not verify are
// counted; a plan without a cache has none to take from.
func TestJudgeCache(t *testing.T) {
	const script = `run started
run swept bad=2 checked=9 named=2
a.1 begin
a.1 answer 42
a.1 ended answered
run swept bad=1 checked=1 named=1
a.1 graded cached
a sealed failed 1/1
run completed failed=1
`
	m := planOf(t, "a")
	f, _ := mustFollow(t, m, script)
	s := f.Summary()
	if s.JudgeCacheIntegrityEvents != 3 {
		t.Errorf("%d integrity events", s.JudgeCacheIntegrityEvents)
	}
	if j := *s.Judge; j.Asked != 1 || j.Cached != 1 || j.Judged != 1 || j.CostMicroUSD == nil || *j.CostMicroUSD != 0 {
		t.Errorf("judge %+v", j)
	}
	for _, judge := range []*plan.JudgePlan{nil, {Model: "scripted-judge"}} {
		m.Judge = judge
		var fault *trajectory.Fault
		if _, _, _, err := follow(t, m, write(t, m, script)); !errors.As(err, &fault) || fault.Reason != "takes a verdict from a cache that has none to give" {
			t.Errorf("plan %+v: %v", judge, err)
		}
	}
}

// TestFoldRefusesAnotherPlan: what the first line repeats of the plan must be
// what the plan says.
func TestFoldRefusesAnotherPlan(t *testing.T) {
	tests := map[string]struct {
		change func(*trajectory.RunStarted)
		want   string
	}{
		"manifest":  {func(p *trajectory.RunStarted) { p.ManifestSHA256 = canonical.Digest(nil) }, "was started from another manifest"},
		"rehearsal": {func(p *trajectory.RunStarted) { p.Rehearsal = false }, "contradicts the manifest"},
		"intent":    {func(p *trajectory.RunStarted) { p.SubmitIntent = true }, "contradicts the manifest"},
		"guidance":  {func(p *trajectory.RunStarted) { p.GuidanceHash = "" }, "contradicts the manifest"},
		"policy":    {func(p *trajectory.RunStarted) { p.PolicyHash = "" }, "contradicts the manifest"},
		"harness":   {func(p *trajectory.RunStarted) { p.Harness.Dirty = true }, "contradicts the manifest"},
	}
	m := planOf(t, "a")
	digest := canonical.Digest(encodePlan(t, m))
	good, err := parse(m, digest, "run started")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		p := good.Payload.(trajectory.RunStarted)
		tt.change(&p)
		err := NewFold(m, digest, nil).Add(trajectory.Event{Payload: p}, nil)
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.Reason != tt.want || fault.Line != 1 {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if err := NewFold(m, digest, nil).Add(trajectory.Event{Payload: good.Payload}, nil); err != nil {
		t.Errorf("the plan itself: %v", err)
	}
}

// TestFoldTakesShardsOfOneSource: a shard may be run by a program for another kind of machine, if something but the
// executable says that it was built from the same source.
func TestFoldTakesShardsOfOneSource(t *testing.T) {
	for version, want := range map[string]bool{"v0.9.9": true, trajectory.Devel: false} {
		m := planOf(t, "a")
		m.Shards, m.Harness.Version = 1, version
		digest := canonical.Digest(encodePlan(t, m))
		started, err := parse(m, digest, "run started")
		if err != nil {
			t.Fatal(err)
		}
		for _, executable := range []string{m.Harness.ExecutableSHA256, canonical.Digest([]byte("for another machine"))} {
			d := m.NewDelegation(digest, trajectory.Shard{Index: 1, Key: "k", Of: 1})
			p := started.Payload.(trajectory.RunStarted)
			p.Harness.ExecutableSHA256, p.Shard = executable, d.Shard
			f := NewFold(m, digest, nil)
			f.OfShard(d)
			err := f.Add(trajectory.Event{Payload: p}, nil)
			if same := executable == m.Harness.ExecutableSHA256; (err == nil) != (same || want) {
				t.Errorf("version %s, the same executable %v: %v", version, same, err)
			}
		}
	}
}

// TestFoldRefusesGradesWithoutGold: nothing can be graded where there is no
// gold to grade by.
func TestFoldRefusesGradesWithoutGold(t *testing.T) {
	m := planOf(t, "a")
	m.GoldCommitment = ""
	_, _, _, err := follow(t, m, write(t, m, "run started\na.1 begin\na.1 answer 42\na.1 ended answered\na.1 graded right"))
	var fault *trajectory.Fault
	if !errors.As(err, &fault) || fault.Line != 5 || fault.Reason != "grades an answer in a run without gold answers" {
		t.Error(err)
	}
}
