package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// childURL names the endpoint that a separate process runs against.
const childURL = "GAIA_RUN_CHILD_URL"

// longRun is what BenchmarkTenThousand runs.
func longRun() endpoint.Tasks { return endpoint.Tasks{Count: 10_000} }

// mostMemory is the bound for the run of longRun, in MiB.
const mostMemory = 64

// BenchmarkTenThousand runs 10,000 tasks in a separate process, so that the
// endpoint does not count, and reports the most memory that process held, its
// processor time, and that of a process which only sends as many requests.
func BenchmarkTenThousand(b *testing.B) {
	if _, err := peakMemory(); err != nil {
		b.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server := serve(b, endpoint.Config{Tasks: longRun()})
	peak, half := 0.0, 0.0
	var cpu, bare time.Duration
	spawn := func(test string) ([]byte, time.Duration) {
		child := exec.Command(self, "-test.run=^"+test+"$", "-test.v")
		child.Env = append(os.Environ(), childURL+"="+server.URL)
		out, err := child.CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return out, child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	}
	for b.Loop() {
		out, took := spawn("TestLongRun")
		cpu += took
		found := regexp.MustCompile(`most memory: (\d+) kB; at half the tasks (\d+) kB`).FindSubmatch(out)
		if found == nil {
			b.Fatalf("the child said:\n%s", out)
		}
		peak, half = max(peak, kilobytes(b, found[1])), max(half, kilobytes(b, found[2]))
	}
	b.StopTimer()
	_, bare = spawn("TestBareRequests")
	b.ReportMetric(ms(cpu)/float64(b.N*longRun().Count), "CPU-ms/task")
	b.ReportMetric(float64(cpu)/float64(b.N)/float64(bare), "x-CPU-of-bare-HTTP")
	b.ReportMetric(peak/1024, "MiB-peak")
	b.ReportMetric(peak/1024/mostMemory, "of-bound-peak")
	b.ReportMetric(half/1024, "MiB-peak-at-half")
	b.ReportMetric(float64(b.N*longRun().Count)/b.Elapsed().Seconds(), "tasks/s")
}

func kilobytes(b *testing.B, digits []byte) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(string(digits), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// TestBareRequests is a process that sends as many requests as TestLongRun, and
// nothing else.
func TestBareRequests(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("is run by BenchmarkTenThousand")
	}
	debug.SetGCPercent(100) // as in the program
	bareRequests(t, longRun(), url, 3*longRun().Count)
}

// TestLongRun is the process that BenchmarkTenThousand measures.
func TestLongRun(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("is run by BenchmarkTenThousand")
	}
	debug.SetGCPercent(100) // as in the program
	c := generated(t, longRun(), url, nil)
	ended, half := 0, int64(0)
	c.env.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.AttemptEnded); !ok {
			return
		}
		if ended++; ended == longRun().Count/2 {
			var err error
			if half, err = peakMemory(); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	most, err := peakMemory()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("most memory: %d kB; at half the tasks %d kB\n", most, half)
}

// peakMemory is the most memory that this process held, in kB.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("the system does not say how much memory a process held: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("the system does not say how much memory a process held")
}
