package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

var mergeTasks = flag.Int("merge", 2000, "tasks that BenchmarkMerge merges")

// writeShards plans invented tasks in 4 shards, of which it writes the folders below shards.
func (p program) writeShards(tb testing.TB, count int, told runs.Told) {
	tb.Helper()
	tasks := endpoint.Tasks{Count: count}
	if err := tasks.Write(filepath.Join(p.dir, "data")); err != nil {
		tb.Fatal(err)
	}
	if out, err := p.command("plan", "-o", "plan", "--shards", "4", "--submit-intent", "--dataset", "dir:data", "--base-url", "http://127.0.0.1:9/v1", "--model", endpoint.Model, "--max-task-cost", "off").CombinedOutput(); err != nil {
		tb.Fatalf("gaia plan: %v\n%s", err, out)
	}
	f, err := planfolder.Open(filepath.Join(p.dir, "plan"))
	if err != nil {
		tb.Fatal(err)
	}
	for n := range count {
		told.Questions, told.Answers = append(told.Questions, tasks.Question(n)), append(told.Answers, tasks.Gold(n))
	}
	for index := 1; index <= 4; index++ {
		d, envelope, key, err := f.Shard(index, "")
		if err != nil {
			tb.Fatal(err)
		}
		if err := runs.WriteShard(filepath.Join(p.dir, "shards", strconv.Itoa(index)), f.Plan, f.Manifest, f.Envelope, d, envelope, key, told); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkMerge merges 4 shards of tasks of one turn in its own process, and reports the time that it computed and its
// memory: with -merge 100000 those of docs/many-machines.md.
func BenchmarkMerge(b *testing.B) {
	p := program{nil, b.TempDir(), []string{"HF_ENDPOINT=" + noHub, "OPENAI_API_KEY=none"}}
	run := func(args ...string) *syscall.Rusage {
		cmd := p.command(args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("gaia %v: %v\n%s", args, err, out)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage)
	}
	p.writeShards(b, *mergeTasks, runs.Told{Turns: 1})
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // else a child begins with the peak of this process
		b.Skip(err)
	}
	for b.Loop() {
		u := run("merge", "shards", "--on-unsubmittable", "continue")
		b.ReportMetric(float64(u.Utime.Nano()+u.Stime.Nano())/1e9, "cpu-s/op")
		b.ReportMetric(float64(u.Maxrss)/1024, "MiB")
		if err := os.RemoveAll(filepath.Join(p.dir, "runs")); err != nil {
			b.Fatal(err)
		}
	}
}
