package overview

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
)

// The most chunks that a report has of a task, and the most items of all tasks.
const (
	maxReportChunks = 5
	maxReportItems  = 20_000
)

// Report returns a run as one file. Without texts no answer, question, argument, file name or other text of the run is in
// it: what is left are its plan, ids, numbers, outcomes, names of planned tools, and rules of findings. The source has no
// Paths. The error is that nothing can be shown.
func Report(s Source, withTexts bool) (page.Report, error) {
	s = s.begin()
	// A file has no other pages: a link would lead nowhere, or to a server that is gone.
	s.Paths = page.Paths{}
	s.Live, s.Trail, s.Compare = "", nil, nil
	if s.textless = !withTexts; s.textless {
		s.Gold = nil
	}
	run, err := Run(s, page.TaskFilter{}, 0)
	if err != nil {
		return page.Report{}, err
	}
	p := page.Report{Run: run, Command: "gaia verify " + view.Quote(visible.Line(s.text(s.Place, run.Row.ID)))}
	// The name of the folder can say whose the package is, so another word stands for it.
	if run.Row.ID == unknown {
		p.Command = "gaia verify PACKAGE"
	}
	p.Origin = [][2]string{{"run", run.Row.ID}}
	for _, f := range run.Facts {
		if slices.Contains([]string{"manifest", "root", "signed by"}, f[0]) {
			p.Origin = append(p.Origin, f)
		}
	}
	if s.Program != "" {
		p.Origin = append(p.Origin, [2]string{"written by", s.Program})
	}
	// The report says on top whether it is of a run that verifies; the command decides whether it is written.
	switch damage := s.damage(); {
	case damage != nil:
		p.Problem = s.text(damage.Error(), faultOf(damage))
	case !s.Check.Done || s.incomplete():
		p.Problem = "the run is not finished, or its verification is not"
	case s.Check.Err != nil:
		p.Problem = s.text(s.Check.Err.Error(), "it could not be audited")
	default:
		p.Verified = "by " + s.Program
	}
	if s.report() != nil || s.Check.Public != nil {
		a, err := Audit(s)
		if err != nil {
			return page.Report{}, err
		}
		p.Audit = &a
	}
	if !withTexts || s.Journal == nil {
		return p, nil
	}
	// Large transcripts are cut to their beginning, and say so: the file must still open.
	room := maxReportItems
	for _, row := range run.Tasks {
		t, err := Task(s, row.ID, 0, 0, transcript.Filter{})
		if err != nil {
			return page.Report{}, fmt.Errorf("task %q: %w", row.ID, err)
		}
		for n := 1; t.Chunk.Next >= 0 && n < maxReportChunks && len(t.Chunk.Items) < room; n++ {
			more, err := s.Journal.Chunk(row.ID, t.Attempt, t.Chunk.Next, transcript.Filter{})
			if err != nil {
				return page.Report{}, fmt.Errorf("task %q: %w", row.ID, err)
			}
			t.Chunk.Items, t.Chunk.Next = append(t.Chunk.Items, more.Items...), more.Next
		}
		if len(t.Chunk.Items) > room {
			t.Chunk.Items, t.Chunk.Next = t.Chunk.Items[:room], room
		}
		room -= len(t.Chunk.Items)
		if t.Chunk.Next >= 0 {
			t.Facts = append(t.Facts, [2]string{"left out", fmt.Sprintf("all but the first %s of %d", view.Count(len(t.Chunk.Items), "event"), t.Chunk.Total)})
		}
		p.Tasks = append(p.Tasks, t)
	}
	return p, nil
}
