package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify PACKAGE…",
		Short: "Check that a run, a package or an evidence bundle is what was signed and follows from its journal",
		Long: `Verify checks the signature of the plan, the hash chain of the journal, and
rebuilds trajectories, results, summary and tree head from the journal, byte for
byte. Of a package it also checks that exactly its files are there, the
attestation's signature, every digest, and that the statement says what the
files give. An archive of one can be of any tar program.
Given by --dataset the gold answers, it tells every official verdict
from them again. With those that the audit had, or where it had none, it audits
the files again, which must give the same report. Where the audit had whole
documents, it is run again only with all of them, given by --body.

A public package has no journal: its signatures, its plan and its tree are
checked, and scores are self-reported. Given by --package to the verification of
the full one, it is verified, too, and must be what the full one gives.

PACKAGE is a run directory, a package, its archive, or an evidence bundle that
'gaia disclose' wrote. Given a bundle and the run's package by --package, full or public, the package is verified first, and
then what it says of the tasks in the bundle.

Of several packages it prints a line each and exits with the gravest code. It
reports duplicates and resubmissions of the same run. Two histories of one run by
one key, of which neither is the beginning of the other, are exit code 4.

Whatever is verified, --checkpoint wants its checkpoint to be the one that was
published, byte for byte: give it if you have it.

Integrity (these bytes are what was signed) and trust (by a key you trust)
are reported apart. Changed evidence is exit code 4. Evidence that is intact and
signed by a key that is unknown or expired is exit code 6, whatever else holds;
--json lists the findings. Trusted are your own signing key, the public keys and the
allowed_signers in your key directory, and those given. A key that allowed_signers
limits in time is trusted within that time only, by this machine's clock.

The dismissal of a CRITICAL finding counts only if you trust the key that
countersigned it. Else the finding is open, and the exit code is 3.`,
		Example: `  gaia verify runs/01J…
  gaia verify submission-2026-01-02-5XK9QZ7M
  gaia verify --trusted-key alice.pub submission-2026-01-02-5XK9QZ7M.tar.gz
  gaia verify --dataset hub submission-2026-01-02-5XK9QZ7M
  gaia verify --checkpoint published submission-2026-01-02-5XK9QZ7M
  gaia verify submission-2026-01-02-5XK9QZ7M --package submission-2026-01-02-5XK9QZ7M-public
  gaia verify --dataset hub packages/*.tar.gz
  gaia verify --json packages/* | jq -r 'select(.exit_code != 0).path'
  gaia verify task.json --checkpoint published
  gaia verify task.json --package submission-2026-01-02-5XK9QZ7M-public`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia verify --help'", "verify takes run directories, packages, archives or evidence bundles")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "body", "checkpoint", "dataset", "hmac-key-file", "package"); err != nil {
				return err
			}
			if err := (&taskFlags{source: v.dataset}).checkSource(); err != nil {
				return err
			}
			if len(args) > 1 {
				if err := v.several(cmd); err != nil {
					return err
				}
				return a.verifyMany(cmd.Context(), args, v)
			}
			c, err := a.check(cmd.Context(), args[0], v)
			if err != nil {
				return err
			}
			if v.asJSON {
				err = a.printJSON(c.shown)
			} else {
				err = c.print()
			}
			if err != nil {
				return err
			}
			return c.err
		},
	}
	v.trusted.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&v.bodies, "body", nil, "file with a document that the audit of a package had; may be given several times")
	f.StringVar(&v.checkpoint, "checkpoint", "", "file with the checkpoint that was published, which must be the one that is found")
	f.StringVar(&v.dataset, "dataset", "", "where the plan's answers are, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "the key that a bundle is signed with by HMAC-SHA256")
	f.StringVar(&v.packaged, "package", "", "the package of the run, full or public, which a bundle must agree with; or the public one, which a full one must give")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
	completeWith(cmd, "dataset", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, sourceHub, sourceRepo, sourceDir, sourceFixtures)
	return cmd
}

// verifiable says what verify takes.
const verifiable = "give a run directory, a package, folder or archive, or an evidence bundle that 'gaia disclose' wrote"

