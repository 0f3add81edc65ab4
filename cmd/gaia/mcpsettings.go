package main

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
	"github.com/goccy/go-yaml/ast"
	"github.com/jedib0t/go-pretty/v6/text"
)

// mcpKey is a setting that is no flag, as evaluatorsKey is.
const mcpKey = "mcp"

// maxServers bounds how many MCP servers a run has.
const maxServers = 16

// mcpEntry is an MCP server as the settings file names it: a command or a URL.
type mcpEntry struct {
	name       string
	command    []string
	folders    []string
	only       []string
	env        []string // names of variables of the environment
	unconfined bool     // sandbox: false
	network    string   // tools.NetworkNone, tools.NetworkHost, or "" for the former
	start      time.Duration
	url        string
	headers    [][2]string // name, and the variable of the environment that has the value
	at         map[string]place
}

const mcpHint = "a server has name, and command (with folders, env, network, sandbox) or url (with headers), and tools, start_timeout"

// gatherServers takes the list of MCP servers.
func (f *settingsFile) gatherServers(node ast.Node) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return f.wrong(placeOf(node.GetToken()), mcpHint, "%s is a list of servers", mcpKey)
	}
	if len(list.Values) > maxServers {
		return f.wrong(placeOf(list.Values[maxServers].GetToken()), "", "there are more than %d servers", maxServers)
	}
	for _, item := range list.Values {
		pairs := pairsOf(item)
		if pairs == nil {
			return f.wrong(placeOf(item.GetToken()), mcpHint, "this is no server")
		}
		e := mcpEntry{at: map[string]place{"": placeOf(pairs[0].Key.GetToken())}}
		for _, pair := range pairs {
			if err := f.member(&e, pair); err != nil {
				return err
			}
		}
		if err := f.wholeServer(e); err != nil {
			return err
		}
		f.servers = append(f.servers, e)
	}
	return nil
}

// pairsOf are the members of a mapping, nil of anything else.
func pairsOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// member takes one member of a server.
func (f *settingsFile) member(e *mcpEntry, pair *ast.MappingValueNode) (err error) {
	key, at := pair.Key.String(), placeOf(pair.Key.GetToken())
	if first, twice := e.at[key]; twice {
		return f.wrong(at, "leave one of them", "%s stands here again, after line %d", key, first.line)
	}
	e.at[key] = at
	switch key {
	case "name":
		e.name, err = f.text(key, pair.Value)
	case "url":
		e.url, err = f.text(key, pair.Value)
	case "command":
		e.command, err = f.texts(key, pair.Value)
	case "folders":
		e.folders, err = f.texts(key, pair.Value)
	case "tools":
		e.only, err = f.texts(key, pair.Value)
	case "sandbox":
		is, ok := pair.Value.(*ast.BoolNode)
		if !ok {
			return f.wrong(placeOf(pair.Value.GetToken()), "", "sandbox is neither true nor false")
		}
		e.unconfined = !is.Value
	case "headers":
		err = f.headers(e, pair.Value)
	case "env":
		err = f.variables(e, pair.Value)
	case "network":
		if e.network, err = f.text(key, pair.Value); err == nil && e.network != tools.NetworkNone && e.network != tools.NetworkHost {
			err = f.wrong(placeOf(pair.Value.GetToken()), "give none (the default) or host", "network is %q", text.Trim(e.network, shownWidth))
		}
	case "start_timeout":
		var given string
		if given, err = f.text(key, pair.Value); err == nil {
			if e.start, err = time.ParseDuration(given); err != nil || e.start < time.Second || e.start > tools.MCPStartMost {
				err = f.wrong(placeOf(pair.Value.GetToken()), "such as start_timeout: 90s", "start_timeout is %q, not a time from 1s to %s", text.Trim(given, shownWidth), tools.MCPStartMost)
			}
		}
	default:
		hint := mcpHint
		if near := nearest(key, []string{"name", "url", "command", "folders", "tools", "sandbox", "headers", "env", "network", "start_timeout"}); near != "" {
			hint = "did you mean " + near + "?"
		}
		return masked(f.wrong(at, hint, "a server has no %q", text.Trim(key, shownWidth)), oneLine(text.Trim(key, shownWidth))+": ")
	}
	return err
}

// text takes a text, which is no secret.
func (f *settingsFile) text(key string, node ast.Node) (string, error) {
	at := placeOf(node.GetToken())
	s, ok := node.(*ast.StringNode)
	switch {
	case !ok:
		return "", f.wrong(at, "put it in quotes if it is meant", "%s is no text", key)
	case s.Value == "":
		return "", f.wrong(at, "give it a value, or leave it out", "%s is empty", key)
	case isSecret(s.Value):
		return "", masked(f.wrong(at, "a header takes the name of a variable of the environment", "%s holds what looks like a key: secrets do not belong into the file", key), key+": ")
	}
	return s.Value, nil
}

