package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/prompt"
)

// TestFreeReattempts: kill -9 after a reply that calls no tool gives as many
// attempts as the plan makes again, and no more: the task then ends as an error.
func TestFreeReattempts(t *testing.T) {
	t.Parallel()
	reminded := make(chan struct{}, 16)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if start, _, _ := strings.Cut(prompt.Reminder(), "."); bytes.Contains(body, []byte(start)) {
			reminded <- struct{}{}
			<-r.Context().Done() // the process is killed
			return
		}
		_, _ = io.WriteString(w, `{"id":"c","model":"`+fixtures.Model+`","choices":[{"message":{"role":"assistant","content":"It may be 12."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)
	}))
	t.Cleanup(endpoint.Close)
	p := newProgram(t)
	p.env = append(p.env, "OPENAI_API_KEY=key")
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--dataset", "dir:data", "--base-url", endpoint.URL + "/v1"}
	args := append([]string{"run", "--model", fixtures.Model, "--limit", "1", "--no-preflight", "--submit-intent"}, flags...)
	const attempts = 4 // one, and the three that the plan makes again
	for n := range attempts {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := p.command(args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-reminded:
		case <-ctx.Done():
			t.Fatalf("attempt %d: the model was not asked", n+1)
		}
		cancel()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		args = append([]string{"resume", p.runDir()}, flags...)
	}
	p.want(exit.Findings, args...)
	results, err := os.ReadFile(filepath.Join(p.runDir(), "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(reminded) > 0 || !bytes.Contains(results, []byte(`"attempts":4,`)) || !bytes.Contains(results, []byte(`"outcome":"error"`)) {
		t.Errorf("%d more attempts; %s", len(reminded), results)
	}
}
