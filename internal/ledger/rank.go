package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// RankedRun is the card of one of several runs, and its place among them. Runs are ordered by their solve rate.
type RankedRun struct {
	rundir.Scorecard
	CostPerTask     *int64      `json:"cost_per_task_microdollars"` // floored; null: a price is unknown
	ErrorsOf        string      `json:"errors_of,omitzero"`         // id of the run whose errors its tasks are
	Model           string      `json:"model"`
	Next            *Difference `json:"next,omitzero"` // from the ranked run after it; left out: it is the last, or is not ranked
	Path            string      `json:"path"`
	Rank            int         `json:"rank"` // runs with a higher solve rate, and 1; 0: it is not ranked
	RecordingFailed string      `json:"recording_failed,omitzero"`
	Rehearsal       bool        `json:"rehearsal,omitzero"`
	RunID           string      `json:"run_id"`
	Score           *stats.Rate `json:"score"` // with its Wilson interval; null: the run is not scored
	SignerTrusted   bool        `json:"signer_trusted"`
	Started         string      `json:"started"`
	Tied            bool        `json:"tied,omitzero"` // another run has the same rank

	dataset string // digest of the dataset's file
	tasks   []stats.Scored
}

// Difference is how a run differs from the one that is ranked after it.
type Difference struct {
	Compared *Paired `json:"compared"`     // null: they are not of the same tasks
	Why      string  `json:"why,omitzero"` // they are not compared
	RunID    string  `json:"run_id"`
}

// Paired is the comparison of two runs of the same tasks. Rates are in parts per million of the tasks.
type Paired struct {
	HighPPM  int64 `json:"high_ppm"` // of the 95 % interval of RatePPM by the bootstrap over the pairs
	LowPPM   int64 `json:"low_ppm"`
	OnlyNext int   `json:"only_next"` // tasks that the next run alone solved
	OnlyThis int   `json:"only_this"`
	PPPM     int64 `json:"p_ppm"`    // of McNemar's exact test; 0: below half a part per million
	RatePPM  int64 `json:"rate_ppm"` // this solve rate less that of the next run
}

// ranked returns the card of a run without its place.
func (r *Reader) ranked(s Run) (RankedRun, error) {
	var t rundir.Tally
	if err := t.AddRun(s.RunStats); err != nil {
		return RankedRun{}, err
	}
	out := RankedRun{Scorecard: t.Scorecard(), ErrorsOf: s.Dataset.ErrorsOf.RunID, Model: s.Model, Path: s.Path, RecordingFailed: s.RecordingFailed,
		Rehearsal: s.Rehearsal, RunID: s.RunID, SignerTrusted: r.Trust.OfID(s.SignedBy) == nil, Started: s.Started, dataset: s.Dataset.MetadataSHA256}
	if cost := out.TotalCostMicroUSD; cost != nil && out.TotalTasks > 0 {
		out.CostPerTask = new(*cost / int64(out.TotalTasks))
	}
	scored := true
	for _, task := range s.Tasks {
		scored = scored && task.Outcome != trajectory.Unscored
		out.tasks = append(out.tasks, stats.Scored{Level: task.Level, MetadataSHA256: out.dataset, Outcome: task.Outcome, TaskID: task.TaskID})
	}
	if scored {
		out.Score = new(stats.NewRate(out.Solved, out.TotalTasks))
	}
	return out, nil
}

