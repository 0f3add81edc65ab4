package main

import (
	"syscall"
	"time"
)

// fileTimes are when a file was modified, and when it was last changed.
func fileTimes(s *syscall.Stat_t) (modified, changed time.Time) {
	return time.Unix(s.Mtim.Unix()), time.Unix(s.Ctim.Unix())
}
