package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// shownLines bounds how much of a long text show prints.
const shownLines = 12

func section(w io.Writer, title, text string) {
	fmt.Fprintf(w, "%s:\n%s\n", title, indent(text))
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := ""
	if len(lines) > shownLines {
		more = fmt.Sprintf("    … %d more lines\n", len(lines)-shownLines)
		lines = lines[:shownLines]
	}
	return "    " + strings.Join(lines, "\n    ") + "\n" + more
}

// writeAttempt writes an attempt, with what the journal tells of it beside.
func writeAttempt(w io.Writer, r ledger.Trajectory, a *ledger.Attempt, told told, wholeDiff bool) {
	fmt.Fprintf(w, "attempt %d: %s", r.Attempt, a.Ended.Outcome)
	if a.Ended.Reason != "" {
		fmt.Fprintf(w, " (%s)", oneLine(a.Ended.Reason))
	}
	fmt.Fprintln(w)
	if a.Error != nil {
		fmt.Fprintf(w, "  failed: %s: %s\n", oneLine(a.Error.Stage), oneLine(a.Error.Message))
	}
	turn, prompts, condensed := 0, 0, told.condensed[r.Attempt]
	for i, step := range r.Steps {
		if p, ok := step.(ledger.PromptStep); ok {
			if p.Turn != turn {
				turn = p.Turn
				fmt.Fprintf(w, "\n  turn %d\n", turn)
			}
			if prompts == 0 {
				writePictures(w, p)
			}
			if prompts < len(condensed) {
				writeCondensed(w, condensed[prompts])
			}
			prompts++
		}
		if call, ok := step.(ledger.LLMCallStep); ok && cutShort(call, r.Steps[i+1:], a) {
			fmt.Fprintln(w, "  cut: the time of the attempt was up")
			continue
		}
		writeStep(w, step)
		if call, ok := step.(ledger.ToolCallStep); ok {
			told.governed.write(w, callAt{r.Attempt, call.Turn, call.CallID})
		}
	}
	fmt.Fprintln(w)
	if r.FinalAnswer != nil {
		fmt.Fprintf(w, "  answer: %s (rule %s)\n", oneLine(*r.FinalAnswer), oneLine(a.Answer.Rule))
	}
	writeChange(w, a.Ended.Workspace, wholeDiff)
}

// cutShort reports whether a call was cancelled because the time of its attempt
// was up, and not with the run: the attempt went on, or ended by itself.
func cutShort(call ledger.LLMCallStep, after []any, a *ledger.Attempt) bool {
	if call.Error == nil || call.Error.Code != cancelled {
		return false
	}
	return a.Ended.Outcome != trajectory.Errored || slices.ContainsFunc(after, func(step any) bool {
		_, more := step.(ledger.PromptStep)
		return more
	})
}

// cancelled is the code of a call that was ended from this side.
const cancelled = "cancelled"

// writePictures names the pictures that the model was shown with the question.
func writePictures(w io.Writer, p ledger.PromptStep) {
	for _, m := range p.Messages {
		if m.Image.Path != "" {
			fmt.Fprintf(w, "  shown with the question: %s (%s, %d bytes)\n", oneLine(m.Image.Path), oneLine(m.Image.MediaType), m.Image.Bytes)
		}
	}
}

func writeCondensed(w io.Writer, condensed []trajectory.ContextCondensed) {
	for _, c := range condensed {
		fmt.Fprintf(w, "  condensed: %s taken out to make room (%s)\n", counted(len(c.Messages), "result"), oneLine(c.Reason))
	}
}

func writeStep(w io.Writer, step any) {
	switch s := step.(type) {
	case ledger.LLMCallStep:
		if s.Error != nil {
			fmt.Fprintf(w, "  model failed: %d %s\n", s.Error.Status, oneLine(s.Error.Message))
			return
		}
		fmt.Fprintf(w, "  model %s: %d tokens in, %d out, %d ms\n%s", oneLine(s.ResponseModel), s.TokensIn, s.TokensOut, s.LatencyMs, indent(spoken(s.Head)))
		if len(s.UnrecordedChannels) > 0 {
			fmt.Fprintf(w, "  unrecorded channels: %s\n", oneLine(strings.Join(s.UnrecordedChannels, ", ")))
		}
	case ledger.ToolCallStep:
		fmt.Fprintf(w, "  call %s(%s)\n", oneLine(s.Name), oneLine(arguments(s)))
		if len(s.RuleHits) > 0 {
			fmt.Fprintf(w, "  rules hit: %s\n", oneLine(strings.Join(s.RuleHits, ", ")))
		}
	case ledger.ToolResultStep:
		what := "result"
		if s.Refused {
			what = "refused"
		} else if s.IsError {
			what = "error"
		}
		fmt.Fprintf(w, "  %s of %s: %d bytes\n%s", what, oneLine(s.Name), s.Bytes, indent(s.Head))
		if s.Model != nil {
			fmt.Fprintf(w, "    made by model %s: %d tokens in, %d out\n", oneLine(s.Model.RequestedModel), s.Model.Tokens.In, s.Model.Tokens.Out)
		}
		for _, u := range s.URLs {
			fmt.Fprintf(w, "    %d %s\n", u.Status, oneLine(u.URL))
		}
	}
}

