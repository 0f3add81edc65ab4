package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// A trial is what one contender did once.
type trial struct {
	usage
	disk    int64 // bytes of the result
	other   int64 // bytes that it wrote elsewhere in its home
	counts  endpoint.Counts
	answers map[string]string
}

// latency is the time before each answer, where there is one.
const latency = 200 * time.Millisecond

// three measures all contenders without and with latency, and killed in the middle.
func (o options) three(w io.Writer) error {
	all, skipped, err := o.contenders()
	if err != nil {
		return err
	}
	o.heading(w)
	for _, c := range all {
		fmt.Fprintf(w, "- %s %s\n", c.name, c.version)
	}
	for _, name := range skipped {
		fmt.Fprintf(w, "- SKIPPED: %s is not installed\n", name)
	}
	fmt.Fprintf(w, "\nTasks of three turns, %d requests at once.\n\n", o.concurrency)
	undisturbed := map[string]trial{}
	rows := [][]string{{"tasks", "latency", "program", "CPU", "CPU per task", "wall", "peak memory", "result", "other files", "requests", "received", "answers", "right"}}
	for _, part := range []struct {
		tasks int // one: what it takes to start
		wait  time.Duration
	}{{1, 0}, {o.tasks, 0}, {o.tasks, latency}} {
		o.tasks = part.tasks
		if err := writeTasks(o.work, o.tasks); err != nil {
			return err
		}
		for _, c := range all {
			t, err := o.try(c, part.wait, 0)
			if err != nil {
				return err
			}
			undisturbed[c.name] = t
			rows = append(rows, []string{fmt.Sprint(o.tasks), part.wait.String(), c.name, seconds(t.cpu), milliseconds(t.cpu / time.Duration(o.tasks)), seconds(t.wall), mib(t.peak),
				megabytes(t.disk), megabytes(t.other), fmt.Sprint(t.counts.Requests), megabytes(t.counts.Bytes), fmt.Sprint(len(t.answers)), fmt.Sprint(right(t.answers))})
		}
	}
	table(w, rows)
	short := [][]string{{"program", "CPU per task", "wall time at 200 ms", "peak memory", "requests repeated after a kill"}}
	rows = [][]string{{"killed at half of the requests, then resumed", "CPU of both", "requests repeated", "tasks lost", "same results"}}
	for _, c := range all {
		t, err := o.try(c, latency, o.tasks*3/2)
		if err != nil {
			return err
		}
		before := undisturbed[c.name]
		repeated := fmt.Sprint(t.counts.Requests - before.counts.Requests)
		rows = append(rows, []string{c.name, seconds(t.cpu), repeated, fmt.Sprint(len(before.answers) - len(t.answers)), fmt.Sprint(maps.Equal(t.answers, before.answers))})
		short = append(short, []string{c.name, milliseconds(before.cpu / time.Duration(o.tasks)), seconds(before.wall), mib(before.peak), repeated})
	}
	table(w, rows)
	if o.short == "" {
		return nil
	}
	var text bytes.Buffer
	table(&text, short)
	return insert(o.short, "short", text.Bytes())
}

// try lets a contender solve the tasks. With half, it is killed when there were so many requests, and resumed.
func (o options) try(c contender, wait time.Duration, half int) (t trial, err error) {
	dir := filepath.Join(o.work, c.name)
	if err := errors.Join(fresh(dir), scripts(dir)); err != nil {
		return t, err
	}
	s, err := startServer(o.tasks, wait)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := size(dir)
	if err != nil {
		return t, err
	}
	p := c.begin(dir, s.url)
	if half > 0 {
		killed, _, err := p.runUntil(func() error {
			_, err := s.counts(half)
			return err
		})
		if err != nil {
			return t, err
		}
		t.usage = killed
		if p, err = c.resume(dir, s.url); err != nil {
			return t, err
		}
	}
	u, _, err := p.run()
	if err != nil {
		return t, err
	}
	t.cpu, t.wall, t.peak = t.cpu+u.cpu, t.wall+u.wall, max(t.peak, u.peak)
	if t.counts, err = s.counts(0); err != nil {
		return t, err
	}
	if t.answers, err = c.answers(dir); err != nil {
		return t, err
	}
	if t.disk, err = size(filepath.Join(dir, c.results)); err != nil {
		return t, err
	}
	t.other, err = size(dir)
	t.other -= t.disk + before
	return t, err
}

// right counts the answers that the contender's scorer accepted.
func right(answers map[string]string) (n int) {
	for _, a := range answers {
		if len(a) > 4 && a[len(a)-4:] == "true" {
			n++
		}
	}
	return n
}
