package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	keptSuffix = ".sheet"
	maxKept    = 256 << 20 // bytes of a file that is read
	maxSheets  = 1000      // files that are kept

	// racy is how long a file must have been left alone before what was read of it is
	// kept: one that is written to within the same tick of the file system's clock has
	// the same times after it.
	racy = 2 * time.Second
)

// keptSheets are the sheets of runs that were verified before, a file each, since to
// verify a hundred runs takes minutes. They spare work and prove nothing: who can
// write to the user's own cache can make them say anything, so nothing is signed by
// what they say. A sheet counts only while all files that its verification read are
// those that were there then, and for the program that read them. Whatever is wrong with
// one, the run is verified again. A file is a line, canonical JSON:
//
//	{"files":{"NAME":"STAMP",…},"form":"gaia.kept-sheet/2 …","path":"/abs/run","program":"…","sha256":"sha256:…"}
//
// and then the packed sheet, of which sha256 is.
type keptSheets struct {
	dir     string
	program string
	now     func() time.Time
}

// keptHeader is the first line of a kept sheet.
type keptHeader struct {
	Files   map[string]string `json:"files"`   // stamps of those that verification reads, by name
	Form    string            `json:"form"`    // of what follows
	Path    string            `json:"path"`    // of the run
	Program string            `json:"program"` // that verified it
	SHA256  string            `json:"sha256"`  // of what follows
}

// openKept opens the user's kept sheets; nil where none can be kept.
func (a *app) openKept() *keptSheets {
	base := a.xdg("XDG_CACHE_HOME", ".cache")
	program, err := thisBuild()
	if base == "" || err != nil {
		return nil
	}
	k := &keptSheets{dir: filepath.Join(base, "gaia", "ledger"), program: program, now: time.Now}
	if err := os.MkdirAll(k.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil
	}
	info, err := os.Lstat(k.dir)
	if err != nil || !info.IsDir() || !isOwn(info) || info.Mode().Perm()&0o022 != 0 {
		return nil // others could have put there what they want to be seen
	}
	return k
}

// thisBuild tells this build of the program from all others. The executable's digest
// would, too, but takes longer than what the kept sheets are for.
func thisBuild() (string, error) {
	h, f, err := thisProgram()
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	stamp, _, ok := stampOf(info)
	if !ok {
		return "", errors.New("the program's file has no stamp")
	}
	return fmt.Sprintf("%s %s %t %s/%s %s", h.Version, h.Commit, h.Dirty, runtime.GOOS, runtime.GOARCH, stamp), nil
}

// stamped is a place of a run, and the stamps of the files that are read of it.
type stamped struct {
	path  string
	files map[string]string
}

// absent is the stamp of a file that is not there.
const absent = "absent"

// stamp looks at a run's files; ok is false where what is read of them is not to be
// kept.
func (k *keptSheets) stamp(path string) (s stamped, settled, ok bool) {
	if k == nil {
		return stamped{}, false, false
	}
	now := k.now()
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return stamped{}, false, false
	}
	s, settled = stamped{path: real, files: map[string]string{}}, true
	names, err := filesRead(real)
	if err != nil {
		return stamped{}, false, false
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(real, name))
		if errors.Is(err, fs.ErrNotExist) {
			s.files[name] = absent
			continue
		}
		if err != nil {
			return stamped{}, false, false
		}
		text, changed, has := stampOf(info)
		if !has {
			return stamped{}, false, false
		}
		s.files[name] = text
		settled = settled && changed.Before(now.Add(-racy))
	}
	return s, settled, true
}

// filesRead names the files that verification reads of a run directory, a package
// (of which it wants exactly its files to be there) or an archive.
func filesRead(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{"."}, nil
	}
	if !isPackage(path) {
		return []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.JournalFile, ledger.TrajectoriesFile, ledger.ResultsFile,
			ledger.SummaryFile, trajectory.CheckpointFile, ledger.MarkerFile}, nil
	}
	entries, err := os.ReadDir(path)
	names := []string{"."}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// file is where the sheet of a run is kept.
func (k *keptSheets) file(path string) string {
	return filepath.Join(k.dir, strings.TrimPrefix(sign.Digest([]byte(path)), "sha256:")+keptSuffix)
}

// header is the only first line that is accepted before the packed sheet.
func (k *keptSheets) header(s stamped, packed []byte) ([]byte, error) {
	form := "gaia.kept-sheet/2 " + sign.Digest([]byte(shape(reflect.TypeFor[ledger.Sheet]())))
	line, err := sign.Canonical(keptHeader{Files: s.files, Form: form, Path: s.path, Program: k.program, SHA256: sign.Digest(packed)})
	return append(line, '\n'), err
}

// load returns the sheet that is kept of a run with these stamps.
func (k *keptSheets) load(s stamped) (sheet ledger.Sheet, found bool) {
	path := k.file(s.path)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || !isOwn(info) || info.Mode().Perm()&0o022 != 0 {
		return ledger.Sheet{}, false
	}
	data, err := readUpTo(path, maxKept)
	if err != nil {
		return ledger.Sheet{}, false
	}
	_, packed, _ := bytes.Cut(data, []byte{'\n'})
	want, err := k.header(s, packed)
	if err != nil || !bytes.HasPrefix(data, want) || unpack(packed, &sheet) != nil {
		return ledger.Sheet{}, false
	}
	return sheet, true
}

// keep keeps the sheet of a run. It is no error if that cannot be: then the run is
// verified again the next time.
func (k *keptSheets) keep(s stamped, sheet ledger.Sheet) {
	packed, err := pack(sheet)
	if err != nil {
		return
	}
	line, err := k.header(s, packed)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(k.dir, ".new-*") // 0600
	if err != nil {
		return
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(line, packed...))
	if errors.Join(err, f.Close()) == nil {
		_ = os.Rename(f.Name(), k.file(s.path)) // where it fails nothing is kept
	}
}

// prune removes what is oldest beyond maxSheets, and what writes left that were
// killed.
func (k *keptSheets) prune() {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return
	}
	var sheets []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
		case strings.HasSuffix(e.Name(), keptSuffix):
			sheets = append(sheets, info)
		case strings.HasPrefix(e.Name(), ".new-") && k.now().Sub(info.ModTime()) > time.Minute:
			_ = os.Remove(filepath.Join(k.dir, e.Name())) // else the next one does
		}
	}
	slices.SortFunc(sheets, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range sheets[min(len(sheets), maxSheets):] {
		_ = os.Remove(filepath.Join(k.dir, info.Name())) // else the next one does
	}
}
