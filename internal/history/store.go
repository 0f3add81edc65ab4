// Package history keeps what many runs did: a row for each attempt, in Parquet, which DuckDB, pandas and
// polars read.
//
// A [Store] is a folder. Of each run that was verified it has MANIFEST-DIGEST.parquet, whose rows are run
// events with the members that docs/ledger.md lists, all numbers integers, and whose metadata has the rest of what is
// counted of a run. Beside it is a DSSE envelope for each place where the run is or was, signed with the
// user's key, which holds the digest of the Parquet file. Both are checked whenever they are read. Without a
// good pair a run is read again; of a run that was removed it is an error (TestStore).
//
// An [Export] has the same schema: a Parquet file of events of several runs, and its envelope. What others
// exported is from outside. It is verified first, and then read in a process with limits of memory
// and time by [Convert] (TestConvert).
package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	recordSchema = "gaia.history/2"
	recordType   = "application/vnd.gaia-harness.history+json"

	attemptsSuffix = ".parquet"
	prunedSuffix   = ".pruned" + EnvelopeSuffix

	maxCounted = 1000 // records of what is still there
)

// What a record can be of.
const (
	KindRun     = "run"
	KindPackage = "package"
)

// Record is the payload of a DSSE envelope: which run or package was verified and counted, and where it is or was.
type Record struct {
	Attempts       string `json:"attempts,omitzero"`   // digest of the Parquet file; left out: the run was not finished, or its journal withheld
	Checkpoint     string `json:"checkpoint,omitzero"` // its text; left out: as Attempts, or the run is still there
	Created        string `json:"created"`             // of the plan, trajectory.TimeFormat
	Files          string `json:"files,omitzero"`      // of what is still there: digest of the stamps of its files, see Stamp
	Kind           string `json:"kind"`                // KindRun or KindPackage
	ManifestSHA256 string `json:"manifest_sha256"`
	Path           string `json:"path"`            // absolute
	Pruned         string `json:"pruned,omitzero"` // when it was removed, as Created; left out: it is still there
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	Schema         string `json:"schema"`
	SignedBy       string `json:"signed_by"` // id of the key of the plan
}

// Removed is the record of a run or package that was removed, and what was counted of it.
type Removed struct {
	Record
	Stats *rundir.RunStats // nil: nothing was
}

// Store is a folder of records. Of each plan it has one Parquet file of attempts,
// MANIFEST-DIGEST.parquet, and an envelope for each place where the run is, or was. A record counts only
// with a good signature and the Parquet file that it was signed with.
type Store struct {
	Dir     string
	Key     *sign.Key        // signs records, and is the only one whose records of runs that are there count; nil: none count or are kept
	Trusted []sign.PublicKey // whose records of removed runs count
}

// names returns the names of the records of a place, of which the first is of a run that is there.
func (s *Store) names(manifest, path string) (counted, pruned string) {
	stem := strings.TrimPrefix(manifest, "sha256:") + "-" + placeID(path)
	return filepath.Join(s.Dir, stem+EnvelopeSuffix), filepath.Join(s.Dir, stem+prunedSuffix)
}

// placeID tells the place of a record from others of the same plan.
func placeID(path string) string { return canonical.Digest([]byte(path))[len("sha256:"):][:16] }

// Recall returns what was counted of the run at path while its files were those of the stamp.
func (s *Store) Recall(path, files string) (stats rundir.RunStats, found bool) {
	if s == nil || s.Key == nil {
		return rundir.RunStats{}, false
	}
	names, err := s.matching("", "-"+placeID(path)+EnvelopeSuffix)
	if err != nil || len(names) != 1 {
		return rundir.RunStats{}, false
	}
	r, err := s.record(names[0], []sign.PublicKey{s.Key.Public()})
	if err != nil || r.Path != path || r.Files != files || r.Pruned != "" {
		return rundir.RunStats{}, false
	}
	got, err := s.stats(r)
	if err != nil || got == nil {
		return rundir.RunStats{}, false
	}
	return *got, true
}

// Keep signs and writes a record and the attempts of its run. stats is nil where nothing is counted. A
// record of a removed run is durable when Keep returns.
func (s *Store) Keep(r Record, stats *rundir.RunStats) error {
	r.Schema = recordSchema
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if stats != nil {
		run, err := canonical.Encode(*stats)
		if err != nil {
			return err
		}
		data, err := encodeAttempts(stats.Events, string(run))
		if err != nil {
			return err
		}
		r.Attempts = canonical.Digest(data)
		if err := cmp.Or(r.check(stats), checkEvents(stats.Events)); err != nil {
			return err
		}
		if err := s.keepAttempts(r, data); err != nil {
			return err
		}
	}
	if err := r.check(nil); err != nil {
		return err
	}
	payload, err := canonical.Encode(r)
	if err != nil {
		return err
	}
	envelope, err := sign.Seal(*s.Key, recordType, payload)
	if err != nil {
		return err
	}
	counted, pruned := s.names(r.ManifestSHA256, r.Path)
	if r.Pruned == "" {
		return s.write(counted, envelope)
	}
	if err := s.write(pruned, envelope); err != nil {
		return err
	}
	if err := os.Remove(counted); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(durable.SyncDir(s.Dir), durable.SyncDir(filepath.Dir(s.Dir)))
}

