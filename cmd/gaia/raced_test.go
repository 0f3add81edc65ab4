//go:build race

package main

import "testing"

// long skips a test that takes much longer under the race detector, and of which
// the program does one thing after the other: .ci/run takes it without.
func long(t *testing.T) {
	t.Helper()
	t.Skip("a long walk, taken without the race detector")
}

// scripts returns the transcripts of commands that do several things at once;
// .ci/run runs all of them without the race detector.
func scripts(*testing.T) (files []string) {
	for _, name := range []string{"doctor", "judge", "mcp", "policyasked", "run", "search"} {
		files = append(files, "testdata/script/"+name+".txtar")
	}
	return files
}
