package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/media"
	"image"
	"image/png"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// billing is a chat endpoint on loopback that reports a usage for each request.
type billing struct {
	*httptest.Server
	mu     sync.Mutex
	limits []int // max_tokens of each request; 0: none was sent
	usage  func(n, maxTokens int) string
	meet   func(r *http.Request) // before it answers; may be nil
}

// counts is the usual usage: so many tokens read, and a completion as long as it may be.
func counts(in int) func(int, int) string {
	return func(_, maxTokens int) string {
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, in, maxTokens)
	}
}

func bill(t *testing.T, usage func(n, maxTokens int) string) *billing {
	t.Helper()
	b := &billing{usage: usage}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model     string `json:"model"`
			MaxTokens int    `json:"max_tokens"`
			Newer     int    `json:"max_completion_tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("the request: %v", err)
		}
		if b.meet != nil {
			b.meet(r)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		limit := max(body.MaxTokens, body.Newer)
		b.limits = append(b.limits, limit)
		w.Header().Set("Content-Type", "application/json")
		reply := b.usage(len(b.limits), limit)
		if strings.HasPrefix(reply, "!") {
			http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"id":"c","model":%q,"choices":[{"message":{"role":"assistant","content":"A gate."},"finish_reason":"stop"}],"usage":%s}`, body.Model, reply)
	}))
	t.Cleanup(b.Close)
	return b
}

