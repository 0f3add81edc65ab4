//go:build linux || darwin

package document

import (
	"fmt"
	"os"
	"syscall"
)

// confine has the system limit this process: time, memory, and no files
// written.
func (l limits) confine() error {
	most := []struct {
		resource int
		value    uint64
	}{{syscall.RLIMIT_CPU, l.cpu}, {syscall.RLIMIT_FSIZE, 0}, {syscall.RLIMIT_CORE, 0}}
	for _, m := range most {
		if err := lower(m.resource, m.value); err != nil {
			return err
		}
	}
	// What is mapped already counts, and a race detector maps terabytes. Twice
	// the memory: what is mapped is more than what is used, which is watched.
	var pages, data uint64
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return nil // not Linux: only Linux holds a process to its memory
	}
	if _, err := fmt.Sscan(string(statm), &pages, &pages, &pages, &pages, &pages, &data); err != nil {
		return fmt.Errorf("reading the size of this process: %w", err)
	}
	return lower(syscall.RLIMIT_DATA, data*uint64(os.Getpagesize())+2*uint64(l.memory))
}

// lower sets a limit for good, unless a lower one holds.
func lower(resource int, value uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value})
}
