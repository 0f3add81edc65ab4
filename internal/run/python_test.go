package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// python is the tool that runs code; the test is skipped where it does not
// work.
func python(t *testing.T) tools.Tool {
	t.Helper()
	bwrap, _ := exec.LookPath("bwrap")
	sandbox, err := sandboxtools.New(t.Context(), sandboxtools.Config{Bwrap: bwrap})
	if err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	path, _ := exec.LookPath("python3")
	interpreter, err := sandboxtools.FindInterpreter(t.Context(), path, []string{"PATH=" + os.Getenv("PATH")})
	if err != nil {
		t.Skipf("there is no python here: %v", err)
	}
	return sandboxtools.NewPython(sandbox, interpreter)
}

// A line is what a told model says in a turn: calls, one of which is code where
// it is not another tool's, an answer, or "" for a failure.
type line struct {
	code   []string
	opens  string // a file that read_file is asked for in the same turn
	answer string
}

// told is a model that says the lines of a task, one a turn. It is asked by one
// test that knows what comes of each.
type told map[string][]line

func (m told) Chat(_ context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	turn := 0
	for _, message := range r.Messages {
		if message.Role == "assistant" {
			turn++
		}
	}
	var says line
	for question, lines := range m {
		if strings.Contains(r.Messages[1].Content, question) {
			says = lines[min(turn, len(lines)-1)]
		}
	}
	if err := o.TryStarted(1); err != nil {
		return llm.Response{}, err
	}
	try, cost := llm.Try{Number: 1}, int64(3)
	if says.answer == "" && len(says.code) == 0 {
		try.Err = &llm.Error{Status: 400, Message: "out of order"}
		return llm.Response{}, errors.Join(o.TryCompleted(try), try.Err)
	}
	message := llm.Message{Role: "assistant", Content: says.answer}
	call := func(name string, args any) {
		text, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		message.ToolCalls = append(message.ToolCalls, llm.ToolCall{ID: fmt.Sprintf("call-%d-%d", turn, len(message.ToolCalls)), Name: name, Arguments: string(text)})
	}
	for _, code := range says.code {
		call("python", map[string]string{"code": code})
	}
	if says.opens != "" {
		call("read_file", map[string]string{"path": says.opens})
	}
	try.Response = &llm.Response{CostMicroUSD: &cost, FinishReason: "stop", Message: message, Usage: llm.Usage{In: 10, Out: 2, Reported: true}}
	return *try.Response, o.TryCompleted(try)
}

// TestPythonWorkspace: what code makes of an attempt's workspace stands at the
// attempt's end, however it ends; a turn that breaks a rule leaves nothing; and
// the run verifies and is clean.
func TestPythonWorkspace(t *testing.T) {
	tool := python(t)
	var ids []string
	for _, task := range config(t).env.Set.Tasks {
		if task.FileName == "" && len(ids) < 4 {
			ids = append(ids, task.ID)
		}
	}
	c := config(t, ids...)
	c.env.Tools = append(c.env.Tools, tool)
	c.plan.Budgets.Turns = 3
	const head = "diff /dev/null b/notes.txt\n--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1,2 @@\n"
	const write = "open('notes.txt', 'w').write('tide\\nwind\\n')"
	lines := []struct {
		says []line
		want trajectory.WorkspaceChange
	}{
		{[]line{{code: []string{write}}, {code: []string{"open('notes.txt', 'w').write('tide\\nfog\\n')"}}, {answer: "FINAL ANSWER: fog"}},
			trajectory.WorkspaceChange{Added: 2, Reworked: 1, Files: []string{"notes.txt"}, Diff: head + "+tide\n+fog\n"}},
		{[]line{{code: []string{write}}, {code: []string{"import os; os.remove('notes.txt'); os.symlink('/etc', 'out')"}, opens: "../../judgments.jsonl"}, {answer: "FINAL ANSWER: none"}},
			trajectory.WorkspaceChange{Added: 2, Files: []string{"notes.txt"}, Diff: head + "+tide\n+wind\n"}},
		{[]line{{code: []string{write}}, {answer: "I do not know."}},
			trajectory.WorkspaceChange{Added: 2, Files: []string{"notes.txt"}, Diff: head + "+tide\n+wind\n"}},
		{[]line{{code: []string{write}}, {}},
			trajectory.WorkspaceChange{Added: 2, Files: []string{"notes.txt"}, Diff: head + "+tide\n+wind\n"}},
	}
	model := told{}
	index := func(id string) int {
		return slices.IndexFunc(c.env.Set.Tasks, func(task loader.Task) bool { return task.ID == id })
	}
	for i, l := range lines {
		model[c.env.Set.Tasks[i].Question] = l.says
	}
	c.env.Model = model
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	outcomes, rollbacks := map[int]string{}, map[int]trajectory.Rollback{}
	found, err := rundir.Verify(os.DirFS(r.Dir), rundir.Options{Event: func(e trajectory.Event) error {
		switch p := e.Payload.(type) {
		case trajectory.AttemptEnded:
			i := index(e.TaskID)
			outcomes[i] = p.Outcome
			if p.Workspace == nil || p.Workspace.TreeSHA256 == "" {
				t.Fatalf("task %d: %+v", i, p)
			}
			got := *p.Workspace
			got.TreeSHA256 = ""
			if diff := cmp.Diff(lines[i].want, got); diff != "" {
				t.Errorf("task %d, %s: -want +got\n%s", i, p.Outcome, diff)
			}
		case trajectory.Rollback:
			rollbacks[index(e.TaskID)] = p
		}
		return nil
	}})
	if err != nil || !found.Complete {
		t.Fatalf("%v, %+v", err, found)
	}
	if want := map[int]string{0: trajectory.Answered, 1: trajectory.Answered, 2: trajectory.NoAnswer, 3: trajectory.Errored}; !cmp.Equal(outcomes, want) {
		t.Errorf("outcomes %v", outcomes)
	}
	done := rollbacks[1]
	if len(rollbacks) != 1 || done.TreeBefore == "" || done.TreeBefore != done.TreeAfter || done.TreeFound == done.TreeBefore || !cmp.Equal(done.Restored, []string{"notes.txt", "out"}) {
		t.Errorf("rollbacks %+v", rollbacks)
	}
	answers, salts, err := grading.ReadPrivate(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	report, _, err := audit.Run(os.DirFS(r.Dir), audit.Options{Gold: &audit.Gold{Answers: answers, Salt: salts.Salt}})
	if err != nil || !report.Attestation.Clean {
		t.Errorf("%v, %+v", err, report.Attestation)
	}
}