// verifying is what the flags of verify say.
type verifying struct {
	trusted             trustFlags
	checkpoint, hmacKey string
	packaged            string   // a package, to hold a bundle or a full package against
	dataset             string   // a source, as --source is written
	bodies              []string // files with whole documents
	asJSON              bool
}

// check refuses flags that say nothing of the run or package p.
func (v verifying) check(p *evidence) error {
	const pairs = "--package is for evidence bundles and full packages"
	switch {
	case v.hmacKey != "":
		return usage("leave it out: the plan names the key that signed it", "--hmac-key-file is for evidence bundles")
	case v.dataset != "" && !p.packaged:
		return usage("a run is audited with 'gaia audit'", "--dataset is for packages, which it scores and audits again")
	case len(v.bodies) > 0 && !p.packaged:
		return usage("gaia audit --body FILE "+quoteArg(p.path), "--body is for packages, which it audits again")
	case len(v.bodies) > 0 && p.isPublic():
		return usage("give the full package", "--body runs the audit of a package again, and %q is a public one: what the audit reads is withheld", p.path)
	case v.packaged != "" && !p.packaged:
		return usage("make the full package of the run with 'gaia submit', and give it in the place of the run", "%s, and %q is a run", pairs, p.path)
	case v.packaged != "" && p.isPublic():
		return usage("give the full package first: gaia verify PACKAGE --package "+quoteArg(p.path), "%s, and %q is a public one", pairs, p.path)
	}
	return nil
}

// published reads the checkpoint that was published; nil: none is given.
func (v verifying) published() ([]byte, error) {
	if v.checkpoint == "" {
		return nil, nil
	}
	const hint = "give a file with the checkpoint that was published, as it stands in a run or a package"
	info, err := os.Stat(v.checkpoint)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
		err = errors.New("is not a regular file")
	}
	var data []byte
	if err == nil {
		data, err = readAtMost(v.checkpoint, maxPublished)
	}
	if err != nil {
		return nil, usage(hint, "reading the checkpoint %q: %v", v.checkpoint, unwrapPath(err))
	}
	if _, err := trajectory.ParseCheckpoint(data); err != nil {
		return nil, usage(hint, "%q holds no checkpoint", v.checkpoint)
	}
	return data, nil
}

// Which checkpoint it was, in JSON.
const (
	checkpointGiven   = "given"   // it is the one of --checkpoint
	checkpointPackage = "package" // of a bundle: it is the one in the package of --package
	checkpointOwn     = "own"     // it was held against nothing
)

// isPublished wants the checkpoint of a verified run or package to be the one that
// was published, if one is given, and says which it is.
func (v verifying) isPublished(p *evidence, published []byte) (string, error) {
	if published == nil {
		return checkpointOwn, nil
	}
	own, err := ledger.ReadFile(p.files, trajectory.CheckpointFile, maxPublished)
	fault := (*trajectory.Fault)(nil)
	switch {
	case errors.As(err, &fault) && fault.Reason == ledger.Missing: // the run is not complete
		err = trajectory.Faultf(trajectory.CheckpointFile, "%s, so it is not the one in %q", ledger.Missing, v.checkpoint)
	case err == nil && !bytes.Equal(own, published):
		err = trajectory.Faultf(trajectory.CheckpointFile, "is not the one in %q", v.checkpoint)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.path, err)
	}
	return checkpointGiven, nil
}

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
	if err := of.Rescore(o.Gold); err != nil || of.NotRerun == "" {
		return of, err
	}
	return of, of.Rerun(p.files, o)
}

// verifyRun verifies a run directory with its signed additions: decisions about its
// findings, and later judgments.
func verifyRun(dir fs.FS) (*ledger.Run, []audit.SealedRejudgment, error) {
	found, err := ledger.Verify(dir, ledger.Options{})
	if err == nil {
		err = ledger.CheckSelection(found.Manifest)
	}
	if err != nil {
		return nil, nil, err
	}
	later, err := readAdditions(dir, found)
	return found, later, err
}

// readAdditions reads the signed additions to a run, and returns the later judgments.
func readAdditions(dir fs.FS, found *ledger.Run) ([]audit.SealedRejudgment, error) {
	if _, err := audit.ReadAdjudications(dir, found); err != nil {
		return nil, err
	}
	return audit.ReadRejudgments(dir, found)
}

