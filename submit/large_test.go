package submit

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// largeSecret is the secret of every large run.
var largeSecret = strings.Repeat("5a", 32)

// unsynced is a journal on disk that never waits for the disk.
type unsynced struct{ *bufio.Writer }

func (unsynced) Sync() error { return nil }

// large writes a run of any size that its key signs, one event after the other.
type large struct {
	t        testing.TB
	m        planpkg.Plan
	dir      string
	fold     *rundir.Fold
	log      *trajectory.Log
	question string
	written  int64 // bytes of the journal, about
	waiting  []trajectory.Draft
}

// largePlan returns a plan of n tasks without gold answers, which asks the same
// question in each.
func largePlan(t testing.TB, n int, question string) planpkg.Plan {
	t.Helper()
	c, err := runs.Parse("One task.\n-- task " + firstTask + " --\nquestion: What?\n-- answer 1 --\nSo.\n")
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	m, err := planpkg.Decode(files[planpkg.ManifestFile])
	if err != nil {
		t.Fatal(err)
	}
	m.SplitIDs, m.Tasks = nil, nil
	for i := range n {
		p := planpkg.PlannedTask{Level: 1, TaskID: fmt.Sprintf("fab1e901-0000-4000-8000-%012d", i)}
		if err := p.SaltQuestion(largeSecret, question); err != nil {
			t.Fatal(err)
		}
		m.SplitIDs, m.Tasks = append(m.SplitIDs, p.TaskID), append(m.Tasks, p)
	}
	m.Dataset.Levels, m.Dataset.SplitSize, m.Dataset.Selection = [3]int{n}, n, "all"
	if m.Dataset.IDsSHA256, err = planpkg.IDsDigest(m.SplitIDs); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(m.Splits, func(s planpkg.SplitPlan) bool { return s.Name == m.Dataset.Split })
	sorted, err := planpkg.IDsDigest(slices.Sorted(slices.Values(m.SplitIDs)))
	if err != nil {
		t.Fatal(err)
	}
	m.Splits[at].IDsSHA256, m.Splits[at].Size = sorted, n
	return m
}

// writeLarge writes the run of a plan, whose events tell gives.
func writeLarge(t testing.TB, dir string, m planpkg.Plan, question string, tell func(*large)) {
	t.Helper()
	l := &large{t: t, m: m, dir: dir, question: question}
	l.check(os.MkdirAll(dir, 0o755))
	plan, err := m.Encode()
	l.check(err)
	envelope, err := sign.Seal(runs.Key(), planpkg.ManifestType, plan)
	l.check(err)
	l.put(planpkg.ManifestFile, plan)
	l.put(planpkg.EnvelopeFile, envelope)
	l.put(planpkg.ConstitutionFile, policy.Constitution(m.Policy))
	create := func(name string) unsynced {
		f, err := os.Create(filepath.Join(dir, name))
		l.check(err)
		t.Cleanup(func() { f.Close() })
		return unsynced{bufio.NewWriterSize(f, 1<<20)}
	}
	journal, records := create(trajectory.JournalFile), create(rundir.TrajectoriesFile)
	l.fold = rundir.NewFold(m, canonical.Digest(plan), func(r rundir.Trajectory) error {
		line, err := r.AppendTo(nil)
		if err == nil {
			_, err = records.Write(line)
		}
		return err
	})
	began, ticks := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC), time.Duration(0)
	l.log, err = trajectory.NewLog(journal, trajectory.End{Head: l.fold.ManifestSHA256}, trajectory.LogConfig{RunID: m.RunID, Rand: rand.NewChaCha8([32]byte{1}),
		Now: func() time.Time { ticks += time.Millisecond; return began.Add(ticks) }, Mono: func() time.Duration { return ticks },
		Recorded: func(e trajectory.Event, line []byte) error {
			l.written += int64(len(line))
			return l.fold.Add(e, line)
		}})
	l.check(err)
	l.add("", 0, 0, trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: l.fold.ManifestSHA256, PolicyHash: m.PolicyHash,
		PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent})
	tell(l)
	l.flush()
	for _, task := range l.fold.Tasks {
		if task.Sealed == nil {
			l.seal(task.Plan.TaskID)
		}
	}
	l.flush()
	done, ok := l.fold.RunCompleted()
	if !ok {
		t.Fatal("the run is not complete")
	}
	l.add("", 0, 0, done)
	l.flush()
	var results bytes.Buffer
	l.check(l.fold.WriteResults(&results))
	l.put(rundir.ResultsFile, results.Bytes())
	summary, err := l.fold.Summary().Encode()
	l.check(err)
	l.put(rundir.SummaryFile, summary)
	head, err := l.fold.Checkpoint(l.log.End())
	l.check(err)
	note, err := head.Sign(runs.Key())
	l.check(err)
	l.put(trajectory.CheckpointFile, note)
	l.check(errors.Join(journal.Flush(), records.Flush()))
}

