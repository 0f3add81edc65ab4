//go:build !race

package ledger_test

import "testing"

// thin is by how much the long walks are thinned out.
const thin = 15

// long is for a walk that is skipped under the race detector.
func long(*testing.T) {}
