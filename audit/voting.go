package audit

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

var votingDisclosure = Check{
	ID: "AUD-6", Name: "voting-disclosure", Severity: Critical, Gate: true,
	Title: "no attempt began after a verdict on its task",
	Why:   "whoever sees a grade and may try again is scored by patience; best of many is not one attempt; what the journal of a shard had in it that someone dropped is not visible",
	Fix:   "declare voting in the plan and grade once all answers are committed",
	Skips: "the plan does not declare how many answers are gathered and how one is chosen, or declares a rule that this version does not know",
	Rules: []Rule{
		{"judgment-before-attempt", Critical, 1, "an attempt that began after another one at its task was graded", "all attempts before the first grade"},
		{"attempt-after-grading", Critical, 1, "in a run that is to be submitted, an attempt that began after the first verdict", "all answers committed before the first is graded"},
		{"answer-after-grading", Critical, 1, "in a run that is to be submitted, an answer that was committed after the first verdict", "all answers committed before the first is graded"},
		{"more-answers-than-declared", High, 1, "more committed answers of a task than the plan declares", ""},
		{"shards-lost", High, 1, "shards whose journals are gone, of more than 1 in 20 tasks", ""},
		{"selective-retries", High, 1, "failed tries of the model calls that answer solved tasks, more often than of the other calls of the run with p < 0.001, or of all calls that answer wrongly; rate limits, refused connections and time limits do not count", "tries that fail for any call alike"},
		{"answers-lost-repeatedly", High, 1, "attempts that an interruption or a stop of the run ended after a reply that calls no tool, at 5 tasks and 5 % of the run or more; of an own agent, which has such replies all the time, by 3 interruptions or more", "fewer than 5 tasks, or than 5 %"},
		{"frequent-retries", ToReview, 1, "failed tries of the model calls that answer a fifth of the solved tasks or more, and at least three", "tries that fail for any call alike"},
		{"answer-lost", ToReview, 1, "an attempt that an interruption or a stop of the run ended after a reply that calls no tool, of an own agent after any reply", "the answer that the model gave first"},
		{"reattempts-planned", ToReview, 1, fmt.Sprintf("a plan that makes more than %d attempts at a task in place of lost ones, or has no limit", plan.FreeReattempts), ""},
		{"resumed-by-another-version", ToReview, 1, "an interruption after which another version of the program took the run up", ""},
		{"shard-lost", ToReview, 1, "a shard whose journal is gone: its tasks count as wrong, and what they came to is not known", "the journal of each shard"},
		{"merged-by-another-version", ToReview, 1, "a merged run that another version of the program merged and graded", ""},
		{"fewer-answers-than-declared", Info, 1, "fewer finished attempts at a task than the plan declares", ""},
		{"attempts-lost", Info, 1, "attempts at a task that ended as an error without an answer", "for the record"},
		{"interrupted", Info, 1, "an interruption after which the run was taken up again", "for the record"},
		{"attempts-superseded", Info, 1, "attempts in journals of shards that do not count for their tasks", "for the record"},
		{"tasks-made-again", Info, 1, "tasks that a worker finished, did not claim in time, and left to be made again", "for the record"},
	},
	run: func(e *evidence, n *notes) {
		switch v := e.Manifest.Voting; {
		case v.Attempts < 1 || v.Rule == "":
			n.gap("the plan does not declare how many answers are gathered and how one is chosen")
		case v.Attempts == 1 && v.Rule == plan.VoteFirst, v.Attempts > 1 && v.Rule == plan.VoteMajority:
		default:
			n.gap("the answer is chosen from %d by the rule %q, which this version does not know", v.Attempts, v.Rule)
		}
		if free := e.Manifest.Retry.FreeReattempts; free < 1 || free > plan.FreeReattempts {
			got := fmt.Sprintf("%d attempts at a task in place of lost ones", free)
			if free < 1 {
				got = "no limit of attempts at a task in place of lost ones"
			}
			n.find("reattempts-planned", place{given: true}, got, fmt.Sprintf("at most %d", plan.FreeReattempts))
		}
		for _, r := range e.Resumed {
			got := fmt.Sprintf("%s was interrupted after %d events and taken up again", e.journal(r.Seq).name(), r.Event.Events)
			if r.Event.Torn != nil {
				got += fmt.Sprintf("; an unfinished last line of %d bytes was cut", r.Event.Torn.Bytes)
			}
			n.find("interrupted", place{seq: r.Seq}, got)
			if e.otherBuild(r.Seq, r.Event.Harness) {
				n.find("resumed-by-another-version", place{seq: r.Seq, given: true},
					fmt.Sprintf("version %q took up the run", r.Event.Harness.Version), fmt.Sprintf("version %q, built as in the plan", e.Manifest.Harness.Version))
			}
		}
		checkShards(e, n)
		tried, failedTries := failedTries(e, n)
		answers := n.aside()
		lost, first, by := 0, place{}, map[int]bool{} // the last: interruptions
		e.eachTask(func(t *taskEvidence) {
			tried(t)
			checkDeclared(e, n, t)
			graded := t.firstGraded()
			for _, a := range t.Attempts {
				at := t.at(a, a.Begun)
				if graded != nil && graded.Judged < a.Begun {
					n.find("judgment-before-attempt", at, fmt.Sprintf("attempt %d began after attempt %d was graded", a.Number, graded.Number))
				}
				if e.Manifest.SubmitIntent && e.FirstJudged > 0 && e.FirstJudged < a.Begun {
					n.find("attempt-after-grading", at, "an attempt began after grading had begun")
				} else if e.Manifest.SubmitIntent && e.FirstJudged > 0 && e.FirstJudged < a.Committed {
					at.seq = a.Committed
					n.find("answer-after-grading", at, "an answer was committed after grading had begun")
				}
			}
			// Whoever stops a run at every wrong answer is scored by patience. An attempt that was lost before a reply that calls no tool gives nothing.
			attempts, at := 0, place{task: t}
			for _, a := range t.Attempts {
				if !a.lost() {
					continue
				}
				before, _ := slices.BinarySearchFunc(e.Resumed, a.Begun, func(r fact[trajectory.RunResumed], seq int64) int { return cmp.Compare(r.Seq, seq) })
				by[before] = true
				if attempts++; attempts == 1 {
					at.attempt, at.seq = a.Number, a.EndedAt
				}
			}
			if attempts == 0 {
				return
			}
			if lost++; lost == 1 {
				first.seq = at.seq
			}
			answers.find("answer-lost", at, fmt.Sprintf("%d of %d attempts were lost after a reply that may have had the answer", attempts, len(t.Attempts)))
		})
		failedTries()
		n.join(answers)
		again := e.Manifest.Agent == nil || len(by) >= 3 // one crash can meet as many attempts of an own agent as run at once
		n.findIf(again && lost >= 5 && 20*lost >= len(e.Tasks), "answers-lost-repeatedly", first, fmt.Sprintf("at %d of %d tasks attempts were lost after a reply that may have had the answer", lost, len(e.Tasks)))
	},
}

