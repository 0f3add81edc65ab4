// Package doctor checks what a run would use before there is one: models, the judge, the
// places that are written to, keys and programs. A check returns a Finding with a remedy
// and changes nothing. The caller decides which run that would be, and gives a check the
// values and functions it needs; the package reads no environment and no settings.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/view"
)

// States of a finding, the worst last.
const (
	OK      = "ok"
	Missing = "missing" // optional: a run works without it
	Unknown = "unknown" // it was not, or could not be, checked
	Failed  = "failed"  // it would make a run fail, or spend without bound
)

// Finding is the result of one check.
type Finding struct {
	CostMicroUSD *int64 `json:"cost_microusd,omitzero"` // of requests to a model; nil if none was sent, or the cost is unknown
	Detail       string `json:"detail"`                 // what was found, or why it does not work
	Name         string `json:"name"`
	Remedy       string `json:"remedy,omitzero"`
	State        string `json:"state"` // one of the states
	Use          string `json:"use"`   // what gaia does with it
}

// Report is the result of all checks. Its state is the worst of the findings'.
type Report struct {
	Findings  []Finding `json:"findings"`
	Rehearsal bool      `json:"rehearsal,omitzero"`
	State     string    `json:"state"` // one of the states
}

// NewReport returns the report of findings.
func NewReport(found []Finding, rehearsal bool) Report {
	order := []string{OK, Missing, Unknown, Failed}
	state := 0
	for _, f := range found {
		state = max(state, slices.Index(order, f.State))
	}
	return Report{Findings: found, Rehearsal: rehearsal, State: order[state]}
}

// Failures returns the names of the findings that failed.
func (r Report) Failures() (names []string) {
	for _, f := range r.Findings {
		if f.State == Failed {
			names = append(names, f.Name)
		}
	}
	return names
}

// Check checks one or several things.
type Check func(context.Context) []Finding

// One returns a check of one thing.
func One(check func(context.Context) Finding) Check {
	return func(ctx context.Context) []Finding { return []Finding{check(ctx)} }
}

// Run runs all checks concurrently and returns their findings in the order of the checks.
func Run(ctx context.Context, checks ...Check) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { found[i] = check(ctx) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// good returns the finding that something works.
func good(name, use, detail string) Finding {
	return Finding{Name: name, Use: use, State: OK, Detail: detail}
}

// lacks returns the finding that something optional is missing.
func lacks(name, use, detail, remedy string) Finding {
	return Finding{Name: name, Use: use, State: Missing, Detail: detail, Remedy: remedy}
}

// unseen returns the finding that something was not checked.
func unseen(name, use, detail string) Finding {
	return Finding{Name: name, Use: use, State: Unknown, Detail: detail}
}

// Fails returns the finding of an error that a run would end with. Its remedy is the
// hints of the error, else otherwise.
func Fails(name, use string, err error, otherwise string) Finding {
	e := exit.Of(err)
	return Finding{Name: name, Use: use, State: Failed, Detail: e.Err.Error(), Remedy: cmp.Or(strings.Join(e.Hints, "; "), otherwise)}
}

// Text returns the findings as a table, and below it how to fix what is missing or failed.
func (r Report) Text() string {
	t := view.NewTable("what", "state", "found", "used for")
	t.Wrap(3, 60)
	t.Wrap(4, 30)
	remedies := ""
	for _, f := range r.Findings {
		t.Row(f.Name, f.State, f.Detail, f.Use)
		if f.Remedy != "" {
			remedies += fmt.Sprintf("%s: %s\n", f.Name, view.Line(f.Remedy))
		}
	}
	return t.String() + "\n" + remedies
}
