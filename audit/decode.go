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
// writes, leaves out a check of the gate, has findings that no check makes, or
// concludes what its findings do not give.
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
		if status, severity := conclude(c.Findings, c.Gaps); status != c.Status || severity != c.Severity {
			return refuse("check %q is %s, which does not follow from its findings", c.ID, c.Status)
		}
	}
	for _, c := range Checks() {
		if c.Gate && (seen[c.ID].ID == "" || !seen[c.ID].Gate || seen[c.ID].Name != c.Name) {
			return refuse("check %s (%s) of the gate is missing", c.ID, c.Name)
		}
	}
	if t := r.Totals; t.count(r.Checks) != t {
		return refuse("the totals do not count the findings")
	}
	if a := attest(r.Checks); !equal(a, r.Attestation) {
		return refuse("the attestation does not follow from the checks")
	}
	return r, nil
}

// strange says what about a finding no check writes down, "" if nothing.
func (f Finding) strange() string {
	switch {
	case !slices.Contains([]Severity{Critical, High, ToReview, Info}, f.Severity):
		return fmt.Sprintf("the unknown severity %q", f.Severity)
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
