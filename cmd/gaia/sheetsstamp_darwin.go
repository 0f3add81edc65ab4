package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// stampOf says of a file what changes whenever anybody writes to it, and when that
// was last. No user can set the time of the last change (ctime); ok is false where
// there is none.
func stampOf(info fs.FileInfo) (stamp string, changed time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	modified, changed := time.Unix(s.Mtimespec.Unix()), time.Unix(s.Ctimespec.Unix())
	if modified.After(changed) {
		return fmt.Sprint(s.Dev, s.Ino, s.Mode, s.Size, modified.UnixNano(), changed.UnixNano()), modified, true
	}
	return fmt.Sprint(s.Dev, s.Ino, s.Mode, s.Size, modified.UnixNano(), changed.UnixNano()), changed, true
}

// isOwn reports whether a file belongs to who runs this program.
func isOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
