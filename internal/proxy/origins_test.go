package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/trajectory"
)

// bytesOf are the bytes of a request by where its messages come from.
type bytesOf struct{ agent, question, reply, result int64 }

// originsOf returns them, and the hits of gold in the agent's.
func originsOf(p trajectory.ContextCompiled) (b bytesOf, gold int) {
	o := p.Origins
	if o.Probes != nil {
		gold = o.Probes.GoldHits
	}
	return bytesOf{o.Agent, o.Question, o.Reply, o.Result}, gold
}

// TestOrigins: a request says where its messages come from that are new in the attempt, and a reply whether it holds gold or
// code, also one that ended early.
func TestOrigins(t *testing.T) {
	const task = "What is the capital?"
	given := origin.New()
	given.Add(origin.Question, task)
	given.Add(origin.Result, "The city on the island in the river has been the seat since 987.")
	passages := origin.NewPassages([]byte("a secret"))
	replies := []http.HandlerFunc{
		replies(chatReply),
		replies(strings.Replace(chatReply, `"content":"Paris"`, `"content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"search","arguments":"{\"q\":\"old maps\"}"}}]`, 1)),
		func(w http.ResponseWriter, r *http.Request) { // ends early
			streams(chatBegin, strings.Replace(chatBegin, `"Par"`, `"is is in the north of the country, said someone"`, 1))(w, r)
			panic(http.ErrAbortHandler)
		},
		replies(chatReply),
	}
	var mu sync.Mutex
	next := 0
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		reply := replies[min(next, len(replies)-1)]
		next++
		mu.Unlock()
		reply(w, req)
	}, func(s *settings) {
		s.attempt.Origins, s.attempt.Passages = given, passages
		s.attempt.Probe = probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: task, Gold: "Paris"})
	})
	said := []string{`{"role":"system","content":"Be short. Name Paris, or another capital."}`, fmt.Sprintf(`{"role":"user","content":%q}`, task)}
	send := func(more ...string) (bytesOf, int, *trajectory.ContextCompiled) {
		t.Helper()
		r.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[%s]%s}`, testModel, strings.Join(said, ","), strings.Join(more, "")))
		all := of[trajectory.ContextCompiled](r)
		o, gold := originsOf(all[len(all)-1])
		return o, gold, &all[len(all)-1]
	}
	system := int64(len("Be short. Name Paris, or another capital."))
	if o, gold, p := send(); o != (bytesOf{agent: system, question: int64(len(task))}) || gold != 1 || len(p.Origins.Passages) != 1 || p.Origins.Passages[0].Tasks != 0 {
		t.Errorf("the first request: %+v", p.Origins)
	}
	if o, gold, p := send(); o != (bytesOf{}) || gold != 0 || p.Origins.Probes != nil {
		t.Errorf("the same again: %+v", p.Origins)
	}
	said = append(said, `{"role":"assistant","content":"Paris"}`, `{"role":"user","content":"Observation: the city on the island\nin the river"}`)
	if o, gold, _ := send(`,"stream":true`); o != (bytesOf{agent: 13, reply: 5, result: 35}) || gold != 0 {
		t.Errorf("what goes on: %+v, %d", o, gold)
	}
	said = append(said, `{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"search","arguments":"{\"q\": \"old maps\"}"}}]}`,
		`{"role":"tool","tool_call_id":"t1","content":"Paris is in the north of the country, said"}`)
	const tools = `[{"type":"function","function":{"name":"search","description":"Finds Lyon","parameters":{"type":"object"}}}]`
	if o, _, _ := send(`,"tools":`, tools); o != (bytesOf{agent: int64(len(tools)), reply: int64(len("search\n"+`{"q": "old maps"}`) + len("Paris is in the north of the country, said"))}) {
		t.Errorf("a call, what the model began to say, and tools: %+v", o)
	}
	if o, _, _ := send(`,"tools":`, tools); o.agent != 0 {
		t.Errorf("tools that were sent before: %+v", o)
	}
	var heard []string
	for _, p := range of[trajectory.ModelCallCompleted](r) {
		probes := "none"
		if p.Reply.Probes != nil {
			probes = fmt.Sprint(p.Reply.Probes.GoldHits)
		}
		heard = append(heard, fmt.Sprint(probes, " ", p.Reply.Code))
	}
	if got := strings.Join(heard, ", "); got != "1 false, 0 true, 1 false, 1 false, 1 false" {
		t.Errorf("replies: %s", got)
	}
	r.finish()
}

// TestBroken: what a stream said before it broke, or before the agent hung up, is known to the attempt, and whether it has code
// or asks for a call of another tool than those of the run.
func TestBroken(t *testing.T) {
	const said = "the lamp of the outer harbour wall is 61 feet high"
	for _, c := range []struct{ dialect, text, begun, call string }{
		{llm.DialectChat, `data: {"choices":[{"index":0,"delta":{"content":"` + said + `"},"finish_reason":null}]}` + "\n\n", "",
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"NAME","arguments":"{}"}}]},"finish_reason":null}]}` + "\n\n"},
		{llm.DialectResponses, `data: {"type":"response.output_text.delta","output_index":0,"delta":"` + said + `"}` + "\n\n", "",
			`data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","arguments":"{}","call_id":"t","name":"NAME"}}` + "\n\n"},
		{llm.DialectResponses, `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"` + said + `"}]}}` + "\n\n", "",
			`data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","arguments":"","call_id":"t","name":"NAME"}}` + "\n\n"},
		{llm.DialectMessages, `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + said + `"}}` + "\n\n",
			`data: {"type":"message_start","message":{"content":[]}}` + "\n\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"NAME","input":{}}}` + "\n\n"},
	} {
		for i, call := range []string{"", strings.Replace(c.call, "NAME", "mcp__gaia__search", 1), strings.Replace(c.call, "NAME", "run_code", 1)} {
			for _, hangUp := range []bool{false, true} {
				t.Run(fmt.Sprint(c.dialect, " ", i, " ", hangUp), func(t *testing.T) {
					t.Parallel()
					given := origin.New()
					r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
						streams(c.begun, c.text+call)(w, q)
						if hangUp {
							<-q.Context().Done() // it is cut when the drain is over
						}
						panic(http.ErrAbortHandler)
					}, func(s *settings) {
						s.attempt.Origins, s.attempt.Tools = given, []string{"search"}
						if hangUp {
							s.Drain = 200 * time.Millisecond // also for each write
						}
					})
					for _, d := range dialects {
						if d.name != c.dialect {
							continue
						}
						res, err := r.client.Do(r.request(d.path, streamed(d.request)))
						if err != nil {
							t.Fatal(err)
						}
						if _, err := io.ReadFull(res.Body, make([]byte, len(c.begun+c.text))); err != nil {
							t.Fatal(err)
						}
						if !hangUp {
							_, _ = io.Copy(io.Discard, res.Body)
						}
						res.Body.Close()
					}
					r.finish()
					if _, rest := given.Divide(said); len(rest) > 0 {
						t.Errorf("%q is not known", rest)
					}
					if p := of[trajectory.ModelCallCompleted](r); len(p) != 1 || p[0].Error == nil || p[0].Reply.Code != (i == 2) || p[0].Reply.Aborted != hangUp {
						t.Errorf("recorded %+v", p)
					}
				})
			}
		}
	}
}

