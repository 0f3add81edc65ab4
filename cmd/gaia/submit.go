package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

// submission is what the flags of submit say.
type submission struct {
	out, date, key        string
	dirty, strict, asJSON bool
	archive, public       bool
	by                    submit.Submitter
	bodies                []string // files with whole documents
}

func (a *app) submitCommand() *cobra.Command {
	var s submission
	cmd := &cobra.Command{
		Use:   "submit DIR",
		Short: "Build a signed submission package",
		Long: `Submit copies what a run recorded, verifies and audits the copy, and signs it as
a package: evidence, scores, audit report and attestation. The package is
verified before it appears.

Submit refuses a run, with every reason, if:
  - it was planned without --submit-intent
  - recording failed
  - the audit is not clean (a countersigned dismissal closes its finding here;
    verifiers of the package must trust the countersigner)
  - another key signed its plan
--allow-dirty packages it anyway, except with another key. The package then says
everywhere that it is not for a leaderboard. --strict also refuses a run with
findings that a person must review.

--body gives the audit a whole document, as 'gaia audit' takes it. The report
names its digest. A verifier needs the file, too, to repeat the audit.

--archive writes NAME.tar.gz instead of the folder NAME. The commands verify,
audit, disclose and export read it.

Questions and answers of GAIA must not be republished where crawlers find them:
share the package of a real run in private. --public builds one that can be
posted. It holds no text of the run except its plan, so its scores are
self-reported until you disclose tasks with 'gaia disclose'.`,
		Example: `  gaia submit runs/01J…
  gaia submit --strict --organisation "Example Lab" --contact lab@example.org runs/01J…
  gaia submit --archive --out packages runs/01J…
  gaia submit --public runs/01J…`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "body", "out", "date", "key", "organisation", "contact"); err != nil {
				return err
			}
			if s.strict && s.dirty {
				return usage("leave one of them out", "--strict refuses what --allow-dirty packages")
			}
			return a.submit(cmd.Context(), args[0], s)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.out, "out", "o", ".", "directory in which the package appears")
	f.StringArrayVar(&s.bodies, "body", nil, "file with a whole document of which the run recorded an excerpt; repeatable")
	f.StringVar(&s.date, "date", "", "date of the package, such as 2026-01-02 (default: today, UTC)")
	f.StringVar(&s.key, "key", "", "signing key file, the one the run was planned with")
	f.BoolVar(&s.dirty, "allow-dirty", false, "package a refused run, marked as not for a leaderboard")
	f.BoolVar(&s.strict, "strict", false, "also refuse a run with findings to review")
	f.BoolVar(&s.public, "public", false, "leave out every text except the plan, so that the package can be posted")
	f.StringVar(&s.by.Organisation, "organisation", "", "who submits, as you state it")
	f.StringVar(&s.by.Contact, "contact", "", "where to ask about the submission, as you state it")
	f.BoolVar(&s.archive, "archive", false, "write one file, NAME.tar.gz, instead of a folder")
	f.BoolVar(&s.asJSON, "json", false, "print the result as JSON")
	cli.CompleteDirs(cmd, "out")
	for _, word := range []string{"date", "organisation", "contact"} {
		cli.Complete(cmd, word)
	}
	return cmd
}

