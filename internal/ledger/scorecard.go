package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/witnessfile"
	"github.com/gaia-harness/gaia/trajectory"
)

// Card counts the tasks of runs, or of witness bundles, for a scorecard.
type Card struct {
	witnessfile.Tally
	Runs       int
	Untrusted  error    // runs are by keys that the user does not trust; nil: none
	errorsOf   []string // runs of which the errors were counted alone
	ranked     []RankedRun
	unscored   bool  // a task was answered, and has no gold answer
	unrecorded []Run // that went on without evidence
}

// Card verifies runs and counts their tasks. Nothing is counted where one of them does not verify, or is not finished
// though the user named it.
func (r *Reader) Card(paths []string) (*Card, error) {
	c := &Card{}
	read, err := r.Runs(paths, Query{Verify: true, Live: true}, func(s Run) error {
		c.Runs++
		c.Rehearsal = c.Rehearsal || s.Rehearsal
		if of := s.Dataset.ErrorsOf.RunID; of != "" {
			c.errorsOf = append(c.errorsOf, of)
		}
		c.unscored = c.unscored || slices.ContainsFunc(s.Tasks, func(t rundir.TaskStats) bool { return t.Outcome == trajectory.Unscored })
		if s.RecordingFailed != "" {
			c.unrecorded = append(c.unrecorded, s)
		}
		one, err := r.ranked(s)
		if err == nil {
			err = c.AddRun(s.RunStats)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", view.Quote(s.Path), err)
		}
		c.ranked = append(c.ranked, one)
		return nil
	})
	rank(c.ranked)
	if e := (*exit.Error)(nil); errors.As(err, &e) && slices.Equal(e.Hints, []string{wantRuns}) {
		return nil, exit.New(e.Code, e.Err, witnessfile.WantScored)
	}
	c.Untrusted = read.UntrustedErr
	if read.FailedErr != nil {
		err = cmp.Or(err, read.End(nil))
	}
	if err == nil && c.Runs == 0 {
		err = exit.Usagef(witnessfile.WantScored, "there is no finished run to count")
	}
	return c, err
}

// CardResult is the JSON of a card: the scorecard's members, in their order, and the result of --accept.
type CardResult struct {
	rundir.Scorecard
	Acceptance      *rundir.Acceptance `json:"acceptance,omitzero"`
	ErrorsOf        []string           `json:"errors_of,omitzero"`        // runs of which only tasks that failed there were counted
	RecordingFailed []string           `json:"recording_failed,omitzero"` // ids of the runs
	Rehearsal       bool               `json:"rehearsal,omitzero"`
	Runs            []RankedRun        `json:"runs,omitempty"`          // of several: each card, by rank
	SignerTrusted   *bool              `json:"signer_trusted,omitzero"` // of all runs; left out for witness bundles
}

// Result returns the card of what was counted, accepted or not by thresholds; nil: it is not compared with any.
func (c *Card) Result(want *rundir.Thresholds) CardResult {
	r := CardResult{Scorecard: c.Scorecard(), Rehearsal: c.Rehearsal}
	if c.Bundles == 0 {
		r.SignerTrusted = new(c.Untrusted == nil)
	}
	for _, run := range c.unrecorded {
		r.RecordingFailed = append(r.RecordingFailed, run.RunID)
	}
	r.ErrorsOf = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.errorsOf, c.Tally.ErrorsOf))))
	if len(c.ranked) > 1 {
		r.Runs = c.ranked
	}
	if want != nil {
		r.Acceptance = new(c.Accept(*want))
		if len(r.ErrorsOf) > 0 {
			r.Acceptance.Pass = false
			r.Acceptance.Criteria = append(r.Acceptance.Criteria, rundir.Criterion{Name: "tasks_chosen_before_outcomes", Wanted: true, Got: false})
		}
	}
	return r
}

