package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
)

// listedEvents prints events as the list does.
func listedEvents(t *testing.T, asJSON bool, events ...ledger.Event) string {
	t.Helper()
	var out bytes.Buffer
	l := ledger.NewList(&out, asJSON, false)
	for _, e := range events {
		must(t, l.Add(e, nil))
	}
	must(t, l.End(ledger.EventsRead{Runs: 1}, ledger.EventsRead{Runs: 1}))
	return out.String()
}

// someEvents are events under guidance that changes after every third, and a policy
// that changes after every fifth.
func someEvents(n int) (events []ledger.Event) {
	for i := range n {
		e := benchStats(0, 1).Events[0]
		e.ID, e.GuidanceHash = fmt.Sprintf("01J%023d", i), fmt.Sprintf("%016d", i/3)
		e.PolicyHash, e.Mode = fmt.Sprintf("p%04d", i/5), "approved"
		events = append(events, ledger.Event{RunEvent: e})
	}
	return events
}

// TestGuidanceShows: wherever the guidance or the policy is another a line says so, also between
// events that are not printed together.
func TestGuidanceShows(t *testing.T) {
	events := someEvents(100)
	lines := strings.Split(listedEvents(t, false, events...), "\n")
	if !strings.HasPrefix(lines[0], "event ") || lines[1] != "guidance 0000000000000000" || lines[2] != "policy p0000 approved" {
		t.Errorf("it begins %q", lines[:3])
	}
	next := 3
	for i, e := range events {
		if i > 0 && i%3 == 0 {
			if want := "guidance " + events[i-1].GuidanceHash + " → " + e.GuidanceHash; lines[next] != want {
				t.Fatalf("line %d is %q, not %q", next, lines[next], want)
			}
			next++
		}
		if i > 0 && i%5 == 0 {
			if want := "policy " + events[i-1].PolicyHash + " approved → " + e.PolicyHash + " approved"; lines[next] != want {
				t.Fatalf("line %d is %q, not %q", next, lines[next], want)
			}
			next++
		}
		if !strings.HasPrefix(lines[next], e.ID+"  2026-01-01 00:00:01  ") {
			t.Fatalf("line %d is %q, not of %s", next, lines[next], e.ID)
		}
		next++
	}
	if rest := strings.Join(lines[next:], "\n"); rest != fmt.Sprintf("\n%d events\n", len(events)) {
		t.Errorf("it ends %q", rest)
	}
}

// TestEventsAsJSON: one object, whose events have every member.
func TestEventsAsJSON(t *testing.T) {
	for _, n := range []int{0, 1, 2, 20} {
		events := someEvents(n)
		if n > 0 {
			events[n-1].Imported = true
		}
		var got struct {
			Events []struct {
				rundir.RunEvent
				Imported        bool
				GuidanceChanged bool `json:"guidance_changed"`
				PolicyChanged   bool `json:"policy_changed"`
			}
			Runs int
		}
		if err := json.Unmarshal([]byte(listedEvents(t, true, events...)), &got); err != nil || len(got.Events) != n || got.Runs != 1 {
			t.Fatalf("%d events: %d, %v", n, len(got.Events), err)
		}
		for i, e := range got.Events {
			if e.ID != events[i].ID || e.Imported != events[i].Imported || len(e.Violations) != len(events[i].Violations) {
				t.Errorf("event %d is %+v", i, e)
			}
			if e.GuidanceChanged != (i > 0 && i%3 == 0) || e.PolicyChanged != (i > 0 && i%5 == 0) {
				t.Errorf("event %d: guidance changed %v, policy changed %v", i, e.GuidanceChanged, e.PolicyChanged)
			}
		}
	}
}

// TestEventLine: what others wrote cannot steer the terminal, pass for another line or
// break the columns; what an event must not be taken without stands behind it.
func TestEventLine(t *testing.T) {
	e := someEvents(1)[0]
	e.TaskID, e.Intent, e.GuidanceHash, e.PolicyHash = "evil\x1b[2J\nrow", "字字字字字字字字字字字字", "\x1b", "\x1b"
	e.Timestamp, e.Rehearsal, e.Imported, e.OutcomeAccepted = "", true, true, nil
	lines := strings.Split(listedEvents(t, false, e), "\n")
	if lines[1] != `guidance \u001b` || lines[2] != `policy \u001b approved` {
		t.Errorf("the guidance and the policy are %q", lines[1:3])
	}
	want := e.ID + "  " + strings.Repeat(" ", 19) + "  " + e.RunID[len(e.RunID)-8:] + `  evil\u001b[2J r…  字字字字字字字字字…   answered, not scored           1       0     12.345s  rehearsal, imported`
	if lines[3] != want {
		t.Errorf("\n%s\nnot\n%s", lines[3], want)
	}
	for _, row := range ledger.Rows(e) {
		if row[0] == "rehearsal" && row[1] == runview.RehearsalNote {
			return
		}
	}
	t.Error("show does not say that it is a rehearsal")
}

