package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// The stages of a build, in their order. All but the run use one core.
const (
	version       = "`gaia version`"
	start         = "start to the first request"
	run           = "run"
	hash          = "`sha256sum` of the journal"
	verify        = "verify"
	audit         = "audit"
	submit        = "submit"
	verifyPackage = "verify of the package"
	archive       = "submit --archive"
	verifyArchive = "verify of the archive"
)

var stages = []string{version, start, run, hash, verify, audit, submit, verifyPackage, archive, verifyArchive}

// repeats is how often the stages that take no time are measured in one life.
const repeats = 5

// A life is what one build took for all stages of one run.
type life struct {
	used           map[string]usage
	journal, whole int64 // bytes of the journal, and of the run directory with all that belongs to it
	packed         int64 // of the package
	counts         endpoint.Counts
}

// live measures all stages of a build in a folder below the dataset's.
func (o options) live(name, build string, tasks int) (l life, err error) {
	o.gaia = build
	l.used = map[string]usage{}
	dir := filepath.Join(o.work, name)
	if err := fresh(dir); err != nil {
		return l, err
	}
	var first error // the first stage that failed
	stage := func(name string, p program) {
		if first != nil {
			return
		}
		if p.dir = dir; name != run {
			p.env = []string{"GOMAXPROCS=1"}
		}
		l.used[name], _, first = p.run()
	}
	gaia := func(name string, args ...string) { stage(name, program{args: append([]string{build}, args...)}) }
	var versions, starts []usage
	for range repeats {
		gaia(version, "version")
		u, err := o.begin(filepath.Join(o.work, "one"))
		if err := cmp.Or(first, err); err != nil {
			return l, err
		}
		versions, starts = append(versions, l.used[version]), append(starts, u)
	}
	l.used[version], l.used[start] = median(versions), median(starts)
	s, err := startServer(tasks, 0)
	if err != nil {
		return l, err
	}
	stage(run, o.beginGaia(dir, s.url))
	l.counts, err = s.counts(0)
	if err := cmp.Or(first, err, s.close()); err != nil {
		return l, err
	}
	result, err := one(filepath.Join(dir, "runs", "*"))
	if err != nil {
		return l, err
	}
	journal := filepath.Join(result, "events.jsonl")
	stage(hash, program{args: []string{"sha256sum", journal}})
	gaia(verify, "verify", result)
	gaia(audit, "audit", result)
	gaia(submit, "submit", "--out", "packages", result)
	gaia(archive, "submit", "--archive", "--out", "archives", result)
	folder, err := one(filepath.Join(dir, "packages", "*"))
	if err != nil {
		return l, cmp.Or(first, err)
	}
	file, err := one(filepath.Join(dir, "archives", "*"))
	if err != nil {
		return l, cmp.Or(first, err)
	}
	gaia(verifyPackage, "verify", folder)
	gaia(verifyArchive, "verify", file)
	var sizes [3]error
	l.journal, sizes[0] = size(journal)
	l.whole, sizes[1] = size(result)
	l.packed, sizes[2] = size(folder)
	return l, errors.Join(first, errors.Join(sizes[:]...))
}

// begin measures a run of one task until its first request has arrived, where it is killed.
func (o options) begin(folder string) (u usage, err error) {
	dir := filepath.Join(folder, "start")
	if err := cmp.Or(fresh(dir), writeTasks(folder, 1)); err != nil {
		return u, err
	}
	s, err := startServer(1, latency)
	if err != nil {
		return u, err
	}
	u, _, err = o.beginGaia(dir, s.url).runUntil(func() error {
		_, err := s.counts(1)
		return err
	})
	return u, errors.Join(err, s.close())
}

// pair measures two builds in turn.
func (o options) pair(w io.Writer, before, after string) error {
	if err := writeTasks(o.work, o.tasks); err != nil {
		return err
	}
	o.heading(w)
	fmt.Fprintf(w, "%d tasks of three turns, %d requests at once; medians of %d runs of each build in turn. All stages but the run use one core.\n\n", o.tasks, o.concurrency, o.rounds)
	lives := [2][]life{}
	for n := range o.rounds * 2 {
		which := (n + n/2) % 2 // a b b a a b …: neither is always the first
		l, err := o.live("build", []string{before, after}[which], o.tasks)
		if err != nil {
			return err
		}
		lives[which] = append(lives[which], l)
	}
	a, b := middleOf(lives[0]), middleOf(lives[1])
	rows := [][]string{{"stage", "CPU before", "CPU after", "after ÷ before", "wall before", "wall after", "peak before", "peak after"}}
	for _, s := range stages {
		x, y := a.used[s], b.used[s]
		rows = append(rows, []string{s, seconds(x.cpu), seconds(y.cpu), ratio(y.cpu, x.cpu), seconds(x.wall), seconds(y.wall), mib(x.peak), mib(y.peak)})
	}
	table(w, rows)
	rows = [][]string{{"figure", "before", "after", "goal"}}
	row := func(name string, of func(life) string, goal string) {
		rows = append(rows, []string{name, of(a), of(b), goal})
	}
	of := func(top, bottom string) func(life) string {
		return func(l life) string { return ratio(l.used[top].cpu, l.used[bottom].cpu) }
	}
	row("verify, one core", func(l life) string {
		return fmt.Sprintf("%.0f MB/s", float64(l.journal)/1e6/l.used[verify].cpu.Seconds())
	}, "≥ 100 MB/s")
	row("verify ÷ `sha256sum`", of(verify, hash), "≤ 2.2")
	row("submit ÷ verify", of(submit, verify), "≤ 1.8")
	row("verify of the package ÷ verify", of(verifyPackage, verify), "≤ 1.3")
	row("verify ÷ run: what it takes to read the journal again", of(verify, run), "")
	row("CPU per task", func(l life) string { return milliseconds(l.used[run].cpu / time.Duration(o.tasks)) }, "≤ 2.5 ms")
	row("CPU to the first request", func(l life) string { return seconds(l.used[start].cpu) }, "≤ 0.11 s")
	row("time to the first request", func(l life) string { return seconds(l.used[start].wall) }, "≤ 0.15 s")
	row("bytes of a first request beside the question", func(l life) string { return fmt.Sprint(l.counts.Beside) }, "≤ 3500")
	row("bytes of requests per task", func(l life) string { return fmt.Sprint(l.counts.Bytes / int64(o.tasks)) }, "")
	row("bytes of the journal per task", func(l life) string { return fmt.Sprint(l.journal / int64(o.tasks)) }, "≤ 18000")
	row("bytes of the run directory per task", func(l life) string { return fmt.Sprint(l.whole / int64(o.tasks)) }, "")
	row("bytes of the package per task", func(l life) string { return fmt.Sprint(l.packed / int64(o.tasks)) }, "")
	table(w, rows)
	return nil
}

