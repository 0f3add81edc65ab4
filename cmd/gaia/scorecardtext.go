package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"
)

// scorecardResult is what scorecard prints with --json: the card's members, in their
// order, and what came of --accept.
type scorecardResult struct {
	rundir.Scorecard
	Acceptance      *rundir.Acceptance `json:"acceptance,omitzero"`
	RecordingFailed []string           `json:"recording_failed,omitzero"` // ids of the runs
	Rehearsal       bool               `json:"rehearsal,omitzero"`
	SignerTrusted   *bool              `json:"signer_trusted,omitzero"` // of all runs; left out for witness bundles
}

// printScorecard prints the card of what was counted, and fails where it is held
// against thresholds and misses one.
func (a *app) printScorecard(found *scored, s scoring) error {
	r := scorecardResult{Scorecard: found.Scorecard(), Rehearsal: found.rehearsal}
	if found.bundles == 0 {
		all := found.untrusted == nil
		r.SignerTrusted = &all
	}
	for _, run := range found.unrecorded {
		r.RecordingFailed = append(r.RecordingFailed, run[0])
	}
	if s.accept {
		accepted := found.Accept(s.want)
		r.Acceptance = &accepted
	}
	if s.asJSON {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.printCard(found, r); err != nil {
		return err
	}
	if r.Acceptance == nil || r.Acceptance.Pass {
		return found.untrusted
	}
	f := &failure{Code: exitFindings, Err: errors.New("not accepted")}
	for _, c := range r.Acceptance.Criteria {
		if !c.Pass {
			f.Reasons = append(f.Reasons, c.Name+" is "+held(c))
			if c.Name == rundir.CriterionPolicies {
				f.Hints = append(f.Hints, "give the runs of one policy, or --mixed-policies; 'gaia ledger metrics' lists them")
			}
		}
	}
	return firstOf(found.untrusted, f)
}

func (a *app) printCard(found *scored, r scorecardResult) error {
	c := r.Scorecard
	if r.Rehearsal {
		if _, err := fmt.Fprintf(a.stdout, "rehearsal: %s\n\n", rehearsalNote); err != nil {
			return err
		}
	}
	rows := [][2]string{{"counted", counted(found.runs, "run")}}
	if found.bundles > 0 {
		said := "signatures not checked"
		if found.checked {
			said = "all signed with the key of --hmac-key-file"
		}
		rows = [][2]string{{"counted", counted(found.bundles, "witness bundle") + ", " + said}}
	}
	for _, run := range found.unrecorded {
		rows = append(rows, [2]string{"recording", "failed in the run " + run[0] + ": " + run[1]})
	}
	rate, perSolve, evidence := share(c.SolveRate), dollars(c.CostPerSolveMicros), "complete of "+share(c.EvidenceCoverage)+" of what is solved"
	if c.Solved == 0 {
		perSolve, evidence = "–", "–, nothing was solved"
		if found.unscored && c.Failed == 0 {
			rate = "– (unscored)"
		}
	}
	rollbacks := "unknown: a bundle does not say"
	denials := rollbacks
	if c.RollbackCount != nil {
		rollbacks = strconv.Itoa(*c.RollbackCount)
		denials = fmt.Sprintf("%d by mode, %d by budget, %d by a person", *c.ModeDenials, *c.BudgetDenials, *c.PersonRefusals)
	}
	rows = append(rows,
		[2]string{"tasks", fmt.Sprintf("%d: %d solved, %d failed, %d error, %d skipped or unscored", c.TotalTasks, c.Solved, c.Failed, c.Errors, c.Skipped)},
		[2]string{"solve rate", rate},
		[2]string{"violations", strconv.Itoa(c.PolicyViolations)},
		[2]string{"denials", denials},
		[2]string{"rollbacks", rollbacks},
		[2]string{"cost", fmt.Sprintf("%s, %s per solved task", dollars(c.TotalCostMicroUSD), perSolve)},
		[2]string{"latency", fmt.Sprintf("median %s, 95th percentile %s", milliseconds(c.MedianLatencyMs), milliseconds(c.P95LatencyMs))},
		[2]string{"tokens", strconv.FormatInt(c.TotalTokens, 10)},
		[2]string{"retries", strconv.Itoa(c.TotalRetries)},
		[2]string{"evidence", evidence})
	if r.Acceptance != nil {
		label := "accepted"
		if !r.Acceptance.Pass {
			label = "not accepted"
		}
		for _, each := range r.Acceptance.Criteria {
			mark := "passes"
			if !each.Pass {
				mark = "fails"
			}
			rows = append(rows, [2]string{label, fmt.Sprintf("%s %s: %s", each.Name, mark, held(each))})
			label = ""
		}
	}
	return a.printRows(rows)
}

// held says what a criterion was held against.
func held(c rundir.Criterion) string {
	got, how := c.Got, "at least"
	switch c.Wanted.(type) {
	case int:
		how = "at most"
	case bool:
		how = "wanted"
	}
	if got == nil {
		got = "unknown"
	}
	return fmt.Sprintf("%v, %s %v", got, how, c.Wanted)
}

// share prints a fraction.
func share(f float32) string { return percent(int64(math.Round(float64(f) * 1e6))) }

func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
