package audit

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// journalFact is what is known of one journal of the run. A merged run has several: a line of one comes neither before nor
// after a line of another, whatever their numbers are.
type journalFact struct {
	Began   int64 // its first line
	Started trajectory.RunStarted
	Asked   bool   // a model, before the tasks
	Tasks   bool   // an attempt that counts is in it
	Spent   int64  // the line with which the known costs passed what may be spent in it; 0: they did not
	Limit   int64  // that, in micro-USD; 0: there is none
	Clocks  clocks // of its processes

	Passages sentPassages // of an own agent
	spent    int64        // known costs up to the line that was read last, in micro-USD
}

// begin takes the first line of a journal: another process writes it, which knows nothing of the ones before.
func (g *gatherer) begin(ev trajectory.Event, p trajectory.RunStarted) {
	j := &journalFact{Began: ev.Seq, Started: p, Limit: g.e.Manifest.Budgets.RunCostMicroUSD}
	if n := len(g.e.Journals); n > 0 {
		j.Passages.kept = g.e.Journals[n-1].Passages.kept // what is kept is bounded for the run
	}
	if p.Shard.Key != "" {
		j.Limit = g.e.Manifest.Part(p.Shard, j.Limit)
	}
	g.e.Journals = append(g.e.Journals, j)
	g.approved.tools, g.swept = g.e.Manifest.Approved, false
}

// name names what a journal is of.
func (j *journalFact) name() string {
	if j.Started.Shard.Key == "" {
		return "the run"
	}
	return plan.Delegation{Shard: j.Started.Shard}.String()
}

// journal returns the journal that a line is of.
func (e *evidence) journal(seq int64) *journalFact {
	i, found := slices.BinarySearchFunc(e.Journals, seq, func(j *journalFact, seq int64) int { return cmp.Compare(j.Began, seq) })
	if !found {
		i--
	}
	if i < 0 { // evidence that no journal gave
		return &journalFact{}
	}
	return e.Journals[i]
}

// end returns the line behind the journal that a line is of.
func (e *evidence) end(seq int64) int64 {
	for _, j := range e.Journals {
		if j.Began > seq {
			return j.Began
		}
	}
	return e.Events
}

// otherBuild reports whether a program that wrote a part of a journal is not the plan's. A shard may run on a machine of
// another kind, and who merges need not be the one who planned: of them only the executable may differ.
func (e *evidence) otherBuild(seq int64, h trajectory.Harness) bool {
	if e.Shards != nil {
		return !h.SameSource(e.Manifest.Harness)
	}
	return h != e.Manifest.Harness
}

// supersede takes an event of an attempt that does not count: no check looks at it, but it was paid for.
func (g *gatherer) supersede(ev trajectory.Event) {
	g.spend(ev)
	switch p := ev.Payload.(type) {
	case trajectory.ModelCallCompleted:
		u := use{id: p.RequestID, tokens: p.Tokens.In + p.Tokens.Out}
		if p.OutputSHA256 != "" {
			g.e.Superseded = append(g.e.Superseded, u.of(1, p.UsageReported))
		} else if (p.Reply == nil || p.Error != nil) && unheard(p.Error) {
			g.e.Superseded = append(g.e.Superseded, use{}.of(1, false))
		}
	case trajectory.ToolExecuted:
		if m := p.Model; m != nil {
			g.e.Superseded = append(g.e.Superseded, use{id: m.RequestID, tokens: m.Tokens.In + m.Tokens.Out}.of(max(m.Tries, 1), m.UsageReported))
		}
	}
}

// lostTasks counts the tasks of which the run does not have all that was asked of models: those of shards whose journals are
// gone, and those that workers finished and that were made again.
func (e *evidence) lostTasks() (n int) {
	if e.Shards != nil {
		for _, s := range e.Shards.Shards {
			n += s.Lost
		}
	}
	return n
}

// checkShards looks at what a merged run leaves out. Whoever may drop a journal chooses among answers, though none of them
// was graded yet.
func checkShards(e *evidence, n *notes) {
	if e.Shards == nil {
		return
	}
	gone, planned := 0, len(e.Manifest.Tasks)
	for i, s := range e.Shards.Shards {
		switch {
		case s.Lost == 0:
		case s.Shard.Of == 0:
			n.find("tasks-made-again", place{seq: e.merged(i)}, fmt.Sprintf("%s that worker %d finished, did not claim in time, and left to be made again", view.Count(s.Lost, "task"), s.Shard.Index))
		default:
			gone += s.Lost
			n.find("shard-lost", place{seq: e.merged(i)}, fmt.Sprintf("the journal of shard %d of %d is gone, and with it %s", s.Shard.Index, s.Shard.Of, view.Count(s.Lost, "task")))
		}
	}
	n.findIf(20*gone > planned, "shards-lost", place{}, fmt.Sprintf("the journals of %d of %d tasks are gone", gone, planned), fmt.Sprintf("those of %d at most", planned/20))
	if s := e.Summary.Shards; s != nil && s.Superseded.Tasks > 0 {
		n.find("attempts-superseded", place{}, fmt.Sprintf("%s at %s in journals that do not count; their cost was %s",
			view.Count(s.Superseded.Attempts, "attempt"), view.Count(s.Superseded.Tasks, "task"), view.Dollars(s.Superseded.CostMicroUSD)))
	}
	for _, j := range e.Journals {
		n.findIf(e.otherBuild(j.Began, j.Started.Harness), "merged-by-another-version", place{seq: j.Began, given: true}, fmt.Sprintf("version %q merged and graded", j.Started.Harness.Version),
			fmt.Sprintf("version %q, built as in the plan", e.Manifest.Harness.Version))
	}
}

// merged returns the line of the run's own journal that merges an entry of shards.json, from 0.
func (e *evidence) merged(entry int) int64 {
	return e.Journals[len(e.Journals)-1].Began + 1 + int64(entry)
}

// locate gives the findings about a merged run the journal and the line in it that they are about. What is about no line is
// about the run, which its own journal begins.
func (e *evidence) locate(checks []CheckReport) {
	if e.Shards == nil {
		return
	}
	for f := range findings(checks) {
		if f.Seq == 0 {
			f.Seq = e.Journals[len(e.Journals)-1].Began
		}
		f.Journal, f.Line = e.Place(f.Seq)
		f.ID = f.digest()
	}
}

// Place returns the file of the run that a finding is about, and the line in it, from 1.
func (f Finding) Place() (journal string, line int64) {
	if f.Journal == "" {
		return trajectory.JournalFile, f.Seq + 1
	}
	return f.Journal, f.Line
}

// isJournal reports whether a path can be of a journal of a merged run.
func isJournal(name string) bool {
	return name == trajectory.JournalFile || fs.ValidPath(name) && path.Base(name) == trajectory.JournalFile && path.Dir(path.Dir(name)) == rundir.ShardsDir
}
