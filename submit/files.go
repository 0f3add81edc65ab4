package submit

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Limits, in bytes, of files that are read whole before their digest is known.
const (
	maxAttestation  = 16 << 20
	maxSums         = 4 << 10
	maxReport       = 32 << 20
	maxPlan         = 16 << 20 // and of what has as many lines as the plan has tasks, and no texts
	maxTold         = 16 << 20 // the summary and the README
	maxCheckpoint   = 4 << 10
	maxConstitution = 1 << 20
	maxScorecard    = 4 << 10
)

// Limits, in bytes, of the files of a run and a package when they are copied or
// hashed. What is in them is not known yet; a run of thousands of tasks stays far
// below.
const (
	maxCopied  = 256 << 20
	maxJournal = rundir.MaxFile // and of the records that derive from it
)

// limitOf bounds a file of a package, in bytes.
func limitOf(name string) int64 {
	return cmp.Or(map[string]int64{trajectory.JournalFile: maxJournal, rundir.TrajectoriesFile: maxJournal, AttestationFile: maxAttestation, BundleFile: 2 * maxAttestation,
		plan.ConstitutionFile: maxConstitution, plan.ManifestFile: maxPlan, plan.EnvelopeFile: 2 * maxPlan, leavesFile: maxPlan, MetadataFile: maxTold, ReadmeFile: maxTold,
		trajectory.CheckpointFile: maxCheckpoint, SumsFile: maxSums, scorecardFile: maxScorecard, audit.ReportFile: maxReport, audit.AdjudicationsFile: audit.MaxAdjudications, audit.RejudgmentsFile: audit.MaxRejudgments}[name], maxCopied)
}

// digestFile returns the digest of a file without holding it in memory. One that
// grows in the meantime has no digest.
func digestFile(dir fs.FS, name string) (string, error) {
	f, size, err := rundir.OpenFile(dir, name, limitOf(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if n != size {
		return "", changed(name)
	}
	return canonical.DigestOf(h), nil
}

// readSigned reads a file of at most limit bytes, which must have its digest.
func readSigned(dir fs.FS, name string, limit int64, digests map[string]string) ([]byte, error) {
	data, err := rundir.ReadFile(dir, name, limit)
	if err == nil && canonical.Digest(data) != digests[name] {
		err = changed(name)
	}
	return data, err
}

// checkFiles wants exactly a package's files, those of names; may are allowed to be
// there besides.
func checkFiles(pkg fs.FS, names []string, may ...string) error {
	entries, err := fs.ReadDir(pkg, ".")
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) && !slices.Contains(may, e.Name()) {
			return trajectory.Faultf(plainName(e.Name()), "is not part of a package")
		}
		if !e.Type().IsRegular() {
			return trajectory.Faultf(e.Name(), "is not a regular file")
		}
		there[e.Name()] = true
	}
	for _, name := range names {
		if !there[name] {
			return trajectory.Faultf(name, rundir.Missing)
		}
	}
	return nil
}

// plainName quotes a file name that could be taken for something else.
func plainName(name string) string {
	if regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

// writeFile writes a new file, durably.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return f.Close()
}

// copyFile copies a file of the run to path.
func copyFile(run fs.FS, from, path string) error {
	limit := limitOf(from)
	in, _, err := rundir.OpenFile(run, from, limit)
	if err != nil {
		return err
	}
	defer in.Close()
	return writeFile(path, func(w io.Writer) error {
		n, err := io.Copy(w, io.LimitReader(in, limit+1))
		if err != nil {
			return fmt.Errorf("copying %s: %w", from, err)
		}
		if n > limit {
			return trajectory.Faultf(from, "is larger than %d bytes", limit)
		}
		return nil
	})
}
