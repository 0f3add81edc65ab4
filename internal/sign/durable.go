package sign

import (
	"errors"
	"io/fs"
	"os"
)

// WriteAside writes a new file in a directory durably, to be linked or renamed
// to its place, and returns its name. Nothing is left of one that fails.
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

// PutNew gives a file that was written aside its name, where no file may be: then the error
// matches fs.ErrExist. The name aside may stay.
func PutNew(aside, path string) error { return putNew(aside, path, os.Link) }

// putNew links, which replaces nothing. Where a file system has no links (FAT, some
// network mounts), the name is taken by an empty file that nobody else can have made,
// which is then replaced; who is killed in between leaves it.
func putNew(aside, path string, link func(from, to string) error) error {
	err := link(aside, path)
	if errors.Is(err, fs.ErrExist) && sameFile(aside, path) {
		return nil // a network mount asked twice, and the first time made it
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

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
