package ledger

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/text"
)

// List prints events as they come: as lines of a table, or as the elements of a JSON array that begins an object.
type List struct {
	out       *bufio.Writer // keeps its error
	asJSON    bool
	evaluated bool
	before    Event // the last event
	n         int
}

// NewList returns a list of events, or with evaluated of what evaluators say of them.
func NewList(w io.Writer, asJSON, evaluated bool) *List {
	l := &List{out: bufio.NewWriterSize(w, 1<<16), asJSON: asJSON, evaluated: evaluated}
	if asJSON {
		fmt.Fprintf(l.out, `{"%s":[`, map[bool]string{false: "events", true: "evaluations"}[evaluated])
	}
	return l
}

// Add prints an event, and what evaluators say of it.
func (l *List) Add(e Event, results []history.Evaluation) error {
	if l.n > 0 {
		e.GuidanceChanged = l.before.GuidanceHash != e.GuidanceHash
		e.PolicyChanged = policyOf(l.before.RunEvent) != policyOf(e.RunEvent)
	}
	var line []byte
	switch {
	case l.asJSON:
		element := any(e)
		if l.evaluated {
			element = struct {
				ID      string               `json:"id"`
				Results []history.Evaluation `json:"results"`
				RunID   string               `json:"run_id"`
				TaskID  string               `json:"task_id"`
			}{e.ID, results, e.RunID, e.TaskID}
		}
		b, err := json.Marshal(element)
		if err != nil {
			return err
		}
		if l.n > 0 {
			line = append(line, ',')
		}
		line = append(line, visible.JSON(string(b))...)
	case l.evaluated:
		line = l.evaluatedLine(e, results)
	default:
		line = l.eventLine(e)
	}
	l.n++
	l.before = e
	_, err := l.out.Write(line)
	return err
}

// End prints the end of the list: members for JSON, and what was read for people.
func (l *List) End(members any, read EventsRead) error {
	switch {
	case l.asJSON:
		b, err := json.Marshal(members)
		if err != nil {
			return err
		}
		fmt.Fprintf(l.out, "],%s\n", visible.JSON(string(b[1:])))
		return l.out.Flush()
	case l.n == 0:
		fmt.Fprintf(l.out, "there are no run events%s\n", read.Unread())
	default:
		fmt.Fprintf(l.out, "\n%s%s", view.Count(l.n, "event"), read.Unread())
		if read.Rehearsal {
			fmt.Fprintf(l.out, "; rehearsal: %s", runview.RehearsalNote)
		}
		fmt.Fprintln(l.out)
	}
	fmt.Fprint(l.out, read.Unrecorded())
	return l.out.Flush()
}

// EndEvaluated ends a list of evaluated events with the counts.
func (l *List) EndEvaluated(counts []Count, read EventsRead) error {
	if !l.asJSON && l.n > 0 {
		t := view.NewTable("evaluator", "passed", "failed")
		for _, c := range counts {
			t.Row(c.Name, c.Passed, c.Failed)
		}
		fmt.Fprintf(l.out, "\n%s\n", t)
	}
	return l.End(struct {
		Evaluators []Count `json:"evaluators"`
		EventsRead
	}{counts, read}, read)
}

// cell appends a text in so many columns, and two that are blank. Printable ASCII has a column for each byte.
func cell(out []byte, s string, width int) []byte {
	if len(s) > width || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		s = text.Pad(text.Snip(view.Line(s), width, "…"), width, ' ')
		return append(append(out, s...), "  "...)
	}
	return fmt.Appendf(out, "%-*s  ", width, s)
}

// policyOf names the policy that an attempt was made under.
func policyOf(e rundir.RunEvent) string { return view.Line(e.PolicyHash + " " + e.Mode) }

