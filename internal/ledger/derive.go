package ledger

import (
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// record returns the trajectory of an attempt that has ended.
func (f *Fold) record(t *Task, a *Attempt) Trajectory {
	r := Trajectory{Attempt: a.Number, Model: f.Manifest.Model.Name, Rehearsal: f.Manifest.Rehearsal, RunID: f.Manifest.RunID,
		Schema: trajectorySchema, Steps: a.steps, TaskID: t.Plan.TaskID, Tokens: a.Tokens, ToolsUsed: a.ToolsUsed, Turns: a.Turns}
	if a.Answer != nil {
		r.FinalAnswer = &a.Answer.Answer
	}
	return r
}

// Encode returns the record's line, newline included.
func (r Trajectory) Encode() ([]byte, error) { return encodeLine(r) }

// Result returns the record of a sealed task.
func (f *Fold) Result(t *Task) Result {
	r := Result{Attempt: t.Sealed.Attempt, Attempts: len(t.Attempts), CostMicroUSD: new(int64), Level: t.Plan.Level, Outcome: t.Sealed.Outcome,
		Rehearsal: f.Manifest.Rehearsal, Schema: resultSchema, ScoringPath: "none", TaskID: t.Plan.TaskID, ToolsUsed: []string{},
		Unrecorded: f.Unrecorded != ""}
	for _, a := range t.Attempts {
		r.CostMicroUSD = addCost(r.CostMicroUSD, a.CostMicroUSD)
		r.Tokens = r.Tokens.Add(a.Tokens)
		r.ToolCalls += a.ToolCalls
		r.Turns += a.Turns
		r.ToolsUsed = append(r.ToolsUsed, a.ToolsUsed...)
	}
	slices.Sort(r.ToolsUsed)
	r.ToolsUsed = slices.Compact(r.ToolsUsed)
	if f.Scored() {
		r.OfficialCorrect, r.JudgedCorrect = new(bool), new(bool)
	}
	a, votes := t.vote()
	r.Voting = f.taskVote(t, a, votes)
	if a == nil {
		return r
	}
	r.LatencyMs = (a.lastUs - a.firstUs) / 1000
	if a.Answer != nil {
		r.ModelAnswer, r.ReasoningTrace = &a.Answer.Answer, a.Answer.ReasoningTrace
	}
	if j := a.Judgment; j != nil {
		r.OfficialCorrect, r.JudgedCorrect, r.ScoringPath = &j.Official, j.Judged, j.Path
	}
	return r
}

// Results returns results.jsonl; every task must be sealed.
func (f *Fold) Results() ([]byte, error) {
	var all []byte
	for _, t := range f.Tasks {
		line, err := encodeLine(f.Result(t))
		if err != nil {
			return nil, err
		}
		all = append(all, line...)
	}
	return all, nil
}

// Summary returns the summary of a completed run.
func (f *Fold) Summary() Summary {
	m := f.Manifest
	s := Summary{Cassette: m.Cassette, Completed: f.completed, CostMicroUSD: new(int64), Dataset: m.Dataset, DurationMs: between(f.Started, f.completed),
		GaiaSplit: m.Dataset.Split, GuidanceHash: m.GuidanceHash, Harness: m.Harness, Interruptions: f.Interruptions,
		JudgeCacheIntegrityEvents: f.IntegrityEvents(),
		ManifestSHA256:            f.ManifestSHA256, Model: m.Model.Name, PolicyHash: m.PolicyHash, Rehearsal: m.Rehearsal, RunID: m.RunID,
		Schema: summarySchema, Started: f.Started, SubmitIntent: m.SubmitIntent, Unrecorded: f.Unrecorded, VotingAttempts: m.Voting.Attempts}
	c := f.counts()
	s.Outcomes = Outcomes{Error: c.Error, Failed: c.Failed, Skipped: c.Skipped, Solved: c.Solved, Unscored: c.Unscored}
	if m.Judge != nil {
		j := f.judge
		j.Model = m.Judge.Model
		s.Judge = &j
	}
	total, levels := tally{}, map[int]*tally{}
	for _, t := range f.Tasks {
		r := f.Result(t)
		s.CostMicroUSD = addCost(s.CostMicroUSD, r.CostMicroUSD)
		s.Tokens = s.Tokens.Add(r.Tokens)
		s.ToolCalls += r.ToolCalls
		s.Turns += r.Turns
		s.Attempts += r.Attempts
		for _, a := range t.Attempts {
			s.RetriedCalls += a.Retried
		}
		if levels[r.Level] == nil {
			levels[r.Level] = &tally{}
		}
		total.add(r)
		levels[r.Level].add(r)
	}
	s.Scores = total.scores(f.Scored())
	s.Voting = f.votingSummary()
	for level, t := range levels {
		s.Levels = append(s.Levels, LevelSummary{Level: level, Planned: t.planned, Scores: t.scores(f.Scored())})
	}
	slices.SortFunc(s.Levels, func(a, b LevelSummary) int { return a.Level - b.Level })
	return s
}

// IntegrityEvents returns how many entries of the judge cache did not verify so
// far.
func (f *Fold) IntegrityEvents() int { return f.badCache }

// Encode returns summary.json.
func (s Summary) Encode() ([]byte, error) { return sign.Canonical(s) }

// Leaves returns the tree's leaves; every task must be sealed.
func (f *Fold) Leaves() []trajectory.Leaf {
	leaves := make([]trajectory.Leaf, len(f.Tasks))
	for i, t := range f.Tasks {
		leaves[i] = f.leaf(t)
	}
	return leaves
}

// leaf returns a sealed task's leaf.
func (f *Fold) leaf(t *Task) trajectory.Leaf {
	return trajectory.Leaf{Attempts: len(t.Attempts), Digest: sign.DigestOf(t.digest), Lines: t.lines,
		RunID: f.Manifest.RunID, Salt: t.Sealed.Salt, TaskID: t.Plan.TaskID}
}

// Checkpoint returns the tree head of a completed run whose journal ends at
// end.
func (f *Fold) Checkpoint(end trajectory.End) (trajectory.Checkpoint, error) {
	leaves := f.Leaves()
	root, err := trajectory.Root(leaves)
	return trajectory.Checkpoint{RunID: f.Manifest.RunID, Size: int64(len(leaves)), Root: root,
		ManifestSHA256: f.ManifestSHA256, Journal: end, Rehearsal: f.Manifest.Rehearsal}, err
}

// RunCompleted returns the closing event's payload; false while a task is not
// sealed.
func (f *Fold) RunCompleted() (trajectory.RunCompleted, bool) {
	for _, t := range f.Tasks {
		if t.Sealed == nil {
			return trajectory.RunCompleted{}, false
		}
	}
	return f.counts(), true
}

// counts counts the sealed tasks by outcome.
func (f *Fold) counts() trajectory.RunCompleted {
	c := trajectory.RunCompleted{GuidanceHash: f.Manifest.GuidanceHash}
	for _, t := range f.Tasks {
		if t.Sealed == nil {
			continue
		}
		c.Planned++
		switch t.Sealed.Outcome {
		case trajectory.Solved:
			c.Solved++
		case trajectory.Failed:
			c.Failed++
		case trajectory.Skipped:
			c.Skipped++
		case trajectory.Unscored:
			c.Unscored++
		default:
			c.Error++
		}
	}
	return c
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

func (t *tally) scores(scored bool) *Scores {
	if !scored {
		return nil
	}
	return &Scores{Judged: NewRate(t.judged, t.planned), Official: NewRate(t.official, t.planned)}
}

func encodeLine(v any) ([]byte, error) {
	b, err := sign.Canonical(v)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
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
