package grading

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/google/renameio/v2"
)

// Adjudication is a decision about a finding of a run, or with Countersign only that, the countersignature of one.
type Adjudication struct {
	Finding, Decision, Reason string
	Countersign               string // a pending decision: its file, the id of its finding, or its digest
}

// Check refuses what no run can be decided by.
func (d *Adjudication) Check() error {
	if d.Countersign != "" {
		if d.Finding != "" || d.Decision != "" || d.Reason != "" {
			return exit.Usagef("leave --finding, --decision and --reason out: the decision has them", "--countersign signs an existing decision")
		}
		return nil
	}
	if d.Finding == "" || d.Decision == "" || d.Reason == "" {
		return exit.Usagef("gaia audit DIR names the findings", "adjudicate needs --finding, --decision and --reason")
	}
	if !slices.Contains([]audit.Decision{audit.Void, audit.Dismiss}, audit.Decision(d.Decision)) {
		return exit.Usagef("", "--decision is void or dismiss, not %q", d.Decision)
	}
	id, valid := audit.ParseID(d.Finding)
	if !valid {
		return exit.Usagef("give at least its first 8 hexadecimal digits", "--finding %q is not the id of a finding, nor the start of one", d.Finding)
	}
	d.Finding = id
	if why := audit.BadReason(d.Reason); why != "" {
		return exit.Usagef("", "--reason %s", why)
	}
	return nil
}

// Audited is a finished run with its audit by the answers of its private file.
type Audited struct {
	Run    *rundir.Run
	Report audit.Report
	Gold   *audit.Gold
}

// Audit audits a finished run. Of one that is not complete it returns the run with audit.ErrIncomplete.
func Audit(dir string) (a Audited, err error) {
	if a.Gold, err = PrivateGold(dir); err != nil {
		return a, err
	}
	a.Report, a.Run, err = audit.Run(os.DirFS(dir), audit.Options{Gold: a.Gold})
	if err == nil && a.Run.Scored() && a.Gold == nil {
		err = exit.New(exit.Failure,
			fmt.Errorf("%s is missing, without which the audit does not see all, nor whether the reason tells an answer", rundir.PrivateFile),
			"decide where the run was made")
	}
	return a, PrivateFault(err)
}

// Adjudicated is the result of writing a decision, for people and programs.
type Adjudicated struct {
	Clean              bool           `json:"clean"` // the audit is, with the decision; no countersigned dismissal counts
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

	report audit.Report // after it
	intent bool         // to submit the run
	dir    string
}

