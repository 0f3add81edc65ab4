package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
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

func verdicts(j *trajectory.Judgment) string {
	judged := "judge says " + correct(j.Judged)
	if j.Judged == nil {
		judged = "not judged"
	}
	return fmt.Sprintf("official %s, %s (%s)", correct(&j.Official), judged, oneLine(j.Path))
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
