package page

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/transcript"
)

// The sample is an invented run of n tasks, as the server would describe it.

func ptr[T any](v T) *T { return &v }

func sampleRow(n int) RunRow {
	score := stats.NewRate(n*11/20, n)
	return RunRow{ID: "01JDN4QZ8M3W5X7RT2K6HV9PBC", Path: "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC", Dir: "runs/01JDN4QZ8M3W5X7RT2K6HV9PBC", Started: "2026-11-26T09:14:05Z",
		Model: "example/large-2", Dataset: "GAIA 2023 validation", State: "complete", Planned: n, Done: n, Score: &score, CostMicroUSD: ptr(int64(12_431_200)), FindingsText: "2 open", Verified: true}
}

func sampleHead(title string) Head {
	return Head{Title: title, Trail: []Link{{"Runs", "/"}, {"01JDN4QZ8M", "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC"}}, Program: "gaia 0.30.0"}
}

func sampleRuns() Runs {
	rows := []RunRow{sampleRow(165)}
	for i, state := range []string{"running", "interrupted", "stopped", "damaged", "complete", "complete"} {
		r := sampleRow(165)
		r.ID = fmt.Sprintf("01JDM%dKX8M3W5X7RT2K6HV9PBC", i)
		r.Path, r.State, r.Verified = "/run/"+r.ID, state, false
		r.Done = 40 + 9*i
		r.FindingsText = ""
		switch state {
		case "running":
			r.Score, r.CostMicroUSD = nil, nil
		case "damaged":
			r.Score, r.Problem = nil, "events.jsonl, line 812: the hash of the line before is another one"
		case "complete":
			r.Rehearsal, r.Done, r.Planned, r.Agent, r.Model, r.Dataset = i == 5, 53, 53, "recipes/browser", "example/small-1", "GAIA 2023 validation, level 1"
			rate := stats.NewRate(20+i, 53)
			r.Score, r.CostMicroUSD = &rate, ptr(int64(310_400*i))
		}
		rows = append(rows, r)
	}
	return Runs{Head: Head{Title: "Runs", Program: "gaia 0.30.0"}, Rows: rows}
}

