// Package verify checks what a user names: a run directory, a package, full or public, folder or archive, or an evidence
// bundle.
//
// Env.Check verifies one, Env.CheckAll several, which it compares with each other; Env.Audit verifies a run or package and
// audits it. The result has a form for JSON and one for people. Integrity (these bytes are what was signed) and trust (by a
// key that the user trusts) are reported apart.
package verify

import (
	"io/fs"
	"os"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// verifyPackage verifies a package; with a dataset, its verdicts by these answers and, if the audit had them, its audit
// too. A broken package is reported before a dataset is read.
func (e Env) verifyPackage(p *Evidence, v Request) (*submit.Verified, error) {
	bodies, err := ReadBodies(v.Bodies)
	if err != nil {
		return nil, err
	}
	o := submit.Options{Bodies: bodies.ByDigest(), Harness: e.Harness}
	of, err := p.Verify(o)
	if err == nil {
		err = bodies.Check(of.Report.Inputs.Bodies, "package's report")
	}
	if err != nil || v.Dataset == "" {
		return of, err
	}
	if o.Gold, err = e.Gold(v.Dataset, of.Run.Manifest); err != nil {
		return nil, err
	}
	if err := e.Questions(v.Dataset, of.Run); err != nil {
		return nil, err
	}
	if err := of.Rescore(o.Gold); err != nil || of.NotRerun == "" {
		return of, err
	}
	return of, of.Rerun(p.Files, o)
}

// Run verifies a run directory with its signed additions: decisions about its findings, and later judgments.
func Run(dir fs.FS) (*rundir.Run, []audit.SealedRejudgment, error) {
	found, err := rundir.Verify(dir, rundir.Options{Compare: true})
	if err == nil {
		err = plan.CheckSelection(found.Manifest)
	}
	if err != nil {
		return nil, nil, err
	}
	later, err := Additions(dir, found)
	return found, later, err
}

// Additions verifies the signed additions to a run, and returns the later judgments.
func Additions(dir fs.FS, found *rundir.Run) ([]audit.SealedRejudgment, error) {
	if _, err := audit.ReadAdjudications(dir, found); err != nil {
		return nil, err
	}
	return audit.ReadRejudgments(dir, found)
}

// Verification is what verify prints of a run or a package with --json.
type Verification struct {
	EvidenceVerdict
	Audit          string                `json:"audit,omitzero"`      // of a full package: whether the audit was run again
	Checkpoint     string                `json:"checkpoint,omitzero"` // left out: the run is not complete and has none
	Complete       bool                  `json:"complete"`
	Dataset        string                `json:"dataset,omitzero"`     // of a public package: what was compared with the one given
	Dismissals     []dismissal           `json:"dismissals,omitempty"` // of findings, by signed decisions
	ErrorsOf       string                `json:"errors_of,omitzero"`   // id of the run whose errors its tasks are
	Events         int64                 `json:"events"`               // of the journal, withheld or not
	Findings       []string              `json:"findings"`             // what alone would have exit code 3
	Integrity      string                `json:"integrity"`            // "ok"; a run without it is an error
	JournalHead    string                `json:"journal_head"`
	Judgments      int                   `json:"judgments"` // the run's own, if it has one, and the later ones
	Later          []laterJudgment       `json:"later_judgments,omitempty"`
	KeyID          string                `json:"key_id"`
	ManifestSHA256 string                `json:"manifest_sha256"`
	Missing        string                `json:"missing,omitzero"`
	Package        *submit.Predicate     `json:"package,omitzero"` // the statement of a package
	Prompts        *rundir.Share         `json:"prompts,omitzero"` // left out: where the inputs of models come from is not known
	Public         bool                  `json:"public,omitzero"`  // it is a public package
	PublicPackage  string                `json:"public_package,omitzero"`
	Rehearsal      bool                  `json:"rehearsal,omitzero"`
	Root           string                `json:"root,omitzero"`
	Readme         string                `json:"readme,omitzero"` // of a package: "rebuilt", or why it was not
	RunID          string                `json:"run_id"`
	Scores         string                `json:"scores,omitzero"` // of a package: what the scores rest on
	Shards         *shards               `json:"shards,omitzero"` // of a merged run
	SignerTrusted  bool                  `json:"signer_trusted"`
	Tasks          int                   `json:"tasks"`
	Trust          string                `json:"trust"`                  // "ok", "unknown key" or "expired key"
	Unsubmittable  string                `json:"unsubmittable,omitzero"` // of a public package only that recording failed
	Withheld       []submit.WithheldFile `json:"withheld,omitempty"`     // of a public package
}

// The kinds of packages.
const (
	packageKind = "package"
	publicKind  = "public package"
)

// Checked is a run, package or bundle whose integrity is good.
type Checked struct {
	path       string
	kind       string            // "run", "package", "public package" or "evidence bundle"
	Result     any               // what --json prints
	Rows       [][2]string       // for a person
	commitment rundir.Signed     // what the run's key has signed
	digest     string            // distinguishes it from another of the same run: of the attestation, the checkpoint or the bundle
	statement  *submit.Predicate // of a package
	Err        error             // what verify ends with: the signer, completeness, findings
}

// Check verifies what is at path. The error is that it does not verify, or cannot be read.
func (e Env) Check(path string, v Request) (*Checked, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, exit.Usagef(verifiable, "reading %q: %v", path, regular.Cause(err))
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, exit.Usagef(verifiable, "%q is neither a directory nor a file", path)
	case info.IsDir() || IsArchive(path):
		return e.checkEvidence(path, v)
	}
	return e.checkBundle(path, v)
}

