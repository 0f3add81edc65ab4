package submit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Result is what the verification of a package showed. Its bytes are what the holder of the
// key signed; whether to trust the key is the caller's decision.
type Result struct {
	Statement Statement // what the package says
	Claims    []Claim   // which of it this verification checked, and which is the signer's word
	KeyID     string    // SHA256:… of the key that signed it
	PublicKey string    // the key as an OpenSSH line
}

// VerifyPath verifies the package at path, full or public, a folder or an archive. Changed or
// missing evidence is a *trajectory.Fault. With o.Gold it also scores the answers again and
// repeats the audit.
func VerifyPath(path string, o Options) (Result, error) {
	s, err := Open(path)
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	if s.Public() {
		p, err := s.VerifyPublic(o)
		if err != nil {
			return Result{}, err
		}
		return Result{p.Statement, p.Claims(Given{}), p.Key.ID(), p.Key.Line()}, nil
	}
	v, err := s.Verify(o)
	if err != nil {
		return Result{}, err
	}
	return Result{v.Statement, v.Claims(Given{}), v.Key.ID(), v.Key.Line()}, nil
}

// Source is a package that is open to be verified.
type Source struct {
	Files fs.FS

	path string
	dir  string // to remove; "" for none

	// Of an archive:
	folder string // of the files in the tar; "" if they are in none
	named  bool   // folder is known
	names  []string
	seen   map[string]bool // names
}

// Open opens the package at path. An archive is extracted to a temporary folder, which Close
// removes.
func Open(path string) (*Source, error) {
	if !IsArchivePath(path) {
		return &Source{Files: os.DirFS(path), path: path}, nil
	}
	dir, err := os.MkdirTemp("", "gaia-archive-*")
	if err != nil {
		return nil, &ScratchError{Dir: os.TempDir(), Err: regular.Cause(err)}
	}
	s, err := OpenIn(path, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.dir = dir
	return s, nil
}

// OpenIn opens an archive, which it extracts to the empty folder dir. The caller removes the
// folder, also after an error. A *ScratchError reports that dir cannot be written to.
func OpenIn(path, dir string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the archive %q: %w", path, regular.Cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the archive %q: %w", path, regular.Cause(err))
	}
	s, err := openArchive(f, info.Size(), dir)
	var fault *trajectory.Fault
	switch {
	case errors.As(err, &fault) && fault.File == wholeArchive:
		return nil, trajectory.Faultf(path, "%s", fault.Reason)
	case err != nil:
		return nil, err
	}
	s.path = path
	return s, nil
}

// Close removes what Open extracted.
func (s *Source) Close() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// Public reports whether the package is a public one, whole or damaged.
func (s *Source) Public() bool { return isPublic(s.Files) }

// Verify verifies a full package, as the function Verify does, and the name of an archive's
// folder.
func (s *Source) Verify(o Options) (*Verified, error) {
	v, err := Verify(s.Files, o)
	if err != nil {
		return nil, err
	}
	return v, s.checkName(v.Statement.Predicate.Name)
}

// Audit verifies a full package, as Verify does, and returns an audit of it by other options
// than its own, of which Marked, Plan and Summary do not matter. The files are read once.
func (s *Source) Audit(o audit.Options) (report audit.Report, run *rundir.Run, err error) {
	signed, err := openSigned(s.Files, false, nil)
	if err != nil {
		return audit.Report{}, nil, err
	}
	v, err := signed.verify(s.Files, Options{Once: true}, func(audit.Report) (audit.Report, *rundir.Run, error) {
		report, run, err = signed.audit(s.Files, o)
		return report, run, err
	})
	if err == nil {
		err = s.checkName(v.Statement.Predicate.Name)
	}
	if err != nil {
		return audit.Report{}, nil, err
	}
	return report, run, nil
}

// VerifyPublic verifies a public package, as the function VerifyPublic does, and the name of
// an archive's folder.
func (s *Source) VerifyPublic(o Options) (*Public, error) {
	p, err := VerifyPublic(s.Files, o)
	if err != nil {
		return nil, err
	}
	return p, s.checkName(p.Statement.Predicate.Name)
}

// IsArchivePath reports whether a regular file is a package's archive, or at least begins as
// one. Of a file that cannot be read the name decides.
func IsArchivePath(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return strings.HasSuffix(path, ArchiveSuffix)
	}
	defer f.Close()
	first := make([]byte, len(gzipMagic))
	_, err = io.ReadFull(f, first)
	return err == nil && isArchive(first)
}
