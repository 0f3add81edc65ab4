package render

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
)

// most is how many findings, and how many gaps, are shown in Markdown: a comment on GitHub holds 65,536 characters.
const most = 40

// Markdown returns a report for people: for a pull request's comment or a job's summary. Text of strangers stands
// in code spans, in which nothing is markup and no user is mentioned.
func Markdown(r audit.Report, dir string) []byte { return markdown(r, dir, audit.Checks()) }

func markdown(r audit.Report, dir string, checks []audit.Check) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "## gaia audit: %s\n\nRun %s, audited at %s.", plain(verdict(r)), code(r.RunID), plain(r.AuditedAt))
	if r.Rehearsal {
		out.WriteString(" **A rehearsal: its score is no GAIA score.**")
	}
	fmt.Fprintf(&out, "\n%s planned, %s, %s.\n\n",
		view.Count(r.Totals.Planned, "task"), view.Count(r.Totals.Attempts, "attempt"), view.Count(int(r.Totals.Events), "event"))
	out.WriteString("| check | | status | | findings | gaps |\n|---|---|---|---|--:|--:|\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %d | %d |\n", plain(c.ID), plain(c.Name), plain(string(c.Status)), plain(string(c.Severity)), len(c.Findings), len(c.Gaps))
	}
	for i, s := range Scores(r) {
		if i == 0 {
			out.WriteString("\n| score | correct | of | accuracy | |\n|---|--:|--:|--:|---|\n")
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %s | %s |\n", s.Name, s.Correct, s.Planned, view.Percent(s.AccuracyPPM), s.Means)
	}
	if j := r.Totals.Judge; j != nil {
		fmt.Fprintf(&out, "\nJudged %d of %d (%d from the cache), unreadable %d, errors %d, withheld %d, too long %d.\n",
			j.Judged, j.Asked, j.Cached, j.Unreadable, j.Errors, j.Withheld, j.TooLong)
	}
	if p := r.Totals.Prompts; p != nil {
		fmt.Fprintf(&out, "\n%s.\n", p)
	}
	findings(&out, r, dir, checks)
	if gaps := r.Attestation.HarnessGaps; len(gaps) > 0 {
		out.WriteString("\n### Could not see\n\n")
		for _, g := range gaps[:min(most, len(gaps))] {
			fmt.Fprintf(&out, "- %s: %s\n", plain(g.Check), code(g.Gap))
		}
		rest(&out, len(gaps), "gaps")
	}
	for i, a := range r.Adjudications {
		if i == 0 {
			out.WriteString("\n### Decisions\n\n")
		}
		fmt.Fprintf(&out, "- %s of finding %s: %s", plain(string(a.Decision)), code(audit.ShortID(a.Finding)), code(a.Reason))
		if a.Unheard != "" {
			out.WriteString("; it closes nothing: " + code(a.Unheard))
		}
		if waits := pending(a); waits != "" {
			out.WriteString("; " + plain(waits))
		}
		out.WriteString("\n")
	}
	return []byte(out.String())
}

func findings(out *strings.Builder, r audit.Report, dir string, checks []audit.Check) {
	all := Findings(r)
	if len(all) == 0 {
		return
	}
	out.WriteString("\n### Findings\n\n")
	for _, f := range all[:min(most, len(all))] {
		fmt.Fprintf(out, "- **%s** %s", plain(string(f.Severity)), code(f.RuleID))
		if f.Closed != "" {
			fmt.Fprintf(out, ", closed (%s)", plain(string(f.Closed)))
		}
		if f.Outcome != "" {
			fmt.Fprintf(out, ", %s", plain(string(f.Outcome)))
		}
		file, line := journal(dir, f)
		fmt.Fprintf(out, ", %s, line %d of %s, finding %s\n", code(where(f)), line, code(file), code(audit.ShortID(f.ID)))
		if known, ok := audit.RuleOf(checks, f.RuleID); ok {
			fmt.Fprintf(out, "  - the rule finds %s\n", known.When)
		}
		fmt.Fprintf(out, "  - found: %s\n  - expected: %s\n", code(f.Got), code(f.Want))
	}
	rest(out, len(all), "findings")
}

// rest says what a list leaves out.
func rest(out *strings.Builder, all int, things string) {
	if all > most {
		fmt.Fprintf(out, "\n%d more %s are in the report.\n", all-most, things)
	}
}

// code is a code span of any text, whose fence is longer than what the text could close it with.
func code(s string) string {
	if s = visible.Line(s); strings.TrimSpace(s) == "" {
		return "nothing"
	}
	longest, run := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// plain keeps the characters of ids, times and our own words, none of which is markup; a stranger's check may be
// called anything.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" -.,:;/()", r):
			return r
		}
		return '?'
	}, s)
}

// GitHub returns a report as workflow commands, a line each: what a job prints and GitHub shows beside the lines of
// the journal. The gravest come first, since GitHub shows the first ten of a kind. Rules are those of
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands.
func GitHub(r audit.Report, dir string) []byte {
	var out strings.Builder
	for _, f := range Findings(r) {
		kind := map[audit.Severity]string{audit.Critical: "error", audit.High: "error", audit.ToReview: "warning"}[f.Severity]
		text := fmt.Sprintf("%s: %s; expected: %s (finding %s)", where(f), f.Got, f.Want, audit.ShortID(f.ID))
		if f.Closed != "" {
			kind, text = "", "closed ("+string(f.Closed)+"): "+text
		}
		file, line := journal(dir, f)
		command(&out, kind, file, line, string(f.Severity)+" "+f.RuleID, text)
	}
	for _, c := range r.Checks {
		kind := "warning"
		if c.Gate {
			kind = "error"
		}
		for _, gap := range c.Gaps {
			command(&out, kind, "", 0, c.ID+" could not see", gap)
		}
	}
	kind := "notice"
	if !r.Attestation.Clean {
		kind = "error"
	}
	text := "run " + r.RunID + ": " + verdict(r)
	if r.Rehearsal {
		text += "; a rehearsal, whose score is no GAIA score"
	}
	command(&out, kind, "", 0, "gaia audit", text)
	return []byte(out.String())
}

// command writes a workflow command; a kind of "" is a notice, a line of 0 no place.
func command(out *strings.Builder, kind, file string, line int64, title, text string) {
	if kind == "" {
		kind = "notice"
	}
	place := ""
	if line > 0 {
		place = fmt.Sprintf("file=%s,line=%d,", property(file), line)
	}
	fmt.Fprintf(out, "::%s %stitle=%s::%s\n", kind, place, property(title), data(text))
}

// data and property escape as the toolkit of GitHub's actions does.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(visible.Line(s))
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
