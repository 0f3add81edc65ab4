// Package render shows an audit's report to programs and people: as text for a terminal ([Text]), as SARIF 2.1.0
// for code scanning ([SARIF]), as Markdown for a pull request or the summary of a job ([Markdown]), as workflow
// commands that GitHub turns into annotations ([GitHub]). It also writes what is published about the audit itself:
// the JSON Schema of a report ([Schema]) and the list of the checks ([Checks]).
//
// Everything is a function of the report, the name of the run's directory and the checks of this version: the same
// report gives the same bytes. A report holds text of strangers (task ids, addresses, names of models). None of it
// can end the place where it is shown: it starts no command, link, tag or escape sequence (TestHostile).
package render

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
)

// Findings returns the findings of a report, the gravest first, closed ones last.
func Findings(r audit.Report) []audit.Finding {
	var all []audit.Finding
	for _, c := range r.Checks {
		all = append(all, c.Findings...)
	}
	rank := func(f audit.Finding) int {
		n := f.Severity.Rank()
		if f.Closed != "" {
			n += 4
		}
		return n
	}
	slices.SortStableFunc(all, func(a, b audit.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// A Score is one of the scores of a report, with what it means.
type Score struct {
	Name, Means string
	*stats.Rate
}

// Scores returns the scores of a report, none of one without verdicts.
func Scores(r audit.Report) (scores []Score) {
	raw := "official, as recorded"
	if len(audit.Voided(r.Checks)) > 0 {
		raw += ", but tasks void by decision counted wrong"
	}
	for _, s := range []Score{{"raw", raw, r.Totals.Raw}, {"clean", "void tasks counted wrong", r.Totals.Clean},
		{"worst", "tasks with an open HIGH or REVIEW finding counted wrong, too", r.Totals.Worst}} {
		if s.Rate != nil {
			scores = append(scores, s)
		}
	}
	return scores
}

// pending says what a decision waits for and who countersigned it, "" if it waits for nothing.
func pending(a audit.Adjudicated) string {
	switch a.Pending {
	case audit.PendingCountersignature:
		return "pending: it closes nothing until another key countersigns it"
	case audit.PendingTrust:
		return "countersigned by " + a.Countersigned.KeyID + ": it counts only for readers who trust that key"
	}
	return ""
}

// Unclean says why a report is not clean, "" if it is.
func Unclean(r audit.Report) string {
	if r.Attestation.Clean {
		return ""
	}
	var why []string
	if failed := slices.Concat(r.Attestation.CriticalFailures, r.Attestation.WarnFailures); len(failed) > 0 {
		why = append(why, "failed: "+strings.Join(failed, ", "))
	}
	var blind []string
	for _, c := range r.Checks {
		if c.Gate && len(c.Gaps) > 0 {
			blind = append(blind, c.ID)
		}
	}
	if len(blind) > 0 {
		why = append(why, "could not see: "+strings.Join(blind, ", "))
	}
	if len(r.Only) > 0 {
		why = append(why, "only asked: "+strings.Join(r.Only, ", "))
	}
	return strings.Join(why, "; ")
}

// Reviews returns the ids of the checks that a person has to look at.
func Reviews(r audit.Report) []string {
	var ids []string
	for _, c := range r.Checks {
		if c.Status == audit.Review {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// where says what a finding is about, without the line of the journal.
func where(f audit.Finding) string {
	where := "the run"
	if f.TaskID != "" {
		where = "task " + f.TaskID
	}
	if f.Attempt > 0 {
		where += fmt.Sprintf(", attempt %d", f.Attempt)
	}
	return where
}

// verdict is the conclusion of a report, in a few words.
func verdict(r audit.Report) string {
	why, clean := Unclean(r), "clean"
	if n := len(r.Dismissals()); n > 0 {
		clean += " after " + view.Count(n, "dismissal")
	}
	switch reviews := Reviews(r); {
	case why != "":
		return "not clean (" + why + ")"
	case len(reviews) > 0:
		return clean + ", but to be looked at: " + strings.Join(reviews, ", ")
	}
	return clean
}

// journal names the file below dir that a finding is about, and the line in it.
func journal(dir string, f audit.Finding) (file string, line int64) {
	file, line = f.Place()
	return path.Join(dir, file), line
}

// lineOf names the line that a finding is about.
func lineOf(f audit.Finding) string {
	if f.Journal == "" {
		return fmt.Sprintf("line %d of the journal", f.Seq+1)
	}
	return fmt.Sprintf("line %d of %s", f.Line, f.Journal)
}

// mostNotes is how many findings of a rule are shown that are for the record.
const mostNotes = 3

// Place is where the run of a report is.
type Place struct {
	Path     string
	Packaged bool        // it is a package, about whose findings nothing more is decided
	Run      *rundir.Run // nil: only the report is at hand
}

// Text writes a report for a person: a row per check, the findings by rule, and the conclusion with the command to
// continue with.
func Text(w io.Writer, p Place, r audit.Report) error {
	var out strings.Builder
	if r.Rehearsal {
		out.WriteString("rehearsal: " + runview.RehearsalNote + "\n\n")
	}
	t := view.NewTable("check", "", "status", "", "")
	t.Wrap(5, 60)
	for _, c := range r.Checks {
		says := c.Title
		switch {
		case c.Status == audit.NotApplicable && len(c.Findings) == 0:
			says = c.Absent
		case c.Status != audit.Pass:
			says = view.Count(len(c.Findings), "finding") + "; " + view.Count(len(c.Gaps), "gap")
		}
		t.Row(c.ID, c.Name, c.Status, c.Severity, says)
	}
	out.WriteString(t.String() + "\n\n")
	line := func(s string) { out.WriteString(view.Line(s) + "\n") }
	groups, headings := map[string][]audit.Finding{}, []string(nil) // by rule, those that are closed apart
	for _, f := range Findings(r) {
		heading := headingOf(f)
		if groups[heading] == nil {
			headings = append(headings, heading)
		}
		groups[heading] = append(groups[heading], f)
	}
	for _, heading := range headings {
		g := groups[heading]
		line(heading)
		for i, f := range g {
			if f.Severity == audit.Info && i == mostNotes {
				line(fmt.Sprintf("  and %d more: --format json has all", len(g)-i))
				break
			}
			head := fmt.Sprintf("  %s  %s, %s", audit.ShortID(f.ID), where(f), lineOf(f))
			if f.Outcome != "" {
				head += " (" + string(f.Outcome) + ")"
			}
			if f.Severity == audit.Info {
				line(head + ": " + f.Got + "; " + f.Want)
				continue
			}
			line(head)
			line("    found:    " + f.Got)
			line("    expected: " + f.Want)
		}
		out.WriteString("\n")
	}
	for _, g := range r.Attestation.HarnessGaps {
		line(g.Check + " could not see: " + g.Gap)
	}
	if len(r.Attestation.HarnessGaps) > 0 {
		out.WriteString("\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return err
	}
	return view.Rows(w, Conclusion(p, r))
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

// conclusion returns the conclusion of the report, and how to continue.
func Conclusion(p Place, r audit.Report) [][2]string {
	t, found := r.Totals, p.Run
	rows := [][2]string{{"run", r.RunID}}
	if found != nil {
		rows = append(rows, runview.Dataset(found.Manifest)...)
	}
	rows = append(rows, [2]string{"tasks", fmt.Sprintf("%d planned, %s, %s", t.Planned, view.Count(t.Attempts, "attempt"), view.Count(int(t.Events), "event"))})
	switch j := t.Judge; {
	case found != nil:
		rows = append(rows, runview.JudgeRows(found.Summary().Judge)...)
	case j != nil:
		rows = append(rows, [2]string{"judge", fmt.Sprintf("judged %d of %d (%d from the cache), unreadable %d, errors %d", j.Judged, j.Asked, j.Cached, j.Unreadable, j.Errors)})
	}
	if n := len(r.Inputs.Rejudgments); n > 0 {
		rows = append(rows, [2]string{"judged again", view.Count(n, "later judgment") + ", signed by the key of the plan"})
	}
	if p := r.Totals.Prompts; p != nil {
		rows = append(rows, [2]string{"inputs", p.String()})
	}
	for _, s := range Scores(r) {
		rows = append(rows, [2]string{s.Name + " score", fmt.Sprintf("%d of %d, %s (%s)", s.Correct, s.Planned, view.Percent(s.AccuracyPPM), s.Means)})
	}
	for _, d := range r.Adjudications {
		says := fmt.Sprintf("%s of finding %s: %s", d.Decision, audit.ShortID(d.Finding), d.Reason)
		if d.Unheard != "" {
			says += "; it closes nothing: " + d.Unheard
		}
		if waits := pending(d); waits != "" {
			says += "; " + waits
		}
		rows = append(rows, [2]string{"decision", says})
	}
	if why := Unclean(r); why != "" {
		rows = append(rows, [2]string{"clean", "no: " + why})
		if command := closing(p, r); command != "" {
			rows = append(rows, [2]string{"to close", command})
		}
		return rows
	}
	yes := "yes"
	if n := len(r.Dismissals()); n > 0 {
		yes += ", after " + view.Count(n, "dismissal")
	}
	yes += ": no open CRITICAL or HIGH finding, no gap in the gate"
	if reviews := Reviews(r); len(reviews) > 0 {
		yes += "; to be reviewed: " + strings.Join(reviews, ", ")
	}
	rows = append(rows, [2]string{"clean", yes})
	if found != nil && found.Manifest.SubmitIntent && !outside(r) && !p.Packaged {
		rows = append(rows, [2]string{"next", "gaia submit " + view.Quote(p.Path)})
	}
	return rows
}

// outside reports whether an audit had something that no other audit of the run has, nor its package's.
func outside(r audit.Report) bool {
	return len(r.Inputs.Bodies) > 0 || r.Inputs.UsageExportSHA256 != ""
}

// closing is how the gravest finding that can be closed is, where the run is at hand; "" if there is none. To
// decide about a finding is to find it without what came from outside.
func closing(p Place, r audit.Report) string {
	if p.Run == nil || outside(r) || p.Packaged {
		return ""
	}
	for _, f := range Findings(r) {
		if f.Closed != "" || f.Severity != audit.Critical && f.Severity != audit.High {
			continue
		}
		for _, d := range []audit.Decision{audit.Void, audit.Dismiss} {
			if d.Refuses(f) == "" {
				return fmt.Sprintf("gaia adjudicate %s --finding %s --decision %s --reason …", view.Quote(p.Path), audit.ShortID(f.ID), d)
			}
		}
	}
	return ""
}

// CheckIDs returns the ids of the checks.
func CheckIDs() []string {
	var ids []string
	for _, c := range audit.Checks() {
		ids = append(ids, c.ID)
	}
	return ids
}

// CheckOf returns the check of an id, in whatever case it is written.
func CheckOf(id string) (audit.Check, error) {
	for _, c := range audit.Checks() {
		if strings.EqualFold(c.ID, id) {
			return c, nil
		}
	}
	return audit.Check{}, exit.Usagef("the checks are "+strings.Join(CheckIDs(), ", "), "there is no check %q", id)
}

// Explain writes what a check, or that of a rule, is for.
func Explain(w io.Writer, id string) error {
	id, rule, ofRule := strings.Cut(id, ".")
	c, err := CheckOf(id)
	if err != nil {
		return err
	}
	if ofRule && !slices.ContainsFunc(c.Rules, func(r audit.Rule) bool { return strings.EqualFold(r.ID, rule) }) {
		return exit.Usagef("gaia audit --explain "+c.ID+" names its rules", "%s has no rule %q", c.ID, rule)
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
	return view.Rows(w, rows)
}
