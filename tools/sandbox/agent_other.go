//go:build !linux

package sandbox

import (
	"errors"
	"os"
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
