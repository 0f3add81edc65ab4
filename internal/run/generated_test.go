package run

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/trajectory"
)

// serve starts an endpoint for generated tasks and ends it with the test.
func serve(t testing.TB, c endpoint.Config) *endpoint.Server {
	t.Helper()
	server, err := endpoint.Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// generated is a run of all generated tasks against an endpoint, 16 at once,
// with the real clock. The client waits a thousandth of what it should.
func generated(t testing.TB, tasks endpoint.Tasks, url string, change func(*llm.Config)) setup {
	t.Helper()
	dir := t.TempDir()
	if err := tasks.Write(dir); err != nil {
		t.Fatal(err)
	}
	set, gold, err := loader.Load(context.Background(), loader.Dir(os.DirFS(dir), "generated", "generated-1"), loader.Validation, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.HashAttachments(context.Background()); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		t.Fatal(err)
	}
	prices, err := llm.ParsePrices(endpoint.Prices())
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	client := llm.Config{BaseURL: url, Prices: prices, MaxTries: 6, Now: time.Now, Sleep: shortened}
	if change != nil {
		change(&client)
	}
	began := time.Now()
	m := plan.New()
	m.Dataset.Selection, m.Policy, m.SubmitIntent, m.Rehearsal = loader.Filter{}.Rule(), p, true, true
	m.Model = plan.ModelPlan{Name: endpoint.Model, Origin: "builtin:endpoint"}
	m.Budgets.Turns, m.Retry.CallTries = 20, client.MaxTries
	return setup{m, Env{
		Set: set, Gold: gold, Model: llm.New(client), Limiter: client.Limiter, Prices: prices, Concurrency: 16,
		Tools: []tools.Tool{document.NewReadFile(document.Reader{}), tools.NewListFiles(), tools.NewCalculate()},
		Key:   key, Harness: trajectory.Harness{Commit: strings.Repeat("0123456789", 4), Version: "test", ExecutableSHA256: canonical.Digest(nil)},
		Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader,
	}}
}

// shortened waits a thousandth of the time.
func shortened(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d / 1000)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
