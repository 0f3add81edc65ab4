package long

import "golang.org/x/sys/unix"

// usable reports whether a directory is in memory, holds programs that may be
// started, and has room for the tests of several packages at once.
func usable(dir string) bool {
	var at unix.Statfs_t
	err := unix.Statfs(dir, &at)
	return err == nil && at.Type == unix.TMPFS_MAGIC && at.Flags&unix.ST_NOEXEC == 0 &&
		int64(at.Bavail)*at.Bsize >= 4<<30 && unix.Access(dir, unix.W_OK) == nil
}