// looks is a session with describe_image of a model at built-in prices, a picture
// to look at, and other tools.
func (b *billing) looks(t *testing.T, sink *tools.GateSink, model string, change func(*policy.Policy), others ...tools.Tool) *tools.Session {
	t.Helper()
	prices := llm.BuiltinPrices()
	client := llm.New(llm.Config{BaseURL: b.URL, Prices: prices, MaxTries: 3, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
	s := tools.NewSession(t, sink, change, append(others, media.NewDescribeImage(client, model, document.Reader{}))...)
	s.TheGate().Prices = prices
	must(t, s.Files().Root().WriteFile("gate.png", blankPNG(t, 40, 30), 0o644))
	return s
}

func looking(n int) (calls []tools.Call) {
	for i := range n {
		calls = append(calls, tools.Call{ID: fmt.Sprint("c", i), Name: "describe_image", Args: `{"path":"gate.png","question":"What is it?"}`})
	}
	return calls
}

// taken adds up what the journal says of requests, and counts the calls that R006
// refused and the spends that it says ended above a budget.
func taken(t *testing.T, s *tools.Session, sink *tools.GateSink) (cost, tokens int64, refused, over int) {
	t.Helper()
	denied := map[string]bool{}
	for _, p := range tools.Flushed(t, s, sink) {
		switch p := p.(type) {
		case trajectory.ToolExecuted:
			if p.Model != nil {
				tokens += p.Model.Tokens.In + p.Model.Tokens.Out
				if p.Model.CostMicroUSD != nil {
					cost += *p.Model.CostMicroUSD
				}
			}
		case trajectory.PolicyDecision:
			denied[p.CallID] = p.Decision == string(policy.Deny)
			if denied[p.CallID] && (!slices.Equal(p.RuleIDs, []string{policy.Budget}) || p.Shown != "refused: "+p.Reason) {
				t.Errorf("decided %+v", p)
			}
		case trajectory.PolicyViolation:
			if p.Class != string(policy.DeniedByBudget) || !slices.Equal(p.RuleIDs, []string{policy.Budget}) {
				t.Errorf("violation %+v", p)
			}
			if denied[p.CallID] {
				refused++
			} else {
				over++
			}
		}
	}
	return cost, tokens, refused, over
}

// TestBudgetHoldsInsideATurn: ten looks in one reply cost no more than the task may,
// small budgets allow at least one, and what does not fit is refused by R006.
func TestBudgetHoldsInsideATurn(t *testing.T) {
	for _, c := range []struct {
		name, model string
		budget      int64 // micro-USD
		before      int64 // spent when the turn begins
		limit       int   // of completions, by the plan; 0: none
		in          int   // tokens that the endpoint counts
		least, most int   // looks that are allowed
	}{
		{"gpt-4o under half a cent", "gpt-4o", 5_000, 0, 0, 400, 1, 1},
		{"gpt-4o under a cent", "gpt-4o", 10_000, 3_000, 0, 400, 1, 1},
		{"gpt-4o under a cent, with a limit of completions", "gpt-4o", 10_000, 3_000, 100, 400, 2, 4},
		{"gpt-4o-mini under half a cent", "gpt-4o-mini", 5_000, 500, 300, 400, 9, 10},
		{"gpt-4o-mini, which counts 25,501 tokens a picture, under a cent", "gpt-4o-mini", 10_000, 500, 300, 25_501, 2, 2},
		{"gpt-4o under a dollar", "gpt-4o", 1_000_000, 0, 500, 400, 10, 10},
		{"nothing fits", "gpt-4o", 5_000, 3_000, 0, 400, 0, 0},
		{"nothing is left", "gpt-4o", 5_000, 5_000, 0, 400, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, sink := bill(t, counts(c.in)), &tools.GateSink{}
			s := b.looks(t, sink, c.model, func(p *policy.Policy) { p.MaxCostMicroUSD = c.budget })
			s.TheGate().MaxTokens = c.limit
			s.SetSpentMicroUSD(c.before)
			results, err := s.Run(t.Context(), 1, looking(10))
			must(t, err)
			cost, _, refused, over := taken(t, s, sink)
			if cost+c.before > c.budget || over != 0 {
				t.Errorf("%d micro-USD of %d are spent, %d violations of it", cost+c.before, c.budget, over)
			}
			if n := len(b.limits); n < c.least || n > c.most || refused != 10-n {
				t.Errorf("%d looks, want %d to %d; %d refused", n, c.least, c.most, refused)
			}
			for i, limit := range b.limits {
				most := c.limit
				if most == 0 {
					most = tools.DefaultCompletion
				}
				if limit < min(tools.LeastCompletion, most) || limit > most {
					t.Errorf("request %d has max_tokens %d", i, limit)
				}
			}
			for i, r := range results {
				if r.CallID != fmt.Sprint("c", i) || strings.HasPrefix(r.Text, "refused: R006 budget: ") == strings.Contains(r.Text, "A gate.") {
					t.Errorf("result %d is %+v", i, r)
				}
			}
		})
	}
}

// TestBudgetEventsInOrder: what a look took is in the journal before the next one is
// decided, and each decision is durable before its request leaves.
func TestBudgetEventsInOrder(t *testing.T) {
	sink := &tools.GateSink{}
	b := bill(t, counts(400))
	b.meet = func(*http.Request) {
		if d := tools.Durable(sink); strings.Count(d, `"decision":"allow"`) != 1+strings.Count(d, `"type":"tool_executed"`) {
			t.Error("on disk was " + d)
		}
	}
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.MaxCostMicroUSD = 9_000 })
	s.TheGate().MaxTokens = 256
	_, err := s.Run(t.Context(), 1, looking(3))
	must(t, err)
	const want = "tool_proposed policy_decision tool_executed tool_proposed policy_decision tool_executed tool_proposed policy_decision policy_violation"
	if got := tools.Names(tools.Flushed(t, s, sink)); got != want {
		t.Errorf("recorded %s,\nwant     %s", got, want)
	}
}

// TestTokensHoldInsideATurn: the tokens of a tool's model count at once, its
// completion fits what is left, and a call that does not is refused.
func TestTokensHoldInsideATurn(t *testing.T) {
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	s := b.looks(t, sink, "a-model-without-a-price", nil)
	s.Limit(tools.Limits{Tokens: 3_000}, 100)
	results, err := s.Run(t.Context(), 1, looking(10))
	must(t, err)
	_, tokens, refused, over := taken(t, s, sink)
	if n := len(b.limits); tokens+100 > 3_000 || n < 1 || refused != 10-n || over != 0 {
		t.Errorf("%d tokens of 3000 after %d looks, %d refused, %d violations", tokens+100, n, refused, over)
	}
	mustHold(t, "the last result", results[9].Text, "refused: R006 budget: the call may take more than the ")
	s.Spend("", nil, 3_000)
	results, err = s.Run(t.Context(), 2, looking(1))
	must(t, err)
	if want := "refused: R006 budget: the 3000 tokens of the task are used up"; results[0].Text != want || !s.TokensSpent() {
		t.Errorf("shown %q, want %q", results[0].Text, want)
	}
}

