package main

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// killAfter starts a command, kills it when so many lines of its standard error hold a text, and reports whether it was
// killed.
func (p program) killAfter(n int, text string, args ...string) bool {
	p.t.Helper()
	cmd := p.command(args...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for in := bufio.NewScanner(pipe); in.Scan(); {
		if strings.Contains(in.Text(), text) {
			if n--; n == 0 {
				_ = cmd.Process.Kill() // it may have ended
			}
		}
	}
	return cmd.Wait() != nil && cmd.ProcessState.ExitCode() == -1
}

// effort is what an attempt that was killed adds to a result.
var effort = regexp.MustCompile(`"attempts?":[0-9]+,|"cost_microusd":[0-9]+,|"tokens":\{[^}]*\},|"tool_calls":[0-9]+,|"turns":[0-9]+`)

var latency = regexp.MustCompile(`"latency_ms":[0-9]+,`)

// results returns the results of a run without what the time decides.
func (p program) results(run string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(run, rundir.ResultsFile))
	if err != nil {
		p.t.Fatal(err)
	}
	return latency.ReplaceAllString(string(data), "")
}

// shards plans the offline tasks in so many shards, and runs all of them in the folder out.
func (p program) shards(plan, out string, n string, flags ...string) {
	p.t.Helper()
	p.want(exit.OK, append([]string{"plan", "-o", plan, "--shards", n, "--task", loopTasks}, flags...)...)
	for i := '1'; string(i) <= n; i++ {
		p.want(exit.OK, "run", "--plan", plan, "--shard", string(i)+"/"+n, "--out", out)
	}
}

// merged returns the run directory below a folder.
func (p program) merged(out string) string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.dir, out, "0*"))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("run directories: %v, %v", found, err)
	}
	return found[0]
}

// TestMergeAfterKills: a shard is killed and resumed, another one runs twice, and gaia merge is killed: what comes of it has
// the results of a run in one process, and can be audited, packaged and verified.
func TestMergeAfterKills(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent", "--task", loopTasks, "--out", "whole")
	want := p.results(p.merged("whole"))
	p.want(exit.OK, "plan", "-o", "plan", "--submit-intent", "--shards", "2", "--task", loopTasks)
	first := []string{"run", "--plan", "plan", "--shard", "1/2", "--out", "shards"}
	if p.killAfter(1, "attempt ended", first...) {
		// It may have been done before it was killed.
		if out := p.want(exit.Incomplete, "merge", "shards"); !regexp.MustCompile(`missing: 2(; not done: 1)?\n`).MatchString(out) {
			t.Errorf("with a shard that was killed, merge says:\n%s", out)
		}
	}
	p.want(exit.OK, first...)
	p.want(exit.OK, "run", "--plan", "plan", "--shard", "2/2", "--out", "shards")
	p.want(exit.OK, "run", "--plan", "plan", "--shard", "2/2", "--out", "again")
	random, merge := rand.New(rand.NewPCG(1, 2)), []string{"merge", "again", "shards", "-o", "runs"}
	for range 4 / long.Step(2) { // while it verifies, copies, grades and seals
		cmd := p.command(merge...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // most often it was killed
		timer.Stop()
	}
	p.want(exit.OK, merge...)
	run := p.merged("runs")
	if left, err := filepath.Glob(filepath.Join(p.dir, "runs", ".new-*")); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if got := p.results(run); effort.ReplaceAllString(got, "") != effort.ReplaceAllString(want, "") {
		t.Errorf("the results of shards are\n%s\nand those of one process\n%s", got, want)
	}
	p.want(exit.OK, "verify", run)
	p.want(exit.OK, "audit", run)
	p.want(exit.OK, "submit", run, "-o", "packages")
	packages, err := filepath.Glob(filepath.Join(p.dir, "packages", "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	p.want(exit.OK, "verify", packages[0])
	if err := os.Remove(filepath.Join(run, rundir.ShardsDir, "1", "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	p.want(exit.Evidence, "verify", run)
}

// TestMergeKilledWhileCopying: gaia merge is killed while it copies the shards or verifies the copies. What it leaves is no
// run, and the same command makes the run of an undisturbed merge.
func TestMergeKilledWhileCopying(t *testing.T) {
	t.Parallel()
	p := program{t, t.TempDir(), []string{"HF_ENDPOINT=" + noHub, "OPENAI_API_KEY=none"}}
	p.writeShards(t, 100, runs.Told{Turns: 4})
	merge := []string{"merge", "shards", "--on-unsubmittable", "continue", "-o"}
	p.want(exit.OK, append(merge, "whole")...)
	want, random := p.results(p.merged("whole")), rand.New(rand.NewPCG(3, 4))
	kills := 1
	if long.Thorough() {
		kills = 20
	}
	for round, killed := 0, 0; killed < kills; round++ {
		if round == 100 {
			t.Fatal("no merge was killed before its run was in its place")
		}
		out := "runs" + strconv.Itoa(round)
		cmd := p.command(append(merge, out)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it is killed
			close(ended)
		}()
		copied := filepath.Join(p.dir, out, ".new-*", rundir.ShardsDir, strconv.Itoa(1+random.IntN(4)), "*")
		for found := 0; found == 0; {
			select {
			case <-ended:
				found++
			default:
				names, err := filepath.Glob(copied)
				if found = len(names); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if left, err := filepath.Glob(filepath.Join(p.dir, out, ".new-*")); err != nil || len(left) > 0 {
			killed++
			if err := p.command("verify", left[0]).Run(); err == nil {
				t.Errorf("what a merge that was killed left verifies: %s", left[0])
			}
		}
		p.want(exit.OK, append(merge, out)...)
		if left, err := filepath.Glob(filepath.Join(p.dir, out, ".new-*")); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
		run := p.merged(out)
		if p.results(run) != want {
			t.Error("the results are not those of a merge that was not killed")
		}
		p.want(exit.OK, "verify", run)
	}
}

// TestSameResults: one process, one shard and three give the same results without submit intent, too.
func TestSameResults(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--task", loopTasks, "--out", "whole")
	want := p.results(p.merged("whole"))
	for _, n := range []string{"1", "3"} {
		p.shards("plan"+n, "shards"+n, n)
		p.want(exit.OK, "merge", "shards"+n, "--plan", "plan"+n, "-o", "runs"+n)
		if got := p.results(p.merged("runs" + n)); got != want {
			t.Errorf("the results of %s shards are\n%s\nand those of one process\n%s", n, got, want)
		}
	}
}

// TestMergeChecksGold: gold answers that are not those of the plan are refused before an answer is graded.
func TestMergeChecksGold(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.shards("plan", "shards", "2")
	private := filepath.Join(p.dir, "plan.private")
	data, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	salt := regexp.MustCompile(`"salt":"[0-9a-f]`)
	if err := os.WriteFile(private, salt.ReplaceAllFunc(data, func(b []byte) []byte {
		return bytes.Replace(append(b[:len(b)-1:len(b)-1], 'f'), []byte("ff"), []byte("fe"), 1)
	}), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := os.ReadFile(private)
	if err != nil || bytes.Equal(changed, data) {
		t.Skip("the salt begins with what it was changed to") // in one of 16 runs
	}
	if out := p.want(exit.Failure, "merge", "shards"); !strings.Contains(out, "gold_commitment") {
		t.Errorf("merge says:\n%s", out)
	}
	if left, err := os.ReadDir(filepath.Join(p.dir, "runs")); err != nil && !os.IsNotExist(err) || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
