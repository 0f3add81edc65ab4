package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestOutage: an endpoint that is away stops the run before it has lost a task,
// and the run goes on where it is back.
func TestOutage(t *testing.T) {
	for _, tt := range []struct{ tasks, atOnce int }{{30, 16}, {30, 8}, {30, 3}, {30, 1}, {3, 1}, {1, 1}} {
		t.Run(fmt.Sprintf("%d tasks, %d at once", tt.tasks, tt.atOnce), func(t *testing.T) {
			tasks := endpoint.Tasks{Count: tt.tasks, Turns: 3}
			server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.ServerError}, First: -1})
			c := generated(t, tasks, server.URL, nil)
			c.env.Concurrency = tt.atOnce
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			if stop := (*StopError)(nil); !errors.As(err, &stop) || !strings.Contains(stop.text, "could not reach the model") {
				t.Fatalf("the run ended with %v", err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			server.Heal()
			again, err := Resume(r.Dir, c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if err := again.Execute(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if s := verified(t, r.Dir).Summary(); s.Outcomes.Error != 0 || s.Outcomes.Solved+s.Outcomes.Failed != tasks.Count {
				t.Errorf("%+v", s.Outcomes)
			}
		})
	}
}

// TestRefusedConnectionIsReported: once, with the address, before the second try.
func TestRefusedConnectionIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var waits atomic.Int32
	c := generated(t, endpoint.Tasks{Count: 3, Turns: 3}, "http://"+address+"/v1", func(c *llm.Config) {
		c.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: 1})
		c.Sleep = func(ctx context.Context, d time.Duration) error {
			waits.Add(1)
			return shortened(ctx, d)
		}
	})
	var warnings []string
	c.env.Concurrency, c.env.Warn = 1, func(err error) {
		if waits.Load() > 0 {
			t.Errorf("%v after a wait", err)
		}
		warnings = append(warnings, err.Error())
	}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); err == nil {
		t.Error("the run came to its end")
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], address) || !strings.Contains(warnings[0], "check --base-url") {
		t.Errorf("%q", warnings)
	}
}

// TestEmptyCompletionsArePaid: tries that are paid and of no use are held to the
// budget like any other.
func TestEmptyCompletionsArePaid(t *testing.T) {
	tasks := endpoint.Tasks{Count: 64, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.Empty}, First: -1})
	c := generated(t, tasks, server.URL, nil)
	c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD, c.env.Concurrency = 200, 100_000, 64
	s := verified(t, execute(t, t.TempDir(), c).Dir).Summary()
	if cost := server.Counts().CostMicroUSD; cost == 0 || cost > c.plan.Budgets.RunCostMicroUSD || *s.CostMicroUSD != cost {
		t.Errorf("cost %d of %d, the summary says %d", cost, c.plan.Budgets.RunCostMicroUSD, *s.CostMicroUSD)
	}
}

// TestMoneyOfAKilledProcess: what requests cost that a process did not live to
// hear the answer of counts against the budget.
func TestMoneyOfAKilledProcess(t *testing.T) {
	tasks := endpoint.Tasks{Count: 8, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks, Faults: []endpoint.Kind{endpoint.Stalled}, First: -1})
	c := generated(t, tasks, server.URL, nil)
	c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = 200, 1_000_000
	ctx, cancel := context.WithCancel(context.Background())
	begun := 0
	c.env.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.ModelCallStarted); ok {
			if begun++; begun == tasks.Count {
				cancel()
			}
		}
	}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	least := int64(tasks.Count) * int64(c.plan.Model.MaxTokens) * 4 // micro-USD a token written
	if spent := r.State().Spent(int64(c.plan.Model.MaxTokens) * 4); spent < least {
		t.Errorf("%d micro-USD are counted, want %d at least", spent, least)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// refusals of gateways, as they word them.
const (
	liteLLMNoModel = `{"error":{"message":"litellm.BadRequestError: /chat/completions: Invalid model name passed in model=genrated-model. Call ` + "`/v1/models`" + ` to view available models for your key.","type":"invalid_request_error","param":"None","code":"400"}}`
	openAINoModel  = `{"error":{"message":"The model ` + "`genrated-model`" + ` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`
	vLLMNoModel    = `{"object":"error","message":"The model ` + "`genrated-model`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`
	azureFiltered  = `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400}}`
	deepSeekFilter = `{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`
	aliFiltered    = `{"error":{"message":"Input data may contain inappropriate content.","type":"data_inspection_failed","param":null,"code":"data_inspection_failed"}}`
	wrongKey       = `{"error":{"message":"the key is not known","type":"invalid_request_error","code":"invalid_api_key"}}`
	badSchema      = `{"error":{"message":"Invalid schema for function","type":"invalid_request_error","code":"invalid_request"}}`
)

// refuser is a front of an endpoint that answers some requests by itself.
type refuser struct {
	status int
	body   string
	when   func(request []byte) bool // nil: always
	off    atomic.Bool
	sent   atomic.Int64 // refusals
}

func (f *refuser) serve(t *testing.T, behind string) string {
	t.Helper()
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f.off.Load() || f.when != nil && !f.when(body) {
			proxy.ServeHTTP(w, r)
			return
		}
		f.sent.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
	}))
	t.Cleanup(front.Close)
	return front.URL + target.Path
}