// eventLine returns the line of an event, after the header and a line for each change of the guidance and of the policy.
func (l *List) eventLine(e Event) (out []byte) {
	guidance, policy := view.Line(e.GuidanceHash), policyOf(e.RunEvent)
	columns := []struct {
		name, value string
		width       int
	}{
		{"event", e.ID, idWidth},
		{"ended (UTC)", strings.Replace(strings.SplitN(e.Timestamp, ".", 2)[0], "T", " ", 1), 19},
		{"run", e.RunID[max(0, len(e.RunID)-8):], 8}, // its end: the beginning is the same of runs of one time
		{"task", attemptAt(e.RunEvent), taskWidth},
		{"intent", e.Intent, 20},
		{"outcome", outcome(e.RunEvent), 24},
		{"rules", strconv.Itoa(e.Denials.Violations()), -6}, // numbers are at the right end
		{"rework", strconv.Itoa(e.ReworkLines), -6},
		{"duration", milliseconds(e.DurationMs), -10},
	}
	add := func(s string, width int) {
		if width < 0 {
			width = -width
			s = fmt.Sprintf("%*s", width, s)
		}
		out = cell(out, s, width)
	}
	switch {
	case l.n == 0:
		for _, c := range columns {
			add(c.name, c.width)
		}
		out = fmt.Appendf(bytes.TrimRight(out, " "), "\nguidance %s\npolicy %s\n", guidance, policy)
	case e.GuidanceChanged:
		out = fmt.Appendf(out, "guidance %s → %s\n", view.Line(l.before.GuidanceHash), guidance)
	}
	if e.PolicyChanged {
		out = fmt.Appendf(out, "policy %s → %s\n", policyOf(l.before.RunEvent), policy)
	}
	for _, c := range columns {
		add(c.value, c.width)
	}
	return append(bytes.TrimRight(append(out, marks(e)...), " "), '\n')
}

// The widths of columns, in characters.
const (
	idWidth   = 26
	taskWidth = 16
)

// attemptAt names a task, and which attempt at it is meant after the first.
func attemptAt(e rundir.RunEvent) string {
	if e.Attempt <= 1 {
		return e.TaskID
	}
	number := fmt.Sprintf(" #%d", e.Attempt)
	return text.Snip(view.Line(e.TaskID), taskWidth-len(number), "…") + number
}

// outcome says how an attempt ended, and whether its answer was accepted.
func outcome(e rundir.RunEvent) string {
	switch {
	case e.OutcomeAccepted == nil:
		return e.Outcome + ", not scored"
	case *e.OutcomeAccepted:
		return e.Outcome + ", accepted"
	}
	return e.Outcome + ", not accepted"
}

// marks names what a reader has to know of an event.
func marks(e Event) string {
	var marks []string
	for _, m := range []struct {
		holds bool
		name  string
	}{{!e.Counted, "not counted"}, {e.Unrecorded != "", "recording failed"}, {e.Rehearsal, "rehearsal"}, {e.Imported, "imported"}, {e.Pruned, "pruned"}} {
		if m.holds {
			marks = append(marks, m.name)
		}
	}
	return strings.Join(marks, ", ")
}

// evaluatedLine returns what the evaluators say of an event: why, where one fails.
func (l *List) evaluatedLine(e Event, results []history.Evaluation) (out []byte) {
	width := func(r history.Evaluation) int { return max(len(r.Name), len("FAIL 0.00")) }
	if l.n == 0 {
		out = cell(cell(out, "event", idWidth), "task", taskWidth)
		for _, r := range results {
			out = cell(out, r.Name, width(r))
		}
		out = append(bytes.TrimRight(out, " "), '\n')
	}
	out = cell(cell(out, e.ID, idWidth), attemptAt(e.RunEvent), taskWidth)
	why := ""
	for _, r := range results {
		word := "pass"
		if !r.Pass {
			word = "FAIL"
			why += "    " + r.Name + ": " + view.Line(r.Details) + "\n"
		}
		out = cell(out, fmt.Sprintf("%s %.2f", word, r.Score), width(r))
	}
	return append(append(bytes.TrimRight(append(out, marks(e)...), " "), '\n'), why...)
}

