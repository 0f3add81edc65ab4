package equip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/agent/external"
	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/proxy"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/servers"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"golang.org/x/sync/semaphore"
)

// Programs are the programs that a run may start.
type Programs struct {
	Sandbox   *sandbox.Sandbox // nil: there is none
	NoSandbox error            // why
	Python    tools.Tool       // nil: it is not wanted or does not work
	NoPython  error            // why it does not work
}

// FindPrograms tries the sandbox and, as it is wanted, Python, beside other work. The
// function that it returns waits for that.
func (u *User) FindPrograms(ctx context.Context, s *runflags.Settings, wanted string) (func() Programs, error) {
	hidden, err := u.hidden(s)
	if err != nil {
		return nil, err
	}
	done := make(chan Programs, 1)
	bwrap, python, env := OnPath("bwrap"), OnPath("python3"), u.ForShims()
	go func() {
		var f Programs
		if f.Sandbox, f.NoSandbox = sandbox.New(ctx, sandbox.Config{Bwrap: bwrap, Hidden: hidden}); f.NoSandbox != nil {
			f.Sandbox = nil
		}
		switch unconfined := wanted == runflags.PythonUnconfined; {
		case wanted == runflags.PythonNo:
		case f.NoSandbox != nil && !unconfined:
			f.NoPython = f.NoSandbox
		default:
			in := f.Sandbox
			if unconfined {
				in = nil
			}
			var i sandbox.Interpreter
			if i, f.NoPython = sandbox.FindPython(ctx, in, python, env); f.NoPython != nil {
				break
			}
			if f.Python = sandbox.NewPython(in, i); unconfined {
				f.Python = sandbox.NewUnsafePython(i)
			}
		}
		done <- f
	}()
	return sync.OnceValue(func() Programs { return <-done }), nil
}

// addPython adds the tool python where it works and is wanted. A new run goes on
// without it, and says so; a run that was planned with it does not.
func (u *User) addPython(s *runflags.Settings, w *World) error {
	switch err := w.NoPython; {
	case s.Python == runflags.PythonNo:
		return nil
	case err == nil:
	case s.Python == runflags.PythonIfWorks:
		fmt.Fprintf(u.Stderr, "gaia: python is not offered: %s ('gaia doctor' says more)\n", view.Line(err.Error()))
		return nil
	case s.Resumed:
		return exit.New(exit.Failure, fmt.Errorf("the run was planned with python %s, which does not work here: %w", s.Python, err), unusableHint(err), "or start a new run")
	default:
		return exit.New(exit.Failure, fmt.Errorf("--unsafe-local-python: %w", err), unusableHint(err))
	}
	w.Tools = append(w.Tools, w.Python)
	if s.Python == runflags.PythonUnconfined {
		s.Plan.Unconfined = append(s.Plan.Unconfined, runflags.PythonName)
		u.Warn("the model's Python code runs without a sandbox, as you, with your files and network; the run will not be submittable")
	}
	return nil
}

// unusableHint returns what would make a program usable; "" if that is not known.
func unusableHint(err error) string {
	var u *sandbox.Unusable
	if errors.As(err, &u) {
		return u.Remedy
	}
	return ""
}

// addServers starts the MCP servers to ask for their tools, which become the
// run's. It returns what must not be recorded: the values of headers and variables.
func (u *User) addServers(ctx context.Context, w *World, s *runflags.Settings) (secrets []string, err error) {
	if w.Sandbox == nil && slices.ContainsFunc(s.Servers, func(e settings.Server) bool { return e.URL == "" && !e.Unconfined() }) {
		u.Warn(fmt.Sprintf("there is no sandbox for MCP servers: %v ('gaia doctor' says more)", w.NoSandbox))
	}
	for _, e := range s.Servers {
		server, values, err := servers.Env{Getenv: u.Getenv, Runs: s.Runs}.Settle(e)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
		if e.URL == "" {
			if !e.Unconfined() {
				server.Sandbox = w.Sandbox
			}
			if server.Sandbox == nil {
				if err := u.Unconfined(s, e); err != nil {
					return nil, err
				}
			}
		}
		if server.Sandbox != nil && e.Network == mcp.NetworkHost {
			if err := u.Networked(s, e); err != nil {
				return nil, err
			}
		}
		found, err := server.Tools(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, CannotUse(server, s.ServersFrom, err)
		}
		w.Tools = append(w.Tools, found...)
	}
	return secrets, nil
}

// CannotUse is the failure of a server that does not start or says what cannot be used.
func CannotUse(server mcp.Server, settings string, err error) error {
	return &exit.Error{Code: exit.Usage, Err: err, Hints: append(server.Hints(), "correct it, or leave it out of "+settings)}
}

// Networked lets a server in the sandbox have the network, if the run may have such.
func (u *User) Networked(s *runflags.Settings, e settings.Server) error {
	if s.Plan.SubmitIntent {
		return exit.Usagef("leave out --submit-intent, or 'network: host'", "the MCP server %q would have the network, and nothing records what it reaches, so such a run cannot be submitted", e.Name)
	}
	u.Warn(fmt.Sprintf("the MCP server %q has the network: nothing records what it reaches, and the run will not be submittable", e.Name))
	return nil
}

