package rundir

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json"
)

// Scorecard says what it cost to be right. Money is in micro-USD. Fractions are 32-bit floats, one division each. Up to
// SolveRate its JSON is that of the witness format's other writers: these members in this order.
type Scorecard struct {
	TotalTasks         int     `json:"total_tasks"`
	Solved             int     `json:"solved"`
	Failed             int     `json:"failed"`
	Skipped            int     `json:"skipped"` // never begun, or without a gold answer
	Errors             int     `json:"errors"`
	PolicyViolations   int     `json:"policy_violations"`           // of rules and of the deny list; of bundles that do not say, denied calls of the traces
	RollbackCount      *int    `json:"rollback_count"`              // that restored something; null: a bundle does not say
	TotalCostMicroUSD  *int64  `json:"total_cost_microdollars"`     // null: a price is unknown
	MedianLatencyMs    int64   `json:"median_latency_ms"`           // element ⌊50·n/100⌋ of the sorted, over all tasks
	P95LatencyMs       int64   `json:"p95_latency_ms"`              // element ⌊95·n/100⌋, at most the last
	TotalTokens        int64   `json:"total_tokens"`                // read and written
	TotalRetries       int     `json:"total_retries"`               // model calls that repeated another
	EvidenceCoverage   float32 `json:"evidence_coverage"`           // solved with complete evidence ÷ solved; 0 where none is
	CostPerSolveMicros *int64  `json:"cost_per_solve_microdollars"` // total ÷ solved, floored; 0 where none is; null: a price is unknown
	SolveRate          float32 `json:"solve_rate"`                  // solved ÷ total; 0 of nothing
	ModeDenials        *int    `json:"mode_denials"`                // null as with RollbackCount
	BudgetDenials      *int    `json:"budget_denials"`              // likewise
	PersonRefusals     *int    `json:"person_refusals"`             // likewise
}

// Encode returns scorecard.json: the members in their order, without spaces, fractions in the shortest form that reads
// back as the same 32-bit float (0.42857143), and one newline at the end.
func (c Scorecard) Encode() ([]byte, error) {
	data, err := json.Marshal(c)
	return append(data, '\n'), err
}

// AddRun takes the tasks of a run. It fails as Add does, and may then have taken some.
func (t *Tally) AddRun(s RunStats) error {
	t.unrecorded = t.unrecorded || s.RecordingFailed != ""
	t.under(underPolicy{guidance: s.GuidanceHash, policy: s.PolicyHash})
	for _, e := range s.Events { // a resumed run may go on under another
		t.under(underPolicy{guidance: e.GuidanceHash, policy: e.PolicyHash})
	}
	for _, task := range s.Tasks {
		if err := t.Add(task); err != nil {
			return fmt.Errorf("counting the task %q: %w", task.TaskID, err)
		}
	}
	return nil
}

// under notes what tasks were run under.
func (t *Tally) under(g underPolicy) {
	if t.policies == nil {
		t.policies = map[underPolicy]bool{}
	}
	t.policies[g] = true
}

// AddWitness takes a bundle. One of another writer does not say how its denied calls are to be counted, what was rolled
// back or whether recording failed: all its denied calls count as violations.
func (t *Tally) AddWitness(w witness.Bundle) error {
	if err := t.Add(bundleTask(w)); err != nil {
		return err
	}
	t.under(underPolicy{policy: string(w.PolicyHash[:])})
	c, says := w.Conduct()
	t.unsaid = t.unsaid || !says
	t.unrecorded = t.unrecorded || says && !c.Recorded
	return nil
}

// bundleTask returns what a bundle says of its task.
func bundleTask(w witness.Bundle) TaskStats {
	cost := w.CostMicroUSD
	conduct := trajectory.Conduct{Denials: trajectory.Denials{Rule: w.Denied()}}
	if c, says := w.Conduct(); says {
		conduct = c.Conduct
	}
	return TaskStats{Conduct: conduct, CostMicroUSD: &cost, EvidenceComplete: w.EvidenceComplete(), LatencyMs: w.LatencyMs,
		Outcome: []string{witness.Solved: trajectory.Solved, witness.Failed: trajectory.Failed,
			witness.Skipped: trajectory.Skipped, witness.Error: trajectory.Errored}[w.Outcome],
		Retries: w.Retries, Tokens: w.Tokens}
}

// Tally gathers tasks into a scorecard. Of each it holds a number, its latency. The zero value has none.
type Tally struct {
	card             Scorecard
	latencies        []int64
	complete         int // solved with complete evidence
	cost             int64
	conduct          trajectory.Conduct
	unpriced, unsaid bool // a task's cost, or its conduct, is not known
	unrecorded       bool // a run continued without evidence
	policies         map[underPolicy]bool
}

// underPolicy is what tasks were run under; of bundles only the policy is known.
type underPolicy struct{ guidance, policy string }

var errTally = errors.New("its counts cannot be added up")

