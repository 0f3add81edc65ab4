package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/verify"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// historyDir is the folder of records of runs and of imported events; "" if there is none.
func (a *app) historyDir() string {
	if base := a.xdg("XDG_DATA_HOME", ".local/share"); base != "" {
		return filepath.Join(base, "gaia", "history")
	}
	return ""
}

// store returns the user's records, and whom the user trusts. Without a signing key nothing is kept of runs.
func (a *app) store() (*history.Store, keyring.Trust, error) {
	trusted, err := a.ownTrust()
	if err != nil {
		return nil, keyring.Trust{}, err
	}
	s := &history.Store{Dir: a.historyDir(), Trusted: trusted.Valid()}
	if key, err := a.existingKey(""); err == nil {
		s.Key = &key
	}
	return s, trusted, nil
}

// runReader returns a reader of the runs that a user names.
func (a *app) runReader() (*history.Reader, error) {
	store, trusted, err := a.store()
	if err != nil {
		return nil, err
	}
	program, _ := thisBuild() // without it nothing is kept
	return &history.Reader{Store: store, Program: program, Now: time.Now, AtOnce: runtime.GOMAXPROCS(0), Log: a.stderr,
		ArchiveSuffix: submit.ArchiveSuffix, Kind: kindOf, Files: filesRead, Begun: begun, Verify: verifiedStats, Incomplete: incomplete,
		Trusts: trusted.OfID, Conflict: verify.Equivocation}, nil
}

// eachRun gives the finished runs at paths, as history.Reader.Each does.
func (a *app) eachRun(paths []string, q history.Query, give func(history.Run) error) (history.Read, error) {
	r, err := a.runReader()
	if err != nil {
		return history.Read{}, err
	}
	return r.Each(paths, q, give)
}

// kindOf tells run directories, packages and archives from other files.
func kindOf(path string) string {
	switch {
	case verify.IsPackage(path): // or an archive
		return history.KindPackage
	case verify.IsRun(path) == nil:
		return history.KindRun
	}
	return ""
}

// thisBuild tells this build of the program from all others: by its version, and by the stamp of its file, since to
// hash that takes longer than what is kept saves.
func thisBuild() (string, error) {
	h, f, err := thisProgram()
	if err != nil {
		return "", err
	}
	defer f.Close()
	stamp, _ := history.Stamp(f.Name(), []string{"."}, fmt.Sprint(h.Version, h.Commit, h.Dirty, runtime.GOOS, runtime.GOARCH), time.Now())
	if stamp == "" {
		return "", errors.New("the program's file has no stamp")
	}
	return stamp, nil
}

// filesRead names the files that verification reads of a run directory, a package (which has to have
// exactly its files) or an archive.
func filesRead(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{"."}, nil
	}
	if !verify.IsPackage(path) {
		return []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile,
			rundir.SummaryFile, trajectory.CheckpointFile, rundir.MarkerFile}, nil
	}
	entries, err := os.ReadDir(path)
	names := []string{"."}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// openCounted opens a run directory, package or archive. A file that is named as an archive and is none is damaged.
func openCounted(path string) (*verify.Evidence, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && strings.HasSuffix(path, submit.ArchiveSuffix) && !verify.IsArchive(path) {
		return nil, trajectory.Faultf(filepath.Base(path), "is named as an archive and does not begin as one")
	}
	return verify.OpenJournal(path)
}

// begun returns which run is at path and when it began, by the first line of its journal.
func begun(path string) (runID, started string, err error) {
	given, err := openCounted(path)
	if err != nil {
		return "", "", err
	}
	defer given.Close()
	runID, started = history.FirstEvent(given.Files)
	return runID, started, nil
}

// verifiedStats verifies a run directory, package or archive and returns what is counted of it.
func verifiedStats(path string) (stats rundir.RunStats, run *rundir.Run, err error) {
	given, err := openCounted(path)
	if err != nil {
		return rundir.RunStats{}, nil, err
	}
	defer given.Close()
	run, err = given.Shown(func(summary string) (run *rundir.Run, err error) {
		stats, run, err = rundir.ReadStats(given.Files, summary)
		return run, err
	})
	if err != nil || !run.Complete {
		return rundir.RunStats{}, run, err
	}
	stats.RecordingFailed = run.Marked
	return stats, run, nil
}

// noHistory is the error that there is no place for records.
func noHistory() error {
	return fail(exitFailure, errors.New("no place for the history: neither XDG_DATA_HOME nor HOME is set"), "set one of them")
}

// sealingStore is store with a signing key, which is made if there is none.
func (a *app) sealingStore() (*history.Store, error) {
	s, _, err := a.store()
	if err != nil {
		return nil, err
	}
	if s.Dir == "" {
		return nil, noHistory()
	}
	var key sign.Key
	if key, err = a.signingKey(""); err != nil {
		return nil, err
	}
	s.Key = &key
	return s, nil
}