// TestEcho: what a reply that failed repeats of the request is not what the model said: metadata, which no model reads, and the
// words of an error.
func TestEcho(t *testing.T) {
	const own = "the lamp of the outer harbour wall is 61 feet high"
	for dialect, events := range map[string]string{
		llm.DialectChat:      `data: {"choices":[],"metadata":{"a":"` + own + `"}}` + "\n\n" + `data: {"error":{"code":400,"message":"no such thing: ` + own + `"}}` + "\n\ndata: [DONE]\n\n",
		llm.DialectResponses: `data: {"type":"response.failed","response":{"status":"failed","output":[],"instructions":"` + own + `","metadata":{"a":"` + own + `"},"error":{"code":"x","message":"` + own + `"}}}` + "\n\n",
		llm.DialectMessages:  `data: {"type":"error","error":{"type":"invalid_request_error","message":"` + own + `"}}` + "\n\n",
	} {
		given := origin.New()
		r := newRig(t, streams(events), func(s *settings) {
			s.attempt.Origins, s.attempt.Probe = given, probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: "How high is it?", Gold: "61 feet"})
		})
		for _, d := range dialects {
			if d.name == dialect {
				r.post(d.path, streamed(d.request))
			}
		}
		r.finish()
		if by, _ := given.Divide(own); len(by) > 0 {
			t.Errorf("%s: it counts as given: %v", dialect, by)
		}
		if p := of[trajectory.ModelCallCompleted](r); len(p) != 1 || p[0].Error == nil || p[0].Reply.Code || p[0].Reply.Probes != nil && p[0].Reply.Probes.GoldHits > 0 {
			t.Errorf("%s: recorded %+v", dialect, p)
		}
	}
}

// TestOrder: what is new of a request may be the order of what was sent before alone.
func TestOrder(t *testing.T) {
	r := newRig(t, replies(chatReply), func(s *settings) {
		s.attempt.Probe = probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: "Which?", Gold: "Paris"})
	})
	for _, said := range []string{`"Continue.","Again.","Stop."`, `"Continue.","Again."`} {
		messages := strings.ReplaceAll(strings.ReplaceAll(said, `","`, `"},{"role":"user","content":"`), `"Continue`, `{"role":"user","content":"Continue`) + "}"
		r.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[%s]}`, testModel, messages))
	}
	all := of[trajectory.ContextCompiled](r)
	if len(all) != 2 || all[1].Origins.Agent != 0 || all[1].Origins.Probes == nil || len(all[1].Origins.Passages) > 0 {
		t.Errorf("%d requests, the last %+v", len(all), all[len(all)-1].Origins)
	}
	r.finish()
}
