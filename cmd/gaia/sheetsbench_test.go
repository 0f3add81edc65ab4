package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// The size that the queries are bounded for.
const (
	benchRuns  = 100
	benchTasks = 466
)

// benchSheet is the sheet of a run of so many tasks, each of whose events has
// something in every member: some 900 bytes of JSON.
func benchSheet(run, tasks int) ledger.Sheet {
	began := time.Date(2026, 1, 1, run, 0, 0, 0, time.UTC)
	id := func(n int) string { return fmt.Sprintf("01JABCDEFGHJK%04dM%08d", run, n) }
	hash, signer := "0123456789abcdef", "SHA256:"+strings.Repeat("k", 43)
	s := ledger.Sheet{RunID: id(0), Schema: "gaia.sheet/2", Started: began.Format(trajectory.TimeFormat), GuidanceHash: hash, SignedBy: signer,
		ManifestSHA256: sign.Digest([]byte(id(0))), Model: "gpt-4o-2024-08-06"}
	for i := range tasks {
		cost, accepted := int64(12345+i), i%3 > 0
		task, at := fmt.Sprintf("c61d22de-5f6c-4958-%04d-%012d", i, i*7919), began.Add(time.Duration(i)*time.Second).Format(trajectory.TimeFormat)
		e := ledger.RunEvent{Attempt: 1, CostMicroUSD: &cost, Counted: true, DiffSummary: ledger.DiffSummary{Files: 2, LinesAdded: i % 40, LinesRemoved: 4},
			DurationMs: 12345 + int64(i), FilesTouched: []string{"notes.txt", "table.csv"}, GuidanceHash: hash, ID: id(i + 1), Intent: "spreadsheet+code",
			Level: 1 + i%3, ManifestSHA256: s.ManifestSHA256, Mode: "autonomous", Model: s.Model, Outcome: trajectory.Answered, OutcomeAccepted: &accepted,
			PolicyHash: hash, RetrievedRuleIDs: []string{"R001", "R002", "R003", "R004", "R005", "R006"}, TriggeredRuleIDs: []string{"R001", "R004"}, Retries: i % 2, ReworkLines: i % 7, RunID: s.RunID, Schema: "gaia.run_event/2", Session: id(0),
			SignedBy: signer, TaskID: task, TestResults: ledger.TestCounts{Passed: 1, Ran: 1, Skipped: 1}, Timestamp: at, Tokens: 23456 + int64(i), ToolCalls: 7,
			ToolsUsed: []string{"python", "read_file", "web_fetch"}, Violations: []ledger.Violation{}}
		if !accepted {
			e.TestResults = ledger.TestCounts{Failed: 1, Ran: 1, Skipped: 1}
		}
		if i%2 == 0 {
			e.Denials.Rule = 1
			e.Violations = append(e.Violations, ledger.Violation{AutoCorrected: i%4 == 0, Class: "rule", Description: "code acts on the host: os.system", Location: fmt.Sprintf("turn %d, python, call c1", i%9),
				RuleID: []string{"R001", "R004", "R005"}[i%3], Severity: "high"})
		}
		s.Events = append(s.Events, e)
		s.Tasks = append(s.Tasks, ledger.SheetTask{CostMicroUSD: &cost, EvidenceComplete: true, LatencyMs: e.DurationMs, Level: e.Level, Outcome: trajectory.Solved, TaskID: task, Tokens: e.Tokens})
	}
	return s
}

// keepBench makes the files of runs that were verified, and their kept sheets.
func keepBench(b *testing.B) (r *sheetReader, folder string) {
	b.Helper()
	home := b.TempDir()
	a := &app{began: time.Now(), stderr: io.Discard, stdout: io.Discard, getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	r = &sheetReader{app: a, kept: a.openKept(), ahead: runtime.GOMAXPROCS(0)}
	if r.kept == nil {
		b.Skip("no sheet is kept on this system")
	}
	r.kept.now = func() time.Time { return time.Now().Add(time.Hour) }
	folder = filepath.Join(home, "runs")
	for i := range benchRuns {
		s := benchSheet(i, benchTasks)
		dir := filepath.Join(folder, s.RunID)
		must(b, os.MkdirAll(dir, 0o755))
		for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, ledger.TrajectoriesFile, ledger.ResultsFile, ledger.SummaryFile, trajectory.CheckpointFile} {
			write(b, filepath.Join(dir, name), "{}")
		}
		write(b, filepath.Join(dir, trajectory.JournalFile), fmt.Sprintf("{\"run_id\":%q,\"timestamp\":%q}\n", s.RunID, s.Started))
		at, settled, ok := r.kept.stamp(dir)
		if !settled || !ok {
			b.Fatal("a run has no stamp")
		}
		r.kept.keep(at, s)
	}
	return r, folder
}

