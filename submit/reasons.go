package submit

import (
	"fmt"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
)

// reasons lists why a run does not deserve to be submitted, a sentence each.
// What others wrote stands in quotes.
func reasons(run *rundir.Run, report audit.Report, recordingFailed string) []string {
	all := planReasons(run.Manifest, recordingFailed)
	found := auditReasons(report)
	if !report.Attestation.Clean && len(found) == 0 {
		found = []string{"the audit does not call the run clean"}
	}
	return append(all, found...)
}

// planReasons are those that need no audit.
func planReasons(m plan.Plan, recordingFailed string) []string {
	all := []string{}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch recordingFailed {
	case "":
	case recordingWithheld:
		add("recording failed during the run, so part of it has no evidence; why is withheld")
	default:
		add("recording failed during the run, so part of it has no evidence: %s", quote(recordingFailed))
	}
	if !m.SubmitIntent {
		add("the run was planned without --submit-intent, so answers could be graded before all were committed")
	}
	if m.Dataset.Split == "" {
		add("the plan declares no split")
	}
	if m.Dataset.Selection == "all" && len(m.Tasks) < m.Dataset.SplitSize {
		add("the plan says that all tasks of split %s were selected, but has %d of %d: an unlabelled subset", quote(m.Dataset.Split), len(m.Tasks), m.Dataset.SplitSize)
	}
	return all
}

// publicReasons are reasons without a word that the agent, its tools or a person
// wrote.
func publicReasons(m plan.Plan, checks []CheckResult, recordingFailed string) []string {
	all := planReasons(m, recordingFailed)
	for i, c := range checks {
		check := audit.Checks()[i]
		if c.Status == audit.Fail {
			where := fmt.Sprintf("line %d of events.jsonl", c.Line)
			if c.TaskID != "" {
				where = "task " + quote(c.TaskID) + ", " + where
			}
			all = append(all, fmt.Sprintf("%s %s fails (%s): %s", c.ID, check.Name, c.Severity, where))
		}
		if check.Gate && c.Gaps > 0 {
			all = append(all, fmt.Sprintf("%s %s could not see %s", c.ID, check.Name, view.Count(c.Gaps, "thing")))
		}
	}
	return all
}

// countersigned lists the findings of a report that are closed in counted, which counts
// countersigned dismissals, a sentence each.
func countersigned(report, counted audit.Report) []string {
	var all []string
	for i, c := range report.Checks {
		for j, f := range c.Findings {
			if f.Closed != counted.Checks[i].Findings[j].Closed {
				all = append(all, fmt.Sprintf("%s %s: the dismissal of a CRITICAL finding about task %s is countersigned, and --strict was asked for", plain(c.ID), plain(c.Name), quote(f.TaskID)))
			}
		}
	}
	return all
}

// toReview lists the checks that have something to review, a sentence each.
func toReview(report audit.Report) []string {
	var all []string
	for _, c := range report.Checks {
		if c.Status == audit.Review {
			all = append(all, fmt.Sprintf("%s %s needs review by a person, and --strict was given: %s", plain(c.ID), plain(c.Name), findings(c)))
		}
	}
	return all
}

func auditReasons(report audit.Report) []string {
	var all []string
	for _, c := range report.Checks {
		if c.Status == audit.Fail {
			all = append(all, fmt.Sprintf("%s %s fails (%s): %s", plain(c.ID), plain(c.Name), plain(string(c.Severity)), findings(c)))
		}
		if !c.Gate {
			continue
		}
		for _, gap := range c.Gaps {
			all = append(all, fmt.Sprintf("%s %s could not see: %s", plain(c.ID), plain(c.Name), plain(gap)))
		}
	}
	return all
}

// findings tells the first of a check's gravest open findings, and how many more
// there are of that kind.
func findings(c audit.CheckReport) string {
	first, more := gravest(c)
	if first == nil {
		return "without a finding"
	}
	where := fmt.Sprintf("line %d of events.jsonl", first.Seq+1)
	if first.TaskID != "" {
		where = "task " + quote(first.TaskID) + ", " + where
	}
	text := fmt.Sprintf("%s: %s, where there should be %s", where, quote(first.Got), quote(first.Want))
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// gravest returns the first of a check's gravest open findings, nil if there is
// none, and how many more there are of that kind.
func gravest(c audit.CheckReport) (first *audit.Finding, more int) {
	more = -1
	for i, f := range c.Findings {
		if f.Severity != c.Severity || f.Closed != "" {
			continue
		}
		more++
		if first == nil {
			first = &c.Findings[i]
		}
	}
	return first, more
}
