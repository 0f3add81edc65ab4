package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// The size that the queries are bounded for.
const (
	benchRuns  = 100
	benchTasks = 466
)

// benchStats is the stats of a run of so many tasks, each of whose events has
// something in every member: some 900 bytes of JSON.
func benchStats(run, tasks int) rundir.RunStats {
	began := time.Date(2026, 1, 1, run, 0, 0, 0, time.UTC)
	id := func(n int) string {
		var id ulid.ULID
		if err := id.SetTime(ulid.Timestamp(began.Add(time.Duration(n) * time.Second))); err != nil {
			panic(err)
		}
		return id.String()
	}
	hash, signer := "0123456789abcdef", "SHA256:"+strings.Repeat("k", 43)
	s := rundir.RunStats{RunID: id(0), Schema: "gaia.sheet/2", Started: began.Format(trajectory.TimeFormat), GuidanceHash: hash, SignedBy: signer,
		ManifestSHA256: canonical.Digest([]byte(id(0))), Model: "gpt-4o-2024-08-06"}
	for i := range tasks {
		cost, accepted := int64(12345+i), i%3 > 0
		task, at := fmt.Sprintf("c61d22de-5f6c-4958-%04d-%012d", i, i*7919), began.Add(time.Duration(i+1)*time.Second).Format(trajectory.TimeFormat)
		e := rundir.RunEvent{Attempt: 1, CostMicroUSD: &cost, Counted: true, DiffSummary: rundir.DiffSummary{Files: 2, LinesAdded: i % 40, LinesRemoved: 4},
			DurationMs: 12345 + int64(i), FilesTouched: []string{"notes.txt", "table.csv"}, GuidanceHash: hash, ID: id(i + 1), Intent: "spreadsheet+code",
			Level: 1 + i%3, ManifestSHA256: s.ManifestSHA256, Mode: "autonomous", Model: s.Model, Outcome: trajectory.Answered, OutcomeAccepted: &accepted,
			PolicyHash: hash, RetrievedRuleIDs: []string{"R001", "R002", "R003", "R004", "R005", "R006"}, TriggeredRuleIDs: []string{"R001", "R004"}, Retries: i % 2, ReworkLines: i % 7, RunID: s.RunID, Schema: "gaia.run_event/2", Session: id(0),
			SignedBy: signer, TaskID: task, TestResults: rundir.TestCounts{Passed: 1, Ran: 1, Skipped: 1}, Timestamp: at, Tokens: 23456 + int64(i), ToolCalls: 7,
			ToolsUsed: []string{"python", "read_file", "web_fetch"}, Violations: []rundir.Violation{}}
		if !accepted {
			e.TestResults = rundir.TestCounts{Failed: 1, Ran: 1, Skipped: 1}
		}
		if i%2 == 0 {
			e.Denials.Rule = 1
			e.Violations = append(e.Violations, rundir.Violation{AutoCorrected: i%4 == 0, Class: "rule", Description: "code acts on the host: os.system", Location: fmt.Sprintf("turn %d, python, call c1", i%9),
				RuleID: []string{"R001", "R004", "R005"}[i%3], Severity: "high"})
		}
		s.Events = append(s.Events, e)
		s.Tasks = append(s.Tasks, rundir.TaskStats{CostMicroUSD: &cost, EvidenceComplete: true, LatencyMs: e.DurationMs, Level: e.Level, Outcome: trajectory.Solved, TaskID: task, Tokens: e.Tokens})
	}
	return s
}

// keepBench makes the files of runs, and what was kept of them.
func keepBench(b *testing.B) (a *app, folder string) {
	b.Helper()
	home := b.TempDir()
	a = &app{began: time.Now(), stderr: io.Discard, stdout: io.Discard, getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	_, err := a.user().Keyring().Signing("")
	must(b, err)
	r, err := a.runReader()
	must(b, err)
	folder = filepath.Join(home, "runs")
	for i := range benchRuns {
		s := benchStats(i, benchTasks)
		dir := filepath.Join(folder, s.RunID)
		must(b, os.MkdirAll(dir, 0o755))
		names, err := ledger.Files(dir)
		must(b, err)
		for _, name := range names {
			write(b, filepath.Join(dir, name), "{}")
		}
		write(b, filepath.Join(dir, trajectory.JournalFile), fmt.Sprintf("{\"run_id\":%q,\"timestamp\":%q}\n", s.RunID, s.Started))
		files, _ := history.Stamp(dir, names, r.Program, time.Now())
		must(b, r.Store.Keep(history.Record{Created: s.Started, Files: files, Kind: history.KindRun, ManifestSHA256: s.ManifestSHA256, Path: dir,
			RunID: s.RunID, SignedBy: s.SignedBy}, &s))
	}
	time.Sleep(3 * time.Second) // what was changed a moment ago is read again
	return a, folder
}

// BenchmarkLedger asks all queries of 100 runs of 466 tasks, as the commands do; each
// is to take less than a second on an idle machine. Memory is bounded by the stats that are read at once, one for each
// processor, but for --last, which holds twice as many events as it is asked for; peak-MB is the most that the process had while a
// query was asked.
func BenchmarkLedger(b *testing.B) {
	a, folder := keepBench(b)
	r, err := a.runReader()
	must(b, err)
	query := func() *ledgerQuery { return &ledgerQuery{Selection: ledger.Selection{Paths: []string{folder}}} }
	asJSON := func() *ledgerQuery {
		return &ledgerQuery{Selection: ledger.Selection{Paths: []string{folder}}, asJSON: true}
	}
	between := func(q *ledgerQuery) *ledgerQuery { // the later half
		q.From = time.Date(2026, 1, 1, benchRuns/2, 0, 0, 0, time.UTC)
		return q
	}
	for _, c := range []struct {
		name string
		ask  func() error
	}{
		{"rank", func() error { return a.rankRules(r, query()) }},
		{"metrics", func() error { return a.countMetrics(r, query()) }},
		{"evaluate", func() error {
			return a.evaluate(b.Context(), r, query(), history.Evaluators(history.DefaultLimits()))
		}},
		{"list", func() error { return a.list(r, query()) }},
		{"list as JSON", func() error { return a.list(r, asJSON()) }},
		{"since", func() error { return a.list(r, between(asJSON())) }},
		{"task", func() error {
			q := asJSON()
			q.Task = benchStats(0, 1).Events[0].TaskID
			return a.list(r, q)
		}},
		{"last", func() error {
			q := asJSON()
			q.Last = 1000
			return a.list(r, q)
		}},
		{"show", func() error {
			q := query()
			q.ID = benchStats(50, 1).Events[0].ID
			return a.showEvent(r, q)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			debug.FreeOSMemory()
			fromHere := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // else what was before counts, too
			for b.Loop() {
				if err := c.ask(); err == nil || classify(err).Code != exit.Untrusted { // the key of the stats is made up
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

// BenchmarkImported counts the metrics of as many events that were imported.
func BenchmarkImported(b *testing.B) {
	a, _ := keepBench(b)
	key, err := a.user().Keyring().Signing("")
	must(b, err)
	var events []rundir.RunEvent
	for i := range benchRuns {
		events = append(events, benchStats(i, benchTasks).Events...)
	}
	must(b, history.Imported{Dir: a.historyDir()}.Replace(events, key))
	b.Chdir(b.TempDir()) // in which there are no runs
	r, err := a.runReader()
	must(b, err)
	for b.Loop() {
		must(b, a.countMetrics(r, &ledgerQuery{}))
	}
}
