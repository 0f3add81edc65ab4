package run

import "github.com/gaia-harness/gaia/internal/ledger"

// Plan returns what a run of c would plan, but for its id, time and gold
// commitment, which Create makes.
func Plan(c Config) (ledger.Manifest, error) { return c.plan() }
