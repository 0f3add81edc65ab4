package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// readFile reads a regular file of at most limit bytes. It waits for no pipe.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > limit:
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
