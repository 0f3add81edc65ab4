package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// verifiable says what verify takes.
const verifiable = "give a run directory, a package, folder or archive, or an evidence bundle that 'gaia disclose' wrote"

// Request says what to verify, and with what.
type Request struct {
	CheckpointFile string                       // where the published checkpoint is from
	Checkpoint     []byte                       // that was published; nil: none is given
	HMAC           func() (sign.HMACKey, error) // reads the key that a bundle is signed with; nil: none is given
	Packaged       string                       // a package, to compare a bundle or a full package with
	Dataset        string                       // a source of tasks, as --source is written
	Bodies         func() ([]Body, error)       // reads whole documents; nil: none are given
}

// Env is what a verification needs besides the evidence.
type Env struct {
	Trust      keyring.Trust
	Harness    func() (trajectory.Harness, error)                    // the program that verifies
	Gold       func(source string, m plan.Plan) (*audit.Gold, error) // reads the plan's answers
	Questions  func(source string, run *rundir.Run) error            // compares questions
	Levels     func(source string, m plan.Plan) error                // compares ids and levels with a public plan
	Source     func(plan.Dataset) string                             // how a dataset is named for gold
	Incomplete func(path string, run *rundir.Run) error              // the error of a run that is not finished
}

// Check refuses flags that say nothing of the run or package p.
func (v Request) Check(p *Evidence) error {
	const pairs = "--package is for evidence bundles and full packages"
	switch {
	case v.HMAC != nil:
		return exit.Usagef("leave it out: the plan names the key that signed it", "--hmac-key-file is for evidence bundles")
	case v.Dataset != "" && !p.Packaged:
		return exit.Usagef("a run is audited with 'gaia audit'", "--dataset is for packages, which it scores and audits again")
	case v.Bodies != nil && !p.Packaged:
		return exit.Usagef("gaia audit --body FILE "+view.Quote(p.path), "--body is for packages, which it audits again")
	case v.Bodies != nil && p.IsPublic():
		return exit.Usagef("give the full package", "--body runs the audit of a package again, and %q is a public one: what the audit reads is withheld", p.path)
	case v.Packaged != "" && !p.Packaged:
		return exit.Usagef("make the full package of the run with 'gaia submit', and give it in the place of the run", "%s, and %q is a run", pairs, p.path)
	case v.Packaged != "" && p.IsPublic():
		return exit.Usagef("give the full package first: gaia verify PACKAGE --package "+view.Quote(p.path), "%s, and %q is a public one", pairs, p.path)
	}
	return nil
}

// Which checkpoint it was, in JSON.
const (
	checkpointGiven   = "given"   // it is the one of --checkpoint
	checkpointPackage = "package" // of a bundle: it is the one in the package of --package
	checkpointOwn     = "own"     // it was held against nothing
)

// isPublished wants the checkpoint of a verified run or package to be the one that
// was published, if one is given, and says which it is.
func (v Request) isPublished(p *Evidence) (string, error) {
	if v.Checkpoint == nil {
		return checkpointOwn, nil
	}
	own, err := rundir.ReadFile(p.Files, trajectory.CheckpointFile, MaxPublished)
	fault := (*trajectory.Fault)(nil)
	switch {
	case errors.As(err, &fault) && fault.Reason == rundir.Missing: // the run is not complete
		err = trajectory.Faultf(trajectory.CheckpointFile, "%s, so it is not the one in %q", rundir.Missing, v.CheckpointFile)
	case err == nil && !bytes.Equal(own, v.Checkpoint):
		err = trajectory.Faultf(trajectory.CheckpointFile, "is not the one in %q", v.CheckpointFile)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.path, err)
	}
	return checkpointGiven, nil
}

// Body is a file with a whole document.
type Body struct {
	Path, SHA256 string
	Data         []byte
}

// Stray is the error of a document that nothing in the run or report of a package has.
func (b Body) Stray(of string) error {
	return exit.Usagef("a document is known by its digest: it must be what the tool got, byte for byte, or what 'gaia show DIR --body DIGEST' writes", "%q is no document of this %s", b.Path, of)
}
