package settings

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools/mcp"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/jedib0t/go-pretty/v6/text"
)

// The settings that are no flags.
const (
	serversKey    = "mcp"
	evaluatorsKey = "evaluators"
)

// maxEntries bounds the MCP servers of a run, and the evaluators.
const maxEntries = 16

// Server is an MCP server: a command or a URL. The doc tags are rows of docs/reference-settings.md, with the default
// before the semicolon.
type Server struct {
	Name         string            `yaml:"name" doc:"required; name of the server: small letters, digits and dashes"`
	Command      []string          `yaml:"command" doc:"this or url; program and its arguments"`
	Folders      []string          `yaml:"folders" doc:"none; folders that the command may read"`
	Tools        []string          `yaml:"tools" doc:"all; tools of the server that the agent is offered"`
	Env          []string          `yaml:"env" doc:"none; names of variables of the environment that the command receives"` // sorted
	Sandbox      *bool             `yaml:"sandbox" doc:"true; false runs the command outside of the sandbox: no run with it can be submitted"`
	Network      string            `yaml:"network" doc:"none; none, or host: no run with it can be submitted"`       // mcp.NetworkNone, mcp.NetworkHost, or ""
	Start        string            `yaml:"start_timeout" doc:"30s; time in which the server starts, from 1s to 10m"` // as written
	StartTimeout time.Duration     `yaml:"-"`                                                                        // 0: the usual one
	URL          string            `yaml:"url" doc:"this or command; address of a server over HTTP"`
	Headers      map[string]string `yaml:"headers" doc:"none; for each header of requests, the name of the variable of the environment that has its value"`
}

// Unconfined reports whether the server is to run outside of the sandbox.
func (s Server) Unconfined() bool { return s.Sandbox != nil && !*s.Sandbox }

const serverHint = "a server has name, and command (with folders, env, network, sandbox) or url (with headers), and tools, start_timeout; env and headers name variables of the environment"

// takeServers takes the list of MCP servers.
func (f *File) takeServers(node ast.Node) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 || len(list.Values) > maxEntries {
		return f.wrong(node.GetToken(), serverHint, "%s is no list of 1 to %d servers", serversKey, maxEntries)
	}
	for _, item := range list.Values {
		var s Server
		if err := f.decode(item, &s, serverHint); err != nil {
			return err
		}
		key, reason, hint := s.check()
		if slices.ContainsFunc(f.Servers, func(o Server) bool { return o.Name == s.Name }) {
			key, reason, hint = "name", fmt.Sprintf("there is another server %q", s.Name), "give each another name"
		}
		if reason != "" {
			return f.wrong(member(item, key).GetToken(), hint, "%s: %s", key, reason)
		}
		slices.Sort(s.Env)
		f.Servers = append(f.Servers, s)
	}
	return nil
}

// decode decodes a mapping strictly.
func (f *File) decode(node ast.Node, into any, hint string) error {
	if pairsOf(node) == nil {
		return f.wrong(node.GetToken(), hint, "this is no mapping")
	}
	err := yaml.NodeToValue(node, into, yaml.Strict())
	var wrong yaml.Error
	if errors.As(err, &wrong) {
		key := ""
		for _, pair := range pairsOf(node) {
			if at := pair.Key.GetToken().Position; at.Offset <= wrong.GetToken().Position.Offset {
				key = text.Trim(pair.Key.String(), shownWidth) + ": "
			}
		}
		return f.wrong(wrong.GetToken(), hint, "%s%s", key, text.Trim(wrong.GetMessage(), 2*shownWidth))
	}
	if err != nil {
		return f.wrong(node.GetToken(), hint, "%s", text.Trim(err.Error(), 2*shownWidth))
	}
	return nil
}

// member returns the key of a mapping, and the mapping if it has no such key.
func member(node ast.Node, key string) ast.Node {
	for _, pair := range pairsOf(node) {
		if pair.Key.String() == key {
			return pair.Key
		}
	}
	return node
}

// check returns the key of a mistake, what is wrong and a hint; no reason if nothing is.
func (s *Server) check() (key, reason, hint string) {
	isURL, isProgram := s.URL != "", len(s.Command) > 0
	var err error
	if s.Start != "" {
		s.StartTimeout, err = time.ParseDuration(s.Start)
	}
	switch {
	case !regexp.MustCompile(mcp.Name).MatchString(s.Name):
		return "name", "it is to be small letters, digits and dashes, 32 at most, a letter first", serverHint
	case isURL == isProgram:
		return "command", fmt.Sprintf("the server %q has to have either command or url", s.Name), serverHint
	case isURL && (len(s.Folders) > 0 || s.Sandbox != nil || len(s.Env) > 0 || s.Network != ""):
		return "url", "a server with url has no folders, sandbox, env or network", serverHint
	case isProgram && len(s.Headers) > 0:
		return "headers", "a server with command has no headers", serverHint
	case !slices.Contains([]string{"", mcp.NetworkNone, mcp.NetworkHost}, s.Network):
		return "network", fmt.Sprintf("it is %q", text.Trim(s.Network, shownWidth)), "give none (the default) or host"
	case s.Unconfined() && s.Network == mcp.NetworkNone:
		return "network", "a server outside of the sandbox has the network", "leave out network, or 'sandbox: false'"
	case err != nil || s.Start != "" && (s.StartTimeout < time.Second || s.StartTimeout > mcp.MaxStartTime):
		return "start_timeout", fmt.Sprintf("it is not a time from 1s to %s", mcp.MaxStartTime), "such as start_timeout: 90s"
	}
	for _, word := range slices.Concat(s.Command, s.Folders, s.Tools) {
		if word == "" {
			return "command", "a text is empty", "give it a value, or leave it out"
		}
	}
	if isURL {
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
			return "url", fmt.Sprintf("the url of the server %q cannot be asked", s.Name), "give a whole one, such as https://notes.example/mcp"
		}
		if u.User != nil {
			return "url", fmt.Sprintf("the url of the server %q holds credentials, which would be recorded", s.Name), "use headers, whose values come from the environment"
		}
	}
	if reason, hint = s.checkEnv(); reason != "" {
		return "env", reason, hint
	}
	reason, hint = s.checkHeaders()
	return "headers", reason, hint
}

