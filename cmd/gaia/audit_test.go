package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
)

// TestAuditFindings: what is found is shown grouped, the gravest first, and keeps
// its exit code in every form, also when it was kept.
func TestAuditFindings(t *testing.T) {
	dir, _ := foreignRun(t, "AUD-01/fires-uuid-json.txt")
	audited := func(args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := trusting(t, append([]string{"audit"}, args...)...)
		if code != exit.Findings {
			t.Fatalf("audit %q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
		return stdout, stderr
	}
	out, said := audited(dir)
	wantAll(t, out, "\nCRITICAL AUD-1.uuid-with-answer: the task's id, or its first digits ", "\n    found:    ", "\n    expected: ", " of the journal (exploited)\n",
		"\nclean        no: failed: AUD-1\n", "\nto close     gaia adjudicate "+dir+" --finding ", " --decision void --reason ")
	wantAll(t, said, "gaia: error: the audit is not clean: failed: AUD-1\n", "gaia: hint: gaia audit --explain AUD-1\n")
	if critical, info := strings.Index(out, "\nCRITICAL "), strings.Index(out, "\nINFO "); critical < 0 || info < critical {
		t.Errorf("findings are not in order:\n%s", out)
	}

	report := filepath.Join(t.TempDir(), "report.json")
	kept, _ := audited("--json", dir)
	if err := os.WriteFile(report, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"text": "\nCRITICAL AUD-1.uuid-with-answer: ", "json": `"rule_id":"AUD-1.uuid-with-answer"`, "sarif": `"ruleId": "AUD-1.uuid-with-answer"`,
		"markdown": "- **CRITICAL** `AUD-1.uuid-with-answer`, exploited, ", "github": "::error file=events.jsonl,line=",
	} {
		out, _ := audited("--format", format, report)
		wantAll(t, out, want)
	}
	out, _ = audited("--format", "github", dir)
	wantAll(t, out, "::error file="+dir+"/events.jsonl,line=", "::error title=gaia audit::")
}

// TestAuditStrict: what is to be reviewed is no failure, but with --strict.
func TestAuditStrict(t *testing.T) {
	dir, _ := foreignRun(t, "AUD-04/near-refused.txt")
	code, out, _ := trusting(t, "audit", dir)
	if code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, out, "\nREVIEW AUD-4.access-refused: ", "no gap in the gate; to be reviewed: AUD-4\n")
	code, _, said := trusting(t, "audit", "--strict", dir)
	if code != exit.Findings {
		t.Errorf("with --strict: exit code %d", code)
	}
	wantAll(t, said, "gaia: error: the audit is clean, but not by --strict: to be reviewed: AUD-4\n", "gaia: hint: gaia audit --explain AUD-4\n")
}

// TestAuditGoldOfHub: the answers to a package are read at its plan's revision of
// the hub's dataset, wherever its branch is by then, and shown nowhere.
func TestAuditGoldOfHub(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	const later = "fab1e00000000000000000000000000000000002"
	server, err := hub.Serve(hub.Config{Repo: loader.GAIA, Refs: map[string]string{"main": later},
		Commits: map[string]fs.FS{hubCommit: fixtures.Dataset(), later: fstest.MapFS{"2023/readme": {Data: []byte("moved")}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	p.env = []string{"HF_ENDPOINT=" + server.URL}
	p.want(exit.OK, "run", "--submit-intent", "--revision", hubCommit, "--dataset", "hub", "--base-url", serveModel(t), "--model", fixtures.Model, "--task", offlineTasks)
	p.want(exit.OK, "submit", "--out", "package", p.runDir())
	packages, err := filepath.Glob(filepath.Join(p.dir, "package", "*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	p.want(exit.Findings, "audit", packages[0])
	said := p.want(exit.OK, "audit", "--dataset", "hub", packages[0]) + p.want(exit.OK, "audit", "--dataset", "hub:"+loader.GAIA, "--json", packages[0])
	_, gold, err := loader.Load(context.Background(), loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision), loader.Validation, loader.Filter{IDs: strings.Split(offlineTasks, ",")})
	if err != nil || gold.Len() != 3 {
		t.Fatalf("%v, %v", gold, err)
	}
	for id, answer := range gold.Map() {
		if len(answer) > 3 && strings.Contains(said, answer) {
			t.Errorf("the answer to %s is shown", id)
		}
	}
	out := p.want(exit.Failure, "audit", "--dataset", "hub:invented/nothing", packages[0])
	wantAll(t, out, "gaia: error: ")
}

// TestAuditHostile: text of strangers steers no terminal, and starts no command of
// a workflow, in the forms that people and workflows see.
func TestAuditHostile(t *testing.T) {
	dir, _ := foreignRun(t, "AUD-01/fires-uuid-json.txt")
	_, kept, _ := command(t, "audit", "--json", dir)
	report := filepath.Join(t.TempDir(), "report.json")
	// The threat is a report that someone else made: its run's id is no part of what is held against the findings.
	const id = `"run_id":"`
	changed := strings.Replace(kept, id, id+`\u001b[31m`+"\u202e"+unseen+`\n::error::owned`, 1)
	if err := os.WriteFile(report, []byte(changed), 0o600); err != nil || changed == kept {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "sarif", "markdown", "github"} {
		code, out, said := command(t, "audit", "--format", format, report)
		if code != exit.Findings || !strings.Contains(out, "owned") || strings.ContainsAny(out, "\x1b\u202e"+unseen) || strings.Contains(out, "\n::error::") {
			t.Errorf("--format %s: exit code %d\n%s%s", format, code, out, said)
		}
	}
}

// TestAuditClosed: what was decided about a finding is shown with it, and a
// finding that is closed fails nothing.
func TestAuditClosed(t *testing.T) {
	dir, _ := foreignRun(t, "AUD-02/fires-no-model-call.txt")
	gold, err := grading.PrivateGold(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := audit.Options{Gold: gold}
	r, _, err := audit.Run(os.DirFS(dir), o)
	if err != nil || r.Attestation.Clean {
		t.Fatalf("clean is %v, %v", r.Attestation.Clean, err)
	}
	digest := "sha256:" + strings.Repeat("d", 64)
	for _, f := range render.Findings(r) {
		if f.Severity == audit.Critical {
			o.Adjudications = append(o.Adjudications, audit.Adjudication{Ruling: audit.Ruling{Check: f.Check, Decision: audit.Void, Finding: f.ID, Reason: "nothing was asked", RuleID: f.RuleID, TaskID: f.TaskID}, SHA256: digest})
		}
	}
	if r, _, err = audit.Run(os.DirFS(dir), o); err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(report, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"text": "\nclosed (void): CRITICAL AUD-2.no-model-call: ", "markdown": "- **CRITICAL** `AUD-2.no-model-call`, closed (void), exploited, ",
		"sarif": `"justification": "void: nothing was asked"`, "github": "::notice file=events.jsonl,line=4,title=CRITICAL AUD-2.no-model-call::closed (void): ",
	} {
		code, out, said := command(t, "audit", "--format", format, report)
		if code != exit.OK {
			t.Errorf("--format %s: exit code %d, %s", format, code, said)
		}
		wantAll(t, out, want)
	}
	_, out, _ := command(t, "audit", report)
	wantAll(t, out, "\ndecision     void of finding ", ": nothing was asked\n", "\nraw score    0 of 1,", "\nclean        yes: ")
}
