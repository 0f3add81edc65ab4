package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/go-json-experiment/json"
)

// TestVerdict: verify names what answered, the exceptions, and which claims it checked
// with what it was given, of a run and of both kinds of packages.
func TestVerdict(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	b := bench{T: t, dir: t.TempDir()}
	b.do("base interrupted")
	b.do("submit")
	b.do("edit RUN")
	b.do("submit --public")
	want := rundir.Exceptions{Interruptions: 1, Resumes: 1, RetriedAttempts: 1}
	for args, verified := range map[string][]string{
		"RUN":                                  {"trusted-signer", "evidence-chain", "scores"},
		"PACKAGE":                              {"trusted-signer", "evidence-chain", "scores", "audit-conclusion"},
		"--dataset DATASET PACKAGE":            {"trusted-signer", "evidence-chain", "scores", "official-verdicts", "audit-conclusion", "audit-findings", "questions"},
		"--checkpoint PACKAGE/checkpoint RUN":  {"trusted-signer", "published-checkpoint", "evidence-chain", "scores"},
		"PUBLIC":                               {"trusted-signer", "plan", "tree"},
		"--dataset DATASET PUBLIC":             {"trusted-signer", "plan", "tree"},
		"--checkpoint RUN/checkpoint PUBLIC":   {"trusted-signer", "published-checkpoint", "plan", "tree"},
		"PACKAGE --checkpoint RUN/checkpoint ": {"trusted-signer", "published-checkpoint", "evidence-chain", "scores", "audit-conclusion"},
	} {
		code, stdout, stderr := b.command(b.args("verify --json " + strings.TrimSpace(args))...)
		var got verify.EvidenceVerdict
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s", args, code, err, stderr)
		}
		var names []string
		for _, c := range got.Claims {
			if c.Status == submit.ByCheck {
				names = append(names, c.Claim)
			}
		}
		if !slices.Equal(names, verified) {
			t.Errorf("%s: verified: %q, want %q", args, names, verified)
		}
		if by := got.AnsweredBy; got.Exceptions != want || by.Model != "sample-model" || by.Origin != "https://models.example" || by.Agent != plan.AgentBuiltIn || !slices.Equal(by.RepliedAs, []string{"sample-model"}) {
			t.Errorf("%s: %+v", args, got)
		}
		_, stdout, _ = b.command(b.args("verify " + strings.TrimSpace(args))...)
		for _, row := range []string{"model sample-model at https://models.example, replied as sample-model\n", "agent built-in, of gaia ",
			"exceptions 1 retried attempt, 1 interruption, 1 resume\n", "verified " + strings.Join(verified, ", ") + "\n"} {
			if !strings.Contains(unaligned(stdout), "\n"+row) {
				t.Errorf("%s: %q is not printed:\n%s", args, row, stdout)
			}
		}
	}
}

// unaligned returns rows with single spaces.
func unaligned(rows string) string {
	var b strings.Builder
	for line := range strings.Lines(rows) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// TestDismissalInVerdict: a run directory, its audit and its package all show the
// dismissal of a HIGH finding.
func TestDismissalInVerdict(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	k := newKeeper(t, decidable)
	early := t.TempDir()
	if code, _, stderr := k.command("submit", k.dir, "--out", early, "--date", "2031-02-03", "--public", "--allow-dirty"); code != exit.OK {
		t.Fatal(stderr)
	}
	for rule, decision := range map[string]string{leakRule: "void", reachRule: "dismiss", allowedRule: "void"} {
		if code, _, stderr := k.command("adjudicate", k.dir, "--finding", k.id(t, rule), "--decision", decision, "--reason", "it was looked at"); code != exit.OK {
			t.Fatal(stderr)
		}
	}
	says := func(want string, args ...string) {
		t.Helper()
		_, stdout, stderr := k.command(args...)
		if !strings.Contains(unaligned(stdout), want) {
			t.Errorf("%q: %q is not printed:\n%s%s", args, want, stdout, stderr)
		}
	}
	says("\nexceptions 1 dismissal, ", "verify", k.dir)
	says(`"exceptions":{"dismissals":1,`, "verify", "--json", k.dir)
	says("\nclean yes, after 1 dismissal", "audit", k.dir)
	says("## gaia audit: clean after 1 dismissal", "audit", "--format", "markdown", k.dir)
	says("\naudit clean after 1 dismissal", "submit", k.dir, "--out", k.home, "--date", "2031-02-03")
	packages, err := filepath.Glob(k.home + "/submission-*")
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	pkg := packages[0]
	says("\naudit clean after 1 dismissal, as reported by the signer", "verify", pkg)
	says("\nexceptions 1 dismissal, ", "verify", pkg)
	before, err := filepath.Glob(early + "/submission-*")
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	says(", audit clean after 1 dismissal; exceptions: 1 dismissal, 2 void tasks; later than the clock of this machine: package 2031-02-03\n", "verify", pkg, k.dir)
	says("; made of another audit or other decisions than "+pkg+"\n", "verify", pkg, before[0])
	says("; made of another audit or other decisions than "+before[0]+"\n", "verify", before[0], pkg)
	text, err := os.ReadFile(filepath.Join(pkg, submit.ReadmeFile))
	if readme := string(text); err != nil || !strings.Contains(readme, "\nClean after 1 dismissal") || !strings.Contains(readme, "\n- exceptions: 1 dismissal, ") {
		t.Errorf("README.md does not show the dismissal:\n%s", readme)
	}
}
