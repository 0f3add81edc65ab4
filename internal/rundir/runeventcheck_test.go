package rundir

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// ledgerEvent is the nth of events that a reader accepts.
func ledgerEvent(n int) RunEvent {
	ms := uint64(1767225600000 + n)
	id := func(last byte) string {
		var u ulid.ULID
		if err := u.SetTime(ms); err != nil {
			panic(err) // it is within the times of a ULID
		}
		u[15] = last
		return u.String()
	}
	accepted, cost := true, int64(n)
	return RunEvent{Attempt: 1, CostMicroUSD: &cost, Counted: true, DiffSummary: DiffSummary{Files: 1}, DurationMs: 5, FilesTouched: []string{"a<b>"}, GuidanceHash: "0123456789abcdef", ID: id(1),
		Intent: "web", Level: 1 + n%3, ManifestSHA256: canonical.Digest(nil), Mode: "approved", Model: "m", Outcome: trajectory.Answered, OutcomeAccepted: &accepted, PolicyHash: "fedcba9876543210", RetrievedRuleIDs: []string{"R001", "R002"},
		RunID: id(2), Schema: runEventSchema, Session: id(3), SignedBy: "SHA256:x", TaskID: fmt.Sprint("task ", n), TestResults: TestCounts{Passed: 1, Ran: 1, Skipped: 1},
		Timestamp: trajectoryTime(ms), ToolsUsed: []string{"python", "web_fetch"}, TriggeredRuleIDs: []string{"R001"}, Denials: trajectory.Denials{Rule: 1}, Violations: []Violation{{Class: "rule", Description: "d", Location: "l", RuleID: "R001", Severity: "critical"}}}
}

func trajectoryTime(ms uint64) string { return ulid.Time(ms).UTC().Format(trajectory.TimeFormat) }

