package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// readBundles reads witness bundles and counts them; with a key file, all of them must
// be signed with its key.
func (s *scored) readBundles(paths []string, keyFile string) error {
	r := bundleReader{found: s, seen: map[[32]byte]string{}}
	if keyFile != "" {
		key, err := sharedKey(keyFile)
		if err != nil {
			return err
		}
		r.key, s.checked = &key, true
	}
	given := map[string]bool{}
	places := make([]string, len(paths))
	for i, path := range paths {
		place, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("looking for %q: %w", path, err)
		}
		if given[place] {
			return usage("give each bundle once", "%q is given twice", path)
		}
		given[place], places[i] = true, place
	}
	for i, path := range paths {
		folder := filepath.Dir(places[i])
		if given[folder] {
			return usage("give each bundle once", "%q lies in a folder that is given, too", path)
		}
	}
	for _, path := range paths {
		if err := r.place(path); err != nil {
			return err
		}
	}
	return nil
}

// bundleReader counts bundles, one after another in the same memory: of a bundle that
// is counted nothing is kept.
type bundleReader struct {
	found *scored
	key   *sign.HMACKey // nil: whose a bundle is is not checked
	buf   []byte
	seen  map[[32]byte]string // task, policy and time → path
}

// place counts the bundle in a file, or those in a folder, by name.
func (r *bundleReader) place(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	}
	if !info.IsDir() {
		return r.file(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("reading the folder %q: %w", path, unwrapPath(err))
	}
	prefix := strings.TrimSuffix(path, string(filepath.Separator)) + string(filepath.Separator)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), witnessSuffix) {
			continue
		}
		if err := r.file(prefix + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (r *bundleReader) file(path string) error {
	var data []byte
	var err error
	data, r.buf, err = readInto(path, r.buf, witness.MaxBundle)
	if err != nil {
		return fmt.Errorf("reading the witness bundle %q: %w", path, unwrapPath(err))
	}
	w, err := witness.Parse(data)
	if err != nil {
		return trajectory.Faultf(path, "is %v", err)
	}
	if r.key != nil {
		if err := verifyWitness(path, w, *r.key); err != nil {
			return err
		}
	}
	id := [32]byte(data[8:40]) // as the header has them
	if first, there := r.seen[id]; there {
		return usage("give each bundle once", "%q is of the same task, policy and time as %q", path, first)
	}
	r.seen[id] = path
	r.found.bundles++
	r.found.rehearsal = r.found.rehearsal || w.Rehearsal()
	if err := rundir.CheckWitness(w); err != nil {
		return trajectory.Faultf(path, "contradicts itself: %v", err)
	}
	if err := r.found.AddWitness(w); err != nil {
		return trajectory.Faultf(path, "cannot be counted: %v", err)
	}
	return nil
}
