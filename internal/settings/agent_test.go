package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// TestAgent: what the settings say of an own agent becomes its plan, and the rest stays.
func TestAgent(t *testing.T) {
	f, err := Parse("s.yaml", []byte(`model: gpt-4o
agent:
  folder: ./my-agent
  command: [/opt/venv/bin/python, main.py]
  folders:
    - /opt/venv
  network: host
  tools: none
  models:
    gpt-4o-mini: gpt-4o-mini-2024-07-18
  env: [TZ, LC_TIME]
  timeout: 15m
  memory: 512 MiB
  processes: 64
  disk: 2GiB
  calls: 50
  strip: true
limit: 3
`))
	if err != nil {
		t.Fatal(err)
	}
	got := plan.DefaultAgent()
	got.Folders = []plan.AgentFolder{{Path: "/a"}, {Path: "/b"}}
	f.Agent.apply(&got)
	want := plan.AgentPlan{Calls: 50, Command: []string{"/opt/venv/bin/python", "main.py"}, DiskBytes: 2 << 30, Env: []string{"LC_TIME", "TZ"},
		Folders: []plan.AgentFolder{{Path: "/a"}, {Path: "/opt/venv"}}, MemoryBytes: 512 << 20, Models: map[string]string{"gpt-4o-mini": "gpt-4o-mini-2024-07-18"},
		Network: plan.NetworkHost, Processes: 64, Strip: true, TimeoutMs: (15 * time.Minute).Milliseconds(), Tools: plan.AgentToolsNone}
	if diff := cmp.Diff(want, got); diff != "" || f.Agent.Folder != "./my-agent" {
		t.Errorf("%s: %s", f.Agent.Folder, diff)
	}
	if f, err = Parse("s.yaml", []byte("agent:\n  folder: a")); err != nil {
		t.Fatal(err)
	}
	got = plan.DefaultAgent()
	f.Agent.apply(&got)
	if diff := cmp.Diff(plan.DefaultAgent(), got); diff != "" {
		t.Error(diff)
	}
}

