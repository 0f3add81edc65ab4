package rundir

import (
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// battery takes what came of a null battery. Its counts have to go together: who reads of one that was passed is not to
// find an accepted item in it. The outcome that settles it is final: a judge that failed it is not tested again.
func (f *Fold) battery(b trajectory.JudgeBattery) (reason string) {
	switch plan := f.Manifest.Judge; {
	case plan == nil:
		return "is of another self-test, or another judge, than the plan's"
	case f.judge.Battery.settled():
		return "repeats a self-test of the judge that is settled"
	default:
		reason = plan.Refuses(b)
	}
	if reason != "" {
		return reason
	}
	if !f.count(b) {
		return "its tokens or costs cannot be added up"
	}
	f.judge.addBattery(b)
	return ""
}

// addBattery counts a null battery, which is then the last word on the judge.
func (j *JudgeSummary) addBattery(b trajectory.JudgeBattery) {
	s := BatterySummary{CostMicroUSD: b.CostMicroUSD, Accepted: b.Accepted, Problem: b.Problem, Asked: b.Asked, Refused: b.Refused, Cached: b.Cached,
		TokensIn: b.TokensIn, TokensOut: b.TokensOut, Unreadable: b.Unreadable, Passed: b.Passed}
	if before := j.Battery; before != nil {
		s.CostMicroUSD = stats.AddCost(s.CostMicroUSD, before.CostMicroUSD)
		s.TokensIn += before.TokensIn
		s.TokensOut += before.TokensOut
	}
	j.Battery = &s
	j.TokensIn += b.TokensIn
	j.TokensOut += b.TokensOut
	j.CostMicroUSD = stats.AddCost(j.CostMicroUSD, b.CostMicroUSD)
}

// add counts a judgment.
func (s *JudgeSummary) add(j trajectory.Judgment) {
	s.TokensIn += j.TokensIn
	s.TokensOut += j.TokensOut
	if j.Cached {
		s.Cached++
	} else if j.Tries == 0 && j.Path != PathError {
		switch j.Path {
		case PathWithheld:
			s.Withheld++
		case PathTooLong:
			s.TooLong++
		}
		return
	}
	s.CostMicroUSD = stats.AddCost(s.CostMicroUSD, j.CostMicroUSD)
	s.Asked++
	switch {
	case j.Judged != nil:
		s.Judged++
	case j.Path == PathUnreadable:
		s.Unreadable++
	default:
		s.Errors++
	}
}

// CountJudgments counts what a judge did that is not the run's: b is nil where the null battery was not needed.
func CountJudgments(model string, b *trajectory.JudgeBattery, all []trajectory.Judgment) JudgeSummary {
	s := JudgeSummary{CostMicroUSD: new(int64), Model: model}
	if b != nil {
		s.addBattery(*b)
	}
	for _, j := range all {
		s.add(j)
	}
	return s
}

// settled reports whether the judge is not tested again in the run.
func (b *BatterySummary) settled() bool {
	return b != nil && (b.Passed || b.Cached || len(b.Accepted) > 0)
}

// Battery returns the outcome of the self-test so far, nil if there was none, and whether that is settled for the run.
func (f *Fold) Battery() (b *BatterySummary, settled bool) {
	return f.judge.Battery, f.judge.Battery.settled()
}
