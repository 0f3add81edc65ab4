package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json/jsontext"
)

// WitnessReader makes a witness bundle of the counted attempt of each task of a run, and of tasks without one, while
// [Verify] reads the run:
//
//	r := WitnessReader{Each: …}
//	run, err := Verify(dir, r.Options(""))
//
// It holds what it needs of the tasks that are not sealed yet. No one may believe a bundle before Verify has returned a
// complete run, and Err nothing.
type WitnessReader struct {
	Task           string                               // of one task alone; "" for all
	UnpricedAsZero bool                                 // calls whose price is unknown count as free
	Key            interface{ Sign(msg []byte) []byte } // signs the bundles, as Encode says; nil: they are not signed
	Unrecorded     bool                                 // recording failed and the run continued: Run.Marked, which only Verify knows in the end
	Unpriced       int                                  // bundles of attempts with calls whose price is unknown
	// Each is given each bundle with its bytes, in the order of the seals. Its error ends Verify.
	Each func(taskID string, w witness.Bundle, data []byte) error
	open map[string]*witnessTask
	err  error
}

// UnpricedError says that a bundle cannot be made, since it has no form for a cost that is not known.
type UnpricedError struct{ TaskID string }

func (e *UnpricedError) Error() string {
	return fmt.Sprintf("the cost of task %q is unknown, and a witness bundle cannot record an unknown cost", e.TaskID)
}

// witnessTask is what a bundle says of a task and the Fold does not hold.
type witnessTask struct {
	attempts []*witnessAttempt // of number i+1
	sealed   time.Time
}

type witnessAttempt struct {
	question string
	replied  bool   // the model has
	plan     string // of its first message
	calls    []witness.Entry
	pending  map[turnCall][]int // places of calls that await their decision
	allowed  map[turnCall][]int // … and of those that await their result
	approved map[turnCall]bool  // what was asked about a call was answered with yes
	rules    map[string]bool    // that were broken
	ended    time.Time
}

// turnCall names calls of one id in a turn: turns can overlap, and models use an id twice.
type turnCall struct {
	turn int
	id   string
}

// Options are how [Verify] shows a run to the reader; summary is the name of its summary, SummaryFile if "".
func (r *WitnessReader) Options(summary string) Options {
	return Options{Summary: summary, Event: func(e trajectory.Event) error { r.add(e); return nil }, Sealed: r.seal}
}

// Err returns why a bundle could not be made, nil if all were: an *UnpricedError, or that a value does not fit its
// field. No bundle was given out after it.
func (r *WitnessReader) Err() error { return r.err }

// add takes what a bundle needs of an event.
func (r *WitnessReader) add(e trajectory.Event) {
	if e.TaskID == "" || r.Task != "" && e.TaskID != r.Task {
		return
	}
	if r.open == nil {
		r.open = map[string]*witnessTask{}
	}
	t := r.open[e.TaskID]
	if t == nil {
		t = &witnessTask{}
		r.open[e.TaskID] = t
	}
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		t.attempts = append(t.attempts, &witnessAttempt{question: p.Question, rules: map[string]bool{},
			pending: map[turnCall][]int{}, allowed: map[turnCall][]int{}, approved: map[turnCall]bool{}})
	case trajectory.TaskCommitted:
	case trajectory.TaskSealed:
		t.sealed = e.Time()
	default:
		t.attempts[e.Attempt-1].add(e) // which has begun, or the Fold had refused the event
	}
}

// add takes an event of an attempt. What belongs to a call is found by the call's id, in the order of the calls where
// several have the same.
func (a *witnessAttempt) add(e trajectory.Event) {
	switch p := e.Payload.(type) {
	case trajectory.ModelCallCompleted:
		if !a.replied && p.OutputSHA256 != "" {
			a.replied, a.plan = true, statedPlan(p.Head)
		}
	case trajectory.ToolProposed:
		call := turnCall{e.Turn, p.CallID}
		a.pending[call] = append(a.pending[call], len(a.calls))
		a.calls = append(a.calls, witness.Entry{Action: p.Name, ArgsHash: firstBytes(p.ArgsSHA256), Policy: witness.Deny})
	case trajectory.ApprovalResolved:
		a.approved[turnCall{e.Turn, p.CallID}] = p.Approved
	case trajectory.PolicyDecision:
		id := turnCall{e.Turn, p.CallID}
		at, ok := next(a.pending, id)
		if !ok {
			return
		}
		call := &a.calls[at]
		if p.Shown != "" {
			sum := sha256.Sum256([]byte(p.Shown))
			copy(call.ResultHash[:], sum[:])
		}
		if p.Decision == "allow" {
			call.Policy = witness.Allow
			if a.approved[id] {
				call.Policy = witness.Confirm
			}
			a.allowed[id] = append(a.allowed[id], at)
		}
	case trajectory.ToolExecuted:
		at, ok := next(a.allowed, turnCall{e.Turn, p.CallID})
		if !ok {
			return
		}
		call := &a.calls[at]
		call.ResultHash, call.LatencyMs = firstBytes(p.OutputSHA256), p.LatencyMs
		if p.Model != nil {
			call.Tokens = p.Model.Tokens.In + p.Model.Tokens.Out
			if p.Model.CostMicroUSD != nil { // else the attempt's cost is not known either
				call.CostMicroUSD = *p.Model.CostMicroUSD
			}
		}
	case trajectory.PolicyViolation:
		if p.Class == string(policy.DeniedByRule) || p.Class == string(policy.DeniedByList) {
			for _, id := range p.RuleIDs {
				a.rules[id] = true
			}
		}
	case trajectory.AttemptEnded:
		a.ended = e.Time()
		a.pending, a.allowed, a.approved = nil, nil, nil
	}
}

