package rundir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// What a run event may have. A workspace has 1000 files, all of which may go and be followed by as many others, and
// what breaks rules are tool calls, of which the widest mode of policy allows 500.
const (
	maxEventText = 64 << 10 // bytes of each text
	maxEventList = 4096     // members of each list
)

// What the counts of a run event may come to, so that sums of them do not overflow: 2³¹ of maxLines, a million of the
// others. The journal bounds the lines of a real attempt by maxLines and its clock by 2⁵³ µs, which are 285 years; no
// attempt takes 2⁴³ tokens, or as many micro-USD, which are 8.7 million dollars.
const (
	maxEventCount = maxLines
	maxEventMs    = canonical.MaxInt / 1000
	maxEventSpent = 1 << 43 // tokens, or micro-USD
)

// CheckRunEvent reports whether a run event from elsewhere is one that a run can have given, as far as it tells alone.
func CheckRunEvent(e RunEvent) error {
	switch e.Schema {
	case runEventSchema:
	case "gaia.run_event/1":
		return errors.New("its schema is gaia.run_event/1, which gaia 0.1.0 reads and this version does not")
	default:
		return fmt.Errorf("its schema is not %s", runEventSchema)
	}
	for _, check := range []func(RunEvent) error{checkEventIDs, checkEventTexts, checkEventCounts, checkVerdict, checkViolations} {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}

func checkEventIDs(e RunEvent) error {
	var id ulid.ULID
	for _, s := range []string{e.Session, e.RunID, e.ID} {
		var err error
		if id, err = ulid.ParseStrict(s); err != nil || strings.ToUpper(s) != s {
			return errors.New("id, run_id and session are not ULIDs")
		}
	}
	if id.Timestamp().UTC().Format(trajectory.TimeFormat) != e.Timestamp {
		return errors.New("its timestamp is not the time of its id")
	}
	if !IsHex(e.GuidanceHash, 16) || !IsHex(strings.TrimPrefix(e.ManifestSHA256, "sha256:"), 64) || !strings.HasPrefix(e.ManifestSHA256, "sha256:") {
		return errors.New("guidance_hash or manifest_sha256 is no digest")
	}
	if _, err := policy.Builtin(policy.Mode(e.Mode)); err != nil || !IsHex(e.PolicyHash, 16) {
		return errors.New("policy_hash is no digest, or mode none")
	}
	return nil
}

func IsHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

func checkEventTexts(e RunEvent) error {
	if e.TaskID == "" || e.Intent == "" || !strings.HasPrefix(e.SignedBy, "SHA256:") {
		return errors.New("task_id, intent or signed_by is missing")
	}
	if !slices.Contains([]string{trajectory.Answered, trajectory.NoAnswer, trajectory.Errored}, e.Outcome) {
		return errors.New("its outcome is none that an attempt has")
	}
	if !isSet(e.RetrievedRuleIDs) || !isSet(e.TriggeredRuleIDs) || !isSet(e.ToolsUsed) {
		return errors.New("retrieved_rule_ids, triggered_rule_ids or tools_used is not sorted, each once")
	}
	if max(len(e.FilesTouched), len(e.RetrievedRuleIDs), len(e.TriggeredRuleIDs), len(e.ToolsUsed), len(e.Violations)) > maxEventList {
		return fmt.Errorf("a list of it has more than %d members", maxEventList)
	}
	for _, list := range [][]string{{e.TaskID, e.Intent, e.SignedBy, e.Model}, e.RetrievedRuleIDs, e.TriggeredRuleIDs, e.ToolsUsed, e.FilesTouched} {
		if slices.ContainsFunc(list, func(s string) bool { return len(s) > maxEventText }) {
			return fmt.Errorf("a text of it has more than %d bytes", maxEventText)
		}
	}
	return nil
}

func isSet(list []string) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

func checkEventCounts(e RunEvent) error {
	d, c := e.DiffSummary, e.TestResults
	if min(d.Files, d.LinesAdded, d.LinesRemoved, c.Failed, c.Passed, c.Ran, c.Skipped, e.Retries, e.ReworkLines, e.Rollbacks, e.ToolCalls, e.PersonRefusals, e.Denials.Budget, e.Denials.DenyList, e.Denials.Mode, e.Denials.Rule) < 0 ||
		min(e.DurationMs, e.Tokens) < 0 || e.CostMicroUSD != nil && *e.CostMicroUSD < 0 || e.Attempt < 1 || e.Level < 1 || e.Level > 3 {
		return errors.New("a count of it is too small or its level none")
	}
	if max(d.Files, d.LinesAdded, d.LinesRemoved, c.Failed, c.Passed, c.Ran, c.Skipped, e.Retries, e.ReworkLines, e.Rollbacks, e.ToolCalls, e.PersonRefusals, e.Attempt) > maxEventCount ||
		e.DurationMs > maxEventMs || e.Tokens > maxEventSpent || e.CostMicroUSD != nil && *e.CostMicroUSD > maxEventSpent {
		return errors.New("a count of it is larger than an attempt's can be")
	}
	if d.Files != len(e.FilesTouched) {
		return errors.New("its diff_summary counts other files than those touched")
	}
	return nil
}

// checkVerdict wants the checks of an event to be those that its outcome comes from, as statsReader gives them. Only an
// answer is graded: the official scorer, whose word is OutcomeAccepted, runs first, and the judge if the plan has one.
func checkVerdict(e RunEvent) error {
	c := e.TestResults
	if c.Ran != c.Passed+c.Failed || c.Ran+c.Skipped < 1 || c.Ran+c.Skipped > 2 {
		return errors.New("its test_results do not add up")
	}
	accepted := e.OutcomeAccepted != nil && *e.OutcomeAccepted
	graded := e.OutcomeAccepted != nil && e.Outcome == trajectory.Answered
	switch {
	case graded && accepted && c.Passed > 0, graded && !accepted && c.Failed > 0, !graded && !accepted && c.Ran == 0:
		return nil
	}
	return errors.New("its outcome and test_results contradict outcome_accepted")
}

func checkViolations(e RunEvent) error {
	grades := []string{policy.SeverityCritical, policy.SeverityHigh, policy.SeverityMedium, policy.SeverityLow}
	of := map[string]int{}
	for _, v := range e.Violations {
		class := policy.Denial(v.Class)
		if !slices.Contains(policy.Denials(), class) || v.RuleID == "" && class != policy.DeniedByList && class != policy.DeniedByMode || !slices.Contains(grades, v.Severity) {
			return errors.New("a violation is of no class, of no rule, or of no severity")
		}
		of[v.Class]++
		if max(len(v.RuleID), len(v.Description), len(v.Location)) > maxEventText {
			return fmt.Errorf("a text of it has more than %d bytes", maxEventText)
		}
	}
	d := e.Denials
	if of[string(policy.DeniedByBudget)] != d.Budget || of[string(policy.DeniedByList)] != d.DenyList || of[string(policy.DeniedByMode)] != d.Mode ||
		of[string(policy.DeniedByRule)] < d.Rule || (d.Rule > 0) != (of[string(policy.DeniedByRule)] > 0) { // one violation can be of several rules
		return errors.New("its denials do not count its violations")
	}
	return nil
}
