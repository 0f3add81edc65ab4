package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify DIR|FILE",
		Short: "Check that a run, a package or an evidence bundle is what was signed and follows from its journal",
		Long: `Verify checks the signature of the plan, the hash chain of the journal, and
rebuilds trajectories, results, summary and tree head from the journal, byte for
byte. Of a package it also checks that exactly its files are there, the
attestation's signature, every digest, and that the statement says what the
files give. An archive of one is read as it is; nothing of it is extracted.
Given by --dataset the gold answers, it tells every official verdict
from them again. With those that the audit had, or where it had none, it audits
the files again, which must give the same report. FILE is an
evidence bundle that 'gaia disclose' wrote; give the checkpoint that was
published, if you have it. Given the run's package by --package, full or public,
the package is verified first, and then what it says of the tasks in the bundle.

A public package has no journal: its signatures, its plan and its tree are
checked, and scores are self-reported.

Integrity (these bytes are what was signed) and trust (by a key you trust)
are reported apart. Trusted are your own signing key, the public keys and the
allowed_signers in your key directory, and those given. A key that allowed_signers
limits in time is trusted within that time only, by this machine's clock.`,
		Example: `  gaia verify runs/01J…
  gaia verify submission-2026-01-02-5XK9QZ7M
  gaia verify --trusted-key alice.pub submission-2026-01-02-5XK9QZ7M
  gaia verify --dataset hub submission-2026-01-02-5XK9QZ7M
  gaia verify task.json --checkpoint published
  gaia verify task.json --package submission-2026-01-02-5XK9QZ7M-public`,
		Args: oneArg("the run directory, package or evidence bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "checkpoint", "dataset", "hmac-key-file", "package"); err != nil {
				return err
			}
			if err := (&taskFlags{source: v.dataset}).checkSource(); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err == nil && v.dataset != "" && !isPackage(args[0]) {
				return usage("a run is audited with 'gaia audit'", "--dataset is for packages, which it scores and audits again")
			}
			if err == nil && info.Mode().IsRegular() && !isArchive(args[0]) {
				return a.verifyBundle(cmd.Context(), args[0], v)
			}
			if err == nil && (v.checkpoint != "" || v.hmacKey != "" || v.packaged != "") {
				return usage("a run and a package have their own checkpoint", "--checkpoint, --hmac-key-file and --package are for evidence bundles")
			}
			return a.verify(cmd.Context(), args[0], v)
		},
	}
	v.trusted.register(cmd)
	f := cmd.Flags()
	f.StringVar(&v.checkpoint, "checkpoint", "", "the checkpoint that was published, which a bundle must hold")
	f.StringVar(&v.dataset, "dataset", "", "where the plan's answers are, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "the key that a bundle is signed with by HMAC-SHA256")
	f.StringVar(&v.packaged, "package", "", "the package of the run, full or public, which a bundle must agree with")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
	completeWith(cmd, "dataset", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, sourceHub, sourceRepo, sourceDir, sourceFixtures)
	return cmd
}

// verifying is what the flags of verify say.
type verifying struct {
	trusted             trustFlags
	checkpoint, hmacKey string
	packaged            string // a package, to hold a bundle against
	dataset             string // a source, as --source is written
	asJSON              bool
}

// verifyPackage verifies a package; with a dataset, its verdicts by these answers
// and, if the audit had them, its audit too. What is broken is said before a dataset is asked for.
func (a *app) verifyPackage(ctx context.Context, p *evidence, dataset string) (*submit.Verified, error) {
	here, err := harness()
	if err != nil {
		return nil, err
	}
	o := submit.Options{Harness: here}
	of, err := p.verify(o)
	if err != nil || dataset == "" {
		return of, err
	}
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	if o.Gold, err = a.goldFor(ctx, dataset, of.Run.Manifest); err != nil {
		return nil, err
	}
	if err := of.Rescore(o.Gold); err != nil || of.NotRerun == "" {
		return of, err
	}
	return of, of.Rerun(p.files, o)
}

// verifyRun verifies a run directory, and what was decided about its findings.
func verifyRun(dir fs.FS) (*ledger.Run, error) {
	found, err := ledger.Verify(dir, ledger.Options{})
	if err != nil {
		return nil, err
	}
	_, err = audit.ReadAdjudications(dir, found)
	return found, err
}

// auditRerun says of a package that its audit was run again.
const auditRerun = "rerun: the same report"

// verification is what verify prints with --json.
type verification struct {
	Audit          string            `json:"audit,omitzero"` // of a package: whether the audit was run again
	Complete       bool              `json:"complete"`
	Events         int64             `json:"events"`
	Integrity      string            `json:"integrity"` // "ok"; a run without it is an error
	JournalHead    string            `json:"journal_head"`
	KeyID          string            `json:"key_id"`
	ManifestSHA256 string            `json:"manifest_sha256"`
	Missing        string            `json:"missing,omitzero"`
	Rehearsal      bool              `json:"rehearsal,omitzero"`
	Root           string            `json:"root,omitzero"`
	Package        *submit.Predicate `json:"package,omitzero"` // what a package says of itself
	RunID          string            `json:"run_id"`
	Scores         string            `json:"scores,omitzero"` // of a package: whether the official verdicts were told again from the gold answers
	Tasks          int               `json:"tasks"`
	Trust          string            `json:"trust"` // "ok", "unknown key" or "expired key"
	Unsubmittable  string            `json:"unsubmittable,omitzero"`
}