// TestAgentMistakes: a mistake of an own agent's settings has its place, and no secret is shown.
func TestAgentMistakes(t *testing.T) {
	const one = "agent:\n  folder: a\n"
	for file, want := range map[string]string{
		one:                                             "",
		"agent: ./my-agent":                             `s.yaml:1:8: agent is no mapping`,
		"agent: [a]":                                    `s.yaml:1:8: agent is no mapping`,
		"agent:":                                        `s.yaml:1:8: agent is no mapping`,
		"agent: {folder: a}":                            `s.yaml:1:8: "{" is more than settings need`,
		one + one:                                       `s.yaml:3:1: mapping key "agent" already defined at [1:1]`,
		one + "  folder: b":                             `s.yaml:3:3: mapping key "folder" already defined at [2:3]`,
		one + "  colour: red":                           `s.yaml:3:3: colour: unknown field "colour"`,
		one + "  network:":                              `s.yaml:3:3: network of agent has no value`,
		one + "  network: record":                       "",
		one + "  network: lan":                          `s.yaml:3:3: network of agent: it is "lan"`,
		one + "  network: [none]":                       `s.yaml:3:12: network: cannot unmarshal []interface {} into Go struct field Agent.Network of type string`,
		one + "  tools: all":                            `s.yaml:3:3: tools of agent: they are "all"`,
		one + "  command: []":                           `s.yaml:3:3: command of agent: it is empty`,
		one + "  command: main.py":                      `s.yaml:3:12: command: string was used where sequence is expected`,
		one + "  command: [../main.py]":                 `s.yaml:3:3: command of agent: the program "../main.py" is neither a path in the agent's folder nor an absolute one`,
		one + "  command: [a, \"\"]":                    `s.yaml:3:3: command of agent: a text is empty`,
		one + "  folders: [\"\"]":                       `s.yaml:3:3: folders of agent: a text is empty`,
		one + "  command: [[a]]":                        `s.yaml:3:13: there is a list in a list`,
		one + "  models: [a]":                           `s.yaml:3:11: models: sequence was used where mapping is expected`,
		one + "  models:\n    a: b c":                   `s.yaml:3:3: models of agent: a name of a model is empty or has spaces`,
		one + "  models:\n    a:\n      b: c":           `s.yaml:5:8: models: cannot unmarshal map[string]interface {} into Go struct field Agent.Models of type string`,
		one + "  env: [a b]":                            `s.yaml:3:3: env of agent: it is to have names of variables of the environment`,
		one + "  env: [TOKEN=hush]":                     `s.yaml:3:3: env of agent: it is to have names of variables of the environment`,
		one + "  env: [A, B, A]":                        `s.yaml:3:3: env of agent: the variable A is repeated`,
		one + "  env: [OPENAI_API_KEY]":                 `s.yaml:3:3: env of agent: the variable OPENAI_API_KEY is set by the run, or is a key that no agent is given`,
		one + "  env: [HF_TOKEN]":                       `s.yaml:3:3: env of agent: the variable HF_TOKEN is set by the run, or is a key that no agent is given`,
		one + "  env: [HTTPS_PROXY]":                    "",
		one + "  network: record\n  env: [https_proxy]": `s.yaml:4:3: env of agent: the variable https_proxy is set by the run, or is a key that no agent is given`,
		one + "  env: [sk-abcdefgh1]":                   "s.yaml:3:9: env holds what looks like a key: secrets do not belong into the file",
		one + "  command: [a, sk-abcdefgh1]":            "s.yaml:3:16: command holds what looks like a key: secrets do not belong into the file",
		one + "  timeout: 15":                           `s.yaml:3:3: timeout of agent: "15" is not a time from 1s to 168h0m0s`,
		one + "  timeout: 1ms":                          `s.yaml:3:3: timeout of agent: "1ms" is not a time from 1s to 168h0m0s`,
		one + "  timeout: \"\"":                         `s.yaml:3:3: timeout of agent: "" is not a time from 1s to 168h0m0s`,
		one + "  memory: 4":                             `s.yaml:3:3: memory of agent: "4" is not a size from 16 MiB to 1024 GiB`,
		one + "  memory: 1 MiB":                         `s.yaml:3:3: memory of agent: "1 MiB" is not a size from 16 MiB to 1024 GiB`,
		one + "  memory: 9999999999 GiB":                `s.yaml:3:3: memory of agent: "9999999999 GiB" is not a size from 16 MiB to 1024 GiB`,
		one + "  disk: 1 TiB":                           `s.yaml:3:3: disk of agent: "1 TiB" is not a size from 1 MiB to 1024 GiB`,
		one + "  processes: 0":                          `s.yaml:3:3: processes of agent: 0 is not a number from 1 to 65536`,
		one + "  processes: many":                       `s.yaml:3:14: processes: cannot unmarshal string into Go struct field Agent.Processes of type int`,
		one + "  calls: -1":                             `s.yaml:3:3: calls of agent: -1 is not a number from 1 to 1000000`,
		one + "  strip: yes":                            `s.yaml:3:10: strip: cannot unmarshal string into Go struct field Agent.Strip of type bool`,
		"agent-timeout: 5m":                             `s.yaml:1:1: "agent-timeout" is for the command line alone`,
	} {
		t.Run(file, func(t *testing.T) {
			f, err := Parse("s.yaml", []byte(file))
			if err == nil {
				err = f.Apply(pflag.NewFlagSet("run", pflag.ContinueOnError), nothing)
			}
			var got *Error
			if errors.As(err, &got) != (want != "") || got != nil && got.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestOwnAgent: flags are stronger than the plan to repeat, and that is stronger than the settings.
func TestOwnAgent(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := Parse("s.yaml", []byte("agent:\n  folder: a\n  calls: 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := Parse("s.yaml", []byte("agent:\n  calls: 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	repeated := plan.DefaultAgent()
	repeated.Name, repeated.Calls, repeated.Network, repeated.Unconfined, repeated.Folders = "old", 5, plan.NetworkHost, true, []plan.AgentFolder{{Path: "/old"}, {Path: "/more"}}
	timed, wall := plan.Plan{}, (time.Hour).Milliseconds()
	timed.Budgets.WallMs = wall
	half := (30 * time.Minute).Milliseconds()
	for name, tt := range map[string]struct {
		file    *File
		flags   AgentFlags
		plan    plan.Plan
		repeats bool
		want    string // name, number of folders, calls, time, network; or the error
	}{
		"none":                  {nil, AgentFlags{}, plan.Plan{}, false, "none"},
		"settings":              {file, AgentFlags{}, plan.Plan{}, false, fmt.Sprint("a 1 7 ", half, " none")},
		"flag":                  {nil, AgentFlags{Folder: "a/b"}, plan.Plan{}, false, fmt.Sprint("b 1 2000 ", half, " none")},
		"both":                  {file, AgentFlags{Folder: "a/b"}, plan.Plan{}, false, fmt.Sprint("b 1 7 ", half, " none")},
		"no folder":             {empty, AgentFlags{}, plan.Plan{}, false, `the settings "s.yaml" have an agent without a folder`},
		"repeated":              {file, AgentFlags{}, plan.Plan{Agent: &repeated}, true, fmt.Sprint("old 2 5 ", half, " none")},
		"repeated and flag":     {file, AgentFlags{Folder: "a/b"}, plan.Plan{Agent: &repeated}, true, fmt.Sprint("b 2 5 ", half, " none")},
		"repeated built-in":     {file, AgentFlags{}, plan.Plan{}, true, "none"},
		"unsafe":                {nil, AgentFlags{Folder: "a", Unsafe: true}, plan.Plan{}, false, fmt.Sprint("a 1 2000 ", half, " host")},
		"unsafe without":        {nil, AgentFlags{Unsafe: true}, plan.Plan{}, false, "--unsafe-local-agent is of an agent of your own"},
		"time without":          {nil, AgentFlags{TimeoutMs: 1}, plan.Plan{}, false, "--agent-timeout is of an agent of your own"},
		"time of a task":        {nil, AgentFlags{Folder: "a"}, timed, false, fmt.Sprint("a 1 2000 ", wall, " none")},
		"no longer than a task": {nil, AgentFlags{Folder: "a", TimeoutMs: 2 * wall}, timed, false, fmt.Sprint("a 1 2000 ", wall, " none")},
		"a recipe":              {nil, AgentFlags{Folder: "codex"}, plan.Plan{}, false, `the agent "codex" is no folder here`},
	} {
		own, err := tt.file.OwnAgent(tt.flags, tt.plan, tt.repeats)
		got := "none"
		if err != nil {
			got = err.Error()
		} else if own != nil {
			got = fmt.Sprint(own.Name, " ", len(own.Folders), " ", own.Calls, " ", own.TimeoutMs, " ", own.Network)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if !repeated.Unconfined {
		t.Error("the plan to repeat was changed")
	}
}

// TestAgentEnv: an agent is given what is set, and no key under another name.
func TestAgentEnv(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"A": "1", "B": "hush"}[name] }
	if got, err := AgentEnv([]string{"A"}, getenv, "hush", ""); err != nil || !slices.Equal(got, []string{"A=1"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"B", "C"} {
		if got, err := AgentEnv([]string{"A", name}, getenv, "hush", ""); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
