package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

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
		Example: `  gaia adjudicate runs/01J… --finding 3fa20b7c --decision void --reason 'a search result held the answer'
  gaia adjudicate runs/01J… --finding 9c1ee27a --decision dismiss --reason 'the file is the museum'\''s own'
  gaia adjudicate runs/01J… --countersign 3fa20b7c --key second`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "key", "countersign"); err != nil {
				return err
			}
			if err := d.Check(); err != nil {
				return err
			}
			return a.adjudicate(args[0], d)
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.Finding, "finding", "", "id of the finding, or the first eight or more digits of it")
	f.StringVar(&d.Decision, "decision", "", "void (the task counts wrong) or dismiss (a CRITICAL finding needs a countersignature)")
	f.StringVar(&d.Reason, "reason", "", "reason, one sentence for readers of the package")
	f.StringVar(&d.Countersign, "countersign", "", "pending decision to countersign: its file, the id of its finding, or its digest")
	f.StringVar(&d.key, "key", "", "signing key file: the one the run was planned with, or to countersign, another")
	f.BoolVar(&d.asJSON, "json", false, "print the result as JSON")
	cli.Complete(cmd, "decision", string(audit.Void), string(audit.Dismiss))
	for flag, complete := range map[string]cobra.CompletionFunc{"finding": completeFindings(false), "countersign": completeFindings(true)} {
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
	redact := trajectory.NewRedactor(a.secrets(), a.getenv("OPENAI_API_KEY")).Redact
	out, err := d.Decide(dir, audited, redact, func() (sign.Key, error) { return a.decisionKey(d, audited.Run) },
		func() (string, error) { return decidedAt(audited.Run) })
	if err != nil {
		return err
	}
	if err := view.Result(a.stdout, d.asJSON, out, view.RowsText(out.Rows())); err != nil || d.Countersign == "" {
		return err
	}
	return a.checkSigner(audited.Run)
}

// decisionKey returns the key of the run's plan, or, to countersign, another.
func (a *app) decisionKey(d adjudication, found *rundir.Run) (sign.Key, error) {
	if d.Countersign == "" {
		return a.planKey(d.key, found)
	}
	key, err := a.existingKey(d.key)
	if errors.Is(err, keyring.ErrNoKey) {
		return key, fail(exit.Failure, err, "make one with 'gaia key init --key FILE', and give it by --key FILE")
	}
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

// planKey returns the key that the run was planned with.
func (a *app) planKey(flag string, found *rundir.Run) (sign.Key, error) {
	hint := "give the key that the run was planned with by --key: " + found.Key.ID()
	key, err := a.existingKey(flag)
	if errors.Is(err, keyring.ErrNoKey) {
		return sign.Key{}, fail(exit.Failure, err, hint)
	}
	if err != nil {
		return sign.Key{}, err
	}
	if mine := key.Public(); !mine.Equal(found.Key) {
		return sign.Key{}, fail(exit.Failure, fmt.Errorf("the signing key is %s, but the run's plan was signed by %s", mine.ID(), found.Key.ID()), hint)
	}
	return key, nil
}

// completeFindings completes the ids of findings of the named run: those that are open, or
// those whose dismissal waits for a countersignature. There are none where the run cannot be
// audited.
func completeFindings(pending bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		if len(args) != 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		audited, err := grading.Audit(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if pending {
			for _, d := range audited.Report.Adjudications {
				if d.Pending == audit.PendingCountersignature {
					ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(d.Finding), d.Reason))
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		}
		for _, f := range render.Findings(audited.Report) {
			if f.Closed == "" && f.Severity != audit.Info {
				ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(f.ID), audit.FindingLine(f)))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
