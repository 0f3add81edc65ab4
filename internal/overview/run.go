package overview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// How a task is shown that has no outcome yet.
const (
	running = "running"
	waiting = "waiting"
	later   = "graded later"
)

// maxFilter bounds the text of a filter, in bytes.
const maxFilter = 200

// errUnread is that there is nothing of a run to show yet.
var errUnread = errors.New("the package is not verified yet, and a public package is shown when it is")

// runPage is the page of a run that is made.
type runPage struct {
	page.Run
	s Source
}

// Run returns the page of a run as far as it was read: the tasks that f chooses from the from-th on, at most
// page.RowsSize of them, or in a file all. The error is that nothing can be shown of the run.
func Run(s Source, f page.TaskFilter, from int) (page.Run, error) {
	// Of a public package nothing is shown before it verifies: it has no journal that could be read meanwhile.
	if s.Journal == nil && s.Check.Public == nil {
		if s.damage() == nil {
			return page.Run{}, cmp.Or(s.Check.Err, errUnread)
		}
		return unknownRun(s), nil
	}
	s = s.begin()
	// The filter comes from an address, and is compared with every task.
	f.Text = f.Text[:min(len(f.Text), maxFilter)]
	p := runPage{page.Run{Filter: f, From: max(from, 0), PlotsPath: s.Paths.Plots(), Compare: s.Compare}, s}
	if s.Journal == nil {
		p.ofPublic(s.Check.Public)
	} else {
		state := s.state()
		p.Events = limits(s)
		s.Journal.Read(func(run *rundir.Run) { p.ofRun(run, state) })
		p.Plots = append(p.Plots, usagePlots(s.Journal, state)...)
	}
	p.All = len(p.Tasks)
	// The choices are of all tasks, so that one filter can be changed for another.
	levels, seen := map[int]bool{}, [3]map[string]bool{{}, {}, {}}
	text := strings.ToLower(p.Filter.Text)
	var found []page.TaskRow
	for _, t := range p.Tasks {
		levels[t.Level], seen[0][t.Outcome] = true, true
		for _, tool := range t.Tools {
			seen[1][tool] = true
		}
		for _, check := range t.Findings {
			seen[2][check] = true
		}
		f := p.Filter
		if (f.Outcome == "" || f.Outcome == t.Outcome) && (f.Level == 0 || f.Level == t.Level) && (f.Tool == "" || slices.Contains(t.Tools, f.Tool)) &&
			(f.Check == "" || slices.Contains(t.Findings, f.Check)) &&
			(text == "" || strings.Contains(strings.ToLower(t.ID), text) || strings.Contains(strings.ToLower(t.Answer), text)) {
			found = append(found, t)
		}
	}
	p.Choices = page.Choices{Levels: slices.Sorted(maps.Keys(levels)), Outcomes: slices.Sorted(maps.Keys(seen[0])),
		Tools: slices.Sorted(maps.Keys(seen[1])), Checks: slices.Sorted(maps.Keys(seen[2]))}
	// A page of the viewer has a part of the rows; a file has all, since it has no next page.
	p.Found = len(found)
	if p.From = min(p.From, len(found)); p.s.Paths.Run != "" {
		found = found[p.From:min(p.From+page.RowsSize, len(found))]
	}
	p.Tasks = found
	return p.Run, nil
}

// unknown stands for what is not known of a public package that does not verify.
const unknown = "unknown"

// unknownRun returns the page of a public package that does not verify: that it does not, and why. Without a journal
// there is no part of it that is known to be what was signed, so that no number of it is shown.
func unknownRun(s Source) page.Run {
	row := page.RunRow{ID: s.text(filepath.Base(s.Place), unknown), Agent: unknown + " agent", Path: s.Paths.Run, Dir: s.text(s.Place, ""), State: page.Damaged,
		Problem: s.text(s.damage().Error(), faultOf(s.damage()))}
	return page.Run{Head: s.head("Public package "+row.ID, plan.Plan{}, ""), Row: row}
}

