package overview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/net/html"
)

// write writes the files of a run into a folder.
func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parse reads a case and returns its files.
func parse(t testing.TB, text string) map[string][]byte {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return filesOf(t, c)
}

func filesOf(t testing.TB, c runs.Case) map[string][]byte {
	t.Helper()
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// varied returns the files of two runs of one story, without their gold answers, which are changed.
func varied(t testing.TB) (one, two map[string][]byte) {
	t.Helper()
	a, b := runs.Varied()
	one, two = filesOf(t, a), filesOf(t, b)
	delete(one, rundir.PrivateFile)
	delete(two, rundir.PrivateFile)
	return one, two
}

// source reads, verifies and audits what is at a place.
func source(t testing.TB, place string) Source {
	t.Helper()
	s, done, err := Read(place, verify.Env{
		Harness:    func() (trajectory.Harness, error) { return trajectory.Harness{}, nil },
		Incomplete: func(string, *rundir.Run) error { return exit.New(exit.Incomplete, errors.New("it is not finished")) },
	}, func() (keyring.Trust, error) { return keyring.Trust{}, nil }) // trusts no key
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	s.Paths, s.Program = page.Paths{Run: "/run/R"}, "gaia v0"
	return s
}

// run returns the page of a run.
func run(t testing.TB, s Source) page.Run {
	t.Helper()
	p, err := Run(s, page.TaskFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil || out.Len() == 0 {
		t.Fatalf("%d bytes: %v", out.Len(), err)
	}
	return p
}

// notice returns the texts of notices of a kind.
func notice(h page.Head, kind string) string {
	var all []string
	for _, n := range h.Notices {
		if n.Kind == kind {
			all = append(all, n.Text)
		}
	}
	return strings.Join(all, "\n")
}

// value returns the value of a row.
func value(rows [][2]string, name string) string {
	for _, r := range rows {
		if r[0] == name {
			return r[1]
		}
	}
	return ""
}

func plotOf(t testing.TB, all []plot.Plot, name string) plot.Plot {
	t.Helper()
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no plot %s", name)
	return plot.Plot{}
}

// TestRunPage compares the page of a complete run with its summary and its results.
func TestRunPage(t *testing.T) {
	one, _ := varied(t)
	for name, files := range map[string]map[string][]byte{"pair": filesOf(t, runs.Good()["pair"]), "varied": one} {
		dir := write(t, files)
		s := source(t, dir)
		p := run(t, s)
		verified, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum := verified.Summary()
		if p.Row.State != "complete" || !p.Row.Verified || p.Row.ID != sum.RunID || p.Row.Score == nil || *p.Row.Score != sum.Scores.Official {
			t.Errorf("%s: %+v", name, p.Row)
		}
		if p.Row.CostMicroUSD != nil && *p.Row.CostMicroUSD != *sum.Cost() || (p.Row.CostMicroUSD == nil) != (sum.Cost() == nil) {
			t.Errorf("%s: the cost %v, not %v", name, p.Row.CostMicroUSD, sum.Cost())
		}
		if p.Levels[0].Name != "all" || *p.Levels[0].Official != sum.Scores.Official || len(p.Levels) != len(sum.Levels)+1 {
			t.Errorf("%s: the levels %+v", name, p.Levels)
		}
		for i, l := range sum.Levels {
			if got := p.Levels[i+1]; got.Planned != l.Planned || got.Done != l.Planned || *got.Official != l.Scores.Official {
				t.Errorf("%s: level %d is %+v, not %+v", name, l.Level, got, l)
			}
		}
		for i, r := range slices.Collect(verified.Rows()) {
			got := p.Tasks[i]
			if got.ID != r.TaskID || got.Outcome != r.Outcome || got.Attempts != r.Attempts || got.Turns != r.Turns || got.ToolCalls != r.ToolCalls ||
				got.Tokens != r.Tokens.In+r.Tokens.Out || got.LatencyMs != r.LatencyMs || !slices.Equal(got.Tools, r.ToolsUsed) || *got.Official != *r.OfficialCorrect {
				t.Errorf("%s: task %+v, not %+v", name, got, r)
			}
		}
		if p.Found != len(p.Tasks) || p.All != len(verified.Tasks) || !strings.Contains(value(p.Spent, "calls"), fmt.Sprintf("%d turns, %d tool calls", sum.Turns, sum.ToolCalls)) {
			t.Errorf("%s: %d of %d tasks, spent %q", name, p.Found, p.All, p.Spent)
		}
		accuracy := plotOf(t, p.Plots, "accuracy-by-level")
		if len(accuracy.Rows) != len(p.Levels) || accuracy.Rows[0][1] != fmt.Sprint(sum.Scores.Official.Correct) {
			t.Errorf("%s: the plot has %q", name, accuracy.Rows)
		}
		spans := plotOf(t, p.Plots, "attempts-over-time")
		if len(spans.Rows) != sum.Attempts || spans.SVG == "" {
			t.Errorf("%s: %d attempts are drawn, of %d", name, len(spans.Rows), sum.Attempts)
		}
		cost := plotOf(t, p.Plots, "cost-over-time")
		if last := cost.Rows[len(cost.Rows)-1]; sum.Cost() != nil && last[1] != fmt.Sprintf("%d.%06d", *sum.Cost()/1e6, *sum.Cost()%1e6) {
			t.Errorf("%s: the plot ends with %q, the run cost %d", name, last, *sum.Cost())
		}
		if got := notice(p.Head, page.NoticeWarn); !strings.Contains(got, "trust") { // no key is trusted
			t.Errorf("%s: the notices %+v", name, p.Notices)
		}
	}
}

// TestVariedEvents: interruptions, and what went wrong for the whole run, are on its page in the order of time.
func TestVariedEvents(t *testing.T) {
	one, _ := varied(t)
	p := run(t, source(t, write(t, one)))
	all := fmt.Sprint(p.Events)
	for _, want := range []string{"resumed after", "stopped by its endpoint", "judge cache"} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no %q in %s", want, all)
		}
	}
	if !slices.IsSortedFunc(p.Events, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
		t.Errorf("out of order: %s", all)
	}
}

