// Package runview describes a run to a person: its scores and tasks (Summary, Tasks), and what happened in one task
// (Task, Follower).
//
// It is pure: it reads no clock and starts nothing. Text from outside is escaped and indented, so that it cannot look like
// a line of this program. Command summaries, gaia show and the audit report share its rows.
package runview

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Task writes a task of the run in dir step by step; records are its ended attempts.
// Text from outside is indented, or on the line that names it, so that it cannot pass for a
// line of this program.
func Task(out io.Writer, dir fs.FS, found *rundir.Run, task *rundir.Task, records []rundir.Trajectory, wholeDiff bool) error {
	notes, err := readNotes(dir, found, task)
	if err != nil {
		return err
	}
	w := &strings.Builder{}
	w.WriteString(Opening(found.Manifest))
	fmt.Fprintf(w, "task %s, level %d\n\n", view.Line(task.Plan.TaskID), task.Plan.Level)
	fmt.Fprintf(w, "question:\n%s\n", Head(notes.question))
	if task.Plan.FileName != "" {
		fmt.Fprintf(w, "attachment: %s\n\n", view.Line(task.Plan.FileName))
	}
	if shard := TaskShard(found.Fold, task); shard != "" {
		fmt.Fprintf(w, "shard: %s\n\n", shard)
	}
	for i, r := range records {
		writeAttempt(w, r, task.Attempts[i], notes, wholeDiff)
		if found.Manifest.Voting.Rule == plan.VoteMajority {
			writeVote(w, task, task.Attempts[i])
		}
	}
	if open := task.Open(); open != nil {
		fmt.Fprintf(w, "attempt %d: open, %d turns and %d tool calls so far\n", open.Number, open.Turns, open.ToolCalls)
	}
	writeVerdicts(w, task)
	if task.Sealed != nil && task.Sealed.Outcome == trajectory.Skipped && found.Manifest.Budgets.RunCostMicroUSD > 0 {
		fmt.Fprintf(w, "not begun: %s\n", runBudget(found.Manifest.Budgets))
	}
	_, err = io.WriteString(out, visible.Text(w.String()))
	return err
}

// notes are what the journal has of a task beside its trajectories.
type notes struct {
	question  string
	condensed map[int][][]trajectory.ContextCondensed // of each attempt: before its first prompt, its second, …
	governed  governed
	own       bool                   // of an own agent
	refused   map[int]map[string]int // requests of each attempt, by their code
}

// readNotes reads the journal that has the attempts at a task.
func readNotes(dir fs.FS, found *rundir.Run, of *rundir.Task) (notes, error) {
	task, journal := of.Plan.TaskID, trajectory.JournalFile
	if found.Shards != nil {
		journal = found.ShardOf(of).Journal()
	}
	all := notes{question: "(not begun)", condensed: map[int][][]trajectory.ContextCondensed{}, governed: governed{},
		own: found.Manifest.Agent != nil, refused: map[int]map[string]int{}}
	if journal == "" { // it is gone
		return all, nil
	}
	f, err := dir.Open(journal)
	if err != nil {
		return notes{}, err
	}
	defer f.Close()
	var before []trajectory.ContextCondensed
	_, _, err = trajectory.ReadJournal(f, found.Manifest.RunID, found.ManifestSHA256, func(e trajectory.Event, _ []byte) error {
		if e.TaskID != task {
			return nil
		}
		switch p := e.Payload.(type) {
		case trajectory.TaskStarted:
			all.question, before = p.Question, nil
		case trajectory.RequestRefused:
			if all.refused[e.Attempt] == nil {
				all.refused[e.Attempt] = map[string]int{}
			}
			all.refused[e.Attempt][p.Code]++
		case trajectory.ContextCondensed:
			before = append(before, p)
		case trajectory.ContextCompiled:
			all.condensed[e.Attempt] = append(all.condensed[e.Attempt], before)
			before = nil
		}
		all.governed.add(e)
		return nil
	})
	return all, err
}

