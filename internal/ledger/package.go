package ledger

import (
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/prune"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// VerifiedPackage verifies a package and returns what stays of it.
func VerifiedPackage(path string) (of prune.Package, err error) {
	at, err := verify.Open(path)
	if err != nil {
		return of, err
	}
	defer at.Close()
	var said submit.Predicate
	if at.IsPublic() {
		found, err := at.VerifyPublic(submit.Options{Harness: build.Harness})
		if err != nil {
			return of, err
		}
		said = found.Statement.Predicate
	} else {
		found, err := at.Verify(submit.Options{Once: true})
		if err != nil {
			return of, err
		}
		said = found.Statement.Predicate
		stats, _, err := Stats(path)
		if err != nil {
			return of, err
		}
		of.Stats = &stats
	}
	if name := strings.TrimSuffix(filepath.Base(path), submit.ArchiveSuffix); name != said.Name {
		return of, trajectory.Faultf(submit.AttestationFile, "is of the package %q, which has another name here", said.Name)
	}
	of.Date = said.Date
	of.Record, err = prune.RecordOf(at.Files, path, history.KindPackage)
	return of, err
}
