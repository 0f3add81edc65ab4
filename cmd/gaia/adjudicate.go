package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
)

// adjudication is what the flags of adjudicate say.
type adjudication struct {
	finding, decision, reason string
	countersign               string // a decision that is there
	key                       string
	asJSON                    bool
}

func (a *app) adjudicateCommand() *cobra.Command {
	var d adjudication
	cmd := &cobra.Command{
		Use:   "adjudicate DIR",
		Short: "Write a signed decision about an audit finding",
		Long: `Adjudicate audits a finished run and writes a signed decision about one finding
into it, which then closes the finding in every audit of the run and goes with it
into its package.

--decision void closes a finding about one task, CRITICAL too: the task is void and
counts wrong in every score. --decision dismiss closes a HIGH finding. A CRITICAL
finding about the whole run cannot be closed.

--decision dismiss on a CRITICAL finding about one task is pending until another
key countersigns it with --countersign. It then counts only for verifiers who
trust that key: for others the finding is open, and 'gaia verify' exits with 3.

The reason is packaged for all to read: it must not contain the answer. The key is
the one the run was planned with; with --countersign it is any other. Remove the
file to take a decision back, until the run is packaged.`,
		Example: `  gaia adjudicate runs/01J… --finding 3fa20b7c --decision void --reason 'a search result held the answer'
  gaia adjudicate runs/01J… --finding 9c1ee27a --decision dismiss --reason 'the file is the museum'\''s own'
  gaia adjudicate runs/01J… --countersign 3fa20b7c --key second`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "key", "countersign"); err != nil {
				return err
			}
			if err := d.check(); err != nil {
				return err
			}
			return a.adjudicate(args[0], d)
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.finding, "finding", "", "id of the finding, or the first eight or more digits of it")
	f.StringVar(&d.decision, "decision", "", "void (the task counts wrong) or dismiss (a CRITICAL finding needs a countersignature)")
	f.StringVar(&d.reason, "reason", "", "why, in a sentence for whoever reads the package")
	f.StringVar(&d.countersign, "countersign", "", "pending decision to countersign: its file, the id of its finding, or its digest")
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

// check refuses what the flags alone show to be wrong.
func (d *adjudication) check() error {
	if d.countersign != "" {
		if d.finding != "" || d.decision != "" || d.reason != "" {
			return usage("leave --finding, --decision and --reason out: the decision has them", "--countersign signs an existing decision")
		}
		return nil
	}
	if d.finding == "" || d.decision == "" || d.reason == "" {
		return usage("gaia audit DIR names the findings", "adjudicate needs --finding, --decision and --reason")
	}
	if !slices.Contains([]audit.Decision{audit.Void, audit.Dismiss}, audit.Decision(d.decision)) {
		return usage("", "--decision is void or dismiss, not %q", d.decision)
	}
	id, valid := audit.ParseID(d.finding)
	if !valid {
		return usage("give at least its first 8 hexadecimal digits", "--finding %q is not the id of a finding, nor the start of one", d.finding)
	}
	d.finding = id
	if why := audit.BadReason(d.reason); why != "" {
		return usage("", "--reason %s", why)
	}
	return nil
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
	if d.countersign != "" {
		instead = "countersign in the run directory"
	}
	release, err := lockRun(dir, instead)
	if err != nil {
		return err
	}
	defer release()
	gold, report, found, err := auditHere(dir)
	if err != nil {
		return err
	}
	var target audit.Adjudication // to countersign
	if d.countersign != "" {
		decided, err := audit.ReadAdjudications(os.DirFS(dir), found)
		if err != nil {
			return err
		}
		if target, err = audit.DecisionByName(decided, d.countersign); err == nil {
			err = report.CheckCountersignable(target)
		}
		if err != nil {
			return err
		}
		d.finding, d.decision, d.reason = target.Finding, string(target.Decision), target.Reason
	}
	f, err := report.FindingByID(d.finding)
	if err == nil && d.countersign == "" {
		err = report.CheckClosable(f, audit.Decision(d.decision))
	}
	if err != nil {
		return err
	}
	redact := trajectory.NewRedactor(a.secrets(), a.getenv("OPENAI_API_KEY")).Redact
	if err := audit.CheckReasonTells(d.reason, redact, found, f, gold); err != nil {
		return err
	}
	key, err := a.decisionKey(d, found)
	if err != nil {
		return err
	}
	at, err := decidedAt(found)
	if err != nil {
		return err
	}
	ruling := audit.NewRuling(found, f, audit.Decision(d.decision), d.reason, at)
	out := adjudicated{Decision: ruling.Decision, File: ruling.File(), Finding: f.ID, KeyID: found.Key.ID(), Reason: d.reason, RuleID: f.RuleID, TaskID: f.TaskID}
	var envelope []byte
	if d.countersign == "" {
		envelope, err = ruling.Seal(key)
	} else {
		envelope, err = audit.NewCountersignature(target, key.Public(), at).Seal(key)
		out.File, out.CountersignedBy = target.CountersignatureFile(), key.Public().ID()
	}
	if err != nil {
		return err
	}
	out.File, out.SHA256 = filepath.Join(dir, filepath.FromSlash(out.File)), canonical.Digest(envelope)
	if _, err := os.Lstat(out.File); d.countersign == "" && !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fail(exit.Failure, fmt.Errorf("%q exists already, and closes nothing", out.File), "to decide again, remove it"))
	}
	if err := writeAttestation(out.File, envelope); err != nil {
		return err
	}
	_, after, _, err := auditHere(dir)
	if err != nil {
		return fmt.Errorf("auditing with the new file %q: %w", out.File, err)
	}
	if err := a.printAdjudicated(dir, out, after, found, d.asJSON); err != nil || d.countersign == "" {
		return err
	}
	return a.checkSigner(found)
}