// checkDeclared compares the answers of a task with how many the plan declares. Fewer attempts can be had where
// failures or a budget end them. Attempts without an answer are listed: an operator who throws attempts away until
// one is right leaves them.
func checkDeclared(e *evidence, n *notes, t *taskEvidence) {
	answers, settled, failed, most := 0, 0, 0, max(e.Manifest.Voting.Attempts, 1)
	lost := place{task: t}
	for _, a := range t.Attempts {
		errored := a.Ended != nil && a.Ended.Outcome == trajectory.Errored
		if a.Ended != nil && !errored {
			settled++
		}
		if errored && a.Answer == nil {
			if failed++; failed == 1 {
				lost.attempt, lost.seq = a.Number, a.EndedAt
			}
		}
		if a.Answer == nil {
			continue
		}
		if answers++; answers == most+1 {
			n.find("more-answers-than-declared", t.at(a, a.Committed), fmt.Sprintf("answer %d of the task", answers), fmt.Sprintf("at most %d", most))
		}
	}
	if most > 1 && settled < most && len(t.Attempts) > 0 {
		n.find("fewer-answers-than-declared", place{task: t}, fmt.Sprintf("%d attempts that came to an end", settled), fmt.Sprintf("the %d that the plan declares", most))
	}
	if failed > 0 {
		n.find("attempts-lost", lost, fmt.Sprintf("%d of %d attempts ended as an error without an answer", failed, len(t.Attempts)))
	}
}

