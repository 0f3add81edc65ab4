//go:build unix

// Package child starts programs in a process group and ends them as a whole.
//
// Each child leads its own group; Kill signals the group, so that programs that the child started end too. On Linux the
// kernel also ends the child when this process dies; in the sandbox bubblewrap sees to that itself. On systems without
// process groups only the child itself is killed.
// The readers of documents, the sandbox, MCP servers and custom evaluators start their programs this way.
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
