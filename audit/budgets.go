package audit

import (
	"fmt"

	"github.com/gaia-harness/gaia/trajectory"
)

// open returns the turn that was begun last.
func (a *AttemptEvidence) open() *TurnFact {
	if len(a.Turns) == 0 {
		return &TurnFact{}
	}
	return &a.Turns[len(a.Turns)-1]
}

// spend adds up what is known of the run's costs, its judge's included.
func (g *gatherer) spend(ev trajectory.Event) {
	cost, requests := trajectory.Cost(ev.Payload)
	if requests == 0 || cost == nil {
		return
	}
	g.e.spent += *cost
	if limit := g.e.Manifest.Budgets.RunCostMicroUSD; limit > 0 && g.e.spent > limit && g.e.RunSpent == 0 {
		g.e.RunSpent = ev.Seq
	}
}

// spending is what attempts have used of budgets.
type spending struct {
	calls  int
	tokens int64
	cost   int64 // as far as all of an attempt's is known
}

// budgets holds a task against the budgets of the plan, of which 0 is none. They
// are of an attempt that comes to an answer or to none, with those that failed
// since the last such one. What is under way when a budget is passed may go on,
// and one more turn is for the answer alone.
func budgets(e *Evidence, n *Notes, t *TaskEvidence) {
	b := e.Manifest.Budgets
	var used spending
	for _, a := range t.Attempts {
		before := used
		at := place{task: t, attempt: a.Number, seq: a.Begun}
		if b.Turns > 0 && len(a.Turns) > b.Turns {
			n.find("budget-exceeded", at, fmt.Sprintf("%d turns", len(a.Turns)), fmt.Sprintf("at most %d", b.Turns))
		}
		for _, c := range a.Calls {
			if c.Result == nil {
				continue
			}
			if used.calls++; b.ToolCalls > 0 && used.calls == b.ToolCalls+1 {
				at.seq = c.Result.Seq
				n.find("budget-exceeded", at, fmt.Sprintf("tool call %d of an attempt and those that failed before it", used.calls), fmt.Sprintf("at most %d", b.ToolCalls))
			}
		}
		tokens := func(m ModelFact) int64 { return m.In + m.Out }
		cost := func(m ModelFact) int64 {
			if m.CostMicroUSD == nil {
				return 0
			}
			return *m.CostMicroUSD
		}
		const want = "one more turn, for the answer alone"
		if turn := a.late(b.Tokens, before.tokens, tokens); turn != nil {
			at.seq = turn.Seq
			n.find("budget-exceeded", at, fmt.Sprintf("a turn that was begun after the %d tokens were used up", b.Tokens), want)
		}
		if turn := a.late(b.CostMicroUSD, before.cost, cost); turn != nil {
			at.seq = turn.Seq
			n.find("budget-exceeded", at, fmt.Sprintf("a turn that was begun after the %d micro-USD were spent", b.CostMicroUSD), want)
		}
		timed(e, n, t, a)
		for _, m := range a.Models {
			used.tokens += tokens(m)
			if !a.Unpriced { // else nobody can carry a sum on
				used.cost += cost(m)
			}
		}
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			used = spending{}
		}
	}
}

// late returns the first turn that cannot be the one kept for the answer, of
// those that were begun when more than a limit had been used; nil if there is
// none.
func (a *AttemptEvidence) late(limit, used int64, of func(ModelFact) int64) *TurnFact {
	next := 0
	return a.beyond(0, func(turn TurnFact) bool {
		for ; next < len(a.Models) && a.Models[next].Seq < turn.Seq; next++ {
			used += of(a.Models[next])
		}
		return limit > 0 && used > limit
	})
}

// beyond returns the first turn with a request, of those after a budget was
// spent, that is neither one of the first few that may have been begun before
// this could be known, nor the one after them that is kept for the answer.
func (a *AttemptEvidence) beyond(unaware int, spent func(TurnFact) bool) *TurnFact {
	over := 0
	for i, turn := range a.Turns {
		if !spent(turn) || !turn.Asked {
			continue
		}
		if over > unaware || over == unaware && !turn.Last {
			return &a.Turns[i]
		}
		over++
	}
	return nil
}

// timed holds an attempt against the budgets that are spent while it is doing
// something else: time, and the money of the run. When it knew of that, the
// journal cannot show to the turn.
func timed(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	b := e.Manifest.Budgets
	at := place{task: t, attempt: a.Number}
	if turn := a.beyond(1, func(turn TurnFact) bool { return b.WallMs > 0 && turn.Us/1000 > b.WallMs }); turn != nil {
		at.seq = turn.Seq
		n.find("time-exceeded", at, fmt.Sprintf("a turn that was begun %d ms after its attempt", turn.Us/1000), fmt.Sprintf("none but one for the answer after %d ms", b.WallMs))
	}
	unaware := 0
	if a.Begun < e.RunSpent {
		unaware = 1
	}
	if turn := a.beyond(unaware, func(turn TurnFact) bool { return e.RunSpent > 0 && turn.Seq > e.RunSpent }); turn != nil {
		at.seq = turn.Seq
		n.find("run-budget-exceeded", at, fmt.Sprintf("a turn that was begun after the %d micro-USD of the run were spent", b.RunCostMicroUSD), "none but one for the answer")
	}
}
