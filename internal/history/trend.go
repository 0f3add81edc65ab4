package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// By what a trend divides time, in UTC.
const (
	ByDay  = "day"
	ByWeek = "week" // of ISO 8601: from Monday
)

// Trend follows runs from one to the next. It holds a bucket for each day or week in
// which one began, and of each task how it stood when it was run last. Rehearsals
// are followed apart from runs that ask a model, and so are runs whose tasks were chosen
// because they failed in another. The zero value divides by nothing;
// set By.
type Trend struct {
	By      string // ByDay or ByWeek
	buckets []*TrendBucket
	follows [3]following // of real runs, of runs of the errors of others, and of rehearsals
	last    string       // when the last run began
}

// following is what is known of the runs so far.
type following struct {
	bucket   *TrendBucket      // of the last run
	guidance string            // that it was last under
	policy   string            // likewise
	solved   map[string]string // by each task that its last run solved, that run
}

// TrendBucket counts the runs that began on one day, or in one week. Money is in
// micro-USD. What a solve took is of the runs with gold answers: all that their tasks
// took, over those that they solved, floored.
type TrendBucket struct {
	CostPerSolveMicroUSD *int64       `json:"cost_per_solve_microusd"` // null: nothing was solved, or a price is unknown
	GuidanceChanged      bool         `json:"guidance_changed"`        // a run in it was under another guidance than the one before
	GuidanceHashes       []string     `json:"guidance_hashes"`         // in the order of their use, each once
	Models               []string     `json:"models"`                  // likewise
	Name                 string       `json:"name"`                    // "2031-02-03", or "2031-W06"
	OnlyErrors           bool         `json:"only_errors,omitzero"`    // of runs whose tasks were chosen because they failed in another
	Regressions          []Regression `json:"regressions"`
	PolicyChanged        bool         `json:"policy_changed"` // as GuidanceChanged
	PolicyHashes         []string     `json:"policy_hashes"`  // as GuidanceHashes
	Rehearsal            bool         `json:"rehearsal,omitzero"`
	Retries              int64        `json:"retries"`
	Runs                 int          `json:"runs"`
	Solved               int          `json:"solved"`
	Start                string       `json:"start"` // its first day
	Tasks                int          `json:"tasks"`
	TokensPerSolve       *int64       `json:"tokens_per_solve"` // null: nothing was solved
	Unscored             int          `json:"unscored"`         // of the tasks, those of runs without gold answers

	cost   *int64
	tokens int64
}

// Regression is a task that the last earlier run that had it solved, and this one
// did not.
type Regression struct {
	Before  string `json:"before"` // that run
	Level   int    `json:"level"`
	Outcome string `json:"outcome"`
	RunID   string `json:"run_id"`
	TaskID  string `json:"task_id"`
}

// Add takes in the next run. Runs come in the order in which they began. Of a run
// without gold answers no task is solved or failed.
func (t *Trend) Add(s rundir.RunStats) error {
	began, err := time.Parse(trajectory.TimeFormat, s.Started)
	if err != nil {
		return fmt.Errorf("the run %s began at %q, which is no time", s.RunID, s.Started)
	}
	if s.Started < t.last {
		return errors.New("a trend takes runs in the order in which they began")
	}
	t.last = s.Started
	name := began.UTC().Format(time.DateOnly)
	start := name
	switch t.By {
	case ByDay:
	case ByWeek:
		year, week := began.UTC().ISOWeek()
		name = fmt.Sprintf("%04d-W%02d", year, week)
		start = began.UTC().AddDate(0, 0, -(int(began.UTC().Weekday())+6)%7).Format(time.DateOnly) // a Monday
	default:
		return fmt.Errorf("a trend is by %s or %s, not %q", ByDay, ByWeek, t.By)
	}
	onlyErrors := s.Dataset.ErrorsOf.RunID != "" && !s.Rehearsal
	f := &t.follows[0]
	switch {
	case s.Rehearsal:
		f = &t.follows[2]
	case onlyErrors:
		f = &t.follows[1]
	}
	if f.bucket == nil || f.bucket.Name != name {
		f.bucket = &TrendBucket{GuidanceHashes: []string{}, Models: []string{}, Name: name, OnlyErrors: onlyErrors, PolicyHashes: []string{}, Regressions: []Regression{},
			Rehearsal: s.Rehearsal, Start: start, cost: new(int64)}
		t.buckets = append(t.buckets, f.bucket)
	}
	if f.solved == nil {
		f.solved = map[string]string{}
	}
	b := f.bucket
	b.Runs++
	b.Models = used(b.Models, s.Model)
	f.under(s.GuidanceHash, s.PolicyHash)
	for _, e := range s.Events { // a resumed run may go on under another
		f.under(e.GuidanceHash, e.PolicyHash)
	}
	scored := s.Dataset.CarriedGold && !slices.ContainsFunc(s.Tasks, func(t rundir.TaskStats) bool { return t.Outcome == trajectory.Unscored })
	b.Tasks += len(s.Tasks)
	for _, task := range s.Tasks {
		b.Retries += int64(task.Retries)
		if !scored {
			b.Unscored++
			continue
		}
		b.cost = stats.AddCost(b.cost, task.CostMicroUSD)
		b.tokens += task.Tokens
		if b.tokens < 0 || b.cost != nil && *b.cost < 0 {
			return fmt.Errorf("the tokens or costs of the runs of %s are too many to be added up", b.Name)
		}
		before, solved := f.solved[task.TaskID]
		switch {
		case task.Outcome == trajectory.Solved:
			b.Solved++
			f.solved[task.TaskID] = s.RunID
		case solved:
			b.Regressions = append(b.Regressions, Regression{Before: before, Level: task.Level, Outcome: task.Outcome, RunID: s.RunID, TaskID: task.TaskID})
			delete(f.solved, task.TaskID)
		}
	}
	return nil
}

// under notes a guidance and a policy that a run was under.
func (f *following) under(guidance, policy string) {
	b := f.bucket
	b.GuidanceChanged = b.GuidanceChanged || f.guidance != "" && f.guidance != guidance
	b.PolicyChanged = b.PolicyChanged || f.policy != "" && f.policy != policy
	b.GuidanceHashes, b.PolicyHashes = used(b.GuidanceHashes, guidance), used(b.PolicyHashes, policy)
	f.guidance, f.policy = guidance, policy
}

// used adds what is not there yet.
func used(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// Buckets returns what was counted, by time; of one day or week real runs stand
// before those of errors, and these before rehearsals.
func (t *Trend) Buckets() []TrendBucket {
	out := make([]TrendBucket, len(t.buckets))
	for i, b := range t.buckets {
		out[i] = *b
		if b.Solved == 0 {
			continue
		}
		perSolve := func(n int64) *int64 { n /= int64(b.Solved); return &n }
		out[i].TokensPerSolve = perSolve(b.tokens)
		if b.cost != nil {
			out[i].CostPerSolveMicroUSD = perSolve(*b.cost)
		}
	}
	slices.SortStableFunc(out, func(a, b TrendBucket) int {
		last := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(a.Start, b.Start), last[a.Rehearsal]-last[b.Rehearsal], last[a.OnlyErrors]-last[b.OnlyErrors])
	})
	return out
}