// decisionKey returns the key of the run's plan, or, to countersign, another.
func (a *app) decisionKey(d adjudication, found *rundir.Run) (sign.Key, error) {
	if d.countersign == "" {
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
	lock := flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, trajectory.Faultf(trajectory.JournalFile, rundir.Missing)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the run: %w", err)
	}
	if !got {
		return nil, runfiles.ErrBusy
	}
	return func() { _ = lock.Close() }, nil // which cannot fail in a way that leaves it locked
}

// auditHere audits a finished run with the answers of its private file.
func auditHere(dir string) (*audit.Gold, audit.Report, *rundir.Run, error) {
	gold, err := grading.PrivateGold(dir)
	if err != nil {
		return nil, audit.Report{}, nil, err
	}
	report, found, err := audit.Run(os.DirFS(dir), audit.Options{Gold: gold})
	switch {
	case errors.Is(err, audit.ErrIncomplete):
		return nil, report, found, incomplete(dir, found)
	case err != nil:
		return nil, report, found, grading.PrivateFault(err)
	case found.Scored() && gold == nil:
		return nil, report, found, fail(exit.Failure, fmt.Errorf("%s is missing, without which the audit does not see all, nor whether the reason tells an answer", rundir.PrivateFile),
			"decide where the run was made")
	}
	return gold, report, found, nil
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

// writeAttestation writes a signed addition to a run, whole and durable, where there
// is none of its name.
func writeAttestation(path string, envelope []byte) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := renameio.WriteFile(path, envelope, 0o644, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(dir)))
}

// adjudicated is what adjudicate prints with --json.
type adjudicated struct {
	Clean              bool           `json:"clean"` // what the audit now says; no countersigned dismissal counts
	CountersignedBy    string         `json:"countersigned_by,omitzero"`
	CountersignedClean bool           `json:"countersigned_clean,omitzero"` // clean for who trusts every key that countersigned
	Decision           audit.Decision `json:"decision"`
	File               string         `json:"file"` // that was written
	Finding            string         `json:"finding"`
	KeyID              string         `json:"key_id"` // signed the decision
	Open               []string       `json:"open"`   // ids of the findings that keep the run from being submitted
	Pending            string         `json:"pending,omitzero"`
	Reason             string         `json:"reason"`
	Rehearsal          bool           `json:"rehearsal,omitzero"`
	RuleID             string         `json:"rule_id"`
	RunID              string         `json:"run_id"`
	SHA256             string         `json:"sha256"` // of the file
	TaskID             string         `json:"task_id,omitzero"`
}

// printAdjudicated prints a decision, or the countersignature of one, with what the
// audit says after it.
func (a *app) printAdjudicated(dir string, out adjudicated, after audit.Report, found *rundir.Run, asJSON bool) error {
	out.RunID, out.Rehearsal = found.Manifest.RunID, found.Manifest.Rehearsal
	out.Clean, out.CountersignedClean, out.Open = after.Attestation.Clean, after.Attestation.CountersignedClean, []string{}
	for _, d := range after.Adjudications {
		if d.Finding == out.Finding {
			out.Pending = d.Pending
		}
	}
	open := after.OpenFindings()
	for _, f := range open {
		out.Open = append(out.Open, f.ID)
	}
	if asJSON {
		return view.JSON(a.stdout, out)
	}
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	rows = append(rows, [2]string{"finding", out.Finding + ", " + out.RuleID})
	decision := "dismiss: the finding no longer keeps the run from being submitted"
	switch {
	case out.Decision == audit.Void:
		decision = "void: task " + out.TaskID + " counts wrong in every score"
	case out.Pending == audit.PendingCountersignature:
		decision = "dismiss, pending: the finding is open until another key countersigns the decision"
	case out.Pending == audit.PendingTrust:
		decision = "dismiss, countersigned: the finding is closed for verifiers who trust " + out.CountersignedBy + ", and open for others"
	}
	rows = append(rows, [2]string{"decision", decision}, [2]string{"reason", out.Reason}, [2]string{"written to", out.File}, [2]string{"signed by", out.KeyID})
	if out.CountersignedBy != "" {
		rows = append(rows, [2]string{"countersigned by", out.CountersignedBy})
	}
	if t := after.Totals.Raw; t != nil {
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", t.Correct, t.Planned, view.Percent(t.AccuracyPPM))})
	}
	for _, f := range open {
		rows = append(rows, [2]string{"still open", audit.FindingLine(f)})
	}
	next := "gaia audit " + view.Quote(dir)
	switch {
	case out.Pending == audit.PendingCountersignature:
		next = fmt.Sprintf("gaia adjudicate %s --countersign %s --key FILE", view.Quote(dir), audit.ShortID(out.Finding))
	case (out.Clean || out.CountersignedClean) && found.Manifest.SubmitIntent:
		next = "gaia submit " + view.Quote(dir)
	}
	return view.Rows(a.stdout, append(rows, [2]string{"next", next}))
}

// completeFindings completes the ids of findings of the named run: those that are open, or
// those whose dismissal waits for a countersignature. There are none where the run cannot be
// audited.
func completeFindings(pending bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		if len(args) != 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_, report, _, err := auditHere(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if pending {
			for _, d := range report.Adjudications {
				if d.Pending == audit.PendingCountersignature {
					ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(d.Finding), d.Reason))
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		}
		for _, f := range render.Findings(report) {
			if f.Closed == "" && f.Severity != audit.Info {
				ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(f.ID), audit.FindingLine(f)))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
