package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// offlineTasks are built-in tasks that need no web.
const offlineTasks = "fab1e001-0000-4000-8000-000000000001,fab1e002-0000-4000-8000-000000000002,fab1e010-0000-4000-8000-000000000010"

// TestEndpoint runs tasks of a directory against an endpoint that the user
// names, with the scripted model in its place: such a run is no rehearsal.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", server.ModelURL, "--model", fixtures.Model,
		"--judge-model", fixtures.JudgeModel, "--task", offlineTasks)
	if strings.Contains(out, "rehearsal") || !strings.Contains(out, "cost       unknown") || !strings.Contains(out, "2 solved, 1 failed") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, "verify", p.runDir()); strings.Contains(out, "rehearsal") {
		t.Errorf("verify says:\n%s", out)
	}
	p.want(exit.OK, "resume", p.runDir())
}

// TestQuotaStops: a failure that every task would meet stops the run at once,
// and resume keeps to the endpoint that was planned.
func TestQuotaStops(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var refused atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"the key is not valid","type":"invalid_request_error","code":"invalid_api_key"}}`))
	}))
	defer front.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--dataset", "dir:data", "--base-url", front.URL + "/v1", "--model", fixtures.Model, "--task", offlineTasks, "--concurrency", "1"}
	out := p.want(exit.Incomplete, args...)
	if !strings.Contains(out, "gaia: error: the run stopped: ") || !strings.Contains(out, "the key is not valid") || !strings.Contains(out, "gaia resume runs/") {
		t.Errorf("run says:\n%s", out)
	}
	if !strings.Contains(out, "gaia: hint: set OPENAI_API_KEY to a key of the endpoint, then: gaia resume runs/") {
		t.Errorf("run says:\n%s", out)
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("%d requests were made, want one", n)
	}
	out = p.want(exit.Usage, "resume", "--base-url", front.URL+"/v1", p.runDir())
	if !strings.Contains(out, "gaia: hint: give --dataset dir:PATH") {
		t.Errorf("resume says:\n%s", out)
	}
	out = p.want(exit.Failure, "resume", "--dataset", "dir:data", "--base-url", server.ModelURL, p.runDir())
	if !strings.Contains(out, "the run cannot go on with another plan: model was ") {
		t.Errorf("resume says:\n%s", out)
	}
}

// TestUnknownModel: a gateway that refuses an unknown model with 400 stops the run,
// before any task or, without a preflight, after four of them. Such a run is no
// evidence of a score, and goes on when the endpoint answers.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	model, err := url.Parse(server.ModelURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		flags    []string
		requests int32
		says     string
		begun    string
	}{
		{"preflight", nil, 1, "preflight (model): the model \"scripted-model\" cannot be used: ", "with 0 of 5 tasks begun"},
		{"no preflight", []string{"--no-preflight"}, 4, "the endpoint refused the first request of 4 tasks in the same way", "of 5 tasks begun"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var known atomic.Bool
			var refused atomic.Int32
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: model.Scheme, Host: model.Host})
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if known.Load() {
					proxy.ServeHTTP(w, r)
					return
				}
				refused.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":{"message":"Invalid model name passed in model=scripted-model","type":"invalid_request_error","code":"400"}}`))
			}))
			defer front.Close()
			p := newProgram(t)
			if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
				t.Fatal(err)
			}
			base := front.URL + model.Path
			args := []string{"run", "--dataset", "dir:data", "--base-url", base, "--model", fixtures.Model, "--limit", "5", "--concurrency", "1"}
			out := p.want(exit.Incomplete, append(args, test.flags...)...)
			for _, want := range []string{"gaia: error: the run stopped: " + test.says, "Invalid model name", "gaia: hint: to name another model: gaia run --like runs/", " --model NAME", "gaia: hint: when the endpoint answers: gaia resume runs/"} {
				if !strings.Contains(out, want) {
					t.Errorf("run does not say %q:\n%s", want, out)
				}
			}
			if n := refused.Load(); n != test.requests {
				t.Errorf("%d requests were made, want %d", n, test.requests)
			}
			dir := p.runDir()
			for _, command := range []string{"verify", "audit", "submit"} {
				if out := p.want(exit.Incomplete, command, dir); !strings.Contains(out, "it was stopped by its endpoint, ") || !strings.Contains(out, test.begun) {
					t.Errorf("%s says:\n%s", command, out)
				}
			}
			known.Store(true)
			out = p.want(exit.OK, "resume", "--dataset", "dir:data", "--base-url", base, dir)
			if !strings.Contains(out, " 0 error, 0 skipped") || strings.Contains(out, "left out by --no-preflight") == (test.flags == nil) {
				t.Errorf("resume says:\n%s", out)
			}
			p.want(exit.OK, "verify", dir)
		})
	}
}

