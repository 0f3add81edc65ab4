// Package durable creates files that survive a crash.
//
// A file is written under a temporary name, synced, and then given its final name without replacing another file; the
// directory is synced last. After a crash the file is either complete or absent. A file system without hard links gets
// an exclusive empty file that is replaced (TestPutNew). A failed sync is final: no function retries one.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// WriteAside writes a new file in a directory durably, to be linked or renamed to its place, and returns its name.
// Nothing is left of one that fails.
func WriteAside(dir string, content []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(content); err != nil {
		return "", err
	}
	if err := f.Chmod(mode); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// PutNew gives a file from [WriteAside] its final name. It replaces nothing: if path exists, the error matches
// fs.ErrExist. The temporary name may remain.
func PutNew(aside, path string) error { return putNew(aside, path, os.Link) }

// putNew links, which replaces nothing. On a file system without links (FAT, some network mounts) it creates an empty
// file exclusively and then replaces it; a process killed in between leaves the empty file.
func putNew(aside, path string, link func(from, to string) error) error {
	err := link(aside, path)
	if errors.Is(err, fs.ErrExist) && SameFile(aside, path) {
		return nil // a network mount repeated a request that had succeeded
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Rename(aside, path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SyncDir syncs a directory, so that the names in it survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// SameFile reports whether two paths name the same file. It does not follow links.
func SameFile(a, b string) bool {
	one, err := os.Lstat(a)
	if err != nil {
		return false
	}
	other, err := os.Lstat(b)
	return err == nil && os.SameFile(one, other)
}

// NoPlace reports whether an error is that nothing can be created in a place: a disk that is full or read-only, a limit
// of file sizes, or no directory.
func NoPlace(err error) bool {
	var at *fs.PathError
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.ENOTDIR) || errors.As(err, &at) && at.Op == "mkdir"
}
