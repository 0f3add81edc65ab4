package main

import (
	"bytes"
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

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/fixtures/hub"
	"github.com/gaia-harness/gaia/internal/ledger"
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
	server, env := serveHub(t)
	p := newProgram(t)
	p.env = env
	run := []string{"run", "--submit-intent", "--base-url", serveModel(t), "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--task", offlineTasks}

	out := p.want(exitFailure, run...)
	if !strings.Contains(out, "gaia: error: ") || !strings.Contains(out, "is only for those who accepted its terms, and no token was found (neither in HF_TOKEN nor in "+p.dir+"/.cache/huggingface/token)") ||
		!strings.Contains(out, "gaia: hint: accept its terms, logged in, at "+server.URL+"/datasets/gaia-benchmark/GAIA") || !strings.Contains(out, "gaia: hint: make a token at ") {
		t.Errorf("without a token run says:\n%s", out)
	}
	if out := p.want(exitFailure, append(run, "--revision", "v9")...); !strings.Contains(out, "accepted its terms") {
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
	said := p.want(exitOK, run...)
	if !strings.Contains(said, "gaia: hub: fetched 2023/validation/metadata.parquet, ") ||
		!strings.Contains(said, "gaia: warning: split validation has 26 tasks (10/10/6 by level), where GAIA has 165 (53/86/26)") || strings.Contains(said, "rehearsal") {
		t.Errorf("run says:\n%s", said)
	}
	m, _, _, err := ledger.ReadPlan(os.DirFS(p.runDir()))
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Dataset; d.Hub != server.URL || d.Name != loader.GAIA || d.Revision != hubCommit || d.Levels != [3]int{10, 10, 6} || d.SplitSize != 26 {
		t.Errorf("the plan has %+v", d)
	}
	said += p.want(exitOK, "audit", p.runDir()) + p.want(exitOK, "submit", p.runDir())
	packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	said += p.want(exitOK, "verify", packages[0])
	if server.Leaks() > 0 || strings.Contains(said, hubToken) {
		t.Errorf("the token was shown or taken elsewhere (%d):\n%s", server.Leaks(), said)
	}
	err = filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == token {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(hubToken)) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHubResume: a run of a dataset of the hub goes on at the commit of its
// plan, wherever the branch is by then, and without the hub if all is there.
func TestHubResume(t *testing.T) {
	server, env := serveHub(t)
	target, err := url.Parse(strings.TrimSuffix(serveModel(t), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Bool
	model := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open.Load() {
			model.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"the key is not valid","type":"invalid_request_error","code":"invalid_api_key"}}`))
	}))
	defer front.Close()
	p := newProgram(t)
	p.env = append(env, "HF_TOKEN="+hubToken)

	// What a task needs is fetched when it begins: a file that cannot be had stops the run.
	server.Fail(hub.Match{Method: "HEAD", Path: ".xlsx"}, -1, hub.Answer(404, "text/plain", "", "X-Error-Code", "EntryNotFound"))
	out := p.want(exitIncomplete, "run", "--model", fixtures.Model, "--base-url", front.URL+"/v1", "--task", "fab1e008-0000-4000-8000-000000000008")
	if !strings.Contains(out, "gaia: error: the run stopped: the attachment of task ") || !strings.Contains(out, "gaia: hint: mend that, then: gaia resume runs/") || strings.Contains(out, "--source") {
		t.Errorf("run says:\n%s", out)
	}
	server.Heal()
	server.SetRef("main", strings.Repeat("0", 40))
	out = p.want(exitIncomplete, "resume", p.runDir(), "--base-url", front.URL+"/v1")
	if !strings.Contains(out, "the key is not valid") || !strings.Contains(out, "fetched 2023/validation/fab1e008-0000-4000-8000-000000000008.xlsx") {
		t.Errorf("resume says:\n%s", out)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	open.Store(true)
	p.env = append(p.env, "HF_HUB_OFFLINE=1")
	p.want(exitOK, "resume", p.runDir(), "--base-url", front.URL+"/v1")
	p.want(exitOK, "verify", p.runDir())
}
