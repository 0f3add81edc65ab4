package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/text"
)

// line is an event to be printed, and what the evaluators say of it if they were asked.
type line struct {
	shownEvent
	results []history.Evaluation
}

// lister prints events in their order.
type lister struct {
	out    *bufio.Writer
	render func(out []byte, before *line, l line) ([]byte, error) // before is nil at the first
	last   line
	text   []byte // room for a line
	n      int
	asJSON bool
}

// newLister prints events as lines of a table, or as the elements of a JSON array
// that an object begins with under a name.
func (a *app) newLister(asJSON bool, name string, render func([]byte, *line, line) ([]byte, error), element func(line) any) *lister {
	l := &lister{out: bufio.NewWriterSize(a.stdout, 1<<16), render: render, asJSON: asJSON}
	if asJSON {
		l.render = func(out []byte, before *line, e line) ([]byte, error) {
			b, err := json.Marshal(element(e))
			if before != nil {
				out = append(out, ',')
			}
			return append(out, printableJSON(b)...), err
		}
		fmt.Fprintf(l.out, `{"%s":[`, name) // a bufio.Writer keeps its error
	}
	return l
}

// eventLister lists events.
func (a *app) eventLister(asJSON bool) *lister {
	return a.newLister(asJSON, "events", eventLine, func(l line) any { return l.shownEvent })
}

// addEvent prints an event that was not put to evaluators.
func (l *lister) addEvent(e shownEvent) error { return l.add(line{shownEvent: e}) }

func (l *lister) add(e line) (err error) {
	var before *line
	if l.n > 0 {
		before = &l.last
		e.GuidanceChanged = before.GuidanceHash != e.GuidanceHash
		e.PolicyChanged = policyOf(before.RunEvent) != policyOf(e.RunEvent)
	}
	if l.text, err = l.render(l.text[:0], before, e); err != nil {
		return err
	}
	l.n++
	l.last = e
	_, err = l.out.Write(l.text)
	return err
}

// printableJSON is printable of JSON, most of which has nothing to be escaped.
func printableJSON(b []byte) string {
	if isPlain(string(b)) {
		return string(b)
	}
	return visible.JSON(string(b))
}

// isPlain reports whether a text has characters of ASCII only, a column each.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// cell appends a text in so many columns, and two that are blank.
func cell(out []byte, s string, width int) []byte {
	const blank = "                                  "
	if !isPlain(s) || len(s) > width {
		return append(append(out, text.Pad(text.Snip(oneLine(s), width, "…"), width, ' ')...), blank[:2]...)
	}
	out = append(out, s...)
	return append(out, blank[:width-len(s)+2]...)
}

// number appends a number at the right end of so many columns.
func number(out []byte, s string, width int) []byte {
	return cell(out, fmt.Sprintf("%*s", width, s), width)
}

// The columns of a list of events.
const (
	wideID      = 26
	wideTime    = 19
	wideRun     = 8
	wideTask    = 16
	wideIntent  = 20
	wideOutcome = 24
	wideCount   = 6
	wideLasted  = 10
)

// policyOf names the policy that an attempt was made under.
func policyOf(e rundir.RunEvent) string { return oneLine(e.PolicyHash + " " + e.Mode) }

// eventLine appends an event as a line of the list, after a line for each change of the
// guidance and of the policy.
func eventLine(out []byte, before *line, l line) ([]byte, error) {
	e := l.shownEvent
	hash := oneLine(e.GuidanceHash)
	switch {
	case before == nil:
		out = eventHeader(out)
		out = append(out, "guidance "+hash+"\npolicy "+policyOf(e.RunEvent)+"\n"...)
	case e.GuidanceChanged:
		out = append(out, "guidance "+oneLine(before.GuidanceHash)+" → "+hash+"\n"...)
	}
	if e.PolicyChanged {
		out = append(out, "policy "+policyOf(before.RunEvent)+" → "+policyOf(e.RunEvent)+"\n"...)
	}
	ended, _, _ := strings.Cut(e.Timestamp, ".")
	out = cell(out, e.ID, wideID)
	out = cell(out, strings.Replace(ended, "T", " ", 1), wideTime)
	out = cell(out, runShort(e.RunID), wideRun)
	out = cell(out, attemptAt(e.RunEvent), wideTask)
	out = cell(out, e.Intent, wideIntent)
	out = cell(out, outcomeOf(e.RunEvent), wideOutcome)
	out = number(out, strconv.Itoa(e.Denials.Violations()), wideCount)
	out = number(out, strconv.Itoa(e.ReworkLines), wideCount)
	out = number(out, milliseconds(e.DurationMs), wideLasted)
	return append(bytes.TrimRight(append(out, marks(e)...), " "), '\n'), nil
}

func eventHeader(out []byte) []byte {
	for _, c := range []struct {
		name  string
		width int
	}{{"event", wideID}, {"ended (UTC)", wideTime}, {"run", wideRun}, {"task", wideTask}, {"intent", wideIntent}, {"outcome", wideOutcome}} {
		out = cell(out, c.name, c.width)
	}
	out = number(number(out, "rules", wideCount), "rework", wideCount)
	return append(bytes.TrimRight(number(out, "duration", wideLasted), " "), '\n')
}

// runShort is the end of a run's id, which the beginning does not tell from others
// of the same time.
func runShort(id string) string { return oneLine(id[max(0, len(id)-8):]) }

// attemptAt names a task, and which attempt at it is meant after the first.
func attemptAt(e rundir.RunEvent) string {
	if e.Attempt <= 1 {
		return e.TaskID
	}
	number := fmt.Sprintf(" #%d", e.Attempt)
	return text.Snip(oneLine(e.TaskID), wideTask-len(number), "…") + number
}

// outcomeOf says how an attempt ended, and whether its answer was accepted.
func outcomeOf(e rundir.RunEvent) string {
	switch {
	case e.OutcomeAccepted == nil:
		return e.Outcome + ", not scored"
	case *e.OutcomeAccepted:
		return e.Outcome + ", accepted"
	}
	return e.Outcome + ", not accepted"
}

// marks are what an event must not be taken without.
func marks(e shownEvent) string {
	var marks []string
	if !e.Counted {
		marks = append(marks, "not counted")
	}
	if e.unrecorded != "" {
		marks = append(marks, "recording failed")
	}
	if e.Rehearsal {
		marks = append(marks, "rehearsal")
	}
	if e.Imported {
		marks = append(marks, "imported")
	}
	if e.Pruned {
		marks = append(marks, "pruned")
	}
	return strings.Join(marks, ", ")
}

// end prints what came of reading.
func (l *lister) end(read ledgerRead) error {
	if l.asJSON {
		return l.close(read)
	}
	if l.n == 0 {
		fmt.Fprintf(l.out, "there are no run events%s\n", read.Unread())
	} else {
		fmt.Fprintf(l.out, "\n%s%s", counted(l.n, "event"), read.Unread())
		if read.Rehearsal {
			fmt.Fprintf(l.out, "; rehearsal: %s", rehearsalNote)
		}
		fmt.Fprintln(l.out)
	}
	fmt.Fprint(l.out, read.Unrecorded())
	return l.out.Flush()
}

// close ends the JSON array, and the object around it, by the members of v.
func (l *lister) close(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(l.out, "],%s\n", printableJSON(b[1:])); err != nil {
		return err
	}
	return l.out.Flush()
}