// TestShowsAll: what show prints tells of every member of an event.
func TestShowsAll(t *testing.T) {
	e := ledger.Event{RunEvent: rundir.RunEvent{Attempt: 1001, CostMicroUSD: new(int64(1002)), DiffSummary: rundir.DiffSummary{Files: 1003, LinesAdded: 1004, LinesRemoved: 1005},
		DurationMs: 1006, FilesTouched: []string{"m1007"}, GuidanceHash: "m1008", ID: "m1009", Intent: "m1010", Level: 1011, ManifestSHA256: "m1012", Model: "m1013",
		Outcome: "m1014", RetrievedRuleIDs: []string{"m1015"}, Retries: 1016, ReworkLines: 1017, Rollbacks: 1018, RunID: "m1019", Schema: "m1020", Session: "m1021",
		SignedBy: "m1022", TaskID: "m1023", TestResults: rundir.TestCounts{Failed: 1024, Passed: 1025, Ran: 1026, Skipped: 1027}, Timestamp: "m1028", Tokens: 1029,
		ToolCalls: 1030, ToolsUsed: []string{"m1031"}, Violations: []rundir.Violation{{Description: "m1032", Location: "m1033", RuleID: "m1034", Severity: "m1035"}},
		Mode: "m1036", PolicyHash: "m1037", TriggeredRuleIDs: []string{"m1038"}}}
	shown := fmt.Sprint(ledger.Rows(e))
	if one := fmt.Sprint(ledger.Rows(ledger.Event{RunEvent: rundir.RunEvent{ToolCalls: 1, Retries: 1, DiffSummary: rundir.DiffSummary{LinesAdded: 1}}})); !strings.Contains(one, "1 tool call, 1 model call retried") || !strings.Contains(one, ", 1 line added, 0 removed") {
		t.Errorf("of one it says %s", one)
	}
	for n := 1001; n <= 1038; n++ {
		want := fmt.Sprint(n)
		if n == 1006 {
			want = "1.006s"
		}
		if !strings.Contains(shown, want) {
			t.Errorf("%d is not shown: %s", n, shown)
		}
	}
	other := e
	accepted := false
	other.Counted, other.OutcomeAccepted, other.Violations = true, &accepted, []rundir.Violation{{AutoCorrected: true}}
	for _, want := range []string{"the task's result", "not accepted", " corrected"} {
		if now := fmt.Sprint(ledger.Rows(other)); !strings.Contains(now, want) {
			t.Errorf("%q is not shown: %s", want, now)
		}
	}
}

// TestSure: only a yes on a terminal, or --yes, lets something be removed.
func TestSure(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "yes please\n": false} {
		a := &app{stdin: strings.NewReader(typed), stderr: io.Discard, asks: true}
		if got, err := a.sure("do it", false); got != want || err != nil {
			t.Errorf("%q: %v, %v", typed, got, err)
		}
	}
	a := &app{stdin: strings.NewReader("y"), stderr: io.Discard, asks: true}
	if got, err := a.sure("do it", false); got || err == nil {
		t.Errorf("what was not sent off: %v, %v", got, err)
	}
	a.asks = false
	if got, err := a.sure("do it", false); got || classify(err).Code != exit.Usage {
		t.Errorf("without a terminal: %v, %v", got, err)
	}
	if got, err := a.sure("do it", true); !got || err != nil {
		t.Errorf("with --yes: %v, %v", got, err)
	}
}