// TestCheckRunEvent: an event that no run can have given is refused.
func TestCheckRunEvent(t *testing.T) {
	const (
		small = "a count of it is too small or its level none"
		large = "a count of it is larger than an attempt's can be"
		text  = "a text of it has more than 65536 bytes"
		list  = "a list of it has more than 4096 members"
		set   = "retrieved_rule_ids, triggered_rule_ids or tools_used is not sorted, each once"
	)
	many := make([]string, 4097)
	for i := range many {
		many[i] = fmt.Sprintf("%04d", i)
	}
	for name, c := range map[string]struct {
		change func(*RunEvent)
		want   string
	}{
		"schema":          {func(e *RunEvent) { e.Schema = "gaia.run_event/3" }, "its schema is not gaia.run_event/2"},
		"earlier schema":  {func(e *RunEvent) { e.Schema = "gaia.run_event/1" }, "its schema is gaia.run_event/1, which gaia 0.1.0 reads and this version does not"},
		"policy":          {func(e *RunEvent) { e.PolicyHash = "0123" }, "policy_hash is no digest, or mode none"},
		"mode":            {func(e *RunEvent) { e.Mode = "free" }, "policy_hash is no digest, or mode none"},
		"triggered":       {func(e *RunEvent) { e.TriggeredRuleIDs = []string{"b", "a"} }, set},
		"many triggered":  {func(e *RunEvent) { e.TriggeredRuleIDs = many }, list},
		"run":             {func(e *RunEvent) { e.RunID = strings.ToLower(e.RunID) }, "id, run_id and session are not ULIDs"},
		"timestamp":       {func(e *RunEvent) { e.Timestamp = "2026-01-01T00:00:00Z" }, "its timestamp is not the time of its id"},
		"another time":    {func(e *RunEvent) { e.Timestamp = trajectoryTime(1) }, "its timestamp is not the time of its id"},
		"guidance":        {func(e *RunEvent) { e.GuidanceHash = "0123456789ABCDEF" }, "guidance_hash or manifest_sha256 is no digest"},
		"no task":         {func(e *RunEvent) { e.TaskID = "" }, "task_id, intent or signed_by is missing"},
		"outcome":         {func(e *RunEvent) { e.Outcome = "solved" }, "its outcome is none that an attempt has"},
		"tools":           {func(e *RunEvent) { e.ToolsUsed = []string{"a", "a"} }, set},
		"rules":           {func(e *RunEvent) { e.RetrievedRuleIDs = []string{"b", "a"} }, set},
		"file":            {func(e *RunEvent) { e.FilesTouched = []string{strings.Repeat("x", 1<<16+1)} }, text},
		"description":     {func(e *RunEvent) { e.Violations[0].Description = strings.Repeat("x", 1<<16+1) }, text},
		"many files":      {func(e *RunEvent) { e.FilesTouched = many }, list},
		"many rules":      {func(e *RunEvent) { e.RetrievedRuleIDs = many }, list},
		"many tools":      {func(e *RunEvent) { e.ToolsUsed = many }, list},
		"many violations": {func(e *RunEvent) { e.Violations = slices.Repeat(e.Violations, 4097) }, list},
		"lines below 0":   {func(e *RunEvent) { e.DiffSummary.LinesRemoved = -1 }, small},
		"cost below 0":    {func(e *RunEvent) { *e.CostMicroUSD = -1 }, small},
		"level":           {func(e *RunEvent) { e.Level = 4 }, small},
		"lines":           {func(e *RunEvent) { e.DiffSummary.LinesAdded = 1<<32 + 1 }, large},
		"rework":          {func(e *RunEvent) { e.ReworkLines = 1<<53 - 1 }, large},
		"attempt":         {func(e *RunEvent) { e.Attempt = 1<<32 + 1 }, large},
		"duration":        {func(e *RunEvent) { e.DurationMs = 1<<53/1000 + 1 }, large},
		"tokens":          {func(e *RunEvent) { e.Tokens = 1<<43 + 1 }, large},
		"cost":            {func(e *RunEvent) { *e.CostMicroUSD = 1<<43 + 1 }, large},
		"files":           {func(e *RunEvent) { e.DiffSummary.Files = 2 }, "its diff_summary counts other files than those touched"},
		"checks":          {func(e *RunEvent) { e.TestResults.Ran = 2 }, "its test_results do not add up"},
		"severity":        {func(e *RunEvent) { e.Violations[0].Severity = "" }, "a violation is of no class, of no rule, or of no severity"},
		"class":           {func(e *RunEvent) { e.Violations[0].Class = "other" }, "a violation is of no class, of no rule, or of no severity"},
		"rule":            {func(e *RunEvent) { e.Violations[0].RuleID = "" }, "a violation is of no class, of no rule, or of no severity"},
		"other class":     {func(e *RunEvent) { e.Violations[0].Class = "mode" }, "its denials do not count its violations"},
		"more denials":    {func(e *RunEvent) { e.Denials.Rule++ }, "its denials do not count its violations"},
		"denial by mode":  {func(e *RunEvent) { e.Denials.Mode++ }, "its denials do not count its violations"},
		"refusals":        {func(e *RunEvent) { e.PersonRefusals = -1 }, "a count of it is too small or its level none"},
	} {
		e := ledgerEvent(1)
		c.change(&e)
		if err := CheckRunEvent(e); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestEventVerdict: an event's checks are those that a journal can give with its
// outcome; counts are failed, passed, ran and skipped.
func TestEventVerdict(t *testing.T) {
	const adds, contradicts = "its test_results do not add up", "its outcome and test_results contradict outcome_accepted"
	yes, no := new(true), new(false)
	for _, c := range []struct {
		outcome  string
		accepted *bool
		counts   TestCounts
		want     string
	}{
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 0}, ""}, // without a judge
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 1}, ""}, // which is not asked
		{trajectory.Answered, yes, TestCounts{0, 2, 2, 0}, ""}, // who agrees
		{trajectory.Answered, yes, TestCounts{1, 1, 2, 0}, ""}, // who does not
		{trajectory.Answered, yes, TestCounts{0, 0, 0, 1}, contradicts},
		{trajectory.Answered, yes, TestCounts{1, 0, 1, 0}, contradicts},
		{trajectory.Answered, yes, TestCounts{2, 0, 2, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{1, 0, 1, 0}, ""},
		{trajectory.Answered, no, TestCounts{1, 0, 1, 1}, ""},
		{trajectory.Answered, no, TestCounts{1, 1, 2, 0}, ""},
		{trajectory.Answered, no, TestCounts{2, 0, 2, 0}, ""},
		{trajectory.Answered, no, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{0, 2, 2, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{0, 0, 0, 2}, contradicts},
		{trajectory.Answered, nil, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.Answered, nil, TestCounts{0, 0, 0, 2}, ""},
		{trajectory.Answered, nil, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.NoAnswer, no, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.Errored, no, TestCounts{0, 0, 0, 2}, ""},
		{trajectory.NoAnswer, nil, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.NoAnswer, yes, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.NoAnswer, yes, TestCounts{0, 0, 0, 1}, contradicts},
		{trajectory.Errored, no, TestCounts{1, 0, 1, 0}, contradicts},
		{trajectory.Errored, nil, TestCounts{1, 0, 1, 1}, contradicts},
		{trajectory.Answered, nil, TestCounts{}, adds},
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 2}, adds},
		{trajectory.Answered, yes, TestCounts{0, 2, 1, 0}, adds},
	} {
		e := ledgerEvent(1)
		e.Outcome, e.OutcomeAccepted, e.TestResults = c.outcome, c.accepted, c.counts
		got := ""
		if err := CheckRunEvent(e); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, %v, %+v: %q, want %q", c.outcome, e.OutcomeAccepted, c.counts, got, c.want)
		}
	}
}

// TestEventSums: what a million events count can be added up, and a duration be shown.
func TestEventSums(t *testing.T) {
	e := ledgerEvent(0)
	e.ReworkLines, e.DurationMs, e.Tokens, e.CostMicroUSD = maxEventCount, maxEventMs, maxEventSpent, new(int64(maxEventSpent))
	if err := CheckRunEvent(e); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{int64(e.ReworkLines), e.DurationMs, e.Tokens, *e.CostMicroUSD} {
		if most > math.MaxInt64/1_000_000 {
			t.Errorf("a million of %d overflow", most)
		}
	}
	if e.DurationMs > math.MaxInt64/int64(time.Millisecond) {
		t.Errorf("%d ms are no duration", e.DurationMs)
	}
}
