package rundir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// networked is a run of an own agent whose exchanges overlap each other and its turns, and end in another order than
// they began.
const networked = `run started
a.1 begin
a.1 fetches n=1
a.1.1 turn
a.1 fetches n=2 {"bytes":3,"method":"POST","sha256":"DIGEST"}
a.1.1 asks {"origins":{"agent":20,"exchange":30,"question":9,"passages":[{"key":"k","tasks":1}],"probes":{}}}
a.1 fetched n=2 {"status":404}
a.1 refuses rule_refused {"path":"GET https://answers.example/","rule_ids":["R001"]}
a.1.1 sends
a.1.1 replies in=10 out=5 cost=3
a.1.1 done
a.1 fetched n=1
a.1 gives answer-file.v1 42 {"seen_in":["exchange","reply"]}
a.1 exited answered refused=1 {"agent":{"confined":{"ended":true,"filtered":true,"isolated":true,"no_privileges":true,"no_route":2,"read_only":true,"unheard":3},"ended":"exited","exit":0,"refused":1}}
a.1 graded right
a sealed solved 1/1
b sealed skipped 0/0
run completed solved=1 skipped=1
`

func recordedPlan(t testing.TB, tasks ...string) plan.Plan {
	m := ownPlan(t, tasks...)
	m.Agent.Network = plan.NetworkRecord
	return m
}

var digests = strings.NewReplacer("DIGEST", canonical.Digest([]byte("abc")))

