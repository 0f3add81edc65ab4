package rundir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// overlapping is a run of an own agent whose exchanges overlap: two requests under way at once, and a tool call among
// them.
const overlapping = `run started
a.1 begin
a.1.1 turn
a.1.1 asks
a.1.1 sends
a.1.2 turn
a.1.2 asks kept=1
a.1.2 sends
a.1.3 turn
a.1.3 propose calculate
a.1.2 replies in=20 out=2 cost=4
a.1.2 violation R006
a.1.2 done
a.1.3 refuse R001
a.1.1 replies in=10 out=5 cost=3
a.1 refuses budget_spent
a.1.3 done
a.1.1 done
a.1 gives submit-answer.v1 42
a.1 exited answered refused=1
a.1 graded right
a sealed solved 1/1
run completed solved=1
`

// ownAgent is an own agent of two files.
func ownAgent() (plan.AgentPlan, []byte) {
	a := plan.AgentPlan{Calls: 2000, Command: []string{"agent"}, DiskBytes: 1 << 30, MemoryBytes: 1 << 30, Name: "mine", Network: plan.NetworkNone,
		Processes: 64, TimeoutMs: 60_000, Tools: plan.AgentToolsNone}
	files := []plan.AgentFile{{Bytes: 2, Executable: true, Path: "agent", SHA256: canonical.Digest([]byte("1\n"))}, {Path: "lib", Link: "agent"}}
	var lines []byte
	for _, f := range files {
		line, err := appendLine(nil, f)
		if err != nil {
			panic("rundir: " + err.Error()) // strings and numbers
		}
		lines = append(lines, line...)
	}
	a.Folders = []plan.AgentFolder{{Bytes: 2, Files: 2, Path: "/home/mine/agent", SHA256: canonical.Digest(lines)}}
	a.FilesSHA256 = canonical.Digest(lines)
	return a, lines
}

// ownPlan is planOf of an own agent.
func ownPlan(t testing.TB, tasks ...string) plan.Plan {
	m := planOf(t, tasks...)
	a, _ := ownAgent()
	m.Agent = &a
	return m
}

// TestOverlappingTurns: a step has the turn of its exchange, whatever comes in between, and turns are counted that have
// a model call.
func TestOverlappingTurns(t *testing.T) {
	f, records := mustFollow(t, ownPlan(t, "a"), overlapping)
	a := f.Task("a").Attempts[0]
	if a.Turns != 2 || a.ToolCalls != 1 || a.Refused != 1 || a.Tokens != (trajectory.Tokens{In: 30, Out: 7}) || *a.CostMicroUSD != 7 || !a.Answer.InReply {
		t.Errorf("attempt %+v", a)
	}
	if a.underWay != nil || f.open != 0 {
		t.Error("what was open is held after the attempt")
	}
	var got []string
	var kept, listed []int
	for _, step := range records[0].Steps {
		switch s := step.(type) {
		case PromptStep:
			got, kept, listed = append(got, "prompt of "+string('0'+rune(s.Turn))), append(kept, s.Kept), append(listed, len(s.Messages))
		case LLMCallStep:
			got = append(got, "reply of "+string('0'+rune(s.Turn)))
		case ToolCallStep:
			got = append(got, "call of "+string('0'+rune(s.Turn))+" hits "+strings.Join(s.RuleHits, " "))
		case ToolResultStep:
			got = append(got, "result of "+string('0'+rune(s.Turn))+" by "+s.Name)
		}
	}
	want := []string{"prompt of 1", "prompt of 2", "call of 3 hits R001", "reply of 2", "result of 3 by calculate", "reply of 1"}
	if !slices.Equal(got, want) || !slices.Equal(kept, []int{0, 1}) || !slices.Equal(listed, []int{1, 1}) {
		t.Errorf("%q, kept %v, listed %v\nwant %q", got, kept, listed, want)
	}
}

// TestOpenExchanges: what a crash or a failure cuts off may stay open; the fold forgets it.
func TestOpenExchanges(t *testing.T) {
	const cut = "run started\na.1 begin\na.1.1 turn\na.1.1 asks\na.1.1 sends\na.1.2 turn\na.1.2 propose calculate\n"
	for _, end := range []string{"a.1 error\na.1 ended error", "a.1 ended error interrupted", "a.1 exited error as=deadline"} {
		f, records := mustFollow(t, ownPlan(t, "a"), cut+end)
		if a := f.Task("a").Attempts[0]; a.Turns != 1 || len(records) != 1 || a.underWay != nil || f.open != 0 {
			t.Errorf("%s: attempt %+v, %d records", end, a, len(records))
		}
	}
}

