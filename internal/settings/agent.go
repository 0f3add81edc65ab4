package settings

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/goccy/go-yaml/ast"
	"github.com/jedib0t/go-pretty/v6/text"
)

// agentKey is the mapping of an own agent.
const agentKey = "agent"

// Agent is what the settings say of an own agent. What is left out is as the plan has it. The doc tags are rows of
// docs/reference-settings.md, with the default before the semicolon.
type Agent struct {
	Folder    string            `yaml:"folder" doc:"--agent; folder of the agent"` // or the name of a recipe
	Command   []string          `yaml:"command" doc:"agent; program, in the folder or by an absolute path, and its arguments"`
	Folders   []string          `yaml:"folders" doc:"none; other folders that the agent can read"`
	Network   string            `yaml:"network" doc:"none; none, record, or host: no run with host can be submitted"`
	Tools     string            `yaml:"tools" doc:"gate; gate offers the tools of gaia, none offers no tool"`
	Models    map[string]string `yaml:"models" doc:"none; for each model that the agent may also ask, its name in replies"`
	Env       []string          `yaml:"env" doc:"none; names of variables of the environment that the agent receives"`
	Timeout   string            `yaml:"timeout" doc:"max-task-time, else 30m; maximum time of an attempt"`
	Memory    string            `yaml:"memory" doc:"4 GiB; memory of all its processes"`
	Processes int               `yaml:"processes" doc:"256; processes at once"`
	Disk      string            `yaml:"disk" doc:"1 GiB; size of the working folder"`
	Calls     int               `yaml:"calls" doc:"2000; model calls of an attempt"`
	Strip     *bool             `yaml:"strip" doc:"false; true removes tools that the provider runs from requests"`

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
	case slices.Contains(a.Command, ""):
		return "command", "a text is empty", leave
	case slices.Contains(a.Folders, ""):
		return "folders", "a text is empty", leave
	case len(a.Command) > 0 && !plan.ProgramPath(a.Command[0]):
		return "command", fmt.Sprintf("the program %q is neither a path in the agent's folder nor an absolute one", text.Trim(a.Command[0], shownWidth)),
			"such as command: [main.py]"
	case len(a.Folders) >= plan.MaxAgentFolders:
		return "folders", fmt.Sprintf("there are %d, and at most %d", len(a.Folders), plan.MaxAgentFolders-1), "name a folder that holds them"
	case !slices.Contains([]string{"", plan.NetworkNone, plan.NetworkRecord, plan.NetworkHost}, a.Network):
		return "network", fmt.Sprintf("it is %q", text.Trim(a.Network, shownWidth)), "give none (the default), record, or host, with which no run can be submitted"
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
		case !plan.EnvName().MatchString(name):
			return "env", "it is to have names of variables of the environment", "put the value into the environment, and its name here, such as env: [TZ]"
		case plan.SetForAgent(name, a.Network):
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

// apply sets what the settings say of an agent in its plan, but for its folder. Of the folders it sets the paths.
func (a *Agent) apply(p *plan.AgentPlan) {
	p.TimeoutMs = cmp.Or(a.timeout.Milliseconds(), p.TimeoutMs)
	p.MemoryBytes, p.DiskBytes = cmp.Or(a.memory, p.MemoryBytes), cmp.Or(a.disk, p.DiskBytes)
	p.Processes, p.Calls = cmp.Or(a.Processes, p.Processes), cmp.Or(a.Calls, p.Calls)
	p.Network, p.Tools = cmp.Or(a.Network, p.Network), cmp.Or(a.Tools, p.Tools)
	if len(a.Command) > 0 {
		p.Command = a.Command
	}
	if len(a.Folders) > 0 {
		p.Folders = p.Folders[:min(len(p.Folders), 1)]
		for _, path := range a.Folders {
			p.Folders = append(p.Folders, plan.AgentFolder{Path: path})
		}
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

// AgentFlags are the flags of an own agent.
type AgentFlags struct {
	Folder    string // of --agent; "" is that of the settings or the plan
	TimeoutMs int64  // 0 is that of the settings or the plan
	Unsafe    bool   // it runs outside of the sandbox
}

// OwnAgent returns the own agent of a run, nil if there is none: that of the flags, of the plan to repeat, or of the settings, with
// what the settings have for it. Of its folders it has the paths. p is the plan so far; repeats reports whether it is one that is
// repeated.
func (f *File) OwnAgent(flags AgentFlags, p plan.Plan, repeats bool) (*plan.AgentPlan, error) {
	own, folder := plan.DefaultAgent(), flags.Folder
	var written *Agent
	if f != nil && (!repeats || folder != "") { // else the plan to repeat has decided
		written = f.Agent
	}
	switch {
	case p.Agent != nil:
		own = *p.Agent
		if own.Folders = slices.Clone(own.Folders); own.Unconfined { // which no plan passes on
			own.Unconfined, own.Network = false, plan.NetworkNone
		}
	case written == nil && folder == "":
		for flag, given := range map[string]bool{"unsafe-local-agent": flags.Unsafe, "agent-timeout": flags.TimeoutMs != 0} {
			if given {
				return nil, exit.Usagef("give --agent DIR, or leave it out", "--%s is of an agent of your own", flag)
			}
		}
		return nil, nil
	default:
		own.TimeoutMs = cmp.Or(p.Budgets.WallMs, own.TimeoutMs)
		own.Folders = []plan.AgentFolder{{}}
		if written != nil {
			written.apply(&own)
			folder = cmp.Or(folder, written.Folder)
		}
		if folder == "" {
			return nil, exit.Usagef("write folder: DIR below agent, or give --agent DIR", "the settings %q have an agent without a folder", f.Name)
		}
	}
	if folder != "" {
		if info, err := os.Stat(folder); (err != nil || !info.IsDir()) && !strings.ContainsRune(folder, filepath.Separator) {
			return nil, exit.Usagef("give the path of a folder; to begin with a recipe: gaia agent init "+view.Quote(folder)+" DIR, then --agent DIR", "the agent %q is no folder here", folder)
		}
		path, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		own.Folders[0].Path, own.Name = path, filepath.Base(path)
	}
	own.TimeoutMs = cmp.Or(flags.TimeoutMs, own.TimeoutMs)
	if p.Budgets.WallMs > 0 {
		own.TimeoutMs = min(own.TimeoutMs, p.Budgets.WallMs)
	}
	if flags.Unsafe {
		own.Unconfined, own.Network = true, plan.NetworkHost
	}
	return &own, nil
}

// CheckAgent rejects what a run with the own agent of a plan cannot have. changed reports which flags were given or are of the
// settings, which name so many MCP servers.
func CheckAgent(p plan.Plan, servers int, changed func(string) bool) error {
	for _, flag := range []string{"api", "cassette", "context-window", "images", "max-turns", "stop-sequence"} {
		if changed(flag) {
			return exit.Usagef("leave it out; calls below agent in gaia.yaml bounds the model calls of an attempt", "--%s is of the built-in agent, and --agent runs another", flag)
		}
	}
	if p.Agent.Tools == plan.AgentToolsNone {
		for _, flag := range []string{"approve", "search", "searxng-url", "transcription-model", "unsafe-local-python", "vision-model"} {
			if changed(flag) {
				return exit.Usagef("leave it out, or give the agent 'tools: gate'", "--%s is of tools, and the agent has 'tools: none'", flag)
			}
		}
		if servers > 0 {
			return exit.Usagef("leave out mcp, or give the agent 'tools: gate'", "the settings have MCP servers, and the agent has 'tools: none'")
		}
	}
	switch {
	case p.Agent.Unconfined && p.SubmitIntent:
		return exit.Usagef("leave one of them out; 'gaia doctor' shows what a sandbox needs", "--unsafe-local-agent runs an agent that nothing confines, so such a run cannot be submitted")
	case p.Agent.Network == plan.NetworkHost && p.SubmitIntent:
		return exit.Usagef("give 'network: record', with which all that it reaches is recorded; or leave out --submit-intent", "the agent would have the network, and nothing records what it reaches, so such a run cannot be submitted")
	}
	return nil
}

// AgentEnv returns the variables that an own agent is given, as NAME=value. A key of the run's is none of them, whatever it is
// called.
func AgentEnv(names []string, getenv func(string) string, keys ...string) (env []string, err error) {
	for _, name := range names {
		value := getenv(name)
		switch {
		case value == "":
			return nil, exit.Usagef("set it, or take it out of env below agent", "the agent is to be given %s, which is not set", name)
		case slices.Contains(keys, value):
			return nil, exit.Usagef("take it out of env below agent: the run adds the key to requests", "%s has the value of a key, which no agent is given", name)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}
