//go:build race

package render

import "testing"

// long skips a walk that takes ten times as long under the race detector, and has
// no goroutines to look at: .ci/run takes it without.
func long(t *testing.T) {
	t.Helper()
	t.Skip("a long walk, taken without the race detector")
}