// rescored says of a package what came of telling its official verdicts again.
func rescored(of *submit.Verified) string {
	if of.NotRescored != "" {
		return "not re-derived: " + of.NotRescored
	}
	s := of.Statement.Predicate.Scores.Official
	return fmt.Sprintf("re-derived from the gold answers: %d of %d correct, as recorded", s.Correct, s.Planned)
}

func (a *app) verify(ctx context.Context, dir string, f verifying) error {
	trusted, err := a.trustedKeys(f.trusted)
	if err != nil {
		return err
	}
	p, err := openEvidence(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.isPublic() {
		return a.verifyPublic(p, trusted, f)
	}
	var of *submit.Verified
	found := (*ledger.Run)(nil)
	if p.packaged {
		if of, err = a.verifyPackage(ctx, p, f.dataset); err != nil {
			return err
		}
		found = of.Run
	} else if found, err = verifyRun(p.files); err != nil {
		return err
	}
	v := verification{Complete: found.Complete, Events: found.End.Events, Integrity: "ok", JournalHead: found.End.Head, KeyID: found.Key.ID(),
		ManifestSHA256: found.ManifestSHA256, Missing: found.Missing, Rehearsal: found.Manifest.Rehearsal, Root: found.RootHash,
		RunID: found.Manifest.RunID, Tasks: len(found.Tasks), Unsubmittable: unsubmittable(found)}
	if of != nil {
		v.Package = &of.Statement.Predicate
		v.Scores = rescored(of)
		v.Audit = auditRerun
		if of.NotRerun != "" {
			v.Audit = "not rerun: " + of.NotRerun
		}
	}
	word, untrusted := trusted.of(found.Key)
	v.Trust = word
	if f.asJSON {
		err = a.printJSON(v)
	} else {
		err = a.printVerification(v, found.Manifest)
	}
	if err != nil {
		return err
	}
	return verdict(dir, found, untrusted, of != nil)
}

func (a *app) printVerification(v verification, m ledger.Manifest) error {
	rows := append([][2]string{{"run", v.RunID}}, chosen(m)...)
	rows = append(rows,
		[2]string{"integrity", fmt.Sprintf("ok: %d events, %d tasks", v.Events, v.Tasks)},
		[2]string{"trust", v.Trust + ": " + v.KeyID},
		[2]string{"manifest", v.ManifestSHA256},
		[2]string{"journal", v.JournalHead})
	if v.Rehearsal {
		rows = slices.Insert(rows, 1, [2]string{"rehearsal", rehearsalNote})
	}
	if m.Cassette == ledger.CassetteReplay {
		rows = slices.Insert(rows, 1, [2]string{"replay", replayNote})
	}
	if v.Missing != "" {
		rows = append(rows, [2]string{"incomplete", v.Missing + "; what is there verifies"})
	}
	if v.Complete {
		rows = append(rows, [2]string{"root", v.Root})
	}
	if p := v.Package; p != nil {
		rows = append(rows, packageRows(*p)...)
		rows = append(rows, [2]string{"scores", v.Scores}, [2]string{"audit again", v.Audit})
	}
	if v.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", v.Unsubmittable})
	}
	return a.printRows(rows)
}

// packageRows are what a package says of itself.
func packageRows(p submit.Predicate) [][2]string {
	audited := "clean"
	if !p.Audit.Clean {
		audited = "not clean"
	}
	what, by := ", all files as attested", ""
	if p.Public {
		what, by = what+", without the texts", ", self-reported"
	}
	rows := [][2]string{{"package", p.Name + what}, {"audit", audited + ", as reported by the signer"}}
	if n := len(p.VoidTasks); n > 0 {
		rows = append(rows, [2]string{"void", counted(n, "task") + " by adjudication, counted wrong" + by})
	}
	if p.Scores != nil {
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", p.Scores.Official.Correct, p.Scores.Official.Planned, percent(p.Scores.Official.PPM)) + by})
	}
	for _, r := range p.DirtyReasons {
		rows = append(rows, [2]string{"dirty", r})
	}
	if p.NotForLeaderboard {
		rows = append(rows, [2]string{"leaderboard", "not for one"})
	}
	return rows
}

// verdict turns what was found into the command's result: trust before
// completeness. A package says itself what it is not fit for.
func verdict(dir string, found *ledger.Run, untrusted error, packaged bool) error {
	if untrusted != nil {
		return untrusted
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	if packaged {
		return nil
	}
	return submittable(found, unsubmittable(found))
}
