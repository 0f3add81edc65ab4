package submit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// maxInMemory is how much of an archive's files is kept in memory, in bytes.
const maxInMemory = 32 << 20

// ScratchError is the error of a directory in which an archive's files could not
// be kept: nothing is known of the archive.
type ScratchError struct {
	Dir string
	Err error
}

func (e *ScratchError) Error() string {
	return fmt.Sprintf("keeping what the archive holds in %q: %v", e.Dir, e.Err)
}

func (e *ScratchError) Unwrap() error { return e.Err }

// spool keeps what is written to it: in memory, and all of it in a file without a
// name once that is too much.
type spool struct {
	dir    string
	memory []byte
	file   *os.File
	size   int64
	err    error // of writing
}

func (s *spool) Write(p []byte) (n int, err error) {
	if s.file == nil && s.size+int64(len(p)) > maxInMemory {
		if s.err = s.spill(); s.err != nil {
			return 0, s.err
		}
	}
	if s.file == nil {
		s.memory = append(s.memory, p...)
		n = len(p)
	} else {
		n, s.err = s.file.Write(p)
	}
	s.size += int64(n)
	return n, s.err
}

// spill makes the file and writes to it what is in memory.
func (s *spool) spill() (err error) {
	if s.file, err = os.CreateTemp(s.dir, ".new-archive-*"); err != nil {
		return err
	}
	if err := os.Remove(s.file.Name()); err != nil { // nobody can open it, and it goes when we do
		return err
	}
	_, err = s.file.Write(s.memory)
	s.memory = nil
	return err
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// at returns what was written from an offset on.
func (s *spool) at(offset, size int64) *io.SectionReader {
	if s.file != nil {
		return io.NewSectionReader(s.file, offset, size)
	}
	return io.NewSectionReader(bytes.NewReader(s.memory), offset, size)
}

// entry is a file of an archive: where it is kept, and how large it is.
type entry struct {
	name     string
	at, size int64
}

// archiveFS is the folder that an archive holds: its files and nothing else.
type archiveFS struct{ a *Archive }

func (f archiveFS) Open(name string) (fs.File, error) {
	info, err := f.info("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		list, err := f.ReadDir(name)
		return &archiveDir{info, list}, err
	}
	return archiveFile{f.a.content.at(info.at, info.size), info}, nil
}

func (f archiveFS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.info("stat", name)
	if err != nil { // a nil of a type would be no nil
		return nil, err
	}
	return info, nil
}

func (f archiveFS) ReadDir(name string) ([]fs.DirEntry, error) {
	info, err := f.info("readdir", name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	var list []fs.DirEntry
	for _, e := range f.a.entries {
		list = append(list, fs.FileInfoToDirEntry(archiveInfo{e, f.a.date}))
	}
	return list, nil
}

func (f archiveFS) info(op, name string) (archiveInfo, error) {
	if name == "." {
		return archiveInfo{entry{name: "."}, f.a.date}, nil
	}
	at := slices.IndexFunc(f.a.entries, func(e entry) bool { return e.name == name })
	switch {
	case !fs.ValidPath(name):
		return archiveInfo{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	case at < 0:
		return archiveInfo{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return archiveInfo{f.a.entries[at], f.a.date}, nil
}

// archiveInfo is of a file, or of the folder, which is called ".".
type archiveInfo struct {
	entry
	date time.Time
}

func (i archiveInfo) Name() string       { return i.name }
func (i archiveInfo) Size() int64        { return i.size }
func (i archiveInfo) ModTime() time.Time { return i.date }
func (i archiveInfo) IsDir() bool        { return i.name == "." }
func (i archiveInfo) Sys() any           { return nil }

func (i archiveInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

type archiveFile struct {
	*io.SectionReader
	info archiveInfo
}

func (f archiveFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f archiveFile) Close() error               { return nil }

// archiveDir is the folder when it is open; left is what was not listed yet.
type archiveDir struct {
	info archiveInfo
	left []fs.DirEntry
}

func (d *archiveDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *archiveDir) Close() error               { return nil }

func (d *archiveDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: errors.New("is a directory")}
}

func (d *archiveDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.left)
	} else if len(d.left) == 0 {
		return nil, io.EOF
	}
	list := d.left[:min(n, len(d.left))]
	d.left = d.left[len(list):]
	return list, nil
}
