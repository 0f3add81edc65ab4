package verify

import (
	"fmt"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
)

// dismissal is a dismissed finding as verify prints it.
type dismissal struct {
	submit.Dismissal
	Finding   string `json:"finding,omitzero"`    // its id; of a public package left out
	PublicKey string `json:"public_key,omitzero"` // of the countersigner, an OpenSSH line
	Trust     string `json:"trust,omitzero"`      // in the countersigner's key: "ok", "unknown key" or "expired key"; "withheld" in a public package; left out: not countersigned
}

// trustWithheld is the trust in a countersignature that a public package does not hold.
const trustWithheld = "withheld"

// counts reports whether the dismissal closes its finding for the verifier.
func (d dismissal) counts() bool { return d.CountersignedBy == "" || d.Trust == keyring.OK }

// addDismissals adds a row for each dismissal.
func addDismissals(rows *view.List, all []dismissal) {
	for _, d := range all {
		text := fmt.Sprintf("%s %s", d.Severity, d.Check)
		if d.TaskID != "" {
			text += ", task " + d.TaskID
		}
		text += ", by " + d.KeyID
		if d.CountersignedBy != "" {
			text += ", countersigned by " + d.CountersignedBy + " (" + d.Trust + ")"
		}
		if !d.counts() {
			text += ": open"
		}
		rows.Add("dismissed", text)
	}
}

// dismissalOf describes a decision, with the trust in its countersigner.
func dismissalOf(t keyring.Trust, f audit.Finding, by string, c *audit.Countersigner) dismissal {
	d := dismissal{Dismissal: submit.Dismissal{Check: f.Check, KeyID: by, Severity: f.Severity, TaskID: f.TaskID}, Finding: f.ID}
	if c == nil || f.Severity != audit.Critical {
		return d
	}
	d.CountersignedBy, d.PublicKey, d.Trust = c.KeyID, c.PublicKey, keyring.Unknown
	if key, err := sign.ParsePublicKey(c.PublicKey); err == nil {
		d.Trust, _ = t.Of(key)
	}
	return d
}

// dismissals returns the dismissals of a package's report.
func dismissals(t keyring.Trust, r audit.Report, run *rundir.Run) (all []dismissal) {
	for _, d := range r.Dismissals() {
		all = append(all, dismissalOf(t, d.Of, run.Key.ID(), d.Countersigned))
	}
	return all
}

// runDismissals returns the countersigned dismissals of a run directory, and those that
// need no countersignature by the severity of their rule.
func runDismissals(t keyring.Trust, decided []audit.Adjudication, run *rundir.Run) (all []dismissal) {
	for _, a := range decided {
		rule, known := audit.RuleOf(audit.Checks(), a.RuleID)
		if a.Decision != audit.Dismiss || !known || rule.Severity == audit.Critical && a.Countersigned == nil {
			continue
		}
		all = append(all, dismissalOf(t, audit.Finding{Check: a.Check, ID: a.Finding, Severity: rule.Severity, TaskID: a.TaskID}, run.Key.ID(), a.Countersigned))
	}
	return all
}

// uncounted returns an error for a countersigned dismissal that does not count for the verifier.
func uncounted(all []dismissal) error {
	for _, d := range all {
		if d.counts() || d.Trust == trustWithheld {
			continue
		}
		hint := "if you know who holds that key, put its public line into a file and give it as --trusted-key, or to 'gaia key trust': " + d.PublicKey
		if d.Trust == keyring.Expired {
			hint = "ask for a countersignature by a key that is valid now"
		}
		return exit.New(exit.Findings, fmt.Errorf("a CRITICAL finding of %s about task %s is open: its dismissal is countersigned by a key that you do not trust (%s): %s", d.Check, d.TaskID, d.Trust, d.CountersignedBy), hint)
	}
	return nil
}

// DecisionRows describe the decisions in a run directory.
func DecisionRows(decided []audit.Adjudication) [][2]string {
	var rows view.List
	for _, a := range decided {
		text := fmt.Sprintf("%s of finding %s, %s", a.Decision, audit.ShortID(a.Finding), a.RuleID)
		if a.TaskID != "" {
			text += ", task " + a.TaskID
		}
		rule, known := audit.RuleOf(audit.Checks(), a.RuleID)
		switch {
		case a.Countersigned != nil:
			text += ", countersigned by " + a.Countersigned.KeyID
		case a.Decision == audit.Dismiss && known && rule.Severity == audit.Critical:
			text += ", waits for a countersignature"
		}
		rows.Add("decision", text+": "+a.Reason)
	}
	return rows
}

// laterJudgment is what verify prints of a later judgment with --json.
type laterJudgment struct {
	Model  string              `json:"model"`
	Origin string              `json:"origin"`
	Score  *stats.Rate         `json:"score"` // by this judge; null: none of its verdicts counts
	SHA256 string              `json:"sha256"`
	Totals rundir.JudgeSummary `json:"totals"`
}

func laterJudgments(found *rundir.Run, later []audit.SealedRejudgment) (all []laterJudgment) {
	for _, r := range later {
		all = append(all, laterJudgment{Model: r.Judge.Model, Origin: r.Judge.Origin, Score: r.Score(found), SHA256: r.SHA256, Totals: r.Totals})
	}
	return all
}

// LaterRows describe the judgments of other judges after a run had finished.
func LaterRows(found *rundir.Run, later []audit.SealedRejudgment) [][2]string {
	var rows view.List
	for _, r := range laterJudgments(found, later) {
		text := r.Model + " at " + r.Origin + ": " + runview.Judged(r.Totals)
		if s := r.Score; s != nil {
			text += fmt.Sprintf("; %d of %d, %s, by this judge", s.Correct, s.Planned, view.Percent(s.AccuracyPPM))
		} else {
			text += "; its verdicts do not count"
		}
		rows.Add("judged again", text)
	}
	return rows
}

// Submittable returns an error for a run that is meant to be submitted and cannot be; why is the reason, "" if there is none.
func Submittable(found *rundir.Run, why string) error {
	if why == "" || !found.Manifest.SubmitIntent {
		return nil
	}
	return exit.New(exit.Findings, fmt.Errorf("not submittable: %s", why), "that cannot be made up for: start a new run")
}

// Unsubmittable returns why a run cannot be submitted, as far as it is known without an audit; "" if no reason is known.
func Unsubmittable(found *rundir.Run) string {
	if n := found.IntegrityEvents(); found.Marked == "" && n > 0 {
		return "the judge cache did not verify: " + view.Count(n, "integrity event")
	}
	return found.Marked
}