// firstGraded returns the attempt that was graded first, nil if none was.
func (t *taskEvidence) firstGraded() (first *attemptEvidence) {
	for _, a := range t.Attempts {
		if a.Judged >= 0 && (first == nil || a.Judged < first.Judged) {
			first = a
		}
	}
	return first
}

// timeLimited is how long, in milliseconds, a try has taken at least that a time limit of the client or of a
// gateway ended.
const timeLimited = 10_000

// tried counts a try of a model call. A rate limit, a refusal for length and an endpoint that refuses connections
// say nothing about the reply.
func (t *turn) tried(p trajectory.ModelCallCompleted) {
	e := p.Error
	switch {
	case e == nil:
		t.failed, t.timedOut = 0, 0
	case e.Status == 429 || e.Code == trajectory.Unreachable || e.Code == trajectory.RefusedForLength || e.Code == "cancelled":
	case slices.Contains([]int{0, 408, 504, 522, 524}, e.Status) && p.LatencyMs >= timeLimited:
		t.timedOut++
	default:
		t.failed++
	}
}

// silent reports whether a reply calls no tool: the answer of its attempt, or one that is asked for again.
func (m modelFact) silent() bool { return !m.Called && m.Calls == 0 && !m.Empty }

// reply is a model call of the run that got its reply.
type reply struct {
	kind   replyKind
	failed bool // a try before it
	seq    int64
}

type replyKind uint8

const (
	callsTool replyKind = iota
	answersSolved
	answersUnsolved
)

// tally counts replies, and those after failed tries.
type tally struct{ all, failed int }

// failedTries looks for an endpoint that fails where the answer is wrong: tries of calls that give the answers of
// solved tasks failed, and those of other calls did not. Time limits meet long answers more often than short calls
// of tools, so they are left out of what is HIGH; and an endpoint that fails for answers of unsolved tasks just as
// often does not choose. Each takes a task, and found is for when all were taken.
func failedTries(e *evidence, n *notes) (each func(*taskEvidence), found func()) {
	all := make([]reply, 0, len(e.Tasks)) // in the order of the journal
	var counts [3]tally
	var first place
	tasks, solved := 0, 0 // those of solved tasks whose answers came after slow tries, and all that were answered
	each = func(t *taskEvidence) {
		answered, slow := false, false
		for _, a := range t.Attempts {
			for _, m := range a.Models {
				if m.Empty {
					continue
				}
				r := reply{failed: m.Failed > 0, seq: m.Seq}
				if m.silent() && t.credited() {
					r.kind, answered = answersSolved, true
					if m.Failed+m.TimedOut > 0 && (tasks == 0 && !slow || m.Seq < first.seq) {
						first = place{seq: m.Seq}
					}
					slow = slow || m.Failed+m.TimedOut > 0
				} else if m.silent() {
					r.kind = answersUnsolved
				}
				if counts[r.kind].all++; r.failed {
					counts[r.kind].failed++
				}
				all = append(all, r)
			}
		}
		if answered {
			solved++
		}
		if slow {
			tasks++
		}
	}
	return each, func() {
		slices.SortFunc(all, func(a, b reply) int { return cmp.Compare(a.seq, b.seq) })
		won, lost := counts[answersSolved], counts[answersUnsolved]
		refused := 5*lost.failed > 4*lost.all // nearly every wrong answer was asked for again
		even := lost.all >= 5 && 2*lost.failed*won.all >= won.failed*lost.all && !refused
		chosen := !even && unlikely(all, answersSolved, func(k replyKind) bool { return k == callsTool || k == answersUnsolved && !refused })
		everyWrong := lost.all >= 10 && lost.failed == lost.all && unlikely(all, answersUnsolved, func(k replyKind) bool { return k == answersSolved })
		got := fmt.Sprintf("the model calls that answered %d of %d solved tasks had failed tries", tasks, solved)
		switch {
		case chosen:
			n.find("selective-retries", first, fmt.Sprintf("%s, and %d of the %d other calls of the run", got, counts[callsTool].failed+lost.failed, counts[callsTool].all+lost.all))
		case everyWrong && won.failed > 0:
			n.find("selective-retries", first, fmt.Sprintf("%s, and each of the %d that answered others wrongly", got, lost.all))
		case tasks >= 3 && 5*tasks >= solved:
			n.find("frequent-retries", first, got)
		}
	}
}

