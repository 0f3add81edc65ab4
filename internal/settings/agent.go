package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/goccy/go-yaml/ast"
	"github.com/jedib0t/go-pretty/v6/text"
)

// agentKey is the mapping of an own agent.
const agentKey = "agent"

// Agent is what the settings say of an own agent. What is left out is as the plan has it.
type Agent struct {
	Folder    string            `yaml:"folder"` // or the name of a recipe
	Command   []string          `yaml:"command"`
	Folders   []string          `yaml:"folders"` // that it can read besides
	Network   string            `yaml:"network"`
	Tools     string            `yaml:"tools"`
	Models    map[string]string `yaml:"models"`
	Env       []string          `yaml:"env"`
	Timeout   string            `yaml:"timeout"`
	Memory    string            `yaml:"memory"`
	Processes int               `yaml:"processes"`
	Disk      string            `yaml:"disk"`
	Calls     int               `yaml:"calls"`
	Strip     *bool             `yaml:"strip"`

	timeout      time.Duration
	memory, disk int64
}

const agentHint = "agent has folder, command, folders, network, tools, models, env, timeout, memory, processes, disk, calls and strip: see docs/agents.md"

// takeAgent takes the mapping of an own agent.
func (f *File) takeAgent(node ast.Node) error {
	var a Agent
	if pairsOf(node) == nil {
		return f.wrong(node.GetToken(), "write the folder below it, as folder: DIR, or give it as --agent", "%s is no mapping", agentKey)
	}
	for _, pair := range pairsOf(node) {
		if pair.Value.Type() == ast.NullType {
			return f.wrong(pair.Key.GetToken(), "give it a value, or leave it out", "%s of agent has no value", text.Trim(pair.Key.String(), shownWidth))
		}
	}
	if err := f.decode(node, &a, agentHint); err != nil {
		return err
	}
	given := func(key string) bool { return member(node, key) != node }
	if key, reason, hint := a.check(given); reason != "" {
		return f.wrong(member(node, key).GetToken(), hint, "%s of agent: %s", key, reason)
	}
	slices.Sort(a.Env)
	f.Agent = &a
	return nil
}

