package main

import (
	"slices"
	"testing"
)

// TestGravity: of exit codes that hold at once one order says which is told.
func TestGravity(t *testing.T) {
	want := []int{exitInterrupted, exitUsage, exitEvidence, exitUntrusted, exitIncomplete, exitFindings, exitFailure, exitOK}
	got := slices.Sorted(slices.Values(want))
	slices.SortStableFunc(got, byGravity)
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
}
