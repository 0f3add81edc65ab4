package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// unkeepable is why a workspace cannot be kept as it is, for the model.
type unkeepable struct{ text string }

func (e *unkeepable) Error() string { return e.text }

// The kinds of what lies in a workspace.
const (
	kindFile  = "file"
	kindDir   = "dir"
	kindLink  = "link"
	kindOther = "other" // a pipe, a socket or a device: it has no content to keep
)

// entry is one thing in a workspace, the workspace itself among them. Its JSON
// form is what the digest of a tree is over.
type entry struct {
	Kind   string `json:"kind"`
	Mode   uint32 `json:"mode,omitzero"`   // permission bits, those of setuid, setgid and sticky included; links have none
	Path   string `json:"path"`            // valid UTF-8; see look
	SHA256 string `json:"sha256,omitzero"` // of a file, and of a link's target that is not UTF-8
	Target string `json:"target,omitzero"` // of a link
	name   string // the path as the file system has it
	target string
	size   int64 // of a file, in bytes
}

// tree is a workspace at a moment, sorted by path.
type tree []entry

// digest is that of the canonical JSON array of the entries.
func (t tree) digest() (string, error) {
	b, err := canonical.Encode([]entry(t))
	if err != nil {
		return "", fmt.Errorf("encoding the workspace: %w", err)
	}
	return canonical.Digest(b), nil
}

// changed returns the paths at which two trees differ, sorted.
func changed(a, b tree) []string {
	before := make(map[string]entry, len(a))
	for _, e := range a {
		before[e.Path] = e
	}
	paths := []string{}
	for _, e := range b {
		if before[e.Path] != e {
			paths = append(paths, e.Path)
		}
		delete(before, e.Path)
	}
	for p := range before {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// find returns the entry of a path; one without a kind if there is none.
func (t tree) find(path string) entry {
	i, found := slices.BinarySearchFunc(t, path, func(e entry, path string) int { return strings.Compare(e.Path, path) })
	if !found {
		return entry{}
	}
	return t[i]
}

// specialBits are the permissions besides reading, writing and executing, from 0o1000 on.
var specialBits = []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid}

// bits are the permissions of a file as the digest has them.
func bits(m fs.FileMode) uint32 {
	b := uint32(m.Perm())
	for i, special := range specialBits {
		if m&special != 0 {
			b |= 0o1000 << i
		}
	}
	return b
}

// permissions is the inverse of bits.
func permissions(b uint32) fs.FileMode {
	m := fs.FileMode(b & 0o777)
	for i, special := range specialBits {
		if b&(0o1000<<i) != 0 {
			m |= special
		}
	}
	return m
}

// look returns all that is in a workspace. An *unkeepable says why that cannot be
// had. Unless take is nil it gets each entry, of a file with its content, while the
// folder that it is in is open, and may correct the entry.
func look(f *Folder, take func(e *entry, content io.ReadSeeker) error) (tree, error) {
	var found tree
	left := int64(MaxWorkspace)
	err := f.Walk(func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case len(name) > maxPath:
			return &unkeepable{fmt.Sprintf("a path in it is longer than %d bytes", maxPath)}
		case len(found) > MaxEntries: // it is an entry itself
			return &unkeepable{fmt.Sprintf("there are more than %d files and folders in it", MaxEntries)}
		}
		// A path that is not UTF-8 is quoted, after "./", with which no other path begins: two never become the same.
		e := entry{Kind: kindOther, Mode: bits(info.Mode()), Path: name, name: name}
		if !utf8.ValidString(name) {
			e.Path = "./" + strconv.Quote(name)
		}
		var content *os.File
		switch {
		case info.IsDir():
			e.Kind = kindDir
		case info.Mode()&fs.ModeSymlink != 0:
			e.Kind, e.Mode = kindLink, 0
			if e.target, err = f.Readlink(name); !utf8.ValidString(e.target) {
				e.SHA256 = canonical.Digest([]byte(e.target))
			} else {
				e.Target = e.target
			}
		case info.Mode().IsRegular():
			if info.Size() > left { // a file may claim more than the disk holds
				return errTooMany
			}
			if content, err = openFile(f, name, info); err == nil {
				defer content.Close()
				err = e.readFile(content, left)
				left -= e.size
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && take != nil {
			err = take(&e, content)
		}
		found = append(found, e)
		return err
	})
	switch u, bad := errors.AsType[*unkeepable](err); {
	case bad:
		return nil, u
	case errors.Is(err, errStore):
		return nil, err
	case err != nil:
		return nil, &unkeepable{"it cannot be looked through: " + whyNot(err).Error()}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

// readFile notes the content of a file, of which so many bytes may be.
func (e *entry) readFile(content io.Reader, limit int64) error {
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(content, limit+1))
	if err != nil {
		return err
	}
	if n > limit {
		return errTooMany
	}
	e.Kind, e.SHA256, e.size = kindFile, canonical.DigestOf(sum), n
	return nil
}

var errTooMany = &unkeepable{fmt.Sprintf("its files are larger than %d MiB together", MaxWorkspace>>20)}

// openFile opens a regular file for reading, also one that no one may read.
func openFile(root *Folder, name string, info fs.FileInfo) (*os.File, error) {
	if info.Mode().Perm()&0o400 == 0 {
		if err := root.Chmod(name, info.Mode()|0o400); err != nil {
			return nil, err
		}
		defer func() { _ = root.Chmod(name, permissions(bits(info.Mode()))) }()
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !now.Mode().IsRegular() {
		f.Close()
		return nil, &unkeepable{"a file in it changes while it is looked at"}
	}
	return f, nil
}

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
