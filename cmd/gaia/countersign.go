package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

// countersign signs the pending dismissal of a CRITICAL finding with another key than
// the run's.
func (a *app) countersign(dir string, d adjudication) error {
	release, err := lockRun(dir, "countersign in the run directory")
	if err != nil {
		return err
	}
	defer release()
	gold, report, found, err := auditHere(dir)
	if err != nil {
		return err
	}
	decided, err := audit.ReadAdjudications(os.DirFS(dir), found)
	if err != nil {
		return err
	}
	target, err := decisionOf(decided, d.countersign)
	if err != nil {
		return err
	}
	if err := countersignable(report, target); err != nil {
		return err
	}
	f, err := findingOf(report, target.Finding)
	if err != nil {
		return err
	}
	if err := a.tellsNothing(target.Reason, found, f, gold); err != nil {
		return err
	}
	key, err := a.existingKey(d.key)
	if errors.Is(err, errNoKey) {
		return fail(exitFailure, err, "make one with 'gaia key init --key FILE', and give it by --key FILE")
	}
	if err != nil {
		return err
	}
	if why := audit.SameSigner(found, key.Public()); why != "" {
		return fail(exitFailure, fmt.Errorf("%s cannot countersign: %s", key.Public().ID(), why), "ask a second person to countersign with a key of their own: --key FILE")
	}
	at, err := decidedAt(found)
	if err != nil {
		return err
	}
	envelope, err := audit.NewCountersignature(target, key.Public(), at).Seal(key)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, filepath.FromSlash(target.CountersignatureFile()))
	if err := writeAttestation(path, envelope); err != nil {
		return err
	}
	_, after, _, err := auditHere(dir)
	if err != nil {
		return fmt.Errorf("auditing with the countersignature in %q: %w", path, err)
	}
	if err := a.printAdjudicated(dir, adjudicated{CountersignedBy: key.Public().ID(), Decision: target.Decision, File: path, Finding: f.ID, KeyID: found.Key.ID(),
		Reason: target.Reason, RuleID: f.RuleID, SHA256: sign.Digest(envelope), TaskID: f.TaskID}, after, found, d.asJSON); err != nil {
		return err
	}
	return a.checkSigner(found)
}

