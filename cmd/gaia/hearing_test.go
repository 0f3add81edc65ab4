package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestTranscriptionModel: with --transcription-model recordings are written down at
// the endpoint of the run, and a cassette of it answers again without one.
func TestTranscriptionModel(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	tasks := endpoint.Tasks{Count: 4, Attached: endpoint.Recording}
	server, err := endpoint.Serve(endpoint.Config{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	if err := tasks.Write(filepath.Join(p.dir, "data")); err != nil {
		t.Fatal(err)
	}
	prices := filepath.Join(p.dir, "prices.json")
	if err := os.WriteFile(prices, endpoint.Prices(), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--no-preflight", "--dataset", "dir:data", "--model", endpoint.Model, "--transcription-model", endpoint.Hearing, "--prices", prices, "--max-cost", "1"}
	out := p.want(exit.OK, append(args, "--base-url", server.URL, "--cassette", "record:tape")...)
	if !strings.Contains(out, "3 solved, 1 failed") {
		t.Errorf("run says:\n%s", out)
	}
	dir := p.newest()
	p.want(exit.OK, "verify", dir)
	p.want(exit.OK, "audit", dir)
	if m := p.Plan(dir); m.Transcription == nil || m.Transcription.Model != endpoint.Hearing {
		t.Errorf("the plan has %+v", m.Transcription)
	}
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	asked := server.Counts()
	if cost := found.Summary().CostMicroUSD; asked.Heard != tasks.Count || cost == nil || *cost != asked.CostMicroUSD {
		t.Errorf("cost %v; the endpoint counted %+v", cost, asked)
	}
	out = p.want(exit.OK, append(args, "--base-url", "https://api.example/v1", "--cassette", "replay:tape")...)
	if now := server.Counts(); now.Heard != asked.Heard || now.Requests != asked.Requests || !strings.Contains(out, "3 solved, 1 failed") {
		t.Errorf("%+v became %+v; run says:\n%s", asked, now, out)
	}
}