// keepAttempts writes the Parquet file of a record. It never replaces one that a record of a removed run is of.
func (s *Store) keepAttempts(r Record, data []byte) error {
	path := s.attempts(r)
	there, err := regular.ReadUpTo(path, MaxExport)
	if err == nil && bytes.Equal(there, data) {
		return nil
	}
	removed, err := s.matching(strings.TrimSuffix(filepath.Base(path), attemptsSuffix)+"-", prunedSuffix)
	if err != nil {
		return err
	}
	for _, name := range removed {
		if old, err := s.record(name, s.Trusted); err != nil || old.Attempts != "" && old.Attempts != r.Attempts {
			return fmt.Errorf("%q is of another history of the run %s", name, r.RunID)
		}
	}
	return s.write(path, data)
}

func (s *Store) attempts(r Record) string {
	return filepath.Join(s.Dir, strings.TrimPrefix(r.ManifestSHA256, "sha256:")+attemptsSuffix)
}

func (s *Store) write(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(s.Dir))
}

// matching returns the paths of the files whose names begin and end so, but for those that are being written.
func (s *Store) matching(prefix, suffix string) (paths []string, err error) {
	entries, err := os.ReadDir(s.Dir)
	if s.Dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".") {
			paths = append(paths, filepath.Join(s.Dir, name))
		}
	}
	return paths, err
}

// Removed returns what was removed, in the order in which it was planned, as far as counts accepts it. A record
// that is not good is a *trajectory.Fault that names the file, whatever it is of.
func (s *Store) Removed(counts func(Record) bool) ([]Removed, error) {
	paths, err := s.matching("", EnvelopeSuffix)
	if err != nil {
		return nil, err
	}
	var all []Removed
	for _, path := range paths {
		name := filepath.Base(path)
		if !strings.Contains(name, "-") && !strings.HasPrefix(name, importedName) {
			return nil, trajectory.Faultf(name, "is of the schema gaia.history/1, which gaia 0.1.0 reads and this version does not")
		}
		if !strings.HasSuffix(name, prunedSuffix) {
			continue
		}
		r, err := s.record(path, s.Trusted)
		if err != nil {
			return nil, err
		}
		if !counts(r) {
			continue
		}
		stats, err := s.stats(r)
		if err != nil {
			return nil, err
		}
		all = append(all, Removed{r, stats})
	}
	slices.SortFunc(all, func(a, b Removed) int {
		return cmp.Or(strings.Compare(a.Created, b.Created), strings.Compare(a.Path, b.Path))
	})
	return all, nil
}

// record reads an envelope that one of keys has signed. What is wrong with it is a *trajectory.Fault.
func (s *Store) record(path string, keys []sign.PublicKey) (Record, error) {
	data, err := regular.ReadUpTo(path, MaxEnvelope)
	if err != nil {
		return Record{}, fmt.Errorf("reading the history %q: %w", path, err)
	}
	err = errors.New("is sealed by no key that you trust")
	for _, key := range keys {
		payload, unsealed := sign.Unseal(data, recordType, key)
		if unsealed != nil {
			continue
		}
		var r Record
		if err = canonical.Decode(payload, &r); err != nil {
			break
		}
		if err = r.check(nil); err != nil {
			break
		}
		counted, pruned := s.names(r.ManifestSHA256, r.Path)
		if path != counted && r.Pruned == "" || path != pruned && r.Pruned != "" {
			err = errors.New("is of another run than its name says")
			break
		}
		return r, nil
	}
	return Record{}, trajectory.Faultf(filepath.Base(path), "%v", err)
}

// stats returns what was counted of the run of a record, nil if nothing was.
func (s *Store) stats(r Record) (*rundir.RunStats, error) {
	if r.Attempts == "" {
		return nil, nil
	}
	path := s.attempts(r)
	data, err := regular.ReadUpTo(path, MaxExport)
	if err == nil && canonical.Digest(data) != r.Attempts {
		err = errors.New("is not the file that its record is of")
	}
	if err != nil {
		return nil, trajectory.Faultf(filepath.Base(path), "%v", err)
	}
	var stats rundir.RunStats
	events, run, err := openAttempts(data)
	if err == nil {
		err = canonical.Decode([]byte(run), &stats)
	}
	if err == nil {
		stats.Events, err = collect(events)
	}
	if err == nil {
		err = r.check(&stats)
	}
	if err != nil {
		return nil, trajectory.Faultf(filepath.Base(path), "%v", err)
	}
	return &stats, nil
}

