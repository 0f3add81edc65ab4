package main

import (
	"bufio"
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/text"
)

// line is an event to be printed, and what the evaluators say of it if they were asked.
type line struct {
	shownEvent
	results []ledger.Evaluation
}

// lister prints events in their order, some at once on each processor, so that few
// need be held.
type lister struct {
	out    *bufio.Writer
	render func(out []byte, before *line, l line) ([]byte, error) // before is nil at the first
	last   *line                                                  // of the batches that are being rendered
	batch  []line
	under  []chan rendered
	n      int
	asJSON bool
}

// rendered is a batch of lines as it is printed.
type rendered struct {
	text []byte
	err  error
}

// batchSize is how many lines are rendered together.
const batchSize = 256

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

func (l *lister) add(e shownEvent) error { return l.addLine(line{shownEvent: e}) }

func (l *lister) addLine(e line) error {
	l.n++
	if l.batch = append(l.batch, e); len(l.batch) < batchSize {
		return nil
	}
	l.begin()
	return l.wait(runtime.GOMAXPROCS(0))
}

// begin renders a batch, beside others.
func (l *lister) begin() {
	if len(l.batch) == 0 {
		return
	}
	batch, before, done := l.batch, l.last, make(chan rendered, 1)
	l.batch, l.last, l.under = nil, &batch[len(batch)-1], append(l.under, done)
	go func() {
		var r rendered
		for i := range batch {
			if r.text, r.err = l.render(r.text, before, batch[i]); r.err != nil {
				break
			}
			before = &batch[i]
		}
		done <- r
	}()
}

// wait writes batches until no more than so many are being rendered.
func (l *lister) wait(most int) error {
	for len(l.under) > most {
		r := <-l.under[0]
		l.under = l.under[1:]
		if r.err != nil {
			return r.err
		}
		if _, err := l.out.Write(r.text); err != nil {
			return err
		}
	}
	return nil
}

// flush writes all lines so far.
func (l *lister) flush() error {
	l.begin()
	return l.wait(0)
}

// printableJSON is printable of JSON, most of which has nothing to be escaped.
func printableJSON(b []byte) string {
	if isPlain(string(b)) {
		return string(b)
	}
	return printable(string(b))
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

// eventLine appends an event as a line of the list; a line of its own stands before it
// where the guidance is another.
func eventLine(out []byte, before *line, l line) ([]byte, error) {
	e := l.shownEvent
	hash := oneLine(e.GuidanceHash)
	switch {
	case before == nil:
		out = eventHeader(out)
		out = append(out, "guidance "+hash+"\n"...)
	case before.GuidanceHash != e.GuidanceHash:
		out = append(out, "guidance "+oneLine(before.GuidanceHash)+" → "+hash+"\n"...)
	}
	ended, _, _ := strings.Cut(e.Timestamp, ".")
	out = cell(out, e.ID, wideID)
	out = cell(out, strings.Replace(ended, "T", " ", 1), wideTime)
	out = cell(out, runShort(e.RunID), wideRun)
	out = cell(out, e.TaskID, wideTask)
	out = cell(out, e.Intent, wideIntent)
	out = cell(out, outcomeOf(e.RunEvent), wideOutcome)
	out = number(out, strconv.Itoa(len(e.Violations)), wideCount)
	out = number(out, strconv.Itoa(e.ReworkLines), wideCount)
	out = number(out, (time.Duration(e.DurationMs) * time.Millisecond).String(), wideLasted)
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

// outcomeOf says how an attempt ended, and whether its answer was accepted.
func outcomeOf(e ledger.RunEvent) string {
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
	if e.Rehearsal {
		marks = append(marks, "rehearsal")
	}
	if e.Imported {
		marks = append(marks, "imported")
	}
	return strings.Join(marks, ", ")
}

// end prints what came of reading.
func (l *lister) end(read ledgerRead) error {
	if err := l.flush(); err != nil {
		return err
	}
	if l.asJSON {
		return l.close(read)
	}
	if l.n == 0 {
		fmt.Fprintln(l.out, "there are no run events")
	} else {
		fmt.Fprintf(l.out, "\n%s", counted(l.n, "event"))
		if read.Rehearsal {
			fmt.Fprintf(l.out, "; rehearsal: %s", rehearsalNote)
		}
		fmt.Fprintln(l.out)
	}
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
