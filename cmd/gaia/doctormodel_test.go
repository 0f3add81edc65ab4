package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/view"
)

// TestDoctorModel: what an endpoint does is told apart, with what would fix it,
// by one request.
func TestDoctorModel(t *testing.T) {
	p := newPatient(t)
	flags := p.onDisk()
	for _, test := range []struct {
		kind                  endpoint.Kind
		state, detail, remedy string
	}{
		{"", doctor.OK, "answers as generated-model and calls tools (", ""},
		{endpoint.Unauthorized, doctor.Failed, "the key is not known", "set OPENAI_API_KEY to a key of the endpoint"},
		{endpoint.NoModel, doctor.Failed, "the model does not exist", "check --model"},
		{endpoint.Quota, doctor.Failed, "the quota is used up", "check the account"},
		{endpoint.Payment, doctor.Failed, "the account is empty", "check the account"},
		{endpoint.Forbidden, doctor.Failed, "the account may not do this", "use a key that may ask this model"},
		{endpoint.LimitMs, doctor.Unknown, "too many requests", "wait a minute"},
		{endpoint.ErrorIn200, doctor.Failed, "the server failed", "try again"},
		{endpoint.Overloaded, doctor.Failed, "too much to do", "try again"},
		{endpoint.BadRequest, doctor.Failed, "the request is refused", "read the endpoint's message"},
		{endpoint.Page, doctor.Failed, "not_json", "check --base-url"},
		{endpoint.Cut, doctor.Failed, "model request failed: transport", "check --base-url and the network"},
		{endpoint.Empty, doctor.Failed, llm.EmptyCompletion, "try again"},
		{endpoint.UnknownTool, doctor.Missing, "not the one that was asked for", "name a model that calls tools"},
		{endpoint.BrokenArguments, doctor.Missing, "not the one that was asked for", "name a model that calls tools"},
		{endpoint.NonsenseUsage, doctor.Missing, "it reports no usage", "not submittable"},
		{endpoint.Silent, doctor.Failed, "no answer from http://127.0.0.1:", "--wait 5m"},
		{endpoint.Stalled, doctor.Failed, "no answer from http://127.0.0.1:", "--wait 5m"},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			p := p
			p.T = t
			c, wait := endpoint.Config{Tasks: endpoint.Tasks{Count: 1}}, "1m"
			if test.kind != "" {
				c.Faults, c.First = []endpoint.Kind{test.kind}, -1
			}
			if test.kind == endpoint.Silent || test.kind == endpoint.Stalled {
				wait = "300ms"
			}
			s, err := endpoint.Serve(c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f := p.findings(append(flags, "--base-url", s.URL, "--wait", wait)...)["model"]
			p.wants(f, test.state, test.detail, test.remedy)
			if wait != "1m" { // it may be over before anything is sent
				return
			}
			counts := s.Counts()
			asked := map[bool]int{true: 3, false: 1}[f.State != doctor.Failed && f.State != doctor.Unknown] // a word, a call, and its result
			if strings.Contains(test.detail, "not the one") {
				asked = 2
			}
			if counts.Requests != asked {
				t.Errorf("%d requests", counts.Requests)
			}
			if spent := f.CostMicroUSD; counts.CostMicroUSD > 0 && test.kind != endpoint.Cut && (spent == nil || *spent != counts.CostMicroUSD) || counts.CostMicroUSD == 0 && spent != nil {
				t.Errorf("it cost %s, want %d micro-USD", view.Dollars(spent), counts.CostMicroUSD)
			}
		})
	}
	f := p.findings(append(flags, "--base-url", "http://127.0.0.1:9/v1")...)["model"]
	p.wants(f, doctor.Failed, "unreachable", "that the endpoint is up")
	p.untouched()
}

// answering is an endpoint that gives one answer, and what it was asked last.
func answering(t *testing.T, status int, answer string) (base string, asked func() (path, body string)) {
	t.Helper()
	got := make(chan [2]string, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- [2]string{r.URL.Path, string(b)}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "KEY", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", func() (string, string) {
		last := <-got
		return last[0], last[1]
	}
}

