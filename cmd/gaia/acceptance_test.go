package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// TestAcceptance is the acceptance run: a hundred generated tasks under one fixed
// policy, of which sixty or more are solved, without an unsafe action, with a
// witness bundle each that holds all its evidence.
func TestAcceptance(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	tasks := endpoint.Tasks{Count: 100}
	server, err := endpoint.Serve(endpoint.Config{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	if err := tasks.Write(filepath.Join(p.dir, "data")); err != nil {
		t.Fatal(err)
	}
	put := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	put("prices.json", endpoint.Prices())
	put("hmac.key", secret)
	put("other.key", bytes.Repeat([]byte{7}, 32))

	p.want(exit.OK, "run", "--dataset", "dir:data", "--base-url", server.URL, "--model", endpoint.Model, "--prices", "prices.json", "--submit-intent")
	run := p.newest()
	p.want(exit.OK, "witness", "export", run, "--hmac-key-file", "hmac.key", "--out", "bundles")
	files, err := filepath.Glob(filepath.Join(p.dir, "bundles", "*.rvw"))
	if err != nil || len(files) != tasks.Count {
		t.Fatalf("%d bundles of %d tasks, %v", len(files), tasks.Count, err)
	}
	plan := p.Plan(run)
	solved := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := witness.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(file), err)
		}
		if got := w.PolicyHash; plan.PolicyHash != hex.EncodeToString(got[:]) {
			t.Errorf("%s: policy %x, the plan's is %s", filepath.Base(file), got, plan.PolicyHash)
		}
		if !w.EvidenceComplete() || w.Denied() != 0 {
			t.Errorf("%s: complete %t, %d denied", filepath.Base(file), w.EvidenceComplete(), w.Denied())
		}
		if w.Outcome == witness.Solved {
			solved++
		}
	}
	p.want(exit.OK, append([]string{"witness", "verify", "--hmac-key-file", "hmac.key"}, files...)...)
	p.want(exit.Evidence, append([]string{"witness", "verify", "--hmac-key-file", "other.key"}, files...)...)

	var card struct {
		Total      int     `json:"total_tasks"`
		Solved     int     `json:"solved"`
		Violations int     `json:"policy_violations"`
		Rollbacks  *int    `json:"rollback_count"`
		Coverage   float64 `json:"evidence_coverage"`
		Rate       float32 `json:"solve_rate"`
		Cost       int64   `json:"total_cost_microdollars"`
	}
	read := func(code int, args ...string) {
		t.Helper()
		cmd := p.command(append([]string{"scorecard", "--accept", "--json"}, args...)...)
		out, err := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("scorecard: exit code %d, want %d: %v", got, code, err)
		}
		if err := json.Unmarshal(out, &card); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	read(exit.OK, run)
	found, err := rundir.Verify(os.DirFS(run), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ofTasks := server.Counts().CostMicroUSD - *found.Summary().Preflight.CostMicroUSD // which belongs to no task
	if card.Total != 100 || card.Solved != solved || solved < 60 || card.Violations != 0 || card.Rollbacks == nil || *card.Rollbacks != 0 ||
		card.Coverage != 1 || card.Rate != float32(solved)/100 || card.Cost != ofTasks {
		t.Errorf("the card is %+v; %d bundles are solved, the endpoint charged %d for tasks", card, solved, ofTasks)
	}
	of := card
	read(exit.OK, files...)
	if card.Rollbacks == nil || *card.Rollbacks != *of.Rollbacks || card.Solved != solved || card.Violations != of.Violations {
		t.Errorf("the card of the bundles is %+v, the run's %+v", card, of)
	}
	p.want(exit.Findings, "scorecard", run, "--accept", "--min-solve-rate", "0.95")
}
