package child

import (
	"os/exec"
	"syscall"
)

// EndWithParent has the kernel kill a child when the thread that started it ends. Go
// ends a thread early only if a goroutine returns that is locked to it, and no code
// here locks one.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
