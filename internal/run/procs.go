package run

import "runtime"

// Procs is the GOMAXPROCS of a process that executes runs: one more than Go
// chose, since the goroutine that syncs the journal keeps its place among them
// while it waits for the disk.
func Procs() int { return runtime.GOMAXPROCS(0) + 1 }
