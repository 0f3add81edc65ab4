package tools

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// What a workspace may hold, so that all of it can be kept and listed in a line
// of the journal, and looked at again and again while programs write to it.
const (
	MaxEntries   = 1000
	MaxWorkspace = 256 << 20 // bytes, of all files: four attachments of the largest size
	maxPath      = 1024      // bytes
	MaxDepth     = 64        // folders in each other; looking at them takes the square of it
)

// MaxNames is more than there may be in a workspace: what is too much is counted a
// little further, since it may have been there from the start.
const MaxNames = 2*MaxEntries + 1

// Folder is a workspace as all that look at it share it. What is done through it
// leaves it nowhere.
type Folder struct {
	*os.Root
	walking sync.Mutex // held by who walks: no other sees what is open meanwhile
}

// Walk visits what is in a folder: the folder itself, called ".", then all else,
// each folder before what is in it, and by name. What vanishes meanwhile is not
// there. Of what cannot be looked at, visit gets the error; if it is what a folder
// holds that cannot be, in a second visit. An error that visit returns ends the
// walk and is returned, but for fs.SkipDir, which leaves out what is in a folder,
// and fs.SkipAll.
//
// Folders that are closed to their owner are open for so long as they are walked
// through: nothing may be hidden in them, and nothing may change by being
// looked at. Programs may be running in the folder: nothing that was found is relied
// on, no link is followed, and of each folder at most maxNames names are read.
func (f *Folder) Walk(visit func(name string, info fs.FileInfo, err error) error) error {
	if f == nil {
		return nil
	}
	f.walking.Lock()
	defer f.walking.Unlock()
	info, err := f.lstat(".")
	if err = f.walkFrom(".", info, err, visit); err != fs.SkipAll {
		return err
	}
	return nil
}

func (f *Folder) walkFrom(name string, info fs.FileInfo, err error, visit func(string, fs.FileInfo, error) error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = visit(name, info, err)
	if err == fs.SkipDir {
		return nil
	}
	if err != nil || info == nil || !info.IsDir() {
		return err
	}
	entries, shut, err := f.open(name, info)
	defer shut()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = visit(name, info, err)
		}
		if errors.Is(err, fs.ErrNotExist) || err == fs.SkipDir {
			err = nil
		}
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err := f.walkFrom(path.Join(name, e.Name()), info, err, visit); err != nil {
			return err
		}
	}
	return nil
}

// open returns what is in a folder, and what closes it again if it was closed.
// One that a program has given other permissions meanwhile is left as it is.
func (f *Folder) open(name string, info fs.FileInfo) (entries []fs.DirEntry, shut func(), err error) {
	shut = func() {}
	closed := info.Mode().Perm()&0o700 != 0o700
	if closed {
		if err := f.chmod(name, info.Mode()|0o700); err != nil {
			return nil, shut, err
		}
	}
	d, err := f.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		if closed {
			_ = f.chmod(name, info.Mode())
		}
		return nil, shut, err
	}
	if !closed {
		defer d.Close()
	} else {
		shut = func() { // by what was opened: its name may be another's by now
			if now, err := d.Stat(); err == nil && now.Mode() == info.Mode()|0o700 {
				_ = d.Chmod(info.Mode())
			}
			d.Close()
		}
	}
	entries, err = entriesOf(d)
	return entries, shut, err
}

// entriesOf returns what is in a folder, by name. What is known of it is asked for
// here, by the folder that is open: by its path it would take a look at each folder
// above it.
func entriesOf(d *os.File) ([]fs.DirEntry, error) {
	entries, err := d.ReadDir(MaxNames)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// lstat and chmod reach the folder itself by its place, which only this process
// has a say in: once it is closed there is no other way. What is below it they
// reach through it only.
func (f *Folder) lstat(name string) (fs.FileInfo, error) {
	if name == "." {
		return os.Lstat(f.Name())
	}
	return f.Lstat(name)
}

func (f *Folder) chmod(name string, mode fs.FileMode) error {
	if name == "." {
		return os.Chmod(f.Name(), mode)
	}
	return f.Chmod(name, mode)
}

// Enterable opens a folder that code has closed, so that a program can be started in
// it.
func (f *Folder) Enterable() error {
	if f == nil {
		return nil
	}
	f.walking.Lock()
	defer f.walking.Unlock()
	info, err := f.lstat(".")
	if err != nil || info.Mode()&0o100 != 0 {
		return err
	}
	return f.chmod(".", info.Mode()|0o700)
}

// TooDeep reports whether a folder of this name is deeper than one may be.
func TooDeep(name string) bool { return strings.Count(name, "/") >= MaxDepth }