// decisionOf returns the one decision that name names: by its file, or by the start of its
// finding's id or of its own digest.
func decisionOf(decided []audit.Adjudication, name string) (audit.Adjudication, error) {
	hex := strings.TrimPrefix(strings.ToLower(name), "sha256:")
	isID := len(hex) >= shortestID && len(hex) <= 64 && strings.Trim(hex, "0123456789abcdef") == ""
	var matching []audit.Adjudication
	for _, d := range decided {
		if filepath.Base(name) == filepath.Base(d.File()) || isID && (strings.HasPrefix(d.Finding, "sha256:"+hex) || strings.HasPrefix(d.SHA256, "sha256:"+hex)) {
			matching = append(matching, d)
		}
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	e := &failure{Code: exitUsage, Err: fmt.Errorf("the run has no decision %q", name)}
	if len(matching) > 1 {
		e.Err = fmt.Errorf("%d decisions begin with %q", len(matching), name)
	}
	for _, d := range decided[:min(len(decided), maxHinted)] {
		e.Hints = append(e.Hints, fmt.Sprintf("there is %s, %s of finding %s", filepath.Base(d.File()), d.Decision, shortID(d.Finding)))
	}
	if len(decided) == 0 {
		e.Hints = []string{"first decide: gaia adjudicate DIR --finding ID --decision dismiss --reason …"}
	}
	return audit.Adjudication{}, e
}

// countersignable refuses a decision that no countersignature is for.
func countersignable(r audit.Report, d audit.Adjudication) error {
	for _, a := range r.Adjudications {
		switch {
		case a.SHA256 != d.SHA256:
		case a.Countersigned != nil:
			return fail(exitFailure, fmt.Errorf("the decision is countersigned already, by %s", a.Countersigned.KeyID), "to replace it, remove "+d.CountersignatureFile()+" from the run")
		case a.Unheard != "":
			return fail(exitFailure, fmt.Errorf("the decision closes nothing: %s", a.Unheard), "remove "+d.File()+" from the run")
		case a.Pending == "":
			return fail(exitFailure, fmt.Errorf("the decision needs no countersignature: it closes finding %s for everybody", shortID(d.Finding)), "only the dismissal of a CRITICAL finding is countersigned")
		}
	}
	return nil
}

// pendingDecisions completes the decisions of the named run that wait for a
// countersignature, by their findings.
func pendingDecisions(_ *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) == 1 {
		_, report, _, err := auditHere(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, d := range report.Adjudications {
			if d.Pending == audit.PendingCountersignature {
				ids = append(ids, cobra.CompletionWithDesc(shortID(d.Finding), d.Reason))
			}
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

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
func (d dismissal) counts() bool { return d.CountersignedBy == "" || d.Trust == trustOK }

// row shows the dismissal.
func (d dismissal) row() [2]string {
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
	return [2]string{"dismissed", text}
}

// dismissalOf says of a decision what verify prints, with the trust in its countersigner.
func (t trust) dismissalOf(f audit.Finding, by string, c *audit.Countersigner) dismissal {
	d := dismissal{Dismissal: submit.Dismissal{Check: f.Check, KeyID: by, Severity: f.Severity, TaskID: f.TaskID}, Finding: f.ID}
	if c == nil || f.Severity != audit.Critical {
		return d
	}
	d.CountersignedBy, d.PublicKey, d.Trust = c.KeyID, c.PublicKey, trustUnknown
	if key, err := sign.ParsePublicKey(c.PublicKey); err == nil {
		d.Trust, _ = t.of(key)
	}
	return d
}

// trusts reports whether a key is trusted now.
func (t trust) trusts(key sign.PublicKey) bool {
	word, _ := t.of(key)
	return word == trustOK
}

// reportDismissals returns the dismissals of a package's report.
func (t trust) reportDismissals(r audit.Report, run *ledger.Run) (all []dismissal) {
	for _, d := range r.Dismissals() {
		all = append(all, t.dismissalOf(d.Of, run.Key.ID(), d.Countersigned))
	}
	return all
}

// runDismissals returns the countersigned dismissals of a run directory, and those that
// need no countersignature by the severity of their rule.
func (t trust) runDismissals(decided []audit.Adjudication, run *ledger.Run) (all []dismissal) {
	for _, a := range decided {
		rule, known := audit.RuleOf(audit.Checks(), a.RuleID)
		if a.Decision != audit.Dismiss || !known || rule.Severity == audit.Critical && a.Countersigned == nil {
			continue
		}
		all = append(all, t.dismissalOf(audit.Finding{Check: a.Check, ID: a.Finding, Severity: rule.Severity, TaskID: a.TaskID}, run.Key.ID(), a.Countersigned))
	}
	return all
}

// uncounted fails for a countersigned dismissal that does not count for the verifier.
func uncounted(all []dismissal) error {
	for _, d := range all {
		if d.counts() || d.Trust == trustWithheld {
			continue
		}
		hint := "if you know who holds that key, put its public line into a file and give it as --trusted-key, or to 'gaia key trust': " + d.PublicKey
		if d.Trust == trustExpired {
			hint = "ask for a countersignature by a key that is valid now"
		}
		return fail(exitFindings, fmt.Errorf("a CRITICAL finding of %s about task %s is open: its dismissal is countersigned by a key that you do not trust (%s): %s", d.Check, d.TaskID, d.Trust, d.CountersignedBy), hint)
	}
	return nil
}

// decisionRows show the decisions in a run directory.
func decisionRows(decided []audit.Adjudication) (rows [][2]string) {
	for _, a := range decided {
		text := fmt.Sprintf("%s of finding %s, %s", a.Decision, shortID(a.Finding), a.RuleID)
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
		rows = append(rows, [2]string{"decision", text + ": " + a.Reason})
	}
	return rows
}