func arguments(s ledger.ToolCallStep) string {
	if s.Malformed != "" {
		return "malformed: " + s.Malformed
	}
	names := make([]string, 0, len(s.Args))
	for name := range s.Args {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + "=" + argument(s.Args[name])
	}
	return strings.Join(names, ", ")
}

func writeVerdicts(w io.Writer, t *ledger.Task) {
	if t.Sealed == nil {
		fmt.Fprintln(w, "not sealed")
		return
	}
	fmt.Fprintf(w, "\nsealed as %s", t.Sealed.Outcome)
	if a := t.Counted(); a != nil && a.Judgment != nil {
		fmt.Fprint(w, ": "+verdicts(a.Judgment))
	}
	fmt.Fprintln(w)
}

// writeVote says how an attempt fared in the vote.
func writeVote(w io.Writer, t *ledger.Task, a *ledger.Attempt) {
	if a.Answer == nil {
		return
	}
	fmt.Fprintf(w, "  votes: %d", t.Votes()[a.Number-1])
	if t.Sealed != nil && t.Sealed.Attempt == a.Number {
		fmt.Fprint(w, ", and it counts")
	}
	if a.Judgment != nil {
		fmt.Fprint(w, "; "+verdicts(a.Judgment))
	}
	fmt.Fprint(w, "\n\n")
}

// verdicts says both verdicts, or the one there is without an LLM judge.
func verdicts(j *trajectory.Judgment) string {
	judged := ""
	switch {
	case j.Judged != nil:
		judged = ", judge says " + correct(j.Judged)
	case !slices.Contains([]string{judge.PathOfficial, judge.PathNoAnswer, judge.PathNoJudge}, j.Path): // which need one to be judged
		judged = ", not judged"
	}
	return fmt.Sprintf("official %s%s (%s)", correct(&j.Official), judged, oneLine(j.Path))
}

func correct(v *bool) string {
	switch {
	case v == nil:
		return "not judged"
	case *v:
		return "correct"
	}
	return "wrong"
}

// spoken takes the text out of the head of a recorded message; a head that was
// cut is shown as it is.
func spoken(head string) string {
	var m struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal([]byte(head), &m); err != nil {
		return head
	}
	return m.Content
}

// stepLine is what show --follow prints of a step with --json.
type stepLine struct {
	Attempt   int    `json:"attempt"`
	Seq       int64  `json:"seq"`
	Step      any    `json:"step"` // as in trajectories.jsonl; a tool_call is printed before it is decided and has no rule hits yet
	TaskID    string `json:"task_id"`
	Timestamp string `json:"timestamp"`
}

// followPoll is how often a journal is looked at that is followed.
const followPoll = 200 * time.Millisecond

// followRun prints the steps of a run, or of the task whose id starts with prefix,
// as the journal gets them.
func (a *app) followRun(ctx context.Context, dir, prefix string, asJSON bool) error {
	if err := isRun(dir); err != nil {
		return err
	}
	stop := a.catchSignals(ctx)
	defer stop.release()
	files, task, marked := os.DirFS(dir), "", ""
	v := &follower{w: a.stdout}
	var untrusted error
	err := ledger.Follow(files, func(run *ledger.Run) error {
		if untrusted = a.checkSigner(run); untrusted != nil { // following may take hours
			a.warn(untrusted.Error())
		}
		if !asJSON {
			if _, err := io.WriteString(a.stdout, notices(run.Manifest)); err != nil {
				return err
			}
		}
		if prefix == "" {
			return nil
		}
		t, err := oneTask(run.Fold, prefix)
		if err == nil {
			task = t.Plan.TaskID
		}
		return err
	}, func() error {
		if now, err := ledger.ReadMarker(files); err == nil && now != marked {
			marked = now
			fmt.Fprintf(a.stderr, "gaia: recording failed: %s; the journal may get no more steps\n", oneLine(now))
		}
		select {
		case <-stop.ctx.Done():
			return stop.ctx.Err()
		case <-time.After(followPoll):
			return nil
		}
	}, func(f *ledger.Fold, e trajectory.Event) error {
		if err := stop.ctx.Err(); err != nil {
			return err
		}
		if task != "" && e.TaskID != task {
			return nil
		}
		var err error
		if asJSON {
			err = a.printStepLine(f, e)
		} else {
			err = v.event(f, e)
		}
		if _, sealed := e.Payload.(trajectory.TaskSealed); sealed && task != "" && err == nil {
			return fs.SkipAll
		}
		return err
	})
	if errors.Is(err, ledger.ErrRemoved) {
		err = fail(exitFailure, fmt.Errorf("%q: %w", dir, err))
	}
	return firstOf(untrusted, err)
}

