package submit

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// copyAdjudications writes what a run's adjudications say into the one file that
// they have in a package, if there are any, and returns the names of theirs.
func copyAdjudications(run fs.FS, stage string) ([]string, error) {
	files, envelopes, err := audit.CollectAdjudications(run)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return files, writeFile(filepath.Join(stage, audit.AdjudicationsFile), func(w io.Writer) error {
		for _, envelope := range envelopes {
			if _, err := w.Write(append(envelope, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkNames wants each decision to have lain in the run under its finding's name,
// which a package does not show.
func checkNames(report audit.Report, decisions []string) error {
	for i, a := range report.Adjudications {
		if (audit.Ruling{Finding: a.Finding}).File() != decisions[i] {
			return trajectory.Faultf(decisions[i], "decides about finding %s, which its name is not of", a.Finding)
		}
	}
	return nil
}

// readAdjudications reads the decisions about findings, if the package has any.
func readAdjudications(pkg fs.FS, run *ledger.Run, digests map[string]string) ([]audit.Adjudication, error) {
	digest, signed := digests[audit.AdjudicationsFile]
	if !signed {
		return nil, nil
	}
	data, err := ledger.ReadFile(pkg, audit.AdjudicationsFile, audit.MaxAdjudications)
	if err != nil {
		return nil, err
	}
	if sign.Digest(data) != digest {
		return nil, changed(audit.AdjudicationsFile)
	}
	return audit.DecodeAdjudications(data, run)
}