// first reports whether a request is the first of its task.
func first(request []byte) bool { return !bytes.Contains(request, []byte(`"role":"assistant"`)) }

// TestRefusedAlike: an endpoint that refuses the first requests of tasks in the same
// way, before any task had a reply, stops the run, which goes on when it answers.
// What says something about one request does not.
func TestRefusedAlike(t *testing.T) {
	tasks := endpoint.Tasks{Count: 8, Turns: 3}
	for _, tt := range []struct {
		name   string
		status int
		body   string
		when   func([]byte) bool
		stops  bool
		most   int64 // refusals before the run stops, one at a time
	}{
		{"LiteLLM, unknown model", 400, liteLLMNoModel, nil, true, 4},
		{"OpenAI, unknown model", 404, openAINoModel, nil, true, 1},
		{"vLLM, unknown model", 404, vLLMNoModel, nil, true, 1},
		{"wrong key", 401, wrongKey, nil, true, 1},
		{"tools refused", 400, badSchema, nil, true, 4},
		{"unprocessable", 422, `{"detail":"no such thing"}`, nil, true, 4},
		{"content filter of Azure", 400, azureFiltered, first, false, 0},
		{"content filter of DeepSeek", 400, deepSeekFilter, first, false, 0},
		{"content filter of Alibaba", 400, aliFiltered, first, false, 0},
		{"content filter with 403", 403, `{"error":{"message":"Your input was flagged","code":403,"metadata":{"flagged_input":"…"}}}`, first, false, 0},
		{"context length", 400, `{"error":{"message":"This model's maximum context length is 512 tokens","code":"context_length_exceeded"}}`, first, false, 0},
		{"after a reply", 400, badSchema, func(b []byte) bool { return !first(b) }, false, 0},
		{"some tasks, others have replies", 400, badSchema, func(b []byte) bool {
			return first(b) && !bytes.Contains(b, []byte(tasks.Question(0)))
		}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, endpoint.Config{Tasks: tasks})
			front := &refuser{status: tt.status, body: tt.body, when: tt.when}
			c := generated(t, tasks, front.serve(t, server.URL), nil)
			c.env.Concurrency = 1
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Execute(context.Background(), nil)
			if closing := r.Close(); closing != nil {
				t.Fatal(closing)
			}
			stop := (*StopError)(nil)
			if errors.As(err, &stop) != tt.stops || !tt.stops && err != nil {
				t.Fatalf("the run ended with %v", err)
			}
			if !tt.stops {
				if found := verified(t, r.Dir); !found.Complete {
					t.Errorf("incomplete: %s", found.Missing)
				}
				return
			}
			if front.sent.Load() != tt.most {
				t.Errorf("%d requests were refused, want %d", front.sent.Load(), tt.most)
			}
			stopped(t, r.Dir, int(tt.most), len(c.env.Set.Tasks))
			front.off.Store(true)
			finish(t, r.Dir, c)
			s := verified(t, r.Dir).Summary()
			if s.Outcomes.Solved != tasks.Count-1 || s.Outcomes.Failed != 1 || len(s.Interruptions) != 1 || s.Interruptions[0].Stopped != trajectory.StoppedByEndpoint {
				t.Errorf("outcomes %+v, interruptions %+v", s.Outcomes, s.Interruptions)
			}
		})
	}
}

// stopped wants a run that was closed before its end: what is there verifies, and
// nothing that derives from the end is there.
func stopped(t *testing.T, dir string, begun, planned int) {
	t.Helper()
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if found.Complete || found.Stopped == nil || found.Stopped.Stopped != trajectory.StoppedByEndpoint || found.Stopped.TasksBegun < begun || found.Stopped.TasksBegun > begun+1 || // the next one may have begun
		found.Stopped.Planned != planned {
		t.Errorf("complete %v, stopped %+v: %s", found.Complete, found.Stopped, found.Missing)
	}
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}
