//go:build unix

// Package child starts programs so that nothing of them is left: each leads a process
// group, which is killed as a whole, also (on Linux) when this process dies.
package child

import (
	"os/exec"
	"syscall"
)

// Group has a command start a process group, which is killed as a whole when the
// command's context ends or, where the system can, when this process dies.
func Group(cmd *exec.Cmd) {
	EndWithParent(cmd)
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Kill kills what a command that has ended left running in its group.
func Kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is mostly nothing left
}
