package export

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxShort is how much of a text stands where only its gist is wanted, in bytes:
// what Inspect itself keeps in summaries.
const maxShort = 1 << 10

// noGold is what the log says where Inspect expects the target.
const noGold = "gold answers are never exported"

// sample returns an epoch of a task; did is what its attempt did, nil of a task
// that was never attempted.
func (s Source) sample(t *rundir.Task, e epoch, did *attempt) sample {
	id := t.Plan.TaskID
	out := sample{Messages: []*chatMessage{}, Events: []any{}, Attachments: map[string]string{},
		Output: modelOutput{Choices: []choice{}}, Pool: eventsData{Messages: []*chatMessage{}, Calls: []struct{}{}}}
	out.sampleBase = sampleBase{ID: id, Epoch: e.number, Scores: s.scores(t, e.attempt), Metadata: s.about(t, e), Usage: map[string]modelUsage{},
		UUID: fmt.Sprintf("%s-%d-%d", s.Run.Manifest.RunID, t.Index, e.number)}
	for _, lost := range e.lost {
		out.Retries = append(out.Retries, failure(lost))
	}
	if did == nil {
		out.Error = &evalError{Message: "no attempt was made at this task"}
		return out
	}
	if e.attempt.Ended.Outcome == trajectory.Errored {
		out.Error = new(failure(e.attempt))
	}
	out.Input, out.Turns, out.Usage = did.question, e.attempt.Turns, did.usage.models()
	out.Started, out.Completed = did.first.Format(trajectory.TimeFormat), did.last.Format(trajectory.TimeFormat)
	out.Total, out.Working = did.last.Sub(did.first).Seconds(), seconds(did.working)
	if did.file != "" {
		out.Files = []string{did.file}
	}
	out.Messages, out.Output, out.Events = did.messages(did.rest), did.output, did.events
	if len(did.pool) > 0 {
		out.Pool.Messages = did.pool
	}
	for _, name := range s.scorers() {
		if given, scored := out.Scores[name]; scored {
			base := eventBase{Event: "score", UUID: out.UUID + "-" + name, Timestamp: out.Completed, Start: out.Total}
			out.Events = append(out.Events, scoreEvent{eventBase: base, Score: given, Scorer: name})
		}
	}
	if cut := did.cutTexts(); cut > 0 {
		out.Metadata["cut_texts"] = cut
	}
	return out
}

// summary returns what the log's list of samples says of one.
func (s sample) summary() sampleSummary {
	out := sampleSummary{sampleBase: s.sampleBase, Finished: true, MessageCount: len(s.Messages), Retries: len(s.Retries)}
	out.Input, _ = shorten(out.Input, maxShort)
	if s.Error != nil {
		out.Error = s.Error.Message
	}
	out.Scores = map[string]score{}
	for name, given := range s.Scores {
		if given.Answer != nil {
			short, _ := shorten(*given.Answer, maxShort)
			given.Answer = &short
		}
		out.Scores[name] = given
	}
	return out
}

// about returns what is said of a sample besides.
func (s Source) about(t *rundir.Task, e epoch) map[string]any {
	about := map[string]any{"level": t.Plan.Level, "outcome": t.Sealed.Outcome, "target": noGold, "attempts": len(t.Attempts),
		"rehearsal": s.Run.Manifest.Rehearsal}
	if t.Plan.FileName != "" {
		about["file_name"] = t.Plan.FileName
	}
	if s.Void[t.Plan.TaskID] {
		about["void"] = true
	}
	if a := e.attempt; a != nil {
		about["attempt"], about["counted"] = a.Number, a.Number == t.Sealed.Attempt
		about["ended"] = a.Ended.Outcome
		if a.Ended.Reason != "" {
			about["reason"] = a.Ended.Reason
		}
	}
	return about
}

// scorers are the names of the verdicts: a run without an LLM judge has one.
func (s Source) scorers() []string {
	if s.Run.Manifest.Judge == nil {
		return []string{"official"}
	}
	return []string{"official", "judged"}
}

// by returns the verdict of a scorer.
func (v verdicts) by(name string) *bool {
	if name == "judged" {
		return v.judged
	}
	return v.official
}

// scores returns the verdicts on an attempt that were given.
func (s Source) scores(t *rundir.Task, a *rundir.Attempt) map[string]score {
	given := map[string]score{}
	verdicts := s.verdicts(t, a)
	for _, name := range s.scorers() {
		verdict := verdicts.by(name)
		if verdict == nil {
			continue
		}
		out := score{Value: "I", Explanation: "no answer was graded"}
		if *verdict {
			out.Value = "C"
		}
		if a != nil && a.Answer != nil {
			out.Answer = &a.Answer.Answer
		}
		if a != nil && a.Judgment != nil {
			out.Explanation = "scoring path: " + a.Judgment.Path
			out.Metadata = map[string]any{"scoring_path": a.Judgment.Path}
		}
		if s.Void[t.Plan.TaskID] {
			out.Explanation = "the task is void by adjudication, and counts wrong"
		}
		given[name] = out
	}
	return given
}

// failure says what ended an attempt that was lost.
func failure(a *rundir.Attempt) evalError {
	message := a.Ended.Reason
	if a.Error != nil {
		message = a.Error.Message
	}
	if message == "" {
		message = "the attempt ended as an error"
	}
	return evalError{Message: message}
}

// cutTexts counts the texts of which the log has not all.
func (a *attempt) cutTexts() int {
	n := 0
	for _, m := range a.pool {
		if m.Metadata.Cut {
			n++
		}
		n += len(m.Metadata.CutArguments)
	}
	for _, e := range a.events {
		if result, is := e.(toolEvent); is && result.Metadata.Cut {
			n++
		}
	}
	return n
}
