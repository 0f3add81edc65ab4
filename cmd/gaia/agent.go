package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

// ownAgent is the agent of the user's own that solves the tasks, as flags and settings name it.
type ownAgent struct {
	folder  string // of --agent; "" is that of the settings or the plan
	timeout int64  // in milliseconds; 0 is that of the settings or the plan
	unsafe  bool   // it runs outside of the sandbox

	files []byte   // plan.AgentFilesFile, once the folders are read
	env   []string // variables that it is given, with their values
}

// defaultMessagesURL is where models are that speak the messages dialect.
const defaultMessagesURL = "https://api.anthropic.com"

// addAgentFlags adds the flags of an own agent that a plan holds. The settings file has the others.
func (s *runSettings) addAgentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.own.folder, "agent", "", "folder of your own agent, with an executable named agent (default: the built-in agent; see docs/agents.md)")
	f.Var(cli.Duration(&s.own.timeout, plan.MinAgentTime, plan.MaxAgentTime), "agent-timeout", "maximum time of an attempt of --agent (default: --max-task-time, else 30m)")
	cli.CompleteDirs(cmd, "agent")
}

// settleAgent sets the own agent of the plan, if there is one: that of the flags, of the plan to repeat, or of the settings file,
// with the settings that the file has for it. changed reports which flags were given or are of the file.
func (a *app) settleAgent(s *runSettings, file *settings.File, changed func(string) bool) error {
	p, own, folder := &s.plan, plan.DefaultAgent(), s.own.folder
	var written *settings.Agent
	if file != nil && (s.like == nil || folder != "") { // else the plan to repeat has decided
		written = file.Agent
	}
	switch {
	case p.Agent != nil: // of the plan to repeat
		own = *p.Agent
		if own.Folders = slices.Clone(own.Folders); own.Unconfined { // which no plan passes on
			own.Unconfined, own.Network = false, plan.NetworkNone
		}
	case written == nil && folder == "":
		for flag, given := range map[string]bool{"unsafe-local-agent": s.own.unsafe, "agent-timeout": s.own.timeout != 0} {
			if given {
				return usage("give --agent DIR, or leave it out", "--%s is of an agent of your own", flag)
			}
		}
		return nil
	default:
		own.TimeoutMs = cmp.Or(p.Budgets.WallMs, own.TimeoutMs)
		own.Folders = []plan.AgentFolder{{}}
		if written != nil {
			written.Apply(&own)
			folder = cmp.Or(folder, written.Folder)
		}
		if folder == "" {
			return usage("write folder: DIR below agent, or give --agent DIR", "the settings %q have an agent without a folder", file.Name)
		}
	}
	if folder != "" {
		if info, err := os.Stat(folder); (err != nil || !info.IsDir()) && !strings.ContainsRune(folder, filepath.Separator) {
			return usage("give the path of a folder; to begin with a recipe: gaia agent init "+view.Quote(folder)+" DIR, then --agent DIR", "--agent %q is no folder here", folder)
		}
		path, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		own.Folders[0].Path, own.Name = path, filepath.Base(path)
	}
	own.TimeoutMs = cmp.Or(s.own.timeout, own.TimeoutMs)
	if p.Budgets.WallMs > 0 {
		own.TimeoutMs = min(own.TimeoutMs, p.Budgets.WallMs)
	}
	if s.own.unsafe {
		own.Unconfined, own.Network = true, plan.NetworkHost
	}
	p.Agent = &own
	for _, flag := range []string{"api", "cassette", "context-window", "images", "max-turns", "stop-sequence"} {
		if changed(flag) {
			return usage("leave it out; calls below agent in gaia.yaml bounds the model calls of an attempt", "--%s is of the built-in agent, and --agent runs another", flag)
		}
	}
	p.Budgets.Turns, p.Model.ContextWindow, p.Model.Stop, p.Model.Images, s.images = 0, 0, nil, false, imagesOff
	if own.Tools == plan.AgentToolsNone {
		for _, flag := range []string{"approve", "search", "searxng-url", "transcription-model", "unsafe-local-python", "vision-model"} {
			if changed(flag) {
				return usage("leave it out, or give the agent 'tools: gate'", "--%s is of tools, and the agent has 'tools: none'", flag)
			}
		}
		if len(s.servers) > 0 {
			return usage("leave out mcp, or give the agent 'tools: gate'", "the settings have MCP servers, and the agent has 'tools: none'")
		}
		s.vision, s.python, p.Transcription = noVision, pythonNo, nil
	}
	switch {
	case own.Unconfined && p.SubmitIntent:
		return usage("leave one of them out; 'gaia doctor' shows what a sandbox needs", "--unsafe-local-agent runs an agent that nothing confines, so such a run cannot be submitted")
	case own.Network == plan.NetworkHost && p.SubmitIntent:
		return usage("leave out --submit-intent, or 'network: host'", "the agent would have the network, and nothing records what it reaches, so such a run cannot be submitted")
	}
	return nil
}