// middleOf is the last of several measurements, with the medians of what was used.
func middleOf(lives []life) life {
	l := lives[len(lives)-1]
	for _, s := range stages {
		var all []usage
		for _, m := range lives {
			all = append(all, m.used[s])
		}
		l.used[s] = median(all)
	}
	return l
}

// waits measures runs of builds at an endpoint that takes its time, against the time that it takes at least.
func (o options) waits(w io.Writer, builds []string) error {
	if err := writeTasks(o.work, o.tasks); err != nil {
		return err
	}
	o.heading(w)
	rows := [][]string{{fmt.Sprintf("%d tasks at %v", o.tasks, latency), "at once", "requests", "requests × latency ÷ at once", "wall", "ratio", "CPU"}}
	dir := filepath.Join(o.work, "build")
	for _, build := range builds {
		for _, o.concurrency = range []int{20, 64} {
			if err := fresh(dir); err != nil {
				return err
			}
			s, err := startServer(o.tasks, latency)
			if err != nil {
				return err
			}
			o.gaia = build
			u, _, err := o.beginGaia(dir, s.url).run()
			counts, failed := s.counts(0)
			if err := cmp.Or(err, failed, s.close()); err != nil {
				return err
			}
			bound := time.Duration(counts.Requests) * latency / time.Duration(o.concurrency)
			rows = append(rows, []string{filepath.Base(build), fmt.Sprint(o.concurrency), fmt.Sprint(counts.Requests), seconds(bound), seconds(u.wall), ratio(u.wall, bound), seconds(u.cpu)})
		}
	}
	table(w, rows)
	return nil
}

// growth measures one build at several numbers of tasks: a table a figure, and how much memory each further task took.
func (o options) growth(w io.Writer, build string) error {
	o.heading(w)
	cpu, wall := [][]string{{"CPU per task"}}, [][]string{{"wall"}}
	peak, disk := [][]string{{"peak memory"}}, [][]string{{"tasks", "journal", "run directory", "package", "requests", "received"}}
	for _, s := range stages[2:] {
		cpu, wall, peak = append(cpu, []string{s}), append(wall, []string{s}), append(peak, []string{s})
	}
	var last, before life
	for i, n := range o.sizes {
		o.tasks = n
		if err := writeTasks(o.work, n); err != nil {
			return err
		}
		l, err := o.live("build", build, n)
		if err != nil {
			return err
		}
		last, before = l, last
		cpu[0], wall[0], peak[0] = append(cpu[0], tasks(n)), append(wall[0], tasks(n)), append(peak[0], tasks(n))
		for row, s := range stages[2:] {
			u := l.used[s]
			cpu[row+1] = append(cpu[row+1], milliseconds(u.cpu/time.Duration(n)))
			wall[row+1] = append(wall[row+1], seconds(u.wall))
			peak[row+1] = append(peak[row+1], mib(u.peak))
			if more := int64(n - o.sizes[max(i-1, 0)]); i == len(o.sizes)-1 && more > 0 {
				peak[row+1] = append(peak[row+1], fmt.Sprintf("%.2f KiB", float64(u.peak-before.used[s].peak)/1024/float64(more)))
			}
		}
		disk = append(disk, []string{fmt.Sprint(n), megabytes(l.journal), megabytes(l.whole), megabytes(l.packed), fmt.Sprint(l.counts.Requests), megabytes(l.counts.Bytes)})
	}
	if len(o.sizes) > 1 {
		peak[0] = append(peak[0], "per further task")
	}
	for _, rows := range [][][]string{cpu, wall, peak, disk} {
		table(w, rows)
	}
	return nil
}

func tasks(n int) string { return fmt.Sprint(n, " tasks") }
