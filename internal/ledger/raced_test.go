//go:build race

package ledger_test

// thin is by how much the long walks are thinned out: under the race detector
// each step takes ten times as long, and what they walk has no goroutines.
const thin = 11
