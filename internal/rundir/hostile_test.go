package rundir

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// menu is what hostile journals are put together from: everything the language
// can say about two tasks, also what cannot stand where it comes.
func menu(own bool) []string {
	lines := []string{"run started", "run resumed 0", "run resumed 3", "x.1 begin"}
	for solved := range 3 {
		for failed := range 3 - solved {
			for errored := range 3 - solved - failed {
				lines = append(lines, fmt.Sprintf("run completed solved=%d failed=%d error=%d skipped=%d", solved, failed, errored, 2-solved-failed-errored))
			}
		}
	}
	lines = append(lines, "run limit from=4 to=2", "run limit from=0 to=-1")
	for _, task := range []string{"a", "b"} {
		for attempt := 1; attempt <= 2; attempt++ {
			at := fmt.Sprintf("%s.%d ", task, attempt)
			lines = append(lines, at+"begin", at+"begin another question", at+"answer 42", at+"answer", at+"answer 41", at+"error")
			for _, outcome := range []string{"answered", "no_answer", "error", "x"} {
				lines = append(lines, at+"ended "+outcome)
			}
			for _, verdict := range []string{"right", "judged", "wrong", "unreadable", "failed", "unjudged"} {
				lines = append(lines, at+"graded "+verdict)
			}
			if own {
				lines = append(lines, at+"refuses budget_spent", at+"gives submit-answer.v1 42", at+"exited answered", at+"exited no_answer refused=1", at+"exited error")
			}
			for turn := 1; turn <= 2; turn++ {
				at := fmt.Sprintf("%s.%d.%d ", task, attempt, turn)
				for _, what := range []string{"turn", "prompt", "call in=1 out=2 cost=3", "call error", "call cost=? retry", "call in=9007199254740992", "call in=-5 cost=-7",
					"propose calculate", "propose", "allow", "refuse R001", "executed calculate", "executed", "executed listen in=1 cost=2", "executed listen cost=?", "executed listen in=-1 cost=2", "done"} {
					lines = append(lines, at+what)
				}
				if own {
					lines = append(lines, at+"asks", at+"asks kept=1", at+"sends", at+"replies in=1 out=2", at+"replies error")
				}
			}
		}
		for _, outcome := range []string{"solved", "failed", "skipped", "error", "unscored", "x"} {
			lines = append(lines, task+" sealed "+outcome+" 0/0", task+" sealed "+outcome+" 1/1", task+" sealed "+outcome+" 2/2", task+" sealed "+outcome+" -1/7")
		}
	}
	return lines
}

// hostile folds what choose picks from the menu: what is refused is left out
// and the journal goes on without it. Nothing may panic, every refusal must be
// a Fault, and what was accepted must add up.
func hostile(t *testing.T, m plan.Plan, steps int, choose func(n int) int) *Fold {
	t.Helper()
	digest := canonical.Digest(encodePlan(t, m))
	lines := menu(m.Agent != nil)
	var accepted []trajectory.Event
	fresh := func() *Fold {
		f := NewFold(m, digest, func(r Trajectory) error {
			_, err := r.AppendTo(nil)
			return err
		})
		for _, e := range accepted {
			if err := f.Add(e, []byte("line\n")); err != nil {
				t.Fatalf("what was accepted once is refused: %v", err)
			}
		}
		return f
	}
	f, made := fresh(), calls{}
	for range steps {
		line := lines[choose(len(lines))]
		d, err := parse(m, digest, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n := int64(len(accepted))
		d = made.link(d)
		e := trajectory.Event{ID: fmt.Sprintf("event %d", n), Attempt: d.Attempt, MonoUs: 1000 * n, Payload: d.Payload, RunID: m.RunID, Seq: n, TaskID: d.TaskID,
			Timestamp: "2031-02-03T04:05:06.789Z", Turn: d.Turn}
		if err := f.Add(e, []byte("line\n")); err == nil {
			accepted = append(accepted, e)
			made.add(d, e.ID)
			continue
		} else if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) || fault.Line != n+1 || fault.Reason == "" {
			t.Fatalf("%q: %v is no fault of line %d", line, err, n+1)
		}
		f = fresh()
	}
	for _, task := range f.Tasks {
		f.Outcome(task)
		task.Open()
		task.Counted()
		task.Votes()
		f.Settled(task)
	}
	if f.Completed != nil {
		addsUp(t, f)
	}
	return f
}

