package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestGravest: of errors with each pair of exit codes the one goes first that
// package exit says, in either order, and the other is named.
func TestGravest(t *testing.T) {
	codes := []int{exit.Interrupted, exit.Usage, exit.Evidence, exit.Untrusted, exit.Incomplete, exit.Findings, exit.Failure}
	for i, first := range codes {
		for _, second := range codes[i+1:] {
			a, b := fail(first, fmt.Errorf("error %d", first)), fail(second, fmt.Errorf("error %d", second))
			for _, err := range []error{exit.First(a, b), exit.First(b, nil, a), exit.First(exit.First(b), a)} {
				f := classify(err)
				if f.Code != first || !slices.Equal(f.Also, []string{fmt.Sprintf("error %d (exit code %d)", second, second)}) {
					t.Errorf("%d and %d: exit code %d, also %q", first, second, f.Code, f.Also)
				}
			}
		}
	}
	fault := trajectory.Faultf("x.json", "is wrong")
	if err := exit.First(nil, fault, nil); !errors.Is(err, fault) || exit.First(nil, nil) != nil {
		t.Errorf("%v", err)
	}
}

// TestUntrustedSigner: evidence that is intact and by an unknown key is exit code 6
// wherever it is read, after the result was printed; tampered evidence stays 4.
func TestUntrustedSigner(t *testing.T) {
	t.Parallel()
	clean, key := foreignRun(t, "honest/search-echo.txt")
	other, _ := foreignRun(t, "AUD-04/near-refused.txt")
	leak, _ := foreignRun(t, "AUD-01/fires-uuid-json.txt")
	unfit, _ := foreignRun(t, "AUD-04/fires-cache-read.txt")
	open, _ := foreignRun(t, "honest/search-echo.txt")
	unfinish(t, open)
	broken, _ := foreignRun(t, "honest/search-echo.txt")
	put(t, filepath.Join(broken, "results.jsonl"), []byte("x"))
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	hmac := at("hmac")
	put(t, hmac, make([]byte, 32))
	for _, tt := range []struct {
		args    []string
		unknown int    // exit code for a user who does not trust the key
		trusted int    // and for one who does
		also    string // what else holds, for the former
	}{
		{[]string{"verify", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"verify", "--trusted-key", key, clean}, exit.OK, exit.OK, ""},
		{[]string{"verify", unfit}, exit.Untrusted, exit.Findings, "not submittable: the judge cache did not verify: 1 integrity event (exit code 3)"},
		{[]string{"verify", open}, exit.Untrusted, exit.Incomplete, "the run is not complete: the journal has no run_completed (exit code 5)"},
		{[]string{"verify", broken}, exit.Evidence, exit.Evidence, ""},
		{[]string{"verify", "--hmac-key-file", hmac, clean}, exit.Usage, exit.Usage, ""},
		{[]string{"audit", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"audit", leak}, exit.Untrusted, exit.Findings, "the audit is not clean: failed: AUD-1 (exit code 3)"},
		{[]string{"audit", "--trusted-key", key, leak}, exit.Findings, exit.Findings, ""},
		{[]string{"audit", open}, exit.Untrusted, exit.Incomplete, "the run is not complete"},
		{[]string{"audit", broken}, exit.Evidence, exit.Evidence, ""},
		{[]string{"show", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"show", open}, exit.Untrusted, exit.Incomplete, "the run is not complete"},
		{[]string{"show", "--follow", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"export", clean, "--format", "csv"}, exit.Untrusted, exit.OK, ""},
		{[]string{"export", open, "--format", "csv"}, exit.Untrusted, exit.Incomplete, "the run is not complete"},
		{[]string{"witness", "export", clean, "--out", "BUNDLES"}, exit.Untrusted, exit.OK, ""},
		{[]string{"compare", clean, open}, exit.Untrusted, exit.Incomplete, "the run is not complete"},
		{[]string{"compare", clean, broken}, exit.Evidence, exit.Evidence, ""},
		{[]string{"scorecard", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"scorecard", "--accept", "--min-solve-rate", "1", "--max-violations", "0", leak, other}, exit.Untrusted, exit.Findings, "not accepted (exit code 3)"},
		{[]string{"scorecard", open}, exit.Untrusted, exit.Incomplete, "the run is not complete"},
		{[]string{"scorecard", clean, broken}, exit.Evidence, exit.Evidence, "the bytes are what was signed, but by a key you do not trust"},
		{[]string{"trend", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"trend", clean, broken}, exit.Evidence, exit.Evidence, "the bytes are what was signed, but by a key you do not trust"},
		{[]string{"ledger", "list", "--runs", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"ledger", "list", "--metrics", "--runs", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"ledger", "export", "--runs", clean}, exit.Untrusted, exit.OK, ""},
		{[]string{"ledger", "list", "--runs", broken}, exit.Evidence, exit.Evidence, ""},
	} {
		name := strings.Join(tt.args[:2], " ")
		for who, run := range map[string]func(*testing.T, ...string) (int, string, string){"unknown": command, "trusted": trusting} {
			args := slices.Clone(tt.args)
			if i := slices.Index(args, "BUNDLES"); i >= 0 {
				args[i] = at("bundles")
			}
			want := tt.trusted
			if who == "unknown" {
				want = tt.unknown
			}
			code, stdout, stderr := run(t, args...)
			if code != want || code == exit.OK && stdout == "" {
				t.Errorf("%s, %s key: exit code %d, want %d\n%s%s", name, who, code, want, stdout, stderr)
			}
			if who != "unknown" {
				continue
			}
			if tt.unknown == exit.Untrusted && (!strings.HasPrefix(lastError(stderr), "the bytes are what was signed, but by a key you do not trust: SHA256:") || tt.trusted == exit.OK && stdout == "") {
				t.Errorf("%s: %s\n%s", name, stderr, stdout)
			}
			if _, also, _ := strings.Cut(stderr, "gaia: also: "); (also == "") != (tt.also == "") || !strings.Contains(also, tt.also) {
				t.Errorf("%s does not say %q:\n%s", name, tt.also, stderr)
			}
		}
	}
	for dir, n := range map[string]int{clean: 0, unfit: 1} {
		_, stdout, _ := command(t, "verify", "--json", dir)
		var v struct {
			Findings *[]string `json:"findings"`
			Trusted  *bool     `json:"signer_trusted"`
		}
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Findings == nil || v.Trusted == nil || *v.Trusted || len(*v.Findings) != n {
			t.Errorf("%v: %s", err, stdout)
		}
	}
}

// lastError returns the text of the error in what a command wrote to standard error.
func lastError(stderr string) string {
	_, after, _ := strings.Cut(stderr, "gaia: error: ")
	text, _, _ := strings.Cut(after, "\n")
	return text
}

// TestUntrustedCountersigner: who countersigns a run by an unknown key gets exit code 6
// when that is done.
func TestUntrustedCountersigner(t *testing.T) {
	k := newKeeper(t, decidable)
	leak := k.id(t, leakRule)
	if code, _, stderr := k.decide(leak, audit.Dismiss); code != exit.OK {
		t.Fatal(stderr)
	}
	second, key := secondKey(t, 7)
	k.env = map[string]string{"HOME": t.TempDir()}
	code, stdout, stderr := k.command("adjudicate", k.dir, "--countersign", strings.TrimPrefix(leak, "sha256:")[:12], "--key", second)
	if code != exit.Untrusted || !strings.Contains(stdout, key.ID()) || !strings.HasPrefix(lastError(stderr), "the bytes are what was signed, but by a key you do not trust: ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
