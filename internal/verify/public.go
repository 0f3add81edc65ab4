package verify

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// checkPublic verifies a public package. A dataset that is given must have the ids and levels of its plan.
func (e Env) checkPublic(given *Evidence, f Request) (*Checked, error) {
	p, err := given.VerifyPublic(submit.Options{Harness: e.Harness})
	if err != nil {
		return nil, err
	}
	word, untrusted := e.Trust.Of(p.Key)
	claimed := p.Statement.Predicate
	v := Verification{Complete: true, Events: claimed.Journal.Events, Integrity: "ok", JournalHead: claimed.Journal.Head, Judgments: claimed.Judgments,
		KeyID: p.Key.ID(), ManifestSHA256: claimed.ManifestSHA256, Package: &claimed, Prompts: claimed.Prompts, Public: true, Rehearsal: claimed.Rehearsal, Root: claimed.Root,
		RunID: claimed.RunID, Readme: rebuilt(p.NotRebuilt), Scores: "self-reported", Findings: []string{}, SignerTrusted: untrusted == nil,
		Shards: newShards(p.Manifest, p.Shards, p.Summary.Shards), Tasks: len(p.Results), Trust: word, Withheld: claimed.Withheld}
	if claimed.Scores == nil {
		v.Scores = "none"
	}
	if claimed.RecordingFailed != "" {
		v.Unsubmittable = "recording failed; why is withheld"
	}
	for _, d := range claimed.Dismissals {
		one := dismissal{Dismissal: d}
		if d.CountersignedBy != "" {
			one.Trust = trustWithheld
		}
		v.Dismissals = append(v.Dismissals, one)
	}
	if v.Checkpoint, err = f.checkCheckpoint(given); err != nil {
		return nil, err
	}
	if f.Dataset != "" {
		if err := e.Levels(f.Dataset, p.Manifest); err != nil {
			return nil, err
		}
		v.Dataset = "ids and levels only: questions, attachments and answers are not compared"
	}
	claims := p.Claims(submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Trusted: untrusted == nil})
	v.EvidenceVerdict = EvidenceVerdict{claimed.AnsweredBy, claims, claimed.Exceptions,
		inFuture([2]string{"plan", p.Manifest.Created}, [2]string{"journal", p.Summary.Completed}, [2]string{"package", claimed.Date})}
	digest, err := digestOf(given.Files, submit.AttestationFile)
	return &Checked{kind: publicKind, Result: v, Rows: v.publicRows(p), digest: digest, statement: v.Package, Err: untrusted,
		commitment: rundir.Signed{Complete: true, Events: v.Events, Head: v.JournalHead, KeyID: v.KeyID, ManifestSHA256: v.ManifestSHA256,
			Root: v.Root, RunID: v.RunID}}, err
}

// publicRows describes the verification of a public package for a person.
func (v Verification) publicRows(p *submit.Public) [][2]string {
	rows := v.head(p.Manifest, fmt.Sprintf("signatures, plan and tree of %s; the records add up", view.Count(v.Tasks, "task")))
	var withheld []string
	for _, f := range v.Withheld {
		if path.Dir(f.Name) == "." {
			withheld = append(withheld, f.Name)
		}
	}
	if n := len(v.Withheld) - len(withheld); n > 0 {
		withheld = append(withheld, view.Count(n, "journal")+" of shards")
	}
	rows.Add("withheld", strings.Join(withheld, ", "))
	rows.Add("manifest", v.ManifestSHA256)
	rows.Add("root", v.Root)
	v.addShards(&rows)
	v.addCheckpoint(&rows)
	rows = append(rows, packageRows(*v.Package, auditedBySigner, v.Dismissals)...)
	v.addPrompts(&rows, ", self-reported")
	rows.AddNonEmpty("compared", v.Dataset)
	rows = append(rows, v.EvidenceVerdict.Rows()...)
	rows.AddNonEmpty("unsubmittable", v.Unsubmittable)
	v.addReadme(&rows)
	rows.Add("shows", "no record is shown to be what happened, until its task is disclosed: gaia verify BUNDLE --package")
	return rows
}

// companion is a verified package that a bundle is compared with.
type companion struct {
	*Evidence
	name   string           // of the package
	public *submit.Public   // nil: it is a full one
	full   *submit.Verified // nil: it is a public one
}

// packageAt opens the package that --package names.
func packageAt(path string) (*Evidence, error) {
	const hint = "give a package that 'gaia submit' made"
	if _, err := os.Stat(path); err != nil {
		return nil, exit.Usagef(hint, "reading the package %q: %v", path, regular.Cause(err))
	}
	if !IsPackage(path) {
		return nil, exit.Usagef(hint, "%q is not a package", path)
	}
	return Open(path)
}

// isOf verifies that a public package is the one that a full package gives, and returns its name.
func (p *Evidence) isOf(full *submit.Verified, harness func() (trajectory.Harness, error)) (string, error) {
	posted, err := p.VerifyPublic(submit.Options{Harness: harness})
	if err == nil {
		err = posted.IsOf(full)
	}
	if err != nil {
		return "", inPackage(p.path, err)
	}
	return posted.Statement.Predicate.Name, nil
}

// openPackage verifies the package at path, full or public.
func (e Env) openPackage(path string) (_ *companion, err error) {
	given, err := packageAt(path)
	if err != nil {
		return nil, err
	}
	h := &companion{Evidence: given}
	if given.IsPublic() {
		if h.public, err = given.VerifyPublic(submit.Options{Harness: e.Harness}); err == nil {
			h.name = h.public.Statement.Predicate.Name
		}
	} else if h.full, err = e.verifyPackage(given, Request{}); err == nil {
		h.name = h.full.Statement.Predicate.Name
	}
	if err != nil {
		given.Close()
		return nil, inPackage(path, err)
	}
	return h, nil
}

// shows verifies that the package agrees with a bundle.
func (h *companion) shows(d *rundir.Disclosure) error {
	var err error
	if h.public != nil {
		err = h.public.Shows(d)
	} else {
		err = h.full.Shows(h.Files, d)
	}
	files := []string{rundir.ResultsFile, submit.MetadataFile, submit.AttestationFile}
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && slices.Contains(files, fault.File) {
		return inPackage(h.path, err) // the package is wrong, and not the bundle
	}
	return err
}

// inPackage names the package in an error, to distinguish it from the bundle.
func inPackage(path string, err error) error {
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
		return fmt.Errorf("the package %s: %w", path, err)
	}
	return err
}
