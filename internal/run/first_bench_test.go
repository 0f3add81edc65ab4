package run

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// The bounds of a start to the first request, with a sandbox.
const (
	mostToFirst    = 150 * time.Millisecond
	mostCPUToFirst = 110 * time.Millisecond
)

// BenchmarkFirstRequest starts the program twenty times on tasks of a
// directory, as many as GAIA's validation split has, and reports how long it
// takes to its first request, and how much processor time, at the median.
func BenchmarkFirstRequest(b *testing.B) {
	home := b.TempDir()
	gaia := filepath.Join(home, "gaia")
	if out, err := exec.Command("go", "build", "-o", gaia, "github.com/gaia-harness/gaia/cmd/gaia").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	if err := (endpoint.Tasks{Count: 165}).Write(filepath.Join(home, "data")); err != nil {
		b.Fatal(err)
	}
	came := make(chan time.Time, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		came <- time.Now()
		_, _ = io.Copy(io.Discard, r.Body) // until then the client's end is not noticed
		<-r.Context().Done()
	}))
	defer server.Close()
	var took, used []time.Duration
	for b.Loop() {
		for range 20 {
			wall, cpu := firstRequest(b, home, gaia, server.URL, came)
			took, used = append(took, wall), append(used, cpu)
		}
	}
	slices.Sort(took)
	slices.Sort(used)
	b.ReportMetric(ms(took[len(took)/2]), "ms-to-first-request")
	b.ReportMetric(ms(took[len(took)-1]), "ms-at-worst")
	b.ReportMetric(ms(used[len(used)/2]), "CPU-ms-to-first-request")
	b.ReportMetric(float64(took[len(took)/2])/float64(mostToFirst), "of-bound")
	b.ReportMetric(float64(used[len(used)/2])/float64(mostCPUToFirst), "of-bound-CPU")
}

// firstRequest starts the program and kills it when it has asked for something. The
// processor time is also that of the programs that it has waited for.
func firstRequest(b *testing.B, home, gaia, url string, came <-chan time.Time) (wall, cpu time.Duration) {
	b.Helper()
	run := exec.Command(gaia, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", url+"/v1", "--model", endpoint.Model, "--concurrency", "1")
	run.Dir = home
	run.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"} // a version manager's python3 would take longer than all else
	began := time.Now()
	if err := run.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	select {
	case at := <-came:
		if err := run.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		<-ended
		return at.Sub(began), run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	case err := <-ended:
		b.Fatalf("the program ended before it asked for anything: %v", err)
	case <-time.After(time.Minute):
		_ = run.Process.Kill()
		<-ended
		b.Fatal("the program asked for nothing")
	}
	return 0, 0
}
