package run

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/tools"
)

// Plan returns what a run of c would plan, but for its id, its time, the gold
// commitment and the digests of the questions, which Create makes. A plan that would hold a secret is a
// *SecretError; to Create, too.
func Plan(c Config) (plan.Plan, error) {
	m, err := c.plan()
	if err == nil {
		err = NoSecret(m, c.Redact)
	}
	return m, err
}

// Affords returns a *BudgetError if the money of a run of c is not enough for
// an attempt at any of its tasks; Create does, too.
func Affords(c Config) error {
	gate, err := tools.NewGate(tools.GateConfig{Policy: c.Policy, Now: c.Now}, c.catalogue(nil)...)
	if err != nil {
		return err
	}
	return newPurse(c, rundir.NewFold(plan.Plan{}, "", nil)).affords(c.Set.Tasks, gate.Specs())
}
