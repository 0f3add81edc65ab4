package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// verifiable is the hint for what cannot be verified.
const verifiable = "give a run directory, a package, folder or archive, or an evidence bundle that 'gaia disclose' wrote"

// Request describes what to verify, and with what.
type Request struct {
	CheckpointFile string                       // where the published checkpoint is from
	Checkpoint     []byte                       // that was published; nil: none is given
	HMAC           func() (sign.HMACKey, error) // reads the key that a bundle is signed with; nil: none is given
	Packaged       string                       // a package, to compare a bundle or a full package with
	Dataset        string                       // a source of tasks, as --dataset is written
	Bodies         []string                     // files with whole documents, which are read once they are known to apply
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

// check rejects flags that do not apply to the run or package p.
func (v Request) check(p *Evidence) error {
	const pairs = "--package is for evidence bundles and full packages"
	switch bodies := len(v.Bodies) > 0; {
	case v.HMAC != nil:
		return exit.Usagef("leave it out: the plan names the key that signed it", "--hmac-key-file is for evidence bundles")
	case v.Dataset != "" && !p.Packaged:
		return exit.Usagef("a run is audited with 'gaia audit'", "--dataset is for packages, which it scores and audits again")
	case bodies && !p.Packaged:
		return exit.Usagef("gaia audit --body FILE "+view.Quote(p.path), "--body is for packages, which it audits again")
	case bodies && p.IsPublic():
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
	checkpointOwn     = "own"     // it was compared with nothing
)

// maxPublished bounds a checkpoint file, in bytes.
const maxPublished = 4 << 10

// ReadPublished reads the checkpoint that was published; "" is none.
func (v *Request) ReadPublished(file string) (err error) {
	if file == "" {
		return nil
	}
	const hint = "give a file with the checkpoint that was published, as it is in a run or a package"
	v.CheckpointFile = file
	if v.Checkpoint, err = regular.Read(file, maxPublished); err != nil {
		return exit.Usagef(hint, "reading the checkpoint %q: %v", file, err)
	}
	if _, err := trajectory.ParseCheckpoint(v.Checkpoint); err != nil {
		return exit.Usagef(hint, "%q holds no checkpoint", file)
	}
	return nil
}

// checkCheckpoint compares the checkpoint of a verified run or package with the published one, if one is given, and
// returns which it is.
func (v Request) checkCheckpoint(p *Evidence) (string, error) {
	if v.Checkpoint == nil {
		return checkpointOwn, nil
	}
	own, err := rundir.ReadFile(p.Files, trajectory.CheckpointFile, maxPublished)
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

// body is a file with a whole document.
type body struct {
	path, digest string
	data         []byte
}

// Bodies are whole documents, of which a run may have recorded excerpts.
type Bodies []body

// ReadBodies reads files with whole documents.
func ReadBodies(paths []string) (all Bodies, err error) {
	const most = 256 << 20 // bytes
	for _, path := range paths {
		b, err := regular.ReadUpTo(path, most)
		if err != nil {
			return nil, fmt.Errorf("reading the document %q: %w", path, err)
		}
		all = append(all, body{path, canonical.Digest(b), b})
	}
	return all, nil
}

// ByDigest returns the documents by their digests.
func (all Bodies) ByDigest() map[string][]byte {
	m := map[string][]byte{}
	for _, b := range all {
		m[b.digest] = b.data
	}
	return m
}

// Check rejects the first document whose digest is not known to a run or report.
func (all Bodies) Check(known []string, of string) error {
	for _, b := range all {
		if !slices.Contains(known, b.digest) {
			return all.Stray(b.digest, of)
		}
	}
	return nil
}

// Stray returns the error of a document that nothing in the run or report has.
func (all Bodies) Stray(digest, of string) error {
	at := slices.IndexFunc(all, func(b body) bool { return b.digest == digest })
	return exit.Usagef("a document is known by its digest: it must be what the tool got, byte for byte, or what 'gaia show DIR --body DIGEST' writes",
		"%q is no document of this %s", all[at].path, of)
}

// ReadPlan reads the plan at a path: a manifest, or a run directory or package, folder or archive, with one. It checks no
// signature: none is needed to plan the same again.
func ReadPlan(path string) (plan.Plan, error) {
	const maxManifest = 64 << 20
	const hint = "give a manifest.json, a run directory, or a package, folder or archive"
	info, err := os.Stat(path)
	if err != nil {
		return plan.Plan{}, exit.Usagef(hint, "reading the plan %q: %v", path, regular.Cause(err))
	}
	dir, name := filepath.Split(path)
	files := os.DirFS(filepath.Clean(dir))
	switch {
	case info.IsDir():
		files, name = os.DirFS(path), plan.ManifestFile
		if _, err := fs.Lstat(files, name); errors.Is(err, fs.ErrNotExist) {
			return plan.Plan{}, exit.Usagef(hint, "%q holds no %s", path, name)
		}
	case IsArchive(path):
		p, err := Open(path)
		if err != nil {
			return plan.Plan{}, err
		}
		defer p.Close()
		files, name = p.Files, plan.ManifestFile
	}
	data, err := rundir.ReadFile(files, name, maxManifest)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Decode(data)
}
