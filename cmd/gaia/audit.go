package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runlist"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// auditing are the flags of audit.
type auditing struct {
	verify.AuditRequest
	format, explain string
	schema, asJSON  bool
	trusted         trustFlags
}

// reportFormats are the forms of a report.
var reportFormats = []string{"text", "json", "sarif", "markdown", "github"}

func (a *app) auditCommand() *cobra.Command {
	var flags auditing
	cmd := &cobra.Command{
		Use:   "audit DIR|PACKAGE|REPORT.json",
		Short: "Look for known ways of gaming the benchmark",
		Long: `Audit verifies a run or a package and then looks for known ways of earning a score
without solving the tasks. It uses no network except for --dataset hub; the same run
gives the same report. REPORT.json is a report from an earlier audit: it is checked
against its own findings and shown, but only an audit shows that it is the run's.

A check that could not see its subject reports a gap, which is never a pass.
  - --body gives a whole document of which the journal has an excerpt
  - --usage-export gives the provider's list of requests
  - --dataset reads the gold answers of the plan's dataset: a package has none

The report counts no countersigned dismissal. The text and the exit code count
those whose countersigner you trust; --strict counts none.

Exit code 0: clean, no check of the gate failed or had a gap. 3: not clean, or
--strict found something to review, or --only ran some of the checks. 6: the report
is printed, but you do not trust the run's signer.`,
		Example: `  gaia audit --dataset hub submission-2026-01-02-5XK9QZ7M
  gaia audit --body page.html --format sarif runs/01J…
  gaia audit --explain AUD-5`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.explain != "" || flags.schema {
				return cli.NoArgs(cmd, args)
			}
			return cli.OneArg("the run directory, package or report")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			switch {
			case flags.schema:
				b, err := render.Schema()
				return a.write(b, err)
			case flags.explain != "":
				return render.Explain(a.stdout, flags.explain)
			}
			return a.audit(cmd.Context(), args[0], flags)
		},
	}
	f := cmd.Flags()
	f.Var(cli.Choice(&flags.format, strings.Join(reportFormats, "|")), "format", "form of the report (default: text)")
	f.BoolVar(&flags.asJSON, "json", false, "print the report as JSON, like --format json")
	runflags.AddDataset(cmd, &flags.Gold, "gold answers: private (of the run directory, the default), none, hub, hub:OWNER/NAME, dir:PATH or fixtures", "gold", verify.GoldPrivate, verify.GoldNone)
	f.StringSliceVar(&flags.Only, "only", nil, "run only these checks, such as AUD-1,AUD-5; the result is never clean")
	f.StringArrayVar(&flags.Bodies, "body", nil, "`file` with a whole document of which the run has an excerpt; repeatable")
	f.StringVar(&flags.Usage, "usage-export", "", "file with the provider's list of requests, to compare with the journal")
	f.BoolVar(&flags.Strict, "strict", false, "also fail if there is something to review")
	f.StringVar(&flags.AuditedAt, "audited-at", "", "time that the report gives, by RFC 3339 (default: when the run was completed)")
	f.StringVar(&flags.explain, "explain", "", "explain a check, such as AUD-5, or a rule, instead of auditing")
	f.BoolVar(&flags.schema, "schema", false, "print the JSON Schema of a report, instead of auditing")
	flags.trusted.register(cmd)
	cli.Complete(cmd, "format", reportFormats...)
	cli.CompleteList(cmd, "only", render.CheckIDs()...)
	cli.Complete(cmd, "explain", render.CheckIDs()...)
	return cmd
}

