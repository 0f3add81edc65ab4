package overview

import (
	"time"

	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/trajectory"
)

// usagePlots returns what a run spent, and its attempts, over time.
func usagePlots(j *transcript.Journal, state transcript.State) []plot.Plot {
	start, err := time.Parse(trajectory.TimeFormat, state.Started)
	if err != nil { // the first event is not read yet
		return nil
	}
	var spent []plot.Spent
	unpriced := int64(0)
	for _, s := range j.Spent() {
		spent = append(spent, plot.Spent{Ms: s.At.Sub(start).Milliseconds(), CostMicroUSD: s.CostMicroUSD, Tokens: s.Tokens.In + s.Tokens.Out})
		unpriced = s.Unpriced
	}
	spans := j.Spans()
	last, err := time.Parse(trajectory.TimeFormat, state.Last)
	if err != nil {
		return nil
	}
	drawn := make([]plot.Span, len(spans))
	j.Read(func(run *rundir.Run) {
		for i, s := range spans {
			// An attempt that is under way is drawn to the last event of the run, not to the present: no clock is read.
			if !s.Ended && s.Last.Before(last) {
				s.Last = last
			}
			drawn[i] = plot.Span{Task: s.Task, Attempt: s.Attempt, Start: s.Began.Sub(start).Milliseconds(), End: s.Last.Sub(start).Milliseconds(), Open: !s.Ended}
			if t := run.Task(s.Task); t != nil && s.Attempt <= len(t.Attempts) && t.Attempts[s.Attempt-1].Ended != nil {
				drawn[i].Outcome = t.Attempts[s.Attempt-1].Ended.Outcome
			}
		}
	})
	return []plot.Plot{plot.CostOverTime(spent, unpriced), plot.Attempts(drawn)}
}
