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
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/sign"
)

// What a workspace may hold, so that all of it can be kept and listed in a line
// of the journal.
const (
	maxEntries   = 1000
	maxWorkspace = 256 << 20 // bytes, of all files
	maxPath      = 1024      // bytes
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
	Path   string `json:"path"`            // valid UTF-8; see recordable
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
	b, err := sign.Canonical([]entry(t))
	if err != nil {
		return "", fmt.Errorf("writing down the workspace: %w", err)
	}
	return sign.Digest(b), nil
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

// find returns the entry of a path; false if there is none.
func (t tree) find(path string) (entry, bool) {
	i, found := slices.BinarySearchFunc(t, path, func(e entry, path string) int { return strings.Compare(e.Path, path) })
	if !found {
		return entry{}, false
	}
	return t[i], true
}

// recordable is a path as the journal has it. One that is not UTF-8 is quoted, after
// "./", with which no other path begins: two paths never become the same.
func recordable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return "./" + strconv.Quote(name)
}

// bits are the permissions of a file as the digest has them.
func bits(m fs.FileMode) uint32 {
	b := uint32(m.Perm())
	for i, special := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if m&special != 0 {
			b |= 0o1000 << i
		}
	}
	return b
}

// permissions are bits as the file system wants them.
func permissions(b uint32) fs.FileMode {
	m := fs.FileMode(b & 0o777)
	for i, special := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if b&(0o1000<<i) != 0 {
			m |= special
		}
	}
	return m
}

// walk looks through a workspace. What vanishes meanwhile is not there.
type walk struct {
	root  *os.Root
	found tree
	bytes int64
}

// look returns all that is in a workspace. An *unkeepable says why that cannot be
// had. Programs that were started may still be writing, so nothing that was found
// is relied on, and nothing is followed out of the root.
func look(root *os.Root) (tree, error) {
	w := &walk{root: root}
	if err := w.at("."); err != nil {
		var u *unkeepable
		if errors.As(err, &u) {
			return nil, u
		}
		return nil, &unkeepable{"it cannot be looked through: " + whyNot(err).Error()}
	}
	slices.SortFunc(w.found, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	return w.found, nil
}

func (w *walk) at(name string) error {
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(name) > maxPath {
		return &unkeepable{fmt.Sprintf("a path in it is longer than %d bytes", maxPath)}
	}
	if len(w.found) > maxEntries { // it is an entry itself
		return &unkeepable{fmt.Sprintf("there are more than %d files and folders in it", maxEntries)}
	}
	e := entry{Kind: kindOther, Mode: bits(info.Mode()), Path: recordable(name), name: name}
	switch {
	case info.IsDir():
		e.Kind = kindDir
		w.found = append(w.found, e)
		return w.inside(name, info)
	case info.Mode()&fs.ModeSymlink != 0:
		return w.link(e)
	case info.Mode().IsRegular():
		return w.file(e, info)
	}
	w.found = append(w.found, e)
	return nil
}

// inside looks through a folder, which is made readable for so long.
func (w *walk) inside(name string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := w.root.Chmod(name, info.Mode()|0o700); err != nil {
			return err
		}
		defer func() { _ = w.root.Chmod(name, permissions(bits(info.Mode()))) }()
	}
	names, err := namesIn(w.root, name, maxEntries+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := w.at(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names in a folder, at most so many.
func namesIn(root *os.Root, name string, limit int) ([]string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (w *walk) link(e entry) error {
	target, err := w.root.Readlink(e.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	e.Kind, e.Mode, e.target = kindLink, 0, target
	if utf8.ValidString(target) {
		e.Target = target
	} else {
		e.SHA256 = sign.Digest([]byte(target))
	}
	w.found = append(w.found, e)
	return nil
}

func (w *walk) file(e entry, info fs.FileInfo) error {
	if info.Size() > maxWorkspace-w.bytes { // a file may claim more than the disk holds
		return errTooMany
	}
	f, err := openFile(w.root, e.name, info)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, maxWorkspace-w.bytes+1))
	if err != nil {
		return err
	}
	if w.bytes += n; w.bytes > maxWorkspace {
		return errTooMany
	}
	e.Kind, e.SHA256, e.size = kindFile, sign.DigestOf(sum), n
	w.found = append(w.found, e)
	return nil
}

var errTooMany = &unkeepable{fmt.Sprintf("its files are larger than %d MiB together", maxWorkspace>>20)}

// openFile opens a regular file for reading, also one that nobody may read.
func openFile(root *os.Root, name string, info fs.FileInfo) (*os.File, error) {
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
