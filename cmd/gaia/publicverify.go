package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// publicVerification is what verify prints of a public package with --json.
type publicVerification struct {
	Events         int64                 `json:"events"`    // of the withheld journal
	Integrity      string                `json:"integrity"` // "ok"; a package without it is an error
	JournalHead    string                `json:"journal_head"`
	KeyID          string                `json:"key_id"`
	ManifestSHA256 string                `json:"manifest_sha256"`
	Package        *submit.Predicate     `json:"package"`
	Public         bool                  `json:"public"`
	Rehearsal      bool                  `json:"rehearsal,omitzero"`
	Root           string                `json:"root"`
	RunID          string                `json:"run_id"`
	Scores         string                `json:"scores"` // "self-reported", or "none"
	Tasks          int                   `json:"tasks"`
	Trust          string                `json:"trust"` // "ok", "unknown key" or "expired key"
	Withheld       []submit.WithheldFile `json:"withheld"`
}

// verifyPublic verifies a public package.
func (a *app) verifyPublic(given *evidence, trusted trust, f verifying) error {
	if f.dataset != "" {
		return usage("give the full package, or the run to 'gaia audit'", "--dataset runs the audit of a package again, and %q is a public one: what the audit reads is withheld", given.path)
	}
	p, err := given.verifyPublic()
	if err != nil {
		return err
	}
	word, untrusted := trusted.of(p.Key)
	said := p.Statement.Predicate
	v := publicVerification{Events: said.Journal.Events, Integrity: "ok", JournalHead: said.Journal.Head, KeyID: p.Key.ID(), ManifestSHA256: said.ManifestSHA256,
		Package: &said, Public: true, Rehearsal: said.Rehearsal, Root: said.Root, RunID: said.RunID, Scores: "self-reported", Tasks: len(p.Results), Trust: word,
		Withheld: said.Withheld}
	if said.Scores == nil {
		v.Scores = "none"
	}
	if f.asJSON {
		err = a.printJSON(v)
	} else {
		err = a.printPublic(v, p)
	}
	if err != nil {
		return err
	}
	return untrusted
}

func (a *app) printPublic(v publicVerification, p *submit.Public) error {
	rows := [][2]string{{"run", v.RunID}}
	if p.Manifest.Cassette == ledger.CassetteReplay {
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
	return a.printRows(append(append(rows, packageRows(*v.Package)...),
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

// openPackage verifies the package at path, full or public.
func (a *app) openPackage(ctx context.Context, path string) (_ *heldAgainst, err error) {
	if !isPackage(path) {
		if _, err := os.Stat(path); err != nil {
			return nil, usage("", "reading the package %q: %v", path, unwrapPath(err))
		}
		return nil, usage("give a package that 'gaia submit' made", "%q is no package", path)
	}
	given, err := openEvidence(path)
	if err != nil {
		return nil, err
	}
	h := &heldAgainst{evidence: given}
	if given.isPublic() {
		if h.public, err = given.verifyPublic(); err == nil {
			h.name = h.public.Statement.Predicate.Name
		}
	} else if h.full, err = a.verifyPackage(ctx, given, ""); err == nil {
		h.name = h.full.Statement.Predicate.Name
	}
	if err != nil {
		given.Close()
		return nil, inPackage(path, err)
	}
	return h, nil
}

// shows wants the package to say what a bundle shows.
func (h *heldAgainst) shows(d *ledger.Disclosure) error {
	var err error
	if h.public != nil {
		err = h.public.Shows(d)
	} else {
		err = h.full.Shows(h.files, d)
	}
	said := []string{ledger.ResultsFile, submit.MetadataFile, submit.AttestationFile}
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
func (h *heldAgainst) row(d *ledger.Disclosure) [][2]string {
	if h == nil {
		return nil
	}
	rebuilt := "rebuilt from the disclosed events, as the package says"
	if d.Task == nil {
		rebuilt = fmt.Sprintf("all %d %s", len(d.Tasks), rebuilt)
	}
	return [][2]string{{"package", h.name}, {"row", rebuilt}}
}
