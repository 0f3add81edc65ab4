// Package agentdir reads the folders of an own agent: the one with its program, and those that it is given besides.
//
// Every regular file of a folder is listed with its size and digest, whatever its name, and every symbolic link with its
// target. Nothing is left out, so that a reader of the run knows each byte that the agent could read there. A link is not
// followed: what it points at is listed only where it lies in a folder itself. Folders are not listed, and neither are
// times, owners and permissions, except whether a file can be executed: the same files give the same bytes on any machine
// (TestRead). What is neither file, folder nor link is refused, as are names that are not UTF-8 and files that cannot be
// read or change meanwhile (TestReadRefuses). Files are hashed in parallel, within the limits of the plan.
package agentdir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/view"
	"golang.org/x/sync/errgroup"
)

// Error is a folder that an agent cannot have. Path is what of it is the reason.
type Error struct {
	Path, Reason, Hint string
}

func (e *Error) Error() string { return fmt.Sprintf("the agent's %q %s", e.Path, e.Reason) }

// Complete reads the folders whose paths an own agent's plan has, and completes it with what is there. No folder may hold or lie in
// what is hidden from agents, and the program must be there. It also returns the bytes of plan.AgentFilesFile.
func Complete(ctx context.Context, own plan.AgentPlan, hidden []string) (plan.AgentPlan, []byte, error) {
	var paths []string
	for _, f := range own.Folders {
		paths = append(paths, f.Path)
	}
	if err := checkHidden(paths, hidden); err != nil {
		return own, nil, err
	}
	folders, files, err := Read(ctx, paths[0], paths[1:])
	if err == nil && !filepath.IsAbs(own.Command[0]) {
		err = CheckProgram(folders[0].Path, files, own.Command[0])
	}
	own.Folders, own.FilesSHA256, own.Probed, own.SystemSHA256 = folders, canonical.Digest(files), nil, SystemDigest("/")
	if err == nil {
		if reason := own.Fault(); reason != "" {
			err = &Error{paths[0], "cannot be planned: " + reason, "rename the folder, or correct its settings below agent"}
		}
	}
	return own, files, err
}

// Read lists the agent's folder and the others that it is given. It returns them as the plan holds them, with the paths
// that they have without symbolic links, and the bytes of plan.AgentFilesFile. A fault of a folder is an *Error.
func Read(ctx context.Context, folder string, others []string) ([]plan.AgentFolder, []byte, error) {
	paths, err := places(append([]string{folder}, others...))
	if err != nil {
		return nil, nil, err
	}
	var folders []plan.AgentFolder
	var listed []byte
	files, size := 0, int64(0)
	for i, path := range paths {
		found, err := list(ctx, path, &files, &size)
		if err != nil {
			return nil, nil, err
		}
		f, begin := plan.AgentFolder{Path: path, Files: len(found)}, len(listed)
		for _, file := range found {
			file.Folder = i
			f.Bytes += file.Bytes
			if listed, err = canonical.Append(listed, file); err != nil {
				return nil, nil, err
			}
			listed = append(listed, '\n')
		}
		if len(listed) > plan.MaxAgentList {
			return nil, nil, tooMuch(path, fmt.Sprintf("has names of more than %d MiB", plan.MaxAgentList>>20))
		}
		f.SHA256 = canonical.Digest(listed[begin:])
		folders = append(folders, f)
	}
	return folders, listed, nil
}

func tooMuch(path, reason string) *Error {
	return &Error{path, reason, "leave out what the agent does not need, such as caches, models and data sets"}
}

