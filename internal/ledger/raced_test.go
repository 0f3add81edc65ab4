//go:build race

package ledger_test

import "testing"

// thin is by how much the long walks are thinned out: under the race detector
// each step takes ten times as long.
const thin = 11

// long skips a walk that takes ten times as long under the race detector, and has
// no goroutines to look at but its own: .ci/run takes it without.
func long(t *testing.T) {
	t.Helper()
	t.Skip("a long walk, taken without the race detector")
}