// TestLedgerTimes: --since is part of the range, --until is not, to the millisecond.
func TestLedgerTimes(t *testing.T) {
	for _, c := range []struct {
		since, until, at string
		want             bool
	}{
		{"", "", "2026-01-02T00:00:00.000Z", true},
		{"2026-01-02", "", "2026-01-02T00:00:00.000Z", true},
		{"2026-01-02", "", "2026-01-01T23:59:59.999Z", false},
		{"", "2026-01-02", "2026-01-02T00:00:00.000Z", false},
		{"", "2026-01-02", "2026-01-01T23:59:59.999Z", true},
		{"2026-01-02T03:04:05+01:00", "2026-01-02T02:04:06Z", "2026-01-02T02:04:05.000Z", true},
		{"2026-01-02T03:04:05+01:00", "2026-01-02T02:04:06Z", "2026-01-02T02:04:06.000Z", false},
	} {
		q := &ledgerQuery{since: c.since, until: c.until}
		var err error
		q.From, err = cli.ParseTime("since", c.since)
		must(t, err)
		q.To, err = cli.ParseTime("until", c.until)
		must(t, err)
		if got := q.Takes(rundir.RunEvent{Timestamp: c.at}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestAttemptShows: which attempt at a task a line is of stands in it, and whether that
// one is counted.
func TestAttemptShows(t *testing.T) {
	events := someEvents(2)
	events[0].Counted, events[1].Attempt = false, 12
	lines := strings.Split(listedEvents(t, false, events...), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "policy ") || strings.HasPrefix(l, "guidance ") })
	if first := lines[1]; !strings.HasSuffix(first, "  not counted") || !strings.Contains(first, "  c61d22de-5f6c-4…  ") {
		t.Errorf("the first attempt is %q", first)
	}
	if other := lines[2]; strings.Contains(other, "counted") || !strings.Contains(other, "  c61d22de-5f… #12  ") {
		t.Errorf("the other is %q", other)
	}
}

// TestOwnEvaluators: the example in docs/ledger.md does what is said of it, and a command
// runs only where it is asked for.
func TestOwnEvaluators(t *testing.T) {
	t.Parallel()
	_, doc, found := strings.Cut(readFile(t, "docs/ledger.md"), "**Custom evaluators**")
	blocks := regexp.MustCompile("(?s)```(yaml|shell)\n(.*?)```").FindAllStringSubmatch(doc, 2)
	if !found || len(blocks) != 2 {
		t.Fatalf("docs/ledger.md has the examples %q", blocks)
	}
	p := newProgram(t)
	p.env = append(p.env, "PATH="+os.Getenv("PATH"), "OPENAI_ADMIN_TOKEN=not-for-others-3f2a")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.want(exit.OK, "run", "--task", "fab1e005-0000-4000-8000-000000000005,fab1e011-0000-4000-8000-000000000011")
	write("gaia.yaml", blocks[0][2])
	write("few-tokens.sh", blocks[1][2]+"touch ran\n")
	p.want(exit.OK, "ledger", "evaluate")
	if exists(filepath.Join(p.dir, "ran")) {
		t.Fatal("the command ran without --evaluators")
	}
	out := p.want(exit.OK, "ledger", "evaluate", "--evaluators")
	if first, _, _ := strings.Cut(out, "\n"); first != "gaia: the evaluator few-tokens runs for each event, for 5s at most: sh few-tokens.sh" {
		t.Errorf("it begins with %q", first)
	}
	if !regexp.MustCompile(`(?m)^ few-tokens +2 +0 *$`).MatchString(out) || !exists(filepath.Join(p.dir, "ran")) {
		t.Errorf("evaluate says:\n%s", out)
	}
	write("few-tokens.sh", strings.Replace(blocks[1][2], "20000", "1", 1))
	out = p.want(exit.Findings, "ledger", "evaluate", "--evaluators")
	if !regexp.MustCompile(`few-tokens: \d+ tokens\n`).MatchString(out) || !regexp.MustCompile(`(?m)^ few-tokens +0 +2 *$`).MatchString(out) {
		t.Errorf("evaluate says:\n%s", out)
	}
	write("few-tokens.sh", "env >&2\nprintf '\\033[31mhostile\\n' >&2\nexit 7\n")
	out = p.want(exit.Findings, "ledger", "evaluate", "--evaluators")
	if !strings.Contains(out, `few-tokens: failed: exit status 7: \u001b[31mhostile`+"\n") || strings.Contains(out, "3f2a\n") {
		t.Errorf("evaluate says:\n%s", out)
	}
	write("few-tokens.sh", "env | grep -q -e TOKEN -e HF_ && exit 9\necho '{\"pass\":true,\"details\":\"\"}'\n")
	out = p.want(exit.OK, "ledger", "evaluate", "--evaluators", "--json")
	if !strings.Contains(out, `{"details":"","name":"few-tokens","pass":true,"score":1}`) {
		t.Errorf("evaluate says:\n%s", out)
	}
	for settings, want := range map[string]string{
		"":                                       "names no evaluators",
		"model: gpt-4o\n":                        "names no evaluators",
		"evaluators:\n  a: [sh]\n":               "this is no mapping",
		"evaluators: sh\n":                       "is no mapping",
		"evaluators:\n  A:\n    command: [sh]\n": "is no name of an evaluator",
		"evaluators:\n  tests-pass:\n    command: [sh]\n":                                        "gaia has an evaluator",
		"evaluators:\n  a:\n    timeout: 5s\n":                                                   "has no command",
		"evaluators:\n  a:\n    command: sh\n":                                                   "string was used where sequence is expected",
		"evaluators:\n  a:\n    command: [sh]\n    timeout: 1h\n":                                "the timeout of the evaluator \"a\" is none",
		"evaluators:\n  a:\n    command: [sh]\n    timeout: 0s\n":                                "the timeout of the evaluator \"a\" is none",
		"evaluators:\n  a:\n    command: [sh]\n    env: [A]\n":                                   "unknown field \"env\"",
		"evaluators:\n  a:\n    command: [sh]\n    command: [sh]\n":                              "already defined",
		"evaluators:\n  a:\n    command: [sh]\n  a:\n    command: [sh]\n":                        "already defined",
		"evaluators:\n  a:\n    command: [sh, sk-proj-0123456789abcdefABCDEF0123456789abcdef]\n": "looks like a key",
	} {
		write("own.yaml", settings)
		if out := p.want(exit.Usage, "ledger", "evaluate", "--evaluators", "--settings", "own.yaml"); !strings.Contains(out, want) {
			t.Errorf("%q: %s", settings, out)
		}
	}
	p.want(exit.Usage, "ledger", "evaluate", "--settings", "own.yaml")
	p.want(exit.OK, "run", "--limit", "1") // the settings of a run may stand beside them
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
