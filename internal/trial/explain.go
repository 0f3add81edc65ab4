package trial

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// Cause is why an attempt has no answer, and what to do.
type Cause struct {
	Hint string `json:"hint,omitzero"`
	What string `json:"what"`
}

// hints say what to do about a request that was refused, by its code.
var hints = map[string]string{
	"body_compressed":     "send requests without Content-Encoding",
	"budget_spent":        "answer with what there is; --max-task-cost and --max-task-tokens allow more",
	"calls_spent":         "answer with what there is; 'calls' below agent in gaia.yaml allows more",
	"capability_withheld": "leave the provider's own tools out of requests, or write 'strip: true' below agent in gaia.yaml, which takes them out",
	"model_not_planned":   "ask for the model in GAIA_MODEL, or name it in 'models' below agent in gaia.yaml",
	"exchanges_spent":     "read fewer pages in one attempt",
	"not_http":            "the recorded network takes HTTP and HTTPS only",
	"private_address":     "public addresses can be reached, and in a rehearsal the hosts of the built-in web",
	"rule_refused":        "the policy of the run forbids this address, as it does for the run's own tools",
	"tls_refused":         "let the client trust the certificates in SSL_CERT_FILE, which are also at /etc/ssl/certs/ca-certificates.crt, and pin none",
	"request_too_large":   "send less in one request: 32 MiB and 20000 messages at most",
	"request_unreadable":  "send a JSON request of chat completions, responses or messages",
	"request_unread":      "send less in one request, and fewer archives",
	"state_not_recorded":  "send the whole input in each request, without previous_response_id, conversation and background",
	"too_many_requests":   "send fewer requests at once",
	"unknown_route":       "the routes are /v1/chat/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens and /v1/models",
	"upgrade_refused":     "use plain HTTP and server-sent events",
}

// by says how an answer was given, by its rule.
var by = map[string]string{
	plan.RuleSubmitted:     "the tool submit_answer",
	plan.RuleAnswerFile:    "the file ANSWER",
	"final-answer.v1":      "FINAL ANSWER on standard output",
	"final-answer-next.v1": "FINAL ANSWER on standard output",
}

// ends says how a process ended that did not exit by itself.
var ends = map[string]string{
	trajectory.AgentDeadline:   "stopped at its deadline",
	trajectory.AgentMemory:     "stopped: it used more memory than planned",
	trajectory.AgentProcesses:  "stopped: it ran more processes than planned",
	trajectory.AgentDisk:       "stopped: it wrote more to its working folder than planned",
	trajectory.AgentNotStarted: "its program could not be run",
}

// limitHints say which setting allows more, by how the process ended.
var limitHints = map[string]string{
	trajectory.AgentDeadline:  "GAIA_DEADLINE says when the time is over; --agent-timeout or 'timeout' below agent in gaia.yaml gives more",
	trajectory.AgentMemory:    "'memory' below agent in gaia.yaml gives more",
	trajectory.AgentProcesses: "'processes' below agent in gaia.yaml gives more",
	trajectory.AgentDisk:      "'disk' below agent in gaia.yaml gives more; files in /tmp count as memory",
}

// noNetwork matches what programs write when they look up a name or open a connection in a sandbox without a network.
var noNetwork = regexp.MustCompile(`(?i)name or service not known|temporary failure in name resolution|could not resolve host|network is unreachable|` +
	`\b(ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|getaddrinfo|failed to (resolve|lookup)|no such host|nodename nor servname|dns error|lookup .* on .*:53`)

// notFound matches what a shell or the kernel says of a program that is not there.
var notFound = regexp.MustCompile(`(?i)(?:env: )?['‘]?([^\s:'’]+)['’]?: (?:not found|command not found|no such file or directory)`)

// noAnswer begins the reason of an attempt whose agent gave none.
const noAnswer = "the agent gave no answer"

