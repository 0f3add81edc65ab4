package rundir

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// mixed ends every task in another way. Line 12 is where it was interrupted.
const mixed = `run started
solved.1 begin
solved.1.1 turn
solved.1.1 call error
solved.1.1 call in=10 out=5 cached=3 reasoning=1 cost=3 retry
solved.1.1 propose web_fetch
solved.1.1 refuse R001
solved.1.1 done
again.1 begin
again.1.1 turn
again.1.1 call in=1 out=1 cost=2
run resumed 11 torn
solved.1 answer 42
solved.1 ended answered
again.1 error
again.1 ended error
again.2 begin
again.2.1 turn
again.2.1 prompt
again.2.1 call in=100 out=10 cost=20
again.2.1 propose read_file
again.2.1 allow
again.2.1 executed read_file
again.2.1 propose calculate
again.2.1 allow
again.2.1 executed calculate
again.2.1 done
again.2.2 turn
again.2.2 propose calculate
again.2.2 allow
again.2.2 executed calculate
again.2 answer "é" <&>
again.2 ended answered
silent.1 begin
silent.1.1 turn
silent.1.1 call in=5 out=5 cost=1
silent.1.1 done
silent.1 ended no_answer
broken.1 begin
broken.1.1 turn
broken.1.1 call in=5 out=0 cost=?
broken.1 error
broken.1 ended error
run resumed 43
broken.2 begin
broken.2 error
broken.2 ended error
solved.1 graded right
solved sealed solved 1/1
again.2 graded judged
again sealed failed 2/2
silent sealed failed 1/1
broken sealed error 2/2
skipped sealed skipped 0/0
run completed solved=1 failed=2 error=1 skipped=1
`

func mixedPlan(t testing.TB) plan.Plan {
	return planOf(t, "solved", "again", "silent", "broken", "skipped")
}

func ptr[T any](v T) *T { return &v }

func TestResults(t *testing.T) {
	m := mixedPlan(t)
	m.Tasks[4].Level, m.Dataset.Levels = 1, [3]int{2, 1, 2}
	f, _ := mustFollow(t, m, mixed)
	record := func(id string, change func(*Result)) Result {
		r := Result{Rehearsal: true, Schema: "gaia.result/1", TaskID: id, ToolsUsed: []string{}, CostMicroUSD: ptr[int64](0), ScoringPath: "none",
			OfficialCorrect: ptr(false), JudgedCorrect: ptr(false)}
		change(&r)
		return r
	}
	want := []Result{
		record("solved", func(r *Result) {
			r.Attempt, r.Attempts, r.Level, r.Outcome = 1, 1, 1, "solved"
			r.ModelAnswer, r.ReasoningTrace = ptr("42"), "because"
			r.OfficialCorrect, r.JudgedCorrect, r.ScoringPath = ptr(true), ptr(true), "official"
			r.Turns, r.ToolCalls = 1, 1 // the call was refused, so no tool was used
			r.Tokens, r.CostMicroUSD = trajectory.Tokens{Cached: 3, In: 10, Out: 5, Reasoning: 1}, ptr[int64](3)
			r.LatencyMs = 6 // begin to done; what came after the resume is by another clock
		}),
		record("again", func(r *Result) {
			r.Attempt, r.Attempts, r.Level, r.Outcome = 2, 2, 2, "failed"
			r.ModelAnswer, r.ReasoningTrace = ptr(`"é" <&>`), "because"
			r.JudgedCorrect, r.ScoringPath = ptr(true), "judge"
			r.Turns, r.ToolCalls, r.ToolsUsed = 3, 3, []string{"calculate", "read_file"}
			r.Tokens, r.CostMicroUSD = trajectory.Tokens{In: 101, Out: 11}, ptr[int64](22)
			r.LatencyMs = 16
		}),
		record("silent", func(r *Result) {
			r.Attempt, r.Attempts, r.Level, r.Outcome = 1, 1, 3, "failed"
			r.Turns = 1
			r.Tokens, r.CostMicroUSD = trajectory.Tokens{In: 5, Out: 5}, ptr[int64](1)
			r.LatencyMs = 4
		}),
		record("broken", func(r *Result) {
			r.Attempt, r.Attempts, r.Level, r.Outcome = 2, 2, 3, "error"
			r.Turns = 1
			r.Tokens, r.CostMicroUSD = trajectory.Tokens{In: 5}, nil
			r.LatencyMs = 2
		}),
		record("skipped", func(r *Result) { r.Level, r.Outcome = 1, "skipped" }),
	}
	for i, task := range f.Tasks {
		if diff := cmp.Diff(want[i], f.Result(task)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", task.Plan.TaskID, diff)
		}
	}
}

