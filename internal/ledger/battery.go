package ledger

import "github.com/gaia-harness/gaia/trajectory"

// security takes a check of the judge cache, or a null battery.
func (f *Fold) security(p trajectory.SecurityEvent) (reason string) {
	if p.Bad < 0 || p.Checked < p.Bad || len(p.Entries) > p.Bad || p.Bad > maxCounted-f.badCache {
		return "miscounts the entries it tells of"
	}
	if (p.Kind == trajectory.JudgeBattery) != (p.Battery != nil) {
		return "tells of a null battery under another kind, or not of one under this"
	}
	if p.Battery == nil {
		f.badCache += p.Bad
		return ""
	}
	return f.battery(p)
}

// battery takes what came of a null battery. Its counts have to go together: who
// reads of one that was withstood is not to find a paid item in it.
func (f *Fold) battery(p trajectory.SecurityEvent) (reason string) {
	b, plan := p.Battery, f.Manifest.Judge
	switch {
	case plan == nil || plan.Battery == "" || b.Model != plan.Model || b.Prompt != plan.Prompt || b.SHA256 != plan.Battery:
		return "tells of another null battery, or another judge, than the plan's"
	case len(b.Paid) != p.Bad || len(b.Paid)+len(b.Unreadable) > p.Checked:
		return "miscounts the items of its null battery"
	case b.Remembered && (p.Checked != 0 || b.Tries != 0 || b.Problem != "" || b.CostMicroUSD == nil || *b.CostMicroUSD != 0 || b.TokensIn != 0 || b.TokensOut != 0):
		return "remembers a null battery and asks it, too"
	case !b.Remembered && b.Tries < p.Checked:
		return "has put more items to the judge than it asked it"
	case b.Withstood && (len(b.Paid) > 0 || len(b.Unreadable) > 0 || b.Problem != "" || !b.Remembered && p.Checked == 0):
		return "withstands a null battery that it did not stand"
	}
	if !f.count(p) {
		return "its tokens or costs cannot be added up"
	}
	s := BatterySummary{CostMicroUSD: b.CostMicroUSD, Paid: b.Paid, Problem: b.Problem, Put: p.Checked, Remembered: b.Remembered,
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

// Battery returns how the judge stood the null battery so far; nil: it was not
// put to it.
func (f *Fold) Battery() *BatterySummary { return f.judge.Battery }