func sampleRun(n int) Run {
	row := sampleRow(n)
	r := Run{Head: sampleHead(row.ID), Row: row, All: n, Found: n, AuditPath: row.Path + "/audit", PlotsPath: row.Path + "/plot/"}
	r.Trail = r.Trail[:1]
	r.Notices = []Notice{{NoticeWarn, "Signed by a key that is not trusted here: ed25519:7f0c…\nhint: gaia key trust 7f0c41d9"}}
	var levels []plot.LevelRate
	for i, name := range []string{"all", "1", "2", "3"} {
		planned := []int{n, n * 53 / 165, n * 86 / 165, n * 26 / 165}[i]
		official, judged := stats.NewRate(planned*(70-10*i)/100, planned), stats.NewRate(planned*(73-10*i)/100, planned)
		r.Levels = append(r.Levels, Level{name, planned, planned, &official, &judged})
		levels = append(levels, plot.LevelRate{Name: name, Official: &official, Judged: &judged})
	}
	r.Outcomes = [][2]string{{"solved", fmt.Sprint(n * 11 / 20)}, {"failed", fmt.Sprint(n * 7 / 20)}, {"error", fmt.Sprint(n / 20)}, {"skipped", fmt.Sprint(n - n*11/20 - n*7/20 - n/20)}}
	r.Spent = [][2]string{{"cost", "$12.43 of at most $20.00"}, {"tokens", "8,214,330 in, 412,908 out"}, {"time", "1 h 12 min, 8 at once"}, {"model calls", "2,310, of which 14 were repeated"}}
	r.Findings = [][2]string{{"AUD-03 answer-leakage", "1 HIGH, 1 REVIEW"}, {"AUD-09 budget", "1 gap"}}
	r.Events = [][2]string{{"09:31:12", "requests at once to api.example: 4, before 8 (rate limit)"}, {"09:58:40", "the run was interrupted, and resumed at 10:02:11"}}
	r.Facts = [][2]string{{"plan", "sha256:5f0c2a6de0cf1b8a0d3c5b1e6f3a9d84b7c2e1f05a6d8c9b3e7f1a2d4c6b8e90"}, {"dataset", "GAIA 2023 validation, 165 tasks, revision 682dd723"}, {"key", "ed25519:7f0c41d9"}, {"policy", "strict, 3 rules"},
		{"budgets", "60 turns, 200 tool calls, 1,000,000 tokens, 30 min, $0.50 a task; $20.00 the run"}}
	var spent []plot.Spent
	var spans []plot.Span
	for i := range 40 {
		spent = append(spent, plot.Spent{Ms: int64(i) * 108_000, CostMicroUSD: int64(i*i) * 7_770, Tokens: int64(i) * 205_000})
		spans = append(spans, plot.Span{Task: fmt.Sprintf("task-%02d", i), Attempt: 1, Start: int64(i/4) * 400_000, End: int64(i/4)*400_000 + int64(i%7+1)*90_000, Outcome: "answered"})
	}
	r.Plots = []plot.Plot{plot.AccuracyByLevel(levels), plot.CostOverTime(spent, 3), plot.Attempts(spans)}
	r.Choices = Choices{Outcomes: []string{"solved", "failed", "error", "skipped"}, Tools: []string{"search", "open_page", "python", "read_document"}, Checks: []string{"AUD-03", "AUD-09"}, Levels: []int{1, 2, 3}}
	r.Compare = []Link{{"01JDM5KX8M3W5X7RT2K6HV9PBC, example/small-1", "/compare?a=01JDN4QZ8M&b=01JDM5KX8M"}}
	for i := range n {
		outcome := []string{"solved", "solved", "failed", "solved", "failed", "error", "solved", "skipped"}[i%8]
		id := fmt.Sprintf("%08x-5f6c-4958-a7f6-%012x", 0x61d22de*(i+1)%0xffffffff, 0x5e9707bd3466*(i+3)%0xffffffffffff)
		t := TaskRow{ID: id, Path: Paths{row.Path}.Task(id), Level: 1 + i%3, Outcome: outcome, Attempts: 1 + i%11/10, Turns: 3 + i*7%20, ToolCalls: 2 + i*5%31, Tokens: int64(4210 + i*7919%90000), LatencyMs: int64(900 + i*48271%400000)}
		if outcome == "solved" || outcome == "failed" {
			t.Answer, t.Official, t.Judged = []string{"17", "the northern lighthouse", "3.14 metres", "a, b, c and the long list of what else was found in the archive"}[i%4], ptr(outcome == "solved"), ptr(outcome == "solved" || i%16 == 2)
		}
		t.Tools = r.Choices.Tools[:1+i%4]
		if i%9 != 8 {
			t.CostMicroUSD = ptr(int64(2_300 + i*104729%400_000))
		}
		if i == 2 {
			t.Findings = []string{"AUD-03"}
		}
		r.Tasks = append(r.Tasks, t)
	}
	return r
}

var sampleFinding = Finding{ID: "f3a91c", Check: "AUD-03", Rule: "AUD-03.answer-in-page", Severity: "HIGH", Task: "061d22de-5f6c-4958-a7f6-5e9707bd3466", TaskPath: "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC/task/061d22de-5f6c-4958-a7f6-5e9707bd3466",
	Text: "A page that the agent read contains question and answer together: 1 of 14 passages.", Lines: []Link{{"812", "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC/journal?line=812"}, {"815", "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC/journal?line=815"}}}