// next takes the first place that waits under an id.
func next(waiting map[turnCall][]int, id turnCall) (at int, ok bool) {
	places := waiting[id]
	switch len(places) {
	case 0:
		return 0, false
	case 1:
		delete(waiting, id)
	default:
		waiting[id] = places[1:]
	}
	return places[0], true
}

// seal makes the bundle of a task that was sealed, gives it out and forgets the task.
func (r *WitnessReader) seal(f *Fold, t *Task) error {
	id := t.Plan.TaskID
	told := r.open[id]
	if told == nil || r.err != nil {
		return nil
	}
	delete(r.open, id)
	w, err := r.witness(f, t, told)
	var data []byte
	if err == nil {
		data, err = w.Encode(r.Key)
	}
	if err != nil {
		if r.err = fmt.Errorf("task %q: %w", id, err); errors.As(err, new(*UnpricedError)) {
			r.err = err
		}
		return nil
	}
	return r.Each(id, w, data)
}

// witness returns the bundle of a sealed task.
func (r *WitnessReader) witness(f *Fold, t *Task, told *witnessTask) (witness.Bundle, error) {
	outcome, known := witness.Outcome(t.Sealed.Outcome)
	mode, governed := witness.Mode(f.Manifest.PolicyMode)
	if !known || !governed {
		return witness.Bundle{}, fmt.Errorf("a witness bundle has no number for the outcome %q in the mode %q", t.Sealed.Outcome, f.Manifest.PolicyMode)
	}
	w := witness.Bundle{TaskID: witness.NewTaskID(t.Plan.TaskID), Outcome: outcome, Mode: mode}
	hash, err := hex.DecodeString(f.Manifest.PolicyHash)
	if err != nil || len(hash) != len(w.PolicyHash) {
		return witness.Bundle{}, fmt.Errorf("the policy hash %q has not the 8 bytes of a witness bundle's", f.Manifest.PolicyHash)
	}
	copy(w.PolicyHash[:], hash)
	var own []witness.Section
	if of := f.Manifest.Dataset.ErrorsOf.RunID; f.Manifest.Rehearsal {
		own = []witness.Section{{Tag: witness.Note, Value: []byte(witness.Rehearsal)}}
	} else if of != "" {
		own = []witness.Section{{Tag: witness.Note, Value: []byte(witness.ErrorsOf + of)}}
	}
	a := t.Counted()
	var conduct trajectory.Conduct
	if a != nil {
		conduct = *a.Conduct
	}
	value, err := witness.Conduct{Conduct: conduct, Recorded: !r.Unrecorded}.Encode()
	if err != nil {
		return witness.Bundle{}, err
	}
	own = append(own, witness.Section{Tag: witness.Governance, Value: value})
	if a == nil {
		w.Sections = own
		w.CreatedNs, err = nanoseconds(told.sealed)
		return w, err
	}
	seen := told.attempts[a.Number-1]
	if w.CreatedNs, err = nanoseconds(seen.ended); err != nil {
		return witness.Bundle{}, err
	}
	if a.CostMicroUSD == nil {
		if !r.UnpricedAsZero {
			return witness.Bundle{}, &UnpricedError{t.Plan.TaskID}
		}
		r.Unpriced++
	}
	w.ToolCalls, w.CostMicroUSD, w.LatencyMs = a.ToolCalls, a.KnownMicroUSD, a.LatencyMs()
	w.Tokens, w.Retries = a.Tokens.In+a.Tokens.Out, a.Retried
	sections, err := witnessSections(f, t, a, seen)
	w.Sections = append(sections, own...)
	return w, err
}

