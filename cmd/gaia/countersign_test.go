package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/verify"
)

// secondKey makes a key that is not the keeper's, and returns its file.
func secondKey(t *testing.T, seed byte) (path string, key sign.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "second")
	made, err := sign.CreateKey(path, rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return path, made.Public()
}

// TestCountersign dismisses a CRITICAL finding, countersigns it with a second key,
// packages the run, and verifies the package with and without trust in that key.
func TestCountersign(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	k := newKeeper(t, decidable)
	leak := k.id(t, leakRule)
	short := strings.TrimPrefix(leak, "sha256:")[:12]
	second, key := secondKey(t, 7)
	third, _ := secondKey(t, 8)
	says := func(what string, want int, code int, text string, wants ...string) {
		t.Helper()
		if code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", what, code, want, text)
		}
		for _, w := range wants {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), w) {
				t.Errorf("%s: %q is not printed:\n%s", what, w, text)
			}
		}
	}
	var stdout string
	code, _, stderr := k.command("adjudicate", k.dir, "--countersign", short, "--key", second)
	says("nothing decided", exit.Usage, code, stderr, "the run has no decision", "first decide: gaia adjudicate DIR --finding ID --decision dismiss")
	code, stdout, stderr = k.decide(leak, audit.Dismiss)
	says("dismissed", exit.OK, code, stdout+stderr, "dismiss, pending: the finding is open until another key countersigns", "still open "+short+", CRITICAL "+leakRule, "--countersign "+short+" --key FILE")
	code, _, stderr = k.decide(leak, audit.Void)
	says("voided while pending", exit.Failure, code, stderr, "waits for a countersignature", "to decide again, remove attestations/adjudication-")
	code, stdout, _ = k.command("audit", k.dir)
	says("audit while pending", exit.Findings, code, stdout, "pending: it closes nothing until another key countersigns it")
	code, stdout, _ = k.command("show", k.dir)
	says("show while pending", exit.OK, code, stdout, "dismiss of finding "+short, "waits for a countersignature: it was looked at")
	code, stdout, _ = k.command("__complete", "adjudicate", k.dir, "--countersign", "")
	says("completion", exit.OK, code, stdout, short+" it was looked at")
	code, _, stderr = k.command("submit", k.dir, "--out", k.home)
	says("submit while pending", exit.Findings, code, stderr, "AUD-1")

	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", short)
	says("by the run's key", exit.Failure, code, stderr, "it is by the key of the run and its plan", "hint: ask a second person")
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", "01234567", "--key", second)
	says("an unknown decision", exit.Usage, code, stderr, "no decision \"01234567\"", "there is adjudication-")
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", short, "--key", second, "--reason", "x")
	says("with a reason", exit.Usage, code, stderr, "--countersign signs an existing decision", "leave --finding, --decision and --reason out")
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", "", "--key", second)
	says("empty", exit.Usage, code, stderr, "--countersign is empty")
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", short, "--key", second+".pub")
	says("a public key", exit.Failure, code, stderr, "give the private key file")

	code, stdout, stderr = k.command("adjudicate", k.dir, "--countersign", strings.ToUpper(short[:8]), "--key", second, "--json")
	var result grading.Adjudicated
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exit.OK || result.Clean || result.CountersignedBy != key.ID() || result.KeyID != runs.Key().Public().ID() || result.Pending != audit.PendingTrust {
		t.Errorf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", short, "--key", third)
	says("twice", exit.Failure, code, stderr, "the decision is countersigned already, by "+key.ID(), "to replace it, remove attestations/countersignature-")
	code, _, stderr = k.decide(leak, audit.Void)
	says("voided after", exit.Failure, code, stderr, "is countersigned by "+key.ID(), "and attestations/countersignature-")

	// What is HIGH is dismissed without, and needs none.
	for _, rule := range []string{reachRule, allowedRule} {
		decision := audit.Dismiss
		if rule == allowedRule {
			decision = audit.Void
		}
		if code, _, stderr := k.decide(k.id(t, rule), decision); code != exit.OK {
			t.Fatal(stderr)
		}
	}
	code, _, stderr = k.command("adjudicate", k.dir, "--countersign", k.id(t, reachRule), "--key", third)
	says("a HIGH one", exit.Failure, code, stderr, "needs no countersignature")

	code, stdout, _ = k.command("audit", k.dir)
	says("audit without trust", exit.Findings, code, stdout, "it counts only for readers who trust that key", "clean score 0 of 3")
	code, stdout, stderr = k.command("audit", k.dir, "--trusted-key", second+".pub")
	says("audit with trust", exit.OK, code, stdout+stderr, "clean yes, after 2 dismissals", "clean score 1 of 3")
	code, _, stderr = k.command("audit", k.dir, "--trusted-key", second+".pub", "--strict")
	says("audit --strict", exit.Findings, code, stderr, "not clean")
	code, stdout, _ = k.command("show", k.dir)
	says("show", exit.OK, code, stdout, "countersigned by "+key.ID())
	code, stdout, stderr = k.command("verify", k.dir)
	says("verify a run", exit.Findings, code, stdout+stderr, "countersigned by "+key.ID()+" (unknown key): open", "is open: its dismissal is countersigned by a key that you do not trust")
	code, stdout, stderr = k.command("verify", k.dir, "--trusted-key", second+".pub")
	says("verify a run with trust", exit.OK, code, stdout+stderr, "countersigned by "+key.ID()+" (ok)")

	code, _, stderr = k.command("submit", k.dir, "--out", k.home, "--date", "2031-02-03", "--strict")
	says("submit --strict", exit.Findings, code, stderr, "and --strict was given")
	code, _, stderr = k.command("submit", k.dir, "--out", k.home, "--date", "2031-02-03", "--public")
	says("submit --public", exit.Findings, code, stderr, "AUD-1")
	code, stdout, stderr = k.command("submit", k.dir, "--out", k.home, "--date", "2031-02-03")
	says("submit", exit.OK, code, stdout+stderr, "is open for verifiers who do not trust the countersigner "+key.ID(), "not clean; clean after 2 dismissals for verifiers who trust every countersigner")
	packages, err := filepath.Glob(k.home + "/submission-2031-02-03-*")
	if err != nil || len(packages) != 1 || strings.HasSuffix(packages[0], "-dirty") {
		t.Fatal(packages, err)
	}
	code, stdout, stderr = k.command("verify", packages[0])
	says("verify", exit.Findings, code, stdout+stderr, "dismissed CRITICAL AUD-1, task "+leakTask+", by "+runs.Key().Public().ID()+", countersigned by "+key.ID()+" (unknown key): open",
		"error: a CRITICAL finding of AUD-1 about task "+leakTask+" is open", key.Line())
	code, stdout, stderr = k.command("verify", packages[0], "--trusted-key", second+".pub")
	says("verify with trust", exit.OK, code, stdout+stderr, "audit clean after 2 dismissals, as reported by the signer")
	list := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(list, []byte(`me valid-before="20200101Z" `+key.Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = k.command("verify", packages[0], "--allowed-signers", list)
	says("verify with an expired key", exit.Findings, code, stdout+stderr, "(expired key): open", "hint: ask for a countersignature by a key that is valid now")
	code, stdout, _ = k.command("verify", packages[0], "--json")
	var v verify.Verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exit.Findings || len(v.Dismissals) != 2 {
		t.Fatalf("exit code %d, %v: %s", code, err, stdout)
	}
	for _, d := range v.Dismissals {
		if critical := d.Severity == audit.Critical; (d.CountersignedBy == key.ID()) != critical || (d.Trust == keyring.Unknown) != critical || (d.PublicKey == key.Line()) != critical || d.KeyID != runs.Key().Public().ID() {
			t.Errorf("%+v", d)
		}
	}
	bundle := filepath.Join(k.home, "task.json")
	if code, _, stderr := k.command("disclose", k.dir, "--task", leakTask, "--out", bundle); code != exit.OK {
		t.Fatal(stderr)
	}
	code, stdout, stderr = k.command("verify", bundle, "--package", packages[0])
	says("verify a task of it", exit.Findings, code, stdout+stderr, "about task "+leakTask+" is open")
	code, stdout, stderr = k.command("verify", bundle, "--package", packages[0], "--trusted-key", second+".pub")
	says("verify a task of it with trust", exit.OK, code, stdout+stderr)
	code, stdout, stderr = k.command("audit", filepath.Join(packages[0], audit.ReportFile), "--trusted-key", second+".pub")
	says("a kept report", exit.OK, code, stdout+stderr, "clean yes, after 2 dismissals")
	code, _, stderr = k.command("adjudicate", packages[0], "--countersign", short, "--key", third)
	says("in a package", exit.Usage, code, stderr, "countersign in the run directory")
}
