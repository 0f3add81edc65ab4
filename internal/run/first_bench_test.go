package run

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// BenchmarkFirstRequest starts the program twenty times on tasks of a
// directory, as many as GAIA's validation split has, and reports how long it
// takes to its first request, at the median.
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
	var took []time.Duration
	for b.Loop() {
		for range 20 {
			took = append(took, firstRequest(b, home, gaia, server.URL, came))
		}
	}
	slices.Sort(took)
	b.ReportMetric(ms(took[len(took)/2]), "ms-to-first-request")
	b.ReportMetric(ms(took[len(took)-1]), "ms-at-worst")
}

// firstRequest starts the program and kills it when it has asked for something.
func firstRequest(b *testing.B, home, gaia, url string, came <-chan time.Time) time.Duration {
	b.Helper()
	run := exec.Command(gaia, "run", "--submit-intent", "--source", "dir:data", "--base-url", url+"/v1", "--model", endpoint.Model, "--concurrency", "1")
	run.Dir = home
	run.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
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
		return at.Sub(began)
	case err := <-ended:
		b.Fatalf("the program ended before it asked for anything: %v", err)
	case <-time.After(time.Minute):
		_ = run.Process.Kill()
		<-ended
		b.Fatal("the program asked for nothing")
	}
	return 0
}