func sampleTask() Task {
	row := sampleRow(165)
	id := "061d22de-5f6c-4958-a7f6-5e9707bd3466"
	p := Paths{row.Path}
	t := Task{Head: sampleHead(id), RunID: row.ID, ID: id, Level: 2, Outcome: "failed", Attempt: 1, Counted: 1, Path: p.Task(id), PicturePath: p.Pictures(), BodyPath: p.Bodies(), JournalPath: p.Journal(), PlotsPath: p.TaskPlots(id, 1)}
	t.Question = "How many lighthouses of the attached table were lit by electricity before the harbour wall was finished? Answer with a number without words."
	t.Files = [][2]string{{"lighthouses.xlsx", "18.2 kB, sha256:5f0c2a6d…"}}
	t.Attempts = []Link{{"1", t.Path + "?attempt=1"}, {"2", t.Path + "?attempt=2"}}
	t.Facts = [][2]string{{"turns", "4 of 60"}, {"tool calls", "5 of 200"}, {"tokens", "41,220 in, 1,804 out"}, {"cost", "$0.0713"}, {"time", "48.2 s"}}
	t.Answer, t.Gold = ptr("17"), ptr("19")
	t.Verdicts = [][2]string{{"official scorer", "incorrect"}, {"judge", "incorrect: “The answer is another number.”"}}
	t.Findings = []Finding{sampleFinding}
	t.Plots = []plot.Plot{plot.Turns([]plot.Turn{{Number: 1, TokensIn: 4000, TokensOut: 220, LatencyMs: 2100, Failed: false}, {Number: 2, TokensIn: 9000, TokensOut: 310, LatencyMs: 3900, Failed: false}, {Number: 3, TokensIn: 13000, TokensOut: 180, LatencyMs: 2500, Failed: true}, {Number: 4, TokensIn: 15000, TokensOut: 90, LatencyMs: 1700, Failed: false}})}
	at := func(s int) string { return fmt.Sprintf("2026-11-26T09:14:%02d.5Z", s) }
	t.Chunk = transcript.Chunk{From: 0, Next: 200, Prev: -1, Total: 412, Open: true, Items: []transcript.Item{
		{Line: 801, Time: at(5), Kind: "task", Title: "question", Text: t.Question},
		{Line: 802, Time: at(6), Turn: 1, Kind: "prompt", Title: "prompt: 2 new messages, 1,904 bytes"},
		{Line: 803, Time: at(8), Turn: 1, Kind: "reply", Title: "example/large-2 answered with 2 tool calls", Text: "I will read the table first, and look up when the harbour wall was finished.", Facts: [][2]string{{"latency", "2.1 s"}, {"tokens", "4,000 in, 220 out"}}},
		{Line: 804, Time: at(8), Turn: 1, Kind: "call", Call: "c1", Title: "read_document lighthouses.xlsx", Text: "{\n  \"path\": \"lighthouses.xlsx\",\n  \"sheet\": 1\n}"},
		{Line: 805, Time: at(8), Turn: 1, Kind: "call", Call: "c2", Title: "search", Text: "{\n  \"query\": \"harbour wall finished year\"\n}"},
		{Line: 806, Time: at(8), Turn: 1, Kind: "decision", Call: "c1", Title: "allowed"},
		{Line: 807, Time: at(8), Turn: 1, Kind: "decision", Call: "c2", Title: "refused: the rule no-search-of-the-question", Bad: true, Facts: [][2]string{{"rule", "no-search-of-the-question"}, {"class", "rule"}}},
		{Line: 809, Time: at(9), Turn: 1, Kind: "result", Call: "c1", Title: "read_document: 142 rows", Text: strings.Repeat("North Head | 1871 | oil | 1904 electricity | keeper until 1962\n", 60), Cut: "The first 4,096 of 61,204 bytes are recorded.", Facts: [][2]string{{"sha256", "9f0c…"}, {"probes", "question 0, answer 0"}}, BodyOf: "sha256:9f0c2a6de0cf1b8a0d3c5b1e6f3a9d84b7c2e1f05a6d8c9b3e7f1a2d4c6b8e90"},
		{Line: 812, Time: at(14), Turn: 2, Kind: "reply", Title: "example/large-2 answered with 1 tool call", Text: "Seventeen lamps were changed before 1911. I will count once more with a program.\n\n1. Read all rows.\n2. Keep those before 1911.\n3. Count."},
		{Line: 813, Time: at(14), Turn: 2, Kind: "call", Call: "c3", Title: "python", Text: "import openpyxl\nrows = list(openpyxl.load_workbook('lighthouses.xlsx').active.values)\nprint(sum(1 for r in rows[1:] if r[3] and int(r[3][:4]) < 1911))"},
		{Line: 814, Time: at(14), Turn: 2, Kind: "decision", Call: "c3", Title: "allowed"},
		{Line: 815, Time: at(19), Turn: 2, Kind: "result", Call: "c3", Title: "python: exit 0", Text: "17\n", Pictures: []transcript.Picture{{Name: "plot.png", SHA256: strings.Repeat("ab", 32), Type: "image/png", Kept: true}}},
		{Line: 816, Time: at(20), Turn: 3, Kind: "reply", Title: "the endpoint failed: HTTP 503", Bad: true, Facts: [][2]string{{"try", "1 of 5"}}},
		{Line: 821, Time: at(31), Turn: 4, Kind: "answer", Title: "answer committed", Text: "17"},
		{Line: 822, Time: at(31), Kind: "end", Title: "attempt ended: answered", Text: "diff --git a/notes.txt b/notes.txt\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,3 @@\n count the lamps\n-wall: unknown\n+wall: 1911\n+lamps: 17\n", Diff: true},
		{Line: 830, Time: at(40), Kind: "verdict", Title: "official scorer: incorrect", Facts: [][2]string{{"path", "number"}}},
	}}
	return t
}