// TestLostOfOwnAgent: an own agent can show its answer and call a tool after that, so each reply may have had the answer.
func TestLostOfOwnAgent(t *testing.T) {
	const asked = "run started\na.1 begin\na.1.1 turn\na.1.1 asks\na.1.1 sends\n"
	const called = "a.1.1 replies in=1 out=1\na.1.1 done\na.1.2 turn\na.1.2 propose calculate\na.1.2 refuse R001\na.1.2 done\n"
	for script, want := range map[string]bool{asked: false, asked + called: true} {
		f, _ := mustFollow(t, ownPlan(t, "a"), script+"a.1 ended error interrupted")
		if got := f.Task("a").Attempts[0].Lost(); got != want {
			t.Errorf("%v after\n%s", got, script)
		}
	}
}

func TestFoldRefusesOfOwnAgent(t *testing.T) {
	const begun = "run started\na.1 begin\n"
	const turned = begun + "a.1.1 turn\n"
	const asked = turned + "a.1.1 asks\na.1.1 sends\n"
	const replied = asked + "a.1.1 replies in=1 out=1\n"
	const closed = replied + "a.1.1 done\n"
	const given = closed + "a.1 gives answer-file.v1 42\n"
	tests := []struct {
		name, script string
		want         string // about the last line
	}{
		{"turn 2 first", begun + "a.1.2 turn", "turn 2 cannot begin here"},
		{"turn skipped", turned + "a.1.3 turn", "turn 3 cannot begin here"},
		{"turn begun twice", turned + "a.1.1 turn", "turn 1 cannot begin here"},
		{"turn begun again", closed + "a.1.1 turn", "turn 1 cannot begin here"},
		{"event of a turn that has not begun", turned + "a.1.2 asks", "turn 2 is not open"},
		{"event of a closed turn", closed + "a.1.1 asks", "turn 1 is not open"},
		{"turn closed twice", closed + "a.1.1 done", "turn 1 is not open"},
		{"two requests in a turn", turned + "a.1.1 asks\na.1.1 asks kept=1", "is not the next event of turn 1"},
		{"sent before it is compiled", turned + "a.1.1 sends", "is not the next event of turn 1"},
		{"sent twice", asked + "a.1.1 sends", "is not the next event of turn 1"},
		{"reply to nothing", turned + "a.1.1 asks\na.1.1 replies", "is not the next event of turn 1"},
		{"two replies", replied + "a.1.1 replies", "is not the next event of turn 1"},
		{"tool call in a turn with a model call", asked + "a.1.1 propose calculate", "is not the next event of turn 1"},
		{"tool call after a model call", replied + "a.1.1 propose calculate", "is not the next event of turn 1"},
		{"model call in a turn with a tool call", turned + "a.1.1 propose calculate\na.1.1 asks", "is not the next event of turn 1"},
		{"two tool calls in a turn", turned + "a.1.1 propose calculate\na.1.1 allow\na.1.1 propose calculate", "is not the next event of turn 1"},
		{"violation before the reply", asked + "a.1.1 violation R006", "is not the next event of turn 1"},
		{"closed before its reply", asked + "a.1.1 done", "completes turn 1, whose model call has not ended"},
		{"retry", closed + "a.1.2 turn\na.1.2 asks kept=1\na.1.2 sends\na.1.2 replies retry", "repeats a call, which an own agent does as a new call"},
		{"sent again", closed + "a.1.2 turn\na.1.2 asks kept=1\na.1.2 sends body=a.1.1", "says of a request that the attempt has sent it before: false"},
		{"not sent again", closed + "a.1.2 turn\na.1.2 asks kept=1\na.1.2 sends again", "says of a request that the attempt has sent it before: true"},
		{"unknown dialect", turned + "a.1.1 asks\na.1.1 sends dialect=telex", `is a request in the dialect "telex"`},
		{"other bytes without an edit", turned + "a.1.1 asks\na.1.1 sends as=sha256:0", "does not say how the request that was sent on differs from the agent's"},
		{"message of another source", turned + "a.1.1 asks source=question", `lists a message of the source "question"`},
		{"call of the built-in agent", turned + "a.1.1 asks\na.1.1 sends\na.1.1 call", "has no reply of the endpoint with its digest"},
		{"answer before the exchanges are closed", replied + "a.1 gives answer-file.v1 42", "commits an answer before turn 1 is completed"},
		{"turn after the answer", given + "a.1.2 turn", "turn 2 begins after the answer was committed"},
		{"answer by another rule", closed + "a.1 gives best-guess.v1 42", `is an answer by the rule "best-guess.v1", which own agents do not have`},
		{"end with an open exchange", replied + "a.1 exited no_answer", `ends as "no_answer" before turn 1 is completed`},
		{"end without how", given + "a.1 ended answered", `ends as "answered" and does not say how the agent's process ended`},
		{"no answer without how", closed + "a.1 ended no_answer", `ends as "no_answer" and does not say how the agent's process ended`},
		{"unknown end", given + "a.1 exited answered as=bored", `says that the agent's process ended as "bored"`},
		{"refused requests that are not recorded", given + "a.1 exited answered refused=1", "counts 1 refused requests, of which 0 are recorded"},
		{"refused requests that are not counted", closed + "a.1 refuses budget_spent\na.1 exited no_answer", "counts 0 refused requests, of which 1 are recorded"},
		{"attachment under its own name", "run started\nb.1 begin What is b? with b.xlsx", "shows the attachment under another name than its agent sees"},
		{"attachment under another name", "run started\nb.1 begin What is b? with b.xlsx as tides.xlsx", "shows the attachment under another name than its agent sees"},
		{"name of an attachment that there is none of", "run started\na.1 begin What is a? with  as attachment", "shows the attachment under another name than its agent sees"},
	}
	m := ownPlan(t, "a", "b")
	m.Tasks[1].FileName = "b.xlsx"
	mustFollow(t, m, "run started\nb.1 begin What is b? with b.xlsx as attachment.xlsx")
	refused(t, m, tests)

	// What is of own agents alone is in no journal of the built-in one.
	const of = "is of an own agent, which the plan does not have"
	refused(t, planOf(t, "a"), []struct{ name, script, want string }{
		{"request", turned + "a.1.1 sends", of},
		{"reply", turned + "a.1.1 replies", of},
		{"refused request", begun + "a.1 refuses budget_spent", of},
		{"answer of a reply", begun + "a.1 gives final-answer.v1 42", of},
		{"end of a process", begun + "a.1 exited no_answer", of},
		{"message", turned + "a.1.1 asks", `lists a message of the source "agent"`},
		{"name of the attachment", "run started\na.1 begin What is a? with  as attachment", "shows the attachment under another name than its agent sees"},
	})
}

