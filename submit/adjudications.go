package submit

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// added are the names of a run's signed additions, in the order of their lines in a
// package, by the name of the file there.
type added map[string][]string

// copyAdditions writes a run's adjudications, with their countersignatures, and later judgments into the one file
// that either have in a package, if there are any, and returns their names.
func copyAdditions(run fs.FS, stage string) (added, error) {
	all := added{}
	for name, collect := range map[string]func(fs.FS) ([]string, [][]byte, error){
		audit.AdjudicationsFile: audit.CollectAdjudications, audit.RejudgmentsFile: audit.CollectRejudgments,
	} {
		files, envelopes, err := collect(run)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			continue
		}
		all[name] = files
		err = writeFile(filepath.Join(stage, name), func(w io.Writer) error {
			for _, envelope := range envelopes {
				if _, err := w.Write(append(envelope, '\n')); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkNames checks that the file of each decision had its finding's name in the run, and
// that of each later judgment its judge's. A package does not show these names.
func (a added) checkNames(report audit.Report, later []audit.SealedRejudgment) error {
	files := a[audit.AdjudicationsFile]
	for _, d := range report.Adjudications {
		r := audit.Ruling{Finding: d.Finding}
		if files[0] != r.File() {
			return trajectory.Faultf(files[0], "decides about finding %s, which its name is not of", d.Finding)
		}
		files = files[1:]
		if d.Countersigned == nil {
			continue
		}
		if files[0] != r.CountersignatureFile() {
			return trajectory.Faultf(files[0], "countersigns the decision about finding %s, which its name is not of", d.Finding)
		}
		files = files[1:]
	}
	for i, r := range later {
		if file := a[audit.RejudgmentsFile][i]; audit.RejudgmentFile(r.Judge) != file {
			return trajectory.Faultf(file, "is of the judge %q, which its name is not of", r.Judge.Model)
		}
	}
	return nil
}

// readAdjudications reads the decisions about findings, if the package has any.
func readAdjudications(pkg fs.FS, run *rundir.Run, digests map[string]string) ([]audit.Adjudication, error) {
	return readAddition(pkg, run, audit.AdjudicationsFile, digests, audit.DecodeAdjudications)
}

// readRejudgments reads the later judgments, if the package has any.
func readRejudgments(pkg fs.FS, run *rundir.Run, digests map[string]string) ([]audit.SealedRejudgment, error) {
	return readAddition(pkg, run, audit.RejudgmentsFile, digests, audit.DecodeRejudgments)
}

func readAddition[T any](pkg fs.FS, run *rundir.Run, name string, digests map[string]string, decode func([]byte, *rundir.Run) ([]T, error)) ([]T, error) {
	if digests[name] == "" {
		return nil, nil
	}
	data, err := readSigned(pkg, name, limitOf(name), digests)
	if err != nil {
		return nil, err
	}
	return decode(data, run)
}

// present returns the names of the additions that a package has.
func present(report audit.Report, later []audit.SealedRejudgment) (names []string) {
	if len(report.Adjudications) > 0 {
		names = append(names, audit.AdjudicationsFile)
	}
	if len(later) > 0 {
		names = append(names, audit.RejudgmentsFile)
	}
	return names
}
