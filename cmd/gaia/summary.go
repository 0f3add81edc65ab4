package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	rehearsalNote = "built-in tasks and a scripted model; not a GAIA score"
	replayNote    = "the answers come from a cassette; no model was asked"
)

// notices say what a run's results must not be taken for.
func notices(m ledger.Manifest) string {
	var out strings.Builder
	if m.Rehearsal {
		out.WriteString("rehearsal: " + rehearsalNote + "\n\n")
	}
	if m.Cassette == ledger.CassetteReplay {
		out.WriteString("replay: " + replayNote + "\n\n")
	}
	return out.String()
}

// voting says what stands behind the scores of a run that votes.
func voting(v *ledger.VotingSummary) [][2]string {
	if v == nil {
		return nil
	}
	text := fmt.Sprintf("%d attempts a task, %s; the scores are maj@%d, of the answers voted for", v.Attempts, v.Rule, v.Attempts)
	if v.PassAt1 != nil {
		text += fmt.Sprintf(" (official pass@1 %s, pass@%d %s)", percent(v.PassAt1.AccuracyPPM), v.Attempts, percent(v.PassAtK.AccuracyPPM))
	}
	return [][2]string{{"voting", text}}
}

// chosen says which tasks of what a run is of.
func chosen(m ledger.Manifest) [][2]string {
	d := m.Dataset
	rows := [][2]string{{"dataset", fmt.Sprintf("%s, split %s, tasks: %s (%d of %d)", d.Name, d.Split, d.Selection, len(m.Tasks), d.SplitSize)}}
	if d.Hub != "" {
		rows = append(rows, [2]string{"revision", d.Revision + " of " + d.Hub})
	}
	if other := d.Mismatch(); other != "" {
		rows = append(rows, [2]string{"counts", other})
	}
	return rows
}

// printSummary prints a finished run: accuracy by level, what it took, and
// what to do next, and why the run cannot be submitted, "" if nothing speaks against
// it.
func (a *app) printSummary(dir string, found *ledger.Run, unsubmittable string) error {
	s := found.Summary()
	var out strings.Builder
	out.WriteString(notices(found.Manifest))
	if s.Unrecorded != "" {
		out.WriteString("unrecorded: these results are not evidence, and cannot be verified or submitted\n\n")
	}
	out.WriteString(scoreTable(s) + "\n\n")
	rows := append(chosen(found.Manifest), [2]string{"model", s.Model}, [2]string{"outcomes", outcomes(s.Outcomes)})
	rows = append(rows, voting(s.Voting)...)
	if b := found.Manifest.Budgets; b.RunCostMicroUSD > 0 && s.Outcomes.Skipped > 0 {
		begun := "tasks were not begun"
		if s.Outcomes.Skipped == 1 {
			begun = "task was not begun"
		}
		rows = append(rows, [2]string{"budget", fmt.Sprintf("%s: %d %s", runBudget(b), s.Outcomes.Skipped, begun)})
	}
	rows = append(rows, judgeRows(s.Judge)...)
	rows = append(rows, preflightRows(found.Manifest, s.Preflight)...)
	rows = append(rows,
		[2]string{"calls", fmt.Sprintf("%d turns, %d tool calls, %d model calls retried", s.Turns, s.ToolCalls, s.RetriedCalls)})
	if broken := rulesBroken(found.Fold); broken != "" {
		rows = append(rows, [2]string{"rules", broken})
	}
	cost := dollars(s.CostMicroUSD)
	if all := dollars(s.Cost()); all != cost {
		cost += "; the whole run " + all
	}
	rows = append(rows, found.ServerNotes()...)
	rows = append(rows,
		[2]string{"tokens", fmt.Sprintf("%d in (%d cached), %d out", s.Tokens.In, s.Tokens.Cached, s.Tokens.Out)},
		[2]string{"cost", cost},
		[2]string{"wall time", (time.Duration(s.DurationMs) * time.Millisecond).String()})
	for _, i := range s.Interruptions {
		text := fmt.Sprintf("after %d events, taken up again at %s", i.Events, i.Resumed)
		if i.Torn {
			text += "; an unfinished last line was cut"
		}
		rows = append(rows, [2]string{"interruption", text})
	}
	if m := found.Manifest; !m.Rehearsal && !m.SubmitIntent {
		rows = append(rows, [2]string{"submission", notForSubmission})
	}
	if unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", unsubmittable})
	}
	rows = append(rows,
		[2]string{"manifest", found.ManifestSHA256},
		[2]string{"run", dir})
	if s.Unrecorded == "" {
		rows = append(rows, [2]string{"next", "gaia show " + quoteArg(dir)}, [2]string{"", "gaia audit " + quoteArg(dir)})
	}
	if _, err := fmt.Fprint(a.stdout, visible.Text(out.String())); err != nil {
		return err
	}
	return a.printRows(rows)
}