// witnessSections returns what there is of an attempt, in the order of the tags.
func witnessSections(f *Fold, t *Task, a *Attempt, seen *witnessAttempt) ([]witness.Section, error) {
	trace, err := witness.EncodeTrace(seen.calls)
	if err != nil {
		return nil, err
	}
	var sections []witness.Section
	add := func(tag uint16, value []byte) {
		sections = append(sections, witness.Section{Tag: tag, Value: value})
	}
	add(witness.Spec, []byte(seen.question))
	if seen.plan != "" {
		add(witness.Plan, []byte(seen.plan))
	}
	add(witness.Trace, trace)
	if diff, recorded := a.Diff(); recorded {
		add(witness.Diff, []byte(diff))
	}
	if a.Judgment != nil {
		add(witness.TestLog, []byte(testLog(*a.Judgment, f.Manifest.Judge != nil)))
	}
	if t.Sealed.Outcome != trajectory.Solved {
		add(witness.Postmortem, []byte(postmortem(t, a, slices.Sorted(maps.Keys(seen.rules)))))
	}
	return sections, nil
}

// nanoseconds returns t, which has milliseconds, since 1970. An error names a time that a witness bundle cannot hold.
func nanoseconds(t time.Time) (uint64, error) {
	ms := t.UnixMilli()
	if ms < 0 || ms > math.MaxInt64/1_000_000 {
		return 0, fmt.Errorf("created_ns of a witness bundle cannot hold the time %s", t.Format(trajectory.TimeFormat))
	}
	return uint64(ms) * 1_000_000, nil
}

// firstBytes returns the first bytes of a digest, zero if it is none.
func firstBytes(digest string) (out [8]byte) {
	if b, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:")); err == nil {
		copy(out[:], b)
	}
	return out
}

// statedPlan returns the text of a message by the head of its canonical form. Of a head that was cut it is the text up
// to the last whole character or escape.
func statedPlan(head string) string {
	rest, ok := strings.CutPrefix(head, `{"content":"`) // its first member
	if !ok {
		return ""
	}
	whole, err := jsontext.NewDecoder(strings.NewReader(`"` + rest)).ReadValue()
	if err == nil {
		text, _ := jsontext.AppendUnquote(nil, whole)
		return string(text)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	const longest = len(`\ud83d\ude00`)
	for end := len(rest); end >= 0 && end > len(rest)-longest; end-- {
		if text, err := jsontext.AppendUnquote(nil, `"`+rest[:end]+`"`); err == nil {
			return string(text)
		}
	}
	return ""
}

// Further lines of a test log.
const (
	judgeLine = "judge: "
	pathLine  = "scoring path: "
)

// testLog returns the outcomes of the checks of an answer, without gold and answer.
func testLog(j trajectory.Judgment, hasJudge bool) string {
	log := fmt.Sprintf("%s%t\n", witness.ExactMatchLine, j.Official)
	if hasJudge {
		asked := j.Cached || j.Tries > 0 || j.Path == PathError
		said := "none (not asked)"
		switch {
		case j.Judged == nil:
			said = "none (" + onOneLine(j.Path) + ")"
		case asked:
			said = fmt.Sprint(*j.Judged)
		}
		log += judgeLine + said + "\n"
	}
	return log + pathLine + onOneLine(j.Path) + "\n"
}

// postmortem says by the journal alone why a task was not solved.
func postmortem(t *Task, a *Attempt, rules []string) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "outcome: %s\nattempt: %d of %d, %s", t.Sealed.Outcome, a.Number, len(t.Attempts), a.Ended.Outcome)
	if a.Ended.Reason != "" {
		fmt.Fprintf(w, " (%s)", onOneLine(a.Ended.Reason))
	}
	w.WriteString("\n")
	if e := a.Error; e != nil {
		fmt.Fprintf(w, "failed: %s: %s", onOneLine(e.Stage), onOneLine(e.Message))
		if e.Code != "" {
			fmt.Fprintf(w, " (%s)", onOneLine(e.Code))
		}
		w.WriteString("\n")
	}
	answer := "none"
	if a.Answer != nil {
		answer = "given"
	}
	fmt.Fprintf(w, "answer: %s\n%s%d", answer, witness.ViolationsLine, a.Conduct.Denials.Violations())
	if len(rules) > 0 {
		fmt.Fprintf(w, " (%s)", onOneLine(strings.Join(rules, ", ")))
	}
	fmt.Fprintf(w, "\n%s%d\nretries: %d\n", witness.RollbacksLine, a.Conduct.Rollbacks, a.Retried)
	return w.String()
}

// onOneLine keeps text from outside on its line, so that it cannot pass for another.
func onOneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
