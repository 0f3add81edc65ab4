package tools

import "syscall"

// endWithParent has the kernel kill a child when the thread that started it ends. Go
// ends a thread early only if a goroutine returns that is locked to it, and no code
// here locks one.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