// hasTools reports whether the agent of the run has tools behind the Gate.
func (s *runSettings) hasTools() bool {
	return s.plan.Agent == nil || s.plan.Agent.Tools == plan.AgentToolsGate
}

// messagesURL returns the endpoint of the messages dialect, and its key.
func (a *app) messagesURL() (base, key string) {
	return cmp.Or(a.getenv("ANTHROPIC_BASE_URL"), defaultMessagesURL), a.getenv("ANTHROPIC_API_KEY")
}

// readAgent completes the plan of an own agent with its folders, which are read now, and with where models are. It warns of what
// an agent can do that is not confined. Hidden are places that no agent may read.
func (a *app) readAgent(ctx context.Context, s *runSettings, noSandbox error) error {
	own := s.plan.Agent
	if own == nil {
		return nil
	}
	switch {
	case own.Unconfined:
		a.warn("the agent runs without a sandbox, as you, with your files and network; the run will not be submittable")
		s.plan.Unconfined = append(s.plan.Unconfined, plan.UnconfinedAgent)
	case noSandbox != nil:
		return fail(exit.Failure, fmt.Errorf("an agent of your own runs in a sandbox, and there is none: %w", noSandbox), unusableHint(noSandbox),
			"--unsafe-local-agent runs it without one, as you, with your files and network; such a run cannot be submitted")
	case own.Network == plan.NetworkHost:
		a.warn("the agent has the network: nothing records what it reaches, and the run will not be submittable")
	}
	var paths []string
	for _, f := range own.Folders {
		paths = append(paths, f.Path)
	}
	folders, files, err := agentdir.Read(ctx, paths[0], paths[1:])
	if err == nil && !filepath.IsAbs(own.Command[0]) {
		err = agentdir.CheckProgram(folders[0].Path, files, own.Command[0])
	}
	if err == nil {
		var hidden []string
		if hidden, err = a.hidden(s); err == nil {
			err = agentdir.CheckHidden(folders, hidden)
		}
	}
	if wrong := (*agentdir.Error)(nil); errors.As(err, &wrong) {
		return usage(wrong.Hint, "%s", wrong)
	}
	if err != nil {
		return err
	}
	read := *own // not that of a plan to repeat
	read.Folders, read.FilesSHA256, read.MessagesOrigin = folders, canonical.Digest(files), ""
	if messages, _ := a.messagesURL(); !s.plan.Rehearsal {
		if _, err := remote.ParseURLOf("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", messages); err != nil {
			return err
		}
		if read.MessagesOrigin = remote.Origin(messages); read.MessagesOrigin == remote.Origin(s.baseURL) {
			read.MessagesOrigin = ""
		}
	}
	s.plan.Agent, s.own.files = &read, files
	return a.agentEnv(s)
}

// agentEnv takes the variables that an own agent is given. A key of the run's is none of them, whatever it is called.
func (a *app) agentEnv(s *runSettings) error {
	token, _, err := a.hubEnv().Token()
	if err != nil {
		return err
	}
	for _, name := range s.plan.Agent.Env {
		value := a.getenv(name)
		switch {
		case value == "":
			return usage("set it, or take it out of env below agent", "the agent is to be given %s, which is not set", name)
		case slices.Contains([]string{a.getenv("OPENAI_API_KEY"), a.getenv("ANTHROPIC_API_KEY"), token}, value):
			return usage("take it out of env below agent: the run adds the key to requests", "%s has the value of a key, which no agent is given", name)
		}
		s.own.env = append(s.own.env, name+"="+value)
	}
	return nil
}
