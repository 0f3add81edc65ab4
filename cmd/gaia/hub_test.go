package main

import (
	"bytes"
	"fmt"
	"io/fs"
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

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
)

const (
	hubCommit = "fab1e00000000000000000000000000000000001"
	hubToken  = "hf_inventedInventedInventedInvented"
)

// serveHub starts a hub that has the built-in tasks under GAIA's name, and
// returns it with the environment in which gaia asks it.
func serveHub(t *testing.T) (*hub.Server, []string) {
	t.Helper()
	server, err := hub.Serve(hub.Config{Repo: loader.GAIA, Commits: map[string]fs.FS{hubCommit: fixtures.Dataset()},
		Refs: map[string]string{"main": hubCommit}, Gated: true,
		Tokens: map[string]hub.Access{hubToken: hub.Granted, "hf_terms": hub.TermsNotAccepted}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server, []string{"HF_ENDPOINT=" + server.URL}
}

// serveModel starts the scripted model, to be used as an endpoint of the user's.
func serveModel(t *testing.T) string {
	t.Helper()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.ModelURL
}

// TestHub is the main job on a dataset of the hub: run, audit, submit, verify,
// and nowhere the token that it was read with.
func TestHub(t *testing.T) {
	t.Parallel()
	server, env := serveHub(t)
	p := newProgram(t)
	p.env = env
	run := []string{"run", "--submit-intent", "--base-url", serveModel(t), "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--task", offlineTasks}

	out := p.want(exit.Failure, run...)
	if !strings.Contains(out, "gaia: error: ") || !strings.Contains(out, "is only for those who accepted its terms, and no token was found (neither in HF_TOKEN nor in "+p.dir+"/.cache/huggingface/token)") ||
		!strings.Contains(out, "gaia: hint: accept its terms, logged in, at "+server.URL+"/datasets/gaia-benchmark/GAIA") || !strings.Contains(out, "gaia: hint: make a token at ") {
		t.Errorf("without a token run says:\n%s", out)
	}
	if out := p.want(exit.Failure, append(run, "--revision", "v9")...); !strings.Contains(out, "accepted its terms") {
		t.Errorf("without a token run says:\n%s", out)
	}
	if found, err := os.ReadDir(filepath.Join(p.dir, "runs")); err == nil {
		t.Errorf("refused runs left %v", found)
	}

	token := filepath.Join(p.dir, ".cache", "huggingface", "token")
	if err := os.MkdirAll(filepath.Dir(token), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte(hubToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := p.want(exit.OK, run...)
	if !strings.Contains(said, "gaia: hub: fetched 2023/validation/metadata.parquet, ") ||
		!strings.Contains(said, "gaia: warning: split validation has 40 tasks (14/17/9 by level), where GAIA has 165 (53/86/26)") || strings.Contains(said, "rehearsal") {
		t.Errorf("run says:\n%s", said)
	}
	m, _, _, err := rundir.ReadPlan(os.DirFS(p.runDir()))
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Dataset; d.Hub != server.URL || d.Name != loader.GAIA || d.Revision != hubCommit || d.Levels != [3]int{14, 17, 9} || d.SplitSize != 40 {
		t.Errorf("the plan has %+v", d)
	}
	said += p.want(exit.OK, "audit", p.runDir()) + p.want(exit.OK, "submit", p.runDir())
	packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	said += p.want(exit.OK, "verify", packages[0])
	if server.Leaks() > 0 || strings.Contains(said, hubToken) {
		t.Errorf("the token was shown or taken elsewhere (%d):\n%s", server.Leaks(), said)
	}
	holdsNot(t, p.dir, hubToken, token)
}

// holdsNot looks for a secret in every file below a directory but one.
func holdsNot(t *testing.T, dir, secret, but string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == but {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// gatedModel is the scripted model, which refuses every request with the message until it is opened.
func gatedModel(t *testing.T, message string) (baseURL string, open *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(strings.TrimSuffix(serveModel(t), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	open = new(atomic.Bool)
	model := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open.Load() {
			model.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","code":"invalid_api_key"}}`, message)
	}))
	t.Cleanup(front.Close)
	return front.URL + "/v1", open
}

// TestHubResume: a run of a dataset of the hub goes on at the commit of its
// plan, wherever the branch is by then, and without the hub if all is there.
func TestHubResume(t *testing.T) {
	t.Parallel()
	server, env := serveHub(t)
	model, open := gatedModel(t, "the key is not valid")
	p := newProgram(t)
	p.env = append(env, "HF_TOKEN="+hubToken)

	// The plan has the digests of the attachments: without one of them there is no run.
	server.Fail(hub.Match{Method: "HEAD", Path: ".xlsx"}, -1, hub.Answer(404, "text/plain", "", "X-Error-Code", "EntryNotFound"))
	command := []string{"run", "--no-preflight", "--model", fixtures.Model, "--base-url", model, "--task", "fab1e008-0000-4000-8000-000000000008"}
	out := p.want(exit.Failure, command...)
	if !strings.Contains(out, "gaia: error: the attachment of task ") {
		t.Errorf("run says:\n%s", out)
	}
	server.Heal()
	out = p.want(exit.Incomplete, command...)
	if !strings.Contains(out, "fetched 2023/validation/fab1e008-0000-4000-8000-000000000008.xlsx") || !strings.Contains(out, ", then: gaia resume runs/") || strings.Contains(out, "--dataset") {
		t.Errorf("run says:\n%s", out)
	}
	server.SetRef("main", strings.Repeat("0", 40))
	if out = p.want(exit.Incomplete, "resume", p.runDir(), "--base-url", model); !strings.Contains(out, "the key is not valid") {
		t.Errorf("resume says:\n%s", out)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	open.Store(true)
	p.env = append(p.env, "HF_HUB_OFFLINE=1")
	p.want(exit.OK, "resume", p.runDir(), "--base-url", model)
	p.want(exit.OK, "verify", p.runDir())
}

// TestHubResumeOneSplit: a run whose split was planned without the other, offline, goes on with it, and the other way
// round.
func TestHubResumeOneSplit(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	server, env := serveHub(t)
	model, open := gatedModel(t, "the key is not valid")
	for name, offlineFirst := range map[string]bool{"planned offline": true, "resumed offline": false} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.env = append(env, "HF_TOKEN="+hubToken)
			p.want(exit.OK, "tasks", "download", "--dataset", "hub")
			other := filepath.Join(p.dir, ".cache/huggingface/hub/datasets--gaia-benchmark--GAIA/snapshots", hubCommit, "2023/test")
			if err := os.RemoveAll(other); err != nil {
				t.Fatal(err)
			}
			online, offline := p, p
			offline.env = append([]string{"HF_HUB_OFFLINE=1"}, p.env...)
			before, after := online, offline
			if offlineFirst {
				before, after = offline, online
			}
			open.Store(false)
			before.want(exit.Incomplete, "run", "--model", fixtures.Model, "--base-url", model, "--task", offlineTasks)
			if _, err := os.Stat(other); (err != nil) != offlineFirst {
				t.Fatalf("split test is there: %v", err)
			}
			if err := os.RemoveAll(other); err != nil {
				t.Fatal(err)
			}
			open.Store(true)
			after.want(exit.OK, "resume", p.runDir(), "--base-url", model)
			p.want(exit.OK, "verify", p.runDir())
		})
	}
	if server.Leaks() > 0 {
		t.Error("the token was taken elsewhere")
	}
}

// TestHubResumeElsewhere: a run goes on with the hub of its plan only, which is named.
func TestHubResumeElsewhere(t *testing.T) {
	t.Parallel()
	server, env := serveHub(t)
	model, _ := gatedModel(t, "the key is not valid")
	p := newProgram(t)
	p.env = append(env, "HF_TOKEN="+hubToken)
	p.want(exit.Incomplete, "run", "--model", fixtures.Model, "--base-url", model, "--task", offlineTasks)
	before := len(server.Requests())
	if out := p.want(exit.Usage, "resume", p.runDir(), "--base-url", model, "--dataset", "hub:other/x"); !strings.Contains(out, "the run is of gaia-benchmark/GAIA on the hub, not of hub:other/x") ||
		!strings.Contains(out, "gaia: hint: leave --dataset out") {
		t.Errorf("resume of another dataset says:\n%s", out)
	}
	for endpoint, asks := range map[string]string{"": "https://huggingface.co", noHub: noHub} {
		p.env = []string{"HF_TOKEN=" + hubToken, "HF_ENDPOINT=" + endpoint}
		out := p.want(exit.Usage, "resume", p.runDir(), "--base-url", model)
		if !strings.Contains(out, "the run is of a dataset of the hub "+server.URL+", not of "+asks) || !strings.Contains(out, "gaia: hint: set HF_ENDPOINT to it") {
			t.Errorf("resume at another hub says:\n%s", out)
		}
	}
	p.env = []string{"HF_ENDPOINT=https://me:invented-password@hub.example"}
	if out := p.want(exit.Usage, "resume", p.runDir(), "--base-url", model); !strings.Contains(out, "the endpoint of the hub holds credentials") || strings.Contains(out, "password") {
		t.Errorf("resume with a password says:\n%s", out)
	}
	if n := len(server.Requests()); n != before {
		t.Errorf("%d requests for what was refused", n-before)
	}
}

// TestHubTokenIsRedacted: the token of a file is known as a secret, even where its shape tells nothing.
func TestHubTokenIsRedacted(t *testing.T) {
	t.Parallel()
	const secret = "invented lighthouse 4711"
	token := strings.ReplaceAll(secret, " ", "-")
	server, err := hub.Serve(hub.Config{Repo: loader.GAIA, Commits: map[string]fs.FS{hubCommit: fixtures.Dataset()},
		Refs: map[string]string{"main": hubCommit}, Gated: true, Tokens: map[string]hub.Access{token: hub.Granted}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	model, _ := gatedModel(t, "no worker for "+token+", sorry")
	p := newProgram(t)
	file := filepath.Join(p.dir, "token")
	p.env = []string{"HF_ENDPOINT=" + server.URL, "HF_TOKEN_PATH=" + file}
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.Incomplete, "run", "--model", fixtures.Model, "--base-url", model, "--task", offlineTasks)
	if strings.Contains(out, token) || !strings.Contains(out, "no worker for [redacted], sorry") {
		t.Errorf("run says:\n%s", out)
	}
	holdsNot(t, p.dir, token, file)
}

// TestHubSignal: before there are tasks, the first interrupt ends a run, and leaves none.
func TestHubSignal(t *testing.T) {
	server, env := serveHub(t)
	server.Fail(hub.Match{}, -1, hub.Hang())
	p := newProgram(t)
	p.env = append(env, "HF_TOKEN="+hubToken)
	cmd := p.command("run", "--model", fixtures.Model, "--base-url", serveModel(t), "--dataset", "hub")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for len(server.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	defer time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }).Stop() // where the signal is not heard
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exit.Interrupted || !strings.Contains(out.String(), "gaia: error: interrupted") || strings.Contains(out.String(), "saved") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if found, err := os.ReadDir(filepath.Join(p.dir, "runs")); err == nil {
		t.Errorf("left %v", found)
	}
}
