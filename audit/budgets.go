package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// open returns the turn that was begun last.
func (a *attemptEvidence) open() *turnFact {
	if len(a.Turns) == 0 {
		return &turnFact{}
	}
	return &a.Turns[len(a.Turns)-1]
}

// spend adds up what is known of the run's costs, its judge's included.
func (g *gatherer) spend(ev trajectory.Event) {
	_, cost, requests := trajectory.Usage(ev.Payload)
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
	cost   int64 // as far as it is known, in micro-USD
}

// use counts what an event says of a model that was asked.
func (s *spending) use(tokens trajectory.Tokens, microUSD *int64) {
	s.tokens += tokens.In + tokens.Out
	if microUSD != nil {
		s.cost += *microUSD
	}
}

// spend is what one reply of a model, or one result that a model made, took.
type spend struct {
	seq     int64
	tokens  int64
	cost    int64 // 0 where it is not known
	decided int64 // when the call was that asked a tool's model; -1: it is a reply of the agent's
}

// spends returns what the journal says that the attempt took, in its order.
func (a *attemptEvidence) spends() (all []spend) {
	add := func(seq, tokens int64, cost *int64, decided int64) {
		s := spend{seq: seq, tokens: tokens, decided: decided}
		if cost != nil {
			s.cost = *cost
		}
		all = append(all, s)
	}
	for _, m := range a.Models {
		add(m.Seq, m.In+m.Out, m.CostMicroUSD, -1)
	}
	for _, c := range a.Calls {
		if c.Result != nil && c.Result.Model != nil {
			m := c.Result.Model
			add(c.Result.Seq, m.Tokens.In+m.Tokens.Out, m.CostMicroUSD, max(c.Decided, 0))
		}
	}
	slices.SortFunc(all, func(a, b spend) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// checkBudgets holds a task against the budgets of the plan, of which 0 is none. They are of an attempt that ends
// with an answer or without one, with those that failed since the last such one. No call is allowed once one is
// used up, and one more turn is for the answer alone.
func checkBudgets(e *evidence, n *notes, t *taskEvidence) {
	b := e.Manifest.Budgets
	var used spending
	for _, a := range t.Attempts {
		n.findIf(b.Turns > 0 && len(a.Turns) > b.Turns, "budget-exceeded", t.at(a, a.Begun), fmt.Sprintf("%d turns", len(a.Turns)), fmt.Sprintf("at most %d", b.Turns))
		spends := a.spends()
		checkAllowed(e, n, t, a, used, spends)
		found := func(turn *turnFact, rule, got string, want ...string) {
			if turn != nil {
				n.find(rule, t.at(a, turn.Seq), got, want...)
			}
		}
		found(a.late(b.Tokens, used.tokens, spends, func(s spend) int64 { return s.tokens }),
			"budget-exceeded", fmt.Sprintf("a turn that was begun after the %d tokens were used up", b.Tokens))
		found(a.late(b.CostMicroUSD, used.cost, spends, func(s spend) int64 { return s.cost }),
			"budget-exceeded", fmt.Sprintf("a turn that was begun after the %d micro-USD were spent", b.CostMicroUSD))
		// Time and the money of the run are spent while the attempt is doing something else. When it knew of that,
		// the journal cannot show to the turn.
		if turn := a.beyond(1, func(turn turnFact) bool { return b.WallMs > 0 && turn.Us/1000 > b.WallMs }); turn != nil {
			found(turn, "time-exceeded", fmt.Sprintf("a turn that was begun %d ms after its attempt", turn.Us/1000), fmt.Sprintf("none but one for the answer after %d ms", b.WallMs))
		}
		unaware := 0
		if a.Begun < e.RunSpent {
			unaware = 1
		}
		found(a.beyond(unaware, func(turn turnFact) bool { return e.RunSpent > 0 && turn.Seq > e.RunSpent }),
			"run-budget-exceeded", fmt.Sprintf("a turn that was begun after the %d micro-USD of the run were spent", b.RunCostMicroUSD))
		used.calls += len(a.Calls)
		for _, s := range spends {
			used.tokens += s.tokens
			if !a.Unpriced { // else no sum can be carried on
				used.cost += s.cost
			}
		}
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			used = spending{}
		}
	}
}

// checkAllowed holds each call that was allowed against what had been used before its decision; used is of earlier
// attempts. Calls of a turn count in the order of the reply, so those of earlier turns all come before. Of two
// calls that ask models the second is decided when it is known what the first took: that counts, also where the
// journal has it later.
func checkAllowed(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence, used spending, spends []spend) {
	b := e.Manifest.Budgets
	decided := slices.DeleteFunc(slices.Clone(a.Calls), func(c *callFact) bool {
		return c.Decided < 0 || c.Decision.Decision != string(policy.Allow)
	})
	slices.SortFunc(decided, func(a, b *callFact) int { return cmp.Compare(a.Decided, b.Decided) })
	inOrder := slices.Clone(spends) // by decisions
	for i, s := range inOrder {
		if s.decided >= 0 {
			inOrder[i].seq = s.decided
		}
	}
	slices.SortStableFunc(inOrder, func(a, b spend) int { return cmp.Compare(a.seq, b.seq) })
	proposed := map[int]int{} // calls, by turn
	for _, c := range a.Calls {
		proposed[c.Turn]++
	}
	take := func(sum *spending, from *[]spend, before int64) {
		for ; len(*from) > 0 && (*from)[0].seq < before; *from = (*from)[1:] {
			sum.tokens, sum.cost = sum.tokens+(*from)[0].tokens, sum.cost+(*from)[0].cost
		}
	}
	known, counted, turn, inTurn, calls := used, used, 0, 0, used.calls
	found := map[string]bool{}
	for _, c := range decided {
		for ; turn < c.Turn; turn++ {
			calls, inTurn = calls+proposed[turn], 0
		}
		take(&known, &spends, c.Decided)
		take(&counted, &inOrder, c.Decided)
		now := known
		if asksModel(c.Name) {
			now = counted
		}
		for _, over := range []struct {
			unit        string
			used, limit int64
		}{{"tool calls", int64(calls + inTurn), int64(b.ToolCalls)}, {"tokens", now.tokens, b.Tokens}, {"micro-USD", now.cost, b.CostMicroUSD}} {
			if over.limit > 0 && over.used >= over.limit && !found[over.unit] {
				found[over.unit] = true
				n.find("budget-exceeded", t.at(a, c.Decided),
					fmt.Sprintf("a call of %s that was allowed when %d %s were used", c.Name, over.used, over.unit), fmt.Sprintf("none once %d are", over.limit))
			}
		}
		inTurn++
	}
}

// late returns the first turn that cannot be the one kept for the answer, of those that were begun when more than a
// limit had been used; nil if there is none.
func (a *attemptEvidence) late(limit, used int64, spends []spend, of func(spend) int64) *turnFact {
	next := 0
	return a.beyond(0, func(turn turnFact) bool {
		for ; next < len(spends) && spends[next].seq < turn.Seq; next++ {
			used += of(spends[next])
		}
		return limit > 0 && used > limit
	})
}

// beyond returns the first turn with a request, of those after a budget was spent, that is neither one of the first
// few that may have been begun before this could be known, nor the one after them that is kept for the answer.
func (a *attemptEvidence) beyond(unaware int, spent func(turnFact) bool) *turnFact {
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