// readmeRebuilt says of a package that its README.md is what its files give.
const readmeRebuilt = "rebuilt"

// auditRerun says of a package that its audit was run again.
const auditRerun = "rerun: the same report"

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

// rebuilt says of a package what came of making its README.md again.
func rebuilt(not string) string {
	if not != "" {
		return "not rebuilt: " + not
	}
	return readmeRebuilt
}

// rescored says of a package what came of telling its official verdicts again.
func rescored(of *submit.Verified) string {
	if of.NotRescored != "" {
		return "not re-derived: " + of.NotRescored
	}
	s := of.Statement.Predicate.Scores.Official
	return fmt.Sprintf("re-derived from the gold answers: %d of %d correct, as recorded", s.Correct, s.Planned)
}

// checked is a run, package or bundle whose integrity was found good.
type checked struct {
	kind       string            // "run", "package", "public package" or "evidence bundle"
	shown      any               // what --json prints
	print      func() error      // prints the rows
	commitment ledger.Signed     // what the run's key has signed
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
	found, later := (*ledger.Run)(nil), []audit.SealedRejudgment(nil)
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
	word, untrusted := trusted.of(found.Key)
	given := submit.Given{Checkpoint: v.Checkpoint == checkpointGiven, Questions: f.dataset != "", Trusted: untrusted == nil}
	if of != nil {
		v.Dismissals = trusted.reportDismissals(of.Report, found)
		v.evidenceVerdict = evidenceVerdict{v.Package.AnsweredBy, of.Claims(given), v.Package.Exceptions}
	} else {
		decided, err := audit.ReadAdjudications(p.files, found)
		if err != nil {
			return nil, err
		}
		v.Dismissals = trusted.runDismissals(decided, found)
		v.evidenceVerdict = runVerdict(found, decided, len(v.Dismissals), given)
	}
	v.Trust, v.SignerTrusted = word, untrusted == nil
	unfinished, open := error(nil), uncounted(v.Dismissals)
	switch {
	case !found.Complete:
		unfinished = incomplete(dir, found)
	case of == nil: // a package says itself what it is not fit for
		open = gravest(submittable(found, v.Unsubmittable), open)
	}
	v.Findings = findings(open)
	c := &checked{kind: "run", shown: v, commitment: found.Signed(), said: v.Package, err: gravest(untrusted, unfinished, open),
		print: func() error { return a.printVerification(v, found.Manifest, of, laterRows(found, later)) }}
	file := trajectory.CheckpointFile
	if of != nil {
		c.kind, file = "package", submit.AttestationFile
	} else if !found.Complete {
		return c, nil
	}
	c.digest, err = digestOf(p.files, file)
	return c, err
}

// digestOf returns the digest of a small file that was verified.
func digestOf(dir fs.FS, name string) (string, error) {
	const most = 16 << 20 // bytes, as verification has it
	data, err := ledger.ReadFile(dir, name, most)
	return sign.Digest(data), err
}

// findings returns what errors with exit code 3 say, for JSON. The slice is not nil.
func findings(errs ...error) []string {
	all := []string{}
	for _, err := range errs {
		if err != nil && classify(err).code == exitFindings {
			all = append(all, err.Error())
		}
	}
	return all
}

func (a *app) printVerification(v verification, m ledger.Manifest, of *submit.Verified, later [][2]string) error {
	rows := append([][2]string{{"run", v.RunID}}, chosen(m)...)
	rows = append(rows,
		[2]string{"integrity", fmt.Sprintf("ok: %d events, %s", v.Events, counted(v.Tasks, "task"))},
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
	rows = append(rows, v.checkpointRow()...)
	if of != nil {
		audited := auditedBySigner
		if of.NotRerun == "" {
			audited = auditedHere
		}
		rows = append(rows, packageRows(*v.Package, audited, v.Dismissals)...)
		scores, again := v.Scores, v.Audit
		if give := "; give --dataset " + quoteArg(answersOf(m.Dataset)); of.Run.Scored() {
			if of.NotRescored != "" {
				scores += give
			}
			if of.NotRerun != "" && of.Statement.Predicate.GoldAtHand && of.NotRescored != "" {
				again += give
			}
		}
		if n := len(of.Report.Inputs.Bodies); of.NotRerun != "" && n > 0 {
			again += fmt.Sprintf("; give %s of the report's inputs by --body", counted(n, "document"))
		}
		rows = append(rows, [2]string{"scores", scores}, [2]string{"audit again", again})
	}
	if of == nil {
		for _, d := range v.Dismissals {
			rows = append(rows, d.row())
		}
	}
	rows = append(rows, later...)
	rows = append(rows, v.evidenceVerdict.rows()...)
	rows = append(rows, v.readmeRow()...)
	if v.PublicPackage != "" {
		rows = append(rows, [2]string{"public", v.PublicPackage + " is of these files"})
	}
	if v.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", v.Unsubmittable})
	}
	return a.printRows(rows)
}

