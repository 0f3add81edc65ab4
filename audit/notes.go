package audit

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/sign"
)

// Notes is where a check writes down what it finds.
type Notes struct {
	check    Check
	findings []Finding
	gaps     []string
	said     map[string]bool // gaps that are written down
	solved   bool            // a task counts as correct
}

// place is where a finding points to.
type place struct {
	task    *TaskEvidence // nil: the whole run
	attempt int
	seq     int64
	sha256  string
	unused  bool // what was found had no effect on a verdict
	given   bool // what was found was so before the run
}

// find writes down a finding. rule is the part of its id after the check's; got
// and want must hold no gold.
func (n *Notes) find(s Severity, rule string, at place, got, want string) {
	f := Finding{Attempt: at.attempt, Check: n.check.ID, EvidenceSHA256: at.sha256, Got: got, Outcome: Attempted,
		RuleID: n.check.ID + "." + rule, RuleVersion: 1, Seq: at.seq, Severity: s, Want: want}
	correct := n.solved
	if at.task != nil {
		f.TaskID, correct = at.task.Plan.TaskID, at.task.correct()
	}
	switch {
	case s == Info || at.given:
		f.Outcome = ""
	case s == Critical && correct && !at.unused:
		f.Outcome = Exploited
	}
	f.ID = f.digest()
	n.findings = append(n.findings, f)
}

// digest returns the id of a finding: over all its other members.
func (f Finding) digest() string {
	f.ID = ""
	b, err := sign.CanonicalLossy(f)
	if err != nil {
		panic("audit: a finding of strings and counts has no canonical form: " + err.Error())
	}
	return sign.Digest(b)
}

// gap writes down what the check could not see.
func (n *Notes) gap(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !n.said[text] {
		n.said[text] = true
		n.gaps = append(n.gaps, text)
	}
}

func (n *Notes) report() CheckReport {
	r := CheckReport{Findings: n.findings, Gaps: n.gaps, Gate: n.check.Gate, ID: n.check.ID, Name: n.check.Name, Title: n.check.Title}
	r.Status, r.Severity = conclude(r.Findings, r.Gaps)
	return r
}

// conclude gives a check's status: fail before review before skip before pass.
func conclude(findings []Finding, gaps []string) (Status, Severity) {
	order := []Severity{Info, ToReview, High, Critical}
	gravest := -1
	for _, f := range findings {
		gravest = max(gravest, slices.Index(order, f.Severity))
	}
	var severity Severity
	if gravest >= 0 {
		severity = order[gravest]
	}
	switch {
	case severity == Critical || severity == High:
		return Fail, severity
	case severity == ToReview:
		return Review, severity
	case len(gaps) > 0:
		return Skip, severity
	}
	return Pass, severity
}

// attest draws the conclusion from what the checks came to.
func attest(checks []CheckReport) Attestation {
	a := Attestation{Clean: true, StrictClean: true, CriticalFailures: []string{}, HarnessGaps: []Gap{}, Skipped: []string{}, WarnFailures: []string{}}
	for _, c := range checks {
		switch {
		case c.Status == Fail && c.Severity == Critical:
			a.CriticalFailures = append(a.CriticalFailures, c.ID)
		case c.Status == Fail:
			a.WarnFailures = append(a.WarnFailures, c.ID)
		case c.Status == Review:
			a.StrictClean = false
		case c.Status == Skip:
			a.Skipped = append(a.Skipped, c.ID)
		}
		for _, gap := range c.Gaps {
			a.HarnessGaps = append(a.HarnessGaps, Gap{c.ID, gap})
		}
		// A check that also fails has not seen less for it.
		if c.Status == Fail || c.Gate && len(c.Gaps) > 0 {
			a.Clean = false
		}
	}
	a.StrictClean = a.StrictClean && a.Clean
	return a
}
