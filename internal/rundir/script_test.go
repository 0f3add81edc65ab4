package rundir

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// The tests write journals in a small language, an event a line: where it
// stands (run, a task, a task's attempt, a turn of that) and what it says.
//
//	run started
//	a.1 begin                    a's first attempt, with the planned question
//	a.1.1 turn                   its first turn
//	a.1.1 prompt
//	a.1.1 call in=10 out=5 cost=3    cost=? is unknown; error: no reply, error=CODE; retry: repeats a call
//	a.1.1 propose calculate
//	a.1.1 allow                  or: refuse R001
//	a.1.1 violation R001 R004    by the call; R006, mode and deny_list are of the class that they name
//	a.1.1 kept                   the workspace, before a call may change it
//	a.1.1 executed calculate     with in=1 out=2 cost=3: a model made the result
//	a.1.1 rollback right         of the workspace; or: wrong, unknown, other (by another call)
//	a.1.1 done
//	a.1.1 asks kept=1            of an own agent: a request that keeps so many messages of the one before
//	a.1.1 sends                  it; body=x: the same for all with x; again: as it was sent before; dialect=telex; as=x: as other bytes
//	a.1.1 replies in=10 out=5    as call
//	a.1 refuses budget_spent     a request
//	a.1 gives submit-answer.v1 42
//	a.1 exited answered refused=1    or: no_answer, error; as=deadline: how its process ended
//	a.1 answer 42
//	a.1 ended answered           or: no_answer, error, error interrupted; workspace=+2-1~1: lines added, removed, reworked; unrecorded: by digests alone
//	a.1 graded right             or: wrong, judged, cached, unreadable, failed, unjudged, blank
//	a sealed solved 1/1          attempt 1 of 1
//	run resumed 13               after so many events; torn: a tail was cut; guidance=fedc: under another
//	run swept bad=1 checked=9    the judge cache
//	run limit from=8 to=4        requests at once
//	run completed solved=1

// oneSolved is the shortest run with a bit of everything: one task, solved.
const oneSolved = `run started
a.1 begin
a.1.1 turn
a.1.1 prompt
a.1.1 call in=10 out=5 cost=3
a.1.1 propose calculate
a.1.1 allow
a.1.1 executed calculate
a.1.1 done
a.1.2 turn
a.1.2 call in=20 out=2 cost=4
a.1.2 done
a.1 answer 42
a.1 ended answered
a.1 graded right
a sealed solved 1/1
run completed solved=1
`

const testRunID = "01JZ0000000000000000000RVN"

