package submit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// BenchmarkReaders has the program make a run of 10,000 tasks and then read it, each command as a separate process. It
// reports the CPU time of verify, how many times that each other command takes, and the most memory that each held.
func BenchmarkReaders(b *testing.B) {
	home := b.TempDir()
	gaia := filepath.Join(home, "gaia")
	if out, err := exec.Command("go", "build", "-o", gaia, "github.com/gaia-harness/gaia/cmd/gaia").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	tasks := endpoint.Tasks{Count: 10_000}
	server, err := endpoint.Serve(endpoint.Config{Tasks: tasks})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	if err := tasks.Write(filepath.Join(home, "data")); err != nil {
		b.Fatal(err)
	}
	command := func(args ...string) (cpu time.Duration, peak float64) {
		b.Helper()
		c := exec.Command(gaia, args...)
		c.Dir, c.Env = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home}
		cpu, peak, err := measured(c)
		if err != nil {
			b.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		return cpu, peak
	}
	command("run", "--submit-intent", "--dataset", "dir:data", "--base-url", server.URL, "--model", endpoint.Model)
	runs, err := filepath.Glob(filepath.Join(home, "runs", "*"))
	if err != nil || len(runs) != 1 {
		b.Fatalf("%d runs: %v", len(runs), err)
	}
	packages := func(out, suffix string) string {
		all, err := filepath.Glob(filepath.Join(home, out, "submission-*"+suffix))
		if err != nil || len(all) != 1 {
			b.Fatalf("%d packages: %v", len(all), err)
		}
		return all[0]
	}
	for b.Loop() {
		for _, out := range []string{"folder", "archive"} {
			if err := os.RemoveAll(filepath.Join(home, out)); err != nil {
				b.Fatal(err)
			}
		}
		verify, peak := command("verify", runs[0])
		b.ReportMetric(verify.Seconds(), "verify-CPU-s")
		b.ReportMetric(peak, "verify-MiB")
		report := func(name string, args ...string) {
			cpu, peak := command(args...)
			b.ReportMetric(cpu.Seconds()/verify.Seconds(), name+"/verify")
			b.ReportMetric(peak, name+"-MiB")
		}
		report("audit", "audit", runs[0])
		report("submit", "submit", "--out", "folder", runs[0])
		report("archive", "submit", "--archive", "--out", "archive", runs[0])
		report("package", "verify", packages("folder", ""))
		report("packed", "verify", packages("archive", ArchiveSuffix))
	}
}

// measured runs a command and returns its CPU time and the most memory that it held, in MiB; 0 where the system does
// not say. The rusage of a process has what its parent held before it, so it is read from /proc.
func measured(c *exec.Cmd) (cpu time.Duration, peak float64, err error) {
	var text strings.Builder
	c.Stderr = &text
	if err := c.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, text.String())
			}
			return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), peak, err
		case <-time.After(5 * time.Millisecond):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64); err == nil {
					peak = max(peak, kib/1024)
				}
			}
		}
	}
}
