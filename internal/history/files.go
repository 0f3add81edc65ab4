package history

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"golang.org/x/sys/unix"
)

// settled is how long a file must have been left alone before what was read of it is kept: one that is
// written to within the same tick of the file system's clock has the same times after it.
const settled = 2 * time.Second

// Stamp returns the digest of what changes when a file is written to: device, inode, mode, size, and the
// times of its changes, of the last of which (ctime) no user can set the value. What is written through a
// shared mapping moves it only when it is flushed to the file. A file that is not there counts as that. by is part of
// the digest: the program that read the files. keep is false where a file was changed less than two seconds
// before now, or has no stamp. Names are relative to path; "." is path.
func Stamp(path string, names []string, by string, now time.Time) (stamp string, keep bool) {
	text := path + "\n" + by
	keep = true
	for _, name := range names {
		var s unix.Stat_t
		err := unix.Lstat(filepath.Join(path, name), &s)
		if errors.Is(err, fs.ErrNotExist) {
			text += fmt.Sprintf("\n%q absent", name)
			continue
		}
		if err != nil {
			return "", false
		}
		modified, changed := time.Unix(s.Mtim.Unix()), time.Unix(s.Ctim.Unix())
		text += fmt.Sprintf("\n%q %d %d %d %d %d %d", name, s.Dev, s.Ino, s.Mode, s.Size, modified.UnixNano(), changed.UnixNano())
		keep = keep && changed.Before(now.Add(-settled)) && modified.Before(now.Add(-settled))
	}
	return canonical.Digest([]byte(text)), keep
}

// RemovalPrefix begins the name of a folder that is being removed.
const RemovalPrefix = ".pruning-"

// RealPath returns the absolute path that a path leads to.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil
}
