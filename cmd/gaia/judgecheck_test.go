package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judge"
)

// TestJudgeCheck: a judge is tried before there is a run, which then need not try
// it again.
func TestJudgeCheck(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "judge", "check", "--no-judge-cache")
	if out := p.want(exit.OK, "judge", "cache", "verify"); !strings.Contains(out, "there is no judge cache yet") {
		t.Errorf("something was kept: %s", out)
	}
	out := p.want(exit.OK, "judge", "check")
	for _, want := range []string{"gaia: rehearsal: a scripted judge", "thought-process", `":"`, "scripted-judge at builtin:scripted-judge: passed its self-test; ", " in, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out := p.want(exit.OK, "run", "--limit", "12"); !strings.Contains(out, "judge self-test passed before, by the judge cache") || !strings.Contains(out, "judged 3 of 3 (0 from the cache)") {
		t.Errorf("run says:\n%s", out)
	}
}

// TestJudgeCheckGullible: a judge that pays for nothing is named, with what it
// paid, and is known from then on.
func TestJudgeCheckGullible(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	if err := os.WriteFile(filepath.Join(p.dir, "gaia.yaml"), []byte("judge-model: "+fixtures.GullibleJudgeModel+"\nbase-url: "+server.ModelURL+"\nprices: prices.json\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "prices.json"), fixtures.Prices(), 0o644); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.Findings, "judge", "check")
	for _, want := range []string{"failed its self-test", "gaia: error: no verdict of this judge counts: it accepted ", "gaia: hint: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out := p.want(exit.OK, "judge", "cache", "verify"); !strings.Contains(out, "1 entry checked: 1 good") {
		t.Errorf("verify says:\n%s", out)
	}
	cmd := p.command("judge", "check", "--json")
	data, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exit.Findings {
		t.Fatalf("exit code %d, %v", code, err)
	}
	var got grading.Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	paid := 0
	for _, i := range got.Items {
		if i.Verdict == "correct" {
			paid++
		}
	}
	if paid < 20 || got.Withstood || len(got.Items) != len(judge.Battery()) || got.CostMicroUSD == nil || *got.CostMicroUSD == 0 || got.Battery != judge.BatteryDigest() || got.Rehearsal {
		t.Errorf("%s", data)
	}
	out = p.want(exit.OK, "judge", "check", "--judge-model", fixtures.JudgeModel)
	if !strings.Contains(out, "scripted-judge at http://127.0.0.1:") {
		t.Errorf("a flag that is given does not win:\n%s", out)
	}
}

func TestJudgeCheckRefuses(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--base-url " + server.ModelURL, exit.Usage, "gaia: error: no judge is given\ngaia: hint: give --judge-model"},
		{"--judge-model m", exit.Usage, "gaia: error: there is no key for api.openai.com\ngaia: hint: set OPENAI_API_KEY"},
		{"--judge-model m --base-url nowhere", exit.Usage, `--base-url "nowhere" is not a base URL`},
		{"--judge-model m --base-url https://a:b@judge.example/v1", exit.Usage, "--base-url holds credentials"},
		{"--judge-model m --prices none.json --base-url " + server.ModelURL, exit.Usage, `reading the price table "none.json"`},
		{"--judge-model= --base-url " + server.ModelURL, exit.Usage, "--judge-model is empty"},
		{"extra", exit.Usage, "gaia: error: judge check takes no argument, not \"extra\"\ngaia: hint: see 'gaia judge check --help'"},
		{"--judge-model no-such-judge --base-url " + server.ModelURL, exit.Failure, "gaia: error: asking the judge: "},
	} {
		p := newProgram(t)
		out := p.want(c.code, append([]string{"judge", "check"}, strings.Fields(c.args)...)...)
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in:\n%s", c.args, c.want, out)
		}
		if left, err := os.ReadDir(p.dir); c.code == exit.Usage && (err != nil || len(left) != 0) {
			t.Errorf("%s: it left %v, %v", c.args, left, err)
		}
		if kept := p.entries(); len(kept) != 0 {
			t.Errorf("%s: it kept %v", c.args, kept)
		}
	}
}

