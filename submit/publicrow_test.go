package submit

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// ballot is an honest vote of three attempts, of which the first was wrong; a second
// task has no answer.
const ballot = `A vote that corrects the first attempt.
-- plan --
{"voting":{"attempts":3,"rule":"majority.v1"}}
-- split validation --
carried gold
` + firstTask + `
` + secondTask + `
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- answer 15 --
I counted them.
-- answer 14 --
The almanac counts fourteen lamps.
-- answer 14 --
The almanac counts fourteen lamps.
-- task ` + secondTask + ` --
question: Which harbour closed first?
gold: Tolmey
-- no answer --
I do not know.
-- no answer --
I do not know.
-- no answer --
I do not know.
`

// asked is an honest run whose judge was asked about both answers, and that went on
// after it had stopped.
const asked = `Two answers that the judge is asked about.
-- split validation --
carried gold
` + firstTask + `
` + secondTask + `
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
judge: correct
-- answer fourteen --
The almanac counts fourteen lamps.
-- event run_resumed --
{}
-- task ` + secondTask + ` --
question: Which harbour closed first?
gold: Tolmey
judge: incorrect
-- answer Ostrel --
It is older.
`

// ungraded turns a case into one of a split without answers.
func ungraded(t testing.TB, text string) string {
	t.Helper()
	for _, gold := range []string{"gold: 14\n", "gold: Tolmey\n"} {
		text = change(t, text, gold, "")
	}
	return change(t, text, "-- split validation --\ncarried gold\n", "-- split test --\n")
}

