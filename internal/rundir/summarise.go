package rundir

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Told is what a summary has from the journal alone, and not from the plan or the records of the tasks.
type Told struct {
	Started, Completed string
	Interruptions      []Interruption
	Judge              JudgeSummary      // looked at if the plan has a judge; its model is the plan's
	IntegrityEvents    int               // entries of the judge cache that did not verify
	Preflight          *PreflightSummary // nil: nothing was asked before the tasks
	RetriedCalls       int
	Shards             *ShardsSummary // nil: the run is not a merged one
	PassedFirst        int            // tasks whose first attempt that did not end as an error gave a correct answer
	Unrecorded         string         // why evidence ended before the run did
}

// Cost is what the whole run cost: its tasks, what was asked before them, and its judge; nil: a price is unknown.
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

// Told returns the values of a recorded summary that Summarise takes.
func (s Summary) Told() Told {
	told := Told{Started: s.Started, Completed: s.Completed, Interruptions: s.Interruptions, IntegrityEvents: s.JudgeCacheIntegrityEvents,
		Preflight: s.Preflight, RetriedCalls: s.RetriedCalls, Shards: s.Shards}
	if s.Judge != nil {
		told.Judge = *s.Judge
	}
	if s.Voting != nil && s.Voting.PassAt1 != nil {
		told.PassedFirst = s.Voting.PassAt1.Correct
	}
	return told
}

