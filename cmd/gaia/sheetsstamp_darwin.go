package main

import (
	"syscall"
	"time"
)

// fileTimes are when a file was modified, and when it was last changed.
func fileTimes(s *syscall.Stat_t) (modified, changed time.Time) {
	return time.Unix(s.Mtimespec.Unix()), time.Unix(s.Ctimespec.Unix())
}