// umpire is a judge that always gives its own reply.
type umpire struct {
	*httptest.Server
	asked atomic.Int32
	reply atomic.Value // a string: the verdict
}

// newUmpire serves a judge that gives one verdict; of "" it never comes to an end.
// first is what happens when it is asked for the first time.
func newUmpire(t *testing.T, verdict string, first func()) *umpire {
	u := &umpire{}
	u.reply.Store(verdict)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else a client that goes is not noticed
		if u.asked.Add(1) == 1 {
			first()
		}
		verdict := u.reply.Load().(string)
		if verdict == "" {
			<-r.Context().Done()
			return
		}
		content := fmt.Sprintf(`{"verdict":%q}`, verdict)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"umpire","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`, content)
	}))
	t.Cleanup(u.Close)
	return u
}

// check are the arguments that have it tried.
func (u *umpire) check(more ...string) []string {
	return append([]string{"judge", "check", "--judge-model", "umpire", "--base-url", u.URL + "/v1"}, more...)
}

func (p program) judgments() string { return filepath.Join(p.dir, ".cache", "gaia", "judgments") }

// entries are the names of what is kept in the judge cache.
func (p program) entries() []string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.judgments(), "*.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

func (p program) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func wantAll(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestJudgeCheckSettings: the settings file is read as run reads it, and no judge
// is rehearsed where a run would be real.
func TestJudgeCheckSettings(t *testing.T) {
	t.Parallel()
	u := newUmpire(t, "incorrect", func() {})
	const nowhere = "http://127.0.0.1:9/v1"
	noJudge := "gaia: error: no judge is given\ngaia: hint: give --judge-model"
	for _, c := range []struct {
		name, file, env string
		code            int
		want            []string
	}{
		{"a slip", "judge-modle: m\n", "", exit.Usage, []string{`gaia.yaml:1:1: there is no setting "judge-modle"`, "hint: did you mean judge-model?"}},
		{"a secret", "judge-model: sk-abcdefgh\n", "", exit.Usage, []string{"gaia.yaml:1:14: judge-model holds what looks like a key"}},
		{"another type", "judge-model: m\nno-judge-cache: 1\n", "", exit.Usage, []string{`gaia.yaml:2:17: no-judge-cache is "1", which is not true or false`}},
		{"what no run can have", "judge-model: m\nvoting-attempts: 0\n", "", exit.Usage, []string{"gaia.yaml:2:18: voting-attempts is 0"}},
		{"of the command line", "judge-model: m\nsettings: b.yaml\n", "", exit.Usage, []string{`"settings" is for the command line alone`}},
		{"no base URL", "judge-model: m\nbase-url: nowhere\n", "", exit.Usage, []string{`gaia.yaml:2:11: base-url "nowhere" is not a base URL`}},
		{"a model and no judge", "model: m\n", "", exit.Usage, []string{noJudge}},
		{"an endpoint and no judge", "base-url: " + nowhere + "\n", "", exit.Usage, []string{noJudge}},
		{"a source and no judge", "source: hub\n", "", exit.Usage, []string{noJudge}},
		{"a revision and no judge", "revision: main\n", "", exit.Usage, []string{noJudge}},
		{"a key and no judge", "limit: 3\n", "OPENAI_API_KEY=invented", exit.Usage, []string{noJudge}},
		{"built-in tasks", "source: fixtures\n", "OPENAI_API_KEY=invented", exit.OK, []string{"gaia: rehearsal: ", "gaia: settings from gaia.yaml\n", "scripted-judge at builtin:scripted-judge: passed"}},
		{"all of it", "judge-model: umpire\nlevel: [1]\nno-judge-cache: true\nbase-url: " + u.URL + "/v1\n", "", exit.OK,
			[]string{"gaia: settings from gaia.yaml; the endpoint is " + u.URL + "\ngaia: asking umpire at " + u.URL + " about 26 answers without content\n", "umpire at " + u.URL + ": passed its self-test; "}},
		{"the environment wins", "judge-model: umpire\nno-judge-cache: true\nbase-url: " + nowhere + "\n", "OPENAI_BASE_URL=" + u.URL + "/v1", exit.OK, []string{"the endpoint is " + u.URL + "\n"}},
	} {
		p := newProgram(t)
		p.write("gaia.yaml", c.file)
		if c.env != "" {
			p.env = append(p.env, c.env)
		}
		out := p.want(c.code, "judge", "check")
		wantAll(t, out, c.want...)
		if strings.Contains(out, "abcdefgh") {
			t.Errorf("%s: a secret is shown:\n%s", c.name, out)
		}
		if rehearsed := strings.Contains(out, "rehearsal"); rehearsed != (c.name == "built-in tasks") {
			t.Errorf("%s: rehearsed: %v\n%s", c.name, rehearsed, out)
		}
		if kept := p.entries(); (len(kept) > 0) != (c.name == "built-in tasks") {
			t.Errorf("%s: kept: %v", c.name, kept)
		}
	}
	p := newProgram(t)
	p.write("gaia.yaml", "judge-model: another\nno-judge-cache: true\nbase-url: "+nowhere+"\n")
	wantAll(t, p.want(exit.OK, u.check("--no-judge-cache=false")...), "the endpoint is "+u.URL+"\n", "umpire at "+u.URL)
	if kept := p.entries(); len(kept) != 1 {
		t.Errorf("kept: %v", kept)
	}
	wantAll(t, p.want(exit.OK, "judge", "check", "--settings", os.DevNull), "gaia: rehearsal: ")
	p.write("key.yaml", "judge-model: umpire\nkey: none\nbase-url: "+u.URL+"/v1\n")
	wantAll(t, p.want(exit.Usage, "judge", "check", "--settings", "key.yaml"), `there is no signing key at "none"`, "hint: fix that, or give --no-judge-cache")
}

func TestJudgeRemedies(t *testing.T) {
	for _, c := range []struct {
		err  *llm.Error
		want string // the hint; "" for none
	}{
		{nil, ""},
		{&llm.Error{Code: "unreachable"}, "--base-url"},
		{&llm.Error{Code: "transport"}, ""},
		{&llm.Error{Status: 401, Code: "invalid_api_key"}, "OPENAI_API_KEY"},
		{&llm.Error{Status: 403, Code: "http_403"}, "OPENAI_API_KEY"},
		{&llm.Error{Status: 404, Code: "model_not_found"}, "--judge-model"},
		{&llm.Error{Status: 400, Code: "invalid_request"}, ""},
		{&llm.Error{Status: 429, Code: "insufficient_quota"}, ""},
		{&llm.Error{Status: 302, Code: "redirect"}, ""},
	} {
		if got := strings.Join(grading.Remedies(c.err), "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

// TestJudgeCheckTable: a long candidate is cut before it is quoted, so that its
// quote ends.
func TestJudgeCheckTable(t *testing.T) {
	t.Parallel()
	cut := 0
	for line := range strings.Lines(newProgram(t).want(exit.OK, "judge", "check", "--no-judge-cache")) {
		_, candidate, found := strings.Cut(line, "incorrect")
		if candidate = strings.TrimSpace(candidate); !found || !strings.HasPrefix(candidate, `"`) {
			continue
		}
		if !strings.HasSuffix(candidate, `"`) {
			t.Errorf("%s does not end", candidate)
		}
		if strings.HasSuffix(candidate, `…"`) {
			cut++
		}
	}
	if cut < 2 {
		t.Errorf("%d candidates were cut", cut)
	}
}

func TestJudgeCheckCompletion(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	wantAll(t, p.want(exit.OK, "__complete", "judge", "check", ""), ":4\n")
	wantAll(t, p.want(exit.OK, "__complete", "judge", "check", "--judge-model", ""), "gpt-4o-mini\n", ":4\n")
}