// TestOverspendIsRecorded: a spend that ends above a budget is a violation, also of
// the last call, once; and no call after it is allowed.
func TestOverspendIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*policy.Policy)
		tokens int64
		want   string
	}{
		{"money", func(p *policy.Policy) { p.MaxCostMicroUSD = 10_000 }, 0, "R006 budget: the task has used 152500 of 10000 micro-USD"},
		{"tokens", func(p *policy.Policy) { p.MaxCostMicroUSD = policy.Unlimited }, 5_000, "R006 budget: the task has used 60250 of 5000 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, sink := bill(t, func(int, int) string { return `{"prompt_tokens":60000,"completion_tokens":250}` }), &tools.GateSink{}
			s := b.looks(t, sink, "gpt-4o", c.change)
			s.Limit(tools.Limits{Tokens: c.tokens}, 0)
			for turn, n := range []int{1, 2} {
				_, err := s.Run(t.Context(), turn+1, looking(n))
				must(t, err)
			}
			_, _, refused, over := taken(t, s, sink)
			if len(b.limits) != 1 || refused != 2 || over != 1 {
				t.Errorf("%d looks, %d refused, %d violations", len(b.limits), refused, over)
			}
			if money, tokens := s.Left(); (money < 0) != (c.tokens == 0) || money > 0 && money != math.MaxInt64 || (tokens < 0) != (c.tokens > 0) || tokens > 0 && tokens != math.MaxInt64 {
				t.Errorf("%d micro-USD and %d tokens are left", money, tokens)
			}
			payloads := tools.Recorded(t, sink)
			if v, ok := payloads[3].(trajectory.PolicyViolation); !ok || v.CallID != "c0" || v.Description != c.want {
				t.Errorf("recorded %s, then %+v; want %q", tools.Names(payloads[:3]), payloads[3], c.want)
			}
		})
	}
}

// TestUnknownCostCountsAsItsBound: an answer that does not say what it took counts as
// what was set aside for it.
func TestUnknownCostCountsAsItsBound(t *testing.T) {
	b, sink := bill(t, func(int, int) string { return "null" }), &tools.GateSink{}
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.MaxCostMicroUSD = 10_000 })
	s.TheGate().MaxTokens = 300
	_, err := s.Run(t.Context(), 1, looking(10))
	must(t, err)
	cost, _, refused, _ := taken(t, s, sink)
	if n := len(b.limits); cost != 0 || n < 1 || n > 2 || refused != 10-n || s.SpentMicroUSD() <= 0 || s.SpentMicroUSD() > 10_000 {
		t.Errorf("%d looks, %d refused, %d counted, %d in the journal", n, refused, s.SpentMicroUSD(), cost)
	}
}

// TestBilledAboveThePrice: what an endpoint bills above the price, or without one,
// is the least that the next request to the model is taken to cost.
func TestBilledAboveThePrice(t *testing.T) {
	for _, model := range []string{"gpt-4o", "a-model-without-a-price"} {
		b, sink := bill(t, func(int, int) string { return `{"prompt_tokens":400,"completion_tokens":10,"cost":0.004}` }), &tools.GateSink{}
		s := b.looks(t, sink, model, func(p *policy.Policy) { p.MaxCostMicroUSD = 10_000 })
		s.TheGate().MaxTokens = 256
		_, err := s.Run(t.Context(), 1, looking(10))
		must(t, err)
		if cost, _, refused, over := taken(t, s, sink); cost != 8_000 || refused != 8 || over != 0 {
			t.Errorf("%s: %d micro-USD of 10000, %d refused, %d violations", model, cost, refused, over)
		}
	}
}