func (f *settingsFile) texts(key string, node ast.Node) ([]string, error) {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return nil, f.wrong(placeOf(node.GetToken()), "such as "+key+": [a, b]", "%s is no list of texts", key)
	}
	var out []string
	for _, item := range list.Values {
		s, err := f.text(key, item)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// pairedEnv refuses variables with their values, as other programs have them.
func (f *settingsFile) pairedEnv(at place) error {
	return masked(f.wrong(at, "put the values into the environment, and their names here, such as env: [NOTES_TOKEN]", "env is a mapping, and is to be a list of names"), "")
}

// variables takes names of variables of the environment, whose values the server is given.
func (f *settingsFile) variables(e *mcpEntry, node ast.Node) (err error) {
	if pairs := pairsOf(node); len(pairs) > 0 {
		return f.pairedEnv(placeOf(node.GetToken()))
	}
	if e.env, err = f.texts("env", node); err != nil {
		return err
	}
	for i, name := range e.env {
		at, shown := placeOf(node.(*ast.SequenceNode).Values[i].GetToken()), text.Trim(name, shownWidth)
		switch {
		case !regexp.MustCompile(plan.EnvName).MatchString(name):
			return masked(f.wrong(at, "put the value into the environment, and its name here, such as env: [NOTES_TOKEN]", "env is to have names of variables of the environment"), "env: ")
		case slices.Contains([]string{"PATH", "HOME", "LANG", "PWD"}, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GLIBC_"):
			return f.wrong(at, "leave it out", "the variable %s is not for settings", shown)
		case slices.Contains([]string{"GAIA_SIGNING_KEY", "GAIA_SIGNING_KEY_FILE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}, name):
			return f.wrong(at, "leave it out, or give another key by another name", "no server is given %s: it signs runs, or reads the answers of the benchmark", shown)
		case slices.Contains(e.env[:i], name):
			return f.wrong(at, "leave one of them", "the variable %s stands here again", shown)
		}
	}
	slices.Sort(e.env)
	return nil
}

// headers takes names of headers, each with the variable that has its value.
func (f *settingsFile) headers(e *mcpEntry, node ast.Node) error {
	pairs := pairsOf(node)
	if len(pairs) == 0 {
		return f.wrong(placeOf(node.GetToken()), "a line for each, such as Authorization: NOTES_AUTHORIZATION", "headers is no mapping")
	}
	for _, pair := range pairs {
		name, at := pair.Key.String(), placeOf(pair.Key.GetToken())
		variable, err := f.text("the header "+text.Trim(name, shownWidth), pair.Value)
		switch {
		case err != nil:
			return err
		case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`).MatchString(name):
			return f.wrong(at, "", "this is no name of a header")
		case slices.Contains([]string{"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}, strings.ToLower(name)) || strings.HasPrefix(strings.ToLower(name), "mcp-"):
			return f.wrong(at, "leave it out", "the header %s is not for settings", name)
		case slices.ContainsFunc(e.headers, func(h [2]string) bool { return strings.EqualFold(h[0], name) }):
			return f.wrong(at, "leave one of them", "the header %s stands here again", name)
		case !regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`).MatchString(variable):
			return masked(f.wrong(placeOf(pair.Value.GetToken()), "put the value into the environment, and its name here, such as NOTES_AUTHORIZATION",
				"the header %s is to have the name of a variable of the environment", name), name+": ")
		}
		e.headers = append(e.headers, [2]string{name, variable})
	}
	return nil
}

// wholeServer refuses a server whose members do not go together.
func (f *settingsFile) wholeServer(e mcpEntry) error {
	at := e.at[""]
	for _, apart := range [][2]string{{"command", "url"}, {"url", "folders"}, {"url", "sandbox"}, {"url", "env"}, {"url", "network"}, {"command", "headers"}} {
		_, one := e.at[apart[0]]
		if place, other := e.at[apart[1]]; one && other {
			return f.wrong(place, mcpHint, "a server with %s has no %s", apart[0], apart[1])
		}
	}
	if e.unconfined && e.network == tools.NetworkNone {
		return f.wrong(e.at["network"], "leave out network, or 'sandbox: false'", "a server outside of the sandbox has the network")
	}
	switch {
	case e.name == "":
		return f.wrong(at, mcpHint, "the server has no name")
	case !regexp.MustCompile(tools.MCPName).MatchString(e.name):
		return f.wrong(e.at["name"], "give small letters, digits and dashes, 32 at most, a letter first", "%q is no name of a server", text.Trim(e.name, shownWidth))
	case slices.ContainsFunc(f.servers, func(o mcpEntry) bool { return o.name == e.name }):
		return f.wrong(e.at["name"], "give each a name of its own", "there is another server %q", e.name)
	case e.url == "" && len(e.command) == 0:
		return f.wrong(at, mcpHint, "the server %q has neither command nor url", e.name)
	case e.url == "":
		return nil
	}
	u, err := url.Parse(e.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
		return f.wrong(e.at["url"], "give a whole one, such as https://notes.example/mcp", "the url of the server %q cannot be asked", e.name)
	}
	if u.User != nil {
		return f.wrong(e.at["url"], "use headers, whose values come from the environment", "the url of the server %q holds credentials, which would be recorded", e.name)
	}
	return nil
}