func TestSummary(t *testing.T) {
	m := mixedPlan(t)
	m.Tasks[4].Level, m.Dataset.Levels = 1, [3]int{2, 1, 2}
	f, _ := mustFollow(t, m, mixed)
	got := f.Summary()
	rates := func(official, judged, planned int) *Scores {
		return &Scores{Judged: new(stats.NewRate(judged, planned)), Official: stats.NewRate(official, planned)}
	}
	want := Summary{
		Attempts: 6, Completed: "2031-02-03T04:05:07.055Z", CostMicroUSD: nil, Dataset: m.Dataset, DurationMs: 54, GaiaSplit: "validation",
		GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: canonical.Digest(encodePlan(t, m)), Model: "scripted-model",
		Interruptions: []Interruption{{Events: 11, Resumed: "2031-02-03T04:05:07.012Z", Torn: true}, {Events: 43, Resumed: "2031-02-03T04:05:07.044Z"}},
		Judge:         &JudgeSummary{Asked: 1, CostMicroUSD: ptr[int64](11), Judged: 1, Model: "scripted-judge", TokensIn: 7, TokensOut: 2},
		Levels:        []LevelSummary{{1, 2, rates(1, 1, 2)}, {2, 1, rates(0, 1, 1)}, {3, 2, rates(0, 0, 2)}},
		Outcomes:      Outcomes{Error: 1, Failed: 2, Skipped: 1, Solved: 1}, PolicyHash: m.PolicyHash, Rehearsal: true, RetriedCalls: 1, RunID: m.RunID,
		Schema: "gaia.summary/1", Scores: rates(1, 2, 5), Started: "2031-02-03T04:05:07.001Z",
		Tokens: trajectory.Tokens{Cached: 3, In: 121, Out: 21, Reasoning: 1}, ToolCalls: 4, Turns: 6, VotingAttempts: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestCostIsUnknownOnlyWhereItIs(t *testing.T) {
	const ending = "a.1 answer 42\na.1 ended answered\na.1 graded right\na sealed solved 1/1\nrun completed solved=1\n"
	tests := []struct {
		calls string
		want  *int64
	}{
		{"", ptr[int64](0)},
		{"a.1.1 call cost=5\na.1.1 call cost=6\n", ptr[int64](11)},
		{"a.1.1 call cost=0\n", ptr[int64](0)},
		{"a.1.1 call cost=5\na.1.1 call cost=?\na.1.1 call cost=6\n", nil},
		{"a.1.1 call error\na.1.1 call cost=6 retry\n", ptr[int64](6)}, // a call that failed was not paid for
		{"a.1.1 call cost=5\na.1.1 executed listen cost=6\n", ptr[int64](11)},
		{"a.1.1 call cost=5\na.1.1 executed listen cost=?\n", nil},
	}
	m := planOf(t, "a")
	for _, tt := range tests {
		f, _ := mustFollow(t, m, "run started\na.1 begin\na.1.1 turn\n"+tt.calls+ending)
		r, s := f.Result(f.Task("a")), f.Summary()
		if diff := cmp.Diff(tt.want, r.CostMicroUSD); diff != "" {
			t.Errorf("%q: result (-want +got):\n%s", tt.calls, diff)
		}
		if diff := cmp.Diff(tt.want, s.CostMicroUSD); diff != "" {
			t.Errorf("%q: summary (-want +got):\n%s", tt.calls, diff)
		}
	}
}

func TestJudgeSummary(t *testing.T) {
	m := planOf(t, "a", "b", "c", "d", "e", "f")
	var script strings.Builder
	script.WriteString("run started\n")
	for i, verdict := range []string{"right", "judged", "wrong", "unreadable", "failed", "unjudged"} {
		id := string(rune('a' + i))
		outcome := map[bool]string{true: "solved", false: "failed"}[verdict == "right"]
		script.WriteString(strings.ReplaceAll("X.1 begin\nX.1 answer 1\nX.1 ended answered\nX.1 graded "+verdict+"\nX sealed "+outcome+" 1/1\n", "X", id))
	}
	script.WriteString("run completed solved=1 failed=5\n")
	f, _ := mustFollow(t, m, script.String())
	s := f.Summary()
	want := &JudgeSummary{Asked: 4, CostMicroUSD: nil, Errors: 1, Judged: 2, Model: "scripted-judge", TokensIn: 28, TokensOut: 8, Unreadable: 1}
	if diff := cmp.Diff(want, s.Judge); diff != "" {
		t.Errorf("judge (-want +got):\n%s", diff)
	}
	if s.Scores.Official.Correct != 1 || s.Scores.Judged.Correct != 2 {
		t.Errorf("scores %+v", s.Scores)
	}
	for i, want := range []*bool{ptr(true), ptr(true), ptr(false), nil, nil, nil} {
		if diff := cmp.Diff(want, f.Result(f.Tasks[i]).JudgedCorrect); diff != "" {
			t.Errorf("%s judged (-want +got):\n%s", f.Tasks[i].Plan.TaskID, diff)
		}
	}
	m.Judge = nil
	f, _ = mustFollow(t, m, script.String())
	if f.Summary().Judge != nil {
		t.Error("a run without a judge has a judge's summary")
	}
}

func TestUnscoredRun(t *testing.T) {
	m := planOf(t, "a", "b", "c", "d")
	m.GoldCommitment, m.Dataset.Split = "", "test"
	f, _ := mustFollow(t, m, `run started
a.1 begin
a.1 answer 42
a.1 ended answered
b.1 begin
b.1 ended no_answer
c.1 begin
c.1 ended error
a sealed unscored 1/1
b sealed unscored 1/1
c sealed error 1/1
d sealed skipped 0/0
run completed unscored=2 error=1 skipped=1
`)
	s := f.Summary()
	if s.Scores != nil || s.GaiaSplit != "test" || s.Outcomes != (Outcomes{Unscored: 2, Error: 1, Skipped: 1}) {
		t.Errorf("summary %+v", s)
	}
	for _, level := range s.Levels {
		if level.Scores != nil || level.Planned == 0 {
			t.Errorf("level %+v", level)
		}
	}
	for _, task := range f.Tasks {
		r := f.Result(task)
		if r.OfficialCorrect != nil || r.JudgedCorrect != nil || r.ScoringPath != "none" {
			t.Errorf("%s is scored: %+v", task.Plan.TaskID, r)
		}
	}
}

// TestTheFirstAnswerCounts: a later answer changes nothing, an error before it
// neither.
func TestTheFirstAnswerCounts(t *testing.T) {
	m := planOf(t, "a")
	f, _ := mustFollow(t, m, `run started
a.1 begin
a.1 ended error
a.2 begin
a.2 answer first
a.2 ended answered
a.3 begin
a.3 answer second
a.3 ended answered
a.3 graded right
a.2 graded wrong
a sealed failed 2/3
run completed failed=1
`)
	if r := f.Result(f.Task("a")); *r.ModelAnswer != "first" || *r.OfficialCorrect || r.Attempt != 2 || r.Attempts != 3 {
		t.Errorf("%+v", r)
	}
	if s := f.Summary(); s.Scores.Official.Correct != 0 || s.Attempts != 3 {
		t.Errorf("%+v", s)
	}
}

// TestTrajectories looks at the steps of one attempt.
func TestTrajectories(t *testing.T) {
	m := mixedPlan(t)
	_, records := mustFollow(t, m, mixed)
	var order []string
	for _, r := range records {
		order = append(order, r.TaskID)
	}
	if got := strings.Join(order, " "); got != "solved again again silent broken broken" {
		t.Errorf("records of %s", got)
	}
	var failed struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(bytes.Split(write(t, m, mixed), []byte("\n"))[3], &failed); err != nil {
		t.Fatal(err)
	}
	digest := canonical.Digest([]byte("reply"))
	want := Trajectory{Attempt: 1, FinalAnswer: ptr("42"), Model: "scripted-model", Rehearsal: true, RunID: testRunID, Schema: "gaia.trajectory/1",
		Steps: []any{
			LLMCallStep{Error: &trajectory.CallError{Message: "busy", Retryable: true, Status: 500}, RequestedModel: "scripted-model", Turn: 1, Type: "llm_call", UsageReported: true},
			LLMCallStep{OutputSHA256: digest, RequestedModel: "scripted-model", RetryOf: failed.ID, TokensCached: 3, TokensIn: 10,
				TokensOut: 5, TokensReasoning: 1, Turn: 1, Type: "llm_call", UsageReported: true},
			ToolCallStep{Args: map[string]string{"a": "1"}, ArgsTruncated: []string{}, CallID: "c", Name: "web_fetch", RuleHits: []string{"R001"}, Turn: 1, Type: "tool_call"},
			ToolResultStep{Bytes: 15, CallID: "c", Head: "refused by R001", IsError: true, Name: "web_fetch", OutputSHA256: canonical.Digest([]byte("refused by R001")),
				Refused: true, Turn: 1, Type: "tool_result", URLs: []trajectory.URL{}},
		},
		TaskID: "solved", Tokens: trajectory.Tokens{Cached: 3, In: 10, Out: 5, Reasoning: 1}, ToolsUsed: []string{}, Turns: 1}
	if diff := cmp.Diff(want, records[0]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	kinds := func(r Trajectory) (out string) {
		for _, s := range r.Steps {
			switch s := s.(type) {
			case PromptStep:
				out += " " + s.Type
			case LLMCallStep:
				out += " " + s.Type
			case ToolCallStep:
				out += " " + s.Type
			case ToolResultStep:
				out += " " + s.Type
			}
		}
		return strings.TrimSpace(out)
	}
	if got := kinds(records[2]); got != "prompt llm_call tool_call tool_result tool_call tool_result tool_call tool_result" || records[2].Attempt != 2 {
		t.Errorf("the second attempt's steps are %s", got)
	}
	if records[3].FinalAnswer != nil || records[5].Attempt != 2 || len(records[5].Steps) != 0 {
		t.Errorf("records %+v, %+v", records[3], records[5])
	}
}

// TestCallsOfATurn: a decision is about the calls of its turn, whatever the turns before it proposed.
func TestCallsOfATurn(t *testing.T) {
	for _, calls := range []int{1, mostRoom, mostRoom + 1} { // which have another id each
		a := &Attempt{underWay: &underWay{turns: map[int]*openTurn{}}, CostMicroUSD: new(int64)}
		a.Conduct = &a.conduct
		add := func(turn int, p trajectory.Payload) {
			t.Helper()
			if reason := a.add(&trajectory.Event{Attempt: 1, Turn: turn, TaskID: "a", Payload: p}); reason != "" {
				t.Fatal(reason)
			}
		}
		add(1, trajectory.TurnStarted{})
		for i := range calls {
			add(1, trajectory.ToolProposed{CallID: fmt.Sprint("c", i), Name: "calculate"})
		}
		add(2, trajectory.TurnStarted{})
		add(2, trajectory.PolicyDecision{CallID: "c0", Decision: "deny", RuleIDs: []string{"R001"}, Shown: "refused"})
		if hits := a.steps[0].(ToolCallStep).RuleHits; len(hits) > 0 {
			t.Errorf("%d calls: a call of the turn before has the rules %q", calls, hits)
		}
		if name := a.steps[calls].(ToolResultStep).Name; name != "" {
			t.Errorf("%d calls: the result is by %q, which the turn before called", calls, name)
		}
		add(2, trajectory.ToolProposed{CallID: "c0", Name: "web_fetch"})
		add(2, trajectory.PolicyDecision{CallID: "c0", Decision: "deny", RuleIDs: []string{"R002"}, Shown: "refused"})
		if hits := a.steps[calls+1].(ToolCallStep).RuleHits; !slices.Equal(hits, []string{"R002"}) || a.steps[calls+2].(ToolResultStep).Name != "web_fetch" {
			t.Errorf("%d calls: %+v", calls, a.steps[calls+1:])
		}
	}
}

// TestGoldenRun: derived files that exist never change.
func TestGoldenRun(t *testing.T) {
	m := mixedPlan(t)
	journal := write(t, m, mixed)
	f, records, end, err := follow(t, m, journal)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	section := func(name string, data []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("== " + name + "\n")
		got.Write(data)
		if !bytes.HasSuffix(data, []byte("\n")) {
			got.WriteString("\n")
		}
	}
	section(plan.ManifestFile, encodePlan(t, m), nil)
	section(trajectory.JournalFile, journal, nil)
	got.WriteString("== " + TrajectoriesFile + "\n")
	for _, r := range records {
		line, err := r.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(line)
	}
	var results bytes.Buffer
	failed := f.WriteResults(&results)
	section(ResultsFile, results.Bytes(), failed)
	summary, err := f.Summary().Encode()
	section(SummaryFile, summary, err)
	head, err := f.Checkpoint(end)
	if err != nil {
		t.Fatal(err)
	}
	note, err := head.Sign(testKey(t, 1))
	section(trajectory.CheckpointFile, note, err)

	path := filepath.Join("testdata", "run.golden")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("derived files changed (-golden +now):\n%s", diff)
	}
}

// TestLeaves counts a task's lines by hand: all that bear its id, in order.
func TestLeaves(t *testing.T) {
	m := mixedPlan(t)
	journal := write(t, m, mixed)
	f, _, _, err := follow(t, m, journal)
	if err != nil {
		t.Fatal(err)
	}
	for i, leaf := range f.Leaves() {
		id := m.Tasks[i].TaskID
		var lines []byte
		for line := range bytes.Lines(journal) {
			if bytes.Contains(line, []byte(`"task_id":"`+id+`"`)) {
				lines = append(lines, line...)
			}
		}
		want := trajectory.Leaf{Attempts: len(f.Tasks[i].Attempts), Digest: canonical.Digest(lines), Lines: int64(bytes.Count(lines, []byte("\n"))),
			RunID: testRunID, Salt: testSalt, TaskID: id}
		if leaf != want || leaf.Lines == 0 {
			t.Errorf("%s: %+v, want %+v", id, leaf, want)
		}
	}
}

func TestBetween(t *testing.T) {
	tests := []struct {
		from, to string
		want     int64
	}{
		{"2031-02-03T04:05:06.789Z", "2031-02-03T05:05:06.790Z", 3_600_001},
		{"2031-02-03T04:05:06.789Z", "2031-02-03T04:05:06.789Z", 0},
		{"", "2031-02-03T04:05:06.789Z", 0},
		{"2031-02-03T04:05:06.789Z", "10889-08-02T05:31:50.655Z", 0}, // the last time an id can hold
	}
	for _, tt := range tests {
		if got := between(tt.from, tt.to); got != tt.want {
			t.Errorf("from %s to %s: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestUnscoredTasks: a run without gold answers has no tasks to be compared.
func TestUnscoredTasks(t *testing.T) {
	if _, err := (&Fold{}).ScoredTasks(); !errors.Is(err, ErrUnscored) {
		t.Errorf("an unscored run: %v", err)
	}
}
