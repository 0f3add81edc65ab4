package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/view"
)

// Audit returns the page of the audit of a run. Where there is none it says why; of a public package it has what the
// statement says.
func Audit(s Source) (page.Audit, error) {
	if s.Journal == nil && s.Check.Public == nil {
		return page.Audit{}, cmp.Or(s.Check.Err, errUnread)
	}
	// The head and the row are those of the run, so that no page says of the same run something else.
	s = s.begin()
	run, err := Run(s, page.TaskFilter{}, 0)
	if err != nil {
		return page.Audit{}, err
	}
	p := page.Audit{Head: run.Head, Row: run.Row}
	p.Title, p.Trail = "Audit of run "+run.Row.ID, s.under(run.Row.ID)
	// A public package has no journal to audit again: what is shown is named as the signer's.
	if of := s.Check.Public; of != nil {
		said := of.Statement.Predicate.Audit
		p.Clean = said.Clean
		p.Summary = [][2]string{{"whose", "the signer's: what the audit reads is withheld"}}
		for _, d := range of.Statement.Predicate.Dismissals {
			text := fmt.Sprintf("%s %s, by %s", d.Severity, d.Check, d.KeyID)
			if d.TaskID != "" {
				text += ", task " + d.TaskID
			}
			p.Summary = append(p.Summary, [2]string{"dismissed", text})
		}
		for _, c := range said.Checks {
			row := page.Check{ID: c.ID, Status: string(c.Status), Severity: string(c.Severity)}
			if known, err := render.CheckOf(c.ID); err == nil {
				row.Name, row.Title, row.Gate = known.Name, known.Title, known.Gate
			}
			if c.Findings+c.Gaps > 0 {
				row.Absent = view.Count(c.Findings, "finding") + " and " + view.Count(c.Gaps, "gap") + ", which the package withholds"
			}
			p.Checks = append(p.Checks, row)
		}
		return p, nil
	}
	r := s.report()
	if r == nil {
		p.Summary = [][2]string{{"audit", "there is none yet: a run is audited when it is complete and verifies"}}
		return p, nil
	}
	p.Clean = r.Attestation.Clean
	p.Summary = append(render.Conclusion(render.Place{Path: s.Place, Packaged: s.Packaged, Run: s.Check.Audited.Run}, *r),
		[2]string{"audited at", r.AuditedAt}, [2]string{"looks for", r.ThreatModel})
	// Only rows of numbers and of words of this program: a list of those that stay cannot miss one that is added later.
	if s.textless {
		p.Summary = slices.DeleteFunc(p.Summary, func(r [2]string) bool {
			return !slices.Contains([]string{"run", "tasks", "inputs", "raw score", "clean score", "worst score", "clean", "audited at", "looks for"}, r[0])
		})
	}
	for _, c := range r.Checks {
		row := page.Check{ID: c.ID, Name: c.Name, Title: c.Title, Status: string(c.Status), Severity: string(c.Severity), Absent: c.Absent, Gate: c.Gate, Gaps: c.Gaps}
		if s.textless && len(c.Gaps) > 0 {
			// A gap names what could not be seen, which can be a file.
			row.Gaps = []string{view.Count(len(c.Gaps), "gap")}
		}
		for _, f := range c.Findings {
			row.Findings = append(row.Findings, newFinding(s, *r, f))
		}
		p.Checks = append(p.Checks, row)
	}
	return p, nil
}

// newFinding returns a finding with a link to the line of the journal that it names.
func newFinding(s Source, r audit.Report, f audit.Finding) page.Finding {
	line := strconv.FormatInt(f.Seq+1, 10)
	// Lines are counted from 1 for people, and from 0 in a finding.
	p := page.Finding{ID: audit.ShortID(f.ID), Check: f.Check, Rule: f.RuleID, Severity: string(f.Severity), Task: f.TaskID}
	if f.TaskID != "" {
		p.TaskPath = s.Paths.Task(f.TaskID)
		if f.Attempt > 0 && s.Paths.Run != "" {
			p.TaskPath += "?attempt=" + strconv.Itoa(f.Attempt) + "&line=" + line + "#e" + line
		}
	}
	link := page.Link{Text: "line " + line}
	if f.Journal != "" {
		link.Text = fmt.Sprintf("line %d of %s", f.Line, f.Journal)
	}
	if journal := s.Paths.Journal(); journal != "" {
		link.Path = journal + line + "#e" + line
	}
	p.Lines = []page.Link{link}
	if rule, known := audit.RuleOf(audit.Checks(), f.RuleID); known {
		p.Text = "The rule finds " + rule.When + "\n"
	}
	// What was found can be an address or an answer; the rule is this program's.
	if s.textless {
		p.Closed = string(f.Closed)
		return p
	}
	p.Text += "Found: " + f.Got + "\nExpected: " + f.Want
	if f.Outcome != "" {
		p.Text += "\nOutcome: " + string(f.Outcome)
	}
	for _, d := range r.Adjudications {
		if d.Finding != f.ID {
			continue
		}
		// A decision counts only if the key of the plan signed it, which the audit has checked.
		says := fmt.Sprintf("%s, by the run's key %s: %s", d.Decision, s.Check.Audited.Run.Key.ID(), d.Reason)
		if c := d.Countersigned; c != nil {
			says += "; countersigned by " + c.KeyID
		}
		switch {
		case f.Closed != "":
			p.Closed = says
		case d.Unheard != "":
			p.Text += "\nDecided, and open: " + says + ". It closes nothing: " + d.Unheard
		default:
			waits := map[string]string{audit.PendingCountersignature: "another key countersigns it", audit.PendingTrust: "the reader trusts the countersigner"}
			p.Text += "\nDecided, and open until " + waits[d.Pending] + ": " + says
		}
	}
	return p
}