// TestFurtherTryMustFit: a request is made again only where the budget has room for
// what it may cost besides what the tries before it took.
func TestFurtherTryMustFit(t *testing.T) {
	empty := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","model":"gpt-4o","choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":256}}`)
	}
	for budget, want := range map[int64]int{5_000: 1, 8_000: 2, 900_000: 3} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++; empty(w, r) }))
		sink := &tools.GateSink{}
		s := (&billing{Server: server}).looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.MaxCostMicroUSD = budget })
		s.TheGate().MaxTokens = 256
		results, err := s.Run(t.Context(), 1, looking(1))
		server.Close()
		must(t, err)
		cost, _, _, over := taken(t, s, sink)
		if asked != want || cost > budget || over != 0 || !strings.HasPrefix(results[0].Text, "error: cannot look at") {
			t.Errorf("under %d: %d tries, want %d; %d spent, %q", budget, asked, want, cost, results[0].Text)
		}
	}
}

// TestFreeCallsAreNotSerialised: calls that ask no model run at the same time as each
// other and as one that does, and what writes waits for none of those.
func TestFreeCallsAreNotSerialised(t *testing.T) {
	var all, wrote sync.WaitGroup
	all.Add(3)
	wrote.Add(1)
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	var once sync.Once
	b.meet = func(*http.Request) {
		once.Do(func() { all.Done(); all.Wait() })
		wrote.Wait() // also of the second look
	}
	probing := func(tools.ProbeArgs) (tools.Output, error) {
		all.Done()
		all.Wait()
		return tools.Output{Shown: "read"}, nil
	}
	s := b.looks(t, sink, "gpt-4o", nil, tools.ProbeTool("probe", probing), tools.Writer("Writer", func(env *tools.Env, a tools.ProbeArgs) (tools.Output, error) {
		defer wrote.Done()
		return tools.Saves(env, a)
	}))
	calls := append(looking(2), tools.Call{ID: "p1", Name: "probe", Args: `{"text":"x"}`}, tools.Call{ID: "p2", Name: "probe", Args: `{"text":"x"}`}, tools.Call{ID: "w", Name: "Writer", Args: `{"text":"x"}`})
	results, err := s.Run(t.Context(), 1, calls)
	must(t, err)
	if len(b.limits) != 2 || results[2].Text != "read" || results[4].CallID != "w" {
		t.Errorf("%d looks, results %+v", len(b.limits), results)
	}
}

// TestUnboundedLooksAtOnce: where no budget bounds them, calls that ask a model run at
// the same time.
func TestUnboundedLooksAtOnce(t *testing.T) {
	var all sync.WaitGroup
	all.Add(3)
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	b.meet = func(*http.Request) { all.Done(); all.Wait() }
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.MaxCostMicroUSD = policy.Unlimited })
	_, err := s.Run(t.Context(), 1, looking(3))
	must(t, err)
	if !slices.Equal(b.limits, []int{0, 0, 0}) {
		t.Errorf("max_tokens %v", b.limits)
	}
}

// TestPaidRoundsKeepTheWorkspace: a call that is decided late and breaks a rule undoes
// the whole turn, and calls count against their number in the order of the reply.
func TestPaidRoundsKeepTheWorkspace(t *testing.T) {
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.MaxToolCalls = 4 }, tools.Writer("Writer", tools.Saves))
	bad := tools.Call{ID: "bad", Name: "describe_image", Args: `{"path":"../../results.jsonl","question":"What is it?"}`}
	calls := append(looking(2), bad, tools.Call{ID: "w", Name: "Writer", Args: `{"text":"changed"}`}, tools.Call{ID: "w2", Name: "Writer", Args: `{"text":"again"}`})
	results, err := s.Run(t.Context(), 1, calls)
	must(t, err)
	if _, err := s.Files().Root().Stat("out"); err == nil {
		t.Error("what the turn wrote is still there")
	}
	for i, want := range []string{"A gate.", "A gate.", "refused: R002", "put back as it was before this turn", "refused: R006 budget: the 4 tool calls"} {
		mustHold(t, fmt.Sprint("result ", i), results[i].Text, want)
	}
	payloads := tools.Flushed(t, s, sink)
	at := func(kind trajectory.Type) int {
		return slices.IndexFunc(payloads, func(p trajectory.Payload) bool { return p.Type() == kind })
	}
	if undone := at(trajectory.TypeRollback); undone < 0 || len(payloads[undone].(trajectory.Rollback).Restored) == 0 || at(trajectory.TypeCheckpointSaved) > undone {
		t.Errorf("recorded %s", tools.Names(payloads))
	}
}

