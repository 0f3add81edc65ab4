package audit

import (
	"bytes"
	"slices"
	"strings"
)

// Decision is what was decided about a finding.
type Decision string

// The decisions. A finding about one task is closed by voiding the task, which
// then counts wrong in every score. A HIGH one may be dismissed. The dismissal of a
// CRITICAL one about one task closes it only for readers who trust the key that
// countersigned the dismissal. A CRITICAL about the whole run cannot be closed.
const (
	Void    Decision = "void"
	Dismiss Decision = "dismiss"
)

// What the dismissal of a CRITICAL finding waits for. The finding is open in the
// report.
const (
	PendingCountersignature = "countersignature" // by another key
	PendingTrust            = "trust"            // of a reader in the key that countersigned; see [Report.Trusting]
)

// Adjudicated is an adjudication in a report.
type Adjudicated struct {
	Countersigned *Countersigner `json:"countersigned,omitzero"` // nil: by no other key
	Decision      Decision       `json:"decision"`
	Finding       string         `json:"finding"`          // id of the finding
	Pending       string         `json:"pending,omitzero"` // what it waits for; left out: nothing
	Reason        string         `json:"reason"`
	SHA256        string         `json:"sha256"`           // of the envelope
	Unheard       string         `json:"unheard,omitzero"` // why it closes nothing
}

// Refuses says why a decision cannot close a finding, "" if it can.
func (d Decision) Refuses(f Finding) string {
	switch {
	case f.Severity == Info:
		return "an INFO finding is a note, and keeps nothing open"
	case d == Void && f.TaskID == "":
		return "a finding about the whole run has no task that could be void"
	case d == Dismiss && f.Severity == Critical && f.TaskID == "":
		return "a CRITICAL finding about the whole run cannot be dismissed"
	case d == Dismiss && f.Severity != High && f.Severity != Critical:
		return "only a HIGH or CRITICAL finding can be dismissed, and this one is " + string(f.Severity)
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

// pending says what an adjudication that can close a finding waits for, "" if it closes
// the finding for every reader.
func (a Adjudication) pending(f Finding) string {
	switch {
	case a.Decision != Dismiss || f.Severity != Critical:
		return ""
	case a.Countersigned == nil:
		return PendingCountersignature
	}
	return PendingTrust
}

// adjudicate closes the findings that were decided about.
func (r *Report) adjudicate(all []Adjudication) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Adjudication) int { return strings.Compare(a.Finding, b.Finding) })
	for _, a := range all {
		told := Adjudicated{Countersigned: a.Countersigned, Decision: a.Decision, Finding: a.Finding, Reason: a.Reason, SHA256: a.SHA256, Unheard: "this audit has no such finding"}
		for i := range r.Checks {
			for j := range r.Checks[i].Findings {
				f := &r.Checks[i].Findings[j]
				if f.ID != a.Finding {
					continue
				}
				if told.Unheard = a.refuses(*f); told.Unheard != "" {
					continue
				}
				if told.Pending = a.pending(*f); told.Pending == "" {
					f.Closed = a.Decision
				}
			}
			r.Checks[i].Status, r.Checks[i].Severity = r.Checks[i].conclude()
		}
		r.Adjudications = append(r.Adjudications, told)
		r.Inputs.Adjudications = append(r.Inputs.Adjudications, a.SHA256)
		if a.Countersigned != nil {
			r.Inputs.Countersignatures = append(r.Inputs.Countersignatures, a.Countersigned.SHA256)
		}
	}
}

// Follows reports whether exactly these adjudications, put to the findings, give
// what the report says was decided. What it concludes from that, DecodeReport
// has checked.
func (r Report) Follows(all []Adjudication) bool {
	again := r
	again.Adjudications, again.Inputs.Adjudications, again.Inputs.Countersignatures = nil, nil, nil
	again.Checks = cloneChecks(r.Checks)
	for i := range again.Checks {
		c := &again.Checks[i]
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