// rank orders runs and compares each with the one after it. Ranked are the runs whose solve rate says something of a
// model: rehearsals only among themselves, and not runs without a score, of the errors of another run, or whose
// recording failed. Of the same solve rate the cheaper run stands first, with the same rank.
func rank(all []RankedRun) {
	real := slices.ContainsFunc(all, func(r RankedRun) bool { return !r.Rehearsal })
	last := func(r RankedRun) int { // those that are not ranked, after those that are
		if r.Score == nil || r.ErrorsOf != "" || r.RecordingFailed != "" || r.Rehearsal && real {
			return 1
		}
		return 0
	}
	rate := func(a, b RankedRun) int {
		return cmp.Compare(int64(b.Solved)*int64(a.TotalTasks), int64(a.Solved)*int64(b.TotalTasks))
	}
	cost := func(r RankedRun) (int, int64) {
		if r.CostPerTask == nil {
			return 1, 0
		}
		return 0, *r.CostPerTask
	}
	slices.SortFunc(all, func(a, b RankedRun) int {
		unknownA, costA := cost(a)
		unknownB, costB := cost(b)
		return cmp.Or(last(a)-last(b), rate(a, b), unknownA-unknownB, cmp.Compare(costA, costB), strings.Compare(a.RunID, b.RunID))
	})
	for i := range all {
		r := &all[i]
		if last(*r) == 1 {
			break
		}
		r.Rank = i + 1
		if i == 0 {
			continue
		}
		before := &all[i-1]
		if rate(*before, *r) == 0 {
			r.Rank, r.Tied, before.Tied = before.Rank, true, true
		}
		before.Next = difference(*before, *r)
	}
}

// difference compares two runs, if they are of the same tasks.
func difference(a, b RankedRun) *Difference {
	d := &Difference{RunID: b.RunID}
	c, err := stats.Compare(b.tasks, a.tasks)
	switch {
	case a.dataset != b.dataset || len(a.tasks) != len(b.tasks) || err == nil && c.Tasks != len(a.tasks):
		d.Why = "different plans: they are not of the same tasks"
	case err != nil:
		d.Why = err.Error()
	default:
		d.Compared = &Paired{HighPPM: c.HighPPM, LowPPM: c.LowPPM, OnlyNext: c.OnlyA, OnlyThis: c.OnlyB, PPPM: c.PPPM, RatePPM: c.RatePPM}
	}
	return d
}

// rankingText returns the table of runs, and below it the difference of each from the next.
func rankingText(all []RankedRun) string {
	t := view.NewTable("rank", "run", "model", "solved", "solve rate", "95 % interval", "violations", "cost/task", "cost/solve", "evidence", "signer", "")
	var differences view.List
	for i, r := range all {
		place, solved, rate, interval, perSolve, evidence, signer := noNumber, noNumber, noNumber, noNumber, noNumber, noNumber, "trusted"
		if r.Rank > 0 {
			place = fmt.Sprint(r.Rank)
		}
		if r.Tied {
			place += " tied"
		}
		if s := r.Score; s != nil {
			solved, rate = fmt.Sprintf("%d/%d", s.Correct, s.Planned), view.Percent(s.AccuracyPPM)
			interval = view.Percent(s.WilsonLowPPM) + " – " + view.Percent(s.WilsonHighPPM)
		}
		if r.Solved > 0 {
			perSolve, evidence = view.Dollars(r.CostPerSolveMicros), share(r.EvidenceCoverage)
		}
		if !r.SignerTrusted {
			signer = "NOT trusted"
		}
		var notes []string
		for _, note := range []struct {
			is   bool
			text string
		}{{r.Rehearsal, "rehearsal"}, {r.ErrorsOf != "", runview.ErrorsKey}, {r.RecordingFailed != "", "recording failed"}, {r.Score == nil, "unscored"}} {
			if note.is {
				notes = append(notes, note.text)
			}
		}
		t.Row(place, r.RunID, view.Line(r.Model), solved, rate, interval, r.PolicyViolations, view.Dollars(r.CostPerTask), perSolve, evidence, signer, strings.Join(notes, ", "))
		if n := r.Next; n != nil && n.Compared == nil {
			differences.Add(fmt.Sprintf("rows %d, %d", i+1, i+2), n.Why)
		} else if n != nil {
			c := n.Compared
			differences.Addf(fmt.Sprintf("rows %d, %d", i+1, i+2), "%s of the tasks, 95 %% interval %s to %s (bootstrap over the pairs, exact); McNemar p %s, of %s",
				signedPercent(c.RatePPM), signedPercent(c.LowPPM), signedPercent(c.HighPPM), pValue(c.PPPM), view.Count(c.OnlyThis+c.OnlyNext, "flipped task"))
		}
	}
	out := t.String() + "\n\n"
	if len(differences) > 0 {
		out += view.RowsText(differences) + "\n"
	}
	return out
}
