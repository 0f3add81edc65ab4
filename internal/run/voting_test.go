package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// fickle is a model that answers otherwise whenever it is asked again: what says
// what it answers to a question the nth time, from 0; "" is that it fails.
type fickle struct {
	what func(question string, n int) string

	mu    sync.Mutex
	asked map[string]int
}

func (f *fickle) Chat(_ context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	question := r.Messages[1].Content
	f.mu.Lock()
	answer := f.what(question, f.asked[question])
	f.asked[question]++
	f.mu.Unlock()
	if err := o.TryStarted(1); err != nil {
		return llm.Response{}, err
	}
	try, cost := llm.Try{Number: 1}, int64(3)
	if answer == "" {
		try.Err = &llm.Error{Status: 500, Message: "out of order"}
		return llm.Response{}, errors.Join(o.TryCompleted(try), try.Err)
	}
	response := llm.Response{CostMicroUSD: &cost, FinishReason: "stop", Message: llm.Message{Role: "assistant", Content: answer},
		Usage: llm.Usage{In: 10, Out: 2, Reported: true}}
	try.Response = &response
	return response, o.TryCompleted(try)
}

// opinions makes a run vote on the first tasks of the fixtures. Each has its own
// list of what the model says, in which GOLD is the right answer.
func opinions(t *testing.T, attempts int, lists ...string) setup {
	t.Helper()
	ids := []string{}
	for _, task := range config(t).env.Set.Tasks[:len(lists)] {
		ids = append(ids, task.ID)
	}
	c := config(t, ids...)
	c.plan.Voting.Attempts = attempts
	c.env.Model = &fickle{asked: map[string]int{}, what: func(question string, n int) string {
		at := slices.IndexFunc(c.env.Set.Tasks, func(task loader.Task) bool { return strings.Contains(question, task.Question) })
		list := strings.Split(lists[at], "|")
		said := list[min(n, len(list)-1)]
		if said == "" || said == "I do not know." {
			return said
		}
		return "FINAL ANSWER: " + strings.ReplaceAll(said, "GOLD", c.env.Gold.Map()[c.env.Set.Tasks[at].ID])
	}}
	return c
}

// TestVoting: the answer of most attempts counts, whatever the verdicts; all are
// judged, in the order of the attempts, when all have been made.
func TestVoting(t *testing.T) {
	lists := []string{"GOLD|Mist|mist.", "Mist||GOLD|GOLD", "I do not know.|I do not know.|GOLD|Mist", "|||"}
	for _, intent := range []bool{true, false} {
		c := opinions(t, 3, lists...)
		c.plan.SubmitIntent, c.env.Concurrency = intent, 4
		committed, judged := map[string]int{}, map[string][]int{}
		first, last, n := 0, 0, 0
		c.env.Watch = func(e trajectory.Event) {
			n++
			switch e.Payload.(type) {
			case trajectory.AnswerCommitted:
				committed[e.TaskID]++
				last = n
				if len(judged[e.TaskID]) > 0 {
					t.Errorf("attempt %d at %s answers after another was judged", e.Attempt, e.TaskID)
				}
			case trajectory.Judgment:
				judged[e.TaskID] = append(judged[e.TaskID], e.Attempt)
				if first == 0 {
					first = n
				}
			}
		}
		r := execute(t, t.TempDir(), c)
		if intent && first < last {
			t.Errorf("event %d is an answer, event %d a judgment", last, first)
		}
		found := verified(t, r.Dir)
		if !found.Complete {
			t.Fatal(found.Missing)
		}
		type outcome struct {
			Outcome           string
			Attempt, Attempts int
			Vote              rundir.TaskVote
			Judged            []int
		}
		rule := plan.VoteMajority
		want := []outcome{
			{"failed", 2, 3, rundir.TaskVote{Answers: 3, Attempts: 3, Passed: new(1), Rule: rule, Votes: 2}, []int{1, 2, 3}},
			{"solved", 3, 4, rundir.TaskVote{Answers: 3, Attempts: 3, Passed: new(2), Rule: rule, Votes: 2}, []int{1, 3, 4}},
			{"solved", 2, 3, rundir.TaskVote{Answers: 2, Attempts: 3, Passed: new(1), Rule: rule, Votes: 1}, []int{2, 3}},
			{"error", 4, 4, rundir.TaskVote{Passed: new(0), Rule: rule}, nil},
		}
		for i, task := range found.Tasks {
			result := found.Result(task)
			got := outcome{result.Outcome, result.Attempt, result.Attempts, *result.Voting, judged[task.Plan.TaskID]}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("submit intent %v, task %d (-want +got):\n%s", intent, i+1, diff)
			}
			if committed[task.Plan.TaskID] != result.Voting.Answers {
				t.Errorf("task %d: %d answers", i+1, committed[task.Plan.TaskID])
			}
		}
		s := found.Summary()
		if s.Voting.PassAt1.Correct != 1 || s.Voting.PassAtK.Correct != 3 || s.Scores.Official.Correct != 2 || *s.CostMicroUSD != 30 {
			t.Errorf("summary %+v of %+v, cost %d", s.Voting, s.Scores, *s.CostMicroUSD)
		}
		private, err := os.ReadFile(filepath.Join(r.Dir, rundir.PrivateFile))
		if lines := bytes.Count(private, []byte("\n")); err != nil || lines != 1+3+3+2+1 {
			t.Errorf("%d private lines, %v", lines, err)
		}
	}
}

// TestVotingResumes: a run that is stopped between two attempts, or between two
// verdicts, makes the rest and none twice.
func TestVotingResumes(t *testing.T) {
	for _, kind := range []trajectory.Type{trajectory.TypeAttemptEnded, trajectory.TypeJudgment} {
		c := opinions(t, 3, "GOLD|Mist|mist.", "Fog|GOLD|GOLD")
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		seen := map[trajectory.Type]int{}
		c.env.Watch = func(e trajectory.Event) {
			if seen[e.Payload.Type()]++; e.Payload.Type() == kind && seen[kind] == 2 {
				stop()
			}
		}
		r, err := Create(t.TempDir(), c.plan, c.env)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped at the second %s: %v", kind, err)
		}
		r.Close()
		finish(t, r.Dir, c)
		found := verified(t, r.Dir)
		if s := found.Summary(); !found.Complete || s.Outcomes.Solved != 1 || s.Outcomes.Failed != 1 || seen[trajectory.TypeAnswerCommitted] != 6 || seen[trajectory.TypeJudgment] != 6 {
			t.Errorf("stopped at the second %s: %+v, events %v", kind, s.Outcomes, seen)
		}
	}
}