// Unconfined lets a server run outside of the sandbox, if the run may have such.
func (u *User) Unconfined(s *runflags.Settings, e settings.Server) error {
	if s.Plan.SubmitIntent {
		hint := "leave out --submit-intent, or 'sandbox: false'"
		if !e.Unconfined() {
			hint = "'gaia doctor' says what a sandbox needs; or leave out --submit-intent"
		}
		return exit.Usagef(hint, "the MCP server %q would run outside of the sandbox, so such a run cannot be submitted", e.Name)
	}
	u.Warn(fmt.Sprintf("the MCP server %q runs outside of the sandbox: the run will not be submittable", e.Name))
	s.Plan.Unconfined = append(s.Plan.Unconfined, "mcp:"+e.Name)
	return nil
}

// defaultMessagesURL is where models are that speak the messages dialect.
const defaultMessagesURL = "https://api.anthropic.com"

// SettleAgent sets the own agent of the plan, if there is one. changed reports which flags were given or are of the file.
func (u *User) SettleAgent(s *runflags.Settings, file *settings.File, changed func(string) bool) error {
	p := &s.Plan
	own, err := file.OwnAgent(s.Own.AgentFlags, *p, s.Like != nil)
	if p.Agent = own; own == nil || err != nil {
		return err
	}
	if err := settings.CheckAgent(*p, len(s.Servers), changed); err != nil {
		return err
	}
	p.Budgets.Turns, p.Model.ContextWindow, p.Model.Stop, s.Images = 0, 0, nil, runflags.ImagesOff
	if !s.HasTools() {
		s.Vision, s.Python, p.Transcription = runflags.NoVision, runflags.PythonNo, nil
	}
	return nil
}

// SettleMessages settles where an own agent's requests in the messages dialect go.
func (u *User) SettleMessages(s *runflags.Settings) error {
	if s.Plan.Agent == nil {
		return nil
	}
	s.Own.Messages, s.Own.MessagesKey = cmp.Or(u.Getenv("ANTHROPIC_BASE_URL"), defaultMessagesURL), u.Getenv("ANTHROPIC_API_KEY")
	_, err := remote.ParseURLOf("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", s.Own.Messages)
	return err
}

// AddAgent completes the plan of an own agent with its folders, which are read now, and with where models are, and adds what all
// its attempts share. It warns of an agent that is not confined.
func (u *User) AddAgent(ctx context.Context, w *World, s *runflags.Settings) error {
	own, noSandbox := s.Plan.Agent, w.NoSandbox
	if own == nil {
		return nil
	}
	switch {
	case own.Unconfined:
		u.Warn("the agent runs without a sandbox, as you, with your files and network; the run will not be submittable")
		s.Plan.Unconfined = append(s.Plan.Unconfined, plan.UnconfinedAgent)
	case noSandbox != nil:
		return exit.New(exit.Failure, fmt.Errorf("an agent of your own runs in a sandbox, and there is none: %w", noSandbox), unusableHint(noSandbox),
			"--unsafe-local-agent runs it without one, as you, with your files and network; such a run cannot be submitted")
	case own.Network == plan.NetworkHost:
		u.Warn("the agent has the network: nothing records what it reaches, and the run will not be submittable")
	}
	hidden, err := u.hidden(s)
	if err != nil {
		return err
	}
	if s.Resumed { // a run may have been moved beside its agent
		hidden = slices.DeleteFunc(hidden, func(path string) bool { return path == s.Runs })
	}
	read, files, err := agentdir.Complete(ctx, *own, hidden)
	if wrong := (*agentdir.Error)(nil); errors.As(err, &wrong) {
		return exit.Usagef(wrong.Hint, "%s", wrong)
	}
	if err != nil {
		return err
	}
	read.MessagesOrigin = ""
	if !s.Plan.Rehearsal && remote.Origin(s.Own.Messages) != remote.Origin(s.BaseURL) {
		read.MessagesOrigin = remote.Origin(s.Own.Messages)
	}
	s.Plan.Agent, w.AgentFiles = &read, files
	w.Look = func(tasks []agentdir.Target) (*plan.AgentPlan, error) {
		looked, err := agentdir.Probe(ctx, read, files, tasks, u.Stderr)
		if err == nil {
			if found, warning := runview.Found(looked.Probed); warning != "" {
				u.Warn(warning + ": " + found)
			}
		}
		return looked, err
	}
	w.Own = &external.Agent{Network: w.network, Proxy: proxy.Config{Upstreams: w.upstreams, Models: append([]string{s.Plan.Model.Name}, slices.Sorted(maps.Keys(read.Models))...),
		MaxTokens: int64(s.Plan.Model.MaxTokens), Strip: read.Strip, Calls: read.Calls, Prices: w.Prices, Now: time.Now, Bodies: semaphore.NewWeighted(agentBodies)}}
	if !read.Unconfined {
		w.Own.Sandbox = w.Sandbox
	}
	token, _, err := u.Hub().Token()
	if err != nil {
		return err
	}
	if w.Own.Env, err = settings.AgentEnv(read.Env, u.Getenv, u.Getenv("OPENAI_API_KEY"), u.Getenv("ANTHROPIC_API_KEY"), token); err != nil || s.Dry {
		return err
	}
	if w.Own.Shim, err = os.Executable(); err != nil {
		return err
	}
	w.Own.SocketDir, err = os.MkdirTemp("", "gaia-") // a path of a socket is short
	return err
}

// agentBodies bounds the bytes of requests of own agents that wait to be sent, of all attempts.
const agentBodies = 256 << 20
