//go:build !unix

package child

import "os/exec"

// Group does nothing where there are no process groups: the command alone is killed.
func Group(*exec.Cmd) {}

// Kill does nothing.
func Kill(*exec.Cmd) {}

// EndWithParent does nothing.
func EndWithParent(*exec.Cmd) {}