func (l *large) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *large) put(name string, data []byte) {
	l.t.Helper()
	l.check(os.WriteFile(filepath.Join(l.dir, name), data, 0o644))
}

// add records events of one place. They are written some at a time.
func (l *large) add(task string, attempt, turn int, payloads ...trajectory.Payload) {
	l.t.Helper()
	for _, p := range payloads {
		l.waiting = append(l.waiting, trajectory.Draft{TaskID: task, Attempt: attempt, Turn: turn, Payload: p})
	}
	if len(l.waiting) >= 256 {
		l.flush()
	}
}

func (l *large) flush() {
	l.t.Helper()
	_, err := l.log.Append(l.waiting...)
	l.check(err)
	l.waiting = l.waiting[:0]
}

// seal seals a task whose attempts have ended.
func (l *large) seal(id string) {
	l.t.Helper()
	l.flush()
	task := l.fold.Task(id)
	outcome, attempt, ok := l.fold.Outcome(task)
	if !ok {
		l.t.Fatalf("task %s is not settled", id)
	}
	salt, err := planpkg.TaskSalt(largeSecret, id)
	l.check(err)
	l.add(id, 0, 0, trajectory.TaskSealed{Attempt: attempt, Attempts: len(task.Attempts), Outcome: outcome, Salt: salt})
}

// attempt records an attempt at a task with what happens in it.
func (l *large) attempt(id string, number int, ended trajectory.AttemptEnded, during func()) {
	l.add(id, number, 0, trajectory.TaskStarted{Question: l.question, Workspace: []trajectory.File{}})
	during()
	l.add(id, number, 0, ended)
}

// largeRun is a kind of run that costs its verifier much.
type largeRun struct {
	tasks    int
	question string
	tell     func(l *large, size int64) // about so many bytes of journal
}

// each makes attempts at all tasks in turn, as long as there is room.
func each(during func(l *large, id string), ended trajectory.AttemptEnded) func(*large, int64) {
	return func(l *large, size int64) {
		for number := 1; ; number++ {
			for _, p := range l.m.Tasks {
				if l.written >= size {
					return
				}
				l.attempt(p.TaskID, number, ended, func() { during(l, p.TaskID+"/"+fmt.Sprint(number)) })
				l.flush()
			}
		}
	}
}

// place reads what each gives: the id of a task and the number of the attempt.
func place(at string) (id string, number int) {
	id, n, _ := strings.Cut(at, "/")
	fmt.Sscan(n, &number)
	return id, number
}

// inTurns makes an attempt of events in one turn at each task.
func inTurns(event func(i int) []trajectory.Payload) func(*large, int64) {
	return func(l *large, size int64) {
		most := size / int64(len(l.m.Tasks))
		for _, p := range l.m.Tasks {
			before, long := l.written, false
			l.attempt(p.TaskID, 1, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer}, func() {
				l.add(p.TaskID, 1, 1, trajectory.TurnStarted{})
				for i := 0; l.written-before < most; i++ {
					began := l.written
					l.add(p.TaskID, 1, 1, event(i)...)
					if i == 0 || long {
						l.flush()
						long = l.written-began > 1<<16
					}
				}
			})
			l.seal(p.TaskID)
		}
	}
}

// ofRun records events of the run.
func ofRun(event func(l *large, i int) trajectory.Payload) func(*large, int64) {
	return func(l *large, size int64) {
		for i := 0; l.written < size; i++ {
			l.flush()
			l.add("", 0, 0, event(l, i))
			if i%256 == 0 || i < 1000 {
				l.flush()
			}
		}
	}
}

