package grading

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
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
			switch asked, known := errors.AsType[*llm.Error](err); {
			case budget.IsSpent(asked):
				return ErrBudget
			case known:
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

// CheckNew returns an error if the judge has judged the run in dir already.
func (r Rejudging) CheckNew(dir string) error {
	plan := r.Plan()
	path := r.file(dir)
	switch _, err := os.Lstat(path); {
	case audit.SameJudge(plan, r.Run.Manifest):
		return exit.Usagef("give another model or endpoint: the run's first judgment stays the run's", "%q at %s is the run's own judge", view.Line(plan.Model), view.Line(plan.Origin))
	case err == nil:
		return exit.New(exit.Failure, fmt.Errorf("this judge has judged the run: %q", path), "a judge judges a run once: give another model or endpoint", "gaia verify "+view.Quote(dir))
	}
	return nil
}

func (r Rejudging) file(dir string) string {
	return filepath.Join(dir, filepath.FromSlash(audit.RejudgmentFile(r.Plan())))
}

// Rejudged is a judgment that was written; its members are what 'gaia judge run' prints with --json.
type Rejudged struct {
	ErrorsOf  string              `json:"errors_of,omitzero"` // id of the run whose errors the run's tasks are
	File      string              `json:"file"`
	Judge     plan.JudgePlan      `json:"judge"`
	Judgments int                 `json:"judgments"` // of the run, this one among them
	KeyID     string              `json:"key_id"`
	Rehearsal bool                `json:"rehearsal,omitzero"`
	RunID     string              `json:"run_id"`
	Score     *stats.Rate         `json:"score"`  // by this judge; null: none of its verdicts counts
	SHA256    string              `json:"sha256"` // of the file
	Totals    rundir.JudgeSummary `json:"totals"`

	dir string
}

// Write asks the judge, and writes its judgment, signed, into the run in dir, which then has so many of later judges. All
// answers are judged or nothing is written.
func (r Rejudging) Write(ctx context.Context, dir string, key sign.Key, later int) (none Rejudged, _ error) {
	path := r.file(dir)
	j, err := r.Judgment(ctx)
	if cache := (*CacheError)(nil); errors.As(err, &cache) {
		return none, cache.Ends(exit.Evidence, "nothing was written; --no-judge-cache judges without the cache")
	}
	if ctx.Err() != nil {
		return none, exit.New(exit.Interrupted, errors.New("interrupted; nothing was written"), "repeat the command: what the judge has said is in the judge cache")
	}
	if errors.Is(err, ErrBudget) {
		return none, exit.New(exit.Incomplete, fmt.Errorf("--max-cost %s: %w; nothing was written", view.Dollars(&r.MaxCost), err), "repeat the command with a higher --max-cost: what the judge has said is in the judge cache")
	}
	if asked := (*llm.Error)(nil); errors.As(err, &asked) {
		return none, exit.New(exit.Failure, err, append(Remedies(asked), "nothing was written; what the judge has said is in the judge cache")...)
	}
	if err != nil {
		return none, err
	}
	envelope, err := j.Seal(key)
	if err != nil {
		return none, err
	}
	if err := WriteAttestation(path, envelope); err != nil {
		return none, err
	}
	if _, err := audit.ReadRejudgments(os.DirFS(dir), r.Run); err != nil {
		return none, fmt.Errorf("reading what was written: %w", err)
	}
	return Rejudged{File: path, Judge: j.Judge, Judgments: audit.Judgments(r.Run.Manifest, later), ErrorsOf: r.Run.Manifest.Dataset.ErrorsOf.RunID, KeyID: r.Run.Key.ID(), Rehearsal: j.Rehearsal,
		RunID: j.RunID, Score: j.Score(r.Run), SHA256: canonical.Digest(envelope), Totals: j.Totals, dir: dir}, nil
}

// Rows describe the judgment for a person.
func (r Rejudged) Rows() [][2]string {
	rows := view.List{{"run", r.RunID}}
	if r.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows.AddNonEmpty(runview.ErrorsKey, runview.ErrorsNote(r.ErrorsOf))
	rows = append(rows, runview.JudgeRows(&r.Totals)...)
	if s := r.Score; s != nil {
		rows.Addf("judged", "%d of %d, %s, by this judge", s.Correct, s.Planned, view.Percent(s.AccuracyPPM))
	}
	rows.Addf("judgments", "%d of this run; the run's own files are as they were", r.Judgments)
	return append(rows, [][2]string{{"written to", r.File}, {"signed by", r.KeyID}, {"next", "gaia verify " + view.Quote(r.dir)}}...)
}
