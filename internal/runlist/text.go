package runlist

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/text"
)

// shortest is how many characters of an id a table shows at least.
const shortest = 10

// Text returns a table of runs that is 80 columns wide, with the start of each id that no other run in it has, and below it why
// runs are damaged. left is how many more there are.
func Text(entries []Entry, left int) string {
	t := view.NewTable("run", "started", "result", "cost", "model")
	var problems strings.Builder
	for i, e := range entries {
		if e.State == page.Damaged {
			fmt.Fprintf(&problems, "\n%s: %s", view.Line(view.Quote(e.Dir)), view.Line(e.Problem))
		}
		started := "–" // to the minute
		if at, err := time.Parse(trajectory.TimeFormat, e.Started); err == nil {
			started = at.UTC().Format("2006-01-02 15:04")
		}
		cost := "–" // to the cent, rounded up so that nothing looks free that is not
		if e.CostMicroUSD != nil {
			up := (*e.CostMicroUSD + 9999) / 10000
			cost = fmt.Sprintf("$%d.%02d", up/100, up%100)
		}
		t.Row(abbreviated(entries, i), started, e.result(), cost, e.solver())
	}
	out := t.String() + "\n"
	if problems.Len() > 0 {
		out += problems.String() + "\n"
	}
	if left > 0 {
		out += fmt.Sprintf("\n%s left out by --limit\n", view.Count(left, "older run"))
	}
	return out
}

// result returns the score of a complete run, and of another its state and how far it is.
func (e Entry) result() string {
	switch {
	case e.State == page.Damaged:
		return e.State
	case e.Workers > 0:
		return fmt.Sprintf("%s by %s, %d/%d", e.State, view.Count(e.Workers, "worker"), e.Done, e.Planned)
	case e.State != page.Complete:
		return strings.TrimPrefix(fmt.Sprintf("%s, %s %d/%d", e.Shard, e.State, e.Done, e.Planned), ", ")
	case e.Score == nil:
		return fmt.Sprintf("not scored, %d", e.Planned)
	}
	return fmt.Sprintf("%d/%d %s", e.Score.Correct, e.Score.Planned, view.Percent(e.Score.AccuracyPPM))
}

// maxSolver is the width of the last column, in characters.
const maxSolver = 15

// solver returns who solves the tasks, as far as there is room: what must not be missed comes first.
func (e Entry) solver() string {
	s := e.Model
	if e.Agent != "" {
		s = e.Agent + ", " + s
	}
	if e.ErrorsOf != "" {
		s = "only errors, " + s
	}
	if e.Rehearsal {
		s = "rehearsal, " + s
	}
	return text.Snip(view.Line(s), maxSolver, "…")
}

// abbreviated returns the start of the id of an entry that no other id in the list has.
func abbreviated(entries []Entry, i int) string {
	id := entries[i].ID
	id = id[:min(len(id), idLength)] // a folder's name, of a damaged run
	for n := shortest; n < len(id); n++ {
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.ID != entries[i].ID && strings.HasPrefix(e.ID, id[:n]) }) {
			return id[:n]
		}
	}
	return id
}