// TestPaidRoundsAreApproved: a person is asked about each call before it runs, also of
// those decided late; one that does not fit is refused without asking.
func TestPaidRoundsAreApproved(t *testing.T) {
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.Mode, p.MaxCostMicroUSD = policy.Approved, 8_000 })
	s.TheGate().MaxTokens = 256
	asked := tools.AskedApprover(sink, tools.Answer{Approved: true, By: trajectory.ByPerson}, tools.Answer{Approved: true, By: trajectory.ByPerson})
	s.TheGate().Approver = asked
	results, err := s.Run(t.Context(), 1, looking(3))
	must(t, err)
	mustHold(t, "the second result", results[1].Text, "A gate.")
	mustHold(t, "the third result", results[2].Text, "refused: R006 budget: the call may cost more than the ")
	if got := tools.Names(tools.Flushed(t, s, sink)); strings.Count(got, "approval_requested approval_resolved policy_decision tool_executed") != 2 || strings.Count(got, "approval_requested") != 2 {
		t.Errorf("recorded %s", got)
	}
}

// TestTimeHoldsInsideATurn: no call begins once the time of the attempt is used up,
// and one that asks a model is cut off then.
func TestTimeHoldsInsideATurn(t *testing.T) {
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	b.meet = func(r *http.Request) { <-r.Context().Done() }
	s := b.looks(t, sink, "gpt-4o", nil, tools.ProbeTool("probe", func(tools.ProbeArgs) (tools.Output, error) { return tools.Output{Shown: "read"}, nil }))
	left := 50 * time.Millisecond
	s.Limit(tools.Limits{TimeLeft: func() time.Duration { return left }}, 0)
	results, err := s.Run(t.Context(), 1, looking(1))
	must(t, err)
	mustHold(t, "what is cut off", results[0].Text, "describe_image was cut off: the time of the attempt is used up")
	left = 0
	results, err = s.Run(t.Context(), 2, append(looking(1), tools.Call{ID: "p", Name: "probe", Args: `{"text":"x"}`}))
	must(t, err)
	for _, r := range results {
		if r.Text != "refused: R006 "+policy.OverTime {
			t.Errorf("shown %q", r.Text)
		}
	}
	if _, _, refused, _ := taken(t, s, sink); refused != 2 {
		t.Errorf("%d refused", refused)
	}
}

// TestFileThatGrows: a file that a program changes after its call was allowed is not
// sent, since more was not set aside.
func TestFileThatGrows(t *testing.T) {
	b, sink := bill(t, counts(400)), &tools.GateSink{}
	s := b.looks(t, sink, "gpt-4o", func(p *policy.Policy) { p.Mode = policy.Approved })
	s.TheGate().Approver = approving(func() {
		must(t, os.WriteFile(s.Files().Root().Name()+"/gate.png", blankPNG(t, 1500, 1500), 0o644))
	})
	results, err := s.Run(t.Context(), 1, looking(1))
	must(t, err)
	if len(b.limits) != 0 || !strings.Contains(results[0].Text, "it has grown since the call was allowed") {
		t.Errorf("%d requests, %q", len(b.limits), results[0].Text)
	}
}

// approving approves every call, after something else.
type approving func()

func (a approving) Approve(context.Context, tools.Approval) (tools.Answer, error) {
	a()
	return tools.Answer{Approved: true, By: trajectory.ByPerson}, nil
}