// check refuses what the flags of cmd alone show to be wrong, and settles the
// rest.
func (f *auditing) check(cmd *cobra.Command) error {
	if err := cli.NotEmpty(cmd, "format", "dataset", "only", "body", "usage-export", "audited-at", "explain"); err != nil {
		return err
	}
	given := cmd.Flags().Changed
	for _, alone := range []string{"explain", "schema"} {
		for _, other := range []string{"format", "json", "dataset", "only", "body", "usage-export", "strict", "audited-at", "explain", "schema"} {
			if given(alone) && given(other) && alone != other {
				return usage("leave one of them out", "--%s does not apply to --%s", other, alone)
			}
		}
	}
	f.format = cmp.Or(f.format, "text")
	if !slices.Contains(reportFormats, f.format) {
		return usage("give text, json, sarif, markdown or github", "--format is %q", f.format)
	}
	if f.asJSON {
		if given("format") && f.format != "json" {
			return usage("leave one of them out", "--json is --format json, not --format %s", f.format)
		}
		f.format = "json"
	}
	if f.Gold != "" && f.Gold != verify.GoldPrivate && f.Gold != verify.GoldNone {
		if err := (&runflags.Tasks{Source: f.Gold}).CheckSource(); err != nil {
			return usage("give private, none, hub, hub:OWNER/NAME, dir:PATH or fixtures", "--dataset is %q", f.Gold)
		}
	}
	return f.Check()
}

func (a *app) audit(ctx context.Context, place string, f auditing) error {
	f.Place, f.Trust = place, func() (keyring.Trust, error) { return a.trustedKeys(f.trusted) }
	found, err := a.verifyEnv(ctx).Audit(f.AuditRequest)
	if err != nil {
		return err
	}
	switch report, dir := found.Report, filepath.ToSlash(found.Dir); f.format {
	case "text":
		err = render.Text(a.stdout, render.Place{Path: place, Packaged: verify.IsPackage(place), Run: found.Run}, found.Counted)
	case "sarif":
		err = a.write(render.SARIF(report, dir))
	case "markdown":
		err = a.write(render.Markdown(report, dir), nil)
	case "github":
		err = a.write(render.GitHub(report, dir), nil)
	default:
		b, encodeErr := report.Encode()
		err = a.write(append(b, '\n'), encodeErr)
	}
	if err != nil {
		return err
	}
	if found.Run == nil {
		fmt.Fprintln(a.stderr, "gaia: a report from an earlier audit: the run itself was not examined")
	}
	return exit.First(found.Signer, found.Err(f.AuditRequest))
}

// write prints bytes, unless there was an error in making them.
func (a *app) write(b []byte, err error) error {
	if err == nil {
		_, err = a.stdout.Write(b)
	}
	return err
}

// adjudication is what the flags of adjudicate say.
type adjudication struct {
	grading.Adjudication
	key    string
	asJSON bool
}

func (a *app) adjudicateCommand() *cobra.Command {
	var d adjudication
	cmd := &cobra.Command{
		Use:   "adjudicate DIR",
		Short: "Write a signed decision about an audit finding",
		Long: `Adjudicate audits a finished run and writes a signed decision about one finding into
it, which every audit of the run applies and its package includes.

--decision void closes a finding about one task, CRITICAL too: the task counts wrong
in every score. --decision dismiss closes a HIGH finding. On a CRITICAL finding about
one task it is pending until another key countersigns it with --countersign, and then
counts only for verifiers who trust that key. A CRITICAL finding about the whole run
stays open.

Every reader of the package sees the reason: it must not contain the answer. The key
is the one that planned the run; with --countersign it is any other. To withdraw a
decision, remove its file before you package the run.`,
		Example: `  gaia adjudicate runs/01J… --finding 3fa20b7c --decision void \
      --reason 'a search result held the answer'
  gaia adjudicate runs/01J… --finding 9c1ee27a --decision dismiss \
      --reason 'the file is of the museum itself'
  gaia adjudicate runs/01J… --countersign 3fa20b7c --key second`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.Check(); err != nil {
				return err
			}
			return a.adjudicate(args[0], d)
		},
	}
	cli.RejectEmpty(cmd, "key", "countersign")
	f := cmd.Flags()
	f.StringVar(&d.Finding, "finding", "", "id of the finding, or the first eight or more digits of it")
	f.StringVar(&d.Decision, "decision", "", "void (the task counts wrong) or dismiss (a CRITICAL finding needs a countersignature)")
	f.StringVar(&d.Reason, "reason", "", "reason, one sentence for readers of the package")
	f.StringVar(&d.Countersign, "countersign", "", "pending decision to countersign: its file, the id of its finding, or its digest")
	f.StringVar(&d.key, "key", "", "signing key file: the one the run was planned with, or to countersign, another")
	f.BoolVar(&d.asJSON, "json", false, "print the result as JSON")
	cli.Complete(cmd, "decision", string(audit.Void), string(audit.Dismiss))
	for flag, complete := range map[string]cobra.CompletionFunc{"finding": runlist.CompleteFindings(false, runFolders), "countersign": runlist.CompleteFindings(true, runFolders)} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic("completing --" + flag + ": " + err.Error()) // there is no such flag
		}
	}
	return cmd
}