func sampleAudit() Audit {
	closed := sampleFinding
	closed.Closed, closed.Severity, closed.Lines = "dismissed by ed25519:1c2d: “The page is a copy of the question only.”", "REVIEW", nil
	return Audit{Head: sampleHead("Audit"), Row: sampleRow(165), Summary: [][2]string{{"verdict", "1 HIGH finding is open"}, {"audited", "2026-11-26T10:40:00Z"}, {"tasks", "165 planned, 171 attempts, 24,108 events"}},
		Checks: []Check{
			{ID: "AUD-01", Name: "chain", Title: "Is the journal complete, and signed by the key of the plan?", Status: "pass", Gate: true},
			{ID: "AUD-03", Name: "answer-leakage", Title: "Did an input contain the expected answer?", Status: "fail", Severity: "HIGH", Findings: []Finding{sampleFinding, closed}},
			{ID: "AUD-09", Name: "budgets", Title: "Did an attempt use more than it was given?", Status: "skip", Gate: true, Gaps: []string{"The price of 3 calls is unknown."}},
			{ID: "AUD-12", Name: "prompts", Title: "Are prompts what the templates make?", Status: "n/a", Absent: "The run has an own agent."},
			{ID: "AUD-15", Name: "conduct", Title: "Did the agent break rules?", Status: "review", Severity: "REVIEW", Findings: []Finding{closed}},
		}}
}

func sampleCompare() Compare {
	a, b := sampleRow(165), sampleRow(165)
	rate := stats.NewRate(102, 165)
	b.ID, b.Path, b.Score, b.Model, b.CostMicroUSD = "01JDM5KX8M3W5X7RT2K6HV9PBC", "/run/01JDM5KX8M", &rate, "example/small-1", ptr(int64(3_100_000))
	c := Compare{Head: sampleHead("Compare"), A: a, B: b, Summary: [][2]string{{"difference", "+6.7 percentage points for B, 95 % interval −1.2 to 14.5: chance can explain it"}, {"McNemar", "p = 0.11; 24 better, 13 worse"}, {"cost", "$9.33 less for B"}}}
	for i := range 12 {
		t := ComparedTask{ID: fmt.Sprintf("%08x-5f6c-4958-a7f6-5e9707bd3466", 0x61d22de*(i+1)), Level: 1 + i%3, A: "solved", B: "failed", APath: a.Path + "/task/1", BPath: b.Path + "/task/1", AAnswer: "17", BAnswer: "19", ACost: ptr(int64(71_300)), BCost: ptr(int64(20_100)), Flip: "worse"}
		switch i % 3 {
		case 1:
			t.A, t.B, t.Flip = "failed", "solved", "better"
		case 2:
			t.A, t.B, t.Flip, t.BCost = "solved", "solved", "", nil
		}
		c.Tasks = append(c.Tasks, t)
	}
	return c
}

