package main

import (
	"context"
	"io/fs"
	"os"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// verifyPackage verifies a package; with a dataset, its verdicts by these answers
// and, if the audit had them, its audit too. What is broken is said before a dataset is asked for.
func (a *app) verifyPackage(ctx context.Context, p *evidence, dataset string, bodies []string) (*submit.Verified, error) {
	all, given, err := readBodies(bodies)
	if err != nil {
		return nil, err
	}
	o := submit.Options{Bodies: all, Harness: harness}
	of, err := p.verify(o)
	if err != nil {
		return nil, err
	}
	for _, body := range given {
		if !slices.Contains(of.Report.Inputs.Bodies, body.sha256) {
			return nil, body.stray("package's report")
		}
	}
	if dataset == "" {
		return of, nil
	}
	ctx, release := untilStopped(ctx)
	defer release()
	if o.Gold, err = a.goldFor(ctx, dataset, of.Run.Manifest); err != nil {
		return nil, err
	}
	if err := a.compareQuestions(ctx, dataset, of.Run); err != nil {
		return nil, err
	}
	if err := of.Rescore(o.Gold); err != nil || of.NotRerun == "" {
		return of, err
	}
	return of, of.Rerun(p.files, o)
}

// verifyRun verifies a run directory with its signed additions: decisions about its
// findings, and later judgments.
func verifyRun(dir fs.FS) (*rundir.Run, []audit.SealedRejudgment, error) {
	found, err := rundir.Verify(dir, rundir.Options{})
	if err == nil {
		err = plan.CheckSelection(found.Manifest)
	}
	if err != nil {
		return nil, nil, err
	}
	later, err := readAdditions(dir, found)
	return found, later, err
}

// readAdditions reads the signed additions to a run, and returns the later judgments.
func readAdditions(dir fs.FS, found *rundir.Run) ([]audit.SealedRejudgment, error) {
	if _, err := audit.ReadAdjudications(dir, found); err != nil {
		return nil, err
	}
	return audit.ReadRejudgments(dir, found)
}

// verification is what verify prints of a run or a package with --json.
type verification struct {
	evidenceVerdict
	Audit          string                `json:"audit,omitzero"`      // of a full package: whether the audit was run again
	Checkpoint     string                `json:"checkpoint,omitzero"` // left out: the run is not complete and has none
	Complete       bool                  `json:"complete"`
	Dataset        string                `json:"dataset,omitzero"`     // of a public package: what was compared with the one given
	Dismissals     []dismissal           `json:"dismissals,omitempty"` // of findings, by signed decisions
	Events         int64                 `json:"events"`               // of the journal, withheld or not
	Findings       []string              `json:"findings"`             // what alone would have exit code 3
	Integrity      string                `json:"integrity"`            // "ok"; a run without it is an error
	JournalHead    string                `json:"journal_head"`
	Judgments      int                   `json:"judgments"` // the run's own, if it has one, and the later ones
	Later          []laterJudgment       `json:"later_judgments,omitempty"`
	KeyID          string                `json:"key_id"`
	ManifestSHA256 string                `json:"manifest_sha256"`
	Missing        string                `json:"missing,omitzero"`
	Package        *submit.Predicate     `json:"package,omitzero"` // what a package says of itself
	Public         bool                  `json:"public,omitzero"`  // it is a public package
	PublicPackage  string                `json:"public_package,omitzero"`
	Rehearsal      bool                  `json:"rehearsal,omitzero"`
	Root           string                `json:"root,omitzero"`
	Readme         string                `json:"readme,omitzero"` // of a package: "rebuilt", or why it was not
	RunID          string                `json:"run_id"`
	Scores         string                `json:"scores,omitzero"` // of a package: what the scores rest on
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

// checked is a run, package or bundle whose integrity was found good.
type checked struct {
	kind       string            // "run", "package", "public package" or "evidence bundle"
	shown      any               // what --json prints
	print      func() error      // prints the rows
	commitment rundir.Signed     // what the run's key has signed
	digest     string            // tells it from another of the same run: of the attestation, the checkpoint or the bundle
	said       *submit.Predicate // what a package says of itself
	err        error             // what verify ends with: the signer, completeness, findings
}

// check verifies what is at path. The error is that it does not verify, or cannot be read.
func (a *app) check(ctx context.Context, path string, v verifying) (*checked, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, usage(verifiable, "reading %q: %v", path, unwrapPath(err))
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, usage(verifiable, "%q is neither a directory nor a file", path)
	case info.IsDir() || isArchive(path):
		return a.checkEvidence(ctx, path, v)
	}
	return a.checkBundle(ctx, path, v)
}

// checkEvidence verifies a run directory or a package, folder or archive.
func (a *app) checkEvidence(ctx context.Context, dir string, f verifying) (*checked, error) {
	trusted, err := a.trustedKeys(f.trusted)
	if err != nil {
		return nil, err
	}
	published, err := f.published()
	if err != nil {
		return nil, err
	}
	p, err := openEvidence(dir)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := f.check(p); err != nil {
		return nil, err
	}
	if p.isPublic() {
		return a.checkPublic(ctx, p, trusted, published, f)
	}
	var posted *evidence
	if f.packaged != "" {
		if posted, err = openPosted(f.packaged); err != nil {
			return nil, err
		}
		defer posted.Close()
	}
	var of *submit.Verified
	found, later := (*rundir.Run)(nil), []audit.SealedRejudgment(nil)
	if p.packaged {
		if of, err = a.verifyPackage(ctx, p, f.dataset, f.bodies); err != nil {
			return nil, err
		}
		found, later = of.Run, of.Later
	} else if found, later, err = verifyRun(p.files); err != nil {
		return nil, err
	}
	v := verification{Complete: found.Complete, Events: found.End.Events, Integrity: "ok", JournalHead: found.End.Head, KeyID: found.Key.ID(),
		ManifestSHA256: found.ManifestSHA256, Missing: found.Missing, Rehearsal: found.Manifest.Rehearsal, Root: found.RootHash,
		Judgments: audit.Judgments(found.Manifest, len(later)), Later: laterJudgments(found, later),
		RunID: found.Manifest.RunID, Tasks: len(found.Tasks), Unsubmittable: unsubmittable(found)}
	if found.Complete || published != nil {
		if v.Checkpoint, err = f.isPublished(p, published); err != nil {
			return nil, err
		}
	}
	if posted != nil {
		if v.PublicPackage, err = posted.isOf(of); err != nil {
			return nil, err
		}
	}
	if of != nil {
		v.Package = &of.Statement.Predicate
		v.Scores, v.Readme = rescored(of), rebuilt(of.NotRebuilt)
		v.Audit = auditRerun
		if of.NotRerun != "" {
			v.Audit = "not rerun: " + of.NotRerun
		}
	}
	word, untrusted := trusted.Of(found.Key)
	given := submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Questions: f.dataset != "", Trusted: untrusted == nil}
	if of != nil {
		v.Dismissals = reportDismissals(trusted, of.Report, found)
		v.evidenceVerdict = evidenceVerdict{v.Package.AnsweredBy, of.Claims(given), v.Package.Exceptions, inFuture([2]string{"package", v.Package.Date})}
	} else {
		decided, err := audit.ReadAdjudications(p.files, found)
		if err != nil {
			return nil, err
		}
		v.Dismissals = runDismissals(trusted, decided, found)
		v.evidenceVerdict = runVerdict(found, decided, len(v.Dismissals), given)
	}
	v.Future = append(inFuture([2]string{"plan", found.Manifest.Created}, [2]string{"journal", lastEvent(found.End)}), v.Future...)
	v.Trust, v.SignerTrusted = word, untrusted == nil
	unfinished, open := error(nil), uncounted(v.Dismissals)
	switch {
	case !found.Complete:
		unfinished = incomplete(dir, found)
	case of == nil: // a package says itself what it is not fit for
		open = firstOf(submittable(found, v.Unsubmittable), open)
	}
	v.Findings = findings(open)
	c := &checked{kind: "run", shown: v, commitment: found.Signed(), said: v.Package, err: firstOf(untrusted, unfinished, open),
		print: func() error { return a.printVerification(v, found.Manifest, of, laterRows(found, later)) }}
	file := trajectory.CheckpointFile
	if of != nil {
		c.kind, file = packageKind, submit.AttestationFile
	} else if !found.Complete {
		return c, nil
	}
	c.digest, err = digestOf(p.files, file)
	return c, err
}

// digestOf returns the digest of a small file that was verified.
func digestOf(dir fs.FS, name string) (string, error) {
	const most = 16 << 20 // bytes, as verification has it
	data, err := rundir.ReadFile(dir, name, most)
	return canonical.Digest(data), err
}

// findings returns what errors with exit code 3 say, for JSON. The slice is not nil.
func findings(errs ...error) []string {
	all := []string{}
	for _, err := range errs {
		if err != nil && classify(err).Code == exitFindings {
			all = append(all, err.Error())
		}
	}
	return all
}