// checkEnv refuses values of variables, and those that no server is given.
func (s *Server) checkEnv() (reason, hint string) {
	for i, name := range s.Env {
		switch {
		case !plan.EnvName().MatchString(name):
			return "it is to have names of variables of the environment", "put the value into the environment, and its name here, such as env: [NOTES_TOKEN]"
		case slices.Contains([]string{"PATH", "HOME", "LANG", "PWD"}, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GLIBC_"):
			return fmt.Sprintf("the variable %s is not for settings", name), "leave it out"
		case slices.Contains([]string{"GAIA_SIGNING_KEY", "GAIA_SIGNING_KEY_FILE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}, name):
			return fmt.Sprintf("no server is given %s: it signs runs, or reads the answers of the benchmark", name), "leave it out, or give another key by another name"
		case slices.Contains(s.Env[:i], name):
			return fmt.Sprintf("the variable %s is repeated", name), "leave one of them"
		}
	}
	return "", ""
}

// checkHeaders refuses values of headers, and headers that the protocol sets.
func (s *Server) checkHeaders() (reason, hint string) {
	seen := map[string]bool{}
	for name, variable := range s.Headers {
		lower := strings.ToLower(name)
		switch {
		case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`).MatchString(name):
			return "there is a name that is none of a header", ""
		case slices.Contains([]string{"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}, lower) || strings.HasPrefix(lower, "mcp-"):
			return fmt.Sprintf("the header %s is not for settings", name), "leave it out"
		case seen[lower]:
			return fmt.Sprintf("the header %s is repeated", name), "leave one of them"
		case !regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`).MatchString(variable):
			return fmt.Sprintf("the header %s is to have the name of a variable of the environment", name),
				"put the value into the environment, and its name here, such as NOTES_AUTHORIZATION"
		}
		seen[lower] = true
	}
	return "", ""
}

// Evaluator is a command that evaluates run events.
type Evaluator struct {
	Name    string        `yaml:"-"`
	Command []string      `yaml:"command" doc:"required; program and its arguments"`
	Limit   string        `yaml:"timeout" doc:"10s; time for one event, at most 10m"` // as written
	Timeout time.Duration `yaml:"-"`
}

// The time of an evaluator, in one event: its default and its maximum.
const (
	evaluatorTimeout = 10 * time.Second
	maxEvaluatorTime = 10 * time.Minute
)

const evaluatorHint = "an evaluator is a name, and below it command: [PROGRAM, ARGUMENT] and, if you like, timeout: 10s"

// takeEvaluators takes the mapping of evaluators.
func (f *File) takeEvaluators(node ast.Node) error {
	pairs := pairsOf(node)
	if len(pairs) == 0 || len(pairs) > maxEntries {
		return f.wrong(node.GetToken(), evaluatorHint, "%s is no mapping of 1 to %d evaluators", evaluatorsKey, maxEntries)
	}
	for _, pair := range pairs {
		e := Evaluator{Timeout: evaluatorTimeout}
		if err := f.decode(pair.Value, &e, evaluatorHint); err != nil {
			return err
		}
		e.Name = pair.Key.String()
		key, err := pair.Key.GetToken(), error(nil)
		if e.Limit != "" {
			e.Timeout, err = time.ParseDuration(e.Limit)
		}
		switch {
		case !regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`).MatchString(e.Name):
			return f.wrong(key, "give small letters, digits and dashes, 32 at most, a letter first", "%q is no name of an evaluator", text.Trim(e.Name, shownWidth))
		case len(e.Command) == 0 || slices.Contains(e.Command, ""):
			return f.wrong(key, evaluatorHint, "the evaluator %q has no command", e.Name)
		case err != nil || e.Timeout <= 0 || e.Timeout > maxEvaluatorTime:
			return f.wrong(key, "give a time such as 10s or 2m, 10m at most", "the timeout of the evaluator %q is none", e.Name)
		}
		f.Evaluators = append(f.Evaluators, e)
	}
	return nil
}

// EncodeServers returns a settings file with these MCP servers alone, which [Parse] reads as they are.
func EncodeServers(servers []Server) ([]byte, error) {
	quoted := yaml.CustomMarshaler(func(s string) ([]byte, error) { return strconv.AppendQuote(nil, s), nil }) // else it writes block texts
	data, err := yaml.MarshalWithOptions(map[string][]Server{serversKey: servers}, yaml.OmitEmpty(), quoted)
	if err != nil {
		return nil, err
	}
	again, err := Parse(serversKey, data)
	if err == nil && !reflect.DeepEqual(again.Servers, servers) {
		err = errors.New("a text of theirs is not read as it is written")
	}
	if err != nil {
		return nil, fmt.Errorf("writing the MCP servers of the settings again: %w", err)
	}
	return data, nil
}
