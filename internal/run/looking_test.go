package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures/endpoint"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
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
	client, ok := c.Model.Client.(*llm.Client)
	if !ok {
		t.Fatalf("the client is a %T", c.Model.Client)
	}
	c.Vision, c.MaxTokens = &Vision{Client: client, Name: endpoint.Model, Origin: c.Model.Origin}, 200
	a := read(t, execute(t, t.TempDir(), c).Dir)
	each := c.Prices.Cost(endpoint.Model, llm.Usage{Reported: true, In: 1000, Out: 10})
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
	if m := a.Manifest; m.Vision == nil || m.Vision.Model != endpoint.Model || m.Vision.Origin != c.Model.Origin {
		t.Errorf("the plan has %+v", m.Vision)
	}
}

// onePicture is a client that answers one request, or fails.
type onePicture struct {
	try    llm.Try
	err    error
	during func()
}

func (o onePicture) Chat(_ context.Context, r llm.Request, seen llm.Observer) (llm.Response, error) {
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

// TestLookingIsPaid: what a look may cost is set aside before it is asked, given
// back after it, and charged whole where nobody says what it did cost.
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
		client onePicture
		spent  int64
		code   string
	}{
		"known":      {need, onePicture{try: llm.Try{Response: &llm.Response{CostMicroUSD: &seven}}}, 7, ""},
		"unknown":    {need, onePicture{try: llm.Try{Response: &llm.Response{}}}, need, ""},
		"lost":       {need, onePicture{try: llm.Try{Err: lost}, err: lost}, need, "transport"},
		"not enough": {need - 1, onePicture{}, 0, "run_budget"},
	} {
		p := &purse{budget: tc.budget, prices: prices, model: endpoint.Model, maxTokens: 200, changed: make(chan struct{})}
		tc.client.during = func() {
			if p.held != need {
				t.Errorf("%s: %d set aside, want %d", name, p.held, need)
			}
		}
		_, err := viewer{tc.client, func() *purse { return p }}.Chat(t.Context(), request, unseen{})
		var failed *llm.Error
		if errors.As(err, &failed) != (tc.code != "") || failed != nil && failed.Code != tc.code || p.spent != tc.spent || p.held != 0 {
			t.Errorf("%s: spent %d, held %d, %v", name, p.spent, p.held, err)
		}
	}
	if !(trajectory.CallError{Code: lost.Code}).Unanswered() {
		t.Error("a lost answer counts as none")
	}
}