// addsUp checks what must hold of every completed run, whoever wrote it.
func addsUp(t *testing.T, f *Fold) {
	t.Helper()
	if err := f.WriteResults(io.Discard); err != nil {
		t.Fatal(err)
	}
	s := f.Summary()
	if _, err := s.Encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Checkpoint(trajectory.End{}); err != nil {
		t.Fatal(err)
	}
	o := s.Outcomes
	if o.Solved+o.Failed+o.Error+o.Skipped+o.Unscored != len(f.Tasks) {
		t.Fatalf("outcomes %+v of %d tasks", o, len(f.Tasks))
	}
	if f.Scored() == (s.Scores == nil) || f.Scored() && s.Scores.Official.Correct != o.Solved {
		t.Fatalf("scores %+v beside outcomes %+v", s.Scores, o)
	}
	if (s.Voting != nil) != (f.Manifest.Voting.Rule == plan.VoteMajority) || s.Voting != nil && f.Scored() && s.Voting.PassAtK.Correct < max(s.Voting.PassAt1.Correct, o.Solved) {
		t.Fatalf("voting %+v beside outcomes %+v", s.Voting, o)
	}
	for _, task := range f.Tasks {
		r := f.Result(task)
		if v := r.Voting; v != nil && (v.Votes > v.Answers || v.Answers > v.Attempts || v.Attempts > r.Attempts || (v.Votes > 0) != (r.ModelAnswer != nil)) {
			t.Fatalf("voting %+v in %+v", v, r)
		}
		if f.Scored() != (r.OfficialCorrect != nil) || r.OfficialCorrect != nil && *r.OfficialCorrect != (r.Outcome == trajectory.Solved) {
			t.Fatalf("result %+v", r)
		}
		if r.JudgedCorrect != nil && *r.JudgedCorrect && r.ModelAnswer == nil {
			t.Fatalf("credit without an answer: %+v", r)
		}
	}
}

// TestFoldSurvivesHostileJournals walks at random, but so that runs get done.
func TestFoldSurvivesHostileJournals(t *testing.T) {
	long.NotRaced(t)
	scored := planOf(t, "a", "b")
	unscored := planOf(t, "a", "b")
	unscored.GoldCommitment = ""
	voted := votingPlan(t, 2, "a", "b")
	voted.Retry.AttemptsPerTask = 1 // else the walk hardly ever gets there
	random := rand.New(rand.NewPCG(3, 4))
	completed := map[int]int{}
	for i := range 24 {
		m := []plan.Plan{scored, unscored, voted, ownPlan(t, "a", "b")}[i%4]
		if f := hostile(t, m, 1500, random.IntN); f.Completed != nil {
			completed[i%4]++
		}
	}
	if len(completed) != 4 {
		t.Errorf("runs that got done: %v; the walk finds too few to test", completed)
	}
}

func FuzzFold(f *testing.F) {
	lines := menu(false)
	var seed []byte
	for line := range strings.Lines(oneSolved) {
		for i, l := range lines {
			if l == strings.TrimSpace(line) {
				seed = append(seed, byte(i>>8), byte(i))
			}
		}
	}
	f.Add(seed)
	lines, seed = menu(true), nil
	for line := range strings.Lines(overlapping) {
		if at := slices.Index(lines, strings.TrimSpace(line)); at >= 0 {
			seed = append(seed, byte(at>>8), byte(at))
		}
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []plan.Plan{planOf(t, "a", "b"), votingPlan(t, 2, "a", "b"), ownPlan(t, "a", "b")} {
			at := 0
			hostile(t, m, min(len(data)/2, 200), func(n int) int {
				at += 2
				return (int(data[at-2])<<8 | int(data[at-1])) % n
			})
		}
	})
}

// TestVerifyRefusesHostileSums: sums that cannot be written, or that wrap round,
// are a fault of the journal, signed or not, and not a failure of the program.
func TestVerifyRefusesHostileSums(t *testing.T) {
	m := planOf(t, "a")
	all := files(t, m, oneSolved)
	for _, call := range []string{"in=9007199254740992", "cached=9007199254740992", "cost=9007199254740992"} {
		script := strings.Replace(oneSolved, "a.1.2 call in=20 out=2 cost=4\n", strings.Repeat("a.1.2 call "+call+"\n", 3), 1)
		dir := memory(all, trajectory.JournalFile, string(write(t, m, script)))
		wantFault(t, "calls with "+call, dir, trajectory.JournalFile)
	}
}
