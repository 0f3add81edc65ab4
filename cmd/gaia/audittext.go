package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// mostNotes is how many findings of a rule are shown that are for the record.
const mostNotes = 3

// printReport shows a report; found is the run that it is of, nil if only the
// report is there.
func (a *app) printReport(place string, r audit.Report, found *ledger.Run) error {
	var out strings.Builder
	if r.Rehearsal {
		out.WriteString("rehearsal: " + rehearsalNote + "\n\n")
	}
	t := newTable()
	t.AppendHeader(table.Row{"check", "", "status", "", ""})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
	for _, c := range r.Checks {
		says := c.Title
		switch {
		case c.Status == audit.NotApplicable && len(c.Findings) == 0:
			says = c.Absent
		case c.Status != audit.Pass:
			says = fmt.Sprintf("%s; %s", counted(len(c.Findings), "finding"), counted(len(c.Gaps), "gap"))
		}
		t.AppendRow(table.Row{oneLine(c.ID), oneLine(c.Name), c.Status, c.Severity, oneLine(says)})
	}
	out.WriteString(t.Render() + "\n\n")
	groups := grouped(render.Findings(r))
	for _, g := range groups {
		out.WriteString(oneLine(headingOf(g[0])) + "\n")
		for i, f := range g {
			if f.Severity == audit.Info && i == mostNotes {
				out.WriteString(fmt.Sprintf("  and %d more: --format json has all\n", len(g)-i))
				break
			}
			for _, line := range findingLines(f) {
				out.WriteString(oneLine(line) + "\n")
			}
		}
		out.WriteString("\n")
	}
	for _, g := range r.Attestation.HarnessGaps {
		out.WriteString(oneLine(g.Check+" could not see: "+g.Gap) + "\n")
	}
	if len(r.Attestation.HarnessGaps) > 0 {
		out.WriteString("\n")
	}
	if _, err := fmt.Fprint(a.stdout, visible.Text(out.String())); err != nil {
		return err
	}
	return a.printRows(conclusion(place, r, found))
}

// grouped puts findings of one rule together; those that are closed apart.
func grouped(all []audit.Finding) [][]audit.Finding {
	var groups [][]audit.Finding
	at := map[string]int{}
	for _, f := range all {
		key := headingOf(f)
		if _, there := at[key]; !there {
			at[key] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[key]] = append(groups[at[key]], f)
	}
	return groups
}

// headingOf stands above the findings of a rule.
func headingOf(f audit.Finding) string {
	heading := string(f.Severity) + " " + f.RuleID
	if r, known := audit.RuleOf(audit.Checks(), f.RuleID); known {
		heading += ": " + r.When
	}
	if f.Closed != "" {
		heading = "closed (" + string(f.Closed) + "): " + heading
	}
	return heading
}

func findingLines(f audit.Finding) []string {
	line := fmt.Sprintf("  %s  %s, line %d of the journal", render.Short(f.ID), render.Where(f), f.Seq+1)
	if f.Outcome != "" {
		line += " (" + string(f.Outcome) + ")"
	}
	if f.Severity == audit.Info {
		return []string{line + ": " + f.Got + "; " + f.Want}
	}
	return []string{line, "    found:    " + f.Got, "    expected: " + f.Want}
}