// Head returns the first lines of a text, indented, and how many more there are.
func Head(text string) string {
	const most = 12
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := ""
	if len(lines) > most {
		more = fmt.Sprintf("    … %d more lines\n", len(lines)-most)
		lines = lines[:most]
	}
	return "    " + strings.Join(lines, "\n    ") + "\n" + more
}

// writeAttempt writes an attempt with its notes.
func writeAttempt(w io.Writer, r rundir.Trajectory, a *rundir.Attempt, notes notes, wholeDiff bool) {
	fmt.Fprintf(w, "attempt %d: %s%s\n", r.Attempt, a.Ended.Outcome, inParentheses(a.Ended.Reason))
	if a.Error != nil {
		fmt.Fprintf(w, "  failed: %s: %s\n", view.Line(a.Error.Stage), view.Line(a.Error.Message))
	}
	turn, prompts, condensed, steps := 0, 0, notes.condensed[r.Attempt], r.Steps
	if notes.own { // whose turns overlap
		steps = inTurns(steps)
	}
	for i, step := range steps {
		p, prompted := step.(rundir.PromptStep)
		if of := turnOf(step); of != turn && of != 0 && (prompted || notes.own) {
			turn = of
			fmt.Fprintf(w, "\n  turn %d\n", turn)
		}
		if prompted {
			if prompts == 0 {
				writePictures(w, p)
			}
			if prompts < len(condensed) {
				for _, c := range condensed[prompts] {
					fmt.Fprintf(w, "  %s\n", Title(c))
				}
			}
			prompts++
		}
		if call, ok := step.(rundir.LLMCallStep); ok && cutShort(call, steps[i+1:], a) {
			fmt.Fprintln(w, "  cut: the time of the attempt was up")
			continue
		}
		writeStep(w, step)
		if call, ok := step.(rundir.ToolCallStep); ok {
			notes.governed.write(w, callAt{r.Attempt, call.Turn, call.CallID})
		}
	}
	fmt.Fprintln(w)
	if r.FinalAnswer != nil {
		fmt.Fprintf(w, "  answer: %s (rule %s)\n", view.Line(*r.FinalAnswer), view.Line(a.Answer.Rule))
	}
	writeProcess(w, a.Ended.Agent, notes.refused[r.Attempt])
	writeChange(w, a.Ended.Workspace, wholeDiff)
}

// inTurns returns steps in the order of their turns. An exchange, which has none, comes behind the step
// before it.
func inTurns(steps []any) []any {
	type placed struct {
		step any
		turn int
	}
	all, last := make([]placed, len(steps)), 0
	for i, step := range steps {
		if of := turnOf(step); of != 0 {
			last = of
		}
		all[i] = placed{step, last}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.turn, b.turn) })
	sorted := make([]any, len(all))
	for i, p := range all {
		sorted[i] = p.step
	}
	return sorted
}

// turnOf returns the turn of a step, 0 of an exchange.
func turnOf(step any) int {
	switch s := step.(type) {
	case rundir.PromptStep:
		return s.Turn
	case rundir.LLMCallStep:
		return s.Turn
	case rundir.ToolCallStep:
		return s.Turn
	case rundir.ToolResultStep:
		return s.Turn
	}
	return 0
}

// writeProcess writes how the process of an own agent ended, and which of its requests were refused, by code as far as
// that is recorded.
func writeProcess(w io.Writer, end *trajectory.AgentEnd, refused map[string]int) {
	if len(refused) > 0 {
		var codes []string
		recorded := 0
		for _, code := range slices.Sorted(maps.Keys(refused)) {
			codes, recorded = append(codes, fmt.Sprintf("%s: %d", view.Line(code), refused[code])), recorded+refused[code]
		}
		if end != nil {
			recorded = end.Refused
		}
		fmt.Fprintf(w, "  %s refused (%s)\n", view.Count(recorded, "request"), strings.Join(codes, ", "))
	}
	if end == nil {
		return
	}
	fmt.Fprintf(w, "  process: %s\n", Process(end))
	if end.Stderr != "" {
		fmt.Fprint(w, Head(end.Stderr))
	}
	if c := end.Confined; c != nil && c.NoRoute+c.Unheard > 0 {
		fmt.Fprintf(w, "  past the network: %d to addresses without a route, %d to local ports where nothing listens\n", c.NoRoute, c.Unheard)
	}
}

