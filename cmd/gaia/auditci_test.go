package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/goccy/go-yaml"
)

// workflow is what of a workflow for GitHub can be tried here.
type workflow struct {
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		Env   map[string]string
		Steps []struct {
			Name, ID, Uses, Run, If string
			With, Env               map[string]any
		}
	}
}

func readWorkflow(t *testing.T) workflow {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(readFile(t, "docs/ci/gaia-audit.yml")), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// job runs the steps of the workflow but those that fetch something, as GitHub's
// runner does: each in a separate bash, until one fails.
func (p program) job(w workflow, run, gold, key string) (failed string, code int, summary, printed string) {
	p.t.Helper()
	p.t.Setenv("HOME", p.dir)
	path := func(name string) string { return filepath.Join(p.dir, name) }
	for _, name := range []string{"summary", "output"} {
		if err := os.WriteFile(path(name), nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	ran := 0
	for _, step := range w.Jobs["audit"].Steps {
		if step.Run == "" || strings.HasPrefix(step.Run, "go install ") {
			continue
		}
		ran++
		output, err := os.ReadFile(path("output"))
		if err != nil {
			p.t.Fatal(err)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), "RUN="+run, "GOLD="+gold, "TRUSTED_KEY="+key, "GITHUB_STEP_SUMMARY="+path("summary"), "GITHUB_OUTPUT="+path("output"), "HF_ENDPOINT="+noHub)
		if step.Name == "Gate" {
			cmd.Env = append(cmd.Env, "CODE="+strings.TrimPrefix(strings.TrimSpace(string(output)), "code="))
		}
		out, err := cmd.CombinedOutput()
		printed += string(out)
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			p.t.Fatal(err)
		}
		if code = cmd.ProcessState.ExitCode(); code != 0 {
			failed = step.Name
			break
		}
	}
	if ran == 0 {
		p.t.Fatal("the workflow has no steps")
	}
	b, err := os.ReadFile(path("summary"))
	if err != nil {
		p.t.Fatal(err)
	}
	return failed, code, string(b), printed
}

// TestWorkflow runs what docs/ci/gaia-audit.yml runs, on a run and a package of it.
func TestWorkflow(t *testing.T) {
	long.NotRaced(t)
	for _, name := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	w, p := readWorkflow(t), newProgram(t)
	p.want(exit.OK, "run", "--submit-intent", "--limit", "6")
	run := p.runDir()
	p.want(exit.OK, "submit", "--out", "package", run)
	packages, err := filepath.Glob(filepath.Join(p.dir, "package", "*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	leak, key := foreignRun(t, "AUD-01/fires-uuid-json.txt")
	for _, tt := range []struct {
		name, run, gold, key, failed string
		code                         int
		summary, printed             string
	}{
		{"a clean run", run, "", "", "", 0, "## gaia audit: clean\n", "::notice title=gaia audit::"},
		{"a package with gold", packages[0], "fixtures", "", "", 0, "## gaia audit: clean\n", "::notice title=gaia audit::"},
		{"a package without", packages[0], "", "", "Gate", 1, "## gaia audit: not clean (could not see: ", "AUD-5 could not see: the gold answers are not at hand"},
		{"an unknown signer", leak, "", "", "Gate", exit.Untrusted, "- **CRITICAL** `AUD-1.uuid-with-answer`", "::error file="},
		{"a finding", leak, "", key, "Gate", exit.Findings, "- **CRITICAL** `AUD-1.uuid-with-answer`", "::error file="},
		{"what is no run", filepath.Join(p.dir, "package"), "", "", "Audit", exit.Usage, "", "is not a run directory"},
	} {
		failed, code, summary, printed := p.job(w, tt.run, tt.gold, tt.key)
		if failed != tt.failed || code != tt.code {
			t.Errorf("%s: step %q, exit code %d, want %q, %d\n%s", tt.name, failed, code, tt.failed, tt.code, printed)
		}
		wantAll(t, summary, tt.summary)
		wantAll(t, printed, tt.printed)
	}
	journal := filepath.Join(run, "events.jsonl")
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(journal, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if failed, code, _, printed := p.job(w, run, "", ""); failed != "Audit" || code != exit.Evidence {
		t.Errorf("a changed journal: step %q, exit code %d\n%s", failed, code, printed)
	}
}

// TestWorkflowIsCareful: no expression stands in a script, where it would be text of
// strangers; the job may do no more than it must; SARIF is what a step before wrote.
func TestWorkflowIsCareful(t *testing.T) {
	w := readWorkflow(t)
	if len(w.Permissions) != 2 || w.Permissions["contents"] != "read" || w.Permissions["security-events"] != "write" {
		t.Errorf("permissions are %v", w.Permissions)
	}
	written, uploads := "", false
	for _, s := range w.Jobs["audit"].Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("step %s has an expression in its script", s.Name)
		}
		if strings.HasPrefix(s.Uses, "github/codeql-action/upload-sarif@") {
			uploads = true
			if name, _ := s.With["sarif_file"].(string); name == "" || !strings.Contains(written, "> "+name+"\n") {
				t.Errorf("no step before wrote %q", name)
			}
		}
		written += s.Run
	}
	if !uploads {
		t.Error("no SARIF is uploaded")
	}
	for _, trigger := range []string{"workflow_dispatch", "workflow_call"} {
		inputs, _ := w.On[trigger].(map[string]any)["inputs"].(map[string]any)
		for _, name := range []string{"path", "artifact", "gold", "trusted_key"} {
			if inputs[name] == nil {
				t.Errorf("%s has no input %s", trigger, name)
			}
		}
	}
}
