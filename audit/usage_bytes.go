package audit

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// mostBytesOfToken is how much text a token stands for at most, over a whole
	// message: far more than in any language or code.
	mostBytesOfToken = 20
	// fewestBytes is how long a message is, at least, whose tokens are looked at.
	fewestBytes = 2000
	// dearest bounds the price of a token, in micro-USD.
	dearest = 2000
	// mostPrices bounds how many different counts of tokens are compared.
	mostPrices = 500
)

// tokensTooFew looks for counts of tokens that are too small for the bytes of what
// was sent or received. There can be more: of tools, pictures and reasoning.
func tokensTooFew(e *Evidence, n *Notes) {
	replies, few := 0, 0
	var first place
	var got string
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		for _, m := range a.Models {
			if !m.UsageReported {
				continue
			}
			replies++
			in := m.Asked >= fewestBytes && (m.In+m.Cached)*mostBytesOfToken < m.Asked
			if !in && (m.Bytes < fewestBytes || m.Out*mostBytesOfToken >= m.Bytes) {
				continue
			}
			if few++; few > 1 {
				continue
			}
			first, got = place{task: t, attempt: a.Number, seq: m.Seq}, fmt.Sprintf("%d tokens for the %d bytes of a reply", m.Out, m.Bytes)
			if in {
				got = fmt.Sprintf("%d tokens for the %d bytes of a request", m.In, m.Asked)
			}
		}
	})
	if few > 0 {
		n.find("token-count-too-low", first, fmt.Sprintf("%s; so %d of %d replies", got, few, replies), fmt.Sprintf("at least one token for %d bytes", mostBytesOfToken))
	}
}

// priced is a reply by what it is paid for.
type priced struct {
	fresh, cached, out, cost int64
	at                       place
}

// costsDiffer looks for costs that no table of prices gives: a reply that cost less
// than one with no more tokens of any kind, or more than any price makes it. Prices
// are the plan's; only an endpoint that says itself what a reply costs can ask for
// more at one time than at another.
func costsDiffer(e *Evidence, n *Notes) {
	var all []priced
	seen := map[[4]int64]bool{}
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		for _, m := range a.Models {
			if m.CostMicroUSD == nil || !m.UsageReported || m.Cached > m.In {
				continue
			}
			p := priced{m.In - m.Cached, m.Cached, m.Out, *m.CostMicroUSD, place{task: t, attempt: a.Number, seq: m.Seq}}
			key := [4]int64{p.fresh, p.cached, p.out, p.cost}
			if !seen[key] && len(all) < mostPrices {
				seen[key] = true
				all = append(all, p)
			}
		}
	})
	slices.SortStableFunc(all, func(a, b priced) int { return cmp.Compare(a.at.seq, b.at.seq) })
	for i, p := range all {
		if tokens := p.fresh + p.cached + p.out; p.cost > 1 && (p.cost-1)/dearest > tokens {
			n.find("cost-inconsistent", p.at, fmt.Sprintf("%d micro-USD for %d tokens", p.cost, tokens), "a cost that prices of tokens give")
			return
		}
		for _, q := range all[:i] {
			if q.under(p) || p.under(q) {
				n.find("cost-inconsistent", p.at, fmt.Sprintf("a reply of %d tokens cost %d micro-USD, and one of %d tokens %d", p.tokens(), p.cost, q.tokens(), q.cost), "costs by one table of prices")
				return
			}
		}
	}
}

func (p priced) tokens() int64 { return p.fresh + p.cached + p.out }

// under reports whether p has no more tokens of any kind than q and cost more, but
// for what rounding makes.
func (p priced) under(q priced) bool {
	return p.fresh <= q.fresh && p.cached <= q.cached && p.out <= q.out && p.cost > q.cost+1
}