// ofRun fills the page from a run that is read.
func (p *runPage) ofRun(run *rundir.Run, state transcript.State) {
	// Everything here is copied: the run changes when the lock is given back.
	m, sum := run.Manifest, soFar(run.Fold, state.Last)
	if run.Shard != nil { // whose tasks are the others that the plan has
		m.Tasks = nil
		for _, t := range run.Tasks {
			m.Tasks = append(m.Tasks, *t.Plan)
		}
	}
	// Why recording failed is known from the journal, or only from a marker that verification reads.
	marked := run.Marked
	if of := p.s.Check.Audited.Run; of != nil {
		marked = cmp.Or(marked, of.Marked)
	}
	p.Head, p.Row = p.s.head("Run "+m.RunID, m, marked), p.s.row(m)
	p.Row.Started, p.Row.CostMicroUSD = run.Started, copyOf(sum.Cost())
	// Damage comes first: a run whose journal is complete can have been changed.
	switch {
	case p.Row.State == page.Damaged:
	case run.Completed != nil:
	case run.Shard != nil && run.Shard.Shard.Of != 0 && run.AllCommitted():
		p.Row.State = page.Committed
	case run.Stopped != nil:
		p.Row.State = page.Stopped
	case p.s.State == page.Interrupted:
		p.Row.State = page.Interrupted
	default:
		p.Row.State = page.Running
	}
	findings := findingsOf(p.s.report())
	// Repeats are shown where the plan repeats: attempts after a failure are no sample.
	vote := m.Voting.Rule == plan.VoteMajority
	var heat []plot.HeatRow
	for _, t := range run.Tasks {
		row := taskRow(run.Fold, t)
		row.Path, row.Findings = p.s.Paths.Task(row.ID), findings[row.ID]
		if p.s.textless {
			row.Answer, row.Tools = "", onlyPlanned(m, row.Tools)
		}
		if t.Sealed != nil || run.Shard != nil && t.Committed != nil {
			p.Row.Done++
		}
		p.Tasks = append(p.Tasks, row)
		if vote {
			heat = append(heat, heatRow(t))
		}
	}
	p.score(m, sum, run.Completed != nil)
	p.Outcomes = outcomes(p.Tasks)
	if shards := run.ShardsSummary(); shards != nil {
		p.Shards = page.Table{Columns: runview.ShardColumns, Rows: runview.Shards(run.Fold), Note: shards.String()}
	}
	p.Facts = append(view.List(runview.Plan(m)), [2]string{"manifest", run.ManifestSHA256}, [2]string{"signed by", run.Key.ID()}, [2]string{"events", strconv.FormatInt(state.Events, 10)})
	if !p.s.textless {
		p.Facts = append(p.Facts, [2]string{"run", p.s.Place})
	}
	// The root and the end of the journal are of what was verified, not of what is being read.
	if of := p.s.Check.Audited.Run; of != nil && of.Complete {
		p.Facts = append(p.Facts, [2]string{"root", of.RootHash}, [2]string{"journal", of.End.Head})
		p.Facts = append(p.Facts, [2]string{"exceptions", of.Exceptions().String()})
	}
	// Without texts only rows remain that consist of numbers and of words of this program.
	rows := runview.Spent(run, sum)
	if run.Completed != nil {
		rows = append(rows, runview.Results(m, sum)[1:]...) // the outcomes are shown as numbers
	}
	for _, r := range rows {
		if !p.s.textless || slices.Contains([]string{"calls", "inputs", "rules", "tokens", "cost", "wall time", "voting", "budget"}, r[0]) {
			p.Spent = append(p.Spent, r)
		}
	}
	for _, i := range run.Interruptions {
		text := "resumed " + runview.Interruption(i)
		if i.Stopped != "" {
			text += "; it had been stopped by its " + view.Line(i.Stopped)
		}
		p.Events = append(p.Events, [2]string{i.Resumed, text})
	}
	// The fold keeps no time of a stop: it is the last thing that was recorded.
	if run.Stopped != nil {
		p.Events = append(p.Events, [2]string{state.Last, runview.Title(*run.Stopped)})
	}
	slices.SortStableFunc(p.Events, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	p.audited(p.s.report())
	if vote {
		columns := 0
		for _, r := range heat {
			columns = max(columns, len(r.Cells))
		}
		names := make([]string, columns)
		for i := range names {
			names[i] = strconv.Itoa(i + 1)
		}
		p.Plots = append(p.Plots, plot.Repeats(names, "attempt", heat))
	}
}

// ofPublic fills the page from a public package.
func (p *runPage) ofPublic(of *submit.Public) {
	m, sum, said := of.Manifest, of.Summary, of.Statement.Predicate
	p.Head, p.Row = p.s.head("Run "+m.RunID, m, said.RecordingFailed), p.s.row(m)
	p.Row.Started, p.Row.CostMicroUSD = sum.Started, sum.Cost()
	p.Row.Done = len(of.Results)
	// The audit of a public package cannot be done again, so its result is never shown as this program's.
	p.Row.FindingsText = "audit not clean, as the signer reports"
	if said.Audit.Clean {
		p.Row.FindingsText = "audit clean, as the signer reports"
	}
	for _, r := range of.Results {
		p.Tasks = append(p.Tasks, page.TaskRow{ID: r.TaskID, Level: r.Level, Outcome: r.Outcome, Official: r.OfficialCorrect, Judged: r.JudgedCorrect,
			Attempts: r.Attempts, Turns: r.Turns, ToolCalls: r.ToolCalls, Tools: onlyPlanned(m, slices.Clone(r.ToolsUsed)), Tokens: r.Tokens.In + r.Tokens.Out,
			CostMicroUSD: r.CostMicroUSD, LatencyMs: r.LatencyMs})
	}
	p.score(m, sum, true)
	p.Outcomes = outcomes(p.Tasks)
	p.Facts = append(view.List(runview.Plan(m)), [2]string{"manifest", said.ManifestSHA256}, [2]string{"signed by", of.Key.ID()},
		[2]string{"root", said.Root}, [2]string{"journal", said.Journal.Head}, [2]string{"events", strconv.FormatInt(said.Journal.Events, 10)},
		[2]string{"exceptions", said.Exceptions.String()})
	if !p.s.textless {
		p.Facts = append(p.Facts, [2]string{"package", p.s.Place})
	}
	if sum.Shards != nil {
		p.Facts = append(p.Facts, [2]string{"shards", sum.Shards.String()})
	}
	if said.Prompts != nil {
		p.Facts = append(p.Facts, [2]string{"inputs", said.Prompts.String() + ", self-reported"})
	}
	p.Spent = append(view.List{}, [2]string{"calls", fmt.Sprintf("%d turns, %d tool calls, %d model calls retried", sum.Turns, sum.ToolCalls, sum.RetriedCalls)},
		[2]string{"tokens", fmt.Sprintf("%d in (%d cached), %d out", sum.Tokens.In, sum.Tokens.Cached, sum.Tokens.Out)}, [2]string{"cost", view.Dollars(sum.Cost())})
	for _, c := range said.Audit.Checks {
		if c.Findings+c.Gaps > 0 {
			p.Findings = append(p.Findings, [2]string{c.ID, string(c.Status) + ": " + view.Count(c.Findings, "finding") + ", " + view.Count(c.Gaps, "gap") + ", as the signer reports"})
		}
	}
	for _, i := range sum.Interruptions {
		p.Events = append(p.Events, [2]string{i.Resumed, "resumed " + runview.Interruption(i)})
	}
}

// score adds the scores over all tasks and by level. Of a run that has not ended they are over the tasks that have.
func (p *runPage) score(m plan.Plan, sum rundir.Summary, complete bool) {
	done, planned := map[int]rundir.LevelSummary{}, map[int]int{}
	for _, l := range sum.Levels {
		done[l.Level] = l
	}
	for _, t := range m.Tasks {
		planned[t.Level]++
	}
	// A judge that failed its self-test does not count; before the end of the run that is not settled.
	judged := m.Judge != nil && (!complete || sum.Judge.Counts())
	level := func(name string, planned, ended int, s *rundir.Scores) page.Level {
		l := page.Level{Name: name, Planned: planned, Done: ended}
		// Without a graded task there is no rate: 0 of 0 is not 0 %.
		if s != nil && ended > 0 {
			l.Official = copyOf(&s.Official)
			if judged {
				l.Judged = copyOf(s.Judged)
			}
		}
		return l
	}
	all := level("all", len(m.Tasks), p.Row.Done, sum.Scores)
	p.Levels = append(p.Levels, all)
	for _, n := range slices.Sorted(maps.Keys(planned)) {
		p.Levels = append(p.Levels, level(strconv.Itoa(n), planned[n], done[n].Planned, done[n].Scores))
	}
	// A score is of the whole run: that of a part would look better or worse than it is.
	if complete {
		p.Row.Score = all.Official
	}
	var rates []plot.LevelRate
	for _, l := range p.Levels {
		rates = append(rates, plot.LevelRate{Name: l.Name, Official: l.Official, Judged: l.Judged})
	}
	p.Plots = append(p.Plots, plot.AccuracyByLevel(rates))
}

// audited adds the findings by check; nothing if there is no report.
func (p *runPage) audited(r *audit.Report) {
	if r == nil {
		return
	}
	p.AuditPath = p.s.Paths.Audit()
	clean := "yes"
	if why := render.Unclean(*r); why != "" {
		clean = "no: " + why
	}
	p.Findings = append(p.Findings, [2]string{"clean", clean})
	for _, c := range r.Checks {
		open, closed := 0, 0
		for _, f := range c.Findings {
			if f.Closed == "" {
				open++
			} else {
				closed++
			}
		}
		var parts []string
		if open > 0 {
			parts = append(parts, view.Count(open, "open finding")+", "+string(c.Severity)+" at most")
		}
		if closed > 0 {
			parts = append(parts, fmt.Sprintf("%d closed", closed))
		}
		if len(c.Gaps) > 0 {
			parts = append(parts, view.Count(len(c.Gaps), "gap"))
		}
		if len(parts) > 0 {
			p.Findings = append(p.Findings, [2]string{c.ID + " " + c.Name, strings.Join(parts, "; ")})
		}
	}
}

// soFar summarises a run. Of one that has not ended, outcomes and scores are of the tasks that are sealed, and what was
// spent is of all attempts; last is the time of its last event.
func soFar(f *rundir.Fold, last string) rundir.Summary {
	if f.Completed != nil {
		return f.Summary()
	}
	s := rundir.Summarise(f.Manifest, f.ManifestSHA256, func(yield func(rundir.Result) bool) {
		for _, t := range f.Tasks {
			if t.Sealed != nil && !yield(f.Result(t)) {
				return
			}
		}
	}, rundir.Told{Started: f.Started, Completed: last, Interruptions: f.Interruptions, IntegrityEvents: f.IntegrityEvents(), Preflight: f.Preflight(), Shards: f.ShardsSummary()})
	s.Judge = nil // its verdicts are not all given
	// What is not sealed has no result, but costs money.
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			s.RetriedCalls += a.Retried
			if t.Sealed == nil {
				s.Attempts++
				s.CostMicroUSD = stats.AddCost(s.CostMicroUSD, a.CostMicroUSD)
				s.Tokens, s.ToolCalls, s.Turns = s.Tokens.Add(a.Tokens), s.ToolCalls+a.ToolCalls, s.Turns+a.Turns
			}
		}
	}
	return s
}

