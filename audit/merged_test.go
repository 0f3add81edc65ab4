package audit_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// graded matches cases that write grades themselves, which no shard does. What grades a merged run, and what the audit
// looks at of it, is the same as in one process.
var graded = regexp.MustCompile(`(?m)^-- (patch|event) (judgment|judge_battery|security_event) --$`)

// otherwise are cases that come to something else in shards, each with the reason.
var otherwise = map[string]string{
	"AUD-04/gap-no-sweep-after-resume.txt":           "the process that is resumed uses no judge cache: it is a shard's",
	"AUD-12/near-run-budget-exceeded.txt":            "the finding names the shard: TestShardBudget",
	"AUD-12/near-task-after-the-money.txt":           "a shard has its part of the money",
	"AUD-22/near-answer-in-a-shared-text.txt":        "what most tasks share is not known in a shard of one task",
	"AUD-22/near-answer-in-a-long-shared-text.txt":   "what most tasks share is not known in a shard of one task",
	"AUD-25/near-one-request-id-in-a-longer-run.txt": "each journal has a finding",
}

// TestMergedCorpus: a run that was made in two shards has the findings and gaps of the same run in one process, also where
// the attack is in one shard alone. It takes one case in 24, in the thorough run all,
// or a third where commits take turns.
func TestMergedCorpus(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	all := reports(t)
	written := texts(t, "*/*.txt")
	eachCase(t, 24, func(t *testing.T, name string, c runs.Case) {
		if otherwise[name] != "" || graded.MatchString(written[name]) {
			return
		}
		m, err := c.Merged(min(2, all[name].Totals.Planned))
		if err != nil {
			t.Fatal(err)
		}
		got, err := auditedFiles(m.Files, c, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := said(got), said(all[name]); !slices.Equal(got, want) {
			t.Errorf("in shards:\n%q\nin one process:\n%q", got, want)
		}
	})
}

// said lists what a report says of the conduct of a run, without where the journals have it.
func said(r audit.Report) (all []string) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			switch f.RuleID { // which say where in the journal, or when the journal began
			case "AUD-6.interrupted", "AUD-25.plan-newer-than-journal":
				f.Got = ""
			}
			all = append(all, fmt.Sprintf("%s %s %s %d %s: %s; %s", f.RuleID, f.Severity, f.TaskID, f.Attempt, f.Outcome, f.Got, f.Want))
		}
		for _, gap := range c.Gaps {
			all = append(all, c.ID+" gap: "+gap)
		}
	}
	slices.Sort(all)
	return append(all, fmt.Sprint(r.Totals.Attempts, r.Totals.Raw, r.Totals.Clean, r.Totals.Worst))
}

// TestMergedRules: lost shards and superseded attempts are findings that lead to their lines, and losing a shard never
// raises a score.
func TestMergedRules(t *testing.T) {
	t.Parallel()
	c, _ := runs.Varied()
	tasks := audited(t, c, true).Totals.Planned
	whole := merged(t, c, tasks)
	superseded := merged(t, c, 2, runs.Part{Index: 2}, runs.Part{Index: 1}, runs.Part{Index: 2})
	if f := only(t, superseded, "AUD-6.attempts-superseded"); f.Severity != audit.Info || !strings.Contains(f.Got, "attempt") || !strings.Contains(f.Got, "cost was $") {
		t.Errorf("%+v", f)
	}
	if said(whole)[len(said(whole))-1] != said(superseded)[len(said(superseded))-1] {
		t.Errorf("%v\n%v", said(whole), said(superseded))
	}
	for gone := range tasks {
		var parts []runs.Part
		for i := range tasks {
			parts = append(parts, runs.Part{Index: i + 1, Gone: i == gone})
		}
		r := merged(t, c, tasks, parts...)
		f := only(t, r, "AUD-6.shard-lost")
		if f.Severity != audit.ToReview || f.Journal != "events.jsonl" || f.Line != int64(gone)+2 || !strings.Contains(f.Got, fmt.Sprintf("shard %d of %d is gone, and with it 1 task", gone+1, tasks)) {
			t.Errorf("shard %d is gone: %+v", gone+1, f)
		}
		if f := only(t, r, "AUD-6.shards-lost"); f.Severity != audit.High || r.Attestation.Clean {
			t.Errorf("%+v", f)
		}
		for i, of := range [][2]*audit.Rate{{r.Totals.Raw, whole.Totals.Raw}, {r.Totals.Clean, whole.Totals.Clean}, {r.Totals.Worst, whole.Totals.Worst}} {
			if lost, all := of[0], of[1]; lost.Planned != all.Planned || lost.Correct > all.Correct {
				t.Errorf("score %d without shard %d: %d of %d, with it %d of %d", i, gone+1, lost.Correct, lost.Planned, all.Correct, all.Planned)
			}
		}
	}
}