func sampleHistory() History {
	var trend []plot.TrendPoint
	for i := range 9 {
		rate := stats.NewRate(20+3*i, 53)
		trend = append(trend, plot.TrendPoint{Name: fmt.Sprintf("2026-W%d", 40+i), Start: fmt.Sprintf("2026-%02d-%02d", 10+i/5, 1+7*(i%4)), Runs: 2, Rate: &rate, CostPer: ptr(int64(120_000))})
	}
	return History{Head: Head{Title: "History", Trail: []Link{{"Runs", "/"}}}, Plots: []plot.Plot{plot.Trend(trend)}, PlotsPath: "/history/plot/",
		Trend: Table{Columns: []string{"week", "runs", "solved", "rate"}, Rows: [][]string{{"2026-W47", "3", "88", "53.3 %"}, {"2026-W48", "2", "102", "61.8 %"}}},
		Rules: Table{Columns: []string{"rule", "denials", "solved after it"}, Note: "No rule was broken."}}
}

func sampleJournal() Journal {
	j := Journal{Head: sampleHead("Journal, line 812"), At: 812, Prev: "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC/journal?line=807", Next: "/run/01JDN4QZ8M3W5X7RT2K6HV9PBC/journal?line=817"}
	for n := int64(810); n < 815; n++ {
		l := JournalLine{Number: n, Text: fmt.Sprintf("{\n  \"type\": \"model_call_completed\",\n  \"seq\": %d,\n  \"task_id\": \"061d22de-5f6c-4958-a7f6-5e9707bd3466\",\n  \"prev\": \"%s\"\n}", n, strings.Repeat("5f0c2a6d", 8))}
		if n == 813 {
			l.Bad, l.Cut = "the hash of the line before is another one", "The first 4,096 of 9,210 bytes are shown."
		}
		j.Lines = append(j.Lines, l)
	}
	return j
}

func sampleReport(n int, texts bool) Report {
	audit := sampleAudit()
	r := Report{Run: sampleRun(n), Audit: &audit, Verified: "by gaia 0.30.0 on 2026-11-26", Command: "gaia verify runs/01JDN4QZ8M3W5X7RT2K6HV9PBC",
		Origin: [][2]string{{"run", "01JDN4QZ8M3W5X7RT2K6HV9PBC"}, {"key", "ed25519:7f0c41d9"}, {"tree head", "sha256:" + strings.Repeat("5f0c2a6d", 8)}, {"written by", "gaia 0.30.0"}}}
	for i := range r.Run.Tasks {
		if !texts {
			r.Run.Tasks[i].Answer = ""
		}
	}
	if texts {
		t := sampleTask()
		t.ID = r.Run.Tasks[0].ID
		r.Tasks = []Task{t}
	}
	return r
}

func sampleFailure() Failure {
	return Failure{Head: Head{Title: "There is no such run", Trail: []Link{{"Runs", "/"}}}, Status: 404, Text: "No run of these folders has an id that starts with 01JX.", Hint: "gaia runs"}
}

// samples are the pages of the sample by the names of their files.
func samples() map[string]page {
	return map[string]page{"runs": sampleRuns(), "run": sampleRun(24), "task": sampleTask(), "compare": sampleCompare(), "audit": sampleAudit(), "history": sampleHistory(),
		"journal": sampleJournal(), "failure": sampleFailure(), "report": sampleReport(24, true)}
}