// check reports what keeps a record from being one of a run, or stats from being of that run.
func (r Record) check(stats *rundir.RunStats) error {
	digits := strings.TrimPrefix(r.ManifestSHA256, "sha256:")
	switch {
	case r.Schema != recordSchema:
		return fmt.Errorf("its schema is not %s", recordSchema)
	case r.Kind != KindRun && r.Kind != KindPackage:
		return fmt.Errorf("its kind is %q", r.Kind)
	case digits == r.ManifestSHA256 || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "":
		return errors.New("its manifest_sha256 is no digest")
	case (r.Pruned == "") == (r.Files == ""):
		return errors.New("it has to have either files or pruned")
	}
	for _, at := range []string{r.Created, cmp.Or(r.Pruned, r.Created)} {
		if _, err := time.Parse(trajectory.TimeFormat, at); err != nil {
			return fmt.Errorf("%q is no time", at)
		}
	}
	if r.Checkpoint != "" {
		c, err := trajectory.ParseCheckpoint([]byte(r.Checkpoint))
		if err != nil || c.RunID != r.RunID || c.ManifestSHA256 != r.ManifestSHA256 {
			return errors.New("its checkpoint is not of its run")
		}
	}
	if r.Attempts != "" && r.Pruned != "" && r.Checkpoint == "" {
		return errors.New("it has attempts and no checkpoint")
	}
	if stats == nil {
		return nil
	}
	if stats.RunID != r.RunID || stats.ManifestSHA256 != r.ManifestSHA256 || stats.SignedBy != r.SignedBy || stats.Rehearsal != r.Rehearsal || stats.Schema != rundir.StatsSchema {
		return errors.New("what was counted is of another run")
	}
	for _, e := range stats.Events {
		if e.RunID != r.RunID || e.ManifestSHA256 != r.ManifestSHA256 {
			return fmt.Errorf("the event %q is of another run", e.ID)
		}
	}
	return nil
}

// Evict removes the oldest records of runs that are still there, beyond a thousand. Their runs are read again when
// they are asked for.
func (s *Store) Evict() {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return
	}
	var counted []fs.FileInfo
	removed := map[string]bool{} // digests of the plans of removed runs
	for _, e := range entries {
		stem, _, _ := strings.Cut(e.Name(), "-")
		if strings.HasSuffix(e.Name(), prunedSuffix) {
			removed[stem] = true
		} else if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), EnvelopeSuffix) && len(stem) == 64 {
			counted = append(counted, info)
		}
	}
	slices.SortFunc(counted, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range counted[min(len(counted), maxCounted):] {
		stem, _, _ := strings.Cut(info.Name(), "-")
		_ = os.Remove(filepath.Join(s.Dir, info.Name())) // else the next one does
		if !removed[stem] {
			_ = os.Remove(filepath.Join(s.Dir, stem+attemptsSuffix))
		}
	}
}

// settled is how long a file must have been left alone before what was read of it is kept: one that is
// written to within the same tick of the file system's clock has the same times after it.
const settled = 2 * time.Second

// Stamp returns the digest of what changes when a file is written to: device, inode, mode, size, and the
// times of its changes, of the last of which (ctime) no user can set the value. What is written through a
// shared mapping moves it only when it is flushed to the file. A file that is not there counts as that. by is part of
// the digest: the program that read the files. keep is false where a file was changed less than two seconds
// before now, or has no stamp. Names are relative to path; "." is path.
func Stamp(path string, names []string, by string, now time.Time) (stamp string, keep bool) {
	text := path + "\n" + by
	keep = true
	for _, name := range names {
		var s unix.Stat_t
		err := unix.Lstat(filepath.Join(path, name), &s)
		if errors.Is(err, fs.ErrNotExist) {
			text += fmt.Sprintf("\n%q absent", name)
			continue
		}
		if err != nil {
			return "", false
		}
		modified, changed := time.Unix(s.Mtim.Unix()), time.Unix(s.Ctim.Unix())
		text += fmt.Sprintf("\n%q %d %d %d %d %d %d", name, s.Dev, s.Ino, s.Mode, s.Size, modified.UnixNano(), changed.UnixNano())
		keep = keep && changed.Before(now.Add(-settled)) && modified.Before(now.Add(-settled))
	}
	return canonical.Digest([]byte(text)), keep
}

// RemovalPrefix begins the name of a folder that is being removed.
const RemovalPrefix = ".pruning-"

// RealPath returns the absolute path that a path leads to.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil
}
