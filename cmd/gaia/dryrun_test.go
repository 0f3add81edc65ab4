package main

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/go-json-experiment/json"
)

// tree lists all files and directories below dir.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDryRun: all is planned, nothing is asked, nothing is written, and no key
// is needed.
func TestDryRun(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	var asked atomic.Int32
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer endpoint.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	before := tree(t, p.dir)
	args := []string{"run", "--dry-run", "--submit-intent", "--dataset", "dir:data", "--model", "gpt-4o", "--judge-model", "gpt-4o-mini",
		"--level", "1", "--voting-attempts", "3", "--max-cost", "10.5", "--max-task-cost", "0.5", "--cassette", "record:tape", "--served-as", "harbour,berth"}
	local := append(args, "--base-url", endpoint.URL+"/v1")
	said := p.want(exit.OK, local...)
	for _, line := range []string{
		"dry run      no model was asked, and nothing was written\n",
		"tasks        14 (14/0/0 by level), 3 attempts each\n",
		"model        gpt-4o at " + endpoint.URL, "completions up to 8192 tokens\n",
		", served as berth or harbour, with pictures",
		"budgets      20 turns, 500 tool calls, $0.500000 an attempt; $10.500000 the run\n",
		// 42 × (68,400 × $2.50 + 2,400 × $10 a million) and 42 + 26 × (700 × $0.15 + 60 × $0.60 a million)
		"model: $8.190000 for 42 attempts of 68400 tokens in (0 cached), 2400 out (assumed, not measured)\n",
		"judge: at most $0.009588, if it judges every answer and runs its self-test: 700 tokens in (0 cached), 60 out (assumed, not measured)\n",
		"estimate     $8.199588 in all\n",
		"at most $21.000000 by the budget of each attempt", "at most $10.500000 by the budget of the run (--max-cost)\n",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("run lacks %q:\n%s", line, said)
			break
		}
	}
	var plan runflags.DryPlan
	out, err := p.command(append(local, "--json")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &plan); err != nil || !plan.DryRun || len(plan.Tasks) != 14 || plan.Estimate.CostMicroUSD == nil || *plan.Estimate.CostMicroUSD != 8199588 ||
		plan.Voting.Rule != planpkg.VoteMajority || plan.Cassette != planpkg.CassetteRecord || !plan.Estimate.Tokens.Assumed {
		t.Errorf("%v, %+v", err, plan)
	}
	if out := p.want(exit.OK, args...); strings.Contains(out, "is above --max-cost") { // at OpenAI's, without a key
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, append(local, "--max-cost", "8.19")...); !strings.Contains(out,
		"gaia: warning: the estimate, $8.199588, is above --max-cost, $8.190000: tasks may be left out, and count as wrong\n") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.Usage, append(local, "--max-cost", "0.01")...); !strings.Contains(out, "gaia: error: --max-cost is $0.010000, which is not enough for a single attempt\n") ||
		!strings.Contains(out, "gaia: hint: give $0.") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, "run", "--dry-run", "--dataset", "dir:data", "--model", "no-price", "--base-url", endpoint.URL); !strings.Contains(out, "estimate     unknown in all\n") {
		t.Errorf("run says:\n%s", out)
	}
	p.want(exit.Usage, "run", "--dry-run", "--dataset", "dir:nowhere", "--model", "gpt-4o")
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests were made", n)
	}
	if after := tree(t, p.dir); !slices.Equal(after, before) {
		t.Errorf("a dry run wrote: %q", after)
	}
}

// TestEstimateFromRuns reads real summaries, and says which it cannot read.
func TestEstimateFromRuns(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--limit", "4")
	bad := filepath.Join(p.dir, "runs", "bad")
	if err := os.Mkdir(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, rundir.SummaryFile), []byte(`{"attempts":1,"attempts":2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.OK, "run", "--dry-run")
	if !strings.Contains(out, "(the mean of 4 attempts of 1 finished run, 4 tasks)") || !strings.Contains(out, "gaia: warning: 1 summary under runs cannot be read, and count for nothing\n") {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.Failure, "run", "--dry-run", "--out", "runs/bad/summary.json"); !strings.Contains(out, "reading the directory for runs") {
		t.Errorf("run says:\n%s", out)
	}
}
