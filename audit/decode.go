package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// ReportFile is the name of a report in a package.
const ReportFile = "audit-report.json"

// DecodeReport reads a report, with a *trajectory.Fault if it is not what Encode
// writes, leaves out a check that it does not say it leaves out, has findings that
// no check makes, or concludes what its findings do not give.
func DecodeReport(data []byte) (Report, error) {
	refuse := func(format string, args ...any) (Report, error) {
		return Report{}, trajectory.Faultf(ReportFile, format, args...)
	}
	var r Report
	if err := sign.Decode(data, &r); err != nil {
		return refuse("%v", err)
	}
	if r.Schema != Schema {
		return refuse("schema is %q, not %q", r.Schema, Schema)
	}
	if at, err := time.Parse(trajectory.TimeFormat, r.AuditedAt); err != nil || at.Format(trajectory.TimeFormat) != r.AuditedAt {
		return refuse("audited_at is %q, which is no time", r.AuditedAt)
	}
	seen := map[string]CheckReport{}
	for _, c := range r.Checks {
		if _, twice := seen[c.ID]; twice {
			return refuse("check %q stands there twice", c.ID)
		}
		seen[c.ID] = c
		for _, f := range c.Findings {
			if f.Check != c.ID || f.ID != f.digest() {
				return refuse("a finding of check %q is not the one its id is of", c.ID)
			}
			if why := f.strange(); why != "" {
				return refuse("a finding of check %q has %s", c.ID, why)
			}
		}
		if len(r.Only) > 0 && !slices.Contains(r.Only, c.ID) {
			return refuse("check %q is not one of those that it says were asked", c.ID)
		}
		if status, severity := c.conclude(); status != c.Status || severity != c.Severity {
			return refuse("check %q is %s, which does not follow from its findings", c.ID, c.Status)
		}
	}
	for _, c := range Checks() {
		if asked := len(r.Only) == 0 || slices.Contains(r.Only, c.ID); !asked && seen[c.ID].ID == "" {
			continue
		}
		if c.Gate && (seen[c.ID].ID == "" || !seen[c.ID].Gate || seen[c.ID].Name != c.Name) {
			return refuse("check %s (%s) of the gate is missing", c.ID, c.Name)
		}
	}
	if why := r.undecided(); why != "" {
		return refuse("%s", why)
	}
	if t := r.Totals; t.count(r.Checks) != t {
		return refuse("the totals do not count the findings")
	}
	if a := attest(r.Checks, r.Only); !equal(a, r.Attestation) {
		return refuse("the attestation does not follow from the checks")
	}
	return r, nil
}

// undecided says what is closed without an adjudication, or decided and not
// closed; "" if nothing is.
func (r Report) undecided() string {
	decided, digests := map[string]Decision{}, []string(nil)
	for _, a := range r.Adjudications {
		digests = append(digests, a.SHA256)
		if a.Unheard == "" {
			decided[a.Finding] = a.Decision
		}
	}
	if !slices.Equal(digests, r.Inputs.Adjudications) {
		return "the adjudications are not those of its inputs"
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Closed != decided[f.ID] {
				return fmt.Sprintf("a finding of check %q is not closed as its adjudications say", c.ID)
			}
		}
	}
	return ""
}

// strange says what about a finding no check writes down, "" if nothing.
func (f Finding) strange() string {
	switch {
	case !slices.Contains([]Severity{Critical, High, ToReview, Info}, f.Severity):
		return fmt.Sprintf("the unknown severity %q", f.Severity)
	case !slices.Contains([]Decision{"", Void, Dismiss}, f.Closed) || f.Closed != "" && f.Closed.Refuses(f) != "":
		return fmt.Sprintf("the decision %q, which cannot close it", f.Closed)
	case !slices.Contains([]Outcome{"", Exploited, Attempted, Exposure}, f.Outcome):
		return fmt.Sprintf("the unknown outcome %q", f.Outcome)
	case !strings.HasPrefix(f.RuleID, f.Check+"."):
		return fmt.Sprintf("the rule %q of another check", f.RuleID)
	case f.Seq < 0 || f.Attempt < 0:
		return "a place that there is not"
	}
	return ""
}

func equal(a, b Attestation) bool {
	return a.Clean == b.Clean && a.StrictClean == b.StrictClean && slices.Equal(a.CriticalFailures, b.CriticalFailures) &&
		slices.Equal(a.HarnessGaps, b.HarnessGaps) && slices.Equal(a.Skipped, b.Skipped) && slices.Equal(a.WarnFailures, b.WarnFailures)
}