// Add takes a task. It fails where a count is below nothing, or a sum grows beyond what a derived file can hold; the
// tally is then as it was.
func (t *Tally) Add(c TaskStats) error {
	next := *t
	add := func(sum *int, n int) bool {
		ok := n >= 0 && int64(*sum) <= maxCounted-int64(n)
		*sum += n
		return ok
	}
	add64 := func(sum *int64, n int64) bool {
		ok := n >= 0 && n <= maxCounted && *sum <= maxCounted-n
		*sum += n
		return ok
	}
	ok := add(&next.card.TotalTasks, 1) && next.conduct.Sum(c.Conduct, maxCounted) && add(&next.card.TotalRetries, c.Retries) && add64(&next.card.TotalTokens, c.Tokens)
	if c.CostMicroUSD == nil {
		next.unpriced = true
	} else {
		ok = ok && add64(&next.cost, *c.CostMicroUSD)
	}
	if !ok {
		return errTally
	}
	switch c.Outcome {
	case trajectory.Solved:
		next.card.Solved++
		if c.EvidenceComplete {
			next.complete++
		}
	case trajectory.Failed:
		next.card.Failed++
	case trajectory.Skipped, trajectory.Unscored:
		next.card.Skipped++
	case trajectory.Errored:
		next.card.Errors++
	default:
		return fmt.Errorf("its outcome is %q", c.Outcome)
	}
	next.latencies = append(next.latencies, c.LatencyMs)
	*t = next
	return nil
}

// Scorecard returns the card of what was added.
func (t *Tally) Scorecard() Scorecard {
	c := t.card
	sorted := slices.Sorted(slices.Values(t.latencies))
	c.MedianLatencyMs, c.P95LatencyMs = percentile(sorted, 50), percentile(sorted, 95)
	c.PolicyViolations = t.conduct.Denials.Violations()
	if of := t.conduct; !t.unsaid {
		c.RollbackCount, c.ModeDenials, c.BudgetDenials, c.PersonRefusals = &of.Rollbacks, &of.Denials.Mode, &of.Denials.Budget, &of.PersonRefusals
	}
	if !t.unpriced {
		cost := t.cost
		c.TotalCostMicroUSD, c.CostPerSolveMicros = &cost, new(cost/int64(max(c.Solved, 1)))
		if c.Solved == 0 {
			c.CostPerSolveMicros = new(int64)
		}
	}
	c.EvidenceCoverage, c.SolveRate = stats.Share(t.complete, c.Solved), stats.Share(c.Solved, c.TotalTasks)
	return c
}

// percentile returns the element ⌊p·n/100⌋ of n sorted numbers, at most the last; 0 of none.
func percentile(sorted []int64, p int) int64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return sorted[min(p*n/100, n-1)]
}

// Scorecard returns the card of a run, all of whose tasks must be sealed.
func (f *Fold) Scorecard() (Scorecard, error) {
	var tally Tally
	for _, task := range f.Tasks {
		if err := tally.Add(f.TaskStats(task)); err != nil {
			return Scorecard{}, fmt.Errorf("counting the task %q: %w", task.Plan.TaskID, err)
		}
	}
	return tally.Scorecard(), nil
}

// Thresholds are what a set of tasks is accepted by.
type Thresholds struct {
	SolveRate           float32 // at least
	Violations          int     // at most
	EvidenceCoverage    float32 // at least
	RollbackCorrectness float32 // at least
	MixedPolicies       bool    // runs may be under different policies or rules
}

// DefaultThresholds are those of the acceptance run.
func DefaultThresholds() Thresholds {
	return Thresholds{SolveRate: 0.60, EvidenceCoverage: 1, RollbackCorrectness: 1}
}

// Acceptance is what came of holding a set of tasks against thresholds.
type Acceptance struct {
	Criteria []Criterion `json:"criteria"` // solve_rate, policy_violations, evidence_coverage, rollback_correctness, recorded, policies (left out where they may differ)
	Pass     bool        `json:"pass"`     // all of them
}

// Criterion is one of the thresholds. What is not known does not pass.
type Criterion struct {
	Name   string `json:"name"`
	Wanted any    `json:"wanted"` // at least, a float32; of policy_violations and policies at most, an int; of recorded true
	Got    any    `json:"got"`    // likewise; nil: not known
	Pass   bool   `json:"pass"`
}

// CriterionPolicies counts the pairs of policy and guidance that the tasks were run under, the policies alone of
// bundles.
const CriterionPolicies = "policies"

// Accept compares what was added with thresholds, and requires that no run continued without evidence. Rollbacks are
// correct where they are proven to be: where there was none, all are. Bundles of other writers do not say, and then
// neither that nor whether all was recorded is known.
func (t *Tally) Accept(want Thresholds) Acceptance {
	c := t.Scorecard()
	least := func(name string, wanted, got float32) Criterion {
		return Criterion{Name: name, Wanted: wanted, Got: got, Pass: got >= wanted}
	}
	rollbacks := least("rollback_correctness", want.RollbackCorrectness, 1)
	recorded := Criterion{Name: "recorded", Wanted: true, Got: !t.unrecorded, Pass: !t.unrecorded}
	switch {
	case t.unsaid:
		rollbacks.Got, rollbacks.Pass = nil, false
		if recorded.Pass {
			recorded.Got, recorded.Pass = nil, false
		}
	case t.conduct.Rollbacks > 0:
		rollbacks = least(rollbacks.Name, want.RollbackCorrectness, stats.Share(t.conduct.RollbacksCorrect, t.conduct.Rollbacks))
	}
	a := Acceptance{Pass: true, Criteria: []Criterion{
		least("solve_rate", want.SolveRate, c.SolveRate),
		{Name: "policy_violations", Wanted: want.Violations, Got: c.PolicyViolations, Pass: c.PolicyViolations <= want.Violations},
		least("evidence_coverage", want.EvidenceCoverage, c.EvidenceCoverage),
		rollbacks, recorded,
	}}
	if !want.MixedPolicies {
		a.Criteria = append(a.Criteria, Criterion{Name: CriterionPolicies, Wanted: 1, Got: len(t.policies), Pass: len(t.policies) <= 1})
	}
	for _, each := range a.Criteria {
		a.Pass = a.Pass && each.Pass
	}
	return a
}