// TestFilter chooses tasks by each member of the filter, and pages them.
func TestFilter(t *testing.T) {
	one, _ := varied(t)
	s := source(t, write(t, one))
	all := run(t, s)
	check := func(f page.TaskFilter, keep func(page.TaskRow) bool) {
		t.Helper()
		p, err := Run(s, f, 0)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, row := range all.Tasks {
			if keep(row) {
				want = append(want, row.ID)
			}
		}
		var got []string
		for _, row := range p.Tasks {
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) || p.All != len(all.Tasks) || p.Found != len(want) {
			t.Errorf("%+v: %q of %d, not %q", f, got, p.All, want)
		}
	}
	used := 0
	for _, o := range all.Choices.Outcomes {
		check(page.TaskFilter{Outcome: o}, func(r page.TaskRow) bool { return r.Outcome == o })
	}
	for _, l := range all.Choices.Levels {
		check(page.TaskFilter{Level: l}, func(r page.TaskRow) bool { return r.Level == l })
	}
	for _, tool := range all.Choices.Tools {
		used++
		check(page.TaskFilter{Tool: tool}, func(r page.TaskRow) bool { return slices.Contains(r.Tools, tool) })
	}
	for _, id := range all.Choices.Checks {
		used++
		check(page.TaskFilter{Check: id}, func(r page.TaskRow) bool { return slices.Contains(r.Findings, id) })
	}
	if used < 2 {
		t.Fatalf("the choices %+v", all.Choices)
	}
	text := strings.ToUpper(all.Tasks[0].ID[4:])
	check(page.TaskFilter{Text: text}, func(r page.TaskRow) bool { return strings.Contains(strings.ToUpper(r.ID), text) })
	check(page.TaskFilter{Text: "no such text"}, func(page.TaskRow) bool { return false })
	if p, err := Run(s, page.TaskFilter{}, 1); err != nil || len(p.Tasks) != len(all.Tasks)-1 || p.From != 1 || p.Tasks[0].ID != all.Tasks[1].ID {
		t.Errorf("from the second task: %+v, %v", p.Tasks, err)
	}
	if p, err := Run(s, page.TaskFilter{}, 1000); err != nil || len(p.Tasks) != 0 {
		t.Errorf("behind the last task: %+v, %v", p.Tasks, err)
	}
}

// unfinished returns the files of a run whose journal was written up to a part of it.
func unfinished(t testing.TB, files map[string][]byte, lines int) map[string][]byte {
	t.Helper()
	all := bytes.SplitAfter(files["events.jsonl"], []byte("\n"))
	cut := map[string][]byte{}
	for _, name := range []string{"manifest.json", "manifest.dsse.json", "constitution.json"} {
		if data, there := files[name]; there {
			cut[name] = data
		}
	}
	cut["events.jsonl"] = bytes.Join(all[:lines], nil)
	cut["trajectories.jsonl"] = nil
	return cut
}

