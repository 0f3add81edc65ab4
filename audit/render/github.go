package render

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/visible"
)

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
		command(&out, kind, journal(dir), f.Seq+1, string(f.Severity)+" "+f.RuleID, text)
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
