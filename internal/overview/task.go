package overview

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Task returns the page of an attempt at a task, with the items that f chooses from the event at from on. Attempt 0 is the
// attempt that counts, or the last. The error is ErrNoTask, or that the journal cannot be read.
func Task(s Source, id string, attempt, from int, f transcript.Filter) (page.Task, error) {
	if s.Journal == nil {
		if s.Check.Public == nil {
			return page.Task{}, cmp.Or(s.Check.Err, errUnread)
		}
		return publicTask(s, s.Check.Public, id)
	}
	s = s.begin()
	p := page.Task{ID: id, Path: s.Paths.Task(id), PicturePath: s.Paths.Pictures(), BodyPath: s.Paths.Bodies(), JournalPath: s.Paths.Journal(), Filter: f, Attempt: attempt}
	err := ErrNoTask
	s.Journal.Read(func(run *rundir.Run) {
		if t := run.Task(id); t != nil {
			err = ofTask(&p, s, run, t)
		}
	})
	if err != nil {
		return page.Task{}, err
	}
	// Closed findings are shown, too: a reader of the task sees that someone decided about it.
	if r := s.report(); r != nil {
		for _, c := range r.Checks {
			for _, found := range c.Findings {
				if found.TaskID == id {
					p.Findings = append(p.Findings, newFinding(s, *r, found))
				}
			}
		}
	}
	// Attempt 0 is that of a task which was not begun: it has no events.
	if p.Attempt > 0 {
		p.PlotsPath = s.Paths.TaskPlots(id, p.Attempt)
		var turns []plot.Turn
		for _, t := range s.Journal.Turns(id, p.Attempt) {
			n := int64(max(t.Count, 1))
			turns = append(turns, plot.Turn{Number: t.First, TokensIn: t.Tokens.In / n, TokensOut: t.Tokens.Out / n, LatencyMs: t.ModelMs / n, Failed: t.Failed > 0})
		}
		p.Plots = []plot.Plot{plot.Turns(turns)}
	}
	p.Chunk, err = s.Journal.Chunk(id, p.Attempt, from, f)
	if p.Attempt == 0 && errors.Is(err, fs.ErrNotExist) { // a task that was not begun has no events
		p.Chunk = transcript.Chunk{Next: -1, Prev: -1}
		return p, nil
	}
	if err != nil {
		return page.Task{}, err
	}
	if p.Attempt == 0 {
		return p, nil
	}
	// The first event of the attempt has the question. The chunk that is shown may begin later, or be filtered.
	c, err := s.Journal.Chunk(id, p.Attempt, 0, transcript.Filter{Kind: transcript.KindTask})
	if err == nil && len(c.Items) > 0 {
		if p.Question = c.Items[0].Text; c.Items[0].Cut != "" {
			p.Question += "\n" + c.Items[0].Cut
		}
	}
	return p, err
}

// ofTask fills the page of a task from the run.
func ofTask(p *page.Task, s Source, run *rundir.Run, t *rundir.Task) error {
	m := run.Manifest
	p.Head = s.head("Task "+t.Plan.TaskID, m, run.Marked)
	p.Trail = s.under(m.RunID)
	p.RunID, p.Level, p.Outcome = m.RunID, t.Plan.Level, outcomeOf(t)
	counted := t.Counted()
	if counted != nil && (t.Sealed != nil || counted.Answer != nil) {
		p.Counted = counted.Number
	}
	// Without a wish, the attempt that a reader looks for: the one under way, else the one that counts.
	switch {
	case p.Attempt < 0 || p.Attempt > len(t.Attempts):
		return fmt.Errorf("attempt %d: %w", p.Attempt, fs.ErrNotExist)
	case p.Attempt == 0 && t.Open() != nil && t.Sealed == nil:
		p.Attempt = t.Open().Number
	case p.Attempt == 0 && counted != nil:
		p.Attempt = counted.Number
	}
	for _, a := range t.Attempts {
		n := strconv.Itoa(a.Number)
		p.Attempts = append(p.Attempts, page.Link{Text: n, Path: p.Path + "?attempt=" + n})
	}
	// The expected answer is shown only to who asked for it by a flag.
	if answer, known := s.Gold[p.ID]; known {
		p.Gold = &answer
	}
	if t.Plan.FileName != "" {
		p.Files = append(p.Files, [2]string{t.Plan.FileName, fileFacts(*t.Plan)})
	}
	if p.Attempt > 0 {
		attemptFacts(p, m, t, t.Attempts[p.Attempt-1])
	}
	if shard := runview.TaskShard(run.Fold, t); shard != "" {
		p.Facts = append(p.Facts, [2]string{"shard", shard})
	}
	return nil
}

