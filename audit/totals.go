package audit

import "github.com/gaia-harness/gaia/internal/ledger"

// totals counts findings and gives the scores without what the audit found
// void.
func (e *Evidence) totals(checks []CheckReport) Totals {
	t := Totals{Events: e.Events, Interruptions: len(e.Resumed), Planned: len(e.Manifest.Tasks)}
	for _, task := range e.Tasks {
		t.Attempts += len(task.Attempts)
	}
	if j := e.Summary.Judge; j != nil {
		t.Judge = &JudgeTotals{Asked: j.Asked, Cached: j.Cached, Errors: j.Errors, Judged: j.Judged, Unreadable: j.Unreadable, TooLong: j.TooLong, Withheld: j.Withheld}
	}
	t.Raw, t.Clean, t.Worst = Rescore(e.Results, checks)
	return t.count(checks)
}

// Rescore gives the official score of a run by its results: as recorded (raw),
// with void tasks counted wrong (clean), and with those counted wrong, too, that
// have an open HIGH or REVIEW finding (worst).
//
// Void is a task with a CRITICAL finding, and every task by one about the whole
// run, whatever its outcome but [Attempted]: what was without benefit earned no
// task its verdict. A CRITICAL finding that [Report.Trusting] closed makes nothing void.
// Where it is about one task, that task is not correct. A HIGH or
// REVIEW finding about the whole run names no task, and moves no score: that the run
// is not clean, or to be looked at, is what it says. A task that an adjudication
// made void counts wrong in all three. All are over as many tasks as there are
// results, and nil where these have no verdicts.
func Rescore(results []ledger.Result, checks []CheckReport) (raw, clean, worst *ledger.Rate) {
	decided, void, doubted := Voided(checks), map[string]bool{}, map[string]bool{}
	for _, c := range checks {
		for _, f := range c.Findings {
			void[f.TaskID] = void[f.TaskID] || f.Severity == Critical && f.Outcome != Attempted && f.Closed != Dismiss
			doubted[f.TaskID] = doubted[f.TaskID] || f.Closed == "" && (f.Severity == High || f.Severity == ToReview)
		}
	}
	var counts [3]int // raw, clean, worst
	for _, r := range results {
		if r.OfficialCorrect == nil {
			return nil, nil, nil
		}
		if !*r.OfficialCorrect || decided[r.TaskID] {
			continue
		}
		counts[0]++
		if void[""] || void[r.TaskID] {
			continue
		}
		counts[1]++
		if !doubted[r.TaskID] {
			counts[2]++
		}
	}
	if len(results) == 0 {
		return nil, nil, nil
	}
	rate := func(n int) *ledger.Rate { r := ledger.NewRate(n, len(results)); return &r }
	return rate(counts[0]), rate(counts[1]), rate(counts[2])
}

// count returns t with the open findings counted by severity.
func (t Totals) count(checks []CheckReport) Totals {
	t.Closed, t.Critical, t.High, t.Review, t.Info = 0, 0, 0, 0, 0
	for _, c := range checks {
		for _, f := range c.Findings {
			switch {
			case f.Closed != "":
				t.Closed++
			case f.Severity == Critical:
				t.Critical++
			case f.Severity == High:
				t.High++
			case f.Severity == ToReview:
				t.Review++
			case f.Severity == Info:
				t.Info++
			}
		}
	}
	return t
}
