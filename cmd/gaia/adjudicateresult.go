package main

import (
	"fmt"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
)

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
func (a *app) printAdjudicated(dir string, out adjudicated, after audit.Report, found *ledger.Run, asJSON bool) error {
	out.RunID, out.Rehearsal = found.Manifest.RunID, found.Manifest.Rehearsal
	out.Clean, out.CountersignedClean, out.Open = after.Attestation.Clean, after.Attestation.CountersignedClean, []string{}
	for _, d := range after.Adjudications {
		if d.Finding == out.Finding {
			out.Pending = d.Pending
		}
	}
	var open []string
	for _, c := range after.Trusting(audit.TrustAll).Checks {
		for _, f := range c.Findings {
			if f.Closed == "" && (f.Severity == audit.Critical || f.Severity == audit.High) {
				out.Open, open = append(out.Open, f.ID), append(open, findingLine(f))
			}
		}
	}
	if asJSON {
		return a.printJSON(out)
	}
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
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
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", t.Correct, t.Planned, percent(t.AccuracyPPM))})
	}
	for _, text := range open {
		rows = append(rows, [2]string{"still open", text})
	}
	next := "gaia audit " + quoteArg(dir)
	switch {
	case out.Pending == audit.PendingCountersignature:
		next = fmt.Sprintf("gaia adjudicate %s --countersign %s --key FILE", quoteArg(dir), shortID(out.Finding))
	case (out.Clean || out.CountersignedClean) && found.Manifest.SubmitIntent:
		next = "gaia submit " + quoteArg(dir)
	}
	return a.printRows(append(rows, [2]string{"next", next}))
}
