//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

var errLinux = errors.New("only Linux has sandboxes")

// A namespace is the process namespace of a program in the sandbox, which only Linux has.
type namespace struct{ confined trajectory.Confinement }

func openNamespace(int) (*namespace, error) { return nil, errLinux }

func (*namespace) check([]string, bool) error { return errLinux }

func (*namespace) count() error { return errLinux }

func (*namespace) kill() {}

func (*namespace) gone(time.Duration) error { return errLinux }

func (*namespace) close() error { return nil }

func socketPair() (ours, theirs *os.File, err error) { return nil, nil, errLinux }

func agentRlimits(AgentLimits) string { return "" }

// A cgroup is a control group, which only Linux has.
type cgroup string

func closeInherited() {}

func findCgroups() (string, error) { return "", errors.New("only Linux has control groups") }

func newCgroup(string, int64, int64) (cgroup, error) {
	return "", errors.New("only Linux has control groups")
}

func (cgroup) start(cmd *exec.Cmd) error { return cmd.Start() }

func (cgroup) exhausted() bool { return false }

func (cgroup) remove() {}

// processesOf sees nothing: here python runs unconfined or not at all.
func processesOf(int, bool, limits) usage { return usage{} }

func allocated(fs.FileInfo) int64 { return 0 }
