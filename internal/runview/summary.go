package runview

import (
	"fmt"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/judge"
	"github.com/jedib0t/go-pretty/v6/text"
)

// The notes about results that are no measurement of a model.
const (
	RehearsalNote = "built-in tasks and a scripted model; not a GAIA score"
	ReplayNote    = "the answers come from a cassette; no model was asked"
)

// Notices say what a run's results must not be taken for.
func Notices(m plan.Plan) string {
	var out strings.Builder
	if m.Rehearsal {
		out.WriteString("rehearsal: " + RehearsalNote + "\n\n")
	}
	if m.Cassette == plan.CassetteReplay {
		out.WriteString("replay: " + ReplayNote + "\n\n")
	}
	return out.String()
}

// voting says what stands behind the scores of a run that votes.
func votingRows(v *rundir.VotingSummary) [][2]string {
	if v == nil {
		return nil
	}
	text := fmt.Sprintf("%d attempts a task, %s; the scores are maj@%d, of the answers voted for", v.Attempts, v.Rule, v.Attempts)
	if v.PassAt1 != nil {
		text += fmt.Sprintf(" (official pass@1 %s, pass@%d %s)", view.Percent(v.PassAt1.AccuracyPPM), v.Attempts, view.Percent(v.PassAtK.AccuracyPPM))
	}
	return [][2]string{{"voting", text}}
}

// Dataset says which tasks of what a run is of.
func Dataset(m plan.Plan) [][2]string {
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

// Summary writes a finished run: accuracy by level, what it took, what to do next, and
// why the run cannot be submitted; unsubmittable is "" if no reason is known.
func Summary(w io.Writer, dir string, found *rundir.Run, unsubmittable string) error {
	s := found.Summary()
	var out strings.Builder
	out.WriteString(Notices(found.Manifest))
	if s.Unrecorded != "" {
		out.WriteString("unrecorded: these results are not evidence, and cannot be verified or submitted\n\n")
	}
	out.WriteString(scoreTable(s) + "\n\n")
	rows := append(Dataset(found.Manifest), [2]string{"model", s.Model}, [2]string{"outcomes", Outcomes(s.Outcomes)})
	rows = append(rows, votingRows(s.Voting)...)
	if b := found.Manifest.Budgets; b.RunCostMicroUSD > 0 && s.Outcomes.Skipped > 0 {
		begun := "tasks were not begun"
		if s.Outcomes.Skipped == 1 {
			begun = "task was not begun"
		}
		rows = append(rows, [2]string{"budget", fmt.Sprintf("%s: %d %s", runBudget(b), s.Outcomes.Skipped, begun)})
	}
	rows = append(rows, JudgeRows(s.Judge)...)
	rows = append(rows, preflightRows(found.Manifest, s.Preflight)...)
	rows = append(rows,
		[2]string{"calls", fmt.Sprintf("%d turns, %d tool calls, %d model calls retried", s.Turns, s.ToolCalls, s.RetriedCalls)})
	if broken := RulesBroken(found.Fold); broken != "" {
		rows = append(rows, [2]string{"rules", broken})
	}
	cost := view.Dollars(s.CostMicroUSD)
	if all := view.Dollars(s.Cost()); all != cost {
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
		rows = append(rows, [2]string{"submission", NotForSubmission})
	}
	if unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", unsubmittable})
	}
	rows = append(rows,
		[2]string{"manifest", found.ManifestSHA256},
		[2]string{"run", dir})
	if s.Unrecorded == "" {
		rows = append(rows, [2]string{"next", "gaia show " + view.Quote(dir)}, [2]string{"", "gaia audit " + view.Quote(dir)})
	}
	if _, err := io.WriteString(w, visible.Text(out.String())); err != nil {
		return err
	}
	return view.Rows(w, rows)
}

// preflightRows says what was asked of the models before the tasks.
func preflightRows(m plan.Plan, s *rundir.PreflightSummary) [][2]string {
	if s == nil {
		if m.NoPreflight {
			return [][2]string{{"preflight", "left out by --no-preflight"}}
		}
		return nil
	}
	rows := [][2]string{{"preflight", fmt.Sprintf("%s: %s; cost %s", strings.Join(s.Kinds, ", "), view.Count(s.Requests, "request"), view.Dollars(s.CostMicroUSD))}}
	if len(s.Unanswered) > 0 {
		rows = append(rows, [2]string{"", "not answered: " + strings.Join(s.Unanswered, ", ")})
	}
	if note := ToolNote(s.Tool); note != "" {
		rows = append(rows, [2]string{"", note})
	}
	return rows
}

// runBudget says of a budget for the whole run that it ended the run.
func runBudget(b plan.Budgets) string {
	return view.Dollars(&b.RunCostMicroUSD) + " the run, used up or not enough for another attempt"
}

// scoreTable returns the scores by level and over all tasks.
func scoreTable(s rundir.Summary) string {
	if s.Scores == nil {
		t := view.NewTable("level", "tasks", "score")
		for _, l := range s.Levels {
			t.Row(l.Level, l.Planned, "unscored")
		}
		return t.String()
	}
	header := []any{"level", "tasks", "official", "", "95 % interval"}
	if s.Judge.Counts() {
		header = append(header, "judged", "", "95 % interval")
	}
	t := view.NewTable(header...)
	add := func(name any, planned int, scores rundir.Scores) {
		o, j := scores.Official, scores.Judged
		row := []any{name, planned, o.Correct, view.Percent(o.AccuracyPPM), interval(o)}
		if s.Judge.Counts() {
			row = append(row, j.Correct, view.Percent(j.AccuracyPPM), interval(*j))
		}
		t.Row(row...)
	}
	planned := 0
	for _, l := range s.Levels {
		planned += l.Planned
		add(l.Level, l.Planned, *l.Scores)
	}
	t.Separator()
	add("all", planned, *s.Scores)
	return t.String()
}