// largeRuns are kinds of runs whose texts and lists are so long.
func largeRuns(length int) map[string]largeRun {
	text := func() string { return strings.Repeat("ferry ", length/6) }
	errored := trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.Interrupted}
	resumed := func(l *large, harness trajectory.Harness, why string) trajectory.Payload {
		return trajectory.RunResumed{Events: l.log.End().Events, GuidanceHash: l.m.GuidanceHash, Harness: harness, PolicyHash: l.m.PolicyHash, PolicyMode: l.m.PolicyMode, Unsubmittable: why}
	}
	one := func(p func(i int) trajectory.Payload) func(i int) []trajectory.Payload {
		return func(i int) []trajectory.Payload { return []trajectory.Payload{p(i)} }
	}
	digest := canonical.Digest(nil)
	return map[string]largeRun{
		"answers": {tasks: 165, tell: each(func(l *large, at string) {
			id, n := place(at)
			l.add(id, n, 0, trajectory.AnswerCommitted{Answer: text(), Rule: "final-answer.v1"})
		}, trajectory.AttemptEnded{Outcome: trajectory.Answered})},
		"traces": {tasks: 165, tell: each(func(l *large, at string) {
			id, n := place(at)
			l.add(id, n, 0, trajectory.AnswerCommitted{Answer: "1", ReasoningTrace: text(), Rule: "final-answer.v1"})
		}, trajectory.AttemptEnded{Outcome: trajectory.Answered})},
		"diffs": {tasks: 165, tell: each(func(*large, string) {}, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Workspace: &trajectory.WorkspaceChange{Diff: text(), Files: []string{}}})},
		"errors": {tasks: 165, tell: each(func(l *large, at string) {
			id, n := place(at)
			l.add(id, n, 0, trajectory.Error{Message: text(), Stage: "model"})
		}, trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.Infrastructure})},
		"questions": {tasks: 165, question: text(), tell: each(func(*large, string) {}, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer})},
		"attempts":  {tasks: 165, tell: each(func(*large, string) {}, errored)},
		"tasks":     {tasks: 20_000, tell: each(func(*large, string) {}, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer})},
		"resumed":   {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload { return resumed(l, l.m.Harness, "") })},
		"harnesses": {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload {
			return resumed(l, trajectory.Harness{Commit: fmt.Sprintf("%040x", i%1000), ExecutableSHA256: digest, Version: "v1.0.0"}, "")
		})},
		"why": {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload { return resumed(l, l.m.Harness, text()) })},
		"sweeps": {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload {
			return trajectory.SecurityEvent{Kind: trajectory.JudgeCacheSweep}
		})},
		"limits": {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload { return trajectory.LimitChanged{From: 1, To: 2} })},
		"limit texts": {tasks: 1, tell: ofRun(func(l *large, i int) trajectory.Payload {
			return trajectory.LimitChanged{From: 1, To: 2, Reason: text()}
		})},
		"calls": {tasks: 20, tell: inTurns(one(func(int) trajectory.Payload { return trajectory.ModelCallStarted{} }))},
		"replies": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			return trajectory.ModelCallCompleted{ResponseModel: fmt.Sprint("model ", i), OutputSHA256: digest}
		}))},
		"tools": {tasks: 20, tell: inTurns(func(i int) []trajectory.Payload {
			id := fmt.Sprint("call-", i)
			return []trajectory.Payload{trajectory.ToolProposed{CallID: id, Name: id, Args: map[string]string{}}, trajectory.PolicyDecision{CallID: id, Decision: "deny", Shown: "No."}}
		})},
		"used tools": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			return trajectory.ToolExecuted{CallID: "a", Name: fmt.Sprint("tool ", planpkg.MaxTools-i%planpkg.MaxTools), URLs: []trajectory.URL{}}
		}))},
		"urls": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			return trajectory.ToolExecuted{CallID: "a", Name: "web_fetch", URLs: make([]trajectory.URL, length/16)}
		}))},
		"messages": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			messages := make([]trajectory.Message, length/64)
			messages[0].Bytes = int64(i) // another than in the request before
			return trajectory.ContextCompiled{Messages: messages}
		}))},
		"files": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			return trajectory.CheckpointSaved{CallID: "a", Workspace: make([]trajectory.File, length/64)}
		}))},
		"rules": {tasks: 20, tell: inTurns(one(func(i int) trajectory.Payload {
			return trajectory.PolicyDecision{CallID: "a", Decision: "deny", RuleIDs: make([]string, length/8)}
		}))},
		"turns": {tasks: 20, tell: func(l *large, size int64) {
			for _, p := range l.m.Tasks {
				before := l.written
				l.attempt(p.TaskID, 1, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer}, func() {
					for i := 1; l.written-before < size/20; i++ {
						l.add(p.TaskID, 1, i, trajectory.TurnStarted{})
					}
				})
			}
		}},
	}
}

var (
	largeKind = flag.String("large", "", "kind of run that TestLargeRuns writes to -into, and does nothing else")
	largeInto = flag.String("into", "", "where to")
	largePack = flag.Bool("pack", false, "package it, too")
	largeMiB  = flag.Int64("mib", 1, "size of its journal, in MiB")
)

// TestLargeRuns verifies runs that cost their verifier much, small ones here. With
// -large KIND -into DIR -mib N it only writes DIR/run, whose journal has N MiB, to be measured.
func TestLargeRuns(t *testing.T) {
	long.NotRaced(t)
	write := func(t *testing.T, dir string, r largeRun, size int64) {
		m := largePlan(t, r.tasks, r.question)
		writeLarge(t, dir, m, r.question, func(l *large) { r.tell(l, size) })
	}
	if *largeKind != "" {
		dir := filepath.Join(*largeInto, "run")
		write(t, dir, largeRuns(15 << 20)[*largeKind], *largeMiB<<20)
		if *largePack {
			mustBuild(t, Config{Run: dir, Out: *largeInto, Key: runs.Key(), Date: "2031-02-03", AllowDirty: true,
				Harness: trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}})
		}
		return
	}
	size := int64(64 << 10)
	if long.Thorough() {
		size = 8 << 20
	}
	for kind, r := range largeRuns(32 << 10) {
		if !long.Thorough() {
			r.tasks = min(r.tasks, 2000)
		}
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			write(t, dir, r, size)
			run, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
			if err != nil || !run.Complete || len(run.Tasks) != r.tasks {
				t.Errorf("%v", err)
			}
		})
	}
}
