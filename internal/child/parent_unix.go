//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// EndWithParent does nothing: only Linux has a signal for it.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{} }
