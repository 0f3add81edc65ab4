package rundir

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/google/go-cmp/cmp"
)

// statsOf reads the stats of a script's run from its files.
func statsOf(t testing.TB, m plan.Plan, script string) RunStats {
	t.Helper()
	s, run, err := ReadStats(memory(files(t, m, script)), "")
	if err != nil || !run.Complete {
		t.Fatalf("%+v, %v", run, err)
	}
	for _, e := range s.Events { // what journals give, readers of ledger files take
		if err := CheckRunEvent(e); err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
	return s
}

// eventOf is the run event of the one attempt of a script's run.
func eventOf(t *testing.T, m plan.Plan, script string) RunEvent {
	t.Helper()
	s := statsOf(t, m, script)
	if len(s.Events) != 1 {
		t.Fatalf("%d events", len(s.Events))
	}
	return s.Events[0]
}

// idOf returns the id of the nth event of a type.
func idOf(t *testing.T, m plan.Plan, script, kind string, n int) string {
	t.Helper()
	for line := range strings.Lines(string(write(t, m, script))) {
		var e struct{ ID, Type string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == kind {
			if n--; n == 0 {
				return e.ID
			}
		}
	}
	t.Fatalf("no such %s", kind)
	return ""
}

// worked is a task that took two attempts by two processes, of which the second ran
// under other rules.
const worked = `run started
a.1 begin
a.1.1 turn
a.1.1 call in=10 out=5 cost=3
a.1.1 call in=10 out=5 cost=3 retry
a.1.1 propose web_fetch
a.1.1 refuse R001
a.1.1 violation R001 R007
run resumed 8 guidance=fedcba9876543210
a.1 ended error interrupted
a.2 begin
a.2.1 turn
a.2.1 call in=100 out=10 cost=20
a.2.1 propose python
a.2.1 allow
a.2.1 kept
a.2.1 violation R004
a.2.1 rollback wrong
a.2.1 executed python
a.2.1 propose calculate
a.2.1 allow
a.2.1 executed calculate
a.2 answer 42
a.2 ended answered workspace=+5-2~1
a.2 graded judged
a sealed failed 2/2
run completed failed=1
`

func TestRunStats(t *testing.T) {
	m := planOf(t, "a")
	s := statsOf(t, m, worked)
	run, err := Verify(memory(files(t, m, worked)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	digest, signer := canonical.Digest(encodePlan(t, m)), testKey(t, 1).Public().ID()
	event := RunEvent{FilesTouched: []string{}, Level: 1, ManifestSHA256: digest, Mode: "restricted", Model: "scripted-model", PolicyHash: m.PolicyHash, Rehearsal: true, RunID: testRunID,
		Schema: "gaia.run_event/2", SignedBy: signer, TaskID: "a"}
	first, second := event, event
	first.Attempt, first.CostMicroUSD, first.DurationMs, first.GuidanceHash = 1, ptr[int64](6), 6, m.GuidanceHash
	first.ID, first.Timestamp = idOf(t, m, worked, "attempt_ended", 1), "2031-02-03T04:05:07.010Z"
	first.Intent, first.Outcome, first.OutcomeAccepted = "reasoning", "error", ptr(false)
	first.RetrievedRuleIDs, first.TriggeredRuleIDs = []string{"R001", "R002", "R003", "R004", "R005", "R006"}, []string{"R001"}
	first.Retries, first.Session = 1, idOf(t, m, worked, "run_started", 1)
	first.TestResults, first.Tokens, first.ToolCalls, first.ToolsUsed = TestCounts{Skipped: 2}, 30, 1, []string{}
	first.Denials, second.Denials = trajectory.Denials{Rule: 1}, trajectory.Denials{Rule: 1}
	first.Violations = []Violation{
		{AutoCorrected: true, Class: "rule", Description: "it leads to answers", Location: "turn 1, web_fetch, call c", RuleID: "R001", Severity: "critical"},
		{AutoCorrected: true, Class: "rule", Description: "it leads to answers", Location: "turn 1, web_fetch, call c", RuleID: "R007", Severity: "medium"}}
	second.Attempt, second.Counted, second.CostMicroUSD, second.DurationMs = 2, true, ptr[int64](20), 13
	second.DiffSummary, second.FilesTouched, second.ReworkLines = DiffSummary{Files: 2, LinesAdded: 5, LinesRemoved: 2}, []string{"notes.txt", "plan.txt"}, 1
	second.GuidanceHash, second.ID, second.Timestamp = "fedcba9876543210", idOf(t, m, worked, "attempt_ended", 2), "2031-02-03T04:05:07.024Z"
	second.Intent, second.Outcome, second.OutcomeAccepted = "code", "answered", ptr(false)
	second.RetrievedRuleIDs, second.TriggeredRuleIDs = []string{}, []string{} // the process had other rules than the plan
	second.Rollbacks, second.Session = 1, idOf(t, m, worked, "run_resumed", 1)
	second.TestResults, second.Tokens, second.ToolCalls = TestCounts{Failed: 1, Passed: 1, Ran: 2}, 110, 2
	second.ToolsUsed = []string{"calculate", "python"}
	second.Violations = []Violation{{Class: "rule", Description: "it leads to answers", Location: "turn 1, python, call c", RuleID: "R004", Severity: "high"}}
	want := RunStats{Completed: "2031-02-03T04:05:07.027Z", Dataset: m.Dataset, Events: []RunEvent{first, second}, GuidanceHash: m.GuidanceHash,
		JournalHead: run.End.Head, Root: run.RootHash, ManifestSHA256: digest, Model: "scripted-model", PolicyHash: m.PolicyHash, Rehearsal: true, RunID: testRunID, Schema: "gaia.sheet/2",
		SignedBy: signer, Started: "2031-02-03T04:05:07.001Z", Tasks: []TaskStats{{CostMicroUSD: ptr[int64](26), EvidenceComplete: true, LatencyMs: 13,
			Level: 1, Outcome: "failed", Retries: 1, Conduct: trajectory.Conduct{Denials: trajectory.Denials{Rule: 2}, Rollbacks: 1}, TaskID: "a", Tokens: 140}}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

// TestRunStatsOfManyTasks: the order is that of the journal for attempts and that of the
// plan for tasks, and an unknown cost is null.
func TestRunStatsOfManyTasks(t *testing.T) {
	s := statsOf(t, mixedPlan(t), mixed)
	var attempts, tasks []string
	for _, e := range s.Events {
		attempts = append(attempts, e.TaskID+" "+e.Outcome)
	}
	for _, task := range s.Tasks {
		tasks = append(tasks, task.TaskID+" "+task.Outcome)
	}
	if diff := cmp.Diff([]string{"solved answered", "again error", "again answered", "silent no_answer", "broken error", "broken error"}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"solved solved", "again failed", "silent failed", "broken error", "skipped skipped"}, tasks); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if s.Events[4].CostMicroUSD != nil || s.Tasks[3].CostMicroUSD != nil || *s.Events[5].CostMicroUSD != 0 {
		t.Errorf("costs: %+v", s.Events)
	}
	complete := []bool{true, true, false, false, false}
	for i, task := range s.Tasks {
		if task.EvidenceComplete != complete[i] {
			t.Errorf("the evidence of %s is complete: %v", task.TaskID, task.EvidenceComplete)
		}
	}
}

// TestAutoCorrected: what a call broke is undone where it did not run, or where the
// rollback by that call is proven to have been right.
func TestAutoCorrected(t *testing.T) {
	const refused = "a.1.1 refuse R001\na.1.1 violation R001\n"
	for _, tt := range []struct {
		name, turn string
		want       []bool
	}{
		{"denied", refused, []bool{true}},
		{"denied by two rules", "a.1.1 refuse R001\na.1.1 violation R001 R004\n", []bool{true, true}},
		{"ran", "a.1.1 allow\na.1.1 violation R001\na.1.1 executed web_fetch\n", []bool{false}},
		{"ran beside one that was denied", refused + "a.1.1 propose web_fetch\na.1.1 allow\na.1.1 violation R001\n", []bool{true, false}},
		{"ran, and the next was denied", "a.1.1 allow\na.1.1 propose web_fetch\n" + refused + "a.1.1 violation R001\n", []bool{true, false}},
		{"rolled back", "a.1.1 allow\na.1.1 violation R001\na.1.1 rollback right\n", []bool{true}},
		{"rolled back wrongly", "a.1.1 allow\na.1.1 violation R001\na.1.1 rollback wrong\n", []bool{false}},
		{"rolled back without digests", "a.1.1 allow\na.1.1 violation R001\na.1.1 rollback unknown\n", []bool{false}},
		{"rolled back for another call", "a.1.1 allow\na.1.1 violation R001\na.1.1 rollback other\n", []bool{false}},
		{"rolled back before", "a.1.1 rollback right\na.1.1 allow\na.1.1 violation R001\n", []bool{false}},
		{"rolled back a turn later", "a.1.1 allow\na.1.1 violation R001\na.1.2 turn\na.1.2 rollback right\n", []bool{false}},
	} {
		e := eventOf(t, planOf(t, "a"), "run started\na.1 begin\na.1.1 turn\na.1.1 propose web_fetch\n"+tt.turn+
			"a.1 ended no_answer\na sealed failed 1/1\nrun completed failed=1\n")
		var got []bool
		for _, v := range e.Violations {
			got = append(got, v.AutoCorrected)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestRollbacks counts those that restored something, and of them those that are proven
// to be right.
func TestRollbacks(t *testing.T) {
	s := statsOf(t, planOf(t, "a"), `run started
a.1 begin
a.1.1 turn
a.1.1 rollback right
a.1.1 rollback wrong
a.1.1 rollback unknown
a.1.1 rollback nothing
a.1 ended error
a.2 begin
a.2.1 turn
a.2.1 rollback right
a.2 ended no_answer
a sealed failed 2/2
run completed failed=1
`)
	if task := s.Tasks[0]; task.Conduct.Rollbacks != 3 || task.Conduct.RollbacksCorrect != 2 {
		t.Errorf("%+v", task)
	}
	if s.Events[0].Rollbacks != 2 || s.Events[1].Rollbacks != 1 {
		t.Errorf("%+v", s.Events)
	}
}

// governed is a task one attempt at which has a denial of each class, a person's refusal,
// calls that are denied without a violation, and a rollback.
const governed = `run started
a.1 begin
a.1.1 turn
a.1.1 propose web_fetch
a.1.1 refuse R001
a.1.1 violation R001 R002
a.1.1 rollback nothing
a.1.2 turn
a.1.2 propose python
a.1.2 refuse mode
a.1.2 violation mode
a.1.2 propose python
a.1.2 refuse mode
a.1.2 violation mode
a.1.2 propose bash
a.1.2 refuse deny_list
a.1.2 violation deny_list
a.1.2 propose calculate
a.1.2 refuse R006
a.1.2 violation R006
a.1.2 propose read_file
a.1.2 asked no
a.1.2 refuse person
a.1.2 propose no_such_tool
a.1.2 refuse person
a.1.3 turn
a.1.3 propose python
a.1.3 asked yes
a.1.3 allow
a.1.3 kept
a.1.3 violation R001
a.1.3 rollback right
a.1.3 executed python
a.1 answer 42
a.1 ended answered workspace=+5-2~1
a.1 graded right
a sealed solved 1/1
run completed solved=1
`

// TestConduct: journal, run event, scorecard and witness bundle count the same. The scorecard over the bundle is the run's.
func TestConduct(t *testing.T) {
	m := planOf(t, "a")
	all := memory(files(t, m, governed))
	s, run, err := ReadStats(all, "")
	if err != nil {
		t.Fatal(err)
	}
	want := trajectory.Conduct{Denials: trajectory.Denials{Budget: 1, DenyList: 1, Mode: 2, Rule: 2}, PersonRefusals: 1, Rollbacks: 1, RollbacksCorrect: 1}
	e := s.Events[0]
	if s.Tasks[0].Conduct != want || e.Denials != want.Denials || e.PersonRefusals != 1 || e.Rollbacks != 1 {
		t.Errorf("stats %+v, event %+v", s.Tasks[0].Conduct, e)
	}
	if err := CheckRunEvent(e); err != nil {
		t.Errorf("the event is refused: %v", err)
	}
	var listed []string
	for _, v := range e.Violations {
		listed = append(listed, v.Class+" "+v.RuleID+" "+v.Severity)
	}
	if diff := cmp.Diff([]string{"rule R001 critical", "rule R002 critical", "mode  low", "mode  low", "deny_list  medium", "budget R006 low", "rule R001 critical"}, listed); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if n := e.Denials.Violations(); n != 3 || e.OutcomeAccepted == nil || !*e.OutcomeAccepted {
		t.Errorf("%d violations of an accepted answer: %+v", n, e)
	}
	card, err := run.Scorecard()
	if err != nil {
		t.Fatal(err)
	}
	if card.PolicyViolations != 3 || *card.RollbackCount != 1 || *card.ModeDenials != 2 || *card.BudgetDenials != 1 || *card.PersonRefusals != 1 {
		t.Errorf("card %s", encodeCard(t, card))
	}
	for _, unrecorded := range []bool{false, true} {
		var tally Tally
		r := WitnessReader{Unrecorded: unrecorded, Each: func(_ string, _ witness.Bundle, data []byte) error {
			w, err := witness.Parse(data)
			return errors.Join(err, witness.Check(w), tally.AddWitness(w))
		}}
		if _, err := Verify(all, r.Options("")); err != nil || r.Err() != nil {
			t.Fatal(err, r.Err())
		}
		if diff := cmp.Diff(card, tally.Scorecard()); diff != "" {
			t.Errorf("the card over bundles (-run +bundles):\n%s", diff)
		}
		accepted := tally.Accept(Thresholds{SolveRate: 1, Violations: 3, EvidenceCoverage: 1, RollbackCorrectness: 1})
		if accepted.Pass == unrecorded {
			t.Errorf("unrecorded %v: %+v", unrecorded, accepted)
		}
	}
}

// TestDenialsAreCounted: each class that a decision can have is counted, once.
func TestDenialsAreCounted(t *testing.T) {
	seen := map[trajectory.Denials]bool{}
	for _, class := range policy.Denials() {
		var c trajectory.Conduct
		c.Add(trajectory.PolicyViolation{Class: string(class)})
		if d := c.Denials; d.Budget+d.DenyList+d.Mode+d.Rule != 1 || seen[d] {
			t.Errorf("class %s is counted as %+v", class, d)
		}
		seen[c.Denials] = true
	}
}

// TestTestResults goes through the ways in which an answer is graded: the judge ran
// where it spoke, itself or from its cache.
func TestTestResults(t *testing.T) {
	for _, tt := range []struct {
		verdict         string
		judge, no       TestCounts // with a judge in the plan, and without
		accepted, noted bool
	}{
		{"right", TestCounts{Passed: 1, Ran: 1, Skipped: 1}, TestCounts{Passed: 1, Ran: 1}, true, true},
		{"judged", TestCounts{Failed: 1, Passed: 1, Ran: 2}, TestCounts{Failed: 1, Ran: 1}, false, true},
		{"wrong", TestCounts{Failed: 2, Ran: 2}, TestCounts{Failed: 1, Ran: 1}, false, true},
		{"cached", TestCounts{Failed: 1, Passed: 1, Ran: 2}, TestCounts{Failed: 1, Ran: 1}, false, false},
		{"unreadable", TestCounts{Failed: 1, Ran: 1, Skipped: 1}, TestCounts{Failed: 1, Ran: 1}, false, true},
		{"failed", TestCounts{Failed: 1, Ran: 1, Skipped: 1}, TestCounts{Failed: 1, Ran: 1}, false, true},
		{"unjudged", TestCounts{Failed: 1, Ran: 1, Skipped: 1}, TestCounts{Failed: 1, Ran: 1}, false, true},
		{"blank", TestCounts{Failed: 1, Ran: 1, Skipped: 1}, TestCounts{Failed: 1, Ran: 1}, false, true},
	} {
		outcome := map[bool]string{true: "solved", false: "failed"}[tt.accepted]
		script := "run started\na.1 begin\na.1 answer 42\na.1 ended answered\na.1 graded " + tt.verdict + "\na sealed " + outcome + " 1/1\nrun completed " + outcome + "=1\n"
		m := planOf(t, "a")
		e := eventOf(t, m, script)
		if e.TestResults != tt.judge || *e.OutcomeAccepted != tt.accepted {
			t.Errorf("%s: %+v, %v", tt.verdict, e.TestResults, *e.OutcomeAccepted)
		}
		if m.Judge = nil; !tt.noted { // a plan without a judge has no cache of verdicts
			continue
		}
		if e := eventOf(t, m, script); e.TestResults != tt.no {
			t.Errorf("%s without a judge: %+v", tt.verdict, e.TestResults)
		}
	}
}

// TestUnscoredStats: without gold nothing says whether an answer is correct.
func TestUnscoredStats(t *testing.T) {
	m := planOf(t, "a", "b")
	m.GoldCommitment, m.Dataset.Split, m.Judge = "", "test", nil
	s := statsOf(t, m, "run started\na.1 begin\na.1 answer 42\na.1 ended answered\nb.1 begin\nb.1 ended no_answer\na sealed unscored 1/1\nb sealed unscored 1/1\nrun completed unscored=2\n")
	for i, e := range s.Events {
		if e.OutcomeAccepted != nil || e.TestResults != (TestCounts{Skipped: 1}) || s.Tasks[i].EvidenceComplete {
			t.Errorf("%+v of %+v", e, s.Tasks[i])
		}
	}
}

// TestUngraded: of an answer that does not count and was not graded, nothing says
// whether it is correct; an attempt without an answer has no correct one.
func TestUngraded(t *testing.T) {
	s := statsOf(t, planOf(t, "a"), `run started
a.1 begin
a.1 ended no_answer
a.2 begin
a.2 answer 42
a.2 ended answered
a.3 begin
a.3 answer 43
a.3 ended answered
a.2 graded right
a sealed solved 2/3
run completed solved=1
`)
	for i, want := range []*bool{ptr(false), ptr(true), nil} {
		if diff := cmp.Diff(want, s.Events[i].OutcomeAccepted); diff != "" || s.Events[i].Counted != (i == 1) {
			t.Errorf("attempt %d (-want +got):\n%s%+v", i+1, diff, s.Events[i])
		}
	}
	if got := s.Events[2].TestResults; got != (TestCounts{Skipped: 2}) {
		t.Errorf("%+v", got)
	}
}

// TestEvidenceComplete: a diff that is not recorded is none, and one that no one
// could have made is empty.
func TestEvidenceComplete(t *testing.T) {
	for _, tt := range []struct {
		name, turn, change string
		want               bool
	}{
		{"nothing could change the workspace", "", "", true},
		{"a call could, and nothing tells", "a.1.1 kept\n", "", false},
		{"a call could, and did", "a.1.1 kept\n", " workspace=+1-0~0", true},
		{"digests alone", "a.1.1 kept\n", " workspace=+1-0~0 unrecorded", false},
	} {
		s := statsOf(t, planOf(t, "a"), "run started\na.1 begin\na.1.1 turn\n"+tt.turn+"a.1 answer 42\na.1 ended answered"+tt.change+
			"\na.1 graded right\na sealed solved 1/1\nrun completed solved=1\n")
		if s.Tasks[0].EvidenceComplete != tt.want {
			t.Errorf("%s: %v", tt.name, s.Tasks[0].EvidenceComplete)
		}
	}
}

// TestStatsAgreeWithBundles: of each task the stats says what its witness bundle does.
func TestStatsAgreeWithBundles(t *testing.T) {
	unrecorded := strings.Replace(worked, "workspace=+5-2~1", "workspace=+5-2~1 unrecorded", 1)
	untold := strings.Replace(worked, " workspace=+5-2~1", "", 1)
	for name, script := range map[string]struct {
		m      plan.Plan
		script string
	}{"worked": {planOf(t, "a"), worked}, "unrecorded": {planOf(t, "a"), unrecorded}, "untold": {planOf(t, "a"), untold},
		"mixed": {mixedPlan(t), mixed}, "one solved": {planOf(t, "a"), oneSolved}} {
		bundles := map[string]TaskStats{}
		r := WitnessReader{UnpricedAsZero: true, Each: func(id string, _ witness.Bundle, data []byte) error {
			read, err := witness.Parse(data)
			bundles[id] = bundleTask(read)
			return err
		}}
		all := memory(files(t, script.m, script.script))
		if _, err := Verify(all, r.Options("")); err != nil || r.Err() != nil {
			t.Fatal(name, err, r.Err())
		}
		s, _, err := ReadStats(all, "")
		if err != nil || len(bundles) != len(s.Tasks) {
			t.Fatal(name, err, len(bundles))
		}
		for _, task := range s.Tasks {
			b, outcome := bundles[task.TaskID], strings.Replace(task.Outcome, trajectory.Unscored, trajectory.Skipped, 1)
			if b.Outcome != outcome || b.EvidenceComplete != task.EvidenceComplete || b.LatencyMs != task.LatencyMs {
				t.Errorf("%s: the bundle of %s counts as %+v, its stats as %+v", name, task.TaskID, b, task)
			}
		}
	}
}

// TestStatsAreOneValue: however it is read, and however often, a run has the same stats,
// which has one encoding.
func TestStatsAreOneValue(t *testing.T) {
	for name, script := range map[string]struct {
		m      plan.Plan
		script string
	}{"worked": {planOf(t, "a"), worked}, "mixed": {mixedPlan(t), mixed}, "one solved": {planOf(t, "a"), oneSolved}} {
		all := files(t, script.m, script.script)
		first, _, err := ReadStats(memory(all), "")
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := ReadStats(os.DirFS(directory(t, all)), "")
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: two readings (-first +second):\n%s", name, diff)
		}
		data, err := canonical.Encode(first)
		if err != nil {
			t.Fatal(err)
		}
		var again RunStats
		if err := canonical.Decode(data, &again); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		first.Events = nil // they are kept apart
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("%s: decoded (-stats +decoded):\n%s", name, diff)
		}
	}
}

func TestReadStatsRefuses(t *testing.T) {
	m := planOf(t, "a")
	unfinished, _, _ := strings.Cut(oneSolved, "a sealed")
	s, run, err := ReadStats(memory(files(t, m, unfinished)), "")
	if err != nil || run.Complete || s.Schema != "" {
		t.Errorf("unfinished: %+v, %v", run, err)
	}
	all := files(t, m, oneSolved)
	s, run, err = ReadStats(memory(all, ResultsFile, "x"), "")
	if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) || fault.File != ResultsFile || run != nil && run.Complete || s.Schema != "" {
		t.Errorf("changed results: %+v, %v", run, err)
	}
}

func TestIntent(t *testing.T) {
	for _, tt := range []struct {
		file  string
		tools []string
		want  string
	}{
		{"", nil, "reasoning"},
		{"", []string{"calculate", "read_file", "list_files"}, "reasoning"},
		{"", []string{"web_search"}, "web"},
		{"", []string{"python", "web_fetch", "web_search"}, "web+code"},
		{"", []string{"maps__route"}, "tools"},
		{"prices.xlsx", []string{"maps__route", "python", "web_fetch"}, "spreadsheet+web+code+tools"},
		{"a.py", []string{"python"}, "code"},
		{"a.py", nil, "code"},
		{"A.PDF", nil, "document"},
		{"a.pptx", nil, "presentation"},
		{"a.jpg", []string{"describe_image"}, "image"},
		{"a.mp3", []string{"transcribe_audio"}, "audio"},
		{"a.mov", nil, "video"},
		{"a.zip", nil, "archive"},
		{"a.csv.gz", nil, "spreadsheet"},
		{"a.gz", nil, "archive"},
		{"a.tar.gz", nil, "archive"},
		{"a.jsonld", nil, "data"},
		{"a.txt", nil, "text"},
		{"a", nil, "file"},
		{"a.", nil, "file"},
		{"a.exe", nil, "file"},
		{".csv", nil, "spreadsheet"},
	} {
		if got := intent(tt.file, tt.tools); got != tt.want {
			t.Errorf("%q with %v is %q, want %q", tt.file, tt.tools, got, tt.want)
		}
	}
}
