//go:build !race

package main

import (
	"path/filepath"
	"testing"
)

// long is for a test that is skipped under the race detector.
func long(*testing.T) {}

// scripts returns the transcripts that are run: all of the folder.
func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("the transcripts are %q, %v", files, err)
	}
	return files
}
