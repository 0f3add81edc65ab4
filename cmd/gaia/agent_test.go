package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/trial"
	"github.com/go-json-experiment/json"
)

// confiningProgram is one with the programs of this machine, among them bubblewrap: without it the test is skipped.
func confiningProgram(t *testing.T) program {
	t.Helper()
	if err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").Run(); err != nil {
		t.Skipf("SKIPPED: no agent is run here, since bubblewrap does not work: %v", err)
	}
	p := newProgram(t)
	p.env = append(p.env, "PATH="+os.Getenv("PATH"))
	return p
}

// agentFolder makes the folder of an agent with one program.
func agentFolder(t *testing.T, program []byte) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "agent") // the temporary folder of tests can be below /dev, where the sandbox has other files
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.WriteFile(filepath.Join(folder, "agent"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestQuickStartAgents: the agents of docs/agents.md answer a task of the rehearsal, each in its way.
func TestQuickStartAgents(t *testing.T) {
	t.Parallel()
	p := confiningProgram(t)
	source := filepath.Join(root(t), "examples", "agents", "testdata", "quickstart")
	for _, c := range []struct{ name, rule, needs string }{{"python", "final-answer.v1", "/usr/bin/python3"}, {"go", "answer-file.v1", ""}, {"shell", "submit-answer.v1", "/usr/bin/jq /usr/bin/curl"}} {
		t.Run(c.name, func(t *testing.T) {
			for _, needed := range strings.Fields(c.needs) {
				if _, err := os.Stat(needed); err != nil {
					t.Skipf("SKIPPED: the agent needs %s", needed)
				}
			}
			program, err := os.ReadFile(filepath.Join(source, c.name, "agent"))
			if err != nil && c.name != "go" {
				t.Fatal(err)
			}
			folder := agentFolder(t, program) // the project may lie where no agent can be
			if c.name == "go" {
				build := exec.Command("go", "build", "-o", filepath.Join(folder, "agent"), filepath.Join(source, c.name, "main.go"))
				build.Env = append(os.Environ(), "CGO_ENABLED=0")
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			var r trial.Report
			if err := json.Unmarshal([]byte(p.want(exit.OK, "agent", "try", folder, "--json")), &r); err != nil {
				t.Fatal(err)
			}
			if r.Answer == nil || *r.Answer != "22559" || r.Rule != c.rule || !r.InReply || r.Correct == nil || !*r.Correct || len(r.Calls) != 1 || r.Calls[0].Status != 200 {
				t.Errorf("%+v", r)
			}
		})
	}
	if left, err := os.ReadDir(p.dir); err != nil || len(left) > 0 {
		t.Errorf("try leaves %v, %v", left, err)
	}
}

// TestTryExplains: a broken agent is explained on one screen.
func TestTryExplains(t *testing.T) {
	t.Parallel()
	p := confiningProgram(t)
	post := "#!/usr/bin/python3\nimport json, os, urllib.request\n" +
		"def post(url, body):\n    r = urllib.request.Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})\n    return urllib.request.urlopen(r).read()\n"
	for name, c := range map[string]struct {
		program string
		want    []string
	}{
		"exits at once":   {"#!/bin/sh\n", []string{"The agent asked no model.", "The agent exited without an answer.", "exit code 0"}},
		"crashes":         {post + "print([][1])\n", []string{"The agent crashed: IndexError: list index out of range.", "exit code 1"}},
		"another model":   {post + "post(os.environ['OPENAI_BASE_URL'] + '/responses', {'model': 'gpt-4o', 'input': 'hello'})\n", []string{`asked for the model "gpt-4o", which is not planned`, "POST /v1/responses: model_not_planned, status 400"}},
		"state":           {post + "post(os.environ['OPENAI_BASE_URL'] + '/responses', {'model': os.environ['GAIA_MODEL'], 'input': 'hello', 'previous_response_id': 'r'})\n", []string{"state_not_recorded", "send the whole input"}},
		"the network":     {post + "urllib.request.urlopen('https://example.org')\n", []string{"tried to reach the network"}},
		"no such program": {"#!/bin/sh\nexec nosuchprogram\n", []string{"did not find nosuchprogram", "exit code 127"}},
		"no answer":       {post + "post(os.environ['OPENAI_BASE_URL'] + '/chat/completions', {'model': os.environ['GAIA_MODEL'], 'messages': [{'role': 'user', 'content': 'hello'}]})\n", []string{"1 call of chat to", "The agent exited without an answer."}},
	} {
		t.Run(name, func(t *testing.T) {
			out := p.want(exit.Findings, "agent", "try", agentFolder(t, []byte(c.program)))
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("it is not said that %q:\n%s", want, out)
				}
			}
			if lines := strings.Count(out, "\n"); lines > 40 {
				t.Errorf("%d lines:\n%s", lines, out)
			}
		})
	}
	folder := agentFolder(t, []byte("#!/bin/sh\n"))
	if err := os.Chmod(filepath.Join(folder, "agent"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := p.want(exit.Usage, "agent", "try", folder); !strings.Contains(out, "chmod +x") {
		t.Errorf("a program without the bit: %s", out)
	}
}

// TestAgentCommands: recipes are listed and copied, and a folder is checked.
func TestAgentCommands(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	if out := p.want(exit.OK, "agent", "list"); strings.Count(out, "\n") < 6 || !strings.Contains(out, "smolagents") {
		t.Errorf("list prints %s", out)
	}
	if out := p.want(exit.OK, "agent", "init", "codex"); !strings.Contains(out, "./codex/install") || !strings.Contains(out, "gaia run --agent ./codex") {
		t.Errorf("init prints %s", out)
	}
	p.want(exit.Usage, "agent", "init", "codex")
	p.want(exit.Usage, "agent", "init", "no-such")
	p.want(exit.Usage, "agent", "try")
	if out := p.want(exit.Findings, "agent", "doctor", agentFolder(t, []byte("#!/usr/bin/nosuch\n"))); !strings.Contains(out, "/usr/bin/nosuch is not there") {
		t.Errorf("doctor prints %s", out)
	}
	p.env = append(p.env, "OPENAI_API_KEY=sk-invented-0123456789", "SPOKEN=sk-invented-0123456789")
	block := "agent:\n  folder: " + agentFolder(t, []byte("#!/bin/sh\n")) + "\n  env: [SPOKEN]\n"
	if err := os.WriteFile(filepath.Join(p.dir, "gaia.yaml"), []byte(block), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := p.want(exit.Usage, "agent", "try"); !strings.Contains(out, "SPOKEN has the value of a key") {
		t.Errorf("try prints %s", out)
	}
	if out := p.want(exit.OK, "__complete", "agent", "init", ""); !slices.Contains(strings.Fields(out), "openai-agents") {
		t.Errorf("the completion is %s", out)
	}
}