// TestDoctorAnswers: what comes back is read as in a run, by the interface that a
// run would ask by, in a completion that is bounded.
func TestDoctorAnswers(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}`
	said := func(model, content, finish string) string {
		return `{"id":"c1","object":"chat.completion","model":"` + model + `",` + usage + `,"choices":[{"index":0,"finish_reason":"` + finish + `","message":{"role":"assistant","content":"` + content + `"}}]}`
	}
	call := `{"id":"c1","object":"chat.completion","model":"MODEL",` + usage + `,"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"","tool_calls":[{"id":"t1","type":"function","function":{"name":"read_gauge","arguments":"{\"name\":\"mill\"}"}}]}}]}`
	p := newPatient(t)
	flags := p.onDisk()
	for _, test := range []struct {
		name                  string
		status                int
		answer                string
		flags                 []string
		path, body            string
		state, detail, remedy string
	}{
		{"words", 200, said(endpoint.Model, "It reads seven.", "stop"), nil, "/v1/chat/completions", `"temperature":0`,
			doctor.Missing, "calls no tool", "name a model that calls tools"},
		{"cut short", 200, said(endpoint.Model, "Well, let me think", "length"), []string{"--max-tokens", "50"}, "/v1/chat/completions", `:50`,
			doctor.Unknown, "reached 50 tokens before it called", ""},
		{"silence at the bound", 200, said(endpoint.Model, "", "length"), nil, "/v1/chat/completions", `:1024`,
			doctor.Unknown, "reached 1024 tokens before it wrote anything", ""},
		{"another name", 200, strings.Replace(call, "MODEL", "berth-7", 1), nil, "/v1/chat/completions", `"content":"Reply with the word ready."`,
			doctor.Missing, "answers as berth-7, asked for " + endpoint.Model + " and calls tools; the audit takes that for another model", "give --served-as berth-7 if it is the same model"},
		{"another name, to be submitted", 200, strings.Replace(call, "MODEL", "berth-7", 1), []string{"--submit-intent"}, "/v1/chat/completions", "",
			doctor.Failed, "the audit takes that for another model", "name what is there with --model"},
		{"a name that is declared", 200, strings.Replace(call, "MODEL", "harbour/berth-7", 1), []string{"--submit-intent", "--served-as", "berth-7"}, "/v1/chat/completions", "",
			doctor.OK, "answers as harbour/berth-7, asked for " + endpoint.Model + " and calls tools (", ""},
		{"no name", 200, strings.Replace(call, "MODEL", "", 1), nil, "/v1/chat/completions", "", doctor.OK, "without naming a model", ""},
		{"no usage", 200, strings.Replace(call, usage+",", "", 1), []string{"--submit-intent"}, "/v1/chat/completions", "",
			doctor.Failed, "reports no usage", "not submittable"},
		{"the other interface", 400, `{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions."}}`, nil,
			"/v1/chat/completions", "", doctor.Failed, "responses_api_required", "give --api responses"},
		{"responses", 200, `{"id":"r1","object":"response","status":"completed","model":"` + endpoint.Model + `","output":[{"type":"function_call","id":"f1","call_id":"t1","name":"read_gauge","arguments":"{\"name\":\"mill\"}"}],"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":14}}`,
			[]string{"--api", "responses"}, "/v1/responses", `"max_output_tokens":1024`, doctor.OK, "calls tools (27 tokens in, 15 out; cost $0.000087)", ""},
		{"nothing there", 404, "<html></html>", nil, "/v1/chat/completions", "", doctor.Failed, "404", "check --base-url"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := p
			p.T = t
			base, asked := answering(t, test.status, test.answer)
			f := p.findings(append(append(flags, "--base-url", base), test.flags...)...)["model"]
			p.wants(f, test.state, test.detail, test.remedy)
			if path, body := asked(); path != test.path || !strings.Contains(body, test.body) {
				t.Errorf("asked %s: %s", path, body)
			}
		})
	}
}