// outcomeOf returns the outcome of a task, or how it stands.
func outcomeOf(t *rundir.Task) string {
	switch a := t.Counted(); {
	case t.Sealed != nil:
		return t.Sealed.Outcome
	case t.Open() != nil:
		return running
	// A run for submission grades when all answers are committed.
	case a != nil && a.Answer != nil && a.Judgment == nil:
		return later
	}
	return waiting
}

// taskRow returns a task in the list of a run, without its path and findings.
func taskRow(f *rundir.Fold, t *rundir.Task) page.TaskRow {
	row := page.TaskRow{ID: t.Plan.TaskID, Level: t.Plan.Level, Outcome: outcomeOf(t), Attempts: len(t.Attempts), CostMicroUSD: new(int64)}
	for _, a := range t.Attempts {
		row.Turns, row.ToolCalls, row.Tokens = row.Turns+a.Turns, row.ToolCalls+a.ToolCalls, row.Tokens+a.Tokens.In+a.Tokens.Out
		row.CostMicroUSD = stats.AddCost(row.CostMicroUSD, a.CostMicroUSD)
		row.Tools = append(row.Tools, a.ToolsUsed...)
	}
	slices.Sort(row.Tools)
	row.Tools = slices.Compact(row.Tools)
	// The answer and the time are those of the attempt that counts, as in results.jsonl.
	a := t.Counted()
	row.Answer = answerOf(a)
	if a != nil && a.Ended != nil {
		row.LatencyMs = a.LatencyMs()
	}
	if t.Sealed != nil {
		r := f.Result(t)
		row.Official, row.Judged = copyOf(r.OfficialCorrect), copyOf(r.JudgedCorrect)
	}
	return row
}

