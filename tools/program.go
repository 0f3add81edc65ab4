package tools

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// filterFD is the descriptor from which bubblewrap reads its system-call filter.
const filterFD = "3"

// A program is a command that may be one of bubblewrap. Start and Run hand over
// the filter of system calls, where the command asks for one.
type program struct {
	*exec.Cmd
}

// Start starts the program, or returns an error where there is no filter for it.
func (p *program) Start() error {
	if len(p.Args) < 3 || p.Args[1] != "--seccomp" {
		return p.Cmd.Start()
	}
	filter, err := callFilter(slices.Contains(p.Args[:slices.Index(p.Args, "--")], "--share-net"))
	if err != nil {
		return err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("handing over the system-call filter: %w", err)
	}
	defer from.Close()
	_, err = to.Write(filter) // far below what a pipe holds
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("handing over the system-call filter: %w", err)
	}
	p.ExtraFiles = []*os.File{from}
	return p.Cmd.Start()
}

// Run starts the program and waits for its end.
func (p *program) Run() error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Wait()
}