// refused checks that the last line of each script is refused, and for what.
func refused(t *testing.T, m plan.Plan, tests []struct{ name, script, want string }) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, _, err := follow(t, m, write(t, m, tt.script))
			last := int64(strings.Count(strings.TrimSpace(tt.script), "\n") + 1)
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || *fault != (trajectory.Fault{File: trajectory.JournalFile, Line: last, Reason: tt.want}) {
				t.Errorf("%v\nwant line %d: %s", err, last, tt.want)
			}
		})
	}
}

// TestMostRefusedRequests: the first thousand are events, all are counted.
func TestMostRefusedRequests(t *testing.T) {
	all := "run started\na.1 begin\n" + strings.Repeat("a.1 refuses budget_spent\n", trajectory.MostRequestsRefused)
	f, _ := mustFollow(t, ownPlan(t, "a"), all+"a.1 exited no_answer refused=10000")
	if n := f.Task("a").Attempts[0].Refused; n != 10_000 {
		t.Errorf("%d refused requests", n)
	}
	refused(t, ownPlan(t, "a"), []struct{ name, script, want string }{
		{"one more", all + "a.1 refuses budget_spent", "is more than the 1000 refused requests that an attempt has"},
	})
}

// TestAgentRules: what finds an answer on standard output has its rules among those of own agents.
func TestAgentRules(t *testing.T) {
	for _, text := range []string{"FINAL ANSWER: 42", "FINAL ANSWER:\n42"} {
		if found, ok := prompt.FinalAnswer(text); !ok || !slices.Contains(plan.AgentRules(), found.Rule) {
			t.Errorf("%q: rule %q", text, found.Rule)
		}
	}
}