// Summarise returns the summary that a plan, the records of its tasks, in plan order, and told give. The texts of a
// record do not matter to it.
func Summarise(m plan.Plan, manifestSHA256 string, rows iter.Seq[Result], told Told) Summary {
	s := Summary{Cassette: m.Cassette, Completed: told.Completed, CostMicroUSD: new(int64), Dataset: m.Dataset, DurationMs: between(told.Started, told.Completed),
		GaiaSplit: m.Dataset.Split, GuidanceHash: m.GuidanceHash, Harness: m.Harness, Interruptions: told.Interruptions,
		JudgeCacheIntegrityEvents: told.IntegrityEvents,
		ManifestSHA256:            manifestSHA256, Model: m.Model.Name, PolicyHash: m.PolicyHash, Preflight: told.Preflight, Rehearsal: m.Rehearsal, RetriedCalls: told.RetriedCalls, RunID: m.RunID,
		Schema: summarySchema, Shards: told.Shards, Started: told.Started, SubmitIntent: m.SubmitIntent, Unrecorded: told.Unrecorded, VotingAttempts: m.Voting.Attempts}
	if m.Judge != nil {
		j := told.Judge
		j.Model = m.Judge.Model
		s.Judge = &j
	}
	for _, tool := range m.Offered() {
		s.Tools = append(s.Tools, OfferedTool{Name: tool.Name, SchemaSHA256: tool.SchemaSHA256, Server: tool.Server})
	}
	total, levels, passed := tally{}, map[int]*tally{}, 0
	for r := range rows {
		if v := r.Voting; v != nil && v.Passed != nil && *v.Passed > 0 {
			passed++
		}
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
	s.Voting = votingSummary(m, total.planned, told.PassedFirst, passed)
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

// spending is what calls have cost so far, in micro-USD.
type spending struct {
	known    int64 // of all calls whose cost is known
	highest  int64 // of one of them
	unpriced int64 // how many calls there are whose cost is not
	open     int64 // how many of them have no end
}

// price adds up what an event's calls have cost.
func (f *Fold) price(p trajectory.Payload) {
	switch p := p.(type) {
	case trajectory.ModelCallStarted:
		f.spending.open++
	case trajectory.ModelCallCompleted:
		f.spending.open--
		if p.Error != nil && p.OutputSHA256 == "" && p.Error.Unanswered() {
			f.spending.unpriced++
		}
	}
	_, cost, requests := trajectory.Usage(p)
	if requests <= 0 {
		return
	}
	n := int64(requests)
	if cost == nil {
		f.spending.unpriced += min(n, maxCounted-f.spending.unpriced)
		return
	}
	f.spending.known += *cost
	f.spending.highest = max(f.spending.highest, *cost/n+min(*cost%n, 1))
}

// Spent returns what a run may have cost so far, in micro-USD, its judge included. A call whose cost is not known, also
// one whose answer was lost, counts as the most expensive that is, and as no less than unknown: not knowing is no way
// around a budget.
func (f *Fold) Spent(unknown int64) int64 {
	s := f.spending
	each := max(s.highest, unknown)
	unpriced := s.unpriced + max(s.open, 0)
	if unpriced > 0 && each > (maxCounted-s.known)/unpriced {
		return maxCounted
	}
	return s.known + unpriced*each
}

// The codes of failed model calls that are counted here, as package llm names them (TestPaths in internal/run).
const (
	CodeTooLong      = "context_length_exceeded"
	CodeToolsRefused = "tools_not_supported"
)

// serverCounts are what the replies in an attempt say of the server behind the model.
type serverCounts struct {
	replies int32
	tooLong int32 // requests that were refused because the conversation does not fit the model
	refused int32 // requests that were refused because they offer tools
	noRoom  bool  // the last request was one of tooLong
	down    bool  // the last request failed, and the same one may succeed later or its reply was cut off
}

func (c *serverCounts) add(p trajectory.ModelCallCompleted) {
	c.noRoom, c.down = false, p.Error != nil && p.Error.Retryable && (p.Error.Status < 200 || p.Error.Status > 299 || strings.HasPrefix(p.Error.Code, "truncated_"))
	switch {
	case p.Error == nil:
		c.replies++
	case p.Error.Code == CodeTooLong:
		c.tooLong++
		c.noRoom = true
	case p.Error.Code == CodeToolsRefused:
		c.refused++
	}
}

// ServerNotes returns what the journal says of a server that was set up for something else: a name and a line for a
// context that is too small, and for tools that are refused or never called. None of it changes a score.
func (f *Fold) ServerNotes() [][2]string {
	var tasks, noRoom, calls int
	var replies, refused int64
	for _, t := range f.Tasks {
		tooLong := false
		for _, a := range t.Attempts {
			tooLong = tooLong || a.server.tooLong > 0
			refused += int64(a.server.refused)
			replies += int64(a.server.replies)
			calls += a.ToolCalls
			if a.server.noRoom && a.Ended != nil && a.Ended.Outcome == trajectory.NoAnswer {
				noRoom++
			}
		}
		if tooLong {
			tasks++
		}
	}
	var out [][2]string
	if tasks > 0 {
		line := fmt.Sprintf("the endpoint refused a conversation as too long in %d of %s", tasks, counted(len(f.Tasks), "task"))
		if noRoom > 0 {
			line += fmt.Sprintf(", and %s ended without an answer for it", counted(noRoom, "attempt"))
		}
		out = append(out, [2]string{"context", line + ": start the server with a larger context, or give its size with --context-window"})
	}
	switch {
	case refused > 0:
		out = append(out, [2]string{"tools", fmt.Sprintf("the endpoint refused tools in %s: name a model that calls tools, or start the server with tool calling on", counted(int(refused), "request"))})
	case len(f.Manifest.Tools) > 0 && replies > 0 && calls == 0 && f.Manifest.Agent == nil: // an own agent calls them as it likes
		line := fmt.Sprintf("%s offered in %s, none called", counted(len(f.Manifest.Tools), "tool"), counted(int(replies), "model call"))
		switch p := f.Preflight(); {
		case p == nil || p.Tool == "": // it was not tried
			out = append(out, [2]string{"tools", line + ": the model or its server may ignore tools; 'gaia doctor' tries one"})
		case p.Tool == trajectory.ToolCalled:
			out = append(out, [2]string{"tools", line + ", though the model called the one of the preflight"})
		} // else the summary of the preflight says it
	}
	return out
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