func testKey(t testing.TB, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// plan is a signed plan of tasks, of levels 1, 2, 3, 3 and so on, whose answers are known.
func planOf(t testing.TB, tasks ...string) plan.Plan {
	t.Helper()
	m := plan.New()
	m.RunID, m.Created, m.Rehearsal = testRunID, "2031-02-03T04:05:06.789Z", true
	m.Dataset = plan.Dataset{CarriedGold: true, Name: "invented", Revision: "r1", Selection: "all", Split: "validation", SplitSize: len(tasks)}
	m.SplitIDs = tasks
	m.Dataset.IDsSHA256 = idsDigest(t, tasks)
	m.Splits = []plan.SplitPlan{{CarriedGold: true, IDsSHA256: idsDigest(t, slices.Sorted(slices.Values(tasks))), Name: "validation", Size: len(tasks)}}
	m.GoldCommitment = canonical.Digest([]byte("gold"))
	m.Govern(policy.Policy{Mode: policy.Restricted})
	m.Harness = trajectory.Harness{Version: "v0.1.0", ExecutableSHA256: canonical.Digest([]byte("program"))}
	m.Judge = &plan.JudgePlan{Cache: true, Model: "scripted-judge", Origin: "http://127.0.0.1", Prompt: "judge.v1"}
	m.Model = plan.ModelPlan{Name: "scripted-model", Origin: "http://127.0.0.1"}
	m.Voting = plan.VotingPlan{Attempts: 1, Rule: plan.VoteFirst}
	m.SigningKey = testKey(t, 1).Public().Line()
	for i, id := range tasks {
		m.Dataset.Levels[min(i, 2)]++
		digest, err := plan.QuestionDigest(testSalt, question(id))
		if err != nil {
			t.Fatal(err)
		}
		m.Tasks = append(m.Tasks, plan.PlannedTask{Level: min(i, 2) + 1, QuestionSHA256: digest, TaskID: id})
	}
	return m
}

// testSalt is the salt of every task of a script.
var testSalt = strings.Repeat("5a", 32)

func idsDigest(t testing.TB, ids []string) string {
	t.Helper()
	digest, err := plan.IDsDigest(ids)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func question(task string) string { return "What is " + task + "?" }

func encodePlan(t testing.TB, m plan.Plan) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buffer is a journal in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) Sync() error { return nil }

// write writes a script as a journal, a millisecond an event.
func write(t testing.TB, m plan.Plan, script string) []byte {
	t.Helper()
	return writeDrafts(t, m, drafts(t, m, script))
}

// calls has the event id of the last model call of each attempt.
type calls map[string]string

// link gives a draft that repeats a call the id of the last one of its attempt; where
// there is none, the id that it has is of no event.
func (c calls) link(d trajectory.Draft) trajectory.Draft {
	p, ok := d.Payload.(trajectory.ModelCallCompleted)
	if last := c[attemptOf(d.TaskID, d.Attempt)]; ok && p.RetryOf != "" && last != "" {
		p.RetryOf = last
		d.Payload = p
	}
	return d
}

// add remembers an event that was accepted.
func (c calls) add(d trajectory.Draft, id string) {
	if _, ok := d.Payload.(trajectory.ModelCallCompleted); ok {
		c[attemptOf(d.TaskID, d.Attempt)] = id
	}
}

func attemptOf(task string, attempt int) string { return fmt.Sprintf("%s.%d", task, attempt) }

// parse reads one line of a script. Members in braces at its end replace those of the payload.
func parse(m plan.Plan, digest, line string) (trajectory.Draft, error) {
	line, members, changed := strings.Cut(line, " {")
	d, err := parseWords(m, digest, line)
	if err != nil || !changed {
		return d, err
	}
	p := reflect.New(reflect.TypeOf(d.Payload))
	p.Elem().Set(reflect.ValueOf(d.Payload))
	err = json.Unmarshal([]byte("{"+members), p.Interface(), json.RejectUnknownMembers(true))
	d.Payload = p.Elem().Interface().(trajectory.Payload)
	return d, err
}

func parseWords(m plan.Plan, digest, line string) (trajectory.Draft, error) {
	where, what, _ := strings.Cut(line, " ")
	verb, args, _ := strings.Cut(what, " ")
	var d trajectory.Draft
	place := strings.Split(where, ".")
	if d.TaskID = place[0]; d.TaskID == "run" {
		d.TaskID = ""
	}
	for i, n := range []*int{&d.Attempt, &d.Turn} {
		if len(place) > i+1 {
			var err error
			if *n, err = strconv.Atoi(place[i+1]); err != nil {
				return d, err
			}
		}
	}
	named := map[string]string{}
	for _, f := range strings.Fields(args) {
		name, value, _ := strings.Cut(f, "=")
		named[name] = value
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(named[name], 10, 64)
		return n
	}
	has := func(name string) bool { _, ok := named[name]; return ok }
	switch verb {
	case "started":
		d.Payload = trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: digest, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode,
			Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent}
	case "resumed":
		first, rest, _ := strings.Cut(args, " ")
		events, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return d, err
		}
		p := trajectory.RunResumed{Events: events, GuidanceHash: cmp.Or(named["guidance"], m.GuidanceHash), Harness: m.Harness, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode}
		if rest == "torn" {
			p.Torn = &trajectory.Torn{Bytes: 3, File: "torn-99", SHA256: canonical.Digest([]byte("abc"))}
		}
		d.Payload = p
	case "swept":
		p := trajectory.SecurityEvent{Bad: int(number("bad")), Checked: int(number("checked")), Kind: trajectory.JudgeCacheSweep}
		for range number("named") {
			p.Entries = append(p.Entries, trajectory.BadEntry{Name: "00ff.json", Reason: "the signature is not good"})
		}
		d.Payload = p
	case "limit":
		d.Payload = trajectory.LimitChanged{From: int(number("from")), Origin: "http://127.0.0.1", Reason: "429", To: int(number("to"))}
	case "completed":
		p := trajectory.RunCompleted{Error: int(number("error")), Failed: int(number("failed")), GuidanceHash: m.GuidanceHash,
			Skipped: int(number("skipped")), Solved: int(number("solved")), Unscored: int(number("unscored"))}
		p.Planned = p.Error + p.Failed + p.Skipped + p.Solved + p.Unscored + int(number("planned"))
		d.Payload = p
	case "begin":
		p := trajectory.TaskStarted{Question: args, Workspace: []trajectory.File{}}
		p.Question, p.FileName, _ = strings.Cut(args, " with ")
		p.FileName, p.ShownAs, _ = strings.Cut(p.FileName, " as ")
		if p.Question == "" {
			p.Question = question(d.TaskID)
		}
		d.Payload = p
	case "turn":
		d.Payload = trajectory.TurnStarted{}
	case "prompt":
		kept := number("kept")
		d.Payload = trajectory.ContextCompiled{Bytes: 9, Head: "new text", Kept: int(kept), Messages: []trajectory.Message{{Bytes: 9 + kept, Role: "user", Source: "question"}}}
	case "call":
		d.Payload = call(named, number, has)
	case "asks":
		d.Payload = trajectory.ContextCompiled{Bytes: 9, Head: "new text", Kept: int(number("kept")), Messages: []trajectory.Message{{Bytes: 9 + number("kept"), Role: "user", Source: cmp.Or(named["source"], plan.AgentSource)}}}
	case "sends":
		d.Payload = trajectory.ModelCallStarted{RequestedModel: "scripted-model", Try: 1, Request: &trajectory.AgentRequest{Bytes: 40, Dialect: cmp.Or(named["dialect"], DialectChat), Retry: has("again"),
			SentSHA256: named["as"], SHA256: canonical.Digest([]byte(cmp.Or(named["body"], where)))}}
	case "replies":
		p := call(named, number, has)
		if p.Reply = (&trajectory.AgentReply{Bytes: 80, SHA256: canonical.Digest([]byte("body")), Status: 200}); has("error") {
			p.Reply.Status = 503
		}
		d.Payload = p
	case "refuses":
		d.Payload = trajectory.RequestRefused{Code: args, Path: "POST /v1/chat/completions", Status: 400}
	case "fetches":
		d.Payload = trajectory.ExchangeStarted{Method: "GET", Number: int(number("n")), URL: "https://almanac.example/tides"}
	case "fetched":
		body := "<p>Tides</p>"
		d.Payload = trajectory.ExchangeCompleted{Bytes: int64(len(body)), Head: body, Number: int(number("n")), Probes: &trajectory.Probes{}, SHA256: canonical.Digest([]byte(body)), Status: 200}
	case "gives":
		rule, answer, _ := strings.Cut(args, " ")
		d.Payload = trajectory.AnswerCommitted{Answer: answer, InReply: true, Rule: rule}
	case "exited":
		outcome, _, _ := strings.Cut(args, " ")
		d.Payload = trajectory.AttemptEnded{Outcome: outcome, Agent: &trajectory.AgentEnd{Ended: cmp.Or(named["as"], trajectory.AgentExited), Refused: int(number("refused"))}}
	case "propose":
		d.Payload = trajectory.ToolProposed{Args: map[string]string{"a": "1"}, CallID: "c", Name: args}
	case "allow":
		d.Payload = trajectory.PolicyDecision{CallID: "c", Decision: "allow"}
	case "refuse":
		d.Payload = trajectory.PolicyDecision{CallID: "c", Decision: "deny", RuleIDs: []string{args}, Shown: "refused by " + args}
		if args == "mode" || args == "deny_list" || args == "person" {
			d.Payload = trajectory.PolicyDecision{CallID: "c", Decision: "deny", Shown: "refused by " + args}
		}
	case "asked":
		d.Payload = trajectory.ApprovalResolved{Approved: args == "yes", By: trajectory.ByPerson, CallID: "c"}
	case "violation":
		v := trajectory.PolicyViolation{CallID: "c", Class: "rule", Description: "it leads to answers", RuleIDs: strings.Fields(args)}
		switch args {
		case "mode", "deny_list":
			v.Class, v.RuleIDs = args, nil
		case policy.Budget:
			v.Class = "budget"
		}
		if class, rules, said := strings.Cut(args, ":"); said {
			v.Class, v.RuleIDs = class, strings.Fields(rules)
		}
		d.Payload = v
	case "kept":
		d.Payload = trajectory.CheckpointSaved{CallID: "c", TreeSHA256: "sha256:kept", Workspace: []trajectory.File{}}
	case "rollback":
		p := trajectory.Rollback{CallID: "c", Reason: "it leads to answers", Restored: []string{}, TreeAfter: "sha256:kept", TreeBefore: "sha256:kept"}
		switch args {
		case "wrong":
			p.TreeAfter = "sha256:other"
		case "nothing":
			p.TreeFound = p.TreeBefore
		case "unknown":
			p.TreeAfter, p.TreeBefore = "", ""
		case "other":
			p.CallID = "d"
		}
		d.Payload = p
	case "executed":
		p := trajectory.ToolExecuted{CallID: "c", Head: "result", URLs: []trajectory.URL{{Status: 200, URL: "http://a.example/"}}}
		p.Name, _, _ = strings.Cut(args, " ")
		if has("cost") {
			c := call(named, number, has)
			p.Model = &trajectory.ModelUse{CostMicroUSD: c.CostMicroUSD, RequestedModel: "scripted-reader", Tokens: c.Tokens, Tries: 1, UsageReported: true}
		}
		d.Payload = p
	case "done":
		d.Payload = trajectory.TurnCompleted{ToolCalls: 1}
	case "error":
		d.Payload = trajectory.Error{Message: "no reply", Stage: "model"}
	case "answer":
		d.Payload = trajectory.AnswerCommitted{Answer: args, ReasoningTrace: "because", Rule: "final-answer.v1"}
	case "ended":
		args, change, changed := strings.Cut(args, " workspace=")
		outcome, reason, _ := strings.Cut(args, " ")
		p := trajectory.AttemptEnded{Outcome: outcome, Reason: reason}
		if changed {
			w := &trajectory.WorkspaceChange{Files: []string{"notes.txt", "plan.txt"}}
			if _, err := fmt.Sscanf(change, "+%d-%d~%d", &w.Added, &w.Removed, &w.Reworked); err != nil {
				return d, err
			}
			if w.Diff = "--- a\n"; strings.HasSuffix(change, " unrecorded") {
				w.Diff, w.Truncated = "", true
			}
			p.Workspace = w
		}
		d.Payload = p
	case "graded":
		p, ok := verdicts()[args]
		if !ok {
			return d, fmt.Errorf("no verdict %q", args)
		}
		d.Payload = p
	case "sealed":
		p := trajectory.TaskSealed{Salt: testSalt}
		if _, err := fmt.Sscanf(args, "%s %d/%d", &p.Outcome, &p.Attempt, &p.Attempts); err != nil {
			return d, err
		}
		if salt, ok := named["salt"]; ok {
			p.Salt = salt
		}
		d.Payload = p
	default:
		return d, fmt.Errorf("no event %q", verb)
	}
	return d, nil
}

