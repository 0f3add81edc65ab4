package external

import (
	"os"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// Parts of scripts.
const (
	submit  = `submit() { curl -sS -d "{\"answer\":\"$1\"}" $GAIA_TOOLS_URL/submit_answer; }` + "\n"
	ask     = `ask() { curl -sS -d "{\"model\":\"${1:-$GAIA_MODEL}\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]$2}" $OPENAI_BASE_URL/chat/completions; }` + "\n"
	forever = "while :; do sleep 0.1; done\n"
)

// TestAgents: whatever an agent does, its attempt has a clear end, and a journal that folds.
func TestAgents(t *testing.T) {
	s := confined(t)
	for _, c := range []struct {
		name, script string
		change       func(*bench)
		text, rule   string // of the answer; "" for none
		reason       string // part of it, if there is no answer
		ended        string // trajectory.AgentExited if ""
		check        func(t *testing.T, b *bench, end *trajectory.AgentEnd)
	}{
		{name: "the tool comes first", script: submit + `submit " 42 "; echo 43 >ANSWER; echo FINAL ANSWER: 44`, text: "42", rule: plan.RuleSubmitted},
		{name: "then the file", script: `echo " 43" >ANSWER; echo FINAL ANSWER: 44`, text: "43", rule: plan.RuleAnswerFile},
		{name: "then standard output", script: `echo FINAL ANSWER: 1; echo FINAL ANSWER: 44; echo bye`, text: "44", rule: "final-answer.v1"},
		{name: "the contract", script: `cat >stdin; cmp -s stdin QUESTION.md || exit 1
			case $OPENAI_BASE_URL in http://127.0.0.1:*/v1) ;; *) exit 2;; esac; case $ANTHROPIC_BASE_URL in */v1) exit 3;; esac
			[ "$OPENAI_API_KEY$ANTHROPIC_API_KEY" ] && [ $GAIA_MODEL = model-a ] && [ $OWN = value ] || exit 4
			case $GAIA_DEADLINE in 2*T*Z) ;; *) exit 5;; esac
			curl -sSf $GAIA_TOOLS_URL | grep -q '"name":"submit_answer"' || exit 6
			cat stdin >ANSWER`, change: func(b *bench) { b.Env = []string{"OWN=value"} }, text: strings.TrimSpace(question), rule: plan.RuleAnswerFile},
		{name: "no tools", script: `[ -z "$GAIA_MCP_URL$GAIA_TOOLS_URL" ] || exit 1
			curl -sS -o /dev/null -w "FINAL ANSWER: %{http_code}\n" -d {} ${ANTHROPIC_BASE_URL}/tools/calculate`,
			change: func(b *bench) { b.Plan.Tools = plan.AgentToolsNone }, text: "404", rule: "final-answer.v1"},
		{name: "the answer is in a reply", script: ask + "ask; echo FINAL ANSWER: 42", text: "42", rule: "final-answer.v1",
			check: func(t *testing.T, b *bench, _ *trajectory.AgentEnd) {
				if a := of[trajectory.AnswerCommitted](b); !a[0].InReply || b.asked != 1 {
					t.Errorf("%+v after %d requests", a, b.asked)
				}
			}},
		{name: "exits at once", script: "exit 0", reason: "the agent gave no answer; it exited with code 0"},
		{name: "fails", script: "echo 'no key sesame-word' >&2; exit 3", reason: "it exited with code 3", check: func(t *testing.T, _ *bench, end *trajectory.AgentEnd) {
			if end.Exit != 3 || end.Stderr != "no key [redacted]\n" || end.Redactions != 1 || end.StderrBytes != 19 {
				t.Errorf("%+v", end)
			}
		}},
		{name: "crashes", script: "kill -SEGV $$", reason: "signal 11"},
		{name: "cannot be run", change: func(b *bench) { b.Plan.Command = []string{"missing"} }, reason: "its program could not be run", ended: trajectory.AgentNotStarted},
		{name: "answers twice", script: submit + `submit one; submit two`, text: "one", rule: plan.RuleSubmitted, check: func(t *testing.T, b *bench, _ *trajectory.AgentEnd) {
			if r := of[trajectory.ToolExecuted](b); len(r) != 2 || r[0].IsError || !r[1].IsError {
				t.Errorf("%+v", r)
			}
		}},
		{name: "submits too much", script: `printf '{"answer":"%70000s"}' x | curl -sS -d @- $GAIA_TOOLS_URL/submit_answer | grep -q '"is_error":true' && exit 7`, reason: "exited with code 7"},
		{name: "is asked for an unplanned model", script: ask + "ask model-b", reason: "1 request refused", check: func(t *testing.T, b *bench, end *trajectory.AgentEnd) {
			if r := of[trajectory.RequestRefused](b); len(r) != 1 || r[0].Code != "model_not_planned" || r[0].Status != 400 || end.Refused != 1 || b.asked != 0 {
				t.Errorf("%+v, %+v, %d asked", r, end, b.asked)
			}
		}},
		{name: "refers to state", script: `curl -sS -d '{"model":"model-a","input":"x","previous_response_id":"r1"}' $OPENAI_BASE_URL/responses`, reason: "1 request refused",
			check: func(t *testing.T, b *bench, _ *trajectory.AgentEnd) {
				if r := of[trajectory.RequestRefused](b); len(r) != 1 || r[0].Code != "state_not_recorded" {
					t.Errorf("%+v", r)
				}
			}},
		{name: "unknown paths", script: `for p in / /toolsx /tools/ /v1/x /mcpx; do curl -sS -o /dev/null -d {} $ANTHROPIC_BASE_URL$p; done; curl -sS -X DELETE $GAIA_TOOLS_URL/calculate`, reason: "6 requests refused"},
		{name: "writers on one file", script: `for i in 1 2 3 4 5 6 7 8; do curl -sS -o /dev/null -d "{\"text\":\"$i\"}" $GAIA_TOOLS_URL/note & done; wait; sort -u notes | wc -l >ANSWER`, text: "8", rule: plan.RuleAnswerFile,
			check: func(t *testing.T, b *bench, _ *trajectory.AgentEnd) {
				if c := of[trajectory.CheckpointSaved](b); len(c) != 8 {
					t.Errorf("%d checkpoints", len(c))
				}
			}},
		{name: "an answer of 1 GB", script: "truncate -s 1G ANSWER; echo FINAL ANSWER: 1", reason: "the file ANSWER is larger than 64 KiB"},
		{name: "an answer of binary", script: `printf '\377' >ANSWER`, reason: "the file ANSWER is not UTF-8"},
		{name: "an empty answer", script: "echo >ANSWER", reason: "the file ANSWER is empty"},
		{name: "a pipe", script: "mkfifo ANSWER", reason: "the file ANSWER is not a regular file"},
		{name: "a folder", script: "mkdir ANSWER", reason: "the file ANSWER is not a regular file"},
		{name: "a link to what gaia is", script: "ln -s /proc/self/environ ANSWER", reason: "the file ANSWER is not a regular file"},
		{name: "a link out of the folder", script: "ln -s ../../../../etc/passwd ANSWER", reason: "the file ANSWER is not a regular file"},
		{name: "a link in the folder", script: "ln -s QUESTION.md ANSWER", reason: "the file ANSWER is not a regular file"},
		{name: "no one may read it", script: "echo 1 >ANSWER; chmod 0 ANSWER", reason: "the file ANSWER cannot be read"},
		{name: "1 GiB in a request", script: `head -c 1G /dev/zero | curl -sS -X POST -T - $OPENAI_BASE_URL/chat/completions; head -c 1G /dev/zero | curl -sS -X POST -T - $GAIA_TOOLS_URL/calculate; head -c 1G /dev/zero | curl -sS -X POST -T - -H "Content-Type: application/json" -H "Accept: */*" $GAIA_MCP_URL; echo 1 >ANSWER`, text: "1", rule: plan.RuleAnswerFile},
		{name: "output without end", script: "head -c 200M /dev/zero; echo; echo FINAL ANSWER: 5", text: "5", rule: "final-answer.v1",
			check: func(t *testing.T, _ *bench, end *trajectory.AgentEnd) {
				if end.StdoutBytes < 200<<20 {
					t.Errorf("%+v", end)
				}
			}},
		{name: "half a request", script: `for p in /v1/chat/completions /tools/calculate /mcp; do (printf "POST $p HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"; sleep 60) | telnet 127.0.0.1 4180 & done; sleep 0.3; echo 1 >ANSWER`, text: "1", rule: plan.RuleAnswerFile},
		{name: "daemons", script: `setsid setsid sh -c 'sleep 3; echo late >/work/ANSWER' & (setsid sleep 100 &) ; sleep 0.1`, reason: "exited with code 0"},
		{name: "kills the shim", script: "kill -9 $PPID; sleep 10; echo late >ANSWER", reason: "it ended the shim"},
		{name: "sleeps past the deadline", script: forever, change: short, reason: "its time was over", ended: trajectory.AgentDeadline},
		{name: "ignores SIGTERM", script: "trap '' TERM\n" + forever, change: short, reason: "it did not end", ended: trajectory.AgentDeadline},
		{name: "answers at SIGTERM", script: submit + "trap 'submit late; exit' TERM\n" + forever, change: func(b *bench) { short(b); b.Grace *= 30 }, text: "late", rule: plan.RuleSubmitted, ended: trajectory.AgentDeadline},
		{name: "an answer before the deadline counts", script: "echo 7 >ANSWER\n" + forever, change: short, text: "7", rule: plan.RuleAnswerFile, ended: trajectory.AgentDeadline},
		{name: "MCP", change: goAgent("mcp"), text: "8", rule: plan.RuleSubmitted},
		{name: "MCP as other clients speak it", change: goAgent("mcp-raw"), text: "spoken", rule: plan.RuleAnswerFile},
		{name: "10,000 calls", change: goAgent("calls"), text: "done", rule: plan.RuleAnswerFile, check: func(t *testing.T, b *bench, end *trajectory.AgentEnd) {
			if proposed, refused := of[trajectory.ToolProposed](b), of[trajectory.RequestRefused](b); len(proposed) != toolCalls || len(refused) != trajectory.MostRequestsRefused || end.Refused != 10_000-toolCalls {
				t.Errorf("%d proposed, %d refusals recorded, %+v", len(proposed), len(refused), end)
			}
		}},
		{name: "a stream that is left", change: func(b *bench) { goAgent("leave")(b); b.endpoint = endless(b) }, text: "gone", rule: plan.RuleAnswerFile,
			check: func(t *testing.T, b *bench, _ *trajectory.AgentEnd) {
				if done := of[trajectory.ModelCallCompleted](b); len(done) != 1 || done[0].Reply == nil || !done[0].Reply.Aborted {
					t.Errorf("%+v", done)
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if t.Parallel(); strings.HasPrefix(c.name, "10,000") {
				long.OnlyThorough(t)
			}
			b := newBench(t, c.script, c.change)
			b.Sandbox = s
			answer, err := b.solve()
			if err != nil {
				t.Fatal(err)
			}
			end := answer.End
			if c.name == "no one may read it" && os.Geteuid() == 0 { // root can
				return
			}
			if answer.Found != (c.rule != "") || answer.Text != c.text || answer.Rule != c.rule || !strings.Contains(answer.Reason, c.reason) || (answer.Reason == "") != answer.Found {
				t.Errorf("%+v; %+v", answer, end)
			}
			if want := c.ended; end.Ended != want && (want != "" || end.Ended != trajectory.AgentExited) {
				t.Errorf("it ended as %+v, want %q", end, want)
			}
			if c.check != nil {
				c.check(t, b, end)
			}
		})
	}
}

// short is time enough for an agent to start, also on a busy machine.
func short(b *bench) { b.Plan.TimeoutMs = 3000 }

// goAgent has the test binary be the agent.
func goAgent(name string) func(*bench) {
	return func(b *bench) { b.Plan.Command = []string{b.Shim, "agent", name} }
}