// cutShort reports whether a call was cancelled because the time of its attempt
// was up, and not with the run: the attempt went on, or ended by itself.
func cutShort(call rundir.LLMCallStep, after []any, a *rundir.Attempt) bool {
	if call.Error == nil || call.Error.Code != "cancelled" { // from this side
		return false
	}
	return a.Ended.Outcome != trajectory.Errored || slices.ContainsFunc(after, func(step any) bool {
		_, more := step.(rundir.PromptStep)
		return more
	})
}

// inParentheses returns a reason in parentheses, "" for none.
func inParentheses(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + view.Line(reason) + ")"
}

// writePictures names the pictures that the model was shown with the question.
func writePictures(w io.Writer, p rundir.PromptStep) {
	for _, m := range p.Messages {
		if m.Image.Path != "" {
			fmt.Fprintf(w, "  shown with the question: %s (%s, %d bytes)\n", view.Line(m.Image.Path), view.Line(m.Image.MediaType), m.Image.Bytes)
		}
	}
}

func writeStep(w io.Writer, step any) {
	if title := stepTitle(step); title != "" {
		fmt.Fprintf(w, "  %s\n", title)
	}
	switch s := step.(type) {
	case rundir.LLMCallStep:
		if s.Error != nil {
			return
		}
		io.WriteString(w, Head(spoken(s.Head)))
		if len(s.UnrecordedChannels) > 0 {
			fmt.Fprintf(w, "  unrecorded channels: %s\n", view.Line(strings.Join(s.UnrecordedChannels, ", ")))
		}
	case rundir.ToolCallStep:
		if len(s.RuleHits) > 0 {
			fmt.Fprintf(w, "  rules hit: %s\n", view.Line(strings.Join(s.RuleHits, ", ")))
		}
	case rundir.ToolResultStep:
		io.WriteString(w, Head(s.Head))
		if s.Model != nil {
			fmt.Fprintf(w, "    made by model %s: %d tokens in, %d out\n", view.Line(s.Model.RequestedModel), s.Model.Tokens.In, s.Model.Tokens.Out)
		}
		for _, u := range s.URLs {
			fmt.Fprintf(w, "    %d %s\n", u.Status, view.Line(u.URL))
		}
	case rundir.ExchangeStep:
		fmt.Fprintf(w, "  exchange %d: %s %s\n    %s\n", s.Number, view.Line(s.Method), view.Line(s.URL), exchanged(s.Status, s.Bytes, s.LatencyMs, s.Error))
		if s.Status != 0 && s.Head != "" {
			io.WriteString(w, Head(s.Head))
		}
	}
}

func arguments(s rundir.ToolCallStep) string {
	if s.Malformed != "" {
		return "malformed: " + s.Malformed
	}
	args := slices.Sorted(maps.Keys(s.Args))
	for i, name := range args {
		value := s.Args[name]
		// The journal keeps texts as they are and other values as their JSON: a text that reads as one is taken for it.
		if v := jsontext.Value(value); !v.IsValid() || v.Kind() == '"' || strings.TrimSpace(value) != value {
			value = fmt.Sprintf("%q", value)
		}
		args[i] = name + "=" + value
	}
	return strings.Join(args, ", ")
}

