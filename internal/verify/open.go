package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Evidence is a run directory, or a package, folder or archive, that a command reads.
type Evidence struct {
	*submit.Source
	Packaged bool
	path     string
	remove   func() // removes the files of an archive
}

// Open opens what a user named, and verifies nothing. Anything else than a run or a package is an error of usage.
func Open(path string) (*Evidence, error) {
	if !IsArchive(path) {
		packaged := IsPackage(path)
		if !packaged { // a damaged package is one, too
			if err := isKind(path, "run directory or package", "run directories are in runs/, packages by 'gaia submit'"); err != nil {
				return nil, err
			}
		}
		source, err := submit.Open(path)
		return &Evidence{Source: source, Packaged: packaged, path: path, remove: func() {}}, err
	}
	dir, remove, err := temporaryFolder()
	if err != nil {
		return nil, noScratch(&submit.ScratchError{Dir: os.TempDir(), Err: regular.Cause(err)})
	}
	source, err := submit.OpenIn(path, dir)
	if err != nil {
		remove()
		var scratch *submit.ScratchError
		if errors.As(err, &scratch) {
			return nil, noScratch(err)
		}
		return nil, err
	}
	return &Evidence{Source: source, Packaged: true, path: path, remove: remove}, nil
}

func noScratch(err error) error {
	return exit.New(exit.Failure, err, "make room there, or name another directory by TMPDIR")
}

// temporaryFolder makes a folder below TMPDIR that only this user can read. It is
// removed by remove, or when a signal ends the process.
func temporaryFolder() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "gaia-archive-*"); err != nil {
		return "", nil, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	remove = sync.OnceFunc(func() {
		signal.Stop(signals)
		close(signals)
		os.RemoveAll(dir)
	})
	go func() {
		if s, ok := <-signals; ok {
			remove()
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Signal(s) // to the command's own handler, or to end the process
			}
		}
	}()
	return dir, remove, nil
}

// Begun returns the id of the run in files and when it began, as the first lines of its journals say: the earliest, of a merged
// run. Both are "" where there is no such line. Nothing of it is verified.
func Begun(files fs.FS) (runID, started string) {
	const most = 1 << 16 // bytes; run_started has some 600
	names, _ := fs.Glob(files, path.Join(rundir.ShardsDir, "*", trajectory.JournalFile))
	for _, name := range append([]string{trajectory.JournalFile}, names[:min(len(names), plan.MaxShards)]...) {
		f, _, err := rundir.OpenFile(files, name, rundir.MaxFile)
		if err != nil {
			continue
		}
		line, err := bufio.NewReader(io.LimitReader(f, most)).ReadBytes('\n')
		f.Close()
		var first struct {
			RunID     string `json:"run_id"`
			Timestamp string `json:"timestamp"`
		}
		if err != nil || json.Unmarshal(line, &first) != nil || runID != "" && runID != first.RunID {
			continue
		}
		if runID = first.RunID; started == "" || first.Timestamp < started {
			started = first.Timestamp
		}
	}
	return runID, started
}

// OpenJournal is Open for commands that read a journal, which a public
// package withholds.
func OpenJournal(path string) (*Evidence, error) {
	p, err := Open(path)
	if err != nil || !p.IsPublic() {
		return p, err
	}
	p.Close()
	return nil, exit.Usagef("use the run directory or the full package", "%q is a public package, whose journal is withheld", path)
}

// IsPublic reports whether it is a public package, whole or damaged.
func (p *Evidence) IsPublic() bool { return p.Packaged && p.Public() }

// Close removes the files that were extracted from an archive.
func (p *Evidence) Close() { p.remove() }

// Run verifies a run directory or a package.
func (p *Evidence) Run() (*rundir.Run, error) {
	if !p.Packaged {
		return rundir.Verify(p.Files, rundir.Options{})
	}
	of, err := p.Verify(submit.Options{Once: true})
	if err != nil {
		return nil, err
	}
	return of.Run, nil
}