// checkpointRow says of the checkpoint that it is the one given; nothing if none is.
func (v verification) checkpointRow() [][2]string {
	if v.Checkpoint != checkpointGiven {
		return nil
	}
	return [][2]string{{"checkpoint", "the one given"}}
}

// readmeRow says of README.md that it was not rebuilt; nothing where it was.
func (v verification) readmeRow() [][2]string {
	if v.Readme == "" || v.Readme == readmeRebuilt {
		return nil
	}
	return [][2]string{{"readme", v.Readme}}
}

// answersOf is how the source of a plan's answers is given, as far as the plan tells.
func answersOf(d ledger.Dataset) string {
	switch {
	case d.Hub != "" && d.Name == loader.GAIA:
		return sourceHub
	case d.Hub != "":
		return sourceRepo + d.Name
	case d.Name == fixtures.Name:
		return sourceFixtures
	}
	return sourceDir + "PATH"
}

// Who says what an audit came to.
const (
	auditedBySigner = ", as reported by the signer"
	auditedHere     = ", and the same report when it was run again"
)

// auditRow says what the audit of a package concludes for a verifier who trusts the
// countersigners as the dismissals have it.
func auditRow(p submit.Predicate, dismissals []dismissal) string {
	after := " after " + counted(p.Dismissed, "dismissal")
	switch {
	case p.Audit.Clean && p.Dismissed == 0:
		return "clean"
	case p.Audit.Clean:
		return "clean" + after
	case !p.Audit.CountersignedClean:
		return "not clean"
	case uncounted(dismissals) == nil:
		return "clean" + after
	}
	return "not clean; clean" + after + " for verifiers who trust every countersigner"
}

// packageRows are what a package says of itself; audited tells who says what the
// audit came to, "" where that is plain.
func packageRows(p submit.Predicate, audited string, dismissals []dismissal) [][2]string {
	what, by := ", all files as attested", ""
	if p.Public {
		what, by = what+", without the texts", ", self-reported"
	}
	rows := [][2]string{{"package", p.Name + what}}
	if p.Submitter != nil {
		rows = append(rows, [2]string{"submitter", submitterText(*p.Submitter)})
	}
	rows = append(rows, [2]string{"audit", auditRow(p, dismissals) + audited})
	for _, d := range dismissals {
		rows = append(rows, d.row())
	}
	if n := len(p.VoidTasks); n > 0 {
		rows = append(rows, [2]string{"void", counted(n, "task") + " by adjudication, counted wrong" + by})
	}
	if p.Scores != nil {
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", p.Scores.Official.Correct, p.Scores.Official.Planned, percent(p.Scores.Official.PPM)) + by})
	} else {
		rows = append(rows, [2]string{"official", "unscored"})
	}
	if p.Judgments > 0 {
		rows = append(rows, [2]string{"judgments", strconv.Itoa(p.Judgments) + by})
	}
	for _, r := range p.DirtyReasons {
		rows = append(rows, [2]string{"dirty", r})
	}
	if p.NotForLeaderboard {
		rows = append(rows, [2]string{"leaderboard", "not for one"})
	}
	return rows
}

// submitterText names who submits, in their own words.
func submitterText(s submit.Submitter) string {
	var parts []string
	if s.Organisation != "" {
		parts = append(parts, strconv.Quote(s.Organisation))
	}
	if s.Contact != "" {
		parts = append(parts, "contact "+strconv.Quote(s.Contact))
	}
	return strings.Join(parts, ", ") + ", as they say"
}