func writeVerdicts(w io.Writer, t *rundir.Task) {
	if t.Sealed == nil && t.Committed != nil {
		fmt.Fprintln(w, "committed: gaia merge grades and seals it")
		return
	}
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

// writeVote writes the votes for the answer of an attempt.
func writeVote(w io.Writer, t *rundir.Task, a *rundir.Attempt) {
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

// verdicts describes both verdicts, or the official one alone where there is no LLM judge.
func verdicts(j *trajectory.Judgment) string {
	judged := ""
	switch {
	case j.Judged != nil:
		judged = ", judge says " + Correct(j.Judged)
	case !slices.Contains([]string{judge.PathOfficial, judge.PathNoAnswer, judge.PathNoJudge}, j.Path): // which need one to be judged
		judged = ", not judged"
	}
	return fmt.Sprintf("official %s%s (%s)", Correct(&j.Official), judged, view.Line(j.Path))
}

// Correct writes a verdict that can be missing.
func Correct(v *bool) string {
	switch {
	case v == nil:
		return "not judged"
	case *v:
		return "correct"
	}
	return "wrong"
}

// spoken returns the text in the head of a recorded message; a head that was cut is returned as it is.
func spoken(head string) string {
	var m struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal([]byte(head), &m); err != nil {
		return head
	}
	return m.Content
}

// Follower prints events as text, under the task, attempt and turn that they are of.
type Follower struct {
	W     io.Writer
	under string
}

// Event prints an event that f has folded.
func (v *Follower) Event(f *rundir.Fold, e trajectory.Event) error {
	w := &strings.Builder{}
	if e.TaskID == "" {
		switch e.Payload.(type) {
		case trajectory.RunResumed, trajectory.RunCompleted:
			fmt.Fprintln(w, Title(e.Payload))
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
	_, err := io.WriteString(v.W, visible.Text(head+w.String()))
	return err
}

// under returns the line under which an event is printed, "" for one of the run.
func under(e trajectory.Event) string {
	if e.TaskID == "" {
		return ""
	}
	line := "task " + view.Line(e.TaskID)
	if e.Attempt > 0 {
		line += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if e.Turn > 0 {
		line += fmt.Sprintf(", turn %d", e.Turn)
	}
	return line + "\n"
}

// writeEvent writes an event of a task, if it is one that is shown. Text from outside is indented, or on the line that names it.
func writeEvent(w *strings.Builder, t *rundir.Task, e trajectory.Event) {
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		fmt.Fprintf(w, "  question:\n%s", Head(p.Question))
		if p.FileName != "" {
			fmt.Fprintf(w, "  attachment: %s%s\n", view.Line(p.FileName), inParentheses(p.ShownAs))
		}
	case trajectory.ContextCondensed, trajectory.Error, trajectory.AnswerCommitted, trajectory.RequestRefused, trajectory.Judgment, trajectory.TaskCommitted, trajectory.TaskSealed:
		fmt.Fprintf(w, "  %s\n", Title(p))
	case trajectory.AttemptEnded:
		fmt.Fprintf(w, "  %s\n", Title(p))
		writeProcess(w, p.Agent, nil)
		writeChange(w, p.Workspace, false)
	case trajectory.PolicyDecision:
		if len(p.RuleIDs) > 0 {
			fmt.Fprintf(w, "  rules hit by %s: %s\n", view.Line(p.CallID), view.Line(strings.Join(p.RuleIDs, ", ")))
		}
		writeStepEvent(w, t, e)
	default:
		writeStepEvent(w, t, e)
	}
}

// writeStepEvent writes an event that is a step of a trajectory, or is about a call.
func writeStepEvent(w *strings.Builder, t *rundir.Task, e trajectory.Event) {
	switch step := t.Attempts[e.Attempt-1].StepOf(e).(type) {
	case nil:
		g := governed{}
		g.add(e)
		for at := range g {
			g.write(w, at)
		}
	case rundir.PromptStep:
		if e.Turn == 1 {
			writePictures(w, step)
		}
	default:
		writeStep(w, step)
	}
}
