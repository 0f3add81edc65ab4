package queue

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// TestMain ends at once where TestNothingStarts runs this program, and is a worker where TestPartition does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "only-start" {
		fmt.Print(runtime.NumGoroutine())
		return
	}
	if len(os.Args) == 5 && os.Args[1] == "worker" {
		if err := workApart(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// TestNothingStarts: a program that has this package and does not call it starts no goroutine for it, listens nowhere,
// and spends next to no memory on its initialisation.
func TestNothingStarts(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, trace bytes.Buffer
	c := exec.CommandContext(t.Context(), program, "only-start")
	c.Env, c.Stdout, c.Stderr = []string{"GODEBUG=inittrace=1"}, &out, &trace
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1" { // a listener has a goroutine
		t.Errorf("%s goroutines", out.String())
	}
	all, packages := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1) {
		if strings.Contains(m[1], "nats-io") || strings.Contains(m[1], "antithesis") || strings.Contains(m[1], "go-tpm") || strings.Contains(m[1], "highwayhash") {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			all += n
			packages++
			t.Log(m[0])
		}
	}
	if packages == 0 || all > 512<<10 {
		t.Errorf("%d packages allocate %d bytes when the program starts", packages, all)
	}
}

// FuzzRequest: whatever a worker sends, the server neither panics nor hands something out of bounds to the handler.
func FuzzRequest(f *testing.F) {
	s := &Server{options: Options{Plan: testPlan(3), Log: func(string) {}}, names: names{"gaia"}}
	for op, value := range map[string]any{
		"join": Join{Key: "k", Version: "v1"}, "append": Append{Key: "k", Note: []byte("n")}, "permit": Permit{Key: "k"}, "reserve": Money{Key: "k", Seq: 1},
		"progress": Progress{Key: "k"}, "leave": Leave{Key: "k"}, "document": documentRequest{Key: "k"},
	} {
		data, err := encodeFrame(call{ID: "1", Schema: schema}, value, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(op, data)
	}
	f.Add("append", []byte("{\"id\":\"1\",\"schema\":\"gaia.queue/1\"}\n{\"key\":\"k\",\"offset\":-1}\nx"))
	f.Fuzz(func(t *testing.T, op string, data []byte) {
		d, h := newDispatcher(s), newRecords()
		reply, raw, err := d.answer(t.Context(), h, op, "U", data)
		if len(raw) > MaxChunk {
			t.Error("a reply is too large")
		}
		if err == nil {
			if _, err := encodeFrame(result{Schema: schema, Status: statusOK}, reply, raw); err != nil {
				t.Error(err)
			}
			if len(d.owners) != 1 {
				t.Error("a request without a key was answered")
			}
		}
		for key, have := range h.copies {
			if len(key) > maxText || len(have) > MaxChunk {
				t.Error("out of bounds")
			}
		}
	})
}

// FuzzReply: whatever a server answers, a worker neither panics nor accepts a value in a second form.
func FuzzReply(f *testing.F) {
	for _, value := range []any{joinReply{Joined: Joined{Delegation: []byte("d"), Index: 1}, RunID: "r", Tasks: 1, Documents: slices.Repeat([]document{{1, canonical.Digest(nil)}}, 3)},
		appendReply{7}, permitReply{1}, reserveReply{Wait}, progressReply{Done}, empty{}, claimOf(1, "k"), taskMessage{RunID: "r", Schema: schema}} {
		data, err := encodeFrame(result{Schema: schema, Status: statusOK}, value, []byte("raw"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		head, line, _, ok := cutFrame(data)
		if !ok {
			return
		}
		_ = decodeValue(head, &result{})
		for _, m := range []message{&joinReply{}, &appendReply{}, &permitReply{}, &reserveReply{}, &progressReply{}, &empty{}, &Claim{}, &taskMessage{}} {
			if decodeValue(line, m) == nil {
				if again, err := canonical.Encode(m); err != nil || !bytes.Equal(again, line) {
					t.Errorf("%T: %q is read as %q", m, line, again)
				}
			}
		}
	})
}

// BenchmarkTask measures what the queue costs a task, from asking for it to its acknowledgement, and beside it what the
// disk takes to sync a record of that size.
func BenchmarkTask(b *testing.B) {
	report := func(b *testing.B, took []time.Duration) {
		slices.SortFunc(took, cmp.Compare[time.Duration])
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
	}
	b.Run("queue", func(b *testing.B) {
		o := testOptions(b, b.N)
		o.AckWait = time.Minute
		s, _ := serve(b, o, newRecords())
		c := worker(b, s.URL(), "k")
		waitFor(b, "the tasks", func() bool {
			stream, err := s.js.Stream(b.Context(), s.names.stream())
			return err == nil && stream.CachedInfo().State.Msgs >= uint64(min(b.N, window))
		})
		var took []time.Duration
		b.ResetTimer()
		for range b.N {
			start := time.Now()
			task, err := c.Next(b.Context())
			if err == nil {
				err = c.Claim(b.Context(), claimOf(task.Place, "k"))
			}
			if err != nil {
				b.Fatal(err)
			}
			task.Done()
			took = append(took, time.Since(start))
		}
		report(b, took)
	})
	b.Run("fdatasync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		var took []time.Duration
		line := make([]byte, 400)
		for b.Loop() {
			start := time.Now()
			if _, err := f.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		report(b, took)
	})
}