// BenchmarkSheets reads 100 runs of 466 tasks from the sheets that are kept of them;
// bytes are those of their events as JSON.
func BenchmarkSheets(b *testing.B) {
	r, folder := keepBench(b)
	line, err := sign.Canonical(benchSheet(0, benchTasks).Events)
	must(b, err)
	b.SetBytes(int64(len(line) * benchRuns))
	b.ReportAllocs()
	for b.Loop() {
		found, err := r.find([]string{folder}, false, nil)
		must(b, err)
		events := 0
		read, err := r.each(found, func(s givenSheet) error {
			events += len(s.Events)
			return nil
		})
		if err = errors.Join(err, read.failed); err != nil || events != benchRuns*benchTasks {
			b.Fatal(events, err)
		}
	}
}

// BenchmarkKeptFiles only reads the bytes that BenchmarkSheets reads.
func BenchmarkKeptFiles(b *testing.B) {
	r, _ := keepBench(b)
	for b.Loop() {
		files, err := filepath.Glob(filepath.Join(r.kept.dir, "*"+keptSuffix))
		must(b, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			must(b, err)
			b.SetBytes(int64(len(data) * len(files)))
		}
	}
}

// BenchmarkKeptSheet decodes the sheet of a run of 466 tasks, as it is kept and as
// JSON.
func BenchmarkKeptSheet(b *testing.B) {
	s := benchSheet(0, benchTasks)
	packed, err := pack(s)
	must(b, err)
	text, err := sign.Canonical(s)
	must(b, err)
	for name, decode := range map[string]func(*ledger.Sheet) error{
		"packed": func(s *ledger.Sheet) error { return unpack(packed, s) },
		"json":   func(s *ledger.Sheet) error { return json.Unmarshal(text, s) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var got ledger.Sheet
				must(b, decode(&got))
			}
		})
	}
}

// BenchmarkLedger asks all queries of 100 runs of 466 tasks, as the commands do; each
// is to take less than a second on an idle machine. BenchmarkKeptFiles reads the same
// bytes. Memory is bounded by the sheets that are read at once, one for each
// processor, but for recent, which holds twice as many events as it is asked for, and
// task, which holds those of the task; peak-MB is the most that the process had while a
// query was asked.
func BenchmarkLedger(b *testing.B) {
	r, folder := keepBench(b)
	query := func() *ledgerQuery { return &ledgerQuery{runs: []string{folder}} }
	asJSON := func() *ledgerQuery { return &ledgerQuery{runs: []string{folder}, asJSON: true} }
	between := func(q *ledgerQuery) *ledgerQuery { // the later half
		q.from = time.Date(2026, 1, 1, benchRuns/2, 0, 0, 0, time.UTC)
		return q
	}
	for _, c := range []struct {
		name string
		ask  func() error
	}{
		{"rank", func() error { return r.rankRules(query()) }},
		{"metrics", func() error { return r.countMetrics(query()) }},
		{"evaluate", func() error {
			return r.evaluate(b.Context(), query(), ledger.Evaluators(ledger.DefaultLimits()))
		}},
		{"list", func() error { return r.list(query()) }},
		{"list as JSON", func() error { return r.list(asJSON()) }},
		{"range", func() error { return r.list(between(asJSON())) }},
		{"task", func() error { return r.listTask(asJSON(), benchSheet(0, 1).Events[0].TaskID) }},
		{"recent", func() error { return r.listRecent(asJSON(), 1000) }},
		{"show", func() error { return r.showEvent(query(), benchSheet(50, 1).Events[0].ID) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			debug.FreeOSMemory()
			fromHere := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // else what was before counts, too
			for b.Loop() {
				if err := c.ask(); err == nil || classify(err).Code != exitUntrusted { // the key of the sheets is made up
					b.Fatal(err)
				}
			}
			if status, err := os.ReadFile("/proc/self/status"); err == nil && fromHere == nil {
				_, peak, _ := strings.Cut(string(status), "VmHWM:")
				var kB float64
				_, err := fmt.Sscan(peak, &kB)
				must(b, err)
				b.ReportMetric(kB/1000, "peak-MB")
			}
		})
	}
}

// BenchmarkStore counts the metrics of as many events that were imported.
func BenchmarkStore(b *testing.B) {
	r, _ := keepBench(b)
	key, err := r.signingKey("")
	must(b, err, os.MkdirAll(filepath.Dir(r.storePath()), 0o700))
	f, err := os.Create(r.storePath())
	must(b, err)
	w := ledger.NewLedgerWriter(f)
	for i := range benchRuns {
		for _, e := range benchSheet(i, benchTasks).Events {
			must(b, w.Add(importable(b, e)))
		}
	}
	must(b, w.Seal(key), f.Close())
	b.Chdir(b.TempDir()) // in which there are no runs
	for b.Loop() {
		must(b, r.countMetrics(&ledgerQuery{}))
	}
}
