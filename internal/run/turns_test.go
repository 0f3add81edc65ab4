package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// BenchmarkTurns runs 1,000 tasks of three turns, 16 at once, against an
// endpoint that takes no time, with a durable journal and probes on. What a
// turn adds is the time from the endpoint's answer to its next request of the
// same task. Beside it stand what the disk and HTTP alone take here.
func BenchmarkTurns(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(Procs())) // as the program has it
	tasks := endpoint.Tasks{Count: 1000}
	var gaps []time.Duration
	var took, grading time.Duration
	for b.Loop() {
		b.StopTimer()
		server := serve(b, endpoint.Config{Tasks: tasks, Now: time.Now})
		c := generated(b, tasks, server.URL, nil)
		var graded time.Time // the first of them, after all were solved
		c.env.Watch = func(e trajectory.Event) {
			if _, ok := e.Payload.(trajectory.Judgment); ok && graded.IsZero() {
				graded = time.Now()
			}
		}
		began, ended := timed(b, c)
		took += ended.Sub(began)
		grading += ended.Sub(graded)
		if c := server.Counts(); c.Answered != 3*tasks.Count || c.Requests != c.Answered {
			b.Fatalf("the endpoint counts %+v", c)
		}
		gaps = append(gaps, server.Gaps()...)
		b.StartTimer()
	}
	b.StopTimer()
	slices.Sort(gaps)
	done := float64(b.N * tasks.Count)
	b.ReportMetric(ms(gaps[len(gaps)/2]), "ms/turn-added")
	b.ReportMetric(ms(gaps[len(gaps)*95/100]), "ms/turn-added-p95")
	b.ReportMetric(ms(took)/done/3, "ms-wall/turn")
	b.ReportMetric(done/took.Seconds(), "tasks/s")
	b.ReportMetric(ms(grading)/done, "ms-grading/task")
	b.ReportMetric(bareSync(b), "µs/fdatasync")
	b.ReportMetric(bareHTTP(b, tasks), "bare-requests/s")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bareSync is what writing a few lines and syncing them takes, in microseconds,
// at the median.
func bareSync(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bytes.Repeat([]byte("a line of the mill book\n"), 256)
	took := make([]time.Duration, 1000)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(lines); err != nil {
			b.Fatal(err)
		}
		if err := (runfiles.DataSync{File: f}).Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Microsecond)
}

// bareHTTP is how many requests a second 16 goroutines get answered that do
// nothing else.
func bareHTTP(b *testing.B, tasks endpoint.Tasks) float64 {
	b.Helper()
	server := serve(b, endpoint.Config{Tasks: tasks})
	const requests = 8000
	began := time.Now()
	bareRequests(b, tasks, server.URL, requests)
	return requests / time.Since(began).Seconds()
}

// bareRequests sends requests from 16 goroutines.
func bareRequests(b testing.TB, tasks endpoint.Tasks, url string, requests int) {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	const workers = 16
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"tools":[{}]}`,
				endpoint.Model, prompt.System(), tasks.Question(w))
			for range requests / workers {
				response, err := client.Post(url+"/chat/completions", "application/json", bytes.NewReader([]byte(body)))
				if err != nil {
					b.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					b.Errorf("status %d, %v", response.StatusCode, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// timed executes a run and returns when that began and ended. The timer, which is stopped before and after, runs
// meanwhile.
func timed(b *testing.B, c setup) (began, ended time.Time) {
	b.Helper()
	r, err := Create(b.TempDir(), c.plan, c.env)
	if err != nil {
		b.Fatal(err)
	}
	began = time.Now()
	b.StartTimer()
	err = r.Execute(context.Background(), nil)
	b.StopTimer()
	ended = time.Now()
	if err := errors.Join(err, r.Close()); err != nil {
		b.Fatal(err)
	}
	return began, ended
}

// BenchmarkLatency runs tasks of three turns at an endpoint that takes 200 ms, and
// reports its time as a multiple of requests × latency ÷ concurrency. The goal is
// 1.15.
func BenchmarkLatency(b *testing.B) {
	const latency = 200 * time.Millisecond
	for _, atOnce := range []int{20, 64} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			tasks := endpoint.Tasks{Count: 1000}
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				server := serve(b, endpoint.Config{Tasks: tasks, Latency: latency})
				c := generated(b, tasks, server.URL, func(c *llm.Config) { c.Limiter = llm.NewLimiter(llm.LimiterConfig{Fixed: atOnce}) })
				c.env.Concurrency = atOnce + atOnce/4 // as the program has it
				began, ended := timed(b, c)
				took += ended.Sub(began)
				b.StartTimer()
			}
			bound := time.Duration(3*tasks.Count) * latency / time.Duration(atOnce)
			b.ReportMetric(float64(took)/float64(b.N)/float64(bound), "x-of-bound")
		})
	}
}
