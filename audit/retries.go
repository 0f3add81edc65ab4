package audit

import (
	"fmt"
	"sort"

	"github.com/gaia-harness/gaia/trajectory"
)

// rerolls looks for attempts that were made again without a reason: whoever may
// throw an answer away is scored by patience.
func rerolls(e *Evidence, n *Notes, t *TaskEvidence) {
	lost, settled, free := 0, 0, 0
	for i, a := range t.Attempts {
		at := place{task: t, attempt: a.Number, seq: a.Begun}
		if lost >= max(e.Manifest.Retry.AttemptsPerTask, 1) || settled >= max(e.Manifest.Voting.Attempts, 1) {
			n.find("attempts-beyond-plan", at, fmt.Sprintf("attempt %d after %d that failed and %d that did not", a.Number, lost, settled), "as many attempts as the plan has")
		}
		if most := e.Manifest.Retry.FreeReattempts; most > 0 && free > most {
			n.find("attempts-beyond-plan", at, fmt.Sprintf("attempt %d after %d that were lost after a reply that calls no tool", a.Number, free), fmt.Sprintf("at most %d such attempts made again", most))
		}
		discarded(n, t, a)
		if a.Ended == nil {
			continue
		}
		if a.Ended.Outcome != trajectory.Errored {
			settled++
			continue
		}
		from, to := a.EndedAt, e.Events
		if i+1 < len(t.Attempts) {
			to = t.Attempts[i+1].Begun
		}
		if a.lost() {
			free++
		}
		switch a.Ended.Reason {
		case trajectory.Interrupted:
			from, to = a.Begun, a.EndedAt
		case trajectory.RunStopped:
		default:
			lost++
			continue
		}
		if !e.resumed(from, to) {
			n.find("attempts-beyond-plan", at, "an attempt ended as "+a.Ended.Reason+" and the run was not taken up again", "an interruption that the journal shows")
		}
	}
}

// resumed reports whether the run was taken up between two places.
func (e *Evidence) resumed(from, to int64) bool {
	i := sort.Search(len(e.Resumed), func(i int) bool { return e.Resumed[i].Seq > from })
	return i < len(e.Resumed) && e.Resumed[i].Seq < to
}

// discarded looks for answers that were thrown away: a reply that calls no tool
// and gives an answer is the last of its attempt, and what is committed. A
// process can be lost between the two, which is AUD-6's to look at.
func discarded(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	lost := a.Ended != nil && a.Ended.Outcome == trajectory.Errored
	for i, m := range a.Models {
		if !m.Whole || !m.Answers || m.Calls > 0 {
			continue
		}
		at := place{task: t, attempt: a.Number, seq: m.Seq}
		const want = "the answer that the model gave first"
		switch last := i == len(a.Models)-1; {
		case !last:
			n.find("discarded-answer", at, "the model gave an answer and was asked again in the same attempt", want)
		case lost && a.Ended.Reason != trajectory.Interrupted:
			n.find("discarded-answer", at, "the model gave an answer that was not committed: its attempt ended as an error", want)
		}
	}
}
