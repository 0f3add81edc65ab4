package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/tools/sandbox"
)

// TestMessagesAlone: an own agent that speaks the messages dialect needs no other key. Its key is added outside of the sandbox,
// and is in no file of the run.
func TestMessagesAlone(t *testing.T) {
	if _, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: equip.OnPath("bwrap")}); err != nil || equip.OnPath("python3") == "" {
		t.Skip("there is no sandbox or no python here:", err)
	}
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	to, err := url.Parse(strings.TrimSuffix(server.ModelURL, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	const key = "sk-ant-invented-0123456789"
	var mu sync.Mutex
	keys := map[string]int{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.URL.Path+" "+r.Header.Get("X-Api-Key")]++
		mu.Unlock()
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}).ServeHTTP(w, r)
	}))
	defer front.Close()

	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	const agent = `#!/usr/bin/env python3
import json, os, sys, urllib.request
body = json.dumps({"model": os.environ["GAIA_MODEL"], "max_tokens": 500, "messages": [{"role": "user", "content": sys.stdin.read()}]}).encode()
headers = {"Content-Type": "application/json", "X-Api-Key": os.environ["ANTHROPIC_API_KEY"], "Anthropic-Version": "2023-06-01"}
with urllib.request.urlopen(urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, headers)) as reply:
    print(json.load(reply)["content"][0]["text"])
`
	if err := os.WriteFile(filepath.Join(p.dir, "mine", "agent"), []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+os.Getenv("PATH"), "ANTHROPIC_API_KEY="+key, "ANTHROPIC_BASE_URL="+front.URL)
	run := []string{"run", "--agent", "mine", "--model", fixtures.Model, "--max-task-cost", "off", "--dataset", "dir:data", "--search", "none", "--limit", "2"}
	if out := p.want(exit.Usage, append(run, "--judge-model", "m")...); !strings.Contains(out, "there is no key for api.openai.com") {
		t.Errorf("a judge without a key: %s", out)
	}
	p.want(exit.OK, run...)
	p.want(exit.OK, "verify", p.runDir())
	manifest, err := os.ReadFile(filepath.Join(p.runDir(), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"messages_origin":"` + front.URL + `"`, `"no_preflight":true`, `"origin":"https://api.openai.com"`} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("the plan has no %s", want)
		}
	}
	if len(keys) != 1 || keys["/v1/messages "+key] != 2 {
		t.Errorf("the endpoint was asked %v", keys)
	}
	err = filepath.WalkDir(p.runDir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), key) {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAgentWorkers: workers run an own agent as one process runs it, each from another folder.
func TestAgentWorkers(t *testing.T) {
	if _, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: equip.OnPath("bwrap")}); err != nil || equip.OnPath("python3") == "" {
		t.Skip("there is no sandbox or no python here:", err)
	}
	t.Parallel()
	p := newProgram(t)
	p.env = append(p.env, "PATH="+os.Getenv("PATH"))
	if err := os.Mkdir(filepath.Join(p.dir, "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	const agent = `#!/usr/bin/env python3
import json, os, sys, urllib.request
body = json.dumps({"model": os.environ["GAIA_MODEL"], "messages": [{"role": "user", "content": sys.stdin.read()}]}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
with urllib.request.urlopen(urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)) as reply:
    print(json.load(reply)["choices"][0]["message"]["content"])
`
	if err := os.WriteFile(filepath.Join(p.dir, "mine", "agent"), []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	p.want(exit.OK, "run", "--agent", "mine", "--submit-intent", "--limit", "4", "--out", "whole")
	p.want(exit.OK, "plan", "--agent", "mine", "--submit-intent", "--limit", "4", "-o", "plan")
	serve := p.command("serve", "--plan", "plan", "--listen", "127.0.0.1:0")
	pipe, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill() }()
	var said strings.Builder
	var working sync.WaitGroup
	for in := bufio.NewScanner(pipe); in.Scan(); {
		said.WriteString(in.Text() + "\n")
		url := regexp.MustCompile(`--join (nats://\S+)`).FindStringSubmatch(in.Text())
		if url == nil {
			continue
		}
		for range 2 {
			worker := p.command("worker", "--join", url[1], "--concurrency", "1", "--out", "work")
			worker.Dir = t.TempDir()
			working.Go(func() {
				if out, err := worker.CombinedOutput(); err != nil {
					t.Errorf("worker: %v\n%s", err, out)
					_ = serve.Process.Kill()
				}
			})
		}
	}
	working.Wait()
	if err := serve.Wait(); err != nil {
		t.Fatalf("serve: %v\n%s", err, said.String())
	}
	run := p.runDir()
	if got, want := p.results(run), p.results(p.merged("whole")); got != want {
		t.Errorf("the results of workers are\n%s\nand those of one process\n%s", got, want)
	}
	p.want(exit.OK, "verify", run)
	p.want(exit.OK, "audit", run)
}
