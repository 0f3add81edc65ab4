package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
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

// newest returns the newest run directory.
func (p program) newest() string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.dir, "runs", "0*"))
	if err != nil || len(found) == 0 {
		p.t.Fatalf("run directories: %v, %v", found, err)
	}
	return slices.Max(found)
}

func (p program) Plan(dir string) plan.Plan {
	p.t.Helper()
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// TestLike: a plan is repeated from a run directory, a package or the manifest
// alone, and what differs is said.
func TestLike(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	model := serveModel(t)
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", model, "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel,
		"--task", offlineTasks, "--max-turns", "9", "--max-task-tokens", "100000", "--max-tokens", "512", "--max-task-cost", "off", "--max-task-time", "5m",
		"--evidence-full-bodies", "--no-judge-cache", "--images", "on", "--context-window", "50000", "--served-as", "harbour,berth")
	first := p.newest()
	old := p.Plan(first)
	if got := old.Model.ServedAs; !slices.Equal(got, []string{"berth", "harbour"}) {
		t.Errorf("the plan has its model served as %q", got)
	}
	p.want(exit.OK, "submit", first)
	packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	alone := filepath.Join(p.dir, "plan.json")
	manifest, err := os.ReadFile(filepath.Join(first, plan.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alone, manifest, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{first, packages[0], alone} {
		out := p.want(exit.OK, "run", "--like", from, "--dataset", "dir:data", "--base-url", model)
		if !strings.Contains(out, "gaia: differs from the plan of "+old.RunID+" in: nothing\n") {
			t.Errorf("like %s run says:\n%s", from, out)
		}
	}

	out := p.want(exit.OK, "run", "--like", first, "--dataset", "dir:data", "--base-url", model, "--submit-intent=false", "--max-turns", "8", "--limit", "1")
	if now := p.Plan(p.newest()); now.SubmitIntent || now.Budgets.Turns != 8 || now.Budgets.Tokens != 100000 || len(now.Tasks) != 1 || now.Dataset.Selection != "limit=1" {
		t.Errorf("the plan has %+v", now)
	}
	for _, want := range []string{`submit_intent was true, is false`, `budgets was {"cost_microusd":0,`, "tasks differs"} {
		if !strings.Contains(out, want) {
			t.Errorf("run does not say %q:\n%s", want, out)
		}
	}

	for _, other := range [][]string{{"--served-as", "quay"}, {"--model", "sample-model"}} {
		out := p.want(exit.OK, append([]string{"run", "--like", first, "--dataset", "dir:data", "--base-url", model, "--dry-run"}, other...)...)
		if !strings.Contains(out, `"served_as":["berth","harbour"]`) || strings.Contains(out, "served as berth") {
			t.Errorf("like another run, but for %q, run says:\n%s", other, out)
		}
	}

	// The key goes nowhere that no one named.
	runs := p.newest()
	out = p.want(exit.Usage, "run", "--like", first, "--dataset", "dir:data")
	if !strings.Contains(out, "gaia: error: the plan's model is at http://127.0.0.1:") || !strings.Contains(out, "and the endpoint here is at https://api.openai.com\ngaia: hint: give --base-url\n") {
		t.Errorf("run says:\n%s", out)
	}
	p.env = append(p.env, "OPENAI_BASE_URL="+model)
	if out := p.want(exit.Usage, "run", "--like", first); !strings.Contains(out, "gaia: error: the source of the tasks is not recorded in the run\ngaia: hint: give --dataset dir:PATH") {
		t.Errorf("run says:\n%s", out)
	}
	if p.newest() != runs {
		t.Error("a refused run left a directory")
	}
	p.want(exit.OK, "run", "--like", first, "--dataset", "dir:data")

	// What the plan says is stronger than the settings file; what it leaves open is not.
	if err := os.WriteFile(filepath.Join(p.dir, "gaia.yaml"), []byte("max-turns: 3\nlimit: 1\nvoting-attempts: 2\nconcurrency: 1\nsource: dir:data\nbase-url: "+model+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := p.want(exit.OK, "run", "--like", first, "--dataset", "dir:data", "--dry-run"); !strings.Contains(out, "in: nothing\n") || !strings.Contains(out, "concurrency  1\n") {
		t.Errorf("run says:\n%s", out)
	}
	p.env = p.env[:len(p.env)-1] // without OPENAI_BASE_URL
	if out := p.want(exit.OK, "run", "--like", first, "--dry-run"); !strings.Contains(out, "in: nothing\n") {
		t.Errorf("run says:\n%s", out)
	}
}

// TestLikeHub: the dataset is the hub's at the plan's commit.
func TestLikeHub(t *testing.T) {
	t.Parallel()
	server, env := serveHub(t)
	p := newProgram(t)
	p.env = append(env, "HF_TOKEN="+hubToken)
	model := serveModel(t)
	p.want(exit.OK, "run", "--base-url", model, "--model", fixtures.Model, "--task", offlineTasks)
	first := p.runDir()
	if out := p.want(exit.OK, "run", "--like", first, "--base-url", model); !strings.Contains(out, "in: nothing\n") {
		t.Errorf("run says:\n%s", out)
	}
	if d := p.Plan(p.newest()).Dataset; d.Revision != hubCommit || d.Hub != server.URL {
		t.Errorf("the plan has %+v", d)
	}
	p.env = []string{"HF_ENDPOINT=" + noHub}
	if out := p.want(exit.Usage, "run", "--like", first, "--base-url", model); !strings.Contains(out, "the run is of a dataset of the hub "+server.URL) {
		t.Errorf("run says:\n%s", out)
	}
}

// TestLikeRefused: what is no plan is refused by the code that fits.
func TestLikeRefused(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--limit", "1")
	dir := p.runDir()
	if out := p.want(exit.OK, "run", "--like", dir, "--dry-run"); !strings.Contains(out, "rehearsal") || !strings.Contains(out, "in: nothing\n") {
		t.Errorf("run says:\n%s", out)
	}
	for _, args := range [][]string{{"--archive"}, {"--archive", "--public"}} {
		p.want(exit.OK, append([]string{"submit", "--allow-dirty", "--date", "2031-02-03", dir}, args...)...)
	}
	archives, err := filepath.Glob(filepath.Join(p.dir, "submission-*.tar.gz"))
	if err != nil || len(archives) != 2 {
		t.Fatal(archives, err)
	}
	for _, archive := range archives {
		if out := p.want(exit.OK, "run", "--like", archive, "--dry-run"); !strings.Contains(out, "in: nothing\n") {
			t.Errorf("run --like %s says:\n%s", archive, out)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, plan.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, data string) string {
		path := filepath.Join(p.dir, name)
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		path string
		code int
		want string
	}{
		{"none", exit.Usage, `reading the plan "none": no such file or directory`},
		{p.dir, exit.Usage, "holds no manifest.json"},
		{write("cut.json", string(manifest[:len(manifest)-1])), exit.Evidence, "manifest.json: "},
		{write("more.json", string(manifest)+"\n"), exit.Evidence, "manifest.json: "},
		{write("votes.json", strings.Replace(string(manifest), `"voting":{"attempts":1`, `"voting":{"attempts":1000`, 1)), exit.Evidence, "manifest.json: votes with 1000 attempts"},
		{write("turns.json", strings.Replace(string(manifest), `"turns":20`, `"turns":-1`, 1)), exit.Evidence, "manifest.json: has a limit below 0"},
		{write("empty.json", ""), exit.Evidence, "manifest.json: "},
		{write("cut.tar.gz", "\x1f\x8bharbour"), exit.Evidence, "cut.tar.gz: ends in the middle"},
	} {
		if out := p.want(tc.code, "run", "--like", tc.path); !strings.Contains(out, tc.want) {
			t.Errorf("run --like %s says:\n%s", tc.path, out)
		}
	}
	p.want(exit.Usage, "run", "--like=")
	if p.runDir() != dir {
		t.Error("a refused run left a directory")
	}
}

// TestStopSequence: the sequences are planned, sent with each request of the model that
// answers, and repeated with the plan.
func TestStopSequence(t *testing.T) {
	t.Parallel()
	base, err := url.Parse(serveModel(t))
	if err != nil {
		t.Fatal(err)
	}
	var asked, stopped atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: base.Scheme, Host: base.Host})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked.Add(1)
		var request struct {
			Stop []string `json:"stop"`
		}
		if json.Unmarshal(body, &request) == nil && slices.Equal(request.Stop, []string{"END", ", then"}) {
			stopped.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	at := []string{"--dataset", "dir:data", "--base-url", front.URL + base.Path}
	p.want(exit.OK, append([]string{"run", "--model", fixtures.Model, "--max-task-cost", "off", "--no-preflight", "--task", "fab1e001-0000-4000-8000-000000000001",
		"--stop-sequence", "END", "--stop-sequence", ", then"}, at...)...)
	dir := p.newest()
	if got := p.Plan(dir).Model.Stop; !slices.Equal(got, []string{"END", ", then"}) || asked.Load() == 0 || asked.Load() != stopped.Load() {
		t.Errorf("planned %q, sent with %d of %d requests", got, stopped.Load(), asked.Load())
	}
	like := append([]string{"run", "--like", dir, "--dry-run"}, at...)
	if out := p.want(exit.OK, like...); !strings.Contains(out, "in: nothing\n") {
		t.Errorf("run --like says:\n%s", out)
	}
	if out := p.want(exit.OK, append(like, "--stop-sequence", "DONE")...); !strings.Contains(out, `"stop":["DONE"]`) {
		t.Errorf("run --like with another sequence says:\n%s", out)
	}
	p.want(exit.Usage, append(like, "--api", "responses")...)
}
