package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// findingOf returns the one finding whose id begins so.
func findingOf(r audit.Report, start string) (audit.Finding, error) {
	var matching []audit.Finding
	var open []string
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if strings.HasPrefix(f.ID, start) && !slices.ContainsFunc(matching, func(m audit.Finding) bool { return m.ID == f.ID }) {
				matching = append(matching, f)
			}
			if f.Closed == "" && f.Severity != audit.Info {
				open = append(open, findingLine(f))
			}
		}
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	e := &failure{Code: exitUsage, Err: fmt.Errorf("the audit has no finding %q", start)}
	if len(matching) > 1 {
		e.Err = fmt.Errorf("%d findings begin with %q", len(matching), start)
		open = nil
		for _, f := range matching {
			open = append(open, f.ID)
		}
	}
	if len(open) == 0 {
		e.Hints = append(e.Hints, "an audit of the run alone leaves nothing open to be decided about")
	}
	if len(matching) == 0 {
		e.Hints = append(e.Hints, "what only --body or --usage-export of 'gaia audit' brings up cannot be decided about")
	}
	for _, text := range open[:min(len(open), maxHinted)] {
		e.Hints = append(e.Hints, "there is "+text)
	}
	if more := len(open) - maxHinted; more > 0 {
		e.Hints = append(e.Hints, fmt.Sprintf("and %d more: gaia audit --format json", more))
	}
	return audit.Finding{}, e
}

// openFindings completes the id of a finding of the run that is named; none where
// it cannot be audited.
func openFindings(_ *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) == 1 {
		_, report, _, err := auditHere(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, f := range render.Findings(report) {
			if f.Closed == "" && f.Severity != audit.Info {
				ids = append(ids, cobra.CompletionWithDesc(shortID(f.ID), findingLine(f)))
			}
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// findingLine names a finding that may be decided about.
func findingLine(f audit.Finding) string {
	text := shortID(f.ID) + ", " + string(f.Severity) + " " + f.RuleID
	if f.TaskID != "" {
		text += ", task " + f.TaskID
	}
	return text
}

// shortID is the start of a finding's id, as it may be given back.
func shortID(id string) string {
	hex := strings.TrimPrefix(id, "sha256:")
	return hex[:min(len(hex), 12)]
}

// closable refuses what a decision cannot close.
func closable(r audit.Report, f audit.Finding, d audit.Decision) error {
	files := audit.Ruling{Finding: f.ID}
	if f.Closed != "" {
		return fail(exitFailure, fmt.Errorf("finding %s is closed already: %s", shortID(f.ID), f.Closed), "to decide anew, remove "+files.File()+" from the run")
	}
	for _, a := range r.Adjudications {
		switch {
		case a.Finding != f.ID:
		case a.Pending == audit.PendingCountersignature:
			return fail(exitFailure, fmt.Errorf("the dismissal of finding %s waits for a countersignature", shortID(f.ID)),
				"another key countersigns it: gaia adjudicate DIR --countersign "+shortID(f.ID)+" --key FILE", "to decide anew, remove "+files.File()+" from the run")
		case a.Pending == audit.PendingTrust:
			return fail(exitFailure, fmt.Errorf("the dismissal of finding %s is countersigned by %s", shortID(f.ID), a.Countersigned.KeyID),
				"to decide anew, remove "+files.File()+" and "+files.CountersignatureFile()+" from the run")
		}
	}
	why := d.Refuses(f)
	if why == "" {
		return nil
	}
	var hints []string
	switch {
	case f.Severity == audit.Info:
	case audit.Void.Refuses(f) == "":
		hints = append(hints, "--decision void makes its task void, which then counts wrong")
	case audit.Dismiss.Refuses(f) == "":
		hints = append(hints, "--decision dismiss, if it does not speak against the run")
	default:
		hints = append(hints, "nothing closes it: gaia audit --explain "+f.Check)
	}
	return fail(exitFailure, fmt.Errorf("finding %s cannot be closed so: %s", shortID(f.ID), why), hints...)
}

// tellsNothing refuses a reason that holds a secret, the answer of the finding's
// task, or that of a task which the run has not solved: a package tells those
// nowhere else.
func (a *app) tellsNothing(reason string, found *ledger.Run, f audit.Finding, gold *audit.Gold) error {
	if _, n := trajectory.NewRedactor(a.secrets(), a.getenv("OPENAI_API_KEY")).Redact(reason); n > 0 {
		return fail(exitFailure, errors.New("the reason holds what looks like a secret"), "say it without: the reason is packaged for all to read")
	}
	if gold == nil {
		return nil
	}
	for _, t := range found.Tasks {
		r := found.Result(t)
		solved := r.OfficialCorrect != nil && *r.OfficialCorrect
		if (r.TaskID == f.TaskID || !solved) && audit.Tells(reason, gold.Answers[r.TaskID]) {
			return fail(exitFailure, fmt.Errorf("the reason holds the answer of task %s", r.TaskID), "say it without: the reason is packaged for all to read")
		}
	}
	return nil
}
