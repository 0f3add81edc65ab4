package witnessfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// suffix ends the name of a witness bundle.
const suffix = ".rvw"

// Read reads a bundle. A damaged one is a *trajectory.Fault that names the file.
func Read(path string) (witness.Bundle, error) {
	data, err := regular.Read(path, witness.MaxBundle)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return witness.Bundle{}, exit.Usagef("'gaia witness export' writes witness bundles", "there is no witness bundle at %q", path)
	case err != nil:
		return witness.Bundle{}, fmt.Errorf("reading the witness bundle %q: %w", path, err)
	}
	w, err := witness.Parse(data)
	if err != nil {
		return witness.Bundle{}, trajectory.Faultf(path, "%v", err)
	}
	if err := witness.Check(w); err != nil {
		return witness.Bundle{}, trajectory.Faultf(path, "contradicts itself: %v", err)
	}
	return w, nil
}

// CheckSigned returns an error unless the bundle at path is signed with key.
func CheckSigned(path string, w witness.Bundle, key sign.HMACKey) error {
	switch {
	case !w.Signed():
		return trajectory.Faultf(path, "is not signed")
	case !w.Verify(key):
		return exit.New(exit.Evidence, trajectory.Faultf(path, "is not what this key signed"),
			"all bytes of the key file count, a newline at its end, too")
	}
	return nil
}

// WantScored is the hint for paths that no scorecard can be made of.
const WantScored = "give run directories, full packages, their archives or folders that hold some, " +
	"or else witness bundles (" + suffix + ") and folders of them"

// VerifyAll checks that each file is a bundle signed with the key in keyFile, and writes a line for each. The error has the exit
// code with precedence.
func VerifyAll(out io.Writer, paths []string, keyFile string) error {
	if keyFile == "" {
		return exit.Usagef("give the key that signer and reader share by --hmac-key-file", "without a key there is no signature to check")
	}
	key, err := keyring.Shared(keyFile)
	if err != nil {
		return err
	}
	var bad []*exit.Error
	for _, path := range paths {
		w, err := Read(path)
		if err == nil {
			err = CheckSigned(path, w, key)
		}
		line := path + ": ok"
		if w.Rehearsal() {
			line += ", of a rehearsal"
		}
		if err != nil {
			line = err.Error()
			bad = append(bad, exit.Of(err))
		}
		if _, err := fmt.Fprintln(out, view.Line(line)); err != nil {
			return err
		}
	}
	if len(bad) == 0 {
		return nil
	}
	f := *slices.MinFunc(bad, func(a, b *exit.Error) int { return exit.Compare(a.Code, b.Code) })
	f.Err = fmt.Errorf("%d of %s not verified", len(bad), view.Count(len(paths), "witness bundle"))
	return &f
}

// AllBundles reports whether paths are witness bundles or folders of them, and not runs, packages or archives. Both
// together, and anything else, are an error of usage.
func AllBundles(paths []string) (bool, error) {
	kinds := map[bool]string{}
	for _, path := range paths {
		is, err := isBundle(path)
		if err != nil {
			return false, err
		}
		kinds[is] = cmp.Or(kinds[is], path)
	}
	if len(kinds) > 1 {
		return false, exit.Usagef("give them one after another",
			"%q is of witness bundles and %q is not: they have different counts, and are not counted together", kinds[true], kinds[false])
	}
	return kinds[true] != "", nil
}

func isBundle(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("reading %q: %w", path, regular.Cause(err))
	case err != nil:
		return false, exit.Usagef(WantScored, "reading %q: %v", path, regular.Cause(err))
	case !info.IsDir() && strings.HasSuffix(path, suffix): // by its name, since there may be thousands
		return true, nil
	case verify.IsPackage(path): // an archive, too
		return false, nil
	case !info.IsDir():
		return false, exit.Usagef(WantScored, "%q is neither a package's archive nor called as a witness bundle", path)
	case verify.IsRun(path) == nil:
		return false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("reading the folder %q: %w", path, regular.Cause(err))
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), suffix) }), nil
}

// Tally counts bundles for a scorecard. It keeps nothing of a bundle that it has counted.
type Tally struct {
	rundir.Tally
	Key       *sign.HMACKey // that all must be signed with; nil: signatures are not checked
	Bundles   int
	Rehearsal bool     // one of them is of a rehearsal
	ErrorsOf  []string // runs of which some of them are the errors, each once

	seen map[[32]byte]string // task, policy and time → path
}

// AddPaths counts the bundles in files and folders. One that is there twice is an error of usage.
func (t *Tally) AddPaths(paths []string) error {
	t.seen = map[[32]byte]string{}
	given := map[string]bool{}
	places := make([]string, len(paths))
	for i, path := range paths {
		place, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("looking for %q: %w", path, err)
		}
		if given[place] {
			return exit.Usagef("give each bundle once", "%q is given twice", path)
		}
		given[place], places[i] = true, place
	}
	for i, path := range paths {
		if given[filepath.Dir(places[i])] {
			return exit.Usagef("give each bundle once", "%q lies in a folder that is given, too", path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading %q: %w", path, regular.Cause(err))
		}
		if !info.IsDir() {
			if err := t.addFile(path); err != nil {
				return err
			}
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return fmt.Errorf("reading the folder %q: %w", path, regular.Cause(err))
		}
		prefix := strings.TrimSuffix(path, string(filepath.Separator)) + string(filepath.Separator)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), suffix) {
				continue
			}
			if err := t.addFile(prefix + e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tally) addFile(path string) error {
	data, err := regular.Read(path, witness.MaxBundle)
	if err != nil {
		return fmt.Errorf("reading the witness bundle %q: %w", path, err)
	}
	w, err := witness.Parse(data)
	if err != nil {
		return trajectory.Faultf(path, "is %v", err)
	}
	if t.Key != nil {
		if err := CheckSigned(path, w, *t.Key); err != nil {
			return err
		}
	}
	id := [32]byte(data[8:40]) // as the header has them
	if first, there := t.seen[id]; there {
		return exit.Usagef("give each bundle once", "%q is of the same task, policy and time as %q", path, first)
	}
	t.seen[id] = path
	t.Bundles++
	t.Rehearsal = t.Rehearsal || w.Rehearsal()
	if of := w.ErrorsOf(); of != "" && !slices.Contains(t.ErrorsOf, of) {
		t.ErrorsOf = append(t.ErrorsOf, of)
	}
	if err := witness.Check(w); err != nil {
		return trajectory.Faultf(path, "contradicts itself: %v", err)
	}
	if err := t.AddWitness(w); err != nil {
		return trajectory.Faultf(path, "cannot be counted: %v", err)
	}
	return nil
}
