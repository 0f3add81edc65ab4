package main

import (
	"context"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/keyring"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// comparedPublic says what of a public package was compared with a dataset.
const comparedPublic = "ids and levels only: questions, attachments and answers are not compared"

// checkPublic verifies a public package. A dataset that is given must have the ids
// and levels of its plan.
func (a *app) checkPublic(ctx context.Context, given *evidence, trusted keyring.Trust, published []byte, f verifying) (*checked, error) {
	p, err := given.verifyPublic()
	if err != nil {
		return nil, err
	}
	word, untrusted := trusted.Of(p.Key)
	said := p.Statement.Predicate
	v := verification{Complete: true, Events: said.Journal.Events, Integrity: "ok", JournalHead: said.Journal.Head, Judgments: said.Judgments, KeyID: p.Key.ID(),
		ManifestSHA256: said.ManifestSHA256, Package: &said, Public: true, Rehearsal: said.Rehearsal, Root: said.Root, RunID: said.RunID,
		Readme: rebuilt(p.NotRebuilt), Scores: "self-reported", Findings: []string{}, SignerTrusted: untrusted == nil, Tasks: len(p.Results), Trust: word, Withheld: said.Withheld}
	if said.Scores == nil {
		v.Scores = "none"
	}
	if said.RecordingFailed != "" {
		v.Unsubmittable = "recording failed; why is withheld"
	}
	for _, d := range said.Dismissals {
		one := dismissal{Dismissal: d}
		if d.CountersignedBy != "" {
			one.Trust = trustWithheld
		}
		v.Dismissals = append(v.Dismissals, one)
	}
	if v.Checkpoint, err = f.isPublished(given, published); err != nil {
		return nil, err
	}
	if f.dataset != "" {
		ctx, release := untilStopped(ctx)
		defer release()
		set, _, err := a.plannedSplit(ctx, f.dataset, p.Manifest.Dataset)
		if err == nil {
			err = a.comparePlan(ctx, f.dataset, p.Manifest, set, true)
		}
		if err != nil {
			return nil, err
		}
		v.Dataset = comparedPublic
	}
	v.evidenceVerdict = evidenceVerdict{said.AnsweredBy, p.Claims(submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Trusted: untrusted == nil}), said.Exceptions,
		inFuture([2]string{"plan", p.Manifest.Created}, [2]string{"journal", p.Summary.Completed}, [2]string{"package", said.Date})}
	digest, err := digestOf(given.files, submit.AttestationFile)
	return &checked{kind: publicKind, shown: v, print: func() error { return a.printPublic(v, p) }, digest: digest, said: v.Package, err: untrusted,
		commitment: rundir.Signed{Complete: true, Events: v.Events, Head: v.JournalHead, KeyID: v.KeyID, ManifestSHA256: v.ManifestSHA256, Root: v.Root, RunID: v.RunID}}, err
}

func (a *app) printPublic(v verification, p *submit.Public) error {
	rows := [][2]string{{"run", v.RunID}}
	if p.Manifest.Cassette == plan.CassetteReplay {
		rows = append(rows, [2]string{"replay", replayNote})
	}
	if v.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
	}
	rows = append(append(rows, chosen(p.Manifest)...),
		[2]string{"integrity", fmt.Sprintf("ok: signatures, plan and tree of %s; the records add up", counted(v.Tasks, "task"))},
		[2]string{"trust", v.Trust + ": " + v.KeyID},
		[2]string{"withheld", withheldNames(v.Withheld)},
		[2]string{"manifest", v.ManifestSHA256},
		[2]string{"root", v.Root})
	rows = append(append(rows, v.checkpointRow()...), packageRows(*v.Package, auditedBySigner, v.Dismissals)...)
	if v.Dataset != "" {
		rows = append(rows, [2]string{"compared", v.Dataset})
	}
	rows = append(rows, v.evidenceVerdict.rows()...)
	if v.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", v.Unsubmittable})
	}
	return a.printRows(append(append(rows, v.readmeRow()...),
		[2]string{"shows", "no record is shown to be what happened, until its task is disclosed: gaia verify BUNDLE --package"}))
}

func withheldNames(files []submit.WithheldFile) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// heldAgainst is a verified package that a bundle is held against.
type heldAgainst struct {
	*evidence
	name   string           // of the package, as it says
	public *submit.Public   // nil: it is a full one
	full   *submit.Verified // nil: it is a public one
}

// packageAt opens the package that --package names.
func packageAt(path string) (*evidence, error) {
	const hint = "give a package that 'gaia submit' made"
	if _, err := os.Stat(path); err != nil {
		return nil, usage(hint, "reading the package %q: %v", path, unwrapPath(err))
	}
	if !isPackage(path) {
		return nil, usage(hint, "%q is no package", path)
	}
	return openEvidence(path)
}

// openPosted opens the public package that a full one is to give.
func openPosted(path string) (*evidence, error) {
	posted, err := packageAt(path)
	if err != nil || posted.isPublic() {
		return posted, err
	}
	posted.Close()
	return nil, usage("give the public package of the run", "%q is a full package, too", path)
}

// isOf verifies a public package, wants it to be the one that a full package gives,
// and returns its name.
func (p *evidence) isOf(full *submit.Verified) (string, error) {
	posted, err := p.verifyPublic()
	if err == nil {
		err = posted.IsOf(full)
	}
	if err != nil {
		return "", inPackage(p.path, err)
	}
	return posted.Statement.Predicate.Name, nil
}

// openPackage verifies the package at path, full or public.
func (a *app) openPackage(ctx context.Context, path string) (_ *heldAgainst, err error) {
	given, err := packageAt(path)
	if err != nil {
		return nil, err
	}
	h := &heldAgainst{evidence: given}
	if given.isPublic() {
		if h.public, err = given.verifyPublic(); err == nil {
			h.name = h.public.Statement.Predicate.Name
		}
	} else if h.full, err = a.verifyPackage(ctx, given, "", nil); err == nil {
		h.name = h.full.Statement.Predicate.Name
	}
	if err != nil {
		given.Close()
		return nil, inPackage(path, err)
	}
	return h, nil
}

// shows wants the package to say what a bundle shows.
func (h *heldAgainst) shows(d *rundir.Disclosure) error {
	var err error
	if h.public != nil {
		err = h.public.Shows(d)
	} else {
		err = h.full.Shows(h.files, d)
	}
	said := []string{rundir.ResultsFile, submit.MetadataFile, submit.AttestationFile}
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && slices.Contains(said, fault.File) {
		return inPackage(h.path, err) // what is wrong is what the package says, and not the bundle
	}
	return err
}

// inPackage names the package in what is wrong with it, to be told from the bundle.
func inPackage(path string, err error) error {
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
		return fmt.Errorf("the package %s: %w", path, err)
	}
	return err
}

// row says what the package and a bundle of its run come to; nothing where there is
// no package.
func (h *heldAgainst) row(d *rundir.Disclosure) [][2]string {
	if h == nil {
		return nil
	}
	rebuilt := "rebuilt from the disclosed events, as the package says"
	if d.Task == nil {
		rebuilt = fmt.Sprintf("all %d %s", len(d.Tasks), rebuilt)
	}
	return [][2]string{{"package", h.name}, {"row", rebuilt}}
}
