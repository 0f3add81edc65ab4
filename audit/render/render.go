// Package render shows an audit's report to programs and people: as SARIF 2.1.0 for code scanning ([SARIF]), as
// Markdown for a pull request or the summary of a job ([Markdown]), as workflow commands that GitHub turns into
// annotations ([GitHub]). It also writes what is published about the audit itself: the JSON Schema of a report
// ([Schema]) and the list of the checks ([Checks]).
//
// Everything is a function of the report, the name of the run's directory and the checks of this version: the same
// report gives the same bytes. A report holds text of strangers (task ids, addresses, names of models). None of it
// can end the place where it is shown: it starts no command, link, tag or escape sequence (TestHostile).
package render

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
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

// journal names the file whose lines findings point to.
func journal(dir string) string { return path.Join(dir, trajectory.JournalFile) }