// Decide writes a signed decision about a finding into a run, or the countersignature of one that is pending, and audits
// the run again. key returns the signing key, at the time of the decision. No other process may write the run meanwhile.
func (d Adjudication) Decide(dir string, a Audited, redact func(string) (string, int), key func() (sign.Key, error), at func() (string, error)) (Adjudicated, error) {
	var target audit.Adjudication // to countersign
	if d.Countersign != "" {
		decided, err := audit.ReadAdjudications(os.DirFS(dir), a.Run)
		if err != nil {
			return Adjudicated{}, err
		}
		if target, err = audit.DecisionByName(decided, d.Countersign); err == nil {
			err = a.Report.CheckCountersignable(target)
		}
		if err != nil {
			return Adjudicated{}, err
		}
		d.Finding, d.Decision, d.Reason = target.Finding, string(target.Decision), target.Reason
	}
	f, err := a.Report.FindingByID(d.Finding)
	if err == nil && d.Countersign == "" {
		err = a.Report.CheckClosable(f, audit.Decision(d.Decision))
	}
	if err != nil {
		return Adjudicated{}, err
	}
	if err := audit.CheckReasonTells(d.Reason, redact, a.Run, f, a.Gold); err != nil {
		return Adjudicated{}, err
	}
	signer, err := key()
	if err != nil {
		return Adjudicated{}, err
	}
	now, err := at()
	if err != nil {
		return Adjudicated{}, err
	}
	ruling := audit.NewRuling(a.Run, f, audit.Decision(d.Decision), d.Reason, now)
	m := a.Run.Manifest
	out := Adjudicated{Decision: ruling.Decision, File: ruling.File(), Finding: f.ID, KeyID: a.Run.Key.ID(), Reason: d.Reason, RuleID: f.RuleID,
		TaskID: f.TaskID, RunID: m.RunID, Rehearsal: m.Rehearsal, Open: []string{}, intent: m.SubmitIntent, dir: dir}
	var envelope []byte
	if d.Countersign == "" {
		envelope, err = ruling.Seal(signer)
	} else {
		envelope, err = audit.NewCountersignature(target, signer.Public(), now).Seal(signer)
		out.File, out.CountersignedBy = target.CountersignatureFile(), signer.Public().ID()
	}
	if err != nil {
		return out, err
	}
	out.File, out.SHA256 = filepath.Join(dir, filepath.FromSlash(out.File)), canonical.Digest(envelope)
	if _, err := os.Lstat(out.File); d.Countersign == "" && !errors.Is(err, fs.ErrNotExist) {
		return out, cmp.Or(err, exit.New(exit.Failure, fmt.Errorf("%q exists already, and closes nothing", out.File), "to decide again, remove it"))
	}
	if err := WriteAttestation(out.File, envelope); err != nil {
		return out, err
	}
	after, err := Audit(dir)
	if err != nil {
		return out, fmt.Errorf("auditing with the new file %q: %w", out.File, err)
	}
	out.report = after.Report
	out.Clean, out.CountersignedClean = after.Report.Attestation.Clean, after.Report.Attestation.CountersignedClean
	for _, d := range after.Report.Adjudications {
		if d.Finding == out.Finding {
			out.Pending = d.Pending
		}
	}
	for _, f := range after.Report.OpenFindings() {
		out.Open = append(out.Open, f.ID)
	}
	return out, nil
}

// Rows returns a decision, or the countersignature of one, with the audit after it as names and values.
func (d Adjudicated) Rows() [][2]string {
	rows := view.List{{"run", d.RunID}}
	if d.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	decision := "dismiss: the finding no longer keeps the run from being submitted"
	switch {
	case d.Decision == audit.Void:
		decision = "void: task " + d.TaskID + " counts wrong in every score"
	case d.Pending == audit.PendingCountersignature:
		decision = "dismiss, pending: the finding is open until another key countersigns the decision"
	case d.Pending == audit.PendingTrust:
		decision = "dismiss, countersigned: the finding is closed for verifiers who trust " + d.CountersignedBy + ", and open for others"
	}
	rows = append(rows, [2]string{"finding", d.Finding + ", " + d.RuleID}, [2]string{"decision", decision}, [2]string{"reason", d.Reason},
		[2]string{"written to", d.File}, [2]string{"signed by", d.KeyID})
	rows.AddNonEmpty("countersigned by", d.CountersignedBy)
	if t := d.report.Totals.Raw; t != nil {
		rows.Addf("official", "%d of %d, %s", t.Correct, t.Planned, view.Percent(t.AccuracyPPM))
	}
	for _, f := range d.report.OpenFindings() {
		rows.Add("still open", audit.FindingLine(f))
	}
	next := "gaia audit " + view.Quote(d.dir)
	switch {
	case d.Pending == audit.PendingCountersignature:
		next = fmt.Sprintf("gaia adjudicate %s --countersign %s --key FILE", view.Quote(d.dir), audit.ShortID(d.Finding))
	case (d.Clean || d.CountersignedClean) && d.intent:
		next = "gaia submit " + view.Quote(d.dir)
	}
	return append(rows, [2]string{"next", next})
}

// WriteAttestation writes a signed addition to a run, whole and durable.
func WriteAttestation(path string, envelope []byte) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := renameio.WriteFile(path, envelope, 0o644, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(dir)))
}
