//go:build linux || darwin

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// stampOf says of a file what changes when anybody writes to it, and when that was
// last. No user can set the time of the last change (ctime); what is written through
// a shared mapping moves it only when it is flushed to the file. ok is false where
// there is none.
func stampOf(info fs.FileInfo) (stamp string, changed time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	modified, changed := fileTimes(s)
	stamp = fmt.Sprint(s.Dev, s.Ino, s.Mode, s.Size, modified.UnixNano(), changed.UnixNano())
	if modified.After(changed) {
		return stamp, modified, true
	}
	return stamp, changed, true
}

// isOwn reports whether a file belongs to who runs this program.
func isOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