// printStepLine prints the step of an event on a line, if it gives one.
func (a *app) printStepLine(f *ledger.Fold, e trajectory.Event) error {
	if e.Attempt == 0 {
		return nil
	}
	step := f.Task(e.TaskID).Attempts[e.Attempt-1].StepOf(e)
	if step == nil {
		return nil
	}
	return a.printJSON(stepLine{Attempt: e.Attempt, Seq: e.Seq, Step: step, TaskID: e.TaskID, Timestamp: e.Timestamp})
}

// follower prints events as text, under the task, attempt and turn that they are of.
type follower struct {
	w     io.Writer
	under string
}

func (v *follower) event(f *ledger.Fold, e trajectory.Event) error {
	w := &strings.Builder{}
	if e.TaskID == "" {
		switch p := e.Payload.(type) {
		case trajectory.RunResumed:
			fmt.Fprintln(w, "run resumed")
		case trajectory.RunCompleted:
			fmt.Fprintf(w, "run completed: %d planned, %d solved, %d failed, %d skipped, %d error, %d unscored\n", p.Planned, p.Solved, p.Failed, p.Skipped, p.Error, p.Unscored)
		default:
			return nil
		}
		v.under = ""
	} else {
		writeEvent(w, f.Task(e.TaskID), e)
	}
	if w.Len() == 0 {
		return nil
	}
	head := ""
	if under := under(e); under != v.under {
		head, v.under = under, under
	}
	_, err := io.WriteString(v.w, visible.Text(head+w.String()))
	return err
}

// under is the line under which an event is printed, "" for one of the run.
func under(e trajectory.Event) string {
	if e.TaskID == "" {
		return ""
	}
	line := "task " + oneLine(e.TaskID)
	if e.Attempt > 0 {
		line += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if e.Turn > 0 {
		line += fmt.Sprintf(", turn %d", e.Turn)
	}
	return line + "\n"
}

// writeEvent writes an event of a task, nothing for one that show leaves out. Text from
// outside is indented, or on the line that names it.
func writeEvent(w *strings.Builder, t *ledger.Task, e trajectory.Event) {
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		fmt.Fprintf(w, "  question:\n%s", indent(p.Question))
		if p.FileName != "" {
			fmt.Fprintf(w, "  attachment: %s\n", oneLine(p.FileName))
		}
		return
	case trajectory.ContextCondensed:
		writeCondensed(w, []trajectory.ContextCondensed{p})
		return
	case trajectory.Error:
		fmt.Fprintf(w, "  failed: %s: %s\n", oneLine(p.Stage), oneLine(p.Message))
		return
	case trajectory.AnswerCommitted:
		fmt.Fprintf(w, "  answer: %s (rule %s)\n", oneLine(p.Answer), oneLine(p.Rule))
		return
	case trajectory.AttemptEnded:
		fmt.Fprintf(w, "  ended: %s", p.Outcome)
		if p.Reason != "" {
			fmt.Fprintf(w, " (%s)", oneLine(p.Reason))
		}
		fmt.Fprintln(w)
		writeChange(w, p.Workspace, false)
		return
	case trajectory.Judgment:
		fmt.Fprintf(w, "  %s\n", verdicts(&p))
		return
	case trajectory.TaskSealed:
		fmt.Fprintf(w, "  sealed as %s\n", p.Outcome)
		return
	case trajectory.PolicyDecision:
		if len(p.RuleIDs) > 0 {
			fmt.Fprintf(w, "  rules hit by %s: %s\n", oneLine(p.CallID), oneLine(strings.Join(p.RuleIDs, ", ")))
		}
	}
	switch step := t.Attempts[e.Attempt-1].StepOf(e).(type) {
	case nil:
		g := governed{}
		g.add(e)
		for at := range g {
			g.write(w, at)
		}
	case ledger.PromptStep:
		if e.Turn == 1 {
			writePictures(w, step)
		}
	default:
		writeStep(w, step)
	}
}
