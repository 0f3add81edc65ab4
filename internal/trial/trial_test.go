package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// attempt returns the report of an attempt with these events.
func attempt(t *testing.T, end trajectory.AttemptEnded, payloads ...trajectory.Payload) Report {
	t.Helper()
	var r Report
	a := reader{report: &r}
	turn := 0
	for i, p := range append(append([]trajectory.Payload{trajectory.TaskStarted{Question: "?"}}, payloads...), end) {
		switch p.(type) {
		case trajectory.ModelCallStarted:
			turn++
		}
		if err := a.add(trajectory.Event{TaskID: "fab1e001", Attempt: 1, Turn: turn, MonoUs: int64(i) * 1000, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	if !a.ended {
		t.Error("the attempt has not ended")
	}
	r.Agent = "mine"
	r.explain(true)
	return r
}

func started(dialect string, stream bool) trajectory.ModelCallStarted {
	return trajectory.ModelCallStarted{RequestedModel: "m", Request: &trajectory.AgentRequest{Dialect: dialect, Stream: stream}}
}

func completed(status int, problem string) trajectory.ModelCallCompleted {
	p := trajectory.ModelCallCompleted{RequestedModel: "m", Reply: &trajectory.AgentReply{Status: status}, Tokens: trajectory.Tokens{In: 10, Out: 5}}
	if problem != "" {
		p.Error, p.Tokens = &trajectory.CallError{Code: problem}, trajectory.Tokens{}
	}
	return p
}

// TestExplain: what the user is told of attempts that went wrong in the ways that agents do.
func TestExplain(t *testing.T) {
	exited := func(code int, stderr string) trajectory.AttemptEnded {
		return trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited, Exit: code, Stderr: stderr}}
	}
	killed := func(ended string) trajectory.AttemptEnded {
		return trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Agent: &trajectory.AgentEnd{Ended: ended, Exit: -1}}
	}
	call := []trajectory.Payload{started("chat", false), completed(200, "")}
	for name, c := range map[string]struct {
		report Report
		want   []string
		not    string
	}{
		"exits at once": {attempt(t, exited(0, "")), []string{"The agent asked no model.", "OPENAI_BASE_URL", "The agent exited without an answer.", "submit_answer"}, ""},
		"crashes": {attempt(t, exited(1, "Traceback (most recent call last):\n  File \"/a/agent\", line 3\nKeyError: 'choices'\n"), call...),
			[]string{"The agent crashed: KeyError: 'choices'.", "1 call of chat to m: status 200, 10 tokens in, 5 out", "Traceback"}, "asked no model"},
		"crashes with an explanation": {attempt(t, exited(1, "  | pydantic.ValidationError: 1 error\n  |   cacheScope\n  |     For further information visit https://x\n  +-----\n"), call...),
			[]string{"The agent crashed: pydantic.ValidationError: 1 error."}, ""},
		"panics":                {attempt(t, exited(2, "\x1b[31mpanic: no key\x1b]0;title\a\n\ngoroutine 1 [running]:\nmain.main()\n"), call...), []string{"The agent crashed: panic: no key"}, ""},
		"crashes silently":      {attempt(t, exited(-1, ""), call...), []string{"a signal ended it, and nothing on standard error"}, ""},
		"no interpreter":        {attempt(t, killed(trajectory.AgentNotStarted)), []string{"could not be run", "gaia agent doctor"}, "asked no model"},
		"a program is missing":  {attempt(t, exited(127, "/a/agent: 2: exec: node: not found")), []string{"did not find node in the sandbox"}, ""},
		"env finds nothing":     {attempt(t, exited(127, "/usr/bin/env: ‘uv’: No such file or directory")), []string{"did not find uv in the sandbox"}, ""},
		"looks up a name":       {attempt(t, exited(1, "socket.gaierror: [Errno -3] Temporary failure in name resolution")), []string{"tried to reach the network", "The agent crashed"}, ""},
		"sleeps":                {attempt(t, killed(trajectory.AgentDeadline), call...), []string{"stopped at its deadline", "--agent-timeout"}, ""},
		"eats memory":           {attempt(t, killed(trajectory.AgentMemory), call...), []string{"more memory than planned", "'memory' below agent"}, ""},
		"says nothing":          {attempt(t, exited(0, ""), call...), []string{"The agent exited without an answer."}, "asked no model"},
		"another model":         {attempt(t, exited(0, ""), trajectory.RequestRefused{Code: "model_not_planned", Model: "gpt-4o", Path: "POST /v1/responses", Status: 400}), []string{`asked for the model "gpt-4o", which is not planned`, "GAIA_MODEL", "POST /v1/responses: model_not_planned, status 400, 1 request"}, "asked no model"},
		"only looks whether it": {attempt(t, exited(0, ""), trajectory.RequestRefused{Code: "unknown_route", Path: "HEAD /", Status: 404}), []string{"The agent asked no model."}, "was refused as"},
		"the endpoint fails":    {attempt(t, exited(1, "boom"), started("chat", true), completed(503, "server_error")), []string{"A call of the model m failed: status 503. server_error", "1 streamed"}, ""},
	} {
		text := c.report.Text()
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it is not said that %q:\n%s", name, want, text)
			}
		}
		if c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: it is said that %q:\n%s", name, c.not, text)
		}
		if strings.ContainsRune(text, 0x1b) {
			t.Errorf("%s: the text can steer a terminal: %q", name, text)
		}
		if len(c.report.Why) == 0 || strings.Count(text, "\n") > 40 {
			t.Errorf("%s: %d causes, %d lines", name, len(c.report.Why), strings.Count(text, "\n"))
		}
	}
}

