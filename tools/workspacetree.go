package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
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