// TestNothingCompleted: a run in which every attempt ended in an error ends with
// findings, and there is no clean package of it.
func TestNothingCompleted(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"message":"invalid schema","type":"invalid_request_error","code":"invalid_request"}}`))
	}))
	defer front.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.Findings, "run", "--dataset", "dir:data", "--base-url", front.URL+"/v1", "--model", fixtures.Model, "--limit", "3", "--no-preflight", "--submit-intent")
	for _, want := range []string{"gaia: error: every attempt ended in an error", filepath.Base(p.runDir()) + " --dataset dir:PATH --base-url URL (at " + front.URL + ")"} {
		if !strings.Contains(out, want) {
			t.Errorf("run does not say %q:\n%s", want, out)
		}
	}
	if out := p.want(exit.Findings, "audit", p.runDir()); !strings.Contains(out, "CRITICAL AUD-11.nothing-completed") {
		t.Errorf("audit says:\n%s", out)
	}
	p.want(exit.Findings, "submit", p.runDir())
	p.want(exit.Findings, "resume", "--dataset", "dir:data", "--base-url", front.URL+"/v1", p.runDir())
}

// TestResumeTakesThePlan: a run that was planned with every flag goes on
// without them; only the directory of its cassette is the user's to say.
func TestResumeTakesThePlan(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	model, err := url.Parse(server.ModelURL)
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: model.Scheme, Host: model.Host})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	prices := filepath.Join(p.dir, "prices.json")
	if err := os.WriteFile(prices, fixtures.Prices(), 0o644); err != nil {
		t.Fatal(err)
	}
	base := front.URL + model.Path
	out := p.want(exit.Incomplete, "run", "--dataset", "dir:data", "--base-url", base, "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--task", offlineTasks,
		"--api", "chat", "--served-as", "berth", "--images", "on", "--context-window", "60000", "--max-cost", "2", "--max-task-tokens", "80000", "--max-task-time", "3m", "--max-turns", "12",
		"--max-task-cost", "0.125", "--prices", prices, "--cassette", "record:tape", "--concurrency", "2", "--rpm", "600000", "--tpm", "600000000")
	_, again, found := strings.Cut(out, "then: gaia ")
	if !found {
		t.Fatalf("run says:\n%s", out)
	}
	if !strings.Contains(again, " --concurrency 2 --rpm 600000 --tpm 600000000 ") {
		t.Errorf("the run goes on with %q", again)
	}
	open.Store(true)
	if out := p.want(exit.Usage, "resume", p.runDir(), "--dataset", "dir:data", "--base-url", base, "--prices", prices); !strings.Contains(out, "gaia: error: the run was planned with --cassette record:DIR\n") {
		t.Errorf("resume says:\n%s", out)
	}
	if out := p.want(exit.Usage, "resume", p.runDir(), "--dataset", "dir:data", "--base-url", base, "--prices", prices, "--cassette", "replay:tape"); !strings.Contains(out, "planned with --cassette record:DIR\n") {
		t.Errorf("resume says:\n%s", out)
	}
	if out := p.want(exit.Usage, "resume", p.runDir(), "--dataset", "dir:data", "--base-url", base, "--prices", prices, "--cassette", "record:none"); !strings.Contains(out, "gaia: hint: give the directory that the run was started with\n") {
		t.Errorf("resume says:\n%s", out)
	}
	p.want(exit.OK, strings.Fields(again)...)
	p.want(exit.OK, "verify", p.runDir())
}

// TestReplay: what was recorded answers the same run again, at once or with
// other concurrency, without a key and without asking anybody.
func TestReplay(t *testing.T) {
	t.Parallel()
	model := serveModel(t)
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--dataset", "dir:data", "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--task", offlineTasks, "--no-judge-cache", "--max-task-cost", "off"}
	p.want(exit.OK, append(args, "--base-url", model, "--cassette", "record:tape")...)
	first, err := os.ReadFile(filepath.Join(p.newest(), rundir.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	if out := p.want(exit.Usage, append(args, "--base-url", model, "--cassette", "record:tape")...); !strings.Contains(out, "gaia: error: --cassette record:tape: opening cassette \"tape\": it holds a recording already\n") ||
		!strings.Contains(out, "gaia: hint: record to another directory, or have the answers from there with --cassette replay:tape\n") {
		t.Errorf("run says:\n%s", out)
	}
	out := p.want(exit.OK, append(args, "--base-url", "https://api.example/v1", "--cassette", "replay:tape", "--concurrency", "1", "--json")...)
	if !strings.Contains(out, `"cassette":"replay"`) || !strings.Contains(out, "gaia: replay: the answers come from a cassette; no model was asked\n") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, "verify", p.newest()); !strings.Contains(unaligned(out), "\nreplay the answers come from a cassette; no model was asked\n") {
		t.Errorf("verify says:\n%s", out)
	}
	if m := p.Plan(p.newest()); m.Cassette != plan.CassetteReplay {
		t.Errorf("the plan has %q", m.Cassette)
	}
	second, err := os.ReadFile(filepath.Join(p.newest(), rundir.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	answers := regexp.MustCompile(`"(model_answer|outcome|official_correct|judged_correct)":[^,}]*`)
	if a, b := answers.FindAll(first, -1), answers.FindAll(second, -1); len(a) < 9 || !slices.EqualFunc(a, b, bytes.Equal) {
		t.Errorf("the replay came to %s, the run to %s", b, a)
	}
	if out := p.want(exit.Incomplete, append(args, "--base-url", model, "--cassette", "replay:tape", "--images", "on", "--max-turns", "1")...); !strings.Contains(out, "the run is not the one that was recorded\n") ||
		!strings.Contains(out, "gaia: hint: start a new run with the settings that the recording was made with") || strings.Contains(out, "resume") {
		t.Errorf("run says:\n%s", out)
	}
}

// TestUnscored: the split test has no gold, so there is no score, not a zero.
func TestUnscored(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	out := p.want(exit.OK, "run", "--split", "test")
	if !strings.Contains(out, "unscored") || strings.Contains(out, " 0.0 %") || !strings.Contains(out, "rehearsal") {
		t.Errorf("run says:\n%s", out)
	}
	p.want(exit.OK, "verify", p.runDir())
}

// plainAnswer is a chat completion that calls no tool.
const plainAnswer = `{"id":"x","object":"chat.completion","model":"m","usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12},
"choices":[{"index":0,"message":{"role":"assistant","content":"FINAL ANSWER: 42"},"finish_reason":"stop"}]}`

// TestServers: what run, doctor and judge check say of servers as they are found in the field.
func TestServers(t *testing.T) {
	t.Parallel()
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	tooLong := says(400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`)
	noTools := says(400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}`)
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		path  string
		code  int
		args  []string
		want  []string
	}{
		"no /v1":            {http.NotFound, "", exit.Incomplete, []string{"run"}, []string{"gaia: hint: the base URL has no /v1, where most servers answer: try --base-url ADDR/v1\n"}},
		"doctor, no /v1":    {http.NotFound, "", exit.Findings, []string{"doctor"}, []string{"model: the base URL has no /v1, where most servers answer: try --base-url ADDR/v1\n"}},
		"judge, no /v1":     {http.NotFound, "", exit.Failure, []string{"judge", "check", "--judge-model", "j"}, []string{"gaia: hint: the base URL has no /v1, where most servers answer: try --base-url ADDR/v1\n"}},
		"tools refused":     {noTools, "/v1", exit.Incomplete, []string{"run"}, []string{"does not support tools", "gaia: hint: name a model that calls tools with --model, or start the server with tool calling on"}},
		"tools ignored":     {says(200, plainAnswer), "/v1", exit.OK, []string{"run", "--no-preflight"}, []string{"tools  4 tools offered in 3 model calls, none called: the model or its server may ignore tools; 'gaia doctor' tries one\n"}},
		"no tool called":    {says(200, plainAnswer), "/v1", exit.OK, []string{"run"}, []string{"preflight  model, tools: ", "the model did not call the tool it was asked to call: it called none\n"}},
		"context too small": {tooLong, "/v1", exit.OK, []string{"run"}, []string{"context  the endpoint refused a conversation as too long in 3 of 3 tasks, and 3 attempts ended without an answer for it: start the server with a larger context"}},
		"cost of a gateway": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-litellm-response-cost", "3.45e-05")
			says(200, plainAnswer)(w, r)
		}, "/v1", exit.OK, []string{"run"}, []string{"cost  $0.000105; the whole run $0.000175\n"}},
		"cost of no price": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-litellm-response-cost", "NaN")
			says(200, plainAnswer)(w, r)
		}, "/v1", exit.OK, []string{"run"}, []string{"cost  unknown\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			front := httptest.NewServer(tt.serve)
			defer front.Close()
			p := newProgram(t)
			if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
				t.Fatal(err)
			}
			args := append(tt.args, "--base-url", front.URL+tt.path)
			if tt.args[0] != "judge" {
				args = append(args, "--model", "m", "--dataset", "dir:data", "--search", "none", "--task", offlineTasks)
			}
			if tt.args[0] == "run" {
				args = append(args, "--max-task-cost", "off", "--concurrency", "1")
			}
			out := regexp.MustCompile(` {2,}`).ReplaceAllString(p.want(tt.code, args...), "  ")
			for _, want := range tt.want {
				if want = strings.ReplaceAll(want, "ADDR", front.URL); !strings.Contains(out, want) {
					t.Errorf("%q is not said:\n%s", want, out)
				}
			}
			if strings.Contains(tt.want[0], "  ") { // of a summary
				p.want(exit.OK, "verify", p.runDir())
			}
		})
	}
}
