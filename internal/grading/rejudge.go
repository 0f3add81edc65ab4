package grading

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// Rejudging asks another judge about the answers of a finished run. The run is only
// read.
type Rejudging struct {
	Run       *rundir.Run       // complete and scored
	Questions map[string]string // of its tasks, by id
	Gold      map[string]string // by task id; the ones that the plan commits to
	Judge     Judge
	Cache     *judgecache.Cache // of earlier verdicts; nil: none are used
	MaxCost   int64             // micro-USD that all requests may cost; 0: no limit
	MaxTokens int               // of one completion, where MaxCost is a limit
	Prices    llm.Prices        // likewise
	Redact    trajectory.Redactor
	Now       func() time.Time
	Warn      func(error)        // reports that a verdict was not kept for later
	Judged    func(done, of int) // reports progress, after each answer
}

// RejudgedAtOnce is how many answers a judge is asked about at once.
const RejudgedAtOnce = 4

// Plan returns what a plan would say of the judge.
func (r Rejudging) Plan() plan.JudgePlan { return r.Judge.Plan(r.Cache != nil) }

// ErrBudget means that the money does not suffice for all verdicts.
var ErrBudget = errors.New("the budget does not last for all answers")

// Judgment asks the judge about each answer of audit.Rejudged, after its self-test.
// It returns all verdicts or an error: a judge that cannot be asked, an entry of the
// cache that does not verify, or a spent budget leave no half of a judgment. What
// the judge said until then is in the judge cache.
func (r Rejudging) Judgment(ctx context.Context) (audit.Rejudgment, error) {
	plan := r.Plan()
	tasks, attempts := audit.Rejudged(r.Run)
	items := make([]judge.Item, len(attempts))
	for i, a := range attempts {
		id := tasks[i].Plan.TaskID
		items[i] = judge.Item{TaskID: id, Question: r.Questions[id], Gold: r.Gold[id], Answer: &a.Answer.Answer}
		if judge.QuestionScorer(items[i].Answer, items[i].Gold) {
			return audit.Rejudgment{}, trajectory.Faultf(trajectory.JournalFile, "has an official verdict on task %q that the gold answer does not give", id)
		}
	}
	var battery *trajectory.JudgeBattery // written in the self-test, which comes before every verdict that needs it
	g := &Grader{Judge: &r.Judge, Plan: &plan, Cache: r.Cache, Budget: budget.New(r.MaxCost, r.Prices, r.Judge.Name, r.MaxTokens),
		Redact: r.Redact, Now: r.Now, Warn: r.Warn, Strict: true}
	g.Recorded = func() (passed, settled bool) {
		return battery != nil && battery.Passed, battery != nil && (battery.Passed || battery.Cached || len(battery.Accepted) > 0)
	}
	g.Record = func(b trajectory.JudgeBattery) error {
		battery = &b
		return nil
	}
	g.Reject = func(bad judgecache.Bad) error {
		return &CacheError{r.Cache.Dir(), judgecache.Sweep{Checked: 1, Bad: []judgecache.Bad{bad}}}
	}
	verdicts := make([]audit.LaterVerdict, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(RejudgedAtOnce)
	var mu sync.Mutex // guards done
	done := 0
	for i, item := range items {
		group.Go(func() error {
			v, event, err := g.Score(ctx, item)
			var asked *llm.Error
			switch {
			case errors.As(err, &asked) && budget.IsSpent(asked):
				return ErrBudget
			case asked != nil:
				return fmt.Errorf("asking the judge: %w", asked)
			case errors.As(err, new(*untestedError)):
				return errors.New("the judge could not be asked")
			case err != nil:
				return err
			}
			g.Keep(item, v)
			for _, label := range []*string{&event.RequestID, &event.ResponseModel} {
				if audit.BadReason(*label) != "" { // what is signed is one line of text
					*label = ""
				}
			}
			verdicts[i] = audit.LaterVerdict{Attempt: attempts[i].Number, Judgment: event, TaskID: item.TaskID}
			mu.Lock()
			defer mu.Unlock()
			done++
			r.Judged(done, len(items))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return audit.Rejudgment{}, err
	}
	return audit.NewRejudgment(r.Run, plan, battery, verdicts, r.Now().UTC().Format(trajectory.TimeFormat)), nil
}

// OpenRejudging verifies a finished run with its signed additions and returns what a judge is asked about it, and how
// many later judgments there are. Of a run that is not complete it returns the run alone.
func OpenRejudging(dir string) (r Rejudging, later int, err error) {
	r.Questions = map[string]string{}
	files := os.DirFS(dir)
	r.Run, err = rundir.Verify(files, rundir.Options{Event: func(e trajectory.Event) error {
		if p, begins := e.Payload.(trajectory.TaskStarted); begins {
			r.Questions[e.TaskID] = p.Question
		}
		return nil
	}})
	if err != nil {
		return r, 0, err
	}
	if _, err := audit.ReadAdjudications(files, r.Run); err != nil {
		return r, 0, err
	}
	judgments, err := audit.ReadRejudgments(files, r.Run)
	if err != nil || !r.Run.Complete {
		return r, 0, err
	}
	if !r.Run.Scored() {
		return r, 0, exit.New(exit.Failure, errors.New("the run has no gold answers, so there is nothing to judge by"))
	}
	if _, attempts := audit.Rejudged(r.Run); len(attempts) == 0 {
		return r, 0, exit.New(exit.Failure, errors.New("the official scorer called no answer of the run wrong, so there is nothing to judge"))
	}
	gold, err := PrivateGold(dir)
	if err != nil {
		return r, 0, err
	}
	if gold == nil {
		return r, 0, exit.New(exit.Failure, fmt.Errorf("%s is missing, which holds the gold answers", rundir.PrivateFile), "judge where the run was made")
	}
	r.Gold, err = gold.Of(r.Run.Manifest)
	return r, len(judgments), PrivateFault(err)
}
