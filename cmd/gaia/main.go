// Command gaia runs GAIA-style benchmarks with an LLM agent, records evidence
// of everything the agent did, scores the answers and signs the result.
//
// Each command has a file of its own. The result of a command goes to standard
// output, everything else to standard error. A failure is one line "gaia:
// error: …" and, where there is something to do, lines "gaia: hint: …": lower
// case, no full stop. exit.go lists the exit codes. Only this package reads the
// environment.
package main

import (
	"fmt"
	"os"
	"syscall"
)

// leastMemory is the smallest address space, in bytes, that a run works in. Below it the Go
// runtime ends the program in the middle, with the exit code of bad usage.
const leastMemory = 2 << 30

func main() {
	a := newApp()
	if err := checkMemory(); err != nil {
		os.Exit(a.exit(err))
	}
	os.Exit(a.exit(a.execute(os.Args[1:])))
}

// checkMemory refuses a limit of the address space that is too low.
func checkMemory() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err != nil || limit.Cur >= leastMemory {
		return nil // without a known limit there is nothing to refuse
	}
	return fail(exitFailure, fmt.Errorf("the address space is limited to %d MiB, and gaia needs %d MiB", limit.Cur>>20, leastMemory>>20),
		"raise the limit of this shell: ulimit -v unlimited")
}