// explain finds out why an attempt has no answer. hasTools says that the agent has the tools of the run.
func (r *Report) explain(hasTools bool) {
	if r.Outcome == trajectory.Answered {
		return
	}
	add := func(hint, format string, args ...any) {
		r.Why = append(r.Why, Cause{Hint: hint, What: fmt.Sprintf(format, args...)})
	}
	calls := 0
	for _, c := range r.Calls {
		calls += c.Count
	}
	e := r.End
	fault, _, _ := strings.Cut(r.Reason, "; ")
	rejected := r.Outcome == trajectory.NoAnswer && fault != "" && fault != noAnswer
	if rejected || r.Outcome == trajectory.Errored {
		add("", "No answer counts: %s.", cmp.Or(fault, "the attempt ended in an error"))
	}
	switch {
	case e.Ended == "": // as the reason says
		return
	case e.Ended == trajectory.AgentNotStarted:
		add("gaia agent doctor DIR looks at the folder; the sandbox has /usr, the agent's folder and what 'folders' below agent in gaia.yaml names",
			"The agent's program could not be run.")
	case e.Ended != trajectory.AgentExited:
		add(limitHints[e.Ended], "The agent was %s.", ends[e.Ended])
	case e.Exit == 126 || e.Exit == 127:
		what := "a program"
		if m := notFound.FindStringSubmatch(e.Stderr); m != nil {
			what = m[1]
		}
		add("install it below /usr or in the agent's folder, or name its folder in 'folders' below agent in gaia.yaml; PATH is /usr/local/bin:/usr/bin:/bin",
			"The agent did not find %s in the sandbox (exit code %d).", what, e.Exit)
	case e.Exit != 0:
		add("", "The agent crashed: %s.", strings.TrimSuffix(crashLine(e.Stderr, r.ended()), "."))
	}
	lookedUp := e.Confined != nil && e.Confined.Unheard > 0
	if r.Network == plan.NetworkRecord && (lookedUp || noNetwork.MatchString(e.Stderr)) {
		add("let its clients use the proxy in HTTPS_PROXY and HTTP_PROXY; nothing else leads out, and no name can be looked up",
			"The agent tried to reach the network past the proxy.")
	} else if noNetwork.MatchString(e.Stderr) {
		add("ask models at OPENAI_BASE_URL or ANTHROPIC_BASE_URL and use the tools at GAIA_MCP_URL or GAIA_TOOLS_URL; whatever else the agent loads must be in its folder",
			"The agent tried to reach the network, and has none.")
	}
	for _, f := range r.Refused {
		if f.Hint != "" && !harmless(f) {
			what := fmt.Sprintf("The request %s was refused as %s", f.Path, f.Code)
			if f.Model != "" && f.Code == "model_not_planned" {
				what = fmt.Sprintf("The agent asked for the model %q, which is not planned", clip(f.Model, 60))
			}
			add(f.Hint, "%s.", what)
		}
	}
	if calls == 0 && !slices.ContainsFunc(r.Refused, func(f Refused) bool { return !harmless(f) }) && e.Ended != trajectory.AgentNotStarted {
		add("its client must read OPENAI_BASE_URL and OPENAI_API_KEY, or ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, and ask for GAIA_MODEL",
			"The agent asked no model.")
	}
	for _, c := range r.Calls {
		if c.Status >= 400 || c.Status == 0 {
			add("", "%s", strings.TrimSpace(fmt.Sprintf("A call of the model %s failed: status %d. %s", c.Model, c.Status, clip(c.Problem, 200))))
		}
	}
	if e.Ended == trajectory.AgentExited && e.Exit == 0 && !rejected {
		ways := "write it to the file ANSWER in its working folder, or print a line FINAL ANSWER: and the answer"
		if hasTools {
			ways = "call the tool submit_answer, " + ways
		}
		add(ways, "The agent exited without an answer.")
	}
}

// harmless reports whether a refused request is one that clients send to see whether something answers.
func harmless(f Refused) bool { return strings.HasPrefix(f.Path, "HEAD ") || f.Code == "hung_up" }

// colours matches what programs write to a terminal to change how it looks.
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// crash matches the line that says what went wrong: of Python, Node, Rust, Go and the like.
var crash = regexp.MustCompile(`(^|[\s.])(\w*(Error|Exception|Interrupt)\b.*|panic: .*|thread '.*' panicked at .*)`)

// crashLine returns the last line of a text that says what went wrong, else its last one with a word.
func crashLine(text, otherwise string) string {
	last := ""
	for line := range strings.Lines(colours.ReplaceAllString(text, "")) {
		line = strings.Trim(line, " \t\r\n|+")
		if strings.ContainsFunc(line, unicode.IsLetter) && (crash.MatchString(line) || !crash.MatchString(last)) {
			last = line
		}
	}
	if last == "" {
		return otherwise + ", and nothing on standard error"
	}
	return clip(last, 300)
}