func TestExchanges(t *testing.T) {
	f, records := mustFollow(t, recordedPlan(t, "a", "b"), digests.Replace(networked))
	var got []string
	for _, step := range records[0].Steps {
		if s, ok := step.(ExchangeStep); ok {
			got = append(got, fmt.Sprintf("%d %s %d %d %s %s", s.Number, s.Method, s.Status, s.RequestBytes, s.URL, s.Head))
		}
	}
	want := []string{"2 POST 404 3 https://almanac.example/tides <p>Tides</p>", "1 GET 200 0 https://almanac.example/tides <p>Tides</p>"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if f.Inputs != (Inputs{PromptBytes: 59, WitnessedBytes: 39}) {
		t.Errorf("%+v", f.Inputs)
	}
	if a, b := f.Task("a").Inputs, f.Task("b").Inputs; a != f.Inputs || b != (Inputs{}) {
		t.Errorf("of the tasks: %+v, %+v", a, b)
	}
	if reason := badOrigins(&trajectory.Origins{Reply: 9, Probes: &trajectory.Probes{}}, 2); reason != "" { // of the order of what was sent before
		t.Error(reason)
	}
	if a := f.Task("a").Attempts[0]; a.Refused != 1 || a.underWay != nil || f.open != 0 {
		t.Errorf("%+v", a)
	}
}

// TestInputs: what models were sent of the built-in agent is witnessed; of an own agent its requests say it, or nothing does.
func TestInputs(t *testing.T) {
	f, _ := mustFollow(t, planOf(t, "a"), "run started\na.1 begin\na.1.1 turn\na.1.1 prompt\na.1.1 call in=1 out=1\na.1.1 done\na.1.2 turn\na.1.2 prompt kept=1")
	if f.Inputs != (Inputs{PromptBytes: 19, WitnessedBytes: 19}) {
		t.Errorf("%+v", f.Inputs)
	}
	f, _ = mustFollow(t, ownPlan(t, "a"), "run started\na.1 begin\na.1.1 turn\na.1.1 asks")
	if f.Inputs != (Inputs{Unknown: true}) {
		t.Errorf("%+v", f.Inputs)
	}
}

func TestShare(t *testing.T) {
	for want, n := range map[string]Inputs{
		"not known": {},
		"100.0 % of 19 bytes that models were sent are witnessed":               {PromptBytes: 19, WitnessedBytes: 19},
		"99.9 % of 100000 bytes that models were sent are witnessed":            {PromptBytes: 100_000, WitnessedBytes: 99_999},
		"0.0 % of 9007199254740992 bytes that models were sent are witnessed":   {PromptBytes: maxCounted},
		"100.0 % of 9007199254740992 bytes that models were sent are witnessed": {PromptBytes: maxCounted, WitnessedBytes: maxCounted},
	} {
		if got := n.Share().String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if s := n.Share(); !s.Plausible(true) || s.Plausible(false) != (s == nil || s.Bytes == s.Witnessed) {
			t.Errorf("%v: plausible %t, %t", s, s.Plausible(true), s.Plausible(false))
		}
	}
	if s := (Inputs{PromptBytes: 9, WitnessedBytes: 9, Unknown: true}).Share(); s != nil {
		t.Errorf("%v, though a request does not say where its messages come from", s)
	}
}

// TestOpenNetwork: what a crash cuts off may stay open.
func TestOpenNetwork(t *testing.T) {
	for _, end := range []string{"a.1 error\na.1 ended error", "a.1 ended error interrupted", "a.1 exited error as=deadline"} {
		f, records := mustFollow(t, recordedPlan(t, "a"), "run started\na.1 begin\na.1 fetches n=1\n"+end)
		if a := f.Task("a").Attempts[0]; len(records) != 1 || a.underWay != nil {
			t.Errorf("%s: %+v", end, a)
		}
	}
}

func TestFoldRefusesOfNetwork(t *testing.T) {
	const begun = "run started\na.1 begin\n"
	const asked = begun + "a.1 fetches n=1\n"
	const done = asked + "a.1 fetched n=1\n"
	const turned = begun + "a.1.1 turn\n"
	const given = done + "a.1 gives answer-file.v1 42\n"
	const request = "the body of the request of exchange 1 has a size or digest that none has"
	const reply = "the body of the reply of exchange 1 has a size or digest that none has"
	const shows = "exchange 1 shows more of its reply than there is"
	const nowhere = "counts less than nothing of where its messages come from"
	tests := []struct{ name, script, want string }{
		{"exchange 2 first", begun + "a.1 fetches n=2", "exchange 2 cannot begin here"},
		{"exchange 0", begun + "a.1 fetches n=0", "exchange 0 cannot begin here"},
		{"exchange begun twice", asked + "a.1 fetches n=1", "exchange 1 cannot begin here"},
		{"exchange left out", done + "a.1 fetches n=3", "exchange 3 cannot begin here"},
		{"completed before it begins", begun + "a.1 fetched n=1", "exchange 1 is not open"},
		{"completed twice", done + "a.1 fetched n=1", "exchange 1 is not open"},
		{"another completed", asked + "a.1 fetched n=2", "exchange 2 is not open"},
		{"begun in the next attempt", asked + "a.1 error\na.1 ended error\na.2 begin\na.2 fetched n=1", "exchange 1 is not open"},
		{"begun after the answer", given + "a.1 fetches n=2", "exchange 2 begins after the answer was committed"},
		{"answer before it is completed", asked + "a.1 gives answer-file.v1 42", "commits an answer before exchange 1 is completed"},
		{"end before it is completed", asked + "a.1 exited no_answer", `ends as "no_answer" before exchange 1 is completed`},
		{"no method", begun + `a.1 fetches n=1 {"method":""}`, "exchange 1 does not say what was asked for"},
		{"no address", begun + `a.1 fetches n=1 {"url":"almanac.example"}`, "exchange 1 does not say what was asked for"},
		{"request without a digest", begun + `a.1 fetches n=1 {"bytes":3}`, request},
		{"digest without a request", begun + `a.1 fetches n=1 {"sha256":"DIGEST"}`, request},
		{"negative request", begun + `a.1 fetches n=1 {"bytes":-3,"sha256":"DIGEST"}`, request},
		{"no digest of a request", begun + `a.1 fetches n=1 {"bytes":3,"sha256":"sha256:0"}`, request},
		{"no body of a request", begun + `a.1 fetches n=1 {"body_sha256":"DIGEST"}`, request},
		{"negative redactions", begun + `a.1 fetches n=1 {"redactions":-1}`, request},
		{"reply without a digest", asked + `a.1 fetched n=1 {"sha256":""}`, reply},
		{"digest without a reply", asked + `a.1 fetched n=1 {"bytes":0}`, reply},
		{"negative latency", asked + `a.1 fetched n=1 {"latency_ms":-1}`, reply},
		{"negative opaque parts", asked + `a.1 fetched n=1 {"opaque":-1}`, reply},
		{"negative rest", asked + `a.1 fetched n=1 {"unprobed":-1}`, reply},
		{"no status", asked + `a.1 fetched n=1 {"status":0}`, "exchange 1 has the status 0, which no such reply has"},
		{"no status, with a body", asked + `a.1 fetched n=1 {"status":0,"error":"reset"}`, "exchange 1 has the status 0, which no such reply has"},
		{"odd status", asked + `a.1 fetched n=1 {"status":42}`, "exchange 1 has the status 42, which no such reply has"},
		{"long head", asked + `a.1 fetched n=1 {"head":"` + strings.Repeat("x", trajectory.ExchangeHead+1) + `"}`, shows},
		{"head of nothing", asked + `a.1 fetched n=1 {"bytes":0,"sha256":"","probes":null}`, shows},
		{"probes of nothing", asked + `a.1 fetched n=1 {"bytes":0,"sha256":"","head":"","status":0,"error":"reset"}`, shows},
		{"negative origin", turned + `a.1.1 asks {"origins":{"agent":0,"reply":-1}}`, nowhere},
		{"negative agent", turned + `a.1.1 asks {"origins":{"agent":-1}}`, nowhere},
		{"passages of nothing", turned + `a.1.1 asks {"origins":{"agent":0,"passages":[{"key":"k"}]}}`, "shows something of the agent's in messages that have nothing of it"},
		{"many passages", turned + `a.1.1 asks {"origins":{"agent":40,"passages":[` + strings.Repeat(`{"key":"k"},`, trajectory.MostPassages) + `{"key":"k"}]}}`, "lists 17 passages of the agent's"},
		{"passage without a key", turned + `a.1.1 asks {"origins":{"agent":40,"passages":[{"key":""}]}}`, "lists a passage of the agent's that none can be"},
		{"passage of more tasks than there are", turned + `a.1.1 asks {"origins":{"agent":40,"passages":[{"key":"k","tasks":1}]}}`, "lists a passage of the agent's that none can be"},
		{"unknown source of the answer", done + `a.1 gives answer-file.v1 42 {"seen_in":["dream"]}`, `is an answer that stood before in ["dream"]`},
		{"unsorted sources of the answer", done + `a.1 gives answer-file.v1 42 {"seen_in":["reply","exchange"]}`, `is an answer that stood before in ["reply" "exchange"]`},
		{"source of the answer twice", done + `a.1 gives answer-file.v1 42 {"seen_in":["reply","reply"]}`, `is an answer that stood before in ["reply" "reply"]`},
		{"answer and a word of it", done + `a.1 gives answer-file.v1 42 {"seen_in":["reply"],"shares_word":true}`, "says of an answer that stood before that a word of it did"},
		{"negative routes", given + `a.1 exited answered {"agent":{"confined":{"no_route":-1},"ended":"exited"}}`, "counts less than nothing of what went past the network"},
		{"negative unheard", given + `a.1 exited answered {"agent":{"confined":{"unheard":-1},"ended":"exited"}}`, "counts less than nothing of what went past the network"},
		{"rules twice", begun + `a.1 refuses rule_refused {"rule_ids":["R001","R001"]}`, `is refused by the rules ["R001" "R001"]`},
	}
	for i := range tests {
		tests[i].script = digests.Replace(tests[i].script)
	}
	refused(t, recordedPlan(t, "a"), tests)

	// No other plan has them.
	const network = "is an exchange of a network that the plan does not have"
	refused(t, ownPlan(t, "a"), []struct{ name, script, want string }{
		{"exchange without a network", begun + "a.1 fetches n=1", network},
		{"reply without a network", begun + "a.1 fetched n=1", network},
		{"rules without a network", begun + `a.1 refuses rule_refused {"rule_ids":["R001"]}`, `is refused by the rules ["R001"]`},
	})
	host := ownPlan(t, "a")
	host.Agent.Network, host.Agent.Unconfined, host.Unconfined, host.SubmitIntent = plan.NetworkHost, true, []string{plan.UnconfinedAgent}, false
	refused(t, host, []struct{ name, script, want string }{
		{"exchange on the host", begun + "a.1 fetches n=1", network},
		{"confined outside of the sandbox", begun + `a.1 exited no_answer {"agent":{"confined":{"ended":true},"ended":"exited"}}`, "says how an agent was confined that ran outside of the sandbox"},
	})
	const of = "is of an own agent, which the plan does not have"
	refused(t, planOf(t, "a"), []struct{ name, script, want string }{
		{"exchange", begun + "a.1 fetches n=1", network},
		{"reply", begun + "a.1 fetched n=1", network},
		{"origins", turned + `a.1.1 prompt {"origins":{"agent":0}}`, of},
		{"source of the answer", begun + `a.1 answer 42 {"seen_in":["reply"]}`, of},
		{"word of the answer", begun + `a.1 answer 42 {"shares_word":true}`, of},
	})
	if !slices.IsSorted(sources) {
		t.Error("the sources are not sorted")
	}
}