// TestNeeds: the bound of a request follows what the file is.
func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		n    tools.Need
		want tools.Need
	}{
		"small picture":   {media.NeedOfLook(llm.Request{Model: "m", Messages: []llm.Message{{Content: "abc", Image: &llm.Image{Data: blankPNG(t, 40, 35)}}}}), tools.Need{Model: "m", In: 2 + 300 + 4}},
		"large picture":   {media.NeedOfLook(llm.Request{Messages: []llm.Message{{Image: &llm.Image{Data: blankPNG(t, 2000, 1500)}}}}), tools.Need{In: tools.PictureTokens}},
		"no picture":      {media.NeedOfLook(llm.Request{Messages: []llm.Message{{Image: &llm.Image{Data: []byte("%PDF-")}}}}), tools.Need{In: tools.PictureTokens}},
		"unknown sound":   {media.NeedOfRecording(llm.Transcription{Audio: make([]byte, 5500)}), tools.Need{In: 300, Out: 300, Millis: 6000}},
		"plain samples":   {media.NeedOfRecording(llm.Transcription{Audio: files.MakeWAV(8)}), tools.Need{In: 50, Out: 50, Millis: 1000}},
		"slowest samples": {media.NeedOfRecording(llm.Transcription{Audio: slowWAV(3_000_000)}), tools.Need{In: 50_000_000, Out: 50_000_000, Millis: 1_000_000_000}},
	} {
		if c.n != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.n, c.want)
		}
	}
	if cost := media.NeedOfRecording(llm.Transcription{Model: "whisper-1", Audio: slowWAV(3_000_000)}).Cost(llm.BuiltinPrices(), 0); cost == nil || *cost != 100_000_000 {
		t.Errorf("the longest recording costs %v", cost)
	}
}

// slowWAV is a wav file of one byte a second.
func slowWAV(seconds int) []byte {
	header := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
	return append(header, make([]byte, seconds)...)
}

// TestShortRecordingAfterALongOne: what a long recording cost does not keep a short one
// from being written down, and one that may cost more than is left is refused unsent.
func TestShortRecordingAfterALongOne(t *testing.T) {
	var sent []string
	ask := ear(t, &sent, hears)
	s := tools.NewSession(t, &tools.GateSink{}, func(p *policy.Policy) { p.MaxCostMicroUSD = 2_400 }, media.NewTranscribe(ask, "hearing-model"))
	prices, err := llm.ParsePrices([]byte(`{"version":"t","note":"","models":{"hearing-model":{"audio_microusd_per_minute":6000}}}`))
	must(t, err)
	s.TheGate().Prices = prices
	for name, samples := range map[string]int{"long.wav": 8000 * 21, "short.wav": 8, "longest.wav": 8000 * 80} {
		must(t, s.Files().Root().WriteFile(name, files.MakeWAV(samples), 0o644))
	}
	results, err := s.Run(t.Context(), 1, []tools.Call{
		{"c1", "transcribe_audio", `{"path":"longest.wav"}`}, {"c2", "transcribe_audio", `{"path":"long.wav"}`}, {"c3", "transcribe_audio", `{"path":"short.wav"}`}})
	must(t, err)
	for i, want := range []string{"refused: R006 budget: the call may cost more than the 2400 micro-USD", "The ferry leaves", "The ferry leaves"} {
		mustHold(t, fmt.Sprint("result ", i), results[i].Text, want)
	}
}

// ear is a client of a transcription endpoint on loopback that plays one step
// per request, the last again and again. The names and sizes of the files it
// was sent are appended to got.
func ear(t *testing.T, got *[]string, steps ...http.HandlerFunc) *llm.Client {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, header, err := r.FormFile("file")
		if err != nil || r.URL.Path != "/v1/audio/transcriptions" {
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		data, _ := io.ReadAll(f)
		*got = append(*got, header.Filename+" "+http.DetectContentType(data)+" "+r.FormValue("model"))
		step := steps[min(asked, len(steps)-1)]
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "req-ear")
		step(w, r)
	}))
	t.Cleanup(server.Close)
	prices, err := llm.ParsePrices([]byte(`{"version":"t","note":"","models":{"hearing-model":{"audio_microusd_per_minute":6000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return llm.New(llm.Config{BaseURL: server.URL + "/v1", APIKey: "sk-test-0123456789abcdef", Prices: prices, MaxTries: 3, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var hears = say(200, `{"text":"The ferry leaves at nine.","duration":12.5,"model":"hearing-model-2"}`)

// blankPNG is a picture of a size.
func blankPNG(t testing.TB, width, height int) []byte {
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return b.Bytes()
}
