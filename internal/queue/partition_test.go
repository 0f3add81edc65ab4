package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// workApart is a worker in its own process. It prints each task that it claims first, until it is killed.
func workApart(url, seedFile, caFile string) error {
	ctx := context.Background()
	seed, err := os.ReadFile(seedFile)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	c, err := Dial(ctx, ClientOptions{URL: url, Seed: seed, CA: ca, Log: func(line string) { fmt.Fprintln(os.Stderr, line) }})
	if err != nil {
		return err
	}
	key := filepath.Base(seedFile)
	if _, _, err := c.Join(ctx, Join{Key: key, Version: "v1"}); err != nil {
		return err
	}
	for {
		task, err := c.Next(ctx)
		if err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
		switch err := c.Claim(ctx, claimOf(task.Place, key)); {
		case err == nil:
			fmt.Println(task.Place)
		case !errors.Is(err, ErrClaimed):
			return err
		}
		task.Done()
	}
}

// TestPartition: two workers in network namespaces, of which one is cut off longer than AckWait and comes back, and one
// is killed: each task is claimed once.
func TestPartition(t *testing.T) {
	long.OnlyThorough(t)
	const tasks = 250
	ip := func(args ...string) error {
		c := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", args...)
		c.Env = os.Environ()
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, out)
		}
		return nil
	}
	id := fmt.Sprint(os.Getpid() % 100_000)
	cert, key, ca := certificate(t)
	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca")
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Each worker reaches the server over its own link.
	o := testOptions(t, tasks)
	o.Listen, o.CertFile, o.KeyFile = "0.0.0.0:0", cert, key
	var seeds []string
	for w := range 2 {
		public, seed := nkey(t)
		seeds = append(seeds, filepath.Join(dir, fmt.Sprint("key", w)))
		if err := os.WriteFile(seeds[w], seed, 0o600); err != nil {
			t.Fatal(err)
		}
		o.Workers = append(o.Workers, public)
	}
	for w := range 2 {
		space, link, near := fmt.Sprint("gaia", id, w), fmt.Sprint("gq", id, w), fmt.Sprintf("198.18.%d.1/24", w)
		if err := ip("netns", "add", space); err != nil {
			t.Skipf("no network namespaces here: %v", err)
		}
		t.Cleanup(func() { _ = ip("netns", "del", space) })
		for _, args := range [][]string{
			{"link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space},
			{"addr", "add", near, "dev", link}, {"link", "set", link, "up"},
			{"-n", space, "addr", "add", fmt.Sprintf("198.18.%d.2/24", w), "dev", "eth0"}, {"-n", space, "link", "set", "eth0", "up"},
		} {
			if err := ip(args...); err != nil {
				t.Skipf("no network namespaces here: %v", err)
			}
		}
	}
	h := newRecords()
	s, _ := serve(t, o, h)
	_, port, err := net.SplitHostPort(s.engine.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	firsts := map[string]int{}
	killed := make([]func(), 2)
	for w := range 2 {
		c := exec.CommandContext(t.Context(), "ip", "netns", "exec", fmt.Sprint("gaia", id, w), program, "worker", fmt.Sprintf("tls://198.18.%d.1:%s", w, port), seeds[w], caFile)
		c.Env = os.Environ()
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var read sync.WaitGroup
		read.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				mu.Lock()
				firsts[lines.Text()]++
				mu.Unlock()
			}
		})
		killed[w] = sync.OnceFunc(func() {
			_ = c.Process.Kill()
			read.Wait()
			_ = c.Wait()
			t.Logf("worker %d: %s", w, said.Bytes())
		})
		t.Cleanup(killed[w])
	}
	waitFor(t, "some claims", func() bool { return h.count() > tasks/8 })
	if err := ip("link", "set", fmt.Sprint("gq", id, 0), "down"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // three times AckWait: its task goes to the other worker
	if err := ip("link", "set", fmt.Sprint("gq", id, 0), "up"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "more claims", func() bool { return h.count() > tasks*3/4 })
	killed[1]()
	waitFor(t, "all claims", func() bool { return h.count() == tasks })
	killed[0]()
	mu.Lock()
	defer mu.Unlock()
	for task, n := range firsts {
		if n != 1 {
			t.Errorf("task %s was claimed first %d times", task, n)
		}
	}
	if len(firsts) < tasks-2 { // a worker that is killed may not print its last one
		t.Errorf("%d tasks were claimed", len(firsts))
	}
}
