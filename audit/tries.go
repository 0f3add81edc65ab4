package audit

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gaia-harness/gaia/trajectory"
)

// timeLimited is how long, in milliseconds, a try has taken at least that a time
// limit of the client or of a gateway ended.
const timeLimited = 10_000

// tried counts a try of a model call. A rate limit, a refusal for length and an
// endpoint that nobody listens at tell nothing about the reply.
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

// silent reports whether a reply calls no tool: the answer of its attempt, or one
// that is asked for again.
func (m ModelFact) silent() bool { return !m.Called && m.Calls == 0 && !m.Empty }

// reply is a model call of the run that got its reply.
type reply struct {
	kind   replyKind
	failed bool // a try before it
	slow   bool // a try before it, at least as a time limit
	at     place
}

type replyKind int

const (
	callsTool replyKind = iota
	answersSolved
	answersUnsolved
)

// replies returns the model calls of the run that got their reply, in the order of
// the journal.
func (e *Evidence) replies() (all []reply) {
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		for _, m := range a.Models {
			r := reply{failed: m.Failed > 0, slow: m.Failed+m.TimedOut > 0, at: place{task: t, attempt: a.Number, seq: m.Seq}}
			switch {
			case m.Empty:
				continue
			case m.silent() && t.credited():
				r.kind = answersSolved
			case m.silent():
				r.kind = answersUnsolved
			}
			all = append(all, r)
		}
	})
	slices.SortFunc(all, func(a, b reply) int { return cmp.Compare(a.at.seq, b.at.seq) })
	return all
}

// tally counts replies, and those after failed tries.
type tally struct{ all, failed int }

// half reports whether at least half of the share of another count failed.
func (t tally) half(other tally) bool { return 2*t.failed*other.all >= other.failed*t.all }

// failedTries looks for an endpoint that fails where the answer is wrong: tries of
// calls that give the answers of solved tasks failed, and those of other calls did
// not. Time limits meet long answers more often than short calls of tools, so they
// are left out of what is HIGH; and an endpoint that fails for answers of unsolved
// tasks just as often does not choose.
func failedTries(e *Evidence, n *Notes) {
	all := e.replies()
	var counts [3]tally
	tasks, solved := map[*TaskEvidence]bool{}, map[*TaskEvidence]bool{}
	var first place
	for _, r := range all {
		counts[r.kind].all++
		if r.failed {
			counts[r.kind].failed++
		}
		if r.kind != answersSolved {
			continue
		}
		solved[r.at.task] = true
		if r.slow {
			if len(tasks) == 0 {
				first = place{seq: r.at.seq}
			}
			tasks[r.at.task] = true
		}
	}
	won, lost := counts[answersSolved], counts[answersUnsolved]
	refused := 5*lost.failed > 4*lost.all // nearly every wrong answer was asked for again
	even := lost.all >= 5 && lost.half(won) && !refused
	chosen := !even && unlikely(all, answersSolved, func(k replyKind) bool { return k == callsTool || k == answersUnsolved && !refused })
	everyWrong := lost.all >= 10 && lost.failed == lost.all && unlikely(all, answersUnsolved, func(k replyKind) bool { return k == answersSolved })
	got := fmt.Sprintf("the model calls that answered %d of %d solved tasks had failed tries", len(tasks), len(solved))
	switch want := "tries that fail for any call alike"; {
	case chosen:
		n.find("selective-retries", first, fmt.Sprintf("%s, and %d of the %d other calls of the run", got, counts[callsTool].failed+lost.failed, counts[callsTool].all+lost.all), want)
	case everyWrong && won.failed > 0:
		n.find("selective-retries", first, fmt.Sprintf("%s, and each of the %d that answered others wrongly", got, lost.all), want)
	case len(tasks) >= 3 && 5*len(tasks) >= len(solved):
		n.find("frequent-retries", first, got, want)
	}
}

// unlikely reports whether replies of a kind came after failed tries so much more
// often than others that chance gives it less than once in 1000 times: by Fisher's
// exact test, on one side. Replies after failed tries that follow upon each other,
// with none that got through at once between them, are one outage: of each side it
// counts once.
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

// exceeds reports whether the probability is below 1/1000 that as many of the
// failures, or more, are of the first count if they meet both alike. Floating point
// of a fixed precision in software gives the same on every computer; the terms of
// the hypergeometric distribution follow from each other.
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

// lostReplies looks for attempts that an interruption or a stop of the run ended
// after a reply that calls no tool: whoever stops a run at every wrong answer is
// scored by patience. One that was lost before such a reply gives nothing.
func lostReplies(e *Evidence, n *Notes) {
	lost, first := 0, place{}
	for _, t := range e.Tasks {
		attempts, at := 0, place{task: t}
		for _, a := range t.Attempts {
			if !a.lost() {
				continue
			}
			if attempts++; attempts == 1 {
				at.attempt, at.seq = a.Number, a.EndedAt
			}
		}
		if attempts == 0 {
			continue
		}
		if lost++; lost == 1 {
			first.seq = at.seq
		}
		n.find("answer-lost", at, fmt.Sprintf("%d of %d attempts were lost after a reply that calls no tool", attempts, len(t.Attempts)), "the answer that the model gave first")
	}
	if lost >= 5 && 20*lost >= len(e.Tasks) {
		n.find("answers-lost-repeatedly", first, fmt.Sprintf("at %d of %d tasks attempts were lost after a reply that calls no tool", lost, len(e.Tasks)), "fewer than 5 tasks, or than 5 %")
	}
}

// lost reports what ledger.Attempt.Lost does.
func (a *AttemptEvidence) lost() bool {
	return a.Ended != nil && a.Ended.Lost() && slices.ContainsFunc(a.Models, ModelFact.silent)
}