// TestAnswered: an attempt with an answer needs no explanation, and its calls, tools and refusals are counted.
func TestAnswered(t *testing.T) {
	r := attempt(t, trajectory.AttemptEnded{Outcome: trajectory.Answered, Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited}},
		started("messages", true), started("messages", true), completed(200, ""),
		trajectory.ToolProposed{CallID: "1", Name: "calculate"}, trajectory.ToolExecuted{CallID: "1", Name: "calculate"},
		trajectory.ToolProposed{CallID: "2", Name: "python"}, trajectory.PolicyDecision{CallID: "2", Decision: "deny"},
		trajectory.RequestRefused{Code: "unknown_route", Path: "POST /v1/batches", Status: 404}, trajectory.RequestRefused{Code: "unknown_route", Path: "POST /v1/batches", Status: 404},
		trajectory.AnswerCommitted{Answer: "22559", Rule: "answer-file.v1", InReply: true}, trajectory.Judgment{Official: true})
	text := r.Text()
	for _, want := range []string{`"22559", by the file ANSWER; correct`, "at most 2 at once", "calculate: 1 call", "python: 1 call, 1 denied", "POST /v1/batches: unknown_route, status 404, 2 requests; the routes are", "exit code 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said that %q:\n%s", want, text)
		}
	}
	if len(r.Why) > 0 {
		t.Errorf("an answer is explained: %v", r.Why)
	}
}

// TestObserved: what doctor reports of an attempt.
func TestObserved(t *testing.T) {
	state := func(r Report, want string) {
		t.Helper()
		var states []string
		for _, f := range r.Observed() {
			states = append(states, f.Name+" "+f.State)
		}
		if got := strings.Join(states, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	state(attempt(t, trajectory.AttemptEnded{Outcome: trajectory.Answered, Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited}},
		started("messages", true), completed(200, ""), trajectory.ToolProposed{CallID: "1", Name: "calculate"}, trajectory.RequestRefused{Code: "unknown_route", Path: "HEAD /"},
		trajectory.AnswerCommitted{Answer: "1", Rule: plan.RuleAnswerFile}), "models ok, tools ok, answer ok")
	state(attempt(t, trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited, Exit: 1, Stderr: "getaddrinfo ENOTFOUND example.org"}},
		trajectory.RequestRefused{Code: "unknown_route", Path: "GET /v1/files"}), "models failed, tools missing, refused missing, network missing, answer failed")
}

// TestNetwork: what went over the recorded network and past it, and what was found in the folders.
func TestNetwork(t *testing.T) {
	exchange := func(n int, url string, done trajectory.ExchangeCompleted) []trajectory.Payload {
		done.Number = n
		return []trajectory.Payload{trajectory.ExchangeStarted{Number: n, Method: "GET", URL: url}, done}
	}
	page := trajectory.ExchangeCompleted{Status: 200, Bytes: 2048}
	var events []trajectory.Payload
	for _, e := range [][]trajectory.Payload{exchange(1, "https://almanac.example/heights", page), exchange(2, "https://almanac.example/heights", page),
		exchange(3, "http://harbour.example/quays", trajectory.ExchangeCompleted{Error: "connection_failed"}),
		{trajectory.RequestRefused{Code: "tls_refused", Path: "CONNECT pinned.example:443"}, trajectory.RequestRefused{Code: "rule_refused", Path: "GET https://huggingface.co/x", RuleIDs: []string{"R001"}, Status: 403}}} {
		events = append(events, e...)
	}
	end := trajectory.AttemptEnded{Outcome: trajectory.NoAnswer, Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited, Confined: &trajectory.Confinement{NoRoute: 2, Unheard: 1}}}
	r := attempt(t, end, events...)
	known := int64(975)
	r.Network, r.PromptBytes, r.WitnessedBytes, r.Probed = plan.NetworkRecord, 1000, &known, &plan.AgentProbe{Answers: 2, Bytes: 10, Files: 3, Unread: 1, Stopped: "bytes"}
	r.Why = nil
	r.explain(true)
	text := r.Text()
	for _, want := range []string{"GET https://almanac.example/heights: status 200, 2 exchanges", "GET http://harbour.example/quays: status 0, 1 exchange", "(connection_failed)",
		"TLS: 2 exchanges, 1 refusal by the client", "reached nothing: 2 packets to addresses without a route, 1 datagram to local ports where nothing listens", "CONNECT pinned.example:443: tls_refused, 1 request",
		"GET https://huggingface.co/x: rule_refused, status 403, 1 request by rule R001", "of which 97.5 % came from", "3 files, ", "the gold answer beside id or question of 2 tasks; 1 file could not be read; stopped at the limit of bytes",
		"hold answers of tasks: an audit reports this as CRITICAL", "tried to reach the network past the proxy", "HTTPS_PROXY", "SSL_CERT_FILE"} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said that %q:\n%s", want, text)
		}
	}
	var states []string
	for _, f := range r.Observed() {
		states = append(states, f.Name+" "+f.State)
	}
	if got := strings.Join(states, ", "); got != "models failed, tools missing, refused missing, network ok, certificates missing, bypass missing, contents failed, answer failed" {
		t.Error(got)
	}
	answered := trajectory.AnswerCommitted{Answer: "421", Rule: plan.RuleAnswerFile, SeenIn: []string{"exchange", "reply"}, InReply: true}
	if text := attempt(t, end, answered).Text(); !strings.Contains(text, "by the file ANSWER; it stood in: exchange, reply") {
		t.Error(text)
	}
	answered.SeenIn, answered.InReply = nil, false
	if text := attempt(t, end, answered).Text(); !strings.Contains(text, "it stood in nothing that the agent was given") {
		t.Error(text)
	}
}

