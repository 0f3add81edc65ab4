//go:build unix

package tools

import "syscall"

// nonblock keeps an open from waiting for the other end of a pipe that has taken
// the place of a file.
const nonblock = syscall.O_NONBLOCK
