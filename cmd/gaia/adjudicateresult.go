package main

import (
	"fmt"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
)

// adjudicated is what adjudicate prints with --json.
type adjudicated struct {
	Clean     bool           `json:"clean"` // what the audit now says
	Decision  audit.Decision `json:"decision"`
	File      string         `json:"file"`
	Finding   string         `json:"finding"`
	KeyID     string         `json:"key_id"`
	Open      []string       `json:"open"` // ids of the findings that keep the run from being submitted
	Reason    string         `json:"reason"`
	Rehearsal bool           `json:"rehearsal,omitzero"`
	RuleID    string         `json:"rule_id"`
	RunID     string         `json:"run_id"`
	SHA256    string         `json:"sha256"` // of the file
	TaskID    string         `json:"task_id,omitzero"`
}

func (a *app) printAdjudicated(dir, path string, r audit.Ruling, envelope []byte, after audit.Report, found *ledger.Run, asJSON bool) error {
	out := adjudicated{Clean: after.Attestation.Clean, Decision: r.Decision, File: path, Finding: r.Finding, KeyID: found.Key.ID(), Open: []string{},
		Reason: r.Reason, Rehearsal: r.Rehearsal, RuleID: r.RuleID, RunID: r.RunID, SHA256: sign.Digest(envelope), TaskID: r.TaskID}
	var open []string
	for _, c := range after.Checks {
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
	rows = append(rows, [2]string{"finding", r.Finding + ", " + r.RuleID})
	decision := "dismiss: the finding no longer keeps the run from being submitted"
	if r.Decision == audit.Void {
		decision = "void: task " + r.TaskID + " counts wrong in every score"
	}
	rows = append(rows, [2]string{"decision", decision}, [2]string{"reason", r.Reason}, [2]string{"written to", path}, [2]string{"signed by", out.KeyID})
	if t := after.Totals.Raw; t != nil {
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", t.Correct, t.Planned, percent(t.AccuracyPPM))})
	}
	for _, text := range open {
		rows = append(rows, [2]string{"still open", text})
	}
	next := "gaia audit " + quoteArg(dir)
	if out.Clean && found.Manifest.SubmitIntent {
		next = "gaia submit " + quoteArg(dir)
	}
	return a.printRows(append(rows, [2]string{"next", next}))
}
