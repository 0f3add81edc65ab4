package rundir

import (
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// AppendTo appends the record's line, newline included.
func (r Trajectory) AppendTo(b []byte) ([]byte, error) { return appendLine(b, r) }

// Result returns the record of a sealed task.
func (f *Fold) Result(t *Task) Result {
	r := Result{Attempt: t.Sealed.Attempt, Attempts: len(t.Attempts), CostMicroUSD: new(int64), Level: t.Plan.Level, Outcome: t.Sealed.Outcome,
		Rehearsal: f.Manifest.Rehearsal, Schema: resultSchema, ScoringPath: "none", TaskID: t.Plan.TaskID, ToolsUsed: []string{},
		Unrecorded: f.Unrecorded != ""}
	for _, a := range t.Attempts {
		r.CostMicroUSD = stats.AddCost(r.CostMicroUSD, a.CostMicroUSD)
		r.Tokens = r.Tokens.Add(a.Tokens)
		r.ToolCalls += a.ToolCalls
		r.Turns += a.Turns
		r.ToolsUsed = append(r.ToolsUsed, a.ToolsUsed...)
	}
	slices.Sort(r.ToolsUsed)
	r.ToolsUsed = slices.Compact(r.ToolsUsed)
	judged := f.Manifest.Judge != nil
	if f.Scored() {
		r.OfficialCorrect = new(bool)
		if judged {
			r.JudgedCorrect = new(bool)
		}
	}
	a, votes := t.vote()
	if t.votes {
		r.Voting = &TaskVote{Rule: plan.VoteMajority}
		if f.Scored() {
			r.Voting.Passed = new(int)
		}
		for _, each := range t.Attempts {
			if each.Ended.Outcome != trajectory.Errored {
				r.Voting.Attempts++
			}
			if each.Answer != nil {
				r.Voting.Answers++
			}
			if each.correct() {
				*r.Voting.Passed++
			}
		}
		if a != nil {
			r.Voting.Votes = votes[a.Number-1]
		}
	}
	if a == nil {
		return r
	}
	r.LatencyMs = a.LatencyMs()
	if a.Answer != nil {
		r.ModelAnswer, r.ReasoningTrace = &a.Answer.Answer, a.Answer.ReasoningTrace
	}
	if j := a.Judgment; j != nil {
		r.OfficialCorrect, r.ScoringPath = &j.Official, j.Path
		if judged {
			r.JudgedCorrect = j.Judged
		}
	}
	return r
}

// Rows yields the records of all tasks, in plan order; every task must be sealed.
func (f *Fold) Rows() iter.Seq[Result] {
	return func(yield func(Result) bool) {
		for _, t := range f.Tasks {
			if !yield(f.Result(t)) {
				return
			}
		}
	}
}

// WriteResults writes results.jsonl, row by row; every task must be sealed.
func (f *Fold) WriteResults(w io.Writer) (err error) {
	var line []byte
	for row := range f.Rows() {
		if line, err = appendLine(line[:0], row); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// CompletedAt returns when the run was completed, by its journal; "" if it is not.
func (f *Fold) CompletedAt() string { return f.completed }

// Summary returns the summary of a completed run.
func (f *Fold) Summary() Summary {
	told := Told{Started: f.Started, Completed: f.completed, Interruptions: f.Interruptions, Judge: f.judge,
		IntegrityEvents: f.IntegrityEvents(), Preflight: f.Preflight(), Shards: f.ShardsSummary(), Unrecorded: f.Unrecorded}
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			told.RetriedCalls += a.Retried
		}
		made := slices.IndexFunc(t.Attempts, func(a *Attempt) bool { return a.Ended.Outcome != trajectory.Errored })
		if made >= 0 && t.Attempts[made].correct() {
			told.PassedFirst++
		}
	}
	return Summarise(f.Manifest, f.ManifestSHA256, f.Rows(), told)
}

// IntegrityEvents returns how many entries of the judge cache did not verify so far.
func (f *Fold) IntegrityEvents() int { return f.badCache }

// Encode returns summary.json.
func (s Summary) Encode() ([]byte, error) { return canonical.Encode(s) }

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
	return trajectory.Leaf{Attempts: len(t.Attempts), Digest: canonical.DigestText(t.sum), Lines: t.lines,
		RunID: f.Manifest.RunID, Salt: hex.EncodeToString(t.Salt[:]), TaskID: t.Plan.TaskID}
}

