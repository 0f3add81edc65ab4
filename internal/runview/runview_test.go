package runview

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// contains checks that rows, printed, have each of some lines.
func contains(t *testing.T, rows [][2]string, lines ...string) {
	t.Helper()
	var b bytes.Buffer
	if err := view.Rows(&b, rows); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, b.String())
		}
	}
}

func testPlan() plan.Plan {
	m := plan.Plan{Rehearsal: true, Evidence: plan.EvidenceHeads, Cassette: plan.CassetteReplay, SubmitIntent: true, PolicyMode: "autonomous", PolicyHash: "sha256:0"}
	m.Policy, _ = policy.Builtin(policy.Autonomous)
	m.Tasks = []plan.PlannedTask{{TaskID: "a", Level: 1}, {TaskID: "b", Level: 3, FileName: "x.pdf"}}
	m.Tools = []plan.ToolPlan{{Name: "calculate"}, {Name: "web_search"}}
	m.Model = plan.ModelPlan{Name: "m", Origin: "https://api.example", ServedAs: []string{"n"}, API: "responses", Images: true, NoTemperature: true, MaxTokens: 5, ContextWindow: 9}
	m.Judge, m.Vision, m.Transcription = &plan.JudgePlan{Model: "j"}, &plan.VisionPlan{Model: "v"}, &plan.TranscriptionPlan{Model: "t"}
	m.Search = &plan.SearchPlan{Engine: "brave", Origin: "https://s.example"}
	m.Budgets = plan.Budgets{Turns: 1, ToolCalls: 2, Tokens: 3, WallMs: 4000, CostMicroUSD: 5, RunCostMicroUSD: 6}
	m.Voting.Attempts = 2
	return m
}

// TestFound: what was found in the folders of an own agent is said, and what of it an audit reports is warned of.
func TestFound(t *testing.T) {
	for name, c := range map[string]struct {
		probe          *plan.AgentProbe
		found, warning string
	}{
		"not looked":     {nil, "", ""},
		"nothing":        {&plan.AgentProbe{Files: 3}, "", ""},
		"answers":        {&plan.AgentProbe{Answers: 1, IDs: 2}, "the gold answer beside id or question of 1 task, the id of 2 tasks", "CRITICAL"},
		"questions":      {&plan.AgentProbe{Questions: 1}, "the question or a digest of it of 1 task", "leave out"},
		"a word":         {&plan.AgentProbe{Listed: 2, Found: []plan.AgentFound{{Listed: 2}}}, "the gold answer in a list of 2 tasks", ""},
		"a list of them": {&plan.AgentProbe{Listed: 3, Found: []plan.AgentFound{{Listed: 3}}}, "the gold answer in a list of 3 tasks", "leave out"},
	} {
		found, warning := Found(c.probe)
		if found != c.found || !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") {
			t.Errorf("%s: %q, %q", name, found, warning)
		}
	}
}

// TestPlan: all that a plan decides is shown, and nothing that it does not have.
func TestPlan(t *testing.T) {
	m := testPlan()
	contains(t, Plan(m), "rehearsal "+RehearsalNote, "tasks 2 (1/0/1 by level), 2 attempts each",
		"model m at https://api.example, served as n, by responses, with pictures, without a temperature, completions up to 5 tokens, a window of 9 tokens",
		"judge j", "transcription t", "vision v", "search brave at https://s.example", "tools calculate, web_search", "policy autonomous sha256:0",
		"budgets 1 turn, 2 tool calls, 3 tokens, 4s, $0.000005 an attempt; $0.000006 the run", "evidence heads", "submit intended: true", "cassette replay")
	if rows := Plan(plan.Plan{}); len(rows) != 8 {
		t.Errorf("an empty plan has the rows %q", rows)
	}
	if got := Notices(m); !strings.Contains(got, RehearsalNote) || !strings.Contains(got, ReplayNote) {
		t.Errorf("the notices are %q", got)
	}
	own := plan.DefaultAgent()
	own.Name, own.Folders, own.MemoryBytes = "mine", []plan.AgentFolder{{SHA256: "sha256:1"}}, 512<<20
	m.Agent, m.Budgets.Turns = &own, 0
	contains(t, Plan(m), "agent mine sha256:1, no network, tools of the run", "limits 2000 model calls, 30m0s, 512 MiB of memory, 256 processes, 1 GiB of files an attempt",
		"budgets 2 tool calls, 3 tokens,")
	own.Network = plan.NetworkRecord
	contains(t, Plan(m), "agent mine sha256:1, a recorded network, tools of the run")
	own.Network, own.Unconfined, own.Tools, own.Calls = plan.NetworkHost, true, plan.AgentToolsNone, 1
	contains(t, Plan(m), "agent mine sha256:1, outside of the sandbox, tools in itself", "limits 1 model call, 30m0s an attempt")
	if got := Tools(m); got != "tools: those of the agent" {
		t.Errorf("the tools are %q", got)
	}
	m.Agent = nil
	m.Policy.Deny = []string{"web_search"}
	if got := Tools(m); got != "tools: calculate; not offered: web_search (the policy denies it), describe_image (--vision-model), python (see 'gaia doctor'), transcribe_audio (--transcription-model)" {
		t.Errorf("the tools are %q", got)
	}
}