// TestDoctorJudge: the judge is shown one answer that says nothing, in the form of
// a run.
func TestDoctorJudge(t *testing.T) {
	s, err := endpoint.Serve(endpoint.Config{Tasks: endpoint.Tasks{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	front := httptest.NewServer(beside(t, s.URL))
	defer front.Close()
	p := newPatient(t)
	flags := append(p.onDisk(), "--base-url", front.URL+"/v1")
	for model, want := range map[string][3]string{
		fixtures.JudgeModel: {doctor.OK, "answers as " + fixtures.JudgeModel + " and gives verdicts (", ""},
		"unknown":           {doctor.Failed, "does not exist", "check --judge-model"},
		fixtures.Model:      {doctor.Failed, "", ""},
	} {
		found := p.findings(append(flags, "--judge-model", model)...)
		if model != fixtures.Model { // the scripted model knows no such question
			p.wants(found["judge"], want[0], want[1], want[2])
		} else if found["judge"].State == doctor.OK {
			t.Errorf("%+v", found["judge"])
		}
		p.wants(found["model"], doctor.OK, "calls tools", "")
	}
	for _, test := range [][3]string{
		{`I cannot tell`, doctor.Missing, "its reply is no verdict"},
		{`{\"verdict\":\"correct\"}`, doctor.Missing, "calls an answer correct that says nothing"},
		{`{\"verdict\":\"incorrect\"}`, doctor.OK, "gives verdicts"},
	} {
		base, _ := answering(t, 200, `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`+test[0]+`"}}]}`)
		p.wants(p.findings(append(flags, "--base-url", base, "--judge-model", "m")...)["judge"], test[1], test[2], "")
	}
	base, _ := answering(t, 200, `{"id":"c1","object":"chat.completion","model":"other","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"{\"verdict\":\"incorrect\"}"}}]}`)
	p.wants(p.findings(append(flags, "--base-url", base, "--judge-model", "m")...)["judge"], doctor.Missing, "the audit takes that for another model", "--judge-model")
}

// beside sends on to an endpoint what is of its model, and all else to the scripted
// models.
func beside(t *testing.T, generated string) http.Handler {
	t.Helper()
	to := func(base string) http.Handler {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: u.Scheme, Host: u.Host})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = u.Path + strings.TrimPrefix(r.URL.Path, "/v1")
			proxy.ServeHTTP(w, r)
		})
	}
	one, other := to(generated), to(serveModel(t))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"`+endpoint.Model+`"`)) {
			one.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// TestDoctorShowsNoSecret: no key or token is printed, though those who were asked
// repeat them.
func TestDoctorShowsNoSecret(t *testing.T) {
	p := newPatient(t)
	secrets := map[string]string{"OPENAI_API_KEY": "canary-model-key-0123456789", "HF_TOKEN": "canary-hub-token-0123456789", "TAVILY_API_KEY": "canary-search-key-0123456789",
		"GAIA_SIGNING_KEY": "canary-signing-key-0123456789"}
	for name, value := range secrets {
		p.env[name] = value
	}
	base, _ := answering(t, 401, `{"error":{"message":"there is no \u001b[2J key KEY, nor canary-hub-token-0123456789 canary-search-key-0123456789 canary-signing-key-0123456789","code":"invalid_api_key"}}`)
	server, _ := serveHub(t)
	p.env["HF_ENDPOINT"] = server.URL
	token := filepath.Join(p.home, ".cache", "huggingface", "token")
	p.write(token, "canary-file-token-0123456789", 0o600)
	for _, args := range [][]string{{}, {"--json"}, {"--no-call"}, {"--key", filepath.Join(p.home, "none")}} {
		code, stdout, stderr := p.says(append(args, "--base-url", base, "--model", endpoint.Model, "--judge-model", "m", "--max-task-cost", "off")...)
		if code != exit.Findings || !strings.Contains(stdout, "OPENAI_API_KEY") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
		if said := stdout + stderr; strings.Contains(said, "canary") || strings.Contains(said, "\x1b") {
			t.Errorf("%q shows a secret, or steers the terminal:\n%q", args, said)
		}
	}
	for _, look := range []struct {
		variable, url, shown string
	}{
		{"HF_ENDPOINT", "http://127.0.0.1:9?token=canary", `"http://127.0.0.1:9…"`},
		{"HF_ENDPOINT", "hub.example/#canary", `"hub.example/…"`},
		{"HF_ENDPOINT", "http://me:canary@127.0.0.1:9", "holds credentials"},
		{"HF_ENDPOINT", "ftp://canary@127.0.0.1:9", "holds credentials"},
		{"OPENAI_BASE_URL", "http://127.0.0.1:9/v1?api-key=canary", "has a query or a fragment"},
		{"OPENAI_BASE_URL", "http://127.0.0.1:9/v1#canary", "has a query or a fragment"},
		{"OPENAI_BASE_URL", "models.example/v1?api-key=canary", `--base-url "models.example/v1?…" is not a base URL`},
		{"OPENAI_BASE_URL", "http://me:canary@127.0.0.1:9/v1", "holds credentials"},
		{"OPENAI_BASE_URL", "ftp://canary@127.0.0.1:9/v1", `--base-url "ftp://…@127.0.0.1:9/v1" is not a base URL`},
		{"OPENAI_BASE_URL", "canary@models.example", `--base-url "…@models.example" is not a base URL`},
		{"SEARXNG_URL", "ftp://me:canary@127.0.0.1:9?key=canary", `--searxng-url "ftp://…@127.0.0.1:9?…" is no search endpoint`},
	} {
		q := patient{t, p.home, map[string]string{"HOME": p.home, "HF_ENDPOINT": noHub, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}}
		q.env[look.variable] = look.url
		if look.variable != "HF_ENDPOINT" { // else the hub that does not answer is asked again for a while
			q.env["HF_HUB_OFFLINE"] = "1"
		}
		for _, args := range [][]string{{}, {"--json"}} {
			_, stdout, stderr := q.says(append(args, "--no-call", "--model", "m", "--search", "searxng")...)
			said := strings.Join(strings.Fields(strings.ReplaceAll(stdout+stderr, `\"`, `"`)), " ")
			for _, use := range []string{" what a run would be", " the tasks", " the tool web_search"} { // which the table has between two lines
				said = strings.ReplaceAll(said, use, "")
			}
			if strings.Contains(said, "canary") || !strings.Contains(said, look.shown) {
				t.Errorf("%s=%s: doctor %q says\n%s%s", look.variable, look.url, args, stdout, stderr)
			}
		}
	}
	p.untouched(".cache/huggingface/token")
}