// Checkpoint returns the tree head of a completed run whose journal ends at end.
func (f *Fold) Checkpoint(end trajectory.End) (trajectory.Checkpoint, error) {
	var tree trajectory.Tree
	for _, t := range f.Tasks {
		if err := tree.Add(f.leaf(t)); err != nil {
			return trajectory.Checkpoint{}, err
		}
	}
	root, err := tree.Root()
	return trajectory.Checkpoint{RunID: f.Manifest.RunID, Size: tree.Size(), Root: root,
		ManifestSHA256: f.ManifestSHA256, Journal: end, Rehearsal: f.Manifest.Rehearsal}, err
}

// RunCompleted returns the closing event's payload; false while a task is not sealed.
func (f *Fold) RunCompleted() (trajectory.RunCompleted, bool) {
	for _, t := range f.Tasks {
		if t.Sealed == nil {
			return trajectory.RunCompleted{}, false
		}
	}
	return f.counts(), true
}

// RunStopped returns the payload that closes a run before its end, since a model that it needs cannot be asked.
func (f *Fold) RunStopped() trajectory.RunCompleted {
	c := f.counts()
	c.Planned, c.Stopped = len(f.Tasks), trajectory.StoppedByEndpoint
	begun := maps.Values(f.part.tasks)
	if f.part.shard == nil {
		begun = slices.Values(f.Tasks)
	}
	for t := range begun {
		if len(t.Attempts) > 0 {
			c.TasksBegun++
		}
	}
	if s := f.part.shard; s != nil {
		c.Planned = int(f.Manifest.Part(s.Shard, int64(len(f.Manifest.Tasks))))
		if s.Shard.Of == 0 { // a worker begins what it is given
			c.Planned = c.TasksBegun
		}
	}
	return c
}

// counts counts the sealed tasks by outcome.
func (f *Fold) counts() trajectory.RunCompleted {
	c := trajectory.RunCompleted{GuidanceHash: f.Manifest.GuidanceHash}
	var o Outcomes
	for _, t := range f.Tasks {
		if t.Sealed != nil {
			c.Planned++
			o.add(t.Sealed.Outcome)
		}
	}
	c.Error, c.Failed, c.Skipped, c.Solved, c.Unscored = o.Error, o.Failed, o.Skipped, o.Solved, o.Unscored
	return c
}

// appendLine appends the line of a record, newline included.
func appendLine(b []byte, v any) ([]byte, error) {
	b, err := canonical.Append(b, v)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// ErrUnscored is that a run has no gold answers to be compared by.
var ErrUnscored = errors.New("the run is unscored: without gold answers there is nothing to compare by")

// ScoredTasks returns the tasks of a completed run in plan order. Of a run without gold answers the error is
// ErrUnscored.
func (f *Fold) ScoredTasks() ([]stats.Scored, error) {
	if !f.Scored() {
		return nil, ErrUnscored
	}
	out := make([]stats.Scored, len(f.Tasks))
	for i, t := range f.Tasks {
		r := f.Result(t)
		out[i] = stats.Scored{CostMicroUSD: r.CostMicroUSD, Level: r.Level, Outcome: r.Outcome,
			FileName: t.Plan.FileName, MetadataSHA256: f.Manifest.Dataset.MetadataSHA256, TaskID: r.TaskID, Tokens: r.Tokens.In + r.Tokens.Out}
		if len(t.Attempts) > 0 {
			out[i].Question = string(t.asked[:])
		}
	}
	return out, nil
}