// check returns the key of a mistake, what is wrong and a hint; no reason if nothing is. given reports which keys there are.
func (a *Agent) check(given func(string) bool) (key, reason, hint string) {
	const leave = "give it a value, or leave it out"
	for key, is := range map[string]bool{"folder": a.Folder == "", "command": len(a.Command) == 0, "folders": len(a.Folders) == 0,
		"models": len(a.Models) == 0, "env": len(a.Env) == 0, "network": a.Network == "", "tools": a.Tools == ""} {
		if given(key) && is {
			return key, "it is empty", leave
		}
	}
	var ok bool
	if a.timeout, ok = time.Duration(0), !given("timeout"); !ok {
		var err error
		if a.timeout, err = time.ParseDuration(a.Timeout); err != nil || a.timeout < plan.MinAgentTime || a.timeout > plan.MaxAgentTime {
			return "timeout", fmt.Sprintf("%q is not a time from %s to %s", text.Trim(a.Timeout, shownWidth), plan.MinAgentTime, plan.MaxAgentTime), "such as timeout: 15m"
		}
	}
	if a.memory, ok = size(a.Memory, plan.MinAgentMemory, plan.MaxAgentMemory); !ok && given("memory") {
		return "memory", fmt.Sprintf("%q is not a size from 16 MiB to 1024 GiB", text.Trim(a.Memory, shownWidth)), "such as memory: 4 GiB"
	}
	if a.disk, ok = size(a.Disk, plan.MinAgentDisk, plan.MaxAgentDisk); !ok && given("disk") {
		return "disk", fmt.Sprintf("%q is not a size from 1 MiB to 1024 GiB", text.Trim(a.Disk, shownWidth)), "such as disk: 1 GiB"
	}
	switch {
	case slices.Contains(slices.Concat(a.Folders, a.Command), ""):
		return "command", "a text is empty", leave
	case len(a.Command) > 0 && !plan.ProgramPath(a.Command[0]):
		return "command", fmt.Sprintf("the program %q is neither a path in the agent's folder nor an absolute one", text.Trim(a.Command[0], shownWidth)),
			"such as command: [main.py]"
	case len(a.Folders) >= plan.MaxAgentFolders:
		return "folders", fmt.Sprintf("there are %d, and at most %d", len(a.Folders), plan.MaxAgentFolders-1), "name a folder that holds them"
	case a.Network == "record":
		return "network", "record is not available in this version", "give none (the default), or host, with which no run can be submitted"
	case a.Network != "" && a.Network != plan.NetworkNone && a.Network != plan.NetworkHost:
		return "network", fmt.Sprintf("it is %q", text.Trim(a.Network, shownWidth)), "give none (the default) or host"
	case a.Tools != "" && a.Tools != plan.AgentToolsGate && a.Tools != plan.AgentToolsNone:
		return "tools", fmt.Sprintf("they are %q", text.Trim(a.Tools, shownWidth)), "give gate (the default), or none for an agent with tools in itself"
	case given("processes") && (a.Processes < 1 || a.Processes > plan.MaxAgentProcesses):
		return "processes", fmt.Sprintf("%d is not a number from 1 to %d", a.Processes, plan.MaxAgentProcesses), ""
	case given("calls") && (a.Calls < 1 || a.Calls > plan.MaxAgentCalls):
		return "calls", fmt.Sprintf("%d is not a number from 1 to %d", a.Calls, plan.MaxAgentCalls), ""
	case len(a.Models) > plan.MaxAgentModels:
		return "models", fmt.Sprintf("there are %d, and at most %d", len(a.Models), plan.MaxAgentModels), ""
	case len(a.Env) > plan.MaxAgentEnv:
		return "env", fmt.Sprintf("there are %d, and at most %d", len(a.Env), plan.MaxAgentEnv), ""
	}
	for asked, served := range a.Models {
		if asked == "" || served == "" || strings.ContainsAny(asked+served, " \t\n") {
			return "models", "a name of a model is empty or has spaces", "write the name that the agent asks for, and the name that replies have, such as gpt-4o-mini: gpt-4o-mini-2024-07-18"
		}
	}
	for i, name := range a.Env {
		switch {
		case !regexp.MustCompile(plan.EnvName).MatchString(name):
			return "env", "it is to have names of variables of the environment", "put the value into the environment, and its name here, such as env: [TZ]"
		case plan.SetForAgent(name):
			return "env", fmt.Sprintf("the variable %s is set by the run, or is a key that no agent is given", name), "leave it out"
		case slices.Contains(a.Env[:i], name):
			return "env", fmt.Sprintf("the variable %s is repeated", name), "leave one of them"
		}
	}
	return "", "", ""
}

// size reads a size such as 4 GiB.
func size(s string, least, most int64) (bytes int64, ok bool) {
	m := regexp.MustCompile(`^([1-9][0-9]{0,9}) ?(MiB|GiB)$`).FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if bytes = n << 20; m[2] == "GiB" {
		bytes = n << 30
	}
	return bytes, err == nil && bytes >= least && bytes <= most
}

// Apply sets what the settings say of an agent in its plan, but for its folder. Of the folders it sets the paths.
func (a *Agent) Apply(p *plan.AgentPlan) {
	set := func(to *int64, n int64) {
		if n > 0 {
			*to = n
		}
	}
	set(&p.TimeoutMs, a.timeout.Milliseconds())
	set(&p.MemoryBytes, a.memory)
	set(&p.DiskBytes, a.disk)
	if a.Processes > 0 {
		p.Processes = a.Processes
	}
	if a.Calls > 0 {
		p.Calls = a.Calls
	}
	if len(a.Command) > 0 {
		p.Command = a.Command
	}
	if len(a.Folders) > 0 {
		p.Folders = p.Folders[:min(len(p.Folders), 1)]
		for _, path := range a.Folders {
			p.Folders = append(p.Folders, plan.AgentFolder{Path: path})
		}
	}
	if a.Network != "" {
		p.Network = a.Network
	}
	if a.Tools != "" {
		p.Tools = a.Tools
	}
	if len(a.Models) > 0 {
		p.Models = a.Models
	}
	if len(a.Env) > 0 {
		p.Env = a.Env
	}
	if a.Strip != nil {
		p.Strip = *a.Strip
	}
}