// unlikely reports whether replies of a kind came after failed tries so much more often than others that chance
// gives it less than once in 1000 times: by Fisher's exact test, on one side. Replies after failed tries that
// follow upon each other, with none that got through at once between them, are one outage: of each side it counts
// once.
func unlikely(all []reply, kind replyKind, other func(replyKind) bool) bool {
	var of, rest tally
	seen := map[*tally]bool{} // in the outage under way
	for _, r := range all {
		count := &of
		switch {
		case r.kind == kind:
		case other(r.kind):
			count = &rest
		default:
			continue
		}
		if !r.failed {
			clear(seen)
			count.all++
		} else if !seen[count] {
			seen[count] = true
			count.all, count.failed = count.all+1, count.failed+1
		}
	}
	return exceeds(of, rest)
}

// exceeds reports whether the probability is below 1/1000 that as many of the failures, or more, are of the first
// count if they meet both alike. Floating point of a fixed precision in software gives the same on every computer;
// the terms of the hypergeometric distribution follow from each other.
func exceeds(of, rest tally) bool {
	failed := int64(of.failed + rest.failed)
	fewest, most := max(0, failed-int64(rest.all)), min(failed, int64(of.all))
	number := func(n int64) *big.Float { return new(big.Float).SetPrec(128).SetInt64(n) }
	term, sum, tail := number(1), number(0), number(0)
	for k := fewest; k <= most; k++ {
		sum.Add(sum, term)
		if k >= int64(of.failed) {
			tail.Add(tail, term)
		}
		term.Mul(term, number((failed-k)*(int64(of.all)-k)))
		term.Quo(term, number((k+1)*(int64(rest.all)-failed+k+1)))
	}
	return tail.Mul(tail, number(1000)).Cmp(sum) < 0
}

// lost reports what rundir.Attempt.Lost does.
func (a *attemptEvidence) lost() bool {
	answers := func(m modelFact) bool { return m.silent() || a.Sent > 0 && !m.Empty }
	return a.Ended != nil && a.Ended.Lost() && slices.ContainsFunc(a.Models, answers)
}

// checkRetries looks for attempts that were made again without a reason: whoever may throw an answer away is scored
// by patience.
func checkRetries(e *evidence, n *notes, t *taskEvidence) {
	lost, settled, free := 0, 0, 0
	for i, a := range t.Attempts {
		at := t.at(a, a.Begun)
		if lost >= max(e.Manifest.Retry.AttemptsPerTask, 1) || settled >= max(e.Manifest.Voting.Attempts, 1) {
			n.find("attempts-beyond-plan", at, fmt.Sprintf("attempt %d after %d that failed and %d that did not", a.Number, lost, settled))
		}
		if most := e.Manifest.Retry.FreeReattempts; most > 0 && free > most {
			n.find("attempts-beyond-plan", at, fmt.Sprintf("attempt %d after %d that were lost after a reply that may have had the answer", a.Number, free), fmt.Sprintf("at most %d such attempts made again", most))
		}
		for j, m := range a.Models { // a reply that calls no tool and gives an answer is the last of its attempt, and is committed
			if !m.Whole || !m.Answers || m.Calls > 0 || e.Manifest.Agent != nil { // an own agent can have several models reason
				continue
			}
			at := t.at(a, m.Seq)
			if j < len(a.Models)-1 {
				n.find("discarded-answer", at, "the model gave an answer and was asked again in the same attempt")
			} else if a.Ended != nil && a.Ended.Outcome == trajectory.Errored && a.Ended.Reason != trajectory.Interrupted { // else AUD-6 looks at it
				n.find("discarded-answer", at, "the model gave an answer that was not committed: its attempt ended as an error")
			}
		}
		if a.Ended == nil {
			continue
		}
		if a.Ended.Outcome != trajectory.Errored {
			settled++
			continue
		}
		from, to := a.EndedAt, e.end(a.EndedAt)
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
		i, _ := slices.BinarySearchFunc(e.Resumed, from+1, func(r fact[trajectory.RunResumed], seq int64) int { return cmp.Compare(r.Seq, seq) })
		resumed := i < len(e.Resumed) && e.Resumed[i].Seq < to
		n.findIf(!resumed, "attempts-beyond-plan", at, "an attempt ended as "+a.Ended.Reason+" and the run was not taken up again", "an interruption that the journal shows")
	}
}