// TestPublicValues has the holder of the key give a record, the summary or the audit
// a value that no run has, one at a time.
func TestPublicValues(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	const split = `{"dataset":{"split":"test"}}`
	packages := map[string]map[string][]byte{
		"two": publicly(t, two), "test": publicly(t, planned(ungraded(t, two), split)), "asked": publicly(t, asked), "leaked": publicly(t, leaked),
		"ballot": publicly(t, ballot), "old": publicly(t, planned(asked, `{"judge":{"battery_sha256":""}}`)), "alone": publicly(t, planned(two, `{"judge":null}`)), "unasked": publicly(t, planned(asked, `{"judge":null}`)),
		"test ballot": publicly(t, strings.Replace(ungraded(t, ballot), `{"voting"`, strings.TrimSuffix(split, "}")+`,"voting"`, 1)),
		"later":       publicly(t, planned(asked, `{"judge":{"battery_sha256":"`+canonical.Digest(nil)+`"}}`)),
	}
	type row = *PublicResult
	yes, no := true, false
	paid := func(b *rundir.BatterySummary, names ...string) { b.Accepted, b.Passed = names, false }
	for _, tt := range []struct {
		name, pkg string
		line      int // of results.jsonl, from 1; 0: another file
		row       func(row)
		summary   func(*rundir.Summary)
		audit     func(*AuditResult)
		why       string // "" where it is taken
	}{
		{name: "another schema", pkg: "two", line: 1, row: func(r row) { r.Schema = "gaia.public-result/2" }, why: "is not a record of this version"},
		{name: "another level", pkg: "two", line: 2, row: func(r row) { r.Level = 1 }, why: "contradicts the plan"},
		{name: "no rehearsal", pkg: "two", line: 2, row: func(r row) { r.Rehearsal = false }, why: "contradicts the plan"},
		{name: "attempt", pkg: "two", line: 1, row: func(r row) { r.Attempt = -1 }, why: "counts less than nothing"},
		{name: "attempt of none", pkg: "two", line: 1, row: func(r row) { r.Attempt = 2 }, why: "counts less than nothing"},
		{name: "tool calls", pkg: "two", line: 1, row: func(r row) { r.ToolCalls = -1 }, why: "counts less than nothing"},
		{name: "turns", pkg: "two", line: 1, row: func(r row) { r.Turns = -1 }, why: "counts less than nothing"},
		{name: "cached", pkg: "two", line: 1, row: func(r row) { r.Tokens.Cached = -1 }, why: "counts less than nothing"},
		{name: "in", pkg: "two", line: 1, row: func(r row) { r.Tokens.In = -1 }, why: "counts less than nothing"},
		{name: "out", pkg: "two", line: 1, row: func(r row) { r.Tokens.Out = -1 }, why: "counts less than nothing"},
		{name: "latency", pkg: "two", line: 2, row: func(r row) { r.LatencyMs = -1 }, why: "counts less than nothing"},
		{name: "reasoning", pkg: "two", line: 2, row: func(r row) { r.Tokens.Reasoning = -1 }, why: "counts less than nothing"},
		{name: "cost", pkg: "two", line: 2, row: func(r row) { *r.CostMicroUSD = -1 }, why: "counts less than nothing"},
		{name: "a tool that is not the plan's", pkg: "two", line: 2, row: func(r row) { r.ToolsUsed = []string{"web_fetched"} }, why: "names tools"},
		{name: "tools in another order", pkg: "two", line: 2, row: func(r row) { r.ToolsUsed = []string{"web_search", "web_fetch"} }, why: "names tools"},
		{name: "a tool twice", pkg: "two", line: 2, row: func(r row) { r.ToolsUsed = []string{"web_fetch", "web_fetch"} }, why: "names tools"},

		{name: "no official verdict", pkg: "two", line: 2, row: func(r row) { r.OfficialCorrect = nil }, why: `ends as "failed"`},
		{name: "a verdict without gold", pkg: "test", line: 1, row: func(r row) { r.OfficialCorrect = &no }, why: `ends as "unscored"`},
		{name: "a judged one", pkg: "test", line: 1, row: func(r row) { r.JudgedCorrect = &no }, why: `ends as "unscored"`},
		{name: "graded without an answer", pkg: "two", line: 2, row: func(r row) { r.ScoringPath = judge.PathJudge }, why: `ends as "failed"`},
		{name: "graded without gold", pkg: "test", line: 1, row: func(r row) { r.ScoringPath = judge.PathNoJudge }, why: `ends as "unscored"`},
		{name: "not graded", pkg: "two", line: 1, row: func(r row) { r.ScoringPath = "none" }, why: `ends as "solved"`},
		{name: "an unknown path", pkg: "two", line: 2, row: func(r row) { r.ScoringPath = "" }, why: `ends as "failed"`},
		{name: "more attempts than interruptions give", pkg: "two", line: 2, row: func(r row) { r.Attempts = 999999 }, why: "has too few interruptions"},
		{name: "no attempt counts", pkg: "two", line: 1, row: func(r row) { r.Attempt = 0 }, why: `ends as "solved"`},
		{name: "no attempt", pkg: "two", line: 2, row: func(r row) { r.Attempt, r.Attempts = 0, 0 }, why: `ends as "failed"`},
		{name: "skipped after an attempt", pkg: "two", line: 2, row: func(r row) { r.Outcome = trajectory.Skipped }, why: `ends as "skipped"`},
		{name: "an error with an answer", pkg: "test", line: 1, row: func(r row) { r.Outcome = trajectory.Errored }, why: `ends as "error"`},
		{name: "an error that is right", pkg: "two", line: 2, row: func(r row) { r.Outcome, r.OfficialCorrect = trajectory.Errored, &yes }, why: `ends as "error"`},
		{name: "unscored with gold", pkg: "two", line: 2, row: func(r row) { r.Outcome = trajectory.Unscored }, why: `ends as "unscored"`},
		{name: "solved without gold", pkg: "test", line: 1, row: func(r row) { r.Outcome = trajectory.Solved }, why: `ends as "solved"`},
		{name: "solved without an answer", pkg: "two", line: 2, row: func(r row) { r.Outcome, r.OfficialCorrect = trajectory.Solved, &yes }, why: `ends as "solved"`},
		{name: "solved and wrong", pkg: "two", line: 1, row: func(r row) { r.OfficialCorrect = &no }, why: `ends as "solved"`},
		{name: "failed without gold", pkg: "test", line: 1, row: func(r row) { r.Outcome = trajectory.Failed }, why: `ends as "failed"`},
		{name: "failed and right", pkg: "two", line: 1, row: func(r row) { r.Outcome = trajectory.Failed }, why: `ends as "failed"`},
		{name: "an unknown outcome", pkg: "two", line: 2, row: func(r row) { r.Outcome = "Tolmey" }, why: `ends as "Tolmey"`},

		{name: "right, and not by the judge", pkg: "two", line: 1, row: func(r row) { r.JudgedCorrect = &no }, why: `ends as "solved"`},
		{name: "right, and judged", pkg: "two", line: 1, row: func(r row) { r.ScoringPath = judge.PathJudge }, why: `ends as "solved"`},
		{name: "right without an answer in it", pkg: "two", line: 1, row: func(r row) { r.ScoringPath = judge.PathNoAnswer }, why: `ends as "solved"`},
		{name: "right by no scorer", pkg: "alone", line: 1, row: func(r row) { r.ScoringPath, r.JudgedCorrect = judge.PathNoJudge, nil }, why: `ends as "solved"`},
		{name: "right and withheld", pkg: "two", line: 1, row: func(r row) { r.ScoringPath, r.JudgedCorrect = judge.PathWithheld, nil }, why: `ends as "solved"`},
		{name: "judged without a verdict", pkg: "asked", line: 1, row: func(r row) { r.JudgedCorrect = nil }, why: `ends as "failed"`},
		{name: "official and wrong", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath = judge.PathOfficial }, why: `ends as "failed"`},
		{name: "paid without an answer in it", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath = judge.PathNoAnswer }, why: `ends as "failed"`},
		{name: "unreadable and paid", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath = judge.PathUnreadable }, why: `ends as "failed"`},
		{name: "an error and paid", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath = judge.PathError }, why: `ends as "failed"`},
		{name: "too long and paid", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath = judge.PathTooLong }, why: `ends as "failed"`},
		{name: "no judge, and one planned", pkg: "asked", line: 1, row: func(r row) { r.ScoringPath, r.JudgedCorrect = judge.PathNoJudge, nil }, why: `ends as "failed"`},
		{name: "judged, and no judge planned", pkg: "unasked", line: 1, row: func(r row) { r.ScoringPath, r.JudgedCorrect = judge.PathJudge, &yes }, why: `ends as "failed"`},
		{name: "withheld, and no judge planned", pkg: "unasked", line: 1, row: func(r row) { r.ScoringPath = judge.PathWithheld }, why: `ends as "failed"`},
		{name: "paid without an answer", pkg: "two", line: 2, row: func(r row) { r.JudgedCorrect = &yes }, why: `ends as "failed"`},
		{name: "not judged without an answer", pkg: "two", line: 2, row: func(r row) { r.JudgedCorrect = nil }, why: `ends as "failed"`},
		{name: "an answer without a turn", pkg: "two", line: 1, row: func(r row) { r.Turns = 0 }, why: `ends as "solved"`},

		{name: "a vote that is not planned", pkg: "two", line: 2, row: func(r row) { r.Voting = &rundir.TaskVote{Passed: new(int)} }, why: "another vote"},
		{name: "no vote", pkg: "ballot", line: 1, row: func(r row) { r.Voting = nil }, why: "another vote"},
		{name: "another rule", pkg: "ballot", line: 1, row: func(r row) { r.Voting.Rule = "Tolmey" }, why: "another vote"},
		{name: "passed is not told", pkg: "ballot", line: 2, row: func(r row) { r.Voting.Passed = nil }, why: "another vote"},
		{name: "passed without gold", pkg: "test ballot", line: 2, row: func(r row) { r.Voting.Passed = new(int) }, why: "another vote"},
		{name: "more attempts than planned", pkg: "ballot", line: 2, row: func(r row) { r.Attempts, r.Voting.Attempts = 4, 4 }, why: "another vote"},
		{name: "more attempts than there were", pkg: "ballot", line: 2, row: func(r row) { r.Voting.Attempts = 4 }, why: "another vote"},
		{name: "more answers than attempts", pkg: "ballot", line: 1, row: func(r row) { r.Voting.Answers = 4 }, why: "another vote"},
		{name: "more votes than answers", pkg: "ballot", line: 1, row: func(r row) { r.Voting.Votes = 4 }, why: "another vote"},
		{name: "fewer than no votes", pkg: "ballot", line: 2, row: func(r row) { r.Voting.Votes = -1 }, why: "another vote"},
		{name: "fewer than none passed", pkg: "ballot", line: 2, row: func(r row) { *r.Voting.Passed = -1 }, why: "another vote"},
		{name: "more passed than answers", pkg: "ballot", line: 1, row: func(r row) { *r.Voting.Passed = 4 }, why: "another vote"},
		{name: "votes without an answer", pkg: "ballot", line: 2, row: func(r row) { r.Voting.Answers, r.Voting.Votes = 1, 1 }, why: "another vote"},
		{name: "an answer without votes", pkg: "ballot", line: 1, row: func(r row) { r.Voting.Votes = 0 }, why: "another vote"},
		{name: "solved, and none passed", pkg: "ballot", line: 1, row: func(r row) { *r.Voting.Passed = 0 }, why: "another vote"},

		{name: "as it is", pkg: "asked", summary: func(*rundir.Summary) {}},
		{name: "fewer asked", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Asked-- }, why: "miscounts what the journal tells"},
		{name: "fewer judged than recorded", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Asked, s.Judge.Judged = 1, 1 }, why: "miscounts what the journal tells"},
		{name: "more judged than recorded", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Asked, s.Judge.Judged = 3, 3 }, why: "miscounts what the journal tells"},
		{name: "unreadable, and recorded as judged", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Judged, s.Judge.Unreadable = 1, 1 }, why: "miscounts what the journal tells"},
		{name: "an error, and recorded as judged", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Judged, s.Judge.Errors = 1, 1 }, why: "miscounts what the journal tells"},
		{name: "withheld, and not recorded so", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Withheld = 1 }, why: "miscounts what the journal tells"},
		{name: "too long, and not recorded so", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.TooLong = 1 }, why: "miscounts what the journal tells"},
		{name: "more judged than wrong", pkg: "ballot", summary: func(s *rundir.Summary) { s.Judge.Asked, s.Judge.Judged = 2, 2 }, why: "miscounts what the journal tells"},
		{name: "more cached than judged", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Cached = 3 }, why: "miscounts what the journal tells"},
		{name: "fewer than none cached", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Cached = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than none unreadable", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Unreadable, s.Judge.Errors = -1, 1 }, why: "miscounts what the journal tells"},
		{name: "fewer than no errors", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Unreadable, s.Judge.Errors = 1, -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than none too long", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.TooLong = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than none withheld", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Withheld = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than no tokens in", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.TokensIn = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than no tokens out", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.TokensOut = -1 }, why: "miscounts what the journal tells"},
		{name: "less than no cost", pkg: "asked", summary: func(s *rundir.Summary) { *s.Judge.CostMicroUSD = -1 }, why: "miscounts what the journal tells"},
		{name: "an unknown cost", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.CostMicroUSD = nil }},
		{name: "fewer than no bad entries", pkg: "asked", summary: func(s *rundir.Summary) { s.JudgeCacheIntegrityEvents = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than no retries", pkg: "asked", summary: func(s *rundir.Summary) { s.RetriedCalls = -1 }, why: "miscounts what the journal tells"},
		{name: "fewer than none passed first", pkg: "ballot", summary: func(s *rundir.Summary) { s.Voting.PassAt1.Correct = -1 }, why: "miscounts what the journal tells"},
		{name: "more passed first than passed", pkg: "ballot", summary: func(s *rundir.Summary) { *s.Voting.PassAt1 = stats.NewRate(2, 2) }, why: "miscounts what the journal tells"},
		{name: "more passed than there are tasks", pkg: "ballot", summary: func(s *rundir.Summary) { s.Voting.PassAt1.Correct, s.Voting.PassAtK.Correct = 5000, 5000 }, why: "miscounts what the journal tells"},
		{name: "words about what was not recorded", pkg: "asked", summary: func(s *rundir.Summary) { s.Unrecorded = "Tolmey" }, why: "tells why recording failed"},

		{name: "a start of words", pkg: "two", summary: func(s *rundir.Summary) { s.Started, s.DurationMs = "Tolmey", 0 }, why: "a time that is none"},
		{name: "an end of words", pkg: "two", summary: func(s *rundir.Summary) { s.Completed, s.DurationMs = "Tolmey", 0 }, why: "a time that is none"},
		{name: "a resumption of words", pkg: "asked", summary: func(s *rundir.Summary) { s.Interruptions[0].Resumed = "Tolmey" }, why: "a time that is none"},
		{name: "a time in other form", pkg: "two", summary: func(s *rundir.Summary) { s.Started = strings.Replace(s.Started, ".", ",", 1) }, why: "a time that is none"},
		{name: "an end before the start", pkg: "two", summary: func(s *rundir.Summary) { s.Started, s.Completed, s.DurationMs = s.Completed, s.Started, -s.DurationMs }, why: "times that go back"},
		{name: "a resumption after the end", pkg: "asked", summary: func(s *rundir.Summary) { s.Interruptions[0].Resumed = "2099-01-02T03:04:05.000Z" }, why: "times that go back"},
		{name: "an interruption before the first event", pkg: "asked", summary: func(s *rundir.Summary) { s.Interruptions[0].Events = 0 }, why: "where the journal has no event"},
		{name: "an interruption after the last", pkg: "asked", summary: func(s *rundir.Summary) { s.Interruptions[0].Events = 1 << 40 }, why: "where the journal has no event"},
		{name: "an interruption twice", pkg: "asked", summary: func(s *rundir.Summary) { s.Interruptions = append(s.Interruptions, s.Interruptions...) }, why: "where the journal has no event"},

		{name: "refused", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.Refused = []string{"colon", "full-stop"} }},
		{name: "paid an item of words", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery, "tolmey") }, why: "names an item"},
		{name: "refused an item of words", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.Refused = []string{"tolmey"} }, why: "names an item"},
		{name: "unreadable on an item of words", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery); s.Judge.Battery.Unreadable = []string{"tolmey"} }, why: "names an item"},
		{name: "an item of another battery", pkg: "later", summary: func(s *rundir.Summary) { s.Judge.Battery.Refused = []string{"semi-colon"} }},
		{name: "an item of words of another battery", pkg: "later", summary: func(s *rundir.Summary) { paid(s.Judge.Battery, "the town is Tolmey") }, why: "names an item"},
		{name: "an item twice", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery, "colon", "colon") }, why: "miscounts the items"},
		{name: "more items than put", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery, "colon"); s.Judge.Battery.Asked = 0 }, why: "miscounts the items"},
		{name: "a battery of fewer than no tokens in", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.TokensIn = -1 }, why: "miscounts the items"},
		{name: "a battery of fewer than no tokens out", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.TokensOut = -1 }, why: "miscounts the items"},
		{name: "a battery of less than no cost", pkg: "asked", summary: func(s *rundir.Summary) { *s.Judge.Battery.CostMicroUSD = -1 }, why: "miscounts the items"},
		{name: "a battery of unknown cost", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.CostMicroUSD = nil }},
		{name: "a known problem", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery); s.Judge.Battery.Problem = judge.Problems()[0] }, why: "see claims"},
		{name: "no money", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery); s.Judge.Battery.Problem = prompt.RunMoneySpent }, why: "see claims"},
		{name: "a problem of words", pkg: "asked", summary: func(s *rundir.Summary) { paid(s.Judge.Battery); s.Judge.Battery.Problem = "Tolmey" }, why: "a reason that this program does not have"},
		{name: "withstood and paid", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.Accepted = []string{"colon"} }, why: "another outcome"},
		{name: "withstood and unreadable", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.Unreadable = []string{"colon"} }, why: "another outcome"},
		{name: "withstood with a problem", pkg: "asked", summary: func(s *rundir.Summary) { s.Judge.Battery.Problem = judge.Problems()[0] }, why: "another outcome"},
		{name: "a battery that is not planned", pkg: "old", summary: func(s *rundir.Summary) { s.Judge.Battery = &rundir.BatterySummary{} }, why: "the plan has none"},
		{name: "a battery without a judge", pkg: "alone", summary: func(s *rundir.Summary) { s.Judge = &rundir.JudgeSummary{Battery: &rundir.BatterySummary{}} }, why: "the plan has none"},

		{name: "fewer than no findings", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).Findings = -1 }, why: "a status that is not its findings'"},
		{name: "fewer than no gaps", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).Gaps = -1 }, why: "a status that is not its findings'"},
		{name: "a severity without findings", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).Severity = audit.Info }, why: "a status that is not its findings'"},
		{name: "a failure without a line", pkg: "leaked", audit: func(a *AuditResult) { a.Checks[0].Line = 0 }, why: "names a place"},
		{name: "a line of a check that passes", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).Line = 1 }, why: "names a place"},
		{name: "a line before the first", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).Line = -1 }, why: "names a place"},
		{name: "a task of a check that passes", pkg: "leaked", audit: func(a *AuditResult) { clear(t, a).TaskID = firstTask }, why: "names a place"},
		{name: "no task of a check that fails", pkg: "leaked", audit: func(a *AuditResult) { a.Checks[0].TaskID = "" }, why: "see dirty_reasons"},
	} {
		pkg := memory(packages[tt.pkg])
		file, edit := AttestationFile, (func(*Statement))(nil)
		switch {
		case tt.row != nil:
			file = rundir.ResultsFile
			lines := slices.Collect(bytes.Lines(pkg[file].Data))
			var r PublicResult
			lines[tt.line-1] = append(rewritten(t, bytes.TrimSuffix(lines[tt.line-1], []byte("\n")), &r, func() { tt.row(&r) }), '\n')
			pkg[file].Data = bytes.Join(lines, nil)
		case tt.summary != nil:
			file = MetadataFile
			var s rundir.Summary
			pkg[file].Data = rewritten(t, pkg[file].Data, &s, func() { tt.summary(&s) })
		default:
			edit = func(s *Statement) { tt.audit(&s.Predicate.Audit) }
		}
		line := int64(tt.line)
		switch {
		case strings.HasPrefix(tt.why, "see "):
			file = AttestationFile // the value is taken, and the statement made of another
		case strings.HasPrefix(tt.why, "has too few"):
			file, line = MetadataFile, 0
		}
		republish(t, pkg, edit)
		_, err := VerifyPublic(pkg, byAnother())
		var fault *trajectory.Fault
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.why != "" && (!errors.As(err, &fault) || fault.File != file || fault.Line != line || !strings.Contains(fault.Reason, tt.why)):
			t.Errorf("%s: %v; want %s, line %d: %s", tt.name, err, file, line, tt.why)
		}
	}
}

// clear returns a check that passes and has found nothing.
func clear(t testing.TB, a *AuditResult) *CheckResult {
	t.Helper()
	i := slices.IndexFunc(a.Checks, func(c CheckResult) bool { return c == CheckResult{ID: c.ID, Status: audit.Pass} })
	if i < 0 {
		t.Fatal("no check has found nothing")
	}
	return &a.Checks[i]
}

// rewritten decodes data into v and returns what encodes it after a change.
func rewritten(t testing.TB, data []byte, v any, change func()) []byte {
	t.Helper()
	err := canonical.Decode(data, v)
	change()
	out, failed := canonical.Encode(v)
	if err := cmp.Or(err, failed); err != nil {
		t.Fatal(err)
	}
	return out
}