// onlyPlanned leaves out the names of tools that a model made up.
func onlyPlanned(m plan.Plan, tools []string) []string {
	return slices.DeleteFunc(tools, func(name string) bool {
		return !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Name == name })
	})
}

// outcomes counts tasks by outcome.
func outcomes(tasks []page.TaskRow) [][2]string {
	counts := map[string]int{}
	for _, t := range tasks {
		counts[t.Outcome]++
	}
	var rows [][2]string
	for _, name := range []string{trajectory.Solved, trajectory.Failed, trajectory.Errored, trajectory.Skipped, trajectory.Unscored, running, later, waiting} {
		if counts[name] > 0 {
			rows = append(rows, [2]string{name, strconv.Itoa(counts[name])})
		}
	}
	return rows
}

// findingsOf returns for each task the ids of the checks with open findings about it.
func findingsOf(r *audit.Report) map[string][]string {
	all := map[string][]string{}
	if r == nil {
		return all
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if ids := all[f.TaskID]; f.TaskID != "" && f.Closed == "" && (len(ids) == 0 || ids[len(ids)-1] != c.ID) {
				all[f.TaskID] = append(ids, c.ID)
			}
		}
	}
	return all
}

// heatRow returns how the attempts at a task ended.
func heatRow(t *rundir.Task) plot.HeatRow {
	row := plot.HeatRow{Name: t.Plan.TaskID}
	for _, a := range t.Attempts {
		// An answer without a verdict is not yet a failure; no answer is one.
		cell := plot.Absent
		switch {
		case a.Ended == nil:
		case a.Ended.Outcome == trajectory.Errored:
			cell = plot.Errored
		case a.Answer == nil, a.Judgment != nil && !a.Judgment.Official:
			cell = plot.Failed
		case a.Judgment == nil:
			cell = plot.Ungraded
		default:
			cell = plot.Solved
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// maxLimits bounds the events of the run that a page lists.
const maxLimits = 100

// limits returns what the journal says of the whole run that a reader of it looks for: changes of the limit of requests,
// and what went wrong. Interruptions and stops are in the fold.
func limits(s Source) (all [][2]string) {
	for from := 0; from >= 0 && len(all) < maxLimits; {
		c, err := s.Journal.Chunk("", 0, from, transcript.Filter{})
		if err != nil { // the journal's first line is not read yet, or it was removed
			return all
		}
		for _, i := range c.Items {
			if (i.Bad || strings.HasPrefix(i.Title, "requests at once")) && !strings.HasPrefix(i.Title, "run ") && len(all) < maxLimits {
				text := fmt.Sprintf("line %d of the journal", i.Line)
				if journal, line := s.Journal.Where(i.Line); journal != "" {
					text = fmt.Sprintf("line %d of %s", line, journal)
				}
				if strings.HasPrefix(i.Title, "judge cache: ") { // which is all numbers
					text = i.Title
				}
				all = append(all, [2]string{i.Time, s.text(i.Title, text)})
			}
		}
		from = c.Next
	}
	return all
}
