package audit

import (
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

// Adjudication is a decision about a finding, as somebody signed it.
type Adjudication struct {
	Decision Decision
	Finding  string // its id
	Reason   string
	SHA256   string // of the envelope
}

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
	case d == Void && f.TaskID == "":
		return "a finding about the whole run has no task that could be void"
	case d == Dismiss && f.Severity != High:
		return "only a HIGH finding can be dismissed, and this one is " + string(f.Severity)
	case d != Void && d != Dismiss:
		return "the decisions are void and dismiss"
	}
	return ""
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
				if told.Unheard = a.Decision.Refuses(*f); told.Unheard == "" {
					f.Closed = a.Decision
				}
			}
			r.Checks[i].Status, r.Checks[i].Severity = r.Checks[i].conclude()
		}
		r.Adjudications = append(r.Adjudications, told)
		r.Inputs.Adjudications = append(r.Inputs.Adjudications, a.SHA256)
	}
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
