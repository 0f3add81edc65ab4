package audit

import (
	"bytes"
	"slices"
	"strings"
)

// Decision is what was decided about a finding.
type Decision string

// The decisions. A finding about one task is closed by voiding the task, which
// then counts wrong in every score; a HIGH one may be dismissed. A CRITICAL about
// the whole run cannot be closed.
const (
	Void    Decision = "void"
	Dismiss Decision = "dismiss"
)

// Adjudicated is an adjudication as the report tells of it.
type Adjudicated struct {
	Decision Decision `json:"decision"`
	Finding  string   `json:"finding"` // id of the finding
	Reason   string   `json:"reason"`
	SHA256   string   `json:"sha256"`           // of the envelope
	Unheard  string   `json:"unheard,omitzero"` // why it closes nothing
}

// Refuses says why a decision cannot close a finding, "" if it can.
func (d Decision) Refuses(f Finding) string {
	switch {
	case f.Severity == Info:
		return "an INFO finding is a note, and keeps nothing open"
	case d == Void && f.TaskID == "":
		return "a finding about the whole run has no task that could be void"
	case d == Dismiss && f.Severity != High:
		return "only a HIGH finding can be dismissed, and this one is " + string(f.Severity)
	case d != Void && d != Dismiss:
		return "the decisions are void and dismiss"
	}
	return ""
}

// refuses says why an adjudication cannot close the finding that it names, "" if
// it can.
func (a Adjudication) refuses(f Finding) string {
	if a.Check != f.Check || a.RuleID != f.RuleID || a.TaskID != f.TaskID {
		return "it says of the finding another check, rule or task than the finding does"
	}
	return a.Decision.Refuses(f)
}

// adjudicate closes the findings that were decided about.
func (r *Report) adjudicate(all []Adjudication) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Adjudication) int { return strings.Compare(a.Finding, b.Finding) })
	for _, a := range all {
		told := Adjudicated{Decision: a.Decision, Finding: a.Finding, Reason: a.Reason, SHA256: a.SHA256, Unheard: "this audit has no such finding"}
		for i := range r.Checks {
			for j := range r.Checks[i].Findings {
				f := &r.Checks[i].Findings[j]
				if f.ID != a.Finding {
					continue
				}
				if told.Unheard = a.refuses(*f); told.Unheard == "" {
					f.Closed = a.Decision
				}
			}
			r.Checks[i].Status, r.Checks[i].Severity = r.Checks[i].conclude()
		}
		r.Adjudications = append(r.Adjudications, told)
		r.Inputs.Adjudications = append(r.Inputs.Adjudications, a.SHA256)
	}
}

// Follows reports whether exactly these adjudications, put to the findings, give
// what the report says was decided. What it concludes from that, DecodeReport
// has checked.
func (r Report) Follows(all []Adjudication) bool {
	again := r
	again.Adjudications, again.Inputs.Adjudications = nil, nil
	again.Checks = slices.Clone(r.Checks)
	for i := range again.Checks {
		c := &again.Checks[i]
		c.Findings = slices.Clone(c.Findings)
		for j := range c.Findings {
			c.Findings[j].Closed = ""
		}
		c.Status, c.Severity = c.conclude()
	}
	again.adjudicate(all)
	want, err := again.Encode()
	if err != nil {
		return false
	}
	got, err := r.Encode()
	return err == nil && bytes.Equal(got, want)
}

// Voided returns the tasks that an adjudication made void.
func Voided(checks []CheckReport) map[string]bool {
	void := map[string]bool{}
	for _, c := range checks {
		for _, f := range c.Findings {
			if f.Closed == Void {
				void[f.TaskID] = true
			}
		}
	}
	return void
}