func (a *app) submit(ctx context.Context, dir string, s submission) error {
	if s.date == "" {
		s.date = time.Now().UTC().Format(time.DateOnly)
	} else if submit.CheckDate(s.date, false) != nil {
		return usage("give it as 2026-01-02", "--date %q is no date", s.date)
	}
	if err := submit.CheckDate(s.date, s.archive); err != nil {
		return usage("give a date from 1970-01-01 to 2242-03-16, or leave --archive out", "%v", err)
	}
	if err := verify.IsRun(dir); err != nil {
		return err
	}
	if err := verify.NotWithin("the package", dir, s.out); err != nil {
		return err
	}
	c := submit.Config{Run: dir, Out: s.out, Date: s.date, AllowDirty: s.dirty, Strict: s.strict, Archive: s.archive, Public: s.public}
	bodies, err := verify.ReadBodies(s.bodies)
	if err != nil {
		return err
	}
	c.Bodies = bodies.ByDigest()
	if s.by != (submit.Submitter{}) {
		if err := s.by.Check(); err != nil {
			return usage("give --organisation and --contact as one line each", "%v", err)
		}
		c.Submitter = &s.by
	}
	if c.Key, err = a.existingKey(s.key); err != nil {
		return a.withoutKey(dir, err)
	}
	if c.Gold, err = grading.PrivateGold(dir); err != nil {
		return err
	}
	if c.Harness, err = build.Harness(); err != nil {
		return err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	p, err := submit.Build(ctx, c)
	var refusal *submit.Refusal
	var stray *submit.StrayBody
	switch {
	case errors.As(err, &stray):
		return bodies.Stray(stray.SHA256, "run")
	case errors.As(err, &refusal):
		return s.refused(dir, refusal)
	case errors.Is(err, audit.ErrIncomplete):
		return a.notFinished(dir)
	case errors.Is(err, submit.ErrTaken):
		return fail(exit.Failure, err, "remove it, or choose another --out or --date")
	case durable.NoPlace(err):
		return fail(exit.Failure, err, outfile.Remedy(err))
	case err != nil:
		return grading.PrivateFault(err)
	}
	if s.public {
		for _, text := range submit.PublicTexts(p.Run.Manifest) {
			a.warn("the public package tells " + text)
		}
	}
	if err := a.printPackage(p, s.asJSON); err != nil {
		return fail(exit.Failure, fmt.Errorf("the package was built as %q, but its summary cannot be printed: %w", p.Path, err), "gaia verify "+view.Quote(p.Path))
	}
	return nil
}

// refused says what can be done about a run that is not packaged.
func (s submission) refused(dir string, r *submit.Refusal) error {
	f := &failure{Code: exit.Findings, Err: errors.New("the run is not packaged"), Reasons: r.Reasons}
	if r.PlanKey != "" {
		f.Hints = append(f.Hints, givePlanKey(r.PlanKey))
	}
	if r.Audit {
		f.Hints = append(f.Hints, "gaia audit "+view.Quote(dir))
	}
	switch {
	case r.Final:
	case r.Strict:
		f.Hints = append(f.Hints, "without --strict it is packaged")
	case s.strict:
		f.Hints = append(f.Hints, "--allow-dirty instead of --strict packages it all the same, marked as not for a leaderboard")
	default:
		f.Hints = append(f.Hints, "--allow-dirty packages it all the same, marked as not for a leaderboard")
	}
	return f
}

func givePlanKey(id string) string {
	return "give the key that the run was planned with by --key: " + id
}

// withoutKey is the failure of packaging with a key that cannot be used, unless the
// run is to blame before. No new key could sign for its plan.
func (a *app) withoutKey(dir string, unusable error) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	given, hint := classify(unusable), givePlanKey(found.Key.ID())
	var open *sign.PermissionError
	switch {
	case errors.As(unusable, &open):
		return fail(exit.Findings, given.Err, given.Hints...)
	case errors.Is(unusable, sign.ErrPassphrase):
		return fail(exit.Findings, given.Err, "take the passphrase off a copy of the file: ssh-keygen -p -f COPY", hint)
	case errors.Is(unusable, sign.ErrPublicHalf):
		return fail(exit.Findings, given.Err, "give the private key file", hint)
	}
	return fail(exit.Findings, given.Err, hint)
}

// notFinished says what is missing in a run that cannot be packaged yet.
func (a *app) notFinished(dir string) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	if found.Complete { // it was finished in the meantime
		return fail(exit.Incomplete, audit.ErrIncomplete, "it has just been finished: submit it again")
	}
	return incomplete(dir, found)
}

// packaged is what submit prints with --json.
type packaged struct {
	Attestation string           `json:"attestation_sha256"`
	Bytes       int64            `json:"bytes"` // of all files, or of the archive
	Clean       bool             `json:"clean"`
	KeyID       string           `json:"key_id"`
	Path        string           `json:"path"` // of the package's folder or archive
	Rehearsal   bool             `json:"rehearsal,omitzero"`
	Statement   submit.Predicate `json:"statement"`
}

func (a *app) printPackage(p submit.Package, asJSON bool) error {
	s := p.Statement.Predicate
	var trusted keyring.Trust
	if s.Dismissed > 0 {
		var err error
		if trusted, err = a.ownTrust(); err != nil {
			trusted = keyring.Trust{} // the package is written already: whoever verifies it has keys of their own
		}
	}
	dismissals := verify.Dismissals(trusted, p.Report, p.Run)
	for _, d := range dismissals {
		if d.CountersignedBy != "" && !s.Public {
			a.warn(fmt.Sprintf("the CRITICAL finding of %s about task %s is open for verifiers who do not trust the countersigner %s", d.Check, d.TaskID, d.CountersignedBy))
		}
	}
	out := packaged{Attestation: p.AttestationSHA256, Bytes: p.Bytes, Clean: s.Audit.Clean, Path: p.Path, KeyID: p.Key.ID(), Rehearsal: s.Rehearsal, Statement: s}
	if asJSON {
		return view.JSON(a.stdout, out)
	}
	rows := append([][2]string{{"run", s.RunID}}, runview.Dataset(p.Run.Manifest)...)
	if s.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	rows = append(append(rows, verify.PackageRows(s, "", dismissals)...), [2]string{"exceptions", s.Exceptions.String()}, [2]string{"written to", fmt.Sprintf("%s, %s in %s", p.Path, megabytes(p.Bytes), view.Count(p.Files, "file"))})
	rows = append(rows, [2]string{"attestation", out.Attestation}, [2]string{"signed by", out.KeyID}, [2]string{"next", "gaia verify " + view.Quote(p.Path)})
	return view.Rows(a.stdout, rows)
}

// megabytes shows a size, in tenths of a million bytes, rounded up.
func megabytes(n int64) string {
	tenths := (n + 99_999) / 100_000
	return fmt.Sprintf("%d.%d MB", tenths/10, tenths%10)
}