// preflightRows says what was asked of the models before the tasks.
func preflightRows(m ledger.Manifest, s *ledger.PreflightSummary) [][2]string {
	if s == nil {
		if m.NoPreflight {
			return [][2]string{{"preflight", "left out by --no-preflight"}}
		}
		return nil
	}
	rows := [][2]string{{"preflight", fmt.Sprintf("%s: %s; cost %s", strings.Join(s.Kinds, ", "), counted(s.Requests, "request"), dollars(s.CostMicroUSD))}}
	if len(s.Unanswered) > 0 {
		rows = append(rows, [2]string{"", "not answered: " + strings.Join(s.Unanswered, ", ")})
	}
	if note := toolNote(s.Tool); note != "" {
		rows = append(rows, [2]string{"", note})
	}
	return rows
}

// runBudget says of a budget for the whole run that it ended the run.
func runBudget(b ledger.Budgets) string {
	return dollars(&b.RunCostMicroUSD) + " the run, used up or not enough for another attempt"
}

func scoreTable(s ledger.Summary) string {
	t := newTable()
	if s.Scores == nil {
		t.AppendHeader(table.Row{"level", "tasks", "score"})
		for _, l := range s.Levels {
			t.AppendRow(table.Row{l.Level, l.Planned, "unscored"})
		}
		return t.Render()
	}
	header := table.Row{"level", "tasks", "official", "", "95 % interval"}
	if s.Judge.Counts() {
		header = append(header, "judged", "", "95 % interval")
	}
	t.AppendHeader(header)
	add := func(name any, planned int, scores ledger.Scores) {
		o, j := scores.Official, scores.Judged
		row := table.Row{name, planned, o.Correct, percent(o.AccuracyPPM), interval(o)}
		if s.Judge.Counts() {
			row = append(row, j.Correct, percent(j.AccuracyPPM), interval(*j))
		}
		t.AppendRow(row)
	}
	planned := 0
	for _, l := range s.Levels {
		planned += l.Planned
		add(l.Level, l.Planned, *l.Scores)
	}
	t.AppendSeparator()
	add("all", planned, *s.Scores)
	return t.Render()
}

// printTasks prints a row for each planned task.
func (a *app) printTasks(found *ledger.Run) error {
	t := newTable()
	header := table.Row{"task", "level", "outcome", "official", "judged", "attempts", "turns", "calls", "answer"}
	if found.Manifest.Judge == nil {
		header = slices.Delete(header, judgedColumn, judgedColumn+1)
	}
	t.AppendHeader(header)
	for _, task := range found.Tasks {
		t.AppendRow(taskRow(found, task))
	}
	_, err := fmt.Fprintf(a.stdout, "%s%s\n\n", notices(found.Manifest), visible.Text(t.Render()))
	return err
}

// judgedColumn is the place of the LLM judge's verdict in a row of printTasks.
const judgedColumn = 4

func taskRow(found *ledger.Run, task *ledger.Task) table.Row {
	state, official, judged, answer := "not begun", "", "", ""
	turns, calls, attempts := 0, 0, strconv.Itoa(len(task.Attempts))
	for _, a := range task.Attempts {
		turns, calls = turns+a.Turns, calls+a.ToolCalls
	}
	if a := task.Counted(); a != nil {
		state = "open"
		if a.Ended != nil {
			state = a.Ended.Outcome
		}
		if a.Answer != nil {
			answer = text.Trim(oneLine(a.Answer.Answer), 40)
			if found.Manifest.Voting.Rule == ledger.VoteMajority {
				attempts += fmt.Sprintf(" (%d agree)", task.Votes()[a.Number-1])
			}
		}
	}
	if task.Sealed != nil {
		r := found.Result(task)
		state, official, judged = r.Outcome, correct(r.OfficialCorrect), correct(r.JudgedCorrect)
	}
	row := table.Row{oneLine(task.Plan.TaskID), task.Plan.Level, state, official, judged, attempts, turns, calls, answer}
	if found.Manifest.Judge == nil {
		return slices.Delete(row, judgedColumn, judgedColumn+1)
	}
	return row
}

func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	return t
}

// printRows prints names and values in two columns.
func (a *app) printRows(rows [][2]string) error {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(a.stdout, "%-*s  %s\n", width, r[0], oneLine(r[1])); err != nil {
			return err
		}
	}
	return nil
}

func outcomes(o ledger.Outcomes) string {
	return fmt.Sprintf("%d solved, %d failed, %d error, %d skipped, %d unscored", o.Solved, o.Failed, o.Error, o.Skipped, o.Unscored)
}

func percent(ppm int64) string {
	tenths := (ppm + 500) / 1000
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

func interval(r ledger.Rate) string {
	return percent(r.WilsonLowPPM) + " – " + percent(r.WilsonHighPPM)
}

// dollars prints micro-USD; an unknown cost is never shown as zero.
func dollars(micro *int64) string {
	if micro == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%d.%06d", *micro/1e6, *micro%1e6)
}
