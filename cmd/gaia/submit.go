package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

// submission is what the flags of submit say.
type submission struct {
	out, date, key        string
	dirty, strict, asJSON bool
	archive, public       bool
	by                    submit.Submitter
}

func (a *app) submitCommand() *cobra.Command {
	var s submission
	cmd := &cobra.Command{
		Use:   "submit DIR",
		Short: "Package a run that deserves it, signed, for anyone to verify",
		Long: `Submit copies what a run recorded, verifies and audits the copy, and signs it as
a package: evidence, scores, audit report and attestation. The package verifies
before it appears.

A run is refused, with every reason and nothing left behind, if it was planned
without --submit-intent, if recording failed, if the audit is not clean, or if
another key signed its plan. But for the last, --allow-dirty packages it all the
same, and the package says everywhere that it is not for a leaderboard. --strict
also refuses a run with findings that the audit leaves for somebody to review.

--archive writes NAME.tar.gz instead of the folder NAME, to be handed over as it
is: verify, audit and disclose read it without extracting it.

Questions and answers of GAIA are not to be republished where crawlers find
them: hand a package of a real run over in private. --public makes one that can
be posted: it holds no text of the run but those of its plan, and who reads it
has your word for the scores, until you show single tasks with 'gaia disclose',
which are verified against it.`,
		Example: `  gaia submit runs/01J…
  gaia submit --strict --organisation "Example Lab" --contact lab@example.org runs/01J…
  gaia submit --archive --out packages runs/01J…
  gaia submit --public runs/01J…`,
		Args: oneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "key", "organisation", "contact"); err != nil {
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
	f.StringVar(&s.date, "date", "", "date of the package, such as 2026-01-02 (default: today, UTC)")
	f.StringVar(&s.key, "key", "", "signing key file, the one the run was planned with")
	f.BoolVar(&s.dirty, "allow-dirty", false, "package a run that is refused, marked as not for a leaderboard")
	f.BoolVar(&s.strict, "strict", false, "refuse a run with findings to review, too")
	f.BoolVar(&s.public, "public", false, "leave out every text but the plan's, so that the package can be posted")
	f.StringVar(&s.by.Organisation, "organisation", "", "who submits; stands in the statement as your word")
	f.StringVar(&s.by.Contact, "contact", "", "where to ask about the submission; likewise")
	f.BoolVar(&s.archive, "archive", false, "write one file, NAME.tar.gz, instead of a folder")
	f.BoolVar(&s.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) submit(ctx context.Context, dir string, s submission) error {
	if s.date == "" {
		s.date = time.Now().UTC().Format(time.DateOnly)
	} else if _, err := time.Parse(time.DateOnly, s.date); err != nil {
		return usage("give it as 2026-01-02", "--date %q is no date", s.date)
	}
	if err := isRun(dir); err != nil {
		return err
	}
	c := submit.Config{Run: dir, Out: s.out, Date: s.date, AllowDirty: s.dirty, Strict: s.strict, Archive: s.archive, Public: s.public}
	var err error
	if s.by != (submit.Submitter{}) {
		if err := s.by.Check(); err != nil {
			return usage("give --organisation and --contact as one line each", "%v", err)
		}
		c.Submitter = &s.by
	}
	if c.Key, err = a.existingKey(s.key); errors.Is(err, errNoKey) {
		return a.withoutKey(dir)
	} else if err != nil {
		return err
	}
	if c.Gold, err = privateGold(dir); err != nil {
		return err
	}
	if c.Harness, err = harness(); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	p, err := submit.Build(ctx, c)
	var refusal *submit.Refusal
	switch {
	case errors.As(err, &refusal):
		f := &failure{code: exitFindings, err: errors.New("the run is not packaged"), reasons: refusal.Reasons, hints: []string{"gaia audit " + quoteArg(dir)}}
		if !refusal.Final {
			f.hints = append(f.hints, "--allow-dirty packages it all the same, marked as not for a leaderboard")
		}
		return f
	case errors.Is(err, audit.ErrIncomplete):
		return a.notFinished(dir)
	case noPlace(err):
		return fail(exitFailure, err, "choose another place with --out")
	case err != nil:
		return privateFault(err)
	}
	if s.public {
		for _, text := range submit.PublicTexts(p.Run.Manifest) {
			a.warn("the public package tells " + text)
		}
	}
	return a.printPackage(p, s.asJSON)
}

// withoutKey is the failure of packaging without a key, unless the run is to
// blame before.
func (a *app) withoutKey(dir string) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	return fail(exitFindings, errNoKey, "give the key that the run was planned with by --key: "+found.Key.ID())
}

// notFinished says what is missing in a run that cannot be packaged yet.
func (a *app) notFinished(dir string) error {
	found, err := a.openRun(dir)
	if err != nil {
		return err
	}
	if found.Complete { // it was finished in the meantime
		return fail(exitIncomplete, audit.ErrIncomplete, "it has just been finished: submit it again")
	}
	return incomplete(dir, found)
}

// packaged is what submit prints with --json.
type packaged struct {
	Attestation string           `json:"attestation_sha256"`
	Clean       bool             `json:"clean"`
	KeyID       string           `json:"key_id"`
	Path        string           `json:"path"` // of the package's folder or archive
	Rehearsal   bool             `json:"rehearsal,omitzero"`
	Statement   submit.Predicate `json:"statement"`
}

func (a *app) printPackage(p submit.Package, asJSON bool) error {
	s := p.Statement.Predicate
	out := packaged{Attestation: p.AttestationSHA256, Clean: s.Audit.Clean, Path: p.Path, KeyID: p.Key.ID(), Rehearsal: s.Rehearsal, Statement: s}
	if asJSON {
		return a.printJSON(out)
	}
	rows := append([][2]string{{"run", s.RunID}}, chosen(p.Run.Manifest)...)
	if s.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
	}
	rows = append(append(rows, packageRows(s, "")...), [2]string{"written to", p.Path})
	rows = append(rows, [2]string{"attestation", out.Attestation}, [2]string{"signed by", out.KeyID}, [2]string{"next", "gaia verify " + quoteArg(p.Path)})
	return a.printRows(rows)
}
