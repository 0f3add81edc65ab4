package ledger

import (
	"slices"

	"github.com/gaia-harness/gaia/trajectory"
)

// battery takes what came of a null battery. Its counts have to go together: who
// reads of one that was withstood is not to find a paid item in it. What settles
// it is the last word: a judge that paid is not put to it until it does not.
func (f *Fold) battery(b trajectory.JudgeBattery) (reason string) {
	plan := f.Manifest.Judge
	named := slices.Concat(b.Paid, b.Refused, b.Unreadable)
	slices.Sort(named)
	faultless := b.Problem == "" && len(b.Paid)+len(b.Unreadable) == 0
	switch {
	case plan == nil || plan.Battery == "" || b.Model != plan.Model || b.Prompt != plan.Prompt || b.SHA256 != plan.Battery:
		return "tells of another null battery, or another judge, than the plan's"
	case f.judge.Battery.settled():
		return "puts a null battery to the judge that is settled"
	case len(slices.Compact(named)) != len(b.Paid)+len(b.Refused)+len(b.Unreadable) || len(named) > b.Put:
		return "miscounts the items of its null battery"
	case b.Remembered && (!plan.Cache || b.Put != 0 || b.Tries != 0 || b.Problem != "" || b.ErrorStatus != 0 || b.LatencyMs != 0 ||
		b.CostMicroUSD == nil || *b.CostMicroUSD != 0 || b.TokensIn != 0 || b.TokensOut != 0):
		return "remembers a null battery that it has no cache for, or asks it, too"
	case !b.Remembered && (b.Tries < b.Put || b.Put == 0 && b.Problem == ""):
		return "has put more items to the judge than it asked it"
	case b.LatencyMs < 0 || b.ErrorStatus < 0 || b.Problem == "" && b.ErrorStatus != 0:
		return "took less than no time, or could not ask the judge and names no problem"
	case b.Withstood && (!faultless || !b.Remembered && 2*len(b.Refused) >= b.Put), !b.Withstood && !b.Remembered && faultless && 2*len(b.Refused) < b.Put:
		return "draws another conclusion from its null battery than there is"
	}
	if !f.count(b) {
		return "its tokens or costs cannot be added up"
	}
	s := BatterySummary{CostMicroUSD: b.CostMicroUSD, Paid: b.Paid, Problem: b.Problem, Put: b.Put, Refused: b.Refused, Remembered: b.Remembered,
		TokensIn: b.TokensIn, TokensOut: b.TokensOut, Unreadable: b.Unreadable, Withstood: b.Withstood}
	if before := f.judge.Battery; before != nil {
		s.CostMicroUSD = addCost(s.CostMicroUSD, before.CostMicroUSD)
		s.TokensIn += before.TokensIn
		s.TokensOut += before.TokensOut
	}
	f.judge.Battery = &s
	f.judge.TokensIn += b.TokensIn
	f.judge.TokensOut += b.TokensOut
	f.judge.CostMicroUSD = addCost(f.judge.CostMicroUSD, b.CostMicroUSD)
	return ""
}

// settled reports whether the battery is not put to the judge again in the run.
func (b *BatterySummary) settled() bool {
	return b != nil && (b.Withstood || b.Remembered || len(b.Paid) > 0)
}

// Battery returns how the judge stood the null battery so far, nil if it was not
// put to it, and whether that is settled for the run.
func (f *Fold) Battery() (b *BatterySummary, settled bool) {
	return f.judge.Battery, f.judge.Battery.settled()
}