func conclusion(place string, r audit.Report, found *ledger.Run) [][2]string {
	t := r.Totals
	rows := [][2]string{{"run", r.RunID}}
	if found != nil {
		rows = append(rows, chosen(found.Manifest)...)
	}
	rows = append(rows, [2]string{"tasks", fmt.Sprintf("%d planned, %s, %s", t.Planned, counted(t.Attempts, "attempt"), counted(int(t.Events), "event"))})
	switch j := t.Judge; {
	case found != nil:
		rows = append(rows, runview.JudgeRows(found.Summary().Judge)...)
	case j != nil:
		rows = append(rows, [2]string{"judge", fmt.Sprintf("judged %d of %d (%d from the cache), unreadable %d, errors %d", j.Judged, j.Asked, j.Cached, j.Unreadable, j.Errors)})
	}
	if n := len(r.Inputs.Rejudgments); n > 0 {
		rows = append(rows, [2]string{"judged again", counted(n, "later judgment") + ", signed by the key of the plan"})
	}
	for _, s := range render.Scores(r) {
		rows = append(rows, [2]string{s.Name + " score", fmt.Sprintf("%d of %d, %s (%s)", s.Correct, s.Planned, percent(s.AccuracyPPM), s.Means)})
	}
	for _, d := range r.Adjudications {
		says := fmt.Sprintf("%s of finding %s: %s", d.Decision, render.Short(d.Finding), d.Reason)
		if d.Unheard != "" {
			says += "; it closes nothing: " + d.Unheard
		}
		if waits := render.Pending(d); waits != "" {
			says += "; " + waits
		}
		rows = append(rows, [2]string{"decision", says})
	}
	if why := render.Unclean(r); why != "" {
		rows = append(rows, [2]string{"clean", "no: " + why})
		if command := closing(place, r, found); command != "" {
			rows = append(rows, [2]string{"to close", command})
		}
		return rows
	}
	yes := "yes"
	if n := len(r.Dismissals()); n > 0 {
		yes += ", after " + counted(n, "dismissal")
	}
	yes += ": no open CRITICAL or HIGH finding, no gap in the gate"
	if reviews := render.Reviews(r); len(reviews) > 0 {
		yes += "; to be reviewed: " + strings.Join(reviews, ", ")
	}
	rows = append(rows, [2]string{"clean", yes})
	if found != nil && found.Manifest.SubmitIntent && !outside(r) && !isPackage(place) {
		rows = append(rows, [2]string{"next", "gaia submit " + quoteArg(place)})
	}
	return rows
}

// outside reports whether an audit had something that no other audit of the run
// has, nor its package's.
func outside(r audit.Report) bool {
	return len(r.Inputs.Bodies) > 0 || r.Inputs.UsageExportSHA256 != ""
}

// closing is how the gravest finding that can be closed is, where the run is at
// hand; "" if there is none. To decide about a finding is to find it without what
// came from outside.
func closing(dir string, r audit.Report, found *ledger.Run) string {
	if found == nil || outside(r) || isPackage(dir) {
		return ""
	}
	for _, f := range render.Findings(r) {
		if f.Closed != "" || f.Severity != audit.Critical && f.Severity != audit.High {
			continue
		}
		for _, d := range []audit.Decision{audit.Void, audit.Dismiss} {
			if d.Refuses(f) == "" {
				return fmt.Sprintf("gaia adjudicate %s --finding %s --decision %s --reason …", quoteArg(dir), render.Short(f.ID), d)
			}
		}
	}
	return ""
}

// checkIDs are the ids of the checks.
func checkIDs() []string {
	var ids []string
	for _, c := range audit.Checks() {
		ids = append(ids, c.ID)
	}
	return ids
}

// checkOf returns the check of an id, in whatever case it is written.
func checkOf(id string) (audit.Check, error) {
	for _, c := range audit.Checks() {
		if strings.EqualFold(c.ID, id) {
			return c, nil
		}
	}
	return audit.Check{}, usage("the checks are "+strings.Join(checkIDs(), ", "), "there is no check %q", id)
}

// explain says what a check, or that of a rule, is for.
func (a *app) explain(id string) error {
	id, rule, ofRule := strings.Cut(id, ".")
	c, err := checkOf(id)
	if err != nil {
		return err
	}
	if ofRule && !slices.ContainsFunc(c.Rules, func(r audit.Rule) bool { return strings.EqualFold(r.ID, rule) }) {
		return usage("gaia audit --explain "+c.ID+" names its rules", "%s has no rule %q", c.ID, rule)
	}
	gate := "no: a gap of it does not keep a run from being submitted"
	if c.Gate {
		gate = "yes: a run is not submittable while it could not see"
	}
	rows := [][2]string{{"check", c.ID + " " + c.Name}, {"pass means", c.Title}, {"why", c.Why}, {"severity", string(c.Severity)}, {"gate", gate}}
	for _, r := range c.Rules {
		rows = append(rows, [2]string{"finds", fmt.Sprintf("%s %s.%s, version %d: %s", r.Severity, c.ID, r.ID, r.Version, r.When)})
	}
	for _, more := range [][2]string{{"skips when", c.Skips}, {"n/a when", c.Absent}, {"what to do", c.Fix}} {
		if more[1] != "" {
			rows = append(rows, more)
		}
	}
	for _, ref := range c.References {
		rows = append(rows, [2]string{"see", ref})
	}
	return a.printRows(rows)
}