// TestCheck: what the sandbox will not have is found in the agent's folder.
func TestCheck(t *testing.T) {
	write := func(name, text string, mode os.FileMode) func(string) {
		return func(dir string) {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	outside := t.TempDir()
	write("bin/python3", "#!/bin/sh\n", 0o755)(outside)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		make  []func(string)
		given []string
		state string
		want  string
	}{
		"a shell script":      {[]func(string){write("agent", "#!/bin/sh\n", 0o755)}, nil, doctor.OK, ""},
		"by env":              {[]func(string){write("agent", "#!/usr/bin/env -S sh -e\n", 0o755)}, nil, doctor.OK, ""},
		"no agent":            {nil, nil, doctor.Failed, "is not there"},
		"not executable":      {[]func(string){write("agent", "#!/bin/sh\n", 0o644)}, nil, doctor.Failed, "chmod +x"},
		"no first line":       {[]func(string){write("agent", "import os\n", 0o755)}, nil, doctor.Failed, "names no interpreter"},
		"from another system": {[]func(string){write("agent", "#!/bin/sh\r\n", 0o755)}, nil, doctor.Failed, "carriage return"},
		"no such interpreter": {[]func(string){write("agent", "#!/usr/bin/python2.1\n", 0o755)}, nil, doctor.Failed, "is not there"},
		"env finds none":      {[]func(string){write("agent", "#!/usr/bin/env python2.1\n", 0o755)}, nil, doctor.Failed, "not on the PATH"},
		"interpreter outside": {[]func(string){write("agent", "#!"+outside+"/bin/python3\n", 0o755)}, nil, doctor.Failed, "folders: [" + outside + "]"},
		"interpreter planned": {[]func(string){write("agent", "#!"+outside+"/bin/python3\n", 0o755)}, []string{outside}, doctor.OK, ""},
		"environment":         {[]func(string){write("agent", "#!/bin/sh\n", 0o755), write("venv/pyvenv.cfg", "home = "+outside+"/bin\n", 0o644)}, nil, doctor.Failed, "folders: [" + outside + "]"},
		"a link that leads out": {[]func(string){write("agent", "#!/bin/sh\n", 0o755), func(dir string) {
			if err := os.Symlink(outside, filepath.Join(dir, "data")); err != nil {
				t.Fatal(err)
			}
		}}, nil, doctor.Missing, "data"},
		"native": {[]func(string){func(dir string) {
			program, err := os.ReadFile(self)
			if err != nil {
				t.Fatal(err)
			}
			write("agent", string(program), 0o755)(dir)
		}}, nil, doctor.OK, ""},
	} {
		dir := t.TempDir()
		for _, m := range c.make {
			m(dir)
		}
		own := plan.AgentPlan{Command: []string{"agent"}, Folders: []plan.AgentFolder{{Path: dir}}}
		for _, given := range c.given {
			own.Folders = append(own.Folders, plan.AgentFolder{Path: given})
		}
		r := doctor.NewReport(Check(own), false)
		if r.State != c.state || !strings.Contains(strings.Join(strings.Fields(r.Text()), " "), c.want) {
			t.Errorf("%s: state %s, want %s with %q\n%s", name, r.State, c.state, c.want, r.Text())
		}
	}
}