// TestDifferences: what a dry run does not read is no difference.
func TestDifferences(t *testing.T) {
	old := testPlan()
	old.SigningKey, old.RunID, old.Tasks[1].FileSHA256 = "key", "01J", "sha256:1"
	now := testPlan()
	for _, c := range []struct {
		dry  bool
		want string
	}{{true, "nothing"}, {false, "signing_key"}} {
		if got, err := Differences(old, now, c.dry); err != nil || !strings.Contains(got, c.want) || c.dry && got != c.want {
			t.Errorf("dry %t: %q, %v", c.dry, got, err)
		}
	}
	now.Model.Name = "other"
	if got, err := Differences(old, now, true); err != nil || !strings.Contains(got, "model") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestJudgeRows: the self-test of a judge has one line, whatever its result.
func TestJudgeRows(t *testing.T) {
	if JudgeRows(nil) != nil {
		t.Error("rows without a judge")
	}
	for want, b := range map[string]*rundir.BatterySummary{
		"judged 1 of 4 (0 from the cache), unreadable 0, errors 0, kept from it 2, too long 1": nil,
		"passed before, by the judge cache":                                                    {Passed: true, Cached: true},
		"0 of 26 empty answers accepted; its endpoint refused 1: x":                            {Passed: true, Asked: 26, Refused: []string{"x"}},
		"its verdicts do not count: it accepted 1 of 26 empty answers: y":                      {Asked: 26, Accepted: []string{"y"}},
		"its verdicts do not count: its self-test could not run: no":                           {Problem: "no"},
	} {
		contains(t, JudgeRows(&rundir.JudgeSummary{Model: "j", Asked: 1, Judged: 1, Withheld: 2, TooLong: 1, Battery: b}), "judge j: ", want)
	}
}

// TestConduct: counts are in the singular or plural, and zero counts of denials are left out.
func TestConduct(t *testing.T) {
	if got := Conduct(trajectory.Conduct{Denials: trajectory.Denials{Mode: 1, Budget: 2}, Rollbacks: 1}); got != "0 violations, 1 rollback, 1 denial by mode, 2 denials by budget" {
		t.Errorf("%q", got)
	}
	f := &rundir.Fold{Tasks: []*rundir.Task{{}}}
	if RulesBroken(f) != "" || AllFailed(f) {
		t.Error("a run without attempts broke rules, or failed")
	}
	f.Tasks[0].Attempts = []*rundir.Attempt{{Ended: &trajectory.AttemptEnded{Outcome: trajectory.Errored}, Conduct: &trajectory.Conduct{Rollbacks: 1}}}
	if !AllFailed(f) || RulesBroken(f) != "0 violations, 1 rollback" {
		t.Errorf("%q", RulesBroken(f))
	}
	f.Tasks[0].Attempts = append(f.Tasks[0].Attempts, &rundir.Attempt{})
	if AllFailed(f) {
		t.Error("a run with an open attempt failed")
	}
}

// TestHead: a long text is cut, indented, and its remaining lines are counted.
func TestHead(t *testing.T) {
	if got := Head("a\nb\n"); got != "    a\n    b\n" {
		t.Errorf("%q", got)
	}
	if got := Head(strings.Repeat("x\n", 14)); !strings.HasSuffix(got, "    x\n    … 2 more lines\n") {
		t.Errorf("%q", got)
	}
}

// TestMergedTask: what is shown of a task of a merged run is read from the journal of its shard, which is named.
func TestMergedTask(t *testing.T) {
	c, _ := runs.Varied()
	m, err := c.Merged(2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := runs.WriteFiles(filepath.Join(dir, "run"), m.Files); err != nil {
		t.Fatal(err)
	}
	files := os.DirFS(filepath.Join(dir, "run"))
	records := map[string][]rundir.Trajectory{}
	found, err := rundir.Verify(files, rundir.Options{Ended: func(t rundir.Trajectory, _ []byte) error {
		records[t.TaskID] = append(records[t.TaskID], t)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"shard: shard 1 of 2, shards/1/events.jsonl", "attempt 1: "}, {"shard: none: its journal is gone", "(not begun)", "sealed as skipped"}} {
		var out strings.Builder
		if err := Task(&out, files, found, found.Tasks[i], records[found.Tasks[i].Plan.TaskID], false); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("task %d: %q is not in\n%s", i+1, text, out.String())
			}
		}
		if lost := i == 1; strings.Contains(out.String(), "(not begun)") != lost {
			t.Errorf("task %d:\n%s", i+1, out.String())
		}
	}
}
