package history

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// benchEvents are the events of a run, each of which has something in every member.
func benchEvents(run, tasks int) (events []rundir.RunEvent) {
	began := time.Date(2026, 1, 1, run, 0, 0, 0, time.UTC)
	id := func(n int) string {
		var id ulid.ULID
		if err := id.SetTime(ulid.Timestamp(began.Add(time.Duration(n) * time.Second))); err != nil {
			panic(err)
		}
		return id.String()
	}
	hash, signer := "0123456789abcdef", "SHA256:"+strings.Repeat("k", 43)
	for i := range tasks {
		cost, accepted := int64(12345+i), i%3 > 0
		task, at := fmt.Sprintf("c61d22de-5f6c-4958-%04d-%012d", i, i*7919), began.Add(time.Duration(i+1)*time.Second).Format(trajectory.TimeFormat)
		e := rundir.RunEvent{Attempt: 1, CostMicroUSD: &cost, Counted: true, DiffSummary: rundir.DiffSummary{Files: 2, LinesAdded: i % 40, LinesRemoved: 4},
			DurationMs: 12345 + int64(i), FilesTouched: []string{"notes.txt", "table.csv"}, GuidanceHash: hash, ID: id(i + 1), Intent: "spreadsheet+code",
			Level: 1 + i%3, ManifestSHA256: canonical.Digest([]byte(id(0))), Mode: "autonomous", Model: "gpt-4o", Outcome: trajectory.Answered, OutcomeAccepted: &accepted,
			PolicyHash: hash, RetrievedRuleIDs: []string{"R001", "R002", "R003", "R004", "R005", "R006"}, TriggeredRuleIDs: []string{"R001", "R004"}, Retries: i % 2, ReworkLines: i % 7, RunID: id(0), Schema: "gaia.run_event/2", Session: id(0),
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
		if i%5 == 0 {
			e.CostMicroUSD, e.OutcomeAccepted, e.FilesTouched, e.DiffSummary.Files = nil, nil, []string{}, 0
			e.TestResults = rundir.TestCounts{Skipped: 2}
		}
		events = append(events, e)
	}
	return events
}

func decode(data []byte) ([]rundir.RunEvent, string, error) {
	events, run, err := openAttempts(data)
	if err != nil {
		return nil, "", err
	}
	all, err := collect(events)
	return all, run, err
}

// TestAttempts: events are the same after they were written and read, nil and empty members included.
func TestAttempts(t *testing.T) {
	for _, n := range []int{0, 1, 466} {
		events := benchEvents(1, n)
		data, err := encodeAttempts(events, "run")
		if err != nil {
			t.Fatal(err)
		}
		again, err := encodeAttempts(events, "run")
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%d events: other bytes the second time, %v", n, err)
		}
		got, run, err := decode(data)
		if err != nil || run != "run" || len(got) != n {
			t.Fatalf("%d events: %d, %q, %v", n, len(got), run, err)
		}
		for i := range events {
			want, err := canonical.Encode(events[i])
			if err != nil {
				t.Fatal(err)
			}
			if have, err := canonical.Encode(got[i]); err != nil || !bytes.Equal(want, have) {
				t.Fatalf("event %d is\n%s, not\n%s: %v", i, have, want, err)
			}
		}
	}
}

// TestAttemptsRefused: rows that are no run events, or not in their order, are refused.
func TestAttemptsRefused(t *testing.T) {
	for name, change := range map[string]func([]rundir.RunEvent){
		"order":  func(e []rundir.RunEvent) { e[0], e[1] = e[1], e[0] },
		"twice":  func(e []rundir.RunEvent) { e[1] = e[0] },
		"level":  func(e []rundir.RunEvent) { e[2].Level = 4 },
		"schema": func(e []rundir.RunEvent) { e[2].Schema = "gaia.run_event/1" },
	} {
		events := benchEvents(1, 3)
		change(events)
		data, err := encodeAttempts(events, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decode(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzAttempts: whatever the bytes are, they are refused or are run events that give equal bytes.
func FuzzAttempts(f *testing.F) {
	data, err := encodeAttempts(benchEvents(1, 4), "{}")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		events, run, err := decode(data)
		if err != nil {
			return
		}
		if _, err := encodeAttempts(events, run); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkAttempts decodes the events of a run of 466 tasks.
func BenchmarkAttempts(b *testing.B) {
	data, err := encodeAttempts(benchEvents(1, 466), "")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, _, err := decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
