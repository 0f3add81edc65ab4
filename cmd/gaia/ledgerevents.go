package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/evaluator"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
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
		return append(append(out, text.Pad(text.Snip(view.Line(s), width, "…"), width, ' ')...), blank[:2]...)
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
func policyOf(e rundir.RunEvent) string { return view.Line(e.PolicyHash + " " + e.Mode) }

// eventLine appends an event as a line of the list, after a line for each change of the
// guidance and of the policy.
func eventLine(out []byte, before *line, l line) ([]byte, error) {
	e := l.shownEvent
	hash := view.Line(e.GuidanceHash)
	switch {
	case before == nil:
		out = eventHeader(out)
		out = append(out, "guidance "+hash+"\npolicy "+policyOf(e.RunEvent)+"\n"...)
	case e.GuidanceChanged:
		out = append(out, "guidance "+view.Line(before.GuidanceHash)+" → "+hash+"\n"...)
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
func runShort(id string) string { return view.Line(id[max(0, len(id)-8):]) }

// attemptAt names a task, and which attempt at it is meant after the first.
func attemptAt(e rundir.RunEvent) string {
	if e.Attempt <= 1 {
		return e.TaskID
	}
	number := fmt.Sprintf(" #%d", e.Attempt)
	return text.Snip(view.Line(e.TaskID), wideTask-len(number), "…") + number
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
		fmt.Fprintf(l.out, "\n%s%s", view.Count(l.n, "event"), read.Unread())
		if read.Rehearsal {
			fmt.Fprintf(l.out, "; rehearsal: %s", runview.RehearsalNote)
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

func (a *app) ledgerEvaluateCommand() *cobra.Command {
	q := &ledgerQuery{}
	limits := history.DefaultLimits()
	var own bool
	var settings string
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Run the evaluators on run events",
		Long: `Evaluate puts five evaluators to each attempt, in this order, and counts what they
say. Exit code 3 if one fails:

  tests-pass            a check of the answer ran, and none failed
  forbidden-command     no violation of R004
  forbidden-dependency  no violation of R005
  violation-rate        at most --max-violations rules broken
  diff-quality          lines reworked ÷ lines added and removed at most --max-rework-ratio

With --evaluators it also runs the commands that gaia.yaml names below evaluators,
once for each attempt, and prints them first. Each gets the run event as a line of
JSON, no variable but PATH and HOME, and 10 seconds if its timeout says nothing
else; it prints {"pass": true, "score": 0.5, "details": "why"}. One that fails in
any way is a failed evaluation.`,
		Example: `  gaia ledger evaluate
  gaia ledger evaluate --evaluators
  gaia ledger evaluate --max-violations 1 --max-rework-ratio 0.5 --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			if limits.Violations < 0 {
				return usage("0 lets none pass", "--max-violations is %d, which is below 0", limits.Violations)
			}
			if err := notEmpty(cmd, "settings"); err != nil {
				return err
			}
			if settings != "" && !own {
				return usage("gaia ledger evaluate --evaluators --settings FILE", "--settings is for --evaluators")
			}
			ctx, release := untilStopped(cmd.Context())
			defer release()
			by := history.Evaluators(limits)
			if own {
				commands, err := a.ownEvaluators(ctx, settings)
				if err != nil {
					return err
				}
				by = append(by, commands...)
			}
			return a.evaluate(ctx, q, by)
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	f := cmd.Flags()
	f.IntVar(&limits.Violations, "max-violations", limits.Violations, "rules that an attempt may break")
	f.Var((*fraction)(&limits.ReworkRatio), "max-rework-ratio", "lines reworked ÷ lines added and removed that an attempt may have")
	f.BoolVar(&own, "evaluators", false, "run the commands of gaia.yaml as evaluators, too")
	f.StringVar(&settings, "settings", "", "file of settings that names them (default: gaia.yaml)")
	completeFixed(cmd, "max-violations")
	completeFixed(cmd, "max-rework-ratio")
	return cmd
}

// evaluatedEvent is what evaluate prints of an event with --json.
type evaluatedEvent struct {
	ID      string               `json:"id"`
	Results []history.Evaluation `json:"results"`
	RunID   string               `json:"run_id"`
	TaskID  string               `json:"task_id"`
}

// evaluatorCount says how often an evaluator passed.
type evaluatorCount struct {
	Failed int    `json:"failed"`
	Name   string `json:"name"`
	Passed int    `json:"passed"`
}

// evaluatedAtOnce is how many events are evaluated at once.
const evaluatedAtOnce = 4

// ownEvaluators returns the evaluators of the settings file, after saying what they run.
func (a *app) ownEvaluators(ctx context.Context, settings string) ([]history.Evaluator, error) {
	file, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	if file == nil || len(file.Evaluators) == 0 {
		return nil, usage("docs/ledger.md has an example", "%q names no evaluators", cmp.Or(settings, "gaia.yaml"))
	}
	var environ []string
	for _, name := range []string{"HOME", "PATH"} {
		if value := a.getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	var all []history.Evaluator
	for _, e := range file.Evaluators {
		if slices.ContainsFunc(history.Evaluators(history.Limits{}), func(o history.Evaluator) bool { return o.Name() == e.Name }) {
			return nil, usage("give it another name", "gaia has an evaluator %q", e.Name)
		}
		words := make([]string, len(e.Command))
		for i, word := range e.Command {
			words[i] = view.Quote(word)
		}
		fmt.Fprintf(a.stderr, "gaia: the evaluator %s runs for each event, for %s at most: %s\n", e.Name, e.Timeout, view.Line(strings.Join(words, " ")))
		all = append(all, evaluator.Command{Context: ctx, Label: e.Name, Args: e.Command, Timeout: e.Timeout, Environ: environ})
	}
	return all, nil
}

func (a *app) evaluate(ctx context.Context, q *ledgerQuery, by []history.Evaluator) error {
	l := a.newLister(q.asJSON, "evaluations", evaluatedLine, func(l line) any { return evaluatedEvent{l.ID, l.results, l.RunID, l.TaskID} })
	counts := make([]evaluatorCount, len(by))
	for i, e := range by {
		counts[i].Name = e.Name()
	}
	var under []chan line // events that are being evaluated, in their order
	take := func() error {
		done := <-under[0]
		under = under[1:]
		for i, r := range done.results {
			if r.Pass {
				counts[i].Passed++
			} else {
				counts[i].Failed++
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return l.add(done)
	}
	read, err := a.eachEvent(q, func(e shownEvent) error {
		done := make(chan line, 1)
		go func() {
			results := make([]history.Evaluation, len(by))
			for i, one := range by {
				results[i] = one.Evaluate(e.RunEvent)
			}
			done <- line{e, results}
		}()
		if under = append(under, done); len(under) < evaluatedAtOnce {
			return nil
		}
		return take()
	}, nil)
	for err == nil && len(under) > 0 {
		err = take()
	}
	for _, done := range under { // so that no command outlives this one
		<-done
	}
	if err != nil {
		return err
	}
	if err := l.endEvaluated(counts, read); err != nil {
		return err
	}
	failed := 0
	for _, c := range counts {
		failed += c.Failed
	}
	if failed > 0 {
		err = fail(exit.Findings, fmt.Errorf("%s failed", view.Count(failed, "evaluation")), "gaia ledger show ID says what an attempt did")
	}
	return read.read.End(err)
}

// evaluatedLine appends what the evaluators say of an event: why, where one fails.
func evaluatedLine(out []byte, before *line, l line) ([]byte, error) {
	width := func(r history.Evaluation) int { return max(len(r.Name), len("FAIL 0.00")) }
	if before == nil {
		out = cell(cell(out, "event", wideID), "task", wideTask)
		for _, r := range l.results {
			out = cell(out, r.Name, width(r))
		}
		out = append(bytes.TrimRight(out, " "), '\n')
	}
	out = cell(cell(out, l.ID, wideID), attemptAt(l.RunEvent), wideTask)
	why := ""
	for _, r := range l.results {
		word := "pass "
		if !r.Pass {
			word = "FAIL "
			why += "    " + r.Name + ": " + view.Line(r.Details) + "\n"
		}
		out = cell(out, word+strconv.FormatFloat(float64(r.Score), 'f', 2, 32), width(r))
	}
	out = append(bytes.TrimRight(append(out, marks(l.shownEvent)...), " "), '\n')
	return append(out, why...), nil
}

// endEvaluated prints the counts.
func (l *lister) endEvaluated(counts []evaluatorCount, read ledgerRead) error {
	if l.asJSON {
		return l.close(struct {
			Evaluators []evaluatorCount `json:"evaluators"`
			ledgerRead
		}{counts, read})
	}
	if l.n == 0 {
		return l.end(read)
	}
	t := view.NewTable("evaluator", "passed", "failed")
	for _, c := range counts {
		t.Row(c.Name, c.Passed, c.Failed)
	}
	fmt.Fprintf(l.out, "\n%s\n", t.String())
	return l.end(read)
}
