package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// Workspace is the folder of an attempt, what it was at the start, and a copy of
// what it was when it was kept last. The copy lies beside the folder, out of sight
// of what runs in it. It is for one goroutine at a time.
//
// Nothing is made or looked at before it is needed: where no tool writes, a workspace
// without files costs nothing.
type Workspace struct {
	root    *Folder // nil: the folder is not made yet
	dir     string
	like    *Untouched
	store   *os.Root        // files by the hex digits of their digest; nil: nothing was kept yet
	stored  map[string]bool // digests
	start   tree
	kept    tree // as it was kept last; nil: never
	keptSum string
	lines   written
	shared  bool // with an own agent, whose pipes and sockets are left alone
}

// KeptSuffix makes the name of the folder that the copy is in. One that a process
// has left that died is of no use.
const KeptSuffix = ".kept"

// OpenWorkspace takes an existing folder as it is for the start of an attempt.
func OpenWorkspace(dir string) (*Workspace, error) {
	w := NewWorkspace(dir, nil)
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// Untouched is what the workspaces are that one process makes in one folder, before anything changes them: they are alike.
type Untouched struct {
	mu  sync.Mutex
	sum string // digest; "": none was looked at yet
}

// NewWorkspace returns the workspace of an attempt without files. Its folder is made
// when a call may change it.
func NewWorkspace(dir string, like *Untouched) *Workspace {
	return &Workspace{dir: dir, like: like, stored: map[string]bool{}, lines: written{byFile: map[string]map[uint64]int{}}}
}

// MakeFolder makes an empty folder for a workspace. What an attempt has left there that
// never began is removed.
func MakeFolder(dir string) error {
	if os.Mkdir(dir, 0o755) == nil {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// make makes the folder, unless that was done.
func (w *Workspace) make() error {
	if w.root != nil {
		return nil
	}
	err := MakeFolder(w.dir)
	if err == nil {
		err = w.open()
	}
	return err
}

func (w *Workspace) open() error {
	root, err := os.OpenRoot(w.dir)
	if err == nil {
		w.root = &Folder{Root: root}
	}
	return err
}

// Root is the folder, which nothing that is done through it leaves.
func (w *Workspace) Root() *os.Root { return w.root.Root }

// Close gives up the copy. The folder stays.
func (w *Workspace) Close() error {
	if w.root == nil {
		return nil
	}
	errs := []error{w.root.Close()}
	if w.store != nil {
		errs = append(errs, w.store.Close(), os.RemoveAll(w.dir+KeptSuffix))
	}
	return errors.Join(errs...)
}

// keep makes a copy of the workspace as it is, of those files only that the last
// copy has not. Pipes, sockets and devices cannot be copied: they are removed, and
// their paths returned. An *unkeepable says why the workspace cannot be kept; the
// last copy remains then.
func (w *Workspace) keep() (removed []string, err error) {
	if err := w.make(); err != nil {
		return nil, err
	}
	if w.store == nil {
		dir := w.dir + KeptSuffix
		err := os.RemoveAll(dir) // of a process that died
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			w.store, err = os.OpenRoot(dir)
		}
		if err != nil {
			return nil, err
		}
	}
	now, err := look(w.root, func(e *entry, content io.ReadSeeker) error {
		switch {
		case e.Kind == kindOther && w.shared:
		case e.Kind == kindOther:
			if err := w.root.Remove(e.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return &unkeepable{"a pipe, socket or device in it cannot be removed"}
			}
			removed = append(removed, e.Path)
		case e.Kind == kindFile && !w.stored[e.SHA256]:
			return w.copyIn(e, content)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(removed)
	now = slices.DeleteFunc(now, func(e entry) bool { return e.Kind == kindOther })
	sum, err := now.digest()
	if err != nil {
		return nil, err
	}
	if w.kept == nil {
		w.start = now
	} else {
		for _, path := range changed(w.kept, now) {
			texts, err := w.texts(path, w.kept, now)
			if err != nil {
				return nil, err
			}
			w.lines.follow(path, texts[0].data, texts[1].data)
		}
	}
	w.kept, w.keptSum = now, sum
	used := map[string]bool{}
	for _, e := range slices.Concat(w.start, w.kept) {
		used[e.SHA256] = true
	}
	for digest := range w.stored { // what neither the start nor the last copy has
		if used[digest] {
			continue
		}
		if err := w.store.Remove(blob(digest)); err != nil {
			return removed, fmt.Errorf("%w: %w", errStore, err)
		}
		delete(w.stored, digest)
	}
	return removed, nil
}

// now looks at the workspace. Nothing, "", is returned of one that cannot be kept. One whose folder is not made is as others
// were, of which the first is made for that.
func (w *Workspace) now() (found tree, sum string, err error) {
	if w.root == nil {
		w.like.mu.Lock()
		defer w.like.mu.Unlock()
		if w.like.sum != "" {
			return nil, w.like.sum, nil
		}
		if err := w.make(); err != nil {
			return nil, "", err
		}
		defer func() { w.like.sum = sum }()
	}
	if found, err = look(w.root, nil); errors.As(err, new(*unkeepable)) {
		return nil, "", nil
	}
	if err == nil {
		sum, err = found.digest()
	}
	return found, sum, err
}

// errStore is that the copy cannot be made, whatever the workspace is.
var errStore = errors.New("copying the workspace")

// copyIn copies a file to the store, under the digest of what was copied: it may
// have changed since it was looked at.
func (w *Workspace) copyIn(e *entry, content io.ReadSeeker) error {
	const unnamed = "new"
	out, err := w.store.OpenFile(unnamed, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		defer out.Close()
		_, err = content.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = e.readFile(io.TeeReader(content, out), MaxWorkspace)
	}
	if err == errTooMany {
		return err
	}
	if err == nil {
		err = errors.Join(out.Close(), w.store.Rename(unnamed, blob(e.SHA256)))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	w.stored[e.SHA256] = true
	return nil
}

func blob(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// restore makes the workspace as it was kept last: everything in it is removed
// and made again, so that it does not matter what has become of it. Nothing that the
// attempt started may be running.
func (w *Workspace) restore() error {
	err := empty(w.root)
	for _, e := range w.kept {
		if err == nil {
			err = w.putBack(e)
		}
	}
	for _, e := range slices.Backward(w.kept) { // a folder last, when it is full
		if err == nil && e.Kind == kindDir {
			err = w.root.Chmod(e.name, permissions(e.Mode))
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the workspace: %w", err)
	}
	return nil
}

func (w *Workspace) putBack(e entry) error {
	switch e.Kind {
	case kindDir:
		if e.name == "." {
			return nil
		}
		return w.root.Mkdir(e.name, 0o700)
	case kindLink:
		return w.root.Symlink(e.target, e.name)
	}
	in, err := w.store.Open(blob(e.SHA256))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := w.root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(permissions(e.Mode)), out.Close())
}

// empty removes everything in a folder, however much there is of it and however
// deep it is nested: the folders in a folder in it are moved up before it is removed,
// so that no path becomes long.
func empty(root *Folder) error {
	if err := root.chmod(".", 0o700); err != nil {
		return err
	}
	moved := 0
	return eachIn(root, ".", func(name string) error {
		isDir, err := opened(root, name)
		if err != nil {
			return err
		}
		if isDir {
			err = eachIn(root, name, func(inner string) error {
				inner = path.Join(name, inner)
				isDir, err := opened(root, inner)
				if err != nil {
					return err
				}
				if !isDir {
					return root.Remove(inner)
				}
				for {
					moved++
					to := fmt.Sprintf("gone-%d", moved)
					if _, err := root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
						return root.Rename(inner, to)
					}
				}
			})
		}
		if err != nil {
			return err
		}
		return root.Remove(name)
	})
}

// opened reports whether a name is of a folder, which it opens to its owner: it cannot
// be listed or moved otherwise.
func opened(root *Folder, name string) (isDir bool, err error) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return false, err
	}
	return true, root.Chmod(name, 0o700)
}

// eachIn does something that takes each name out of a folder, until there is none.
func eachIn(root *Folder, dir string, do func(name string) error) error {
	for {
		d, err := root.OpenFile(dir, os.O_RDONLY|nonblock, 0)
		if err != nil {
			return err
		}
		entries, err := entriesOf(d)
		d.Close()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := do(e.Name()); err != nil {
				return err
			}
		}
	}
}