// Shown verifies p, and returns the run that read returns; read verifies the run in p.Files by the name of its summary. A
// whole package is verified before read is called; its statement alone has the reason why recording failed.
func (p *Evidence) Shown(read func(summary string) (*rundir.Run, error)) (*rundir.Run, error) {
	if !p.Packaged {
		return read(rundir.SummaryFile)
	}
	of, err := p.Verify(submit.Options{Once: true})
	if err != nil {
		return nil, err
	}
	found, err := read(submit.MetadataFile)
	if err == nil {
		found.Marked = of.Run.Marked
	}
	return found, err
}

// NotWithin rejects a folder to write something to, which need not exist yet, if it is in given, the evidence that a command
// reads, or in any other run or package.
func NotWithin(what, given, folder string) error {
	looked, err := os.Stat(given)
	if err != nil {
		return nil // reading reports it
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("looking for a place for %s: %w", what, err)
	}
	for {
		real, err := filepath.EvalSymlinks(folder)
		if err == nil {
			folder = real
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return nil // writing reports it
		}
		folder = filepath.Dir(folder)
	}
	for ; ; folder = filepath.Dir(folder) {
		in := ""
		if info, err := os.Stat(folder); err == nil && os.SameFile(info, looked) {
			in = given
		} else if _, err := os.Lstat(filepath.Join(folder, plan.EnvelopeFile)); err == nil {
			in = folder
		}
		if in != "" {
			return exit.Usagef("give a place outside of it by --out", "%s would lie in %q itself, which must hold nothing else", what, in)
		}
		if folder == filepath.Dir(folder) {
			return nil
		}
	}
}

// IsPackage reports whether there is a package, whole or damaged.
func IsPackage(path string) bool { return submit.IsPackage(os.DirFS(path)) || IsArchive(path) }

// IsArchive reports whether a file is, or looks like, the archive of a package: nothing else that gaia writes does.
func IsArchive(path string) bool { return submit.IsArchivePath(path) }

// IsRun returns an error for a path that is no run directory at all; a damaged one is one.
func IsRun(path string) error {
	return isKind(path, "run directory", "run directories are in runs/")
}

// The hints for who gives a command something else.
const (
	takePackages = "packages are for 'gaia verify', 'gaia audit', 'gaia disclose' and 'gaia export'"
	takeFiles    = "evidence bundles are for 'gaia verify', and kept reports for 'gaia audit'"
)

// RunAt verifies a run directory.
func RunAt(dir string) (*rundir.Run, error) {
	if err := IsRun(dir); err != nil {
		return nil, err
	}
	return rundir.Verify(os.DirFS(dir), rundir.Options{})
}

// ReadBody returns the document of a digest that a run directory keeps.
func ReadBody(dir, digest string) ([]byte, error) {
	if err := IsRun(dir); err != nil {
		return nil, err
	}
	if trajectory.BodyFile(digest) == "" {
		return nil, exit.Usagef("a digest is sha256: and 64 hexadecimal digits; 'gaia show --json DIR TASK' has those of a task", "--body %q is not a digest", digest)
	}
	body, err := rundir.ReadBody(os.DirFS(dir), digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("runs keep bodies with --evidence-full-bodies", "the run keeps no body %s", digest)
	}
	return body, err
}

// isKind returns an error for a path that is no run directory at all. kind names what is required, made the place where
// there are such.
func isKind(path, kind, made string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("reading the %s %q: %w", kind, path, regular.Cause(err))
	case err != nil:
		return exit.Usagef(made, "reading the %s %q: %v", kind, path, regular.Cause(err))
	case IsArchive(path):
		return exit.Usagef(takePackages, "%q is a compressed file, not a %s", path, kind)
	case IsPackage(path):
		return exit.Usagef(takePackages, "%q is a package, not a %s", path, kind)
	case !info.IsDir():
		return exit.Usagef(takeFiles, "%q is a file, not a %s", path, kind)
	}
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, trajectory.JournalFile} {
		if _, err := os.Lstat(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil // it is there, or cannot be seen, which reading it reports
		}
	}
	return exit.Usagef("give a directory that 'gaia run' made, such as runs/01J…", "%q is not a %s: it has no manifest and no journal", path, kind)
}