// TestMergedPlaces: a finding in a shard names its journal, and the line there is the one of its number.
func TestMergedPlaces(t *testing.T) {
	t.Parallel()
	c := corpus(t)["AUD-01/fires-loader-output.txt"]
	m, err := c.Merged(0, runs.Part{Index: 7, Tasks: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := auditedFiles(m.Files, c, true)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, check := range r.Checks {
		for _, f := range check.Findings {
			lines := strings.Split(string(m.Files[f.Journal]), "\n")
			if f.Line < 1 || int(f.Line) >= len(lines) {
				t.Fatalf("%+v: %s has %d lines", f, f.Journal, len(lines)-1)
			}
			if f.TaskID == "" {
				continue
			}
			if found++; f.Journal != "shards/7/events.jsonl" || !strings.Contains(lines[f.Line-1], `"task_id":"`+f.TaskID) {
				t.Errorf("%+v: %s", f, lines[f.Line-1])
			}
		}
	}
	if found == 0 {
		t.Error("there is no finding about a task")
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.DecodeReport(b); err != nil {
		t.Error(err)
	}
	for _, other := range []string{`"journal":"../7/events.jsonl"`, `"journal":"shards/7/checkpoint"`, `"journal":"shards/7/8/events.jsonl"`} {
		if _, err := audit.DecodeReport([]byte(strings.ReplaceAll(string(b), `"journal":"shards/7/events.jsonl"`, other))); err == nil {
			t.Errorf("%s is read", other)
		}
	}
}

// TestSupersededUsage: what the provider was paid for attempts that do not count is in the journals. What is missing where
// a shard is lost is a gap.
func TestSupersededUsage(t *testing.T) {
	t.Parallel()
	c := runs.Honest(5)
	whole, err := c.Merged(2, runs.Part{Index: 1}, runs.Part{Index: 2}, runs.Part{Index: 2})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := c.Merged(2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true})
	if err != nil {
		t.Fatal(err)
	}
	var export strings.Builder
	export.WriteString("request_id,input_tokens,output_tokens\n")
	requests := 0
	for file, data := range whole.Files {
		for line := range strings.Lines(string(data)) {
			e, err := trajectory.DecodeLine([]byte(line))
			p, call := e.Payload.(trajectory.ModelCallCompleted)
			if path.Base(file) != trajectory.JournalFile || err != nil || !call || p.RequestID == "" {
				continue
			}
			requests++
			fmt.Fprintf(&export, "%s,%d,%d\n", p.RequestID, p.Tokens.In, p.Tokens.Out)
		}
	}
	if requests == 0 {
		t.Fatal("no request has an id")
	}
	for name, tt := range map[string]struct {
		files map[string][]byte
		more  int // requests that no journal has
		want  audit.Status
	}{
		"what was paid": {whole.Files, 0, audit.Pass}, "more": {whole.Files, 100, audit.Fail}, "a shard is lost": {lost.Files, 100, audit.Skip},
	} {
		c.Usage = []byte(export.String())
		for i := range tt.more {
			c.Usage = fmt.Appendf(c.Usage, "another-%d,1000,1000\n", i)
		}
		r, err := auditedFiles(tt.files, c, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := check(t, r, "AUD-13"); got.Status != tt.want {
			t.Errorf("%s: AUD-13 is %s, want %s: %s", name, got.Status, tt.want, reasons(got))
		}
	}
}

// merged audits a case that was made in parts.
func merged(t *testing.T, c runs.Case, shards int, parts ...runs.Part) audit.Report {
	t.Helper()
	m, err := c.Merged(shards, parts...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := auditedFiles(m.Files, c, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the one finding by a rule.
func only(t *testing.T, r audit.Report, rule string) (found audit.Finding) {
	t.Helper()
	n := 0
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.RuleID == rule {
				found, n = f, n+1
			}
		}
	}
	if n != 1 {
		t.Errorf("%d findings by %s, want 1", n, rule)
	}
	return found
}
