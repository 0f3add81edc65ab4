package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/tidwall/gjson"
)

// looker serves a model that has every attached picture looked at, and answers
// with what it is told; and the model that looks, which sees a number.
func looker(t *testing.T, looks *atomic.Int64) *httptest.Server {
	t.Helper()
	named := regexp.MustCompile(`workspace is "([^"]+)"`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut off fits nothing below
		asked := gjson.ParseBytes(body)
		last := asked.Get("messages.@reverse.0")
		message := `{"role":"assistant","content":"FINAL ANSWER: 417"}`
		switch {
		case last.Get("content.1.image_url.url").Exists():
			looks.Add(1)
			if got := last.Get("content.0.text").Str; got != prompt.Describe("Which number?") || asked.Get("max_tokens").Int() != 200 {
				t.Errorf("asked %q, %s", got, asked.Get("max_tokens"))
			}
			message = `{"role":"assistant","content":"It is 417."}`
		case last.Get("role").Str == "user":
			args := fmt.Sprintf(`{\"path\":\"%s\",\"question\":\"Which number?\"}`, named.FindStringSubmatch(last.Get("content").Str)[1])
			message = `{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"describe_image","arguments":"` + args + `"}}]}`
		case !strings.Contains(last.Get("content").Str, "It is 417."):
			t.Errorf("the model is shown %s", last)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","model":%q,"choices":[{"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`, endpoint.Model, message)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestLooking: a picture is looked at by the model that was planned for it, whose
// bill is in the journal and in the cost of the task.
func TestLooking(t *testing.T) {
	var looks atomic.Int64
	tasks := endpoint.Tasks{Count: 4, Attached: endpoint.Picture}
	c := generated(t, tasks, looker(t, &looks).URL, nil)
	client, ok := c.env.Model.(*llm.Client)
	if !ok {
		t.Fatalf("the client is a %T", c.env.Model)
	}
	c.env.Viewer, c.plan.Vision, c.plan.Model.MaxTokens = client, &plan.VisionPlan{Model: endpoint.Model, Origin: c.plan.Model.Origin}, 200
	a := read(t, execute(t, t.TempDir(), c).Dir)
	each := c.env.Prices.Cost(endpoint.Model, llm.Usage{Reported: true, In: 1000, Out: 10})
	seen := 0
	for _, e := range a.executed {
		if e.Name != "describe_image" {
			continue
		}
		seen++
		if m := e.Model; e.IsError || e.Head != "It is 417." || m == nil || m.RequestedModel != endpoint.Model || m.CostMicroUSD == nil || *m.CostMicroUSD != *each {
			t.Errorf("%q, %+v", e.Head, e.Model)
		}
	}
	if seen != tasks.Count || looks.Load() != int64(seen) {
		t.Errorf("%d looks in the journal, %d at the endpoint", seen, looks.Load())
	}
	for _, task := range a.Tasks {
		if cost := a.Result(task).CostMicroUSD; cost == nil || *cost != 3**each {
			t.Errorf("a task costs %v, and a request %d", cost, *each)
		}
	}
	if m := a.Manifest; m.Vision == nil || m.Vision.Model != endpoint.Model || m.Vision.Origin != c.plan.Model.Origin {
		t.Errorf("the plan has %+v", m.Vision)
	}
}

// singlePicture is a client that answers one request, or fails.
type singlePicture struct {
	try    llm.Try
	err    error
	during func()
}

func (o singlePicture) Chat(_ context.Context, r llm.Request, seen llm.Observer) (llm.Response, error) {
	if err := seen.TryStarted(1); err != nil {
		return llm.Response{}, err
	}
	o.during()
	if err := seen.TryCompleted(o.try); err != nil || o.err != nil {
		return llm.Response{}, errors.Join(err, o.err)
	}
	return *o.try.Response, nil
}

type unseen struct{}

func (unseen) TryStarted(int) error       { return nil }
func (unseen) TryCompleted(llm.Try) error { return nil }

// unreserved returns what is neither spent nor reserved of a budget.
func unreserved(b *budget.Budget, limit int64) int64 {
	return int64(sort.Search(int(limit), func(n int) bool {
		r, enough := b.Take(int64(n) + 1)
		r.Close()
		return !enough
	}))
}

// TestLookingIsPaid: what a look may cost is set aside before it is asked, given
// back after it, and charged whole where no one says what it did cost.
func TestLookingIsPaid(t *testing.T) {
	prices, err := llm.ParsePrices(endpoint.Prices())
	if err != nil {
		t.Fatal(err)
	}
	request := llm.Request{Model: endpoint.Model, Messages: []llm.Message{{Role: "user", Content: strings.Repeat("x", 2000), Image: &llm.Image{}}}}
	need := *prices.Bound(endpoint.Model, 1000+3000, 200)
	seven := int64(7)
	lost := &llm.Error{Code: "transport", Retryable: true}
	for name, tc := range map[string]struct {
		budget int64
		client singlePicture
		spent  int64
		code   string
	}{
		"known":      {need, singlePicture{try: llm.Try{Response: &llm.Response{CostMicroUSD: &seven}}}, 7, ""},
		"unknown":    {need, singlePicture{try: llm.Try{Response: &llm.Response{}}}, need, ""},
		"lost":       {need, singlePicture{try: llm.Try{Err: lost}, err: lost}, need, "transport"},
		"not enough": {need - 1, singlePicture{}, 0, "run_budget"},
	} {
		b := budget.New(tc.budget, prices, endpoint.Model, 200)
		tc.client.during = func() {
			if left := unreserved(b, tc.budget); left != tc.budget-need {
				t.Errorf("%s: %d are left, want %d", name, left, tc.budget-need)
			}
		}
		_, err := budget.Metered{Budget: func() *budget.Budget { return b }, Viewer: tc.client}.Chat(t.Context(), request, unseen{})
		var failed *llm.Error
		if errors.As(err, &failed) != (tc.code != "") || failed != nil && failed.Code != tc.code || unreserved(b, tc.budget) != tc.budget-tc.spent {
			t.Errorf("%s: %d are left, want %d, %v", name, unreserved(b, tc.budget), tc.budget-tc.spent, err)
		}
	}
	if !(trajectory.CallError{Code: lost.Code}).Unanswered() {
		t.Error("a lost answer counts as none")
	}
}

// TestLooksOfOneReply: an endpoint that asks for ten looks at once spends no more of
// money and tokens than the task may, what does not fit is refused by R006, and the
// audit of the run finds nothing. One that counts more than the bound is a violation.
func TestLooksOfOneReply(t *testing.T) {
	const cents = 10_000
	prices, err := llm.ParsePrices(fmt.Appendf(nil, `{"version":"1","note":"those of gpt-4o","models":{%q:{"input_microusd_per_mtok":2500000,"cached_input_microusd_per_mtok":1250000,"output_microusd_per_mtok":10000000}}}`, endpoint.Model))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		money        int64
		tokens       int64
		in           int // tokens that a look is said to read
		least, most  int // looks
		over         int // violations beside those of refused calls
		spentAtLeast int64
	}{
		{"money", cents, 0, 400, 1, 6, 0, 4000},
		{"tokens", policy.Unlimited, 4000, 400, 1, 9, 0, 0},
		{"more than the bound", cents, 0, 60_000, 1, 1, 1, 150_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var looks atomic.Int64
			tasks := endpoint.Tasks{Count: 1, Attached: endpoint.Picture}
			cfg := generated(t, tasks, tenLooks(t, c.in, &looks).URL, func(l *llm.Config) { l.Prices = prices })
			client, ok := cfg.env.Model.(*llm.Client)
			if !ok {
				t.Fatalf("the client is a %T", cfg.env.Model)
			}
			cfg.env.Viewer, cfg.plan.Vision = client, &plan.VisionPlan{Model: endpoint.Model, Origin: cfg.plan.Model.Origin}
			cfg.env.Prices, cfg.plan.Policy.MaxCostMicroUSD, cfg.plan.Budgets.Tokens = prices, c.money, c.tokens
			refused, over := 0, 0
			denied := map[string]bool{}
			cfg.env.Watch = func(e trajectory.Event) {
				switch p := e.Payload.(type) {
				case trajectory.PolicyDecision:
					denied[p.CallID] = p.Decision == string(policy.Deny)
				case trajectory.PolicyViolation:
					if p.Class != string(policy.DeniedByBudget) || len(p.RuleIDs) != 1 || p.RuleIDs[0] != policy.Budget {
						t.Errorf("violation %+v", p)
					}
					if denied[p.CallID] {
						refused++
					} else {
						over++
					}
				}
			}
			a := read(t, execute(t, t.TempDir(), cfg).Dir)
			a.clean(t)
			n := int(looks.Load())
			if n < c.least || n > c.most || refused != 10-n || over != c.over {
				t.Errorf("%d looks, want %d to %d; %d refused, %d other violations, want %d", n, c.least, c.most, refused, over, c.over)
			}
			attempt := a.Tasks[0].Attempts[0]
			used := attempt.Tokens.In + attempt.Tokens.Out
			if c.over == 0 && (c.money != policy.Unlimited && attempt.KnownMicroUSD > c.money || c.tokens > 0 && used > c.tokens) || attempt.KnownMicroUSD < c.spentAtLeast {
				t.Errorf("%d micro-USD and %d tokens are used", attempt.KnownMicroUSD, used)
			}
		})
	}
}

// tenLooks serves a model whose first reply asks for ten looks at the attached picture,
// and the model that looks.
func tenLooks(t *testing.T, in int, looks *atomic.Int64) *httptest.Server {
	t.Helper()
	named := regexp.MustCompile(`workspace is "([^"]+)"`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut off fits nothing below
		asked := gjson.ParseBytes(body)
		last := asked.Get("messages.@reverse.0")
		message, used := `{"role":"assistant","content":"FINAL ANSWER: 417"}`, 260
		switch {
		case last.Get("content.1.image_url.url").Exists():
			looks.Add(1)
			if asked.Get("max_tokens").Int() < 256 {
				t.Errorf("a look may write %d tokens", asked.Get("max_tokens").Int())
			}
			message, used = `{"role":"assistant","content":"It is 417."}`, in
		case last.Get("role").Str == "user" && asked.Get("tools").Exists() && asked.Get("tool_choice").Str != "none":
			args, _ := json.Marshal(fmt.Sprintf(`{"path":%q,"question":"Which number?"}`, named.FindStringSubmatch(last.Get("content").Str)[1]))
			var calls []string
			for i := range 10 {
				calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"describe_image","arguments":%s}}`, i, args))
			}
			message = `{"role":"assistant","content":"","tool_calls":[` + strings.Join(calls, ",") + `]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","model":%q,"choices":[{"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":10}}`, endpoint.Model, message, used)
	}))
	t.Cleanup(server.Close)
	return server
}
