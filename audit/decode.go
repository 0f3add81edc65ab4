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

// anotherVersion ends the reason why a report is refused whose checks or rules are
// not those of this version.
const anotherVersion = ": it was changed, or is of another version of this program"

// DecodeReport reads a report, with a *trajectory.Fault if it is not what Encode
// writes, has not exactly the checks of [Checks] (those that it says were asked),
// in their order, has findings that no rule of theirs makes, or concludes what its
// findings do not give. So a report of a version with other checks or rules is
// refused.
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
	asked, why := r.asked()
	if why != "" {
		return refuse("%s%s", why, anotherVersion)
	}
	for i, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Check != c.ID || f.ID != f.digest() {
				return refuse("a finding of check %q is not the one its id is of", c.ID)
			}
			if why := f.strange(asked[i]); why != "" {
				return refuse("a finding of check %q has %s", c.ID, why)
			}
		}
		if status, severity := c.conclude(); status != c.Status || severity != c.Severity {
			return refuse("check %q is %s, which does not follow from its findings", c.ID, c.Status)
		}
	}
	if why := r.undecided(); why != "" {
		return refuse("%s", why)
	}
	if t := r.Totals; t.count(r.Checks) != t {
		return refuse("the totals do not count the findings")
	}
	if !equal(r.attest(), r.Attestation) {
		return refuse("the attestation does not follow from the checks")
	}
	return r, nil
}

// asked returns the checks that were asked, and says what about the report's is
// not theirs, "" if they are in their order.
func (r Report) asked() (asked []Check, why string) {
	for _, c := range Checks() {
		if len(r.Only) == 0 || slices.Contains(r.Only, c.ID) {
			asked = append(asked, c)
		}
	}
	if len(r.Only) > 0 && !slices.EqualFunc(r.Only, asked, func(id string, c Check) bool { return id == c.ID }) {
		return nil, "what it says was asked is no list of checks"
	}
	for i, c := range asked {
		switch {
		case i >= len(r.Checks) || r.Checks[i].ID != c.ID:
			return nil, fmt.Sprintf("check %s (%s) is missing, or not in its place", c.ID, c.Name)
		case r.Checks[i].Name != c.Name || r.Checks[i].Gate != c.Gate:
			return nil, fmt.Sprintf("check %s is not %s", c.ID, c.Name)
		}
	}
	if more := r.Checks[len(asked):]; len(more) > 0 {
		return nil, fmt.Sprintf("check %q is not one of those that were asked", more[0].ID)
	}
	return asked, ""
}

// undecided says what is closed without an adjudication, or decided and not
// closed; "" if nothing is.
func (r Report) undecided() string {
	decided, digests, countersigned := map[string]Decision{}, []string(nil), []string(nil)
	for _, a := range r.Adjudications {
		digests = append(digests, a.SHA256)
		if a.Countersigned != nil {
			countersigned = append(countersigned, a.Countersigned.SHA256)
		}
		f := r.finding(a.Finding)
		pending := ""
		if a.Unheard == "" && f != nil {
			pending = Adjudication{Ruling: Ruling{Decision: a.Decision}, Countersigned: a.Countersigned}.pending(*f)
		}
		if a.Pending != pending || !a.Countersigned.valid() {
			return fmt.Sprintf("the decision about finding %q does not wait for what it says", a.Finding)
		}
		if a.Unheard == "" && a.Pending == "" {
			decided[a.Finding] = a.Decision
		}
	}
	if !slices.Equal(digests, r.Inputs.Adjudications) || !slices.Equal(countersigned, r.Inputs.Countersignatures) {
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

// strange says what about a finding its check does not write down, "" if nothing.
func (f Finding) strange(c Check) string {
	id, own := strings.CutPrefix(f.RuleID, c.ID+".")
	rule, known := c.rule(id)
	switch {
	case !slices.Contains([]Severity{Critical, High, ToReview, Info}, f.Severity):
		return fmt.Sprintf("the unknown severity %q", f.Severity)
	case !slices.Contains([]Decision{"", Void, Dismiss}, f.Closed) || f.Closed != "" && f.Closed.Refuses(f) != "":
		return fmt.Sprintf("the decision %q, which cannot close it", f.Closed)
	case !slices.Contains([]Outcome{"", Exploited, Attempted, Exposure}, f.Outcome):
		return fmt.Sprintf("the unknown outcome %q", f.Outcome)
	case !own:
		return fmt.Sprintf("the rule %q of another check", f.RuleID)
	case !known:
		return fmt.Sprintf("the rule %q, which there is not%s", f.RuleID, anotherVersion)
	case f.Severity != rule.Severity || f.RuleVersion != rule.Version:
		return fmt.Sprintf("the rule %q as %s of version %d, which is %s of version %d%s", f.RuleID, f.Severity, f.RuleVersion, rule.Severity, rule.Version, anotherVersion)
	case f.Seq < 0 || f.Attempt < 0:
		return "a place that there is not"
	}
	return ""
}

func equal(a, b Attestation) bool {
	return a.Clean == b.Clean && a.CountersignedClean == b.CountersignedClean && a.StrictClean == b.StrictClean && slices.Equal(a.CriticalFailures, b.CriticalFailures) &&
		slices.Equal(a.HarnessGaps, b.HarnessGaps) && slices.Equal(a.Skipped, b.Skipped) && slices.Equal(a.WarnFailures, b.WarnFailures)
}
