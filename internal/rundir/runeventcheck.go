package rundir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// Limits of the texts and lists of a run event. A workspace has 1000 files, all of which may be replaced by as many
// others. Only tool calls break rules, of which the widest mode of policy allows 500.
const (
	maxEventText = 64 << 10 // bytes of each text
	maxEventList = 4096     // members of each list
)

// Limits of the counts of a run event, so that sums of them do not overflow: 2³¹ of maxLines, a million of the others.
// The journal bounds the lines of a real attempt by maxLines, and its clock by 2⁵³ µs, which are 285 years. No attempt
// takes 2⁴³ tokens, or as many micro-USD, which are 8.7 million dollars.
const (
	maxEventCount = maxLines
	maxEventMs    = canonical.MaxInt / 1000
	maxEventSpent = 1 << 43 // tokens, or micro-USD
)

// CheckRunEvent returns an error for a run event that no run can have given, as far as the event alone shows it.
func CheckRunEvent(e RunEvent) error {
	for _, check := range []func(RunEvent) string{textsFault, countsFault, violationsFault} {
		if reason := check(e); reason != "" {
			return errors.New(reason)
		}
	}
	return nil
}

func textsFault(e RunEvent) string {
	isID := func(s string) bool {
		id, err := ulid.ParseStrict(s)
		return err == nil && id.String() == s
	}
	isHash := func(s string) bool { return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == "" }
	_, err := policy.Builtin(policy.Mode(e.Mode))
	switch {
	case e.Schema == "gaia.run_event/1":
		return "its schema is gaia.run_event/1, which gaia 0.1.0 reads and this version does not"
	case e.Schema != runEventSchema:
		return "its schema is not " + runEventSchema
	case !isID(e.Session) || !isID(e.RunID) || !isID(e.ID):
		return "id, run_id and session are not ULIDs"
	case ulid.MustParse(e.ID).Timestamp().UTC().Format(trajectory.TimeFormat) != e.Timestamp:
		return "its timestamp is not the time of its id"
	case !isHash(e.GuidanceHash) || !canonical.IsDigest(e.ManifestSHA256):
		return "guidance_hash or manifest_sha256 is no digest"
	case !isHash(e.PolicyHash) || err != nil:
		return "policy_hash is no digest, or mode none"
	case e.TaskID == "" || e.Intent == "" || !strings.HasPrefix(e.SignedBy, "SHA256:"):
		return "task_id, intent or signed_by is missing"
	case !slices.Contains([]string{trajectory.Answered, trajectory.NoAnswer, trajectory.Errored}, e.Outcome):
		return "its outcome is none that an attempt has"
	case !plan.IsSet(e.RetrievedRuleIDs) || !plan.IsSet(e.TriggeredRuleIDs) || !plan.IsSet(e.ToolsUsed):
		return "retrieved_rule_ids, triggered_rule_ids or tools_used is not sorted, each once"
	case max(len(e.FilesTouched), len(e.RetrievedRuleIDs), len(e.TriggeredRuleIDs), len(e.ToolsUsed), len(e.Violations)) > maxEventList:
		return fmt.Sprintf("a list of it has more than %d members", maxEventList)
	}
	for _, text := range slices.Concat([]string{e.TaskID, e.Intent, e.SignedBy, e.Model}, e.RetrievedRuleIDs, e.TriggeredRuleIDs, e.ToolsUsed, e.FilesTouched) {
		if len(text) > maxEventText {
			return fmt.Sprintf("a text of it has more than %d bytes", maxEventText)
		}
	}
	return ""
}

// countsFault also checks that the outcome follows from the checks of the answer, as ReadStats gives them. Only an
// answer is graded: first by the official scorer, whose verdict is OutcomeAccepted, then by the judge if there is one.
func countsFault(e RunEvent) string {
	d, c := e.DiffSummary, e.TestResults
	counts := []int{d.Files, d.LinesAdded, d.LinesRemoved, c.Failed, c.Passed, c.Ran, c.Skipped, e.Retries, e.ReworkLines, e.Rollbacks,
		e.ToolCalls, e.PersonRefusals, e.Attempt}
	cost := int64(0)
	if e.CostMicroUSD != nil {
		cost = *e.CostMicroUSD
	}
	accepted := e.OutcomeAccepted != nil && *e.OutcomeAccepted
	graded := e.OutcomeAccepted != nil && e.Outcome == trajectory.Answered
	consistent := c.Ran == 0 && !accepted
	if graded {
		consistent = accepted && c.Passed > 0 || !accepted && c.Failed > 0
	}
	switch {
	case slices.Min(counts) < 0, min(e.Denials.Budget, e.Denials.DenyList, e.Denials.Mode, e.Denials.Rule) < 0,
		min(e.DurationMs, e.Tokens, cost) < 0, e.Attempt < 1, e.Level < 1, e.Level > 3:
		return "a count of it is too small or its level none"
	case slices.Max(counts) > maxEventCount, e.DurationMs > maxEventMs, max(e.Tokens, cost) > maxEventSpent:
		return "a count of it is larger than an attempt's can be"
	case d.Files != len(e.FilesTouched):
		return "its diff_summary counts other files than those touched"
	case c.Ran != c.Passed+c.Failed || c.Ran+c.Skipped < 1 || c.Ran+c.Skipped > 2:
		return "its test_results do not add up"
	case !consistent:
		return "its outcome and test_results contradict outcome_accepted"
	}
	return ""
}

func violationsFault(e RunEvent) string {
	severities := []string{policy.SeverityCritical, policy.SeverityHigh, policy.SeverityMedium, policy.SeverityLow}
	of := map[policy.Denial]int{}
	for _, v := range e.Violations {
		class := policy.Denial(v.Class)
		of[class]++
		switch {
		case !slices.Contains(policy.Denials(), class), !slices.Contains(severities, v.Severity),
			v.RuleID == "" && class != policy.DeniedByList && class != policy.DeniedByMode:
			return "a violation is of no class, of no rule, or of no severity"
		case max(len(v.RuleID), len(v.Description), len(v.Location)) > maxEventText:
			return fmt.Sprintf("a text of it has more than %d bytes", maxEventText)
		}
	}
	d, rules := e.Denials, of[policy.DeniedByRule] // one violation can be of several rules
	if of[policy.DeniedByBudget] != d.Budget || of[policy.DeniedByList] != d.DenyList || of[policy.DeniedByMode] != d.Mode ||
		rules < d.Rule || (d.Rule > 0) != (rules > 0) {
		return "its denials do not count its violations"
	}
	return ""
}
