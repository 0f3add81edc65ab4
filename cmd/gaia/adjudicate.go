package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
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
		Short: "Decide about a finding of the audit, signed",
		Long: `Adjudicate audits a finished run and writes a signed decision about one finding
into it, which then closes the finding in every audit of the run and goes with it
into its package.

--decision void closes a finding about one task, CRITICAL too: the task is void and
counts wrong in every score. --decision dismiss closes a HIGH finding. A CRITICAL
finding about the whole run cannot be closed.

--decision dismiss on a CRITICAL finding about one task is pending until another
key countersigns it with --countersign. It then counts only for verifiers who
trust that key: for others the finding is open, and 'gaia verify' exits with 3.

The reason is packaged for all to read: it must not tell the answer. The key is the
one the run was planned with; with --countersign it is any other. Removing the
files that it writes takes a decision back, until the run is packaged.`,
		Example: `  gaia adjudicate runs/01J… --finding 3fa20b7c --decision void --reason 'a search result held the answer'
  gaia adjudicate runs/01J… --finding 9c1ee27a --decision dismiss --reason 'the file is the museum'\''s own'
  gaia adjudicate runs/01J… --countersign 3fa20b7c --key second`,
		Args: oneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "key", "countersign"); err != nil {
				return err
			}
			if err := d.check(); err != nil {
				return err
			}
			if d.countersign != "" {
				return a.countersign(args[0], d)
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
	completeFixed(cmd, "decision", string(audit.Void), string(audit.Dismiss))
	for flag, complete := range map[string]cobra.CompletionFunc{"finding": openFindings, "countersign": pendingDecisions} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic("completing --" + flag + ": " + err.Error()) // there is no such flag
		}
	}
	return cmd
}

// shortestID bounds the start of a finding's id, in digits.
const shortestID = 8

// check refuses what the flags alone show to be wrong.
func (d *adjudication) check() error {
	if d.countersign != "" {
		if d.finding != "" || d.decision != "" || d.reason != "" {
			return usage("leave --finding, --decision and --reason out: the decision has them", "--countersign signs a decision that is there")
		}
		return nil
	}
	if d.finding == "" || d.decision == "" || d.reason == "" {
		return usage("gaia audit DIR names the findings", "adjudicate wants --finding, --decision and --reason")
	}
	if !slices.Contains([]audit.Decision{audit.Void, audit.Dismiss}, audit.Decision(d.decision)) {
		return usage("", "--decision is void or dismiss, not %q", d.decision)
	}
	hex := strings.TrimPrefix(strings.ToLower(d.finding), "sha256:")
	if len(hex) < shortestID || len(hex) > 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return usage("give at least its first 8 hexadecimal digits", "--finding %q is not the id of a finding, nor the start of one", d.finding)
	}
	d.finding = "sha256:" + hex
	if why := audit.BadReason(d.reason); why != "" {
		return usage("", "--reason %s", why)
	}
	return nil
}

// decidedAt returns the time of a signed record about a finished run. Readers refuse one
// from before the end of the run.
func decidedAt(run *ledger.Run) (string, error) {
	at := time.Now().UTC().Format(trajectory.TimeFormat)
	if why := audit.BadTime(run, at); why != "" {
		return "", fail(exitFailure, fmt.Errorf("the time of this machine is %s", why), "set its clock and repeat the command")
	}
	return at, nil
}

func (a *app) adjudicate(dir string, d adjudication) error {
	release, err := lockRun(dir, "decide in the run directory")
	if err != nil {
		return err
	}
	defer release()
	gold, report, found, err := auditHere(dir)
	if err != nil {
		return err
	}
	f, err := findingOf(report, d.finding)
	if err != nil {
		return err
	}
	if err := closable(report, f, audit.Decision(d.decision)); err != nil {
		return err
	}
	if err := a.tellsNothing(d.reason, found, f, gold); err != nil {
		return err
	}
	key, err := a.planKey(d.key, found)
	if err != nil {
		return err
	}
	at, err := decidedAt(found)
	if err != nil {
		return err
	}
	ruling := audit.NewRuling(found, f, audit.Decision(d.decision), d.reason, at)
	envelope, err := ruling.Seal(key)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, filepath.FromSlash(ruling.File()))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fail(exitFailure, fmt.Errorf("%q is there already, and closes nothing", path), "to decide again, remove it"))
	}
	if err := writeAttestation(path, envelope); err != nil {
		return err
	}
	_, after, _, err := auditHere(dir)
	if err != nil {
		return fmt.Errorf("auditing with the decision in %q: %w", path, err)
	}
	return a.printAdjudicated(dir, adjudicated{Decision: ruling.Decision, File: path, Finding: f.ID, KeyID: found.Key.ID(), Reason: ruling.Reason,
		RuleID: f.RuleID, SHA256: sign.Digest(envelope), TaskID: f.TaskID}, after, found, d.asJSON)
}

// lockRun keeps others from writing the run, and from deciding about it, by the
// journal, which internal/run locks too and nobody replaces. It refuses a package
// with a hint that begins with what to do instead.
func lockRun(dir, instead string) (release func(), err error) {
	if err := isRun(dir); err != nil && isPackage(dir) {
		return nil, usage(instead+" and package it again with 'gaia submit'", "%v", err)
	} else if err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, trajectory.JournalFile), flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, trajectory.Faultf(trajectory.JournalFile, ledger.Missing)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the run: %w", err)
	}
	if !got {
		return nil, run.ErrBusy
	}
	return func() { _ = lock.Close() }, nil // which cannot fail in a way that leaves it locked
}

// auditHere audits a finished run with the answers of its private file.
func auditHere(dir string) (*audit.Gold, audit.Report, *ledger.Run, error) {
	gold, err := privateGold(dir)
	if err != nil {
		return nil, audit.Report{}, nil, err
	}
	report, found, err := audit.Run(os.DirFS(dir), audit.Options{Gold: gold})
	switch {
	case errors.Is(err, audit.ErrIncomplete):
		return nil, report, found, incomplete(dir, found)
	case err != nil:
		return nil, report, found, privateFault(err)
	case found.Scored() && gold == nil:
		return nil, report, found, fail(exitFailure, fmt.Errorf("%s is missing, without which the audit does not see all, nor whether the reason tells an answer", run.PrivateFile),
			"decide where the run was made")
	}
	return gold, report, found, nil
}

// planKey returns the key that the run was planned with.
func (a *app) planKey(flag string, found *ledger.Run) (sign.Key, error) {
	hint := "give the key that the run was planned with by --key: " + found.Key.ID()
	key, err := a.existingKey(flag)
	if errors.Is(err, errNoKey) {
		return sign.Key{}, fail(exitFailure, err, hint)
	}
	if err != nil {
		return sign.Key{}, err
	}
	if mine := key.Public(); !mine.Equal(found.Key) {
		return sign.Key{}, fail(exitFailure, fmt.Errorf("the signing key is %s, but the run's plan was signed by %s", mine.ID(), found.Key.ID()), hint)
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
	return errors.Join(sign.SyncDir(dir), sign.SyncDir(filepath.Dir(dir)))
}
