package verify

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// comparedPublic says what of a public package was compared with a dataset.
const comparedPublic = "ids and levels only: questions, attachments and answers are not compared"

// checkPublic verifies a public package. A dataset that is given must have the ids
// and levels of its plan.
func (e Env) checkPublic(given *Evidence, f Request) (*Checked, error) {
	p, err := given.VerifyPublic(submit.Options{Harness: e.Harness})
	if err != nil {
		return nil, err
	}
	word, untrusted := e.Trust.Of(p.Key)
	said := p.Statement.Predicate
	v := Verification{Complete: true, Events: said.Journal.Events, Integrity: "ok", JournalHead: said.Journal.Head, Judgments: said.Judgments, KeyID: p.Key.ID(),
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
	if v.Checkpoint, err = f.isPublished(given); err != nil {
		return nil, err
	}
	if f.Dataset != "" {
		if err := e.Levels(f.Dataset, p.Manifest); err != nil {
			return nil, err
		}
		v.Dataset = comparedPublic
	}
	v.EvidenceVerdict = EvidenceVerdict{said.AnsweredBy, p.Claims(submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Trusted: untrusted == nil}), said.Exceptions,
		inFuture([2]string{"plan", p.Manifest.Created}, [2]string{"journal", p.Summary.Completed}, [2]string{"package", said.Date})}
	digest, err := digestOf(given.Files, submit.AttestationFile)
	return &Checked{kind: publicKind, Result: v, Rows: publicRows(v, p), digest: digest, said: v.Package, Err: untrusted,
		commitment: rundir.Signed{Complete: true, Events: v.Events, Head: v.JournalHead, KeyID: v.KeyID, ManifestSHA256: v.ManifestSHA256, Root: v.Root, RunID: v.RunID}}, err
}

// publicRows shows the verification of a public package.
func publicRows(v Verification, p *submit.Public) [][2]string {
	rows := [][2]string{{"run", v.RunID}}
	if p.Manifest.Cassette == plan.CassetteReplay {
		rows = append(rows, [2]string{"replay", runview.ReplayNote})
	}
	if v.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	rows = append(append(rows, runview.Dataset(p.Manifest)...),
		[2]string{"integrity", fmt.Sprintf("ok: signatures, plan and tree of %s; the records add up", view.Count(v.Tasks, "task"))},
		[2]string{"trust", v.Trust + ": " + v.KeyID},
		[2]string{"withheld", withheldNames(v.Withheld)},
		[2]string{"manifest", v.ManifestSHA256},
		[2]string{"root", v.Root})
	rows = append(append(rows, v.checkpointRow()...), PackageRows(*v.Package, auditedBySigner, v.Dismissals)...)
	if v.Dataset != "" {
		rows = append(rows, [2]string{"compared", v.Dataset})
	}
	rows = append(rows, v.EvidenceVerdict.Rows()...)
	if v.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", v.Unsubmittable})
	}
	return append(append(rows, v.readmeRow()...),
		[2]string{"shows", "no record is shown to be what happened, until its task is disclosed: gaia verify BUNDLE --package"})
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
	*Evidence
	name   string           // of the package, as it says
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
		return nil, exit.Usagef(hint, "%q is no package", path)
	}
	return Open(path)
}

// openPosted opens the public package that a full one is to give.
func openPosted(path string) (*Evidence, error) {
	posted, err := packageAt(path)
	if err != nil || posted.IsPublic() {
		return posted, err
	}
	posted.Close()
	return nil, exit.Usagef("give the public package of the run", "%q is a full package, too", path)
}

// isOf verifies a public package, wants it to be the one that a full package gives,
// and returns its name.
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
func (e Env) openPackage(path string) (_ *heldAgainst, err error) {
	given, err := packageAt(path)
	if err != nil {
		return nil, err
	}
	h := &heldAgainst{Evidence: given}
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

// shows wants the package to say what a bundle shows.
func (h *heldAgainst) shows(d *rundir.Disclosure) error {
	var err error
	if h.public != nil {
		err = h.public.Shows(d)
	} else {
		err = h.full.Shows(h.Files, d)
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
