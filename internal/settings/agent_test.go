package settings

import (
	"errors"
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
  env: [TZ, LANG]
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
	f.Agent.Apply(&got)
	want := plan.AgentPlan{Calls: 50, Command: []string{"/opt/venv/bin/python", "main.py"}, DiskBytes: 2 << 30, Env: []string{"LANG", "TZ"},
		Folders: []plan.AgentFolder{{Path: "/a"}, {Path: "/opt/venv"}}, MemoryBytes: 512 << 20, Models: map[string]string{"gpt-4o-mini": "gpt-4o-mini-2024-07-18"},
		Network: plan.NetworkHost, Processes: 64, Strip: true, TimeoutMs: (15 * time.Minute).Milliseconds(), Tools: plan.AgentToolsNone}
	if diff := cmp.Diff(want, got); diff != "" || f.Agent.Folder != "./my-agent" {
		t.Errorf("%s: %s", f.Agent.Folder, diff)
	}
	if f, err = Parse("s.yaml", []byte("agent:\n  folder: a")); err != nil {
		t.Fatal(err)
	}
	got = plan.DefaultAgent()
	f.Agent.Apply(&got)
	if diff := cmp.Diff(plan.DefaultAgent(), got); diff != "" {
		t.Error(diff)
	}
}

// TestAgentMistakes: a mistake of an own agent's settings has its place, and no secret is shown.
func TestAgentMistakes(t *testing.T) {
	const one = "agent:\n  folder: a\n"
	for file, want := range map[string]string{
		one:                                   "",
		"agent: ./my-agent":                   `s.yaml:1:8: agent is no mapping`,
		"agent: [a]":                          `s.yaml:1:8: agent is no mapping`,
		"agent:":                              `s.yaml:1:8: agent is no mapping`,
		"agent: {folder: a}":                  `s.yaml:1:8: "{" is more than settings need`,
		one + one:                             `s.yaml:3:1: mapping key "agent" already defined at [1:1]`,
		one + "  folder: b":                   `s.yaml:3:3: mapping key "folder" already defined at [2:3]`,
		one + "  colour: red":                 `s.yaml:3:3: colour: unknown field "colour"`,
		one + "  network:":                    `s.yaml:3:3: network of agent has no value`,
		one + "  network: record":             `s.yaml:3:3: network of agent: record is not available in this version`,
		one + "  network: lan":                `s.yaml:3:3: network of agent: it is "lan"`,
		one + "  network: [none]":             `s.yaml:3:12: network: cannot unmarshal []interface {} into Go struct field Agent.Network of type string`,
		one + "  tools: all":                  `s.yaml:3:3: tools of agent: they are "all"`,
		one + "  command: []":                 `s.yaml:3:3: command of agent: it is empty`,
		one + "  command: main.py":            `s.yaml:3:12: command: string was used where sequence is expected`,
		one + "  command: [../main.py]":       `s.yaml:3:3: command of agent: the program "../main.py" is neither a path in the agent's folder nor an absolute one`,
		one + "  command: [a, \"\"]":          `s.yaml:3:3: command of agent: a text is empty`,
		one + "  command: [[a]]":              `s.yaml:3:13: there is a list in a list`,
		one + "  models: [a]":                 `s.yaml:3:11: models: sequence was used where mapping is expected`,
		one + "  models:\n    a: b c":         `s.yaml:3:3: models of agent: a name of a model is empty or has spaces`,
		one + "  models:\n    a:\n      b: c": `s.yaml:5:8: models: cannot unmarshal map[string]interface {} into Go struct field Agent.Models of type string`,
		one + "  env: [a b]":                  `s.yaml:3:3: env of agent: it is to have names of variables of the environment`,
		one + "  env: [TOKEN=hush]":           `s.yaml:3:3: env of agent: it is to have names of variables of the environment`,
		one + "  env: [A, B, A]":              `s.yaml:3:3: env of agent: the variable A is repeated`,
		one + "  env: [OPENAI_API_KEY]":       `s.yaml:3:3: env of agent: the variable OPENAI_API_KEY is set by the run, or is a key that no agent is given`,
		one + "  env: [HF_TOKEN]":             `s.yaml:3:3: env of agent: the variable HF_TOKEN is set by the run, or is a key that no agent is given`,
		one + "  env: [sk-abcdefgh1]":         "s.yaml:3:9: env holds what looks like a key: secrets do not belong into the file",
		one + "  command: [a, sk-abcdefgh1]":  "s.yaml:3:16: command holds what looks like a key: secrets do not belong into the file",
		one + "  timeout: 15":                 `s.yaml:3:3: timeout of agent: "15" is not a time from 1s to 168h0m0s`,
		one + "  timeout: 1ms":                `s.yaml:3:3: timeout of agent: "1ms" is not a time from 1s to 168h0m0s`,
		one + "  timeout: \"\"":               `s.yaml:3:3: timeout of agent: "" is not a time from 1s to 168h0m0s`,
		one + "  memory: 4":                   `s.yaml:3:3: memory of agent: "4" is not a size from 16 MiB to 1024 GiB`,
		one + "  memory: 1 MiB":               `s.yaml:3:3: memory of agent: "1 MiB" is not a size from 16 MiB to 1024 GiB`,
		one + "  memory: 9999999999 GiB":      `s.yaml:3:3: memory of agent: "9999999999 GiB" is not a size from 16 MiB to 1024 GiB`,
		one + "  disk: 1 TiB":                 `s.yaml:3:3: disk of agent: "1 TiB" is not a size from 1 MiB to 1024 GiB`,
		one + "  processes: 0":                `s.yaml:3:3: processes of agent: 0 is not a number from 1 to 65536`,
		one + "  processes: many":             `s.yaml:3:14: processes: cannot unmarshal string into Go struct field Agent.Processes of type int`,
		one + "  calls: -1":                   `s.yaml:3:3: calls of agent: -1 is not a number from 1 to 1000000`,
		one + "  strip: yes":                  `s.yaml:3:10: strip: cannot unmarshal string into Go struct field Agent.Strip of type bool`,
		"agent-timeout: 5m":                   `s.yaml:1:1: "agent-timeout" is for the command line alone`,
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