// Err returns the error that a threshold is missed; nil if none is.
func (r CardResult) Err() error {
	if r.Acceptance == nil || r.Acceptance.Pass {
		return nil
	}
	e := &exit.Error{Code: exit.Findings, Err: errors.New("not accepted")}
	for _, c := range r.Acceptance.Criteria {
		if !c.Pass {
			e.Reasons = append(e.Reasons, c.Name+" is "+compared(c))
			if c.Name == rundir.CriterionPolicies {
				e.Hints = append(e.Hints, "give the runs of one policy, or --mixed-policies; 'gaia ledger list --metrics' lists them")
			}
		}
	}
	return e
}

// Text returns a result for people: of several runs a row for each by rank, and below it the card of all.
func (c *Card) Text(r CardResult) string {
	out := ""
	if r.Rehearsal {
		out = RehearsalHeader
	}
	if len(r.Runs) > 0 {
		out += rankingText(r.Runs)
	}
	return out + view.RowsText(c.Rows(r))
}

// Rows returns a result as names and values.
func (c *Card) Rows(r CardResult) [][2]string {
	rows := view.List{{"counted", view.Count(c.Runs, "run")}}
	if c.Bundles > 0 {
		signed := "signatures not checked"
		if c.Key != nil {
			signed = "all signed with the key of --hmac-key-file"
		}
		rows = view.List{{"counted", view.Count(c.Bundles, "witness bundle") + ", " + signed}}
	}
	for _, of := range r.ErrorsOf {
		rows.Add(runview.ErrorsKey, runview.ErrorsNote(of))
	}
	for _, run := range c.unrecorded {
		rows.Add("recording", "failed in the run "+run.RunID+": "+run.RecordingFailed)
	}
	rate, perSolve, evidence := share(r.SolveRate), view.Dollars(r.CostPerSolveMicros), "complete of "+share(r.EvidenceCoverage)+" of what is solved"
	if r.Solved == 0 {
		perSolve, evidence = "–", "–, nothing was solved"
		if c.unscored && r.Failed == 0 {
			rate = "– (unscored)"
		}
	}
	rollbacks := "unknown: a bundle does not say"
	denials := rollbacks
	if r.RollbackCount != nil {
		rollbacks = strconv.Itoa(*r.RollbackCount)
		denials = fmt.Sprintf("%d by mode, %d by budget, %d by a person", *r.ModeDenials, *r.BudgetDenials, *r.PersonRefusals)
	}
	rows = append(rows, [][2]string{
		{"tasks", fmt.Sprintf("%d: %d solved, %d failed, %d error, %d skipped or unscored", r.TotalTasks, r.Solved, r.Failed, r.Errors, r.Skipped)},
		{"solve rate", rate},
		{"violations", strconv.Itoa(r.PolicyViolations)},
		{"denials", denials},
		{"rollbacks", rollbacks},
		{"cost", fmt.Sprintf("%s, %s per solved task", view.Dollars(r.TotalCostMicroUSD), perSolve)},
		{"latency", fmt.Sprintf("median %s, 95th percentile %s", milliseconds(r.MedianLatencyMs), milliseconds(r.P95LatencyMs))},
		{"tokens", strconv.FormatInt(r.TotalTokens, 10)},
		{"retries", strconv.Itoa(r.TotalRetries)},
		{"evidence", evidence},
	}...)
	if r.Acceptance == nil {
		return rows
	}
	label := "accepted"
	if !r.Acceptance.Pass {
		label = "not accepted"
	}
	for _, each := range r.Acceptance.Criteria {
		mark := "passes"
		if !each.Pass {
			mark = "fails"
		}
		rows = append(rows, [2]string{label, fmt.Sprintf("%s %s: %s", each.Name, mark, compared(each))})
		label = ""
	}
	return rows
}

// compared returns the value of a criterion and its threshold.
func compared(c rundir.Criterion) string {
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

// share returns a fraction as a percentage.
func share(f float32) string { return view.Percent(int64(math.Round(float64(f) * 1e6))) }

// RehearsalHeader is the paragraph above what is counted of rehearsals.
const RehearsalHeader = "rehearsal: " + runview.RehearsalNote + "\n\n"
