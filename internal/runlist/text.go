package runlist

import (
	"fmt"
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
		t.Row(abbreviated(entries, i), startedAt(e.Started), e.result(), cents(e.CostMicroUSD), e.solver())
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

// cents returns an amount of money to the cent, rounded up so that nothing looks free that is not.
func cents(microUSD *int64) string {
	if microUSD == nil {
		return "–"
	}
	up := (*microUSD + 9999) / 10000
	return fmt.Sprintf("$%d.%02d", up/100, up%100)
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

// startedAt returns a time of the journal to the minute, in UTC.
func startedAt(s string) string {
	t, err := time.Parse(trajectory.TimeFormat, s)
	if err != nil {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// abbreviated returns the start of the id of an entry that no other id in the list has.
func abbreviated(entries []Entry, i int) string {
	id := entries[i].ID
	id = id[:min(len(id), idLength)] // a folder's name, of a damaged run
	for n := shortest; n < len(id); n++ {
		alone := true
		for _, other := range entries {
			alone = alone && (other.ID == entries[i].ID || !strings.HasPrefix(other.ID, id[:n]))
		}
		if alone {
			return id[:n]
		}
	}
	return id
}