// places returns the absolute paths of folders, of which none lies in another.
func places(folders []string) ([]string, error) {
	var paths []string
	for _, folder := range folders {
		path, err := filepath.Abs(folder)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return nil, &Error{folder, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "name a folder that is there"}
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, &Error{path, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "name a folder that is there"}
		case !info.IsDir():
			return nil, &Error{path, "is no folder", "name the folder that it is in"}
		case !utf8.ValidString(path):
			return nil, &Error{path, "is not UTF-8", "rename it"}
		}
		for _, own := range []string{"/work", "/proc", "/sys", "/run/gaia"} {
			if path == "/" || Within(path, own) {
				return nil, &Error{path, "lies where the sandbox has other files", "copy the agent elsewhere, such as below your home folder"}
			}
		}
		for _, other := range paths {
			if Within(path, other) || Within(other, path) {
				return nil, &Error{path, fmt.Sprintf("is, holds or lies in %q, which it is given, too", other), "name one of them"}
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Within reports whether a path is a folder or lies in it. Both are absolute.
func Within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// checkHidden returns an *Error for a folder that holds, is, or lies in what no agent may see, such as runs, keys and
// gold answers.
func checkHidden(folders []string, hidden []string) error {
	for _, h := range hidden {
		at, err := Actual(h)
		if err != nil {
			return err
		}
		for _, f := range folders {
			path, err := Actual(f)
			switch {
			case err != nil:
				return err
			case Within(at, path):
				return &Error{path, fmt.Sprintf("holds %q, which no agent may read", h), "give the agent a folder with nothing else in it"}
			case Within(path, at):
				return &Error{path, fmt.Sprintf("lies in %q, which no agent may read", h), "copy the agent elsewhere"}
			}
		}
	}
	return nil
}

// Actual returns an absolute path without links. What is not there yet lies where its nearest folder that is there does.
func Actual(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil || filepath.Dir(path) == path {
		return cmp.Or(real, path), nil
	}
	dir, err := Actual(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// list lists a folder, sorted by path. It counts files and their bytes, which are within the limits.
func list(ctx context.Context, path string, files *int, size *int64) ([]plan.AgentFile, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, &Error{path, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it"}
	}
	defer root.Close()
	var found []plan.AgentFile
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		at := filepath.Join(path, name)
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			return &Error{at, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it, or take it out of the folder"}
		case !utf8.ValidString(name):
			return &Error{at, "has a name that is not UTF-8", "rename it"}
		case d.IsDir():
			return nil
		}
		file := plan.AgentFile{Path: name}
		switch d.Type() {
		case 0:
			info, err := d.Info()
			if err != nil {
				return &Error{at, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), ""}
			}
			file.Bytes, file.Executable = info.Size(), info.Mode()&0o111 != 0
		case fs.ModeSymlink:
			if file.Link, err = root.Readlink(name); err != nil {
				return &Error{at, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), ""}
			}
			if !utf8.ValidString(file.Link) {
				return &Error{at, "points at a name that is not UTF-8", "rename what it points at"}
			}
		default:
			return &Error{at, "is neither a file, a folder nor a link", "take it out of the folder"}
		}
		*files, *size = *files+1, *size+file.Bytes
		if *files > plan.MaxAgentFiles {
			return tooMuch(path, fmt.Sprintf("has, with what is listed before it, more than %d files", plan.MaxAgentFiles))
		}
		if *size > plan.MaxAgentBytes {
			return tooMuch(path, fmt.Sprintf("has, with what is listed before it, more than %d GiB", plan.MaxAgentBytes>>30))
		}
		found = append(found, file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b plan.AgentFile) int { return cmp.Compare(a.Path, b.Path) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1)
	for i := range found {
		if f := &found[i]; f.Link == "" {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := hash(root, f); err != nil {
					return &Error{filepath.Join(path, f.Path), fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it, or take it out of the folder"}
				}
				return nil
			})
		}
	}
	return found, group.Wait()
}

// hash sets the digest of a regular file. It fails if the file is not as it was listed.
func hash(root *os.Root, f *plan.AgentFile) error {
	in, err := root.OpenFile(filepath.FromSlash(f.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that took its place does not block
	if err != nil {
		return err
	}
	defer in.Close()
	named, err := root.Lstat(f.Path)
	if err != nil {
		return err
	}
	info, err := in.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(in, f.Bytes+1))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || !os.SameFile(info, named) || n != f.Bytes:
		return errors.New("it changes while it is read")
	}
	f.SHA256 = canonical.DigestOf(sum)
	return nil
}

// CheckProgram returns an *Error if a program, by its path in the agent's folder, is not among the files listed or cannot be
// executed.
func CheckProgram(folder string, listed []byte, program string) error {
	program = filepath.ToSlash(filepath.Clean(program))
	var f plan.AgentFile
	if line := lines(listed)[place{0, program}]; line != nil {
		if err := canonical.Decode(bytes.TrimSuffix(line, []byte("\n")), &f); err != nil {
			return err
		}
	}
	at := filepath.Join(folder, program)
	switch {
	case f.Path == "":
		return &Error{at, "is missing: it is the program that is run", "write one, name another as command of agent in gaia.yaml, or copy a recipe: gaia agent init NAME DIR"}
	case f.Link == "" && !f.Executable:
		return &Error{at, "cannot be executed", "chmod +x " + view.Quote(at)}
	}
	return nil
}

// maxNamed bounds how many files Changes names.
const maxNamed = 5

// Changes says which files differ between two lists of plan.AgentFilesFile, "" if none: the first ones, and how many more.
func Changes(old, now []byte) string {
	before, after := lines(old), lines(now)
	var names []string
	for key, line := range after {
		switch was, there := before[key]; {
		case !there:
			names = append(names, key.path+" is new")
		case !bytes.Equal(was, line):
			names = append(names, key.path+" differs")
		}
	}
	for key := range before {
		if _, there := after[key]; !there {
			names = append(names, key.path+" is missing")
		}
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], "and "+view.Count(more, "further file"))
	}
	return strings.Join(names, ", ")
}

type place struct {
	folder int
	path   string
}

// lines returns the lines of a list by what they are of. Lines that cannot be read count as one file without a name.
func lines(list []byte) map[place][]byte {
	out := map[place][]byte{}
	for line := range bytes.Lines(list) {
		var f plan.AgentFile
		_ = canonical.Decode(bytes.TrimSuffix(line, []byte("\n")), &f)
		out[place{f.Folder, f.Path}] = line
	}
	return out
}