// milliseconds returns a number of milliseconds as a duration.
func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// Rows returns all members of an event as names and values.
func Rows(e Event) [][2]string {
	list := func(all []string) string { return cmp.Or(strings.Join(all, ", "), "none") }
	counts := "not the task's result: another attempt is counted"
	if e.Counted {
		counts = "the task's result"
	}
	tests, diff := e.TestResults, e.DiffSummary
	rows := view.List{
		{"event", e.ID},
		{"ended", e.Timestamp},
		{"run", e.RunID},
		{"task", e.TaskID},
		{"level", strconv.Itoa(e.Level)},
		{"attempt", strconv.Itoa(e.Attempt) + ", " + counts},
		{"intent", e.Intent},
		{"outcome", outcome(e.RunEvent)},
		{"checks", fmt.Sprintf("%d ran: %d passed, %d failed; %d skipped", tests.Ran, tests.Passed, tests.Failed, tests.Skipped)},
		{"model", e.Model},
		{"tools", list(e.ToolsUsed)},
		{"calls", fmt.Sprintf("%s, %s retried", view.Count(e.ToolCalls, "tool call"), view.Count(e.Retries, "model call"))},
		{"tokens", strconv.FormatInt(e.Tokens, 10)},
		{"cost", view.Dollars(e.CostMicroUSD)},
		{"duration", milliseconds(e.DurationMs)},
		{"files", list(e.FilesTouched)},
		{"diff", fmt.Sprintf("%s, %s added, %d removed", view.Count(diff.Files, "file"), view.Count(diff.LinesAdded, "line"), diff.LinesRemoved)},
		{"rework", view.Count(e.ReworkLines, "line")},
		{"rollbacks", strconv.Itoa(e.Rollbacks)},
		{"rules", list(e.RetrievedRuleIDs)},
		{"triggered", list(e.TriggeredRuleIDs)},
	}
	for _, v := range e.Violations {
		corrected := "not corrected"
		if v.AutoCorrected {
			corrected = "corrected"
		}
		rows.Addf("violation", "%s, %s, %s, %s: %s", cmp.Or(v.RuleID, v.Class), v.Severity, v.Location, corrected, v.Description)
	}
	if len(e.Violations) == 0 {
		rows.Add("violations", "none")
	}
	rows = append(rows, [][2]string{
		{"refused", view.Count(e.PersonRefusals, "call") + " by a person"},
		{"guidance", e.GuidanceHash},
		{"policy", policyOf(e.RunEvent)},
		{"session", e.Session},
		{"manifest", e.ManifestSHA256},
		{"signed by", e.SignedBy},
		{"schema", e.Schema},
	}...)
	if e.Imported {
		rows.Add("imported", "yes: this is what its exporter says")
	}
	if e.Unrecorded != "" {
		rows = slices.Insert(rows, 0, [2]string{"recording failed", e.Unrecorded})
	}
	if e.Rehearsal {
		rows = slices.Insert(rows, 0, [2]string{"rehearsal", runview.RehearsalNote})
	}
	return rows
}

// MetricsTable returns metrics as a table: a row for each guidance and policy, and one for all.
func MetricsTable(all history.Metrics, guidances []history.GuidanceMetrics) string {
	rate := func(format string, f *float32, scale float32) string {
		if f == nil {
			return noNumber
		}
		return fmt.Sprintf(format, *f*scale)
	}
	t := view.NewTable("guidance", "policy", "first used", "tasks", "attempts", "violations", "per 10 tasks", "self-corrected", "rework lines")
	add := func(name, policy, first string, m history.Metrics) {
		t.Row(name, policy, first, m.Tasks, m.Attempts, m.Violations, rate("%.2f", m.ViolationsPer10Tasks, 1), rate("%.1f %%", m.SelfCorrectionRate, 100), m.ReworkLines)
	}
	for _, g := range guidances {
		add(g.GuidanceHash, g.PolicyHash+" "+g.Mode, g.First, g.Metrics)
	}
	t.Separator()
	add("all", "", "", all)
	return t.String()
}

// RankTable returns ranked rules as a table.
func RankTable(rules []history.RankedRule) string {
	if len(rules) == 0 {
		return "no rule was broken"
	}
	header, rows := RankRows(rules)
	t := view.NewTable(header...)
	for _, row := range rows {
		t.Row(row...)
	}
	return t.String()
}

// RankRows returns a row for each rule, under their header. Cells are strings and integers.
func RankRows(rules []history.RankedRule) (header []any, rows [][]any) {
	for _, r := range rules {
		rows = append(rows, []any{r.RuleID, r.Severity, r.Frequency, r.Attempts, fmt.Sprintf("%.2f", r.MeanRework), fmt.Sprintf("%.2f", r.Score)})
	}
	return []any{"rule", "severity", "frequency", "attempts", "mean rework", "score"}, rows
}

// Counted returns a table with a line that says of what it was counted.
func Counted(table string, read EventsRead) string {
	rehearsal, outside := "", ""
	if read.Rehearsal {
		rehearsal = RehearsalHeader
	}
	if read.Outside > 0 {
		outside = fmt.Sprintf(", %s without such an attempt", view.Count(read.Outside, "run"))
	}
	return fmt.Sprintf("%s%s\n\nof %s and %s%s%s\n%s", rehearsal, table, view.Count(read.Runs, "run"), view.Count(read.Imported, "imported event"),
		outside, read.Unread(), read.Unrecorded())
}
