//go:build !race

package render

import "testing"

// long is for a walk that is skipped under the race detector.
func long(*testing.T) {}
