package rundir

import (
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Told is what a summary says that neither the plan nor the records of the tasks
// give: the journal alone tells it.
type Told struct {
	Started, Completed string
	Interruptions      []Interruption
	Judge              JudgeSummary      // looked at if the plan has a judge; its model is the plan's
	IntegrityEvents    int               // entries of the judge cache that did not verify
	Preflight          *PreflightSummary // nil: nothing was asked before the tasks
	RetriedCalls       int
	PassedFirst        int    // tasks whose first attempt that did not end as an error gave a correct answer
	Unrecorded         string // why evidence ended before the run did
}

// Cost is what the whole run cost: its tasks, what was asked before them, and its
// judge; nil: a price is unknown.
func (s Summary) Cost() *int64 {
	sum := s.CostMicroUSD
	if s.Preflight != nil {
		sum = stats.AddCost(sum, s.Preflight.CostMicroUSD)
	}
	if s.Judge != nil {
		sum = stats.AddCost(sum, s.Judge.CostMicroUSD)
	}
	return sum
}

// Told returns what the summary of a recorded run says that Summarise is told.
func (s Summary) Told() Told {
	told := Told{Started: s.Started, Completed: s.Completed, Interruptions: s.Interruptions, IntegrityEvents: s.JudgeCacheIntegrityEvents,
		Preflight: s.Preflight, RetriedCalls: s.RetriedCalls}
	if s.Judge != nil {
		told.Judge = *s.Judge
	}
	if s.Voting != nil && s.Voting.PassAt1 != nil {
		told.PassedFirst = s.Voting.PassAt1.Correct
	}
	return told
}

// Summarise returns the summary that a plan, the records of its tasks, in plan
// order, and what else is told give. The texts of a record do not matter to it.
func Summarise(m plan.Plan, manifestSHA256 string, rows []Result, told Told) Summary {
	s := Summary{Cassette: m.Cassette, Completed: told.Completed, CostMicroUSD: new(int64), Dataset: m.Dataset, DurationMs: between(told.Started, told.Completed),
		GaiaSplit: m.Dataset.Split, GuidanceHash: m.GuidanceHash, Harness: m.Harness, Interruptions: told.Interruptions,
		JudgeCacheIntegrityEvents: told.IntegrityEvents,
		ManifestSHA256:            manifestSHA256, Model: m.Model.Name, PolicyHash: m.PolicyHash, Preflight: told.Preflight, Rehearsal: m.Rehearsal, RetriedCalls: told.RetriedCalls, RunID: m.RunID,
		Schema: SummarySchema, Started: told.Started, SubmitIntent: m.SubmitIntent, Unrecorded: told.Unrecorded, VotingAttempts: m.Voting.Attempts}
	if m.Judge != nil {
		j := told.Judge
		j.Model = m.Judge.Model
		s.Judge = &j
	}
	for _, tool := range m.Offered() {
		s.Tools = append(s.Tools, OfferedTool{Name: tool.Name, SchemaSHA256: tool.SchemaSHA256, Server: tool.Server})
	}
	total, levels := tally{}, map[int]*tally{}
	for _, r := range rows {
		s.CostMicroUSD = stats.AddCost(s.CostMicroUSD, r.CostMicroUSD)
		s.Tokens = s.Tokens.Add(r.Tokens)
		s.ToolCalls += r.ToolCalls
		s.Turns += r.Turns
		s.Attempts += r.Attempts
		s.Outcomes.add(r.Outcome)
		if levels[r.Level] == nil {
			levels[r.Level] = &tally{}
		}
		total.add(r)
		levels[r.Level].add(r)
	}
	s.Scores = total.scores(m)
	s.Voting = votingSummary(m, rows, told.PassedFirst)
	for level, t := range levels {
		s.Levels = append(s.Levels, LevelSummary{Level: level, Planned: t.planned, Scores: t.scores(m)})
	}
	slices.SortFunc(s.Levels, func(a, b LevelSummary) int { return a.Level - b.Level })
	return s
}

// add counts a task by its outcome.
func (o *Outcomes) add(outcome string) {
	switch outcome {
	case trajectory.Solved:
		o.Solved++
	case trajectory.Failed:
		o.Failed++
	case trajectory.Skipped:
		o.Skipped++
	case trajectory.Unscored:
		o.Unscored++
	default:
		o.Error++
	}
}

// tally counts correct answers over planned tasks.
type tally struct{ planned, official, judged int }

func (t *tally) add(r Result) {
	t.planned++
	if r.OfficialCorrect != nil && *r.OfficialCorrect {
		t.official++
	}
	if r.JudgedCorrect != nil && *r.JudgedCorrect {
		t.judged++
	}
}

func (t *tally) scores(m plan.Plan) *Scores {
	if !m.Scored() {
		return nil
	}
	s := &Scores{Official: stats.NewRate(t.official, t.planned)}
	if m.Judge != nil {
		s.Judged = new(stats.NewRate(t.judged, t.planned))
	}
	return s
}

// between returns the milliseconds from one recorded time to another.
func between(from, to string) int64 {
	a, errA := time.Parse(trajectory.TimeFormat, from)
	b, errB := time.Parse(trajectory.TimeFormat, to)
	if errA != nil || errB != nil {
		return 0
	}
	return b.Sub(a).Milliseconds()
}
