package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
)

// takeServers takes the MCP servers of a settings file.
func (s *settings) takeServers(file *settingsFile) {
	if file != nil && len(file.servers) > 0 {
		s.servers, s.serversFrom = file.servers, file.name
	}
}

// plannedServers takes them for a run that goes on and was planned with some:
// the plan has what their tools are, and only the user how to start them.
func (s *settings) plannedServers(named string, m plan.Plan) error {
	if !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Server != "" }) {
		if named != "" {
			return usage("leave it out", "the run was planned without MCP servers, and --settings is read for nothing else")
		}
		return nil
	}
	file, err := openSettings(named)
	if err != nil {
		return err
	}
	if s.takeServers(file); len(s.servers) == 0 {
		return usage("give the file that the run was started with as --settings", "the run was planned with MCP servers, and there are no settings that name them")
	}
	return nil
}

// addServers starts the MCP servers to ask for their tools, which become the
// run's. It returns what must not be recorded: the values of headers and variables.
func (a *app) addServers(ctx context.Context, w *world, s settings) (secrets []string, err error) {
	if w.sandbox == nil && slices.ContainsFunc(s.servers, func(e mcpEntry) bool { return e.url == "" && !e.unconfined }) {
		a.warn(fmt.Sprintf("there is no sandbox for MCP servers: %v ('gaia doctor' says more)", w.noSandbox))
	}
	for _, e := range s.servers {
		server, values, err := a.server(e, s.runs)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
		if e.url == "" {
			if !e.unconfined {
				server.Sandbox = w.sandbox
			}
			if server.Sandbox == nil {
				if err := a.unconfined(w, s, e); err != nil {
					return nil, err
				}
			}
		}
		if server.Sandbox != nil && e.network == tools.NetworkHost {
			if err := a.networked(s, e); err != nil {
				return nil, err
			}
		}
		found, err := server.Tools(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, cannotUse(server, s.serversFrom, err)
		}
		w.Tools = append(w.Tools, found...)
	}
	return secrets, nil
}

// cannotUse is the failure of a server that does not start or says what cannot be used.
func cannotUse(server tools.MCPServer, settings string, err error) error {
	return &failure{Code: exitUsage, Err: err, Hints: append(server.Hints(), "correct it, or leave it out of "+settings)}
}

// networked lets a server in the sandbox have the network, if the run may have such.
func (a *app) networked(s settings, e mcpEntry) error {
	if s.submitIntent {
		return usage("leave out --submit-intent, or 'network: host'", "the MCP server %q would have the network, and nothing records what it reaches, so such a run cannot be submitted", e.name)
	}
	a.warn(fmt.Sprintf("the MCP server %q has the network: nothing records what it reaches, and the run will not be submittable", e.name))
	return nil
}

// unconfined lets a server run outside of the sandbox, if the run may have such.
func (a *app) unconfined(w *world, s settings, e mcpEntry) error {
	if s.submitIntent {
		hint := "leave out --submit-intent, or 'sandbox: false'"
		if !e.unconfined {
			hint = "'gaia doctor' says what a sandbox needs; or leave out --submit-intent"
		}
		return usage(hint, "the MCP server %q would run outside of the sandbox, so such a run cannot be submitted", e.name)
	}
	a.warn(fmt.Sprintf("the MCP server %q runs outside of the sandbox: the run will not be submittable", e.name))
	w.Unconfined = append(w.Unconfined, "mcp:"+e.name)
	return nil
}

// server settles where what the settings name is on this machine; runs is the
// folder of the runs.
func (a *app) server(e mcpEntry, runs string) (tools.MCPServer, []string, error) {
	server := tools.MCPServer{Name: e.name, URL: e.url, Only: e.only, Path: a.getenv("PATH"), Headers: map[string]string{}, Env: map[string]string{}, Network: e.network, StartTimeout: e.start}
	var secrets []string
	for _, h := range e.headers {
		value := a.getenv(h[1])
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return server, nil, usage("set "+h[1], "the MCP server %q is asked with the header %s, whose value %s is not in the environment, or is none", e.name, h[0], h[1])
		}
		server.Headers[h[0]] = value
		secrets = append(secrets, value)
		if _, credential, found := strings.Cut(value, " "); found { // of "Bearer …" the latter
			secrets = append(secrets, credential)
		}
	}
	if e.url != "" {
		return server, secrets, nil
	}
	for _, name := range e.env {
		value := a.getenv(name)
		if value == "" {
			return server, nil, usage("set "+name, "the MCP server %q is to be given the variable %s, which is not in the environment, or is empty", e.name, name)
		}
		server.Env[name] = value
		secrets = append(secrets, value)
	}
	program, err := exec.LookPath(e.command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return server, nil, usage("give the path of a program, or the name of one that is on PATH", "the MCP server %q cannot be started: %v", e.name, err)
	}
	server.Command = append([]string{program}, e.command[1:]...)
	for _, folder := range e.folders {
		abs, err := a.folderOf(e.name, folder, runs)
		if err != nil {
			return server, nil, err
		}
		server.Folders = append(server.Folders, abs)
	}
	return server, secrets, nil
}