// TestUnfinished: each journal that was cut off at a line is shown as far as it goes, with a notice, and without a score of
// the run. Tasks that are going on are so shown.
func TestUnfinished(t *testing.T) {
	files := filesOf(t, runs.Good()["pair"])
	total := bytes.Count(files["events.jsonl"], []byte("\n"))
	states := map[string]bool{}
	for lines := range total {
		dir := write(t, unfinished(t, files, lines))
		journal, err := transcript.Open(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		_ = journal.Follow(func() error { return io.EOF })
		s := Source{Place: dir, Paths: page.Paths{Run: "/run/R"}, Journal: journal}
		p := run(t, s)
		if p.Row.State != "running" || p.Row.Score != nil || p.Row.Verified || !strings.Contains(notice(p.Head, page.NoticeWarn), "not finished") {
			t.Fatalf("after %d lines: %+v %+v", lines, p.Row, p.Notices)
		}
		done := 0
		for _, row := range p.Tasks {
			states[row.Outcome] = true
			if row.Official != nil {
				done++
			}
			if _, err := Task(s, row.ID, 0, 0, transcript.Filter{}); err != nil {
				t.Fatalf("after %d lines: %v", lines, err)
			}
		}
		if p.Row.Done != done || p.Levels[0].Done != done || (p.Levels[0].Official != nil) != (done > 0) {
			t.Errorf("after %d lines: %d tasks are done: %+v", lines, done, p.Levels[0])
		}
		if a, err := Audit(s); err != nil || len(a.Checks) > 0 || a.Clean {
			t.Errorf("after %d lines: an audit %+v, %v", lines, a, err)
		}
	}
	for _, want := range []string{"running", "waiting", "graded later", "solved"} {
		if !states[want] {
			t.Errorf("no task was %q: %v", want, states)
		}
	}
	s := source(t, write(t, unfinished(t, files, total-1)))
	s.State = "interrupted"
	if p := run(t, s); p.Row.State != "interrupted" || !strings.Contains(notice(p.Head, page.NoticeWarn), "not finished") || notice(p.Head, page.NoticeBad) != "" {
		t.Errorf("%+v %+v", p.Row, p.Notices)
	}
}

// TestNotClosed: a run that crashed between its last event and its last file is not said to verify.
func TestNotClosed(t *testing.T) {
	files := filesOf(t, runs.Good()["pair"])
	for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		delete(files, name)
	}
	p := run(t, source(t, write(t, files)))
	if p.Row.Verified || !strings.Contains(notice(p.Head, page.NoticeWarn), "not complete") || notice(p.Head, page.NoticeBad) != "" {
		t.Errorf("%+v %+v", p.Row, p.Notices)
	}
}