// decidedAt returns the time of a signed record about a finished run. Readers refuse one
// from before the end of the run.
func decidedAt(run *rundir.Run) (string, error) {
	at := time.Now().UTC().Format(trajectory.TimeFormat)
	if why := audit.BadTime(run, at); why != "" {
		return "", fail(exit.Failure, fmt.Errorf("the time of this machine is %s", why), "set its clock and repeat the command")
	}
	return at, nil
}

// adjudicate writes a signed decision about a finding into the run, or the countersignature
// of one that is pending.
func (a *app) adjudicate(dir string, d adjudication) error {
	instead := "decide in the run directory"
	if d.Countersign != "" {
		instead = "countersign in the run directory"
	}
	release, err := lockRun(dir, instead)
	if err != nil {
		return err
	}
	defer release()
	audited, err := grading.Audit(dir)
	if errors.Is(err, audit.ErrIncomplete) {
		return incomplete(dir, audited.Run)
	}
	if err != nil {
		return err
	}
	redact := trajectory.NewRedactor(a.user().Secrets(), a.getenv("OPENAI_API_KEY")).Redact
	out, err := d.Decide(dir, audited, redact, func() (sign.Key, error) { return a.decisionKey(d, audited.Run) },
		func() (string, error) { return decidedAt(audited.Run) })
	if err != nil {
		return err
	}
	if err := a.printRows(out, d.asJSON, nil); err != nil || d.Countersign == "" {
		return err
	}
	return a.checkSigner(audited.Run)
}

// decisionKey returns the key of the run's plan, or, to countersign, another.
func (a *app) decisionKey(d adjudication, found *rundir.Run) (sign.Key, error) {
	if d.Countersign == "" {
		return a.planKey(d.key, found)
	}
	key, err := a.existingKey(d.key, "make one with 'gaia key init --key FILE', and give it by --key FILE")
	if err != nil {
		return key, err
	}
	if why := audit.SameSigner(found, key.Public()); why != "" {
		return key, fail(exit.Failure, fmt.Errorf("%s cannot countersign: %s", key.Public().ID(), why), "ask a second person to countersign with a key of their own: --key FILE")
	}
	return key, nil
}

// lockRun keeps others from writing the run, and from deciding about it, by the
// journal, which internal/run locks too and no program replaces. It refuses a package
// with a hint that begins with what to do instead.
func lockRun(dir, instead string) (release func(), err error) {
	if err := verify.IsRun(dir); err != nil && verify.IsPackage(dir) {
		return nil, usage(instead+" and package it again with 'gaia submit'", "%v", err)
	} else if err != nil {
		return nil, err
	}
	unlock, err := runfiles.Hold(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, trajectory.Faultf(trajectory.JournalFile, rundir.Missing)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = unlock() }, nil // which cannot fail in a way that leaves it locked
}

// existingKey returns the signing key of a flag, or the user's; hint says what to do where there is none.
func (a *app) existingKey(flag, hint string) (sign.Key, error) {
	key, err := a.user().ExistingKey(flag)
	if errors.Is(err, keyring.ErrNoKey) {
		err = fail(exit.Failure, err, hint)
	}
	return key, err
}

// planKey returns the key that the run was planned with.
func (a *app) planKey(flag string, found *rundir.Run) (sign.Key, error) {
	hint := "give the key that the run was planned with by --key: " + found.Key.ID()
	key, err := a.existingKey(flag, hint)
	if err != nil {
		return sign.Key{}, err
	}
	if mine := key.Public(); !mine.Equal(found.Key) {
		return sign.Key{}, fail(exit.Failure, fmt.Errorf("the signing key is %s, but the run's plan was signed by %s", mine.ID(), found.Key.ID()), hint)
	}
	return key, nil
}
