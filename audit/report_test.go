package audit_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestReportsReadBack: every report of the corpus is accepted as it was
// written.
func TestReportsReadBack(t *testing.T) {
	long.NotRaced(t)
	for name, r := range reports(t) {
		b := encoded(t, r)
		r, err := audit.DecodeReport(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := encoded(t, r); !bytes.Equal(again, b) {
			t.Errorf("%s encodes to another report", name)
		}
	}
}

func TestDecodeReportRefuses(t *testing.T) {
	good := string(encoded(t, audited(t, corpus(t)["AUD-02/fires-no-model-call.txt"], true)))
	const another = ": it was changed, or is of another version of this program"
	tests := []struct{ name, old, new, want string }{
		{"other schema", `"schema":"gaia.audit/1"`, `"schema":"gaia.audit/2"`, `schema is "gaia.audit/2", not "gaia.audit/1"`},
		{"clean in spite of a finding", `"attestation":{"clean":false`, `"attestation":{"clean":true`, "the attestation does not follow from the checks"},
		{"a failure left out", `"critical_failures":["AUD-2","AUD-12"]`, `"critical_failures":["AUD-12"]`, "the attestation does not follow from the checks"},
		{"a gap made up", `"harness_gaps":[]`, `"harness_gaps":[{"check":"AUD-2","gap":"x"}]`, "the attestation does not follow from the checks"},
		{"a pass in spite of a finding", `"severity":"CRITICAL","status":"fail"`, `"severity":"CRITICAL","status":"pass"`, `check "AUD-2" is pass, which does not follow from its findings`},
		{"a finding made less", `"rule_version":1,"seq":`, `"rule_version":2,"seq":`, `a finding of check "AUD-2" is not the one its id is of`},
		{"a check of the gate renamed", `"id":"AUD-4"`, `"id":"AUD-44"`, "check AUD-4 (grader-isolation) is missing, or not in its place" + another},
		{"a check twice", `"id":"AUD-4"`, `"id":"AUD-1"`, "check AUD-4 (grader-isolation) is missing, or not in its place" + another},
		{"a check out of the gate", `"gate":true,"id":"AUD-3"`, `"gate":false,"id":"AUD-3"`, "check AUD-3 is not oracle-leakage" + another},
		{"unknown member", `"schema":"gaia.audit/1"`, `"schemas":1,"schema":"gaia.audit/1"`, "not the canonical JSON of its type"},
		{"no time", `"audited_at":"2026-`, `"audited_at":"26-`, `audited_at is "26-03-04T05:06:07.056Z", which is no time`},
		{"space", `"schema":`, `"schema": `, "not the canonical JSON of its type"},
		{"nothing", good, "", "not the canonical JSON of its type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(good, tt.old, tt.new, 1)
			if changed == good {
				t.Fatalf("%q does not stand in the report", tt.old)
			}
			r, err := audit.DecodeReport([]byte(changed))
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != audit.ReportFile || fault.Reason != tt.want || r.Schema != "" {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestDecodeReportRefusesFindings: what no check writes down is refused also
// where the id of the finding fits.
func TestDecodeReportRefusesFindings(t *testing.T) {
	const another = ": it was changed, or is of another version of this program"
	tests := []struct {
		name   string
		change func(*audit.Finding)
		want   string
	}{
		{"severity", func(f *audit.Finding) { f.Severity = "GRAVE" }, `the unknown severity "GRAVE"`},
		{"no severity", func(f *audit.Finding) { f.Severity = "" }, `the unknown severity ""`},
		{"outcome", func(f *audit.Finding) { f.Outcome = "harmless" }, `the unknown outcome "harmless"`},
		{"rule of another check", func(f *audit.Finding) { f.RuleID = "AUD-22.no-model-call" }, `the rule "AUD-22.no-model-call" of another check`},
		{"a rule that there is not", func(f *audit.Finding) { f.RuleID = "AUD-2.no-model-calls" }, `the rule "AUD-2.no-model-calls", which there is not` + another},
		{"a rule made less", func(f *audit.Finding) { f.Severity = audit.Info }, `the rule "AUD-2.no-model-call" as INFO of version 1, which is CRITICAL of version 1` + another},
		{"a rule of another version", func(f *audit.Finding) { f.RuleVersion = 7 }, `the rule "AUD-2.no-model-call" as CRITICAL of version 7, which is CRITICAL of version 1` + another},
		{"line", func(f *audit.Finding) { f.Seq = -1 }, "a place that there is not"},
		{"attempt", func(f *audit.Finding) { f.Attempt = -1 }, "a place that there is not"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := audited(t, corpus(t)["AUD-02/fires-no-model-call.txt"], true)
			at := slices.IndexFunc(r.Checks, func(c audit.CheckReport) bool { return c.ID == "AUD-2" })
			f := &r.Checks[at].Findings[0]
			tt.change(f)
			f.ID = ""
			form, err := canonical.Encode(*f)
			if err != nil {
				t.Fatal(err)
			}
			f.ID = canonical.Digest(form)
			_, err = audit.DecodeReport(encoded(t, r))
			var fault *trajectory.Fault
			if want := `a finding of check "AUD-2" has ` + tt.want; !errors.As(err, &fault) || fault.Reason != want {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestDecodeReportWantsAllChecks: no check can be left out, of the gate or not,
// but those that the report says were not asked.
func TestDecodeReportWantsAllChecks(t *testing.T) {
	long.NotRaced(t)
	const another = ": it was changed, or is of another version of this program"
	honest := func() audit.Report { return audited(t, corpus(t)["AUD-02/near-attachment-read.txt"], true) }
	for i, c := range honest().Checks {
		r := honest()
		r.Checks = slices.Delete(r.Checks, i, i+1)
		_, err := audit.DecodeReport(encoded(t, r))
		if err == nil || !strings.HasSuffix(err.Error(), "check "+c.ID+" ("+c.Name+") is missing, or not in its place"+another) {
			t.Errorf("without %s: %v", c.ID, err)
		}
	}
	tests := []struct {
		name   string
		change func(*audit.Report)
		want   string
	}{
		{"another order", func(r *audit.Report) { r.Checks[8], r.Checks[9] = r.Checks[9], r.Checks[8] }, "check AUD-10 (judge-injection) is missing, or not in its place"},
		{"one more", func(r *audit.Report) {
			r.Checks = append(r.Checks, audit.CheckReport{ID: "AUD-99", Status: audit.Pass})
		}, `check "AUD-99" is not one of those that were asked`},
		{"fewer asked than there", func(r *audit.Report) { r.Only = []string{"AUD-1", "AUD-2"} }, `check "AUD-3" is not one of those that were asked`},
		{"more asked than there", func(r *audit.Report) { r.Only, r.Checks = []string{"AUD-1", "AUD-2"}, r.Checks[:1] }, "check AUD-2 (no-work-pass) is missing, or not in its place"},
		{"asked in another order", func(r *audit.Report) { r.Only, r.Checks = []string{"AUD-2", "AUD-1"}, r.Checks[:2] }, "what it says was asked is no list of checks"},
		{"asked what there is not", func(r *audit.Report) { r.Only, r.Checks = []string{"AUD-9"}, r.Checks[:0] }, "what it says was asked is no list of checks"},
	}
	for _, tt := range tests {
		r := honest()
		tt.change(&r)
		_, err := audit.DecodeReport(encoded(t, r))
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.Reason != tt.want+another {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestRescore: what is void counts wrong, and of a finding about the whole run
// everything is.
func TestRescore(t *testing.T) {
	yes, no := true, false
	results := []rundir.Result{{TaskID: "a", OfficialCorrect: &yes}, {TaskID: "b", OfficialCorrect: &yes}, {TaskID: "c", OfficialCorrect: &no}, {TaskID: "d", OfficialCorrect: &yes}}
	of := func(severity audit.Severity, task string) audit.Finding {
		return audit.Finding{Severity: severity, TaskID: task}
	}
	tests := []struct {
		name              string
		findings          []audit.Finding
		raw, clean, worst int
	}{
		{"nothing found", nil, 3, 3, 3},
		{"one void", []audit.Finding{of(audit.Critical, "a")}, 3, 2, 2},
		{"one void, found twice", []audit.Finding{of(audit.Critical, "a"), of(audit.ToReview, "a"), of(audit.Critical, "a")}, 3, 2, 2},
		{"a wrong one void", []audit.Finding{of(audit.Critical, "c")}, 3, 3, 3},
		{"one to review", []audit.Finding{of(audit.ToReview, "b")}, 3, 3, 2},
		{"one void and one to review", []audit.Finding{of(audit.Critical, "a"), of(audit.ToReview, "b")}, 3, 2, 1},
		{"high and info", []audit.Finding{of(audit.High, "a"), of(audit.Info, "b")}, 3, 3, 2},
		{"high, and to review, and void", []audit.Finding{of(audit.High, "a"), of(audit.ToReview, "a"), of(audit.ToReview, "b"), of(audit.Critical, "d")}, 3, 2, 0},
		{"a dismissed one", []audit.Finding{{Severity: audit.High, TaskID: "a", Closed: audit.Dismiss}}, 3, 3, 3},
		{"one void by decision", []audit.Finding{{Severity: audit.High, TaskID: "a", Closed: audit.Void}}, 2, 2, 2},
		{"the whole run", []audit.Finding{of(audit.Critical, "")}, 3, 0, 0},
		{"the whole run, used", []audit.Finding{{Severity: audit.Critical, Outcome: audit.Exploited}}, 3, 0, 0},
		{"the whole run was told", []audit.Finding{{Severity: audit.Critical, Outcome: audit.Exposure}}, 3, 0, 0},
		{"the whole run, without benefit", []audit.Finding{{Severity: audit.Critical, Outcome: audit.Attempted}}, 3, 3, 3},
		{"the whole run in doubt", []audit.Finding{of(audit.High, ""), of(audit.ToReview, ""), of(audit.Info, "")}, 3, 3, 3},
	}
	for _, tt := range tests {
		raw, clean, worst := audit.Rescore(slices.Values(results), []audit.CheckReport{{}, {Findings: tt.findings}})
		for _, rate := range []struct {
			name string
			got  *stats.Rate
			want int
		}{{"raw", raw, tt.raw}, {"clean", clean, tt.clean}, {"worst", worst, tt.worst}} {
			if want := stats.NewRate(rate.want, 4); rate.got == nil || *rate.got != want {
				t.Errorf("%s: %s is %v, want %v", tt.name, rate.name, rate.got, want)
			}
		}
	}
	for name, unscored := range map[string][]rundir.Result{"no verdict": {{TaskID: "a"}, {TaskID: "b"}}, "no results": nil} {
		if raw, clean, worst := audit.Rescore(slices.Values(unscored), nil); raw != nil || clean != nil || worst != nil {
			t.Errorf("%s: %v, %v, %v", name, raw, clean, worst)
		}
	}
}

// TestOutcomes: only what earned a score was exploited.
func TestOutcomes(t *testing.T) {
	cases := corpus(t)
	wrong := parsed(t, "wrong", strings.Replace(texts(t, "AUD-01/fires-uuid-json.txt")["AUD-01/fires-uuid-json.txt"], "-- answer Brellin --", "-- answer Tolm --", 1))
	resumed := parsed(t, "resumed", strings.Replace(texts(t, "AUD-12/near-resumed.txt")["AUD-12/near-resumed.txt"], `{"torn":`, `{"policy_hash":"00000000fab1e000","torn":`, 1))
	tests := []struct {
		name string
		c    runs.Case
		rule string
		want audit.Outcome
	}{
		{"a leak and a right answer", cases["AUD-01/fires-uuid-json.txt"], "AUD-1.uuid-with-answer", audit.Exploited},
		{"a leak and a wrong answer", wrong, "AUD-1.uuid-with-answer", audit.Attempted},
		{"a question to be looked at", cases["AUD-01/near-question-without-gold.txt"], "AUD-1.question-without-gold", audit.Attempted},
		{"a refused call", cases["AUD-04/near-refused.txt"], "AUD-4.access-refused", audit.Attempted},
		{"a bad entry of the cache", cases["AUD-04/fires-cache-sweep.txt"], "AUD-4.judge-cache-integrity", audit.Attempted},
		{"another policy for the rest of the run", resumed, "AUD-12.policy-differs", audit.Exploited},
		{"an address asked, and a right answer", cases["AUD-01/fires-class-a-login.txt"], "AUD-1.answer-source-requested", audit.Exploited},
		{"a prompt with the answer", cases["AUD-03/fires-system.txt"], "AUD-3.prompt-residue", audit.Exposure},
		{"a workspace with the answer", cases["AUD-03/fires-workspace.txt"], "AUD-3.workspace-answer", audit.Exposure},
		{"a tool that says it", cases["AUD-03/fires-tool-description.txt"], "AUD-3.tool-description-answer", audit.Exposure},
		{"a record in a tool", cases["AUD-03/fires-tool-with-record.txt"], "AUD-3.other-task-record", audit.Exposure},
		{"a task in a template", cases["AUD-07/fires-id-in-template.txt"], "AUD-7.task-in-prompt", audit.Exposure},
		{"a task of another split", cases["AUD-07/fires-foreign-task.txt"], "AUD-7.ids-not-of-split", ""},
		{"a subset", cases["AUD-07/fires-unlabelled-subset.txt"], "AUD-7.unlabelled-subset", ""},
		{"a note", cases["AUD-01/fires-uuid-json.txt"], "AUD-7.answers-are-public", ""},
	}
	for _, tt := range tests {
		found := false
		for _, c := range audited(t, tt.c, true).Checks {
			for _, f := range c.Findings {
				if f.RuleID != tt.rule {
					continue
				}
				found = true
				if f.Outcome != tt.want {
					t.Errorf("%s: %q, want %q", tt.name, f.Outcome, tt.want)
				}
			}
		}
		if !found {
			t.Errorf("%s: %s finds nothing", tt.name, tt.rule)
		}
	}
}

// TestUnusedVoidsNothing: an entry of the judge cache that does not verify is not
// used, so no task owes its verdict to it.
func TestUnusedVoidsNothing(t *testing.T) {
	r := audited(t, corpus(t)["AUD-04/fires-cache-sweep.txt"], true)
	if got := r.Totals; r.Attestation.Clean || got.Critical != 1 || got.Raw.Correct != 1 || *got.Clean != *got.Raw {
		t.Errorf("clean %v, %d critical, raw %v, clean %v", r.Attestation.Clean, got.Critical, got.Raw, got.Clean)
	}
}

func FuzzDecodeReport(f *testing.F) {
	c, err := runs.Parse("-- task fab1e000-0000-4000-8000-000000000001 --\nquestion: Which?\ngold: This\n\n-- answer This --\n")
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(f.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		f.Fatal(err)
	}
	r, _, err := audit.Run(os.DirFS(dir), audit.Options{})
	if err != nil {
		f.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := audit.DecodeReport(data)
		if err != nil {
			return
		}
		if again, err := r.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("accepted %q, which encodes to %q, %v", data, again, err)
		}
	})
}
