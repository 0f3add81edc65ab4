package rundir

import (
	"errors"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// votingPlan is a plan of several attempts at a task.
func votingPlan(t testing.TB, attempts int, tasks ...string) plan.Plan {
	t.Helper()
	m := planOf(t, tasks...)
	m.Voting, m.Retry = plan.VotingPlan{Attempts: attempts, Rule: plan.VoteMajority}, plan.RetryPlan{AttemptsPerTask: attempts + 1}
	return m
}

// votes is a run in which the majority is wrong once and right once, and of
// which one task's attempts fail.
const votes = `run started
a.1 begin
a.1.1 turn
a.1.1 call in=10 out=1 cost=5
a.1.1 executed listen in=3 out=2 cost=7
a.1 answer 42
a.1 ended answered
a.2 begin
a.2 answer forty
a.2 ended answered
a.3 begin
a.3 answer Forty.
a.3 ended answered
b.1 begin
b.1 ended error interrupted
b.2 begin
b.2 ended no_answer
b.3 begin
b.3 answer 1,000
b.3 ended answered
b.4 begin
b.4 answer $1000
b.4 ended answered
c.1 begin
c.1 answer lost
c.1 ended answered
c.2 begin
c.2 ended error
c.3 begin
c.3 ended error
c.4 begin
c.4 ended error
c.5 begin
c.5 ended error
d.1 begin
d.1 ended no_answer
d.2 begin
d.2 ended no_answer
d.3 begin
d.3 ended no_answer
a.1 graded right
a.2 graded wrong
a.3 graded judged
b.3 graded right
b.4 graded right
c.1 graded wrong
a sealed failed 2/3
b sealed solved 3/4
c sealed failed 1/5
d sealed failed 3/3
run completed solved=1 failed=3
`

func TestVotingResults(t *testing.T) {
	m := votingPlan(t, 3, "a", "b", "c", "d")
	f, _ := mustFollow(t, m, votes)
	want := []TaskVote{
		{Answers: 3, Attempts: 3, Passed: ptr(1), Rule: plan.VoteMajority, Votes: 2},
		{Answers: 2, Attempts: 3, Passed: ptr(2), Rule: plan.VoteMajority, Votes: 2},
		{Answers: 1, Attempts: 1, Passed: ptr(0), Rule: plan.VoteMajority, Votes: 1},
		{Attempts: 3, Passed: ptr(0), Rule: plan.VoteMajority},
	}
	for i, task := range f.Tasks {
		if diff := cmp.Diff(&want[i], f.Result(task).Voting); diff != "" {
			t.Errorf("%s (-want +got):\n%s", task.Plan.TaskID, diff)
		}
	}
	a := f.Result(f.Task("a"))
	if *a.ModelAnswer != "forty" || *a.OfficialCorrect || *a.JudgedCorrect || a.Attempt != 2 {
		t.Errorf("the answer that counts is that of %+v", a)
	}
	if a.Tokens != (trajectory.Tokens{In: 13, Out: 3}) || *a.CostMicroUSD != 12 {
		t.Errorf("it took %+v and %d", a.Tokens, *a.CostMicroUSD)
	}
	if diff := cmp.Diff([]int{1, 2, 2}, f.Task("a").Votes()); diff != "" {
		t.Errorf("votes (-want +got):\n%s", diff)
	}
	s := f.Summary()
	one, any := stats.NewRate(1, 4), stats.NewRate(2, 4) // of b no first attempt was right: it gave no answer
	if diff := cmp.Diff(&VotingSummary{Attempts: 3, PassAt1: &one, PassAtK: &any, Rule: plan.VoteMajority}, s.Voting); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if s.Scores.Official.Correct != 1 || s.VotingAttempts != 3 || s.Attempts != 15 || s.Judge.Asked != 3 {
		t.Errorf("summary %+v", s)
	}
	m.GoldCommitment = ""
	var script strings.Builder
	for line := range strings.Lines(strings.NewReplacer("sealed failed", "sealed unscored", "sealed solved", "sealed unscored").Replace(votes)) {
		if !strings.Contains(line, "graded") && !strings.Contains(line, "completed") {
			script.WriteString(line)
		}
	}
	f, _ = mustFollow(t, m, script.String()+"run completed unscored=4\n")
	if diff := cmp.Diff(&VotingSummary{Attempts: 3, Rule: plan.VoteMajority}, f.Summary().Voting); diff != "" {
		t.Errorf("without gold (-want +got):\n%s", diff)
	}
	if v := f.Result(f.Task("a")).Voting; v.Passed != nil || v.Votes != 2 {
		t.Errorf("without gold %+v", v)
	}
}

// TestVotingSeals: a task is sealed with the answer that was voted for, when all
// its attempts were made and all their answers graded.
func TestVotingSeals(t *testing.T) {
	const (
		begun    = "run started\na.1 begin\na.1 answer 7\na.1 ended answered\n"
		second   = "a.2 begin\na.2 answer 7\na.2 ended answered\n"
		third    = "a.3 begin\na.3 answer 8\na.3 ended answered\n"
		settling = "is sealed before it is settled"
	)
	graded := func(attempts string) (lines string) {
		for _, n := range attempts {
			lines += "a." + string(n) + " graded wrong\n"
		}
		return lines
	}
	tests := []struct {
		name, script, want string
		change             func(*plan.Plan)
	}{
		{"all made", begun + second + third + graded("123") + "a sealed failed 1/3", "", nil},
		{"another answer than voted for", begun + second + third + graded("123") + "a sealed failed 3/3",
			`is sealed as "failed" of attempt 3 in 3; its events give "failed" of attempt 1 in 3`, nil},
		{"another attempt with the answer", begun + second + third + graded("123") + "a sealed failed 2/3",
			`is sealed as "failed" of attempt 2 in 3; its events give "failed" of attempt 1 in 3`, nil},
		{"the answer that is right", begun + second + third + graded("12") + "a.3 graded right\na sealed solved 3/3",
			`is sealed as "solved" of attempt 3 in 3; its events give "failed" of attempt 1 in 3`, nil},
		{"one not made", begun + second + graded("12") + "a sealed failed 1/2", settling, nil},
		{"none made", "run started\na sealed skipped 0/0", settling, nil},
		{"one lost with its process", begun + second + "a.3 begin\na.3 ended error interrupted\n" + graded("12") + "a sealed failed 1/3", settling, nil},
		{"one stopped with the run", begun + second + "a.3 begin\na.3 ended error run stopped\n" + graded("12") + "a sealed failed 1/3", settling, nil},
		{"one not graded", begun + second + third + graded("12") + "a sealed failed 1/3", settling, nil},
		{"the counted one not graded", begun + second + third + graded("23") + "a sealed failed 1/3", settling, nil},
		{"one that failed", begun + second + "a.3 begin\na.3 ended error infrastructure\n" + graded("12") + "a sealed failed 1/3", settling, nil},
		{"as many that failed as may", begun + second + "a.3 begin\na.3 ended error infrastructure\n" + graded("12") + "a sealed failed 1/3", "",
			func(m *plan.Plan) { m.Retry.AttemptsPerTask = 1 }},
		{"fewer without money", begun + graded("1") + "a sealed failed 1/1", "", func(m *plan.Plan) { m.Budgets.RunCostMicroUSD = 5 }},
		{"none without money", "run started\na sealed skipped 0/0", "", func(m *plan.Plan) { m.Budgets.RunCostMicroUSD = 5 }},
		{"not graded without money", begun + "a sealed failed 1/1", settling, func(m *plan.Plan) { m.Budgets.RunCostMicroUSD = 5 }},
		{"more than planned", begun + second + third + "a.4 begin\na.4 answer 8\na.4 ended answered\n" + graded("1234") + "a sealed failed 1/4", "", nil},
		{"no answers at all", "run started\n" + strings.ReplaceAll("a.N begin\na.N ended no_answer\n", "N", "1") + "a.2 begin\na.2 ended no_answer\na.3 begin\na.3 ended no_answer\na sealed failed 3/3", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := votingPlan(t, 3, "a")
			if tt.change != nil {
				tt.change(&m)
			}
			_, _, _, err := follow(t, m, write(t, m, tt.script))
			var fault *trajectory.Fault
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &fault) || fault.Reason != tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestSettled(t *testing.T) {
	const (
		none   = "run started\n"
		lost   = none + "a.1 begin\na.1 ended error interrupted\n"
		broken = none + "a.1 begin\na.1 ended error infrastructure\n"
		silent = none + "a.1 begin\na.1 ended no_answer\n"
		open   = silent + "a.2 begin\n"
		two    = silent + "a.2 begin\na.2 answer 1\na.2 ended answered\n"
		failed = broken + "a.2 begin\na.2 ended error infrastructure\n"
	)
	for script, want := range map[string][2]bool{ // of a plan with one attempt, with two
		none: {false, false}, lost: {false, false}, broken: {false, false}, silent: {true, false}, open: {false, false}, two: {true, true}, failed: {true, false},
	} {
		for i, m := range []plan.Plan{planOf(t, "a"), votingPlan(t, 2, "a")} {
			m.Retry.AttemptsPerTask = i + 2
			f, _ := mustFollow(t, m, script)
			if got := f.Settled(f.Task("a")); got != want[i] {
				t.Errorf("of %d attempts: %v after\n%s", i+1, got, script)
			}
		}
	}
}

// TestSettledAfterLosses: attempts that were lost after a reply without tool calls
// are made again as often as the plan has it; others always are.
func TestSettledAfterLosses(t *testing.T) {
	lost := &trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.Interrupted}
	stopped := &trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.RunStopped}
	failed := &trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: trajectory.Infrastructure}
	attempt := func(ended *trajectory.AttemptEnded, silent int32) *Attempt {
		return &Attempt{Ended: ended, silent: silent}
	}
	for name, tt := range map[string]struct {
		free     int
		attempts []*Attempt
		want     bool
	}{
		"as many":          {2, []*Attempt{attempt(lost, 1), attempt(stopped, 2)}, false},
		"one more":         {2, []*Attempt{attempt(lost, 1), attempt(stopped, 2), attempt(lost, 1)}, true},
		"before a reply":   {2, []*Attempt{attempt(lost, 1), attempt(stopped, 2), attempt(lost, 0)}, false},
		"another reason":   {2, []*Attempt{attempt(lost, 1), attempt(stopped, 2), attempt(failed, 1)}, false},
		"without a limit":  {0, []*Attempt{attempt(lost, 1), attempt(lost, 1), attempt(lost, 1), attempt(lost, 1)}, false},
		"the last is open": {1, []*Attempt{attempt(lost, 1), attempt(lost, 1), attempt(nil, 0)}, false},
	} {
		f := &Fold{Manifest: plan.Plan{Retry: plan.RetryPlan{AttemptsPerTask: 2, FreeReattempts: tt.free}}}
		if got := f.Settled(&Task{Attempts: tt.attempts}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestVerifyVoting: a run with a vote verifies, and what is derived from it
// cannot be changed.
func TestVerifyVoting(t *testing.T) {
	m := votingPlan(t, 3, "a", "b", "c", "d")
	all := files(t, m, votes)
	found, err := Verify(memory(all), Options{})
	if err != nil || !found.Complete {
		t.Fatalf("%+v, %v", found, err)
	}
	for name, old := range map[string]string{ResultsFile: `"votes":2}`, SummaryFile: `"pass_at_k":{"accuracy_ppm":500000`} {
		changed := strings.Replace(string(all[name]), old, strings.Replace(strings.Replace(old, "2", "3", 1), "500000", "750000", 1), 1)
		if changed == string(all[name]) {
			t.Fatalf("%s has no %s", name, old)
		}
		wantFault(t, "another "+old, memory(all, name, changed), name)
	}
}