// fileFacts describes the file of a task.
func fileFacts(t plan.PlannedTask) string {
	if t.FileSHA256 == "" {
		return "its digest is not planned"
	}
	return view.Bytes(t.FileBytes) + ", " + t.FileSHA256
}

// attemptFacts adds what is known of an attempt.
func attemptFacts(p *page.Task, m plan.Plan, t *rundir.Task, a *rundir.Attempt) {
	var rows view.List
	rows.Add("outcome of the task", p.Outcome)
	// The outcome of the attempt can differ from that of the task, which another attempt or a vote decides.
	switch {
	case a.Ended == nil:
		rows.Add("attempt", "under way")
	case a.Ended.Reason != "":
		rows.Add("attempt", a.Ended.Outcome+": "+a.Ended.Reason)
	default:
		rows.Add("attempt", a.Ended.Outcome)
	}
	if a.Error != nil {
		rows.Add("error", a.Error.Stage+": "+a.Error.Message)
	}
	rows.Addf("calls", "%d turns, %d tool calls, %d model calls retried", a.Turns, a.ToolCalls, a.Retried)
	rows.Addf("tokens", "%d in (%d cached), %d out", a.Tokens.In, a.Tokens.Cached, a.Tokens.Out)
	rows.Add("cost", view.Dollars(a.CostMicroUSD))
	if a.Ended != nil {
		rows.Addf("time", "%d.%03d s", a.LatencyMs()/1000, a.LatencyMs()%1000)
	}
	if a.Refused > 0 {
		rows.Add("refused", view.Count(a.Refused, "request"))
	}
	if *a.Conduct != (trajectory.Conduct{}) {
		rows.Add("rules", runview.Conduct(*a.Conduct))
	}
	if votes := t.Votes(); votes != nil && a.Answer != nil {
		rows.Add("votes", strconv.Itoa(votes[a.Number-1]))
	}
	if a.Ended != nil && a.Ended.Agent != nil {
		rows.Add("process", runview.Process(a.Ended.Agent))
	}
	if a.Ended != nil && a.Ended.Workspace != nil {
		rows.Add("workspace", runview.Change(a.Ended.Workspace))
	}
	p.Facts = rows
	if a.Answer != nil {
		p.Answer = new(a.Answer.Answer)
		p.Facts = append(p.Facts, [2]string{"answer found by", a.Answer.Rule})
	}
	// The title of a judgment has both verdicts and the path, in the words of gaia show.
	if j := a.Judgment; j != nil {
		verdicts := view.List{{"verdict", runview.Title(*j)}}
		if j.Model != "" {
			verdicts.Add("judge", j.Model)
			verdicts.AddNonEmpty("replied as", j.ResponseModel)
			verdicts.Addf("judge's calls", "%s, %d tokens in, %d out, %d ms, cost %s", view.Count(j.Tries, "try"), j.TokensIn, j.TokensOut, j.LatencyMs, view.Dollars(j.CostMicroUSD))
		}
		if j.Cached {
			verdicts.Add("cached", "the judge's verdict is from its signed cache")
		}
		if j.ErrorStatus != 0 {
			verdicts.Addf("judge's error", "HTTP %d", j.ErrorStatus)
		}
		p.Verdicts = verdicts
	} else if m.Scored() && a.Answer != nil {
		p.Verdicts = [][2]string{{"verdict", "not graded yet"}}
	}
}

// publicTask returns the page of a task of a public package: its record, without texts and events.
func publicTask(s Source, of *submit.Public, id string) (page.Task, error) {
	for _, r := range of.Results {
		if r.TaskID != id {
			continue
		}
		p := page.Task{ID: id, RunID: of.Manifest.RunID, Level: r.Level, Outcome: r.Outcome, Counted: r.Attempt, Path: s.Paths.Task(id), Chunk: transcript.Chunk{Next: -1, Prev: -1}}
		p.Head = s.head("Task "+id, of.Manifest, of.Statement.Predicate.RecordingFailed)
		p.Trail = s.under(of.Manifest.RunID)
		rows := view.List{{"outcome of the task", r.Outcome}}
		rows.Addf("calls", "%s, %d turns, %d tool calls", view.Count(r.Attempts, "attempt"), r.Turns, r.ToolCalls)
		rows.Addf("tokens", "%d in (%d cached), %d out", r.Tokens.In, r.Tokens.Cached, r.Tokens.Out)
		rows.Add("cost", view.Dollars(r.CostMicroUSD))
		rows.Addf("answered", "%t", r.Answered)
		p.Facts = rows
		if r.OfficialCorrect != nil {
			p.Verdicts = [][2]string{{"official", runview.Correct(r.OfficialCorrect)}, {"judged", runview.Correct(r.JudgedCorrect)}, {"scored by", r.ScoringPath}}
		}
		return p, nil
	}
	return page.Task{}, ErrNoTask
}
