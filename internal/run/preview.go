package run

import (
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/tools"
)

// Plan returns what a run of c would plan, but for its id, time and gold
// commitment, which Create makes.
func Plan(c Config) (ledger.Manifest, error) { return c.plan() }

// Affords returns a *BudgetError if the money of a run of c is not enough for
// an attempt at any of its tasks; Create does, too.
func Affords(c Config) error {
	gate, err := tools.NewGate(tools.GateConfig{Policy: c.Policy, Now: c.Now}, c.catalogue(nil)...)
	if err != nil {
		return err
	}
	return newPurse(c, ledger.NewFold(ledger.Manifest{}, "", nil)).affords(c.Set.Tasks, gate.Specs())
}
