package run

import (
	"fmt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
)

// Hold locks a run directory against a process that would write it, until release is
// called; ErrBusy where one does. It makes nothing in the directory.
func Hold(dir string) (release func() error, err error) {
	if err := regular(dir, lockFile, trajectory.JournalFile); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY)) // which takeLocks locks, too
	switch got, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("locking the run: %w", err)
	case !got:
		return nil, ErrBusy
	}
	return lock.Unlock, nil
}

// Foreign returns the name of a file or folder that a run directory holds and that no
// run makes, "" if there is none.
func Foreign(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !ownName(e.Name()) {
			return e.Name(), nil
		}
	}
	return "", err
}

// ownName reports whether a run makes a file or folder of a name.
func ownName(name string) bool {
	replaced := []string{rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile, tornPrefix, UnrecordedResults, UnrecordedSummary}
	if hidden, is := strings.CutPrefix(name, "."); is { // written beside the file that it is to replace
		return slices.ContainsFunc(replaced, func(n string) bool { return strings.HasPrefix(hidden, n) })
	}
	bodies, _, _ := strings.Cut(trajectory.BodiesDir, "/")
	return strings.HasPrefix(name, tornPrefix) || slices.Contains(append(replaced, plan.ManifestFile, plan.EnvelopeFile, trajectory.JournalFile, rundir.MarkerFile,
		PrivateFile, lockFile, workDir, plan.ConstitutionFile, bodies, audit.AttestationsDir), name)
}
