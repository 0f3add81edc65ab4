package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// filterFD is the descriptor from which bubblewrap reads its system-call filter.
const filterFD = "3"

// A Program is a command that may be one of bubblewrap. Start and Run hand over
// the filter of system calls, where the command asks for one.
type Program struct {
	*exec.Cmd
	netlink   bool       // its filter lets it list the network's interfaces
	files     []*os.File // that it gets after its filter; Start closes them
	cgroups   string     // directory in which it gets a control group; "": it gets none
	memory    int64      // limits of that group
	tasks     int64
	group     cgroup
	exhausted bool // it ended since its group used all of its memory; set by Wait
}

// Start starts the program, or returns an error where it cannot have its filter
// and its group.
func (p *Program) Start() (err error) {
	defer closeAll(p.files)
	if len(p.Args) > 2 && p.Args[1] == "--seccomp" {
		var from, to *os.File
		filter, err := callFilter(p.netlink)
		if err == nil {
			from, to, err = os.Pipe()
		}
		if err == nil {
			defer from.Close()
			_, err = to.Write(filter) // it is far below what a pipe holds
			err = errors.Join(err, to.Close())
		}
		if err != nil {
			return fmt.Errorf("handing over the system-call filter: %w", err)
		}
		p.ExtraFiles = append([]*os.File{from}, p.files...)
	}
	if p.cgroups != "" {
		if p.group, err = newCgroup(p.cgroups, p.memory, p.tasks); err != nil {
			return err
		}
	}
	if err = p.group.start(p.Cmd); err != nil {
		p.group.remove()
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Wait waits for the end of the program and removes its group.
func (p *Program) Wait() error {
	err := p.Cmd.Wait()
	p.exhausted = p.group != "" && p.group.exhausted()
	p.group.remove()
	return err
}

// Run starts the program and waits for its end.
func (p *Program) Run() error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Wait()
}
