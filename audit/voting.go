package audit

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

func votingDisclosure() Check {
	return Check{
		ID: "AUD-6", Name: "voting-disclosure", Severity: Critical, Gate: true,
		Title: "no attempt was made with a verdict in view",
		Why:   "whoever sees a grade and may try again is scored by patience; best of many is not one attempt",
		Fix:   "declare voting in the plan and grade once all answers are committed",
		Skips: "the plan does not declare how many answers are gathered and how one is chosen, or declares a rule that this version does not know",
		Rules: []Rule{
			{"judgment-before-attempt", Critical, 1, "an attempt that began after another one at its task was graded"},
			{"attempt-after-grading", Critical, 1, "in a run that is to be submitted, an attempt that began after the first verdict"},
			{"answer-after-grading", Critical, 1, "in a run that is to be submitted, an answer that was committed after the first verdict"},
			{"more-answers-than-declared", High, 1, "more committed answers of a task than the plan declares"},
			{"selective-retries", High, 1, "failed tries of the model calls that answer solved tasks, more often than of the other calls of the run with p < 0.001, or of all calls that answer wrongly; rate limits, refused connections and time limits do not count"},
			{"answers-lost-repeatedly", High, 1, "attempts that an interruption or a stop of the run ended after a reply that calls no tool, at 5 tasks and 5 % of the run or more"},
			{"frequent-retries", ToReview, 1, "failed tries of the model calls that answer a fifth of the solved tasks or more, and at least three"},
			{"answer-lost", ToReview, 1, "an attempt that an interruption or a stop of the run ended after a reply that calls no tool"},
			{"reattempts-planned", ToReview, 1, fmt.Sprintf("a plan that makes more than %d attempts at a task in place of lost ones, or has no limit", ledger.FreeReattempts)},
			{"resumed-by-another-version", ToReview, 1, "an interruption after which another version of the program took the run up"},
			{"fewer-answers-than-declared", Info, 1, "fewer finished attempts at a task than the plan declares"},
			{"attempts-lost", Info, 1, "attempts at a task that ended as an error without an answer"},
			{"interrupted", Info, 1, "an interruption after which the run was taken up again"},
		},
		Run: func(e *Evidence, n *Notes) {
			switch v := e.Manifest.Voting; {
			case v.Attempts < 1 || v.Rule == "":
				n.gap("the plan does not declare how many answers are gathered and how one is chosen")
			case v.Attempts == 1 && v.Rule == ledger.VoteFirst, v.Attempts > 1 && v.Rule == ledger.VoteMajority:
			default:
				n.gap("the answer is chosen from %d by the rule %q, which this version does not know", v.Attempts, v.Rule)
			}
			if free := e.Manifest.Retry.FreeReattempts; free < 1 || free > ledger.FreeReattempts {
				got := fmt.Sprintf("%d attempts at a task in place of lost ones", free)
				if free < 1 {
					got = "no limit of attempts at a task in place of lost ones"
				}
				n.find("reattempts-planned", place{given: true}, got, fmt.Sprintf("at most %d", ledger.FreeReattempts))
			}
			for _, r := range e.Resumed {
				got := fmt.Sprintf("the run was interrupted after %d events and taken up again", r.Event.Events)
				if r.Event.Torn != nil {
					got += fmt.Sprintf("; an unfinished last line of %d bytes was cut", r.Event.Torn.Bytes)
				}
				n.find("interrupted", place{seq: r.Seq}, got, "for the record")
				if r.Event.Harness != e.Manifest.Harness {
					n.find("resumed-by-another-version", place{seq: r.Seq, given: true},
						fmt.Sprintf("version %q took up the run", r.Event.Harness.Version), fmt.Sprintf("version %q, built as in the plan", e.Manifest.Harness.Version))
				}
			}
			firstJudged := int64(-1)
			for _, t := range e.Tasks {
				if a := t.firstGraded(); a != nil && (firstJudged < 0 || a.Judged < firstJudged) {
					firstJudged = a.Judged
				}
			}
			for _, t := range e.Tasks {
				declared(e, n, t)
				lost(n, t)
				ungraded(e, n, t, firstJudged)
			}
			failedTries(e, n)
			lostReplies(e, n)
		},
	}
}

// declared holds the answers of a task against how many the plan declares.
// Fewer attempts can be had where failures or a budget end them.
func declared(e *Evidence, n *Notes, t *TaskEvidence) {
	answers, settled, most := 0, 0, max(e.Manifest.Voting.Attempts, 1)
	for _, a := range t.Attempts {
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			settled++
		}
		if a.Answer == nil {
			continue
		}
		if answers++; answers == most+1 {
			n.find("more-answers-than-declared", place{task: t, attempt: a.Number, seq: a.Committed}, fmt.Sprintf("answer %d of the task", answers), fmt.Sprintf("at most %d", most))
		}
	}
	if most > 1 && settled < most && len(t.Attempts) > 0 {
		n.find("fewer-answers-than-declared", place{task: t}, fmt.Sprintf("%d attempts that came to an end", settled), fmt.Sprintf("the %d that the plan declares", most))
	}
}

// lost lists a task's attempts that came to nothing: whoever throws attempts away
// until one is right leaves them.
func lost(n *Notes, t *TaskEvidence) {
	at, count := place{task: t}, 0
	for _, a := range t.Attempts {
		if a.Ended == nil || a.Ended.Outcome != trajectory.Errored || a.Answer != nil {
			continue
		}
		if count++; count == 1 {
			at.attempt, at.seq = a.Number, a.EndedAt
		}
	}
	if count > 0 {
		n.find("attempts-lost", at, fmt.Sprintf("%d of %d attempts ended as an error without an answer", count, len(t.Attempts)), "for the record")
	}
}

// ungraded looks for attempts and answers that came after a verdict: on the task,
// or on the first of all in a run that is to be submitted.
func ungraded(e *Evidence, n *Notes, t *TaskEvidence, firstJudged int64) {
	graded := t.firstGraded()
	for _, a := range t.Attempts {
		at := place{task: t, attempt: a.Number, seq: a.Begun}
		if graded != nil && graded.Judged < a.Begun {
			n.find("judgment-before-attempt", at, fmt.Sprintf("attempt %d began after attempt %d was graded", a.Number, graded.Number), "all attempts before the first grade")
		}
		if e.Manifest.SubmitIntent && firstJudged >= 0 && firstJudged < a.Begun {
			n.find("attempt-after-grading", at, "an attempt began after grading had begun", "all answers committed before the first is graded")
		} else if e.Manifest.SubmitIntent && firstJudged >= 0 && firstJudged < a.Committed {
			at.seq = a.Committed
			n.find("answer-after-grading", at, "an answer was committed after grading had begun", "all answers committed before the first is graded")
		}
	}
}

// firstGraded returns the attempt that was graded first, nil if none was.
func (t *TaskEvidence) firstGraded() *AttemptEvidence {
	var first *AttemptEvidence
	for _, a := range t.Attempts {
		if a.Judged >= 0 && (first == nil || a.Judged < first.Judged) {
			first = a
		}
	}
	return first
}