func call(named map[string]string, number func(string) int64, has func(string) bool) trajectory.ModelCallCompleted {
	p := trajectory.ModelCallCompleted{OutputSHA256: canonical.Digest([]byte("reply")), RequestedModel: "scripted-model", Try: 1, UsageReported: true,
		Tokens: trajectory.Tokens{In: number("in"), Out: number("out"), Cached: number("cached"), Reasoning: number("reasoning")}}
	if cost := number("cost"); named["cost"] != "?" {
		p.CostMicroUSD = &cost
	}
	if has("error") {
		p.OutputSHA256, p.CostMicroUSD, p.Error = "", nil, &trajectory.CallError{Code: named["error"], Message: "busy", Status: 500, Retryable: true}
	}
	if has("retry") {
		p.RetryOf = "01JZ0000000000000000000000"
	}
	return p
}

// verdicts are the ways in which an answer is graded.
func verdicts() map[string]trajectory.Judgment {
	yes, no, free, cost := true, false, int64(0), int64(11)
	asked := trajectory.Judgment{CostMicroUSD: &cost, Model: "scripted-judge", Path: "judge", TokensIn: 7, TokensOut: 2, Tries: 1}
	with := func(path string, judged *bool, cost *int64) trajectory.Judgment {
		j := asked
		j.Path, j.Judged, j.CostMicroUSD = path, judged, cost
		return j
	}
	return map[string]trajectory.Judgment{
		"right":      {CostMicroUSD: &free, Judged: &yes, Official: true, Path: "official"},
		"blank":      {CostMicroUSD: &free, Judged: &no, Path: "no_answer"},
		"unjudged":   {CostMicroUSD: &free, Path: "no_judge"},
		"judged":     with("judge", &yes, &cost),
		"wrong":      with("judge", &no, &cost),
		"cached":     {Cached: true, CostMicroUSD: &free, Judged: &yes, Model: "scripted-judge", Path: "judge"},
		"recached":   {Cached: true, CostMicroUSD: &free, Judged: &yes, Model: "scripted-judge", Path: "judge", Tries: 1},
		"unreadable": with("judge_unreadable", nil, &cost),
		"failed":     with("judge_error", nil, nil),
	}
}

// follow folds a journal; the fold may be of a run that is not complete.
func follow(t testing.TB, m plan.Plan, journal []byte) (*Fold, []Trajectory, trajectory.End, error) {
	t.Helper()
	digest := canonical.Digest(encodePlan(t, m))
	var records []Trajectory
	f := NewFold(m, digest, func(r Trajectory) error {
		records = append(records, r)
		return nil
	})
	end, _, err := trajectory.ReadJournal(bytes.NewReader(journal), m.RunID, digest, f.Add)
	return f, records, end, err
}

// mustFollow folds a script that is legal.
func mustFollow(t testing.TB, m plan.Plan, script string) (*Fold, []Trajectory) {
	t.Helper()
	f, records, _, err := follow(t, m, write(t, m, script))
	if err != nil {
		t.Fatalf("a legal run is refused: %v", err)
	}
	return f, records
}