// TestAgentFiles: the list of the agent's files is one that the plan has the digests and counts of, in one form.
func TestAgentFiles(t *testing.T) {
	m := ownPlan(t, "a")
	all := files(t, m, overlapping)
	run, err := Verify(memory(all), Options{})
	if err != nil || !run.Complete {
		t.Fatalf("%+v, %v", run, err)
	}
	list := string(all[plan.AgentFilesFile])
	first, second, _ := strings.Cut(list, "\n")
	for name, changed := range map[string]string{
		"empty":            "",
		"shorter":          first + "\n",
		"exchanged":        second + first + "\n",
		"twice":            list + second,
		"without an end":   strings.TrimSuffix(list, "\n"),
		"another size":     strings.Replace(list, `"bytes":2`, `"bytes":3`, 1),
		"not canonical":    strings.Replace(list, `"bytes":2,`, `"bytes": 2,`, 1),
		"another digest":   strings.Replace(list, `"sha256":"sha256:`, `"sha256":"sha256:0`, 1),
		"another path":     strings.Replace(list, `"path":"agent"`, `"path":"../agent"`, 1),
		"a link's digest":  strings.Replace(list, `"path":"lib"`, `"path":"lib","sha256":"`+m.Agent.FilesSHA256+`"`, 1),
		"another folder":   strings.ReplaceAll(list, `"folder":0`, `"folder":1`),
		"a very long line": strings.Repeat("x", maxAgentLine+1),
	} {
		wantFault(t, name, memory(all, plan.AgentFilesFile, changed), plan.AgentFilesFile)
	}
	// The form holds, also where the plan has the digests of another one.
	for name, changed := range map[string]string{
		"exchanged":       second + first + "\n",
		"without an end":  strings.TrimSuffix(list, "\n"),
		"not canonical":   strings.Replace(list, `"bytes":2,`, `"bytes": 2,`, 1),
		"another path":    strings.Replace(list, `"path":"agent"`, `"path":"../agent"`, 1),
		"a link's digest": strings.Replace(list, `"path":"lib"`, `"path":"lib","sha256":"`+m.Agent.FilesSHA256+`"`, 1),
	} {
		m := ownPlan(t, "a")
		m.Agent.Folders[0].SHA256, m.Agent.FilesSHA256 = canonical.Digest([]byte(changed)), canonical.Digest([]byte(changed))
		wantFault(t, name+", as planned", memory(files(t, m, overlapping), plan.AgentFilesFile, changed), plan.AgentFilesFile)
	}
	delete(all, plan.AgentFilesFile)
	wantFault(t, "missing", memory(all), plan.AgentFilesFile)

	// Each count of the plan holds, also where the digest of the whole list does.
	for name, change := range map[string]func(*plan.AgentPlan){
		"files":  func(a *plan.AgentPlan) { a.Folders[0].Files++ },
		"bytes":  func(a *plan.AgentPlan) { a.Folders[0].Bytes-- },
		"digest": func(a *plan.AgentPlan) { a.Folders[0].SHA256 = a.FilesSHA256[:70] + "0" },
		"one folder more": func(a *plan.AgentPlan) {
			a.Folders = append(a.Folders, plan.AgentFolder{Files: 1, Path: "/opt/more", SHA256: a.FilesSHA256})
		},
		"whole": func(a *plan.AgentPlan) { a.FilesSHA256 = canonical.Digest(nil) },
	} {
		m := ownPlan(t, "a")
		change(m.Agent)
		wantFault(t, name, memory(files(t, m, overlapping)), plan.AgentFilesFile)
	}
	m = ownPlan(t, "a")
	m.Agent.Folders = append(m.Agent.Folders, plan.AgentFolder{Path: "/opt/empty", SHA256: canonical.Digest(nil)})
	if _, err := Verify(memory(files(t, m, overlapping)), Options{}); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestOverlappingCalls: of calls that overlap, and have one id, each has its decision and result in the bundle and in the
// run event.
func TestOverlappingCalls(t *testing.T) {
	m := ownPlan(t, oneUUID)
	script := strings.ReplaceAll(`run started
ID.1 begin
ID.1.1 turn
ID.1.1 propose web_fetch
ID.1.2 turn
ID.1.2 propose calculate
ID.1.2 refuse R001
ID.1.1 allow
ID.1.2 violation R001
ID.1.3 turn
ID.1.1 executed web_fetch
ID.1.3 asks
ID.1.3 sends
ID.1.1 done
ID.1.2 done
ID.1.3 replies in=1 out=1
ID.1.3 done
ID.1 gives final-answer.v1 42
ID.1 exited answered
ID.1 graded right
ID sealed solved 1/1
run completed solved=1
`, "ID", oneUUID)
	var r WitnessReader
	all, _ := bundlesOf(t, &r, m, write(t, m, script))
	trace := all[oneUUID].Trace()
	if len(trace) != 2 {
		t.Fatalf("%+v", trace)
	}
	if a, b := trace[0], trace[1]; a.Action != "web_fetch" || a.Policy != witness.Allow || b.Action != "calculate" || b.Policy != witness.Deny || b.ResultHash != firstBytes(canonical.Digest([]byte("refused by R001"))) {
		t.Errorf("%+v", trace)
	}
	e := eventOf(t, m, script)
	if v := e.Violations; len(v) != 1 || !v[0].AutoCorrected || v[0].Location != "turn 2, calculate, call c" || e.ToolCalls != 2 {
		t.Errorf("%+v", e)
	}
}