// Tasks writes a row for each planned task; the judge's verdict only where there is a judge.
func Tasks(w io.Writer, found *rundir.Run) error {
	cells := func(all ...any) []any {
		if found.Manifest.Judge == nil {
			return slices.Delete(all, 4, 5)
		}
		return all
	}
	t := view.NewTable(cells("task", "level", "outcome", "official", "judged", "attempts", "turns", "calls", "answer")...)
	for _, task := range found.Tasks {
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
				answer = text.Trim(view.Line(a.Answer.Answer), 40)
				if found.Manifest.Voting.Rule == plan.VoteMajority {
					attempts += fmt.Sprintf(" (%d agree)", task.Votes()[a.Number-1])
				}
			}
		}
		if task.Sealed != nil {
			r := found.Result(task)
			state, official, judged = r.Outcome, correct(r.OfficialCorrect), correct(r.JudgedCorrect)
		}
		t.Row(cells(task.Plan.TaskID, task.Plan.Level, state, official, judged, attempts, turns, calls, answer)...)
	}
	_, err := fmt.Fprintf(w, "%s%s\n\n", Notices(found.Manifest), t)
	return err
}

// NotForSubmission is why a run that was planned without it cannot be submitted.
const NotForSubmission = "this run cannot be submitted: it was planned without --submit-intent"

// JudgeRows says what the LLM judge did of all answers that were its to judge, and what it
// could not do.
func JudgeRows(j *rundir.JudgeSummary) [][2]string {
	if j == nil {
		return nil
	}
	rows := [][2]string{{"judge", fmt.Sprintf("%s: %s; cost %s", j.Model, Judged(*j), view.Dollars(j.CostMicroUSD))}}
	switch b := j.Battery; {
	case b == nil:
	case b.Passed && b.Cached:
		rows = append(rows, [2]string{"", "judge self-test passed before, by the judge cache"})
	case b.Passed:
		rows = append(rows, [2]string{"", fmt.Sprintf("judge self-test passed: 0 of %d empty answers accepted%s", b.Asked, filtered(b.Refused))})
	default:
		why := ExplainBattery(b)
		if why == "" {
			why = "its self-test could not run: " + b.Problem
		}
		rows = append(rows, [2]string{"", "its verdicts do not count: " + view.Line(why)})
	}
	return rows
}

// Judged counts the answers that were the judge's to judge.
func Judged(j rundir.JudgeSummary) string {
	text := fmt.Sprintf("judged %d of %d (%d from the cache), unreadable %d, errors %d", j.Judged, j.ToJudge(), j.Cached, j.Unreadable, j.Errors)
	if j.Withheld > 0 {
		text += fmt.Sprintf(", kept from it %d", j.Withheld)
	}
	if j.TooLong > 0 {
		text += fmt.Sprintf(", too long %d", j.TooLong)
	}
	return text
}

// ExplainBattery says why a judge failed its self-test; "" if it passed, or if it only could
// not be asked.
func ExplainBattery(b *rundir.BatterySummary) string {
	items := len(judge.Battery())
	var why []string
	if b.Cached && !b.Passed {
		why = append(why, "it accepted empty answers before, by the judge cache ('gaia judge check' shows which)")
	}
	if len(b.Accepted) > 0 {
		why = append(why, fmt.Sprintf("it accepted %d of %d empty answers: %s", len(b.Accepted), items, strings.Join(b.Accepted, ", ")))
	}
	if len(b.Unreadable) > 0 {
		why = append(why, fmt.Sprintf("its reply to %d of %d empty answers is not a verdict: %s", len(b.Unreadable), items, strings.Join(b.Unreadable, ", ")))
	}
	if 2*len(b.Refused) >= b.Asked && b.Asked > 0 {
		why = append(why, fmt.Sprintf("its endpoint refused %d of %d self-test answers", len(b.Refused), items))
	}
	return strings.Join(why, "; ")
}

// filtered says which items of the self-test an endpoint refused; "" if none.
func filtered(refused []string) string {
	if len(refused) == 0 {
		return ""
	}
	return fmt.Sprintf("; its endpoint refused %d: %s", len(refused), strings.Join(refused, ", "))
}

// Outcomes counts how tasks ended.
func Outcomes(o rundir.Outcomes) string {
	return fmt.Sprintf("%d solved, %d failed, %d error, %d skipped, %d unscored", o.Solved, o.Failed, o.Error, o.Skipped, o.Unscored)
}

// interval returns the Wilson interval of a rate.
func interval(r stats.Rate) string {
	return view.Percent(r.WilsonLowPPM) + " – " + view.Percent(r.WilsonHighPPM)
}

// ToolNote says what a model did that was asked to call a tool, "" if it called it.
func ToolNote(tool string) string {
	switch tool {
	case trajectory.ToolNone:
		return "the model did not call the tool it was asked to call: it called none"
	case trajectory.ToolOther:
		return "the model did not call the tool it was asked to call: its call was another one"
	}
	return ""
}
