// Command gaia runs GAIA-style benchmarks with an LLM agent, records evidence
// of everything the agent did, scores the answers and signs the result.
//
// Each command has a file of its own. The result of a command goes to standard
// output, everything else to standard error. A failure is one line "gaia:
// error: …" and, where there is something to do, lines "gaia: hint: …": lower
// case, no full stop. exit.go lists the exit codes. Only this package reads the
// environment.
package main

import "os"

func main() {
	a := newApp()
	os.Exit(a.exit(a.execute(os.Args[1:])))
}