// checkEvidence verifies a run directory or a package, folder or archive.
func (e Env) checkEvidence(dir string, f Request) (*Checked, error) {
	p, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := f.check(p); err != nil {
		return nil, err
	}
	if p.IsPublic() {
		return e.checkPublic(p, f)
	}
	var posted *Evidence
	if f.Packaged != "" {
		if posted, err = packageAt(f.Packaged); err != nil {
			return nil, err
		}
		defer posted.Close()
		if !posted.IsPublic() {
			return nil, exit.Usagef("give the public package of the run", "%q is a full package, too", f.Packaged)
		}
	}
	var of *submit.Verified // nil: it is a run
	found, later := (*rundir.Run)(nil), []audit.SealedRejudgment(nil)
	if p.Packaged {
		if of, err = e.verifyPackage(p, f); err != nil {
			return nil, err
		}
		found, later = of.Run, of.Later
	} else if found, later, err = Run(p.Files); err != nil {
		return nil, err
	}
	word, untrusted := e.Trust.Of(found.Key)
	v := Verification{Complete: found.Complete, ErrorsOf: found.Manifest.Dataset.ErrorsOf.RunID, Events: found.End.Events, Shards: newShards(found.Manifest, found.Shards, found.ShardsSummary()), Integrity: "ok", JournalHead: found.End.Head, KeyID: found.Key.ID(),
		ManifestSHA256: found.ManifestSHA256, Missing: found.Missing, Rehearsal: found.Manifest.Rehearsal, Root: found.RootHash,
		Judgments: audit.Judgments(found.Manifest, len(later)), Later: laterJudgments(found, later), RunID: found.Manifest.RunID,
		Prompts: found.Inputs.Share(), Tasks: len(found.Tasks), Trust: word, SignerTrusted: untrusted == nil, Unsubmittable: Unsubmittable(found)}
	if found.Complete || f.Checkpoint != nil {
		if v.Checkpoint, err = f.checkCheckpoint(p); err != nil {
			return nil, err
		}
	}
	if posted != nil {
		if v.PublicPackage, err = posted.isOf(of, e.Harness); err != nil {
			return nil, err
		}
	}
	c := &Checked{kind: "run", commitment: found.Signed()}
	given := submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Questions: f.Dataset != "", Trusted: untrusted == nil}
	file, unfinished, unfit := trajectory.CheckpointFile, error(nil), error(nil)
	if of != nil {
		c.kind, c.statement, file = packageKind, &of.Statement.Predicate, submit.AttestationFile
		v.addPackage(of)
		v.Dismissals = dismissals(e.Trust, of.Report, found)
		v.EvidenceVerdict = EvidenceVerdict{v.Package.AnsweredBy, of.Claims(given), v.Package.Exceptions, inFuture([2]string{"package", v.Package.Date})}
	} else {
		decided, err := audit.ReadAdjudications(p.Files, found)
		if err != nil {
			return nil, err
		}
		v.Dismissals = runDismissals(e.Trust, decided, found)
		v.EvidenceVerdict = runVerdict(found, decided, len(v.Dismissals), given)
		unfit = Submittable(found, v.Unsubmittable) // a package lists what it is not fit for
	}
	v.Future = append(inFuture([2]string{"plan", found.Manifest.Created}, [2]string{"journal", lastEvent(found.End)}), v.Future...)
	open := uncounted(v.Dismissals)
	if !found.Complete {
		unfinished = e.Incomplete(dir, found)
	} else {
		open = exit.First(unfit, open)
	}
	v.Findings = findings(open)
	c.Result, c.Err = v, exit.First(untrusted, unfinished, open)
	c.Rows = v.rows(found.Manifest, of, LaterRows(found, later), e.Source(found.Manifest.Dataset))
	if of != nil || found.Complete {
		c.digest, err = digestOf(p.Files, file)
	}
	return c, err
}

// digestOf returns the digest of a small file that was verified.
func digestOf(dir fs.FS, name string) (string, error) {
	const most = 16 << 20 // bytes, as verification has it
	data, err := rundir.ReadFile(dir, name, most)
	return canonical.Digest(data), err
}

// findings returns the message of an error with exit code 3, for JSON. The slice is not nil.
func findings(err error) []string {
	if err == nil || exit.Of(err).Code != exit.Findings {
		return []string{}
	}
	return []string{err.Error()}
}