// TestLive makes all pages of a run while its journal is written and followed.
func TestLive(t *testing.T) {
	files := filesOf(t, runs.Good()["pair"])
	lines := bytes.SplitAfter(files["events.jsonl"], []byte("\n"))
	lines = lines[:len(lines)-1]
	dir := write(t, unfinished(t, files, 1))
	journal, err := transcript.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	written, followed := 1, make(chan error, 1)
	go func() {
		followed <- journal.Follow(func() error {
			if written == len(lines) {
				return io.EOF
			}
			_, err := f.Write(lines[written])
			written++
			return err
		})
	}()
	s := Source{Place: dir, Paths: page.Paths{Run: "/run/R"}, Journal: journal}
	for done := false; !done; {
		done = journal.State().Complete
		p := run(t, s)
		for _, row := range p.Tasks {
			if _, err := Task(s, row.ID, 0, 0, transcript.Filter{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Audit(s); err != nil {
			t.Fatal(err)
		}
		if done && (p.Row.State != "complete" || p.Row.Done != 2 || p.Row.Score == nil) {
			t.Errorf("%+v", p.Row)
		}
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// TestDamaged: what was changed is shown as damaged on every page, with what was read before.
func TestDamaged(t *testing.T) {
	files := filesOf(t, runs.Good()["pair"])
	lines := bytes.SplitAfter(files["events.jsonl"], []byte("\n"))
	for name, change := range map[string]func(map[string][]byte){
		"journal": func(f map[string][]byte) {
			f["events.jsonl"] = bytes.Join(append(slices.Clone(lines[:12]), bytes.Replace(lines[12], []byte("e"), []byte("f"), 1), bytes.Join(lines[13:], nil)), nil)
		},
		"line taken out": func(f map[string][]byte) {
			f["events.jsonl"] = bytes.Join(slices.Delete(slices.Clone(lines), 9, 10), nil)
		},
		"results": func(f map[string][]byte) {
			f["results.jsonl"] = bytes.Replace(f["results.jsonl"], []byte(`"failed"`), []byte(`"solved"`), 1)
		},
	} {
		changed := map[string][]byte{}
		for name, data := range files {
			changed[name] = data
		}
		change(changed)
		s := source(t, write(t, changed))
		p := run(t, s)
		if p.Row.State != "damaged" || p.Row.Problem == "" || p.Row.Verified || !strings.Contains(notice(p.Head, page.NoticeBad), s.damage().Error()) {
			t.Errorf("%s: %+v %+v", name, p.Row, p.Notices)
		}
		task, err := Task(s, p.Tasks[0].ID, 0, 0, transcript.Filter{})
		if err != nil || notice(task.Head, page.NoticeBad) == "" || len(task.Chunk.Items) == 0 {
			t.Errorf("%s: the task has %d items, %+v, %v", name, len(task.Chunk.Items), task.Notices, err)
		}
		a, err := Audit(s)
		if err != nil || a.Clean || notice(a.Head, page.NoticeBad) == "" {
			t.Errorf("%s: the audit %+v, %v", name, a, err)
		}
		c, err := Compare(s, s)
		if err != nil || len(c.Tasks) > 0 || notice(c.Head, page.NoticeBad) == "" {
			t.Errorf("%s: the comparison %+v, %v", name, c, err)
		}
		r, err := Report(s, false)
		if err != nil || r.Verified != "" || r.Problem == "" {
			t.Errorf("%s: the report is verified %q, %q: %v", name, r.Verified, r.Problem, err)
		}
	}
}

// TestUnscored: a run without gold answers has no score, and no comparison, and says so.
func TestUnscored(t *testing.T) {
	s := source(t, write(t, filesOf(t, runs.Good()["unscored"])))
	p := run(t, s)
	if p.Row.Score != nil || p.Levels[0].Official != nil || p.Row.State != "complete" || plotOf(t, p.Plots, "accuracy-by-level").SVG != "" {
		t.Errorf("%+v %+v", p.Row, p.Levels)
	}
	if value(p.Outcomes, "unscored") == "" {
		t.Errorf("the outcomes %q", p.Outcomes)
	}
	c, err := Compare(s, s)
	if err != nil || len(c.Summary) > 0 || !strings.Contains(notice(c.Head, page.NoticeWarn), "no comparison") {
		t.Errorf("%+v, %v", c.Notices, err)
	}
}

// voting is a run of which two attempts at each task vote.
const voting = `-- plan --
{"retry":{"attempts_per_task":3},"submit_intent":false,"voting":{"attempts":2,"rule":"majority.v1"}}
-- task fab1e106-0000-4000-8000-000000000001 --
question: How many passengers did the ferries of Tolm carry on the second day of March?
gold: 431
-- answer 430 --
From memory.
-- answer 431 --
From memory, once more.
`

// TestVoting: a vote has a heat map of its attempts, and each attempt its votes.
func TestVoting(t *testing.T) {
	s := source(t, write(t, parse(t, voting)))
	p := run(t, s)
	heat := plotOf(t, p.Plots, "repeats")
	if len(heat.Rows) != 1 || !slices.Equal(heat.Rows[0][2:], []string{"failed", "solved"}) {
		t.Errorf("the heat map %q", heat.Rows)
	}
	if !strings.Contains(value(p.Spent, "voting"), "2 attempts a task") {
		t.Errorf("spent %q", p.Spent)
	}
	for attempt, answer := range []string{"430", "431"} {
		task, err := Task(s, p.Tasks[0].ID, attempt+1, 0, transcript.Filter{})
		if err != nil || *task.Answer != answer || value(task.Facts, "votes") != "1" || len(task.Attempts) != 2 || task.Counted != 1 {
			t.Errorf("attempt %d: %+v, %v", attempt+1, task, err)
		}
	}
}

// TestOwnAgent: of an own agent the page says how much of what models were sent is witnessed.
func TestOwnAgent(t *testing.T) {
	s := source(t, write(t, parse(t, `-- plan --
{"agent":{"tools":"gate","network":"record"}}
-- task fab1e107-0000-4000-8000-000000000001 --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel
-- refused budget_spent --
-- batch 2 calculate {"expression":"2+2"} --
4
-- exchange GET https://almanac.example/harbours --
Tolmey, once Ostrel
-- answer Ostrel --
By the chart.
`)))
	p := run(t, s)
	if p.Row.Agent == "" || !strings.Contains(value(p.Spent, "inputs"), "%") {
		t.Errorf("%+v %q", p.Row, p.Spent)
	}
	task, err := Task(s, p.Tasks[0].ID, 0, 0, transcript.Filter{})
	if err != nil || value(task.Facts, "refused") != "1 request" || !strings.Contains(value(task.Facts, "process"), "exited") {
		t.Errorf("%q, %v", task.Facts, err)
	}
}

// TestTaskPage: the question, the files, the verdicts and the tokens of an attempt; the expected answer only where it is given.
func TestTaskPage(t *testing.T) {
	c := runs.Good()["pair"]
	s := source(t, write(t, filesOf(t, c)))
	const first, second = "fab1e902-0000-4000-8000-000000000001", "fab1e902-0000-4000-8000-000000000002"
	p, err := Task(s, first, 0, 0, transcript.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Question, "How many passengers") || len(p.Files) != 1 || p.Files[0][0] != "ferries.csv" || p.Gold != nil || *p.Answer != "431" ||
		p.Outcome != "solved" || p.Attempt != 1 || p.Counted != 1 || len(p.Chunk.Items) == 0 || !strings.Contains(value(p.Verdicts, "verdict"), "official correct") {
		t.Errorf("%+v", p)
	}
	turns := plotOf(t, p.Plots, "tokens-and-latency-by-turn")
	if len(turns.Rows) < 2 || turns.SVG == "" {
		t.Errorf("the turns %q", turns.Rows)
	}
	s.Gold = c.Gold()
	if p, err = Task(s, second, 0, 0, transcript.Filter{}); err != nil || p.Gold == nil || *p.Gold != "North Marrow" || p.Attempt != 2 || len(p.Attempts) != 2 || p.Outcome != "failed" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = Task(s, first, 0, 0, transcript.Filter{}); err != nil || plotOf(t, p.Plots, "tokens-and-latency-by-turn").Rows[0][4] != "yes" { // its first call was refused for load
		t.Errorf("%q, %v", p.Plots, err)
	}
	if p, err = Task(s, second, 1, 0, transcript.Filter{}); err != nil || p.Answer != nil || !strings.Contains(value(p.Facts, "attempt"), "error") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, attempt := range []int{-1, 3} {
		if _, err := Task(s, second, attempt, 0, transcript.Filter{}); err == nil {
			t.Errorf("there is an attempt %d", attempt)
		}
	}
	if _, err := Task(s, "no such task", 0, 0, transcript.Filter{}); !errors.Is(err, ErrNoTask) {
		t.Errorf("of no task: %v", err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
}

// TestAuditPage: every finding is there, and links to the line of the journal that it names.
func TestAuditPage(t *testing.T) {
	one, _ := varied(t)
	s := source(t, write(t, one))
	r := s.Check.Audited.Report
	p, err := Audit(s)
	if err != nil || p.Clean != r.Attestation.Clean || len(p.Checks) != len(r.Checks) {
		t.Fatalf("%+v, %v", p, err)
	}
	findings := 0
	for i, check := range r.Checks {
		if len(p.Checks[i].Findings) != len(check.Findings) || !slices.Equal(p.Checks[i].Gaps, check.Gaps) {
			t.Errorf("%s: %+v", check.ID, p.Checks[i])
		}
		for k, f := range check.Findings {
			findings++
			got := p.Checks[i].Findings[k]
			line := fmt.Sprint(f.Seq + 1)
			if got.Lines[0].Path != "/run/R/journal?line="+line+"#e"+line || !strings.Contains(got.Text, f.Got) || got.Severity != string(f.Severity) {
				t.Errorf("%+v of %+v", got, f)
			}
			if f.TaskID == "" || f.Attempt == 0 {
				continue
			}
			if from, ok := s.Journal.Place(f.TaskID, f.Attempt, f.Seq+1); !ok || !strings.Contains(got.TaskPath, "attempt="+fmt.Sprint(f.Attempt)+"&line="+line) {
				t.Errorf("%s leads to the chunk %d, %t", got.TaskPath, from, ok)
			}
		}
	}
	if findings < 3 {
		t.Errorf("%d findings", findings)
	}
	for _, row := range run(t, s).Tasks {
		task, err := Task(s, row.ID, 0, 0, transcript.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range row.Findings {
			if !slices.ContainsFunc(task.Findings, func(f page.Finding) bool { return f.Check == id }) {
				t.Errorf("task %s has no finding of %s", row.ID, id)
			}
		}
	}
}

// TestClosedFinding: a finding that was decided about says by whom and why, and counts no longer in the list of tasks.
func TestClosedFinding(t *testing.T) {
	files, _ := varied(t)
	dir := write(t, files)
	s := source(t, dir)
	var about audit.Finding
	for _, c := range s.Check.Audited.Report.Checks {
		for _, f := range c.Findings {
			if f.TaskID != "" && f.Severity == audit.Critical {
				about = f
			}
		}
	}
	ruling := audit.NewRuling(s.Check.Audited.Run, about, audit.Void, "the page held the record", "2031-02-03T04:05:06.789Z")
	sealed, err := ruling.Seal(runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, ruling.File())
	if err := errors.Join(os.Mkdir(filepath.Dir(name), 0o700), os.WriteFile(name, sealed, 0o600)); err != nil {
		t.Fatal(err)
	}
	s = source(t, dir)
	p, err := Audit(s)
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	for _, c := range p.Checks {
		for _, f := range c.Findings {
			if f.Closed == "" {
				continue
			}
			closed++
			if f.ID != audit.ShortID(about.ID) || f.Closed != "void, by the run's key "+runs.Key().Public().ID()+": the page held the record" {
				t.Errorf("%+v", f)
			}
		}
	}
	if closed != 1 {
		t.Errorf("%d findings are closed", closed)
	}
	before, after := findingsOf(&audit.Report{Checks: []audit.CheckReport{{ID: about.Check, Findings: []audit.Finding{about}}}}), findingsOf(s.report())
	if len(before[about.TaskID]) != 1 || slices.Contains(after[about.TaskID], about.Check) && !otherOpen(s.report(), about) {
		t.Errorf("before %v, after %v", before, after)
	}
	r, err := Report(s, false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil || strings.Contains(out.String(), "the page held the record") {
		t.Errorf("the report without texts has the reason of a decision: %v", err)
	}
}

// otherOpen reports whether the check of a finding has another open one about its task.
func otherOpen(r *audit.Report, about audit.Finding) bool {
	for _, c := range r.Checks {
		if slices.ContainsFunc(c.Findings, func(f audit.Finding) bool {
			return f.Check == about.Check && f.TaskID == about.TaskID && f.ID != about.ID && f.Closed == ""
		}) {
			return true
		}
	}
	return false
}

// TestComparePage compares with what gaia compare counts.
func TestComparePage(t *testing.T) {
	a, again := varied(t)
	one, two := source(t, write(t, a)), source(t, write(t, again))
	p, err := Compare(one, two)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ledger.Compare([2]*rundir.Run{one.Check.Audited.Run, two.Check.Audited.Run}, [2]string{one.Place, two.Place}, true)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(p.Summary) != fmt.Sprint(want.Rows()) || len(p.Tasks) != want.Tasks || p.A.ID == p.B.ID {
		t.Errorf("%q, not %q", p.Summary, want.Rows())
	}
	if d := plotOf(t, p.Plots, "difference"); d.Rows[0][2] != fmt.Sprint(want.A.Solved) {
		t.Errorf("the difference %q", d.Rows)
	}
	if same, err := Compare(one, one); err != nil || !strings.Contains(notice(same.Head, page.NoticeWarn), "no comparison") {
		t.Errorf("of one run: %+v, %v", same.Notices, err)
	}
	two.Check = Check{}
	if p, err := Compare(one, two); err != nil || len(p.Tasks) > 0 || !strings.Contains(notice(p.Head, page.NoticeWarn), "B is not a complete run that is verified") {
		t.Errorf("not verified: %+v, %v", p.Notices, err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
}

// TestPublicPackage: a package without texts shows its records and what the statement says of the audit, with a notice.
func TestPublicPackage(t *testing.T) {
	c := runs.Good()["pair"]
	dir, out := write(t, filesOf(t, c)), t.TempDir()
	build := func(public bool) Source {
		built, err := submit.Build(context.Background(), submit.Config{Run: dir, Out: out, Key: runs.Key(), Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}, Date: "2031-02-03",
			AllowDirty: true, Public: public, Harness: trajectory.Harness{ExecutableSHA256: "sha256:" + fmt.Sprintf("%064d", 1), Version: "v1.0.0"}})
		if err != nil {
			t.Fatal(err)
		}
		return source(t, built.Path)
	}
	s := build(true)
	if s.Check.Err != nil {
		t.Fatal(s.Check.Err)
	}
	p := run(t, s)
	whole := run(t, source(t, dir))
	if *p.Row.Score != *whole.Row.Score || len(p.Tasks) != len(whole.Tasks) || p.Tasks[0].Answer != "" || !p.Row.Verified || !strings.Contains(notice(p.Head, page.NoticeWarn), "public package") {
		t.Errorf("%+v %+v", p.Row, p.Notices)
	}
	a, err := Audit(s)
	if err != nil || len(a.Checks) != len(audit.Checks()) || a.Checks[0].Title == "" {
		t.Errorf("%+v, %v", a, err)
	}
	task, err := Task(s, p.Tasks[0].ID, 0, 0, transcript.Filter{})
	if err != nil || task.Answer != nil || task.Question != "" || value(task.Verdicts, "official") != "correct" {
		t.Errorf("%+v, %v", task, err)
	}
	if _, err := Task(s, "no such task", 0, 0, transcript.Filter{}); !errors.Is(err, ErrNoTask) {
		t.Errorf("of no task: %v", err)
	}
	if _, err := Report(s, false); err != nil {
		t.Error(err)
	}
	full := build(false)
	if p := run(t, full); *p.Row.Score != *whole.Row.Score || p.Tasks[0].Answer != "431" {
		t.Errorf("the full package: %+v", p.Row)
	}
	if task, err := Task(full, p.Tasks[0].ID, 0, 0, transcript.Filter{}); err != nil || !strings.Contains(task.Question, "How many passengers") {
		t.Errorf("%+v, %v", task, err)
	}
	// One that does not verify is shown as damaged, without a number of it.
	place := s.Place
	if err := os.WriteFile(filepath.Join(place, rundir.ResultsFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bad := source(t, place)
	bad.Paths.Run = "/run/1"
	p = run(t, bad)
	if p.Row.State != "damaged" || p.Row.Problem == "" || p.Row.Verified || p.Row.Score != nil || p.Row.Done+p.Row.Planned+len(p.Tasks)+len(p.Levels)+len(p.Facts) > 0 ||
		!strings.HasPrefix(notice(p.Head, page.NoticeBad), "does not verify: ") || p.Row.Agent != "unknown agent" {
		t.Errorf("a damaged public package: %+v", p)
	}
	if err := p.Write(io.Discard); err != nil {
		t.Error(err)
	}
	if _, err := Task(bad, "any", 0, 0, transcript.Filter{}); err == nil {
		t.Error("a task of a damaged public package is shown")
	}
	if _, err := Audit(bad); err == nil {
		t.Error("the audit of a damaged public package is shown")
	}
	if c, err := Compare(bad, full); err != nil || c.A.State != "damaged" || len(c.Tasks) > 0 || !strings.Contains(notice(c.Head, page.NoticeWarn), "no comparison") {
		t.Errorf("compared: %+v, %v", c, err)
	}
	for _, texts := range []bool{false, true} {
		r, err := Report(bad, texts)
		if err != nil || r.Problem == "" || r.Verified != "" || r.Audit != nil {
			t.Fatalf("the report of a damaged public package: %+v, %v", r, err)
		}
		var b strings.Builder
		if err := r.Write(&b); err != nil || strings.Contains(b.String(), filepath.Base(place)) != texts {
			t.Errorf("with texts %t, it names its folder otherwise: %v", texts, err)
		}
	}
	s.Check = Check{}
	if _, err := Run(s, page.TaskFilter{}, 0); err == nil {
		t.Error("a public package is shown before it is verified")
	}
}

// TestHistoryPage compares with what gaia trend and gaia ledger rank count; what does not verify is named and left out.
func TestHistoryPage(t *testing.T) {
	folder := t.TempDir()
	a, again := runs.Varied()
	for name, c := range map[string]runs.Case{"a": a, "b": again, "pair": runs.Good()["pair"]} {
		if err := c.Write(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	reader := func() *ledger.Reader {
		return &ledger.Reader{Store: &history.Store{}, Now: time.Now, AtOnce: 2, Log: io.Discard, Verify: ledger.Stats,
			Incomplete: func(string, *rundir.Run) error { return exit.New(exit.Incomplete, errors.New("it is not finished")) }}
	}
	p, err := History(reader(), []string{folder}, history.ByDay, "")
	if err != nil {
		t.Fatal(err)
	}
	trend, _, err := reader().Trend([]string{folder}, history.ByDay, ledger.Query{})
	if err != nil {
		t.Fatal(err)
	}
	rules, _, err := reader().Rank(ledger.Selection{Paths: []string{folder}, NoImported: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Trend.Rows) != len(trend.Buckets) || len(p.Rules.Rows) != len(rules) || len(rules) == 0 || p.Rules.Rows[0][0] != rules[0].RuleID {
		t.Errorf("%q and %q, not %+v and %+v", p.Trend, p.Rules, trend.Buckets, rules)
	}
	if heat := plotOf(t, p.Plots, "repeats"); len(heat.Columns) != 5 {
		t.Errorf("the heat map has the columns %q", heat.Columns)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(folder, "pair", "results.jsonl")
	if err := os.WriteFile(results, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := History(reader(), []string{folder}, history.ByWeek, ""); err != nil || !strings.Contains(notice(p.Head, page.NoticeBad), "pair") {
		t.Errorf("%+v, %v", p.Notices, err)
	}
	if p, err := History(reader(), []string{t.TempDir()}, history.ByWeek, ""); err != nil || len(p.Trend.Rows) > 0 || p.Trend.Note == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestReportWithoutTexts: with another text in each place where someone can choose one, no report without texts has any
// of them but those of the plan, ids and names that a public package shows, too.
func TestReportWithoutTexts(t *testing.T) {
	mark := func(n int) string { return fmt.Sprintf("zq%dqz", n) }
	texts := map[string]string{}
	files, err := runs.Hostile(func(n int, text string) string {
		texts[mark(n)] = text
		return mark(n)
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(files, rundir.PrivateFile)
	dir := write(t, files)
	s := source(t, dir)
	if s.Check.Err != nil {
		t.Fatal(s.Check.Err)
	}
	write := func(withTexts bool) string {
		r, err := Report(s, withTexts)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	without, with := write(false), write(true)
	plan, shown := string(files["manifest.json"]), 0
	for m, text := range texts {
		if strings.Contains(with, m) {
			shown++
		}
		if !strings.Contains(without, m) {
			continue
		}
		file := strings.Contains(text, ".csv") || strings.Contains(text, ".png")
		if !strings.Contains(plan, `"`+m+`"`) || file {
			t.Errorf("%s, which stands for %q, is in the report without texts: %s", m, text, around(without, m))
		}
	}
	if shown < len(texts)/3 {
		t.Errorf("of %d texts the report with texts shows %d", len(texts), shown)
	}
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if strings.Contains(without, name) {
			t.Errorf("the report has the place %s", name)
		}
	}
	r, err := Report(s, false)
	if err != nil || r.Verified == "" || r.Audit == nil || r.Tasks != nil {
		t.Errorf("%q %q, %v", r.Verified, r.Problem, err)
	}
}

// TestHostileTexts: whatever texts a run has, its pages have no element, attribute or address that they do not have with
// harmless ones.
func TestHostileTexts(t *testing.T) {
	pages := func(instead func(int, string) string) map[string]bool {
		files, err := runs.Hostile(instead)
		if err != nil {
			t.Fatal(err)
		}
		delete(files, rundir.PrivateFile)
		s := source(t, write(t, files))
		if s.Check.Err != nil {
			t.Fatal(s.Check.Err)
		}
		var out bytes.Buffer
		add := func(p interface{ Write(io.Writer) error }, err error) {
			t.Helper()
			if err == nil {
				err = p.Write(&out)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p := run(t, s)
		add(p, nil)
		for _, row := range p.Tasks {
			p, err := Task(s, row.ID, 0, 0, transcript.Filter{})
			add(p, err)
		}
		a, err := Audit(s)
		add(a, err)
		for _, texts := range []bool{true, false} {
			r, err := Report(s, texts)
			add(r, err)
		}
		found := map[string]bool{}
		for z := html.NewTokenizer(&out); ; {
			kind := z.Next()
			if kind == html.ErrorToken {
				return found
			}
			token := z.Token()
			if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
				continue
			}
			found["<"+token.Data+">"] = true
			for _, at := range token.Attr {
				found[token.Data+" "+at.Key] = true
				if slices.Contains([]string{"href", "src", "action", "data-chunk"}, at.Key) && !strings.HasPrefix(at.Val, "/run/R") && !strings.HasPrefix(at.Val, "#") && !strings.HasPrefix(at.Val, "/static/") {
					found[at.Key+"="+at.Val] = true
				}
			}
		}
	}
	harmless := pages(func(n int, text string) string {
		return strings.Repeat("a long text that is cut and folded\n", 40*(n%2)) + text
	})
	for from := range 3 {
		hostile := pages(func(n int, _ string) string { return runs.Payloads[(n+from*20)%len(runs.Payloads)] + fmt.Sprint(n) })
		for what := range hostile {
			if !harmless[what] {
				t.Errorf("hostile texts make %q", what)
			}
		}
	}
}

// around returns what stands around a text.
func around(all, text string) string {
	at := strings.Index(all, text)
	return all[max(0, at-120):min(len(all), at+120)]
}

// TestReportWithTexts has each task with its transcript, and gold only where it is given.
func TestReportWithTexts(t *testing.T) {
	c := runs.Good()["pair"]
	s := source(t, write(t, filesOf(t, c)))
	r, err := Report(s, true)
	if err != nil || len(r.Tasks) != 2 || !strings.Contains(r.Tasks[0].Question, "How many passengers") || len(r.Tasks[0].Chunk.Items) == 0 || r.Tasks[0].Gold != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "North Marrow") {
		t.Error("the report has an expected answer")
	}
}

// BenchmarkRun makes the page of a run of 466 tasks.
func BenchmarkRun(b *testing.B) {
	var text strings.Builder
	for i := range 466 {
		fmt.Fprintf(&text, "-- task fab1e%03d-0000-4000-8000-000000000001 --\nquestion: How many boats are there in harbour %d?\ngold: %d\nlevel: %d\n-- answer %d --\nCounted.\n", i, i, i, 1+i%3, i%7)
	}
	s := source(b, write(b, parse(b, text.String())))
	for b.Loop() {
		if _, err := Run(s, page.TaskFilter{}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMergedPages: the page of a merged run has its shards, that of a task its shard, and findings lead to the journal that
// has their line. The folder of a shard is shown as one.
func TestMergedPages(t *testing.T) {
	c, _ := runs.Varied()
	m, err := c.Merged(2, runs.Part{Index: 2}, runs.Part{Index: 1}, runs.Part{Index: 2})
	if err != nil {
		t.Fatal(err)
	}
	delete(m.Files, rundir.PrivateFile)
	s := source(t, write(t, m.Files))
	if s.Check.Err != nil && exit.Of(s.Check.Err).Code != exit.Untrusted {
		t.Fatal(s.Check.Err)
	}
	p := run(t, s)
	if rows := p.Shards.Rows; len(rows) != 3 || rows[0][1] != "shard 2 of 2" || rows[0][4] != "counts" || rows[2][4] != "superseded" || rows[2][2] != "0" || rows[1][5] == "" {
		t.Errorf("%q", rows)
	}
	if p.Row.State != page.Complete || !strings.Contains(p.Shards.Note, "superseded") || p.Row.Done != p.Row.Planned {
		t.Errorf("%+v %q", p.Row, p.Shards.Note)
	}
	first, err := Task(s, p.Tasks[0].ID, 0, 0, transcript.Filter{})
	if got := value(first.Facts, "shard"); err != nil || got != "shard 1 of 2, shards/1/events.jsonl" {
		t.Errorf("%q, %v", got, err)
	}
	if second, err := Task(s, p.Tasks[1].ID, 0, 0, transcript.Filter{}); err != nil || !strings.HasPrefix(value(second.Facts, "shard"), "shard 2 of 2, shards/2/events.jsonl; 2 attempts superseded") || len(second.Chunk.Items) == 0 {
		t.Errorf("%q, %v", second.Facts, err)
	}
	a, err := Audit(s)
	if err != nil {
		t.Fatal(err)
	}
	led := 0
	for _, check := range a.Checks {
		for _, f := range check.Findings {
			if strings.Contains(f.Lines[0].Text, " of shards/") {
				led++
			}
		}
	}
	if led == 0 {
		t.Error("no finding leads to the journal of a shard")
	}
	for _, withTexts := range []bool{true, false} {
		r, err := Report(s, withTexts)
		var out bytes.Buffer
		if err == nil {
			err = r.Write(&out)
		}
		if err != nil || !strings.Contains(out.String(), "shard 2 of 2") || strings.Contains(out.String(), `href="/`) {
			t.Errorf("with texts %v: %v", withTexts, err)
		}
	}
	for _, done := range []bool{true, false} {
		files := m.Shards[1]
		if !done {
			files = maps.Clone(files)
			delete(files, trajectory.CheckpointFile)
			lines := bytes.SplitAfter(files[trajectory.JournalFile], []byte("\n"))
			files[trajectory.JournalFile] = bytes.Join(lines[:len(lines)-2], nil)
			files[rundir.TrajectoriesFile] = nil
		}
		s := source(t, write(t, files))
		p := run(t, s)
		if !strings.Contains(notice(p.Head, page.NoticeWarn), "this is shard 1 of 2 of the run") || (p.Row.State == page.Committed) != done || (p.Row.Done == p.Row.Planned) != done || len(p.Tasks) != p.Row.Planned || p.Row.Score != nil {
			t.Errorf("done %v: %q %+v", done, p.Notices, p.Row)
		}
	}
}
