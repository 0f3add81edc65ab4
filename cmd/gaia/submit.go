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
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

// submission are the flags of submit.
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
		Long: `Submit copies a run, verifies and audits the copy, and signs it as a package:
evidence, scores, audit report and attestation. The package is verified before it
appears.

Submit refuses a run, with every reason, if:
  - it was planned without --submit-intent, or with another key
  - recording failed
  - the audit is not clean (a countersigned dismissal closes its finding here;
    verifiers of the package must trust the countersigner)
--allow-dirty packages it anyway, marked as not for a leaderboard, except with
another key. --strict also refuses findings that a person must review.

--body gives the audit a whole document, as 'gaia audit' takes it. A verifier needs
the file, too, to repeat the audit.

Questions and answers of GAIA must not be republished where crawlers find them:
share the package of a real run in private. --public builds one that can be posted.
It has no text of the run except its plan, so its scores are self-reported until
you disclose tasks with 'gaia disclose'.`,
		Example: `  gaia submit --strict --organisation "Example Lab" --contact lab@example.org runs/01J…
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
		return usage("give it as 2026-01-02", "--date %q is not a date", s.date)
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
		return withoutKey(dir, err)
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
		found, err := verify.RunAt(dir)
		if err == nil && found.Complete { // it was finished in the meantime
			err = fail(exit.Incomplete, audit.ErrIncomplete, "it has just been finished: submit it again")
		}
		if err != nil {
			return err
		}
		return incomplete(dir, found)
	case errors.Is(err, submit.ErrTaken):
		return fail(exit.Failure, err, "remove it, or choose another --out or --date")
	case durable.NoPlace(err):
		return fail(exit.Failure, err, outfile.Remedy(err))
	case err != nil:
		return grading.PrivateFault(err)
	}
	if err := a.printPackage(p, s.asJSON); err != nil {
		return fail(exit.Failure, fmt.Errorf("the package was built as %q, but its summary cannot be printed: %w", p.Path, err), "gaia verify "+view.Quote(p.Path))
	}
	return nil
}

// refused returns the error of a run that is not packaged.
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

// withoutKey returns the error of packaging with a key that cannot be used, or an error of the run, if it has one. No new
// key could sign for its plan.
func withoutKey(dir string, unusable error) error {
	found, err := verify.RunAt(dir)
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

func (a *app) printPackage(p submit.Package, asJSON bool) (err error) {
	var trusted keyring.Trust
	if p.Statement.Predicate.Dismissed > 0 {
		if trusted, err = a.ownTrust(); err != nil {
			trusted = keyring.Trust{} // the package is written already: verifiers have keys of their own
		}
	}
	built := verify.NewSubmitted(p, trusted)
	for _, warning := range built.Warnings() {
		a.warn(warning)
	}
	return a.printRows(built, asJSON)
}
