package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// heading says what was measured, where and when.
func (o options) heading(w io.Writer) {
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // there is none on other systems
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
		}
	}
	fmt.Fprintf(w, "Measured %s on %s, %d cores, %s/%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(load), " ")
		fmt.Fprintf(w, ", load %s at the start", first)
	}
	if o.commit != "" {
		fmt.Fprintf(w, ", commit %s", o.commit)
	}
	fmt.Fprint(w, ".\n\n")
}

// table writes rows, the first of which is the heading, with columns of numbers to the right.
func table(w io.Writer, rows [][]string) {
	for n, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if n == 0 {
			fmt.Fprintf(w, "|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
	fmt.Fprintln(w)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
func mib(n int64) string       { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
func megabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

// ratio divides two numbers; "" if there is nothing to divide by.
func ratio[T time.Duration | int64](a, b T) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}
