package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// command runs a command in this process, in an empty home.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return commandOf(t, t.TempDir(), args...)
}

// trusting is command for a user who trusts the key of the runs that package runs makes.
func trusting(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return trustingKey(t, runs.Key().Public(), args...)
}

// trustingKey is command for a user who trusts a key.
func trustingKey(t *testing.T, key sign.PublicKey, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	keys := filepath.Join(home, ".config", "gaia", "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "theirs.pub"), []byte(key.Line()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return commandOf(t, home, args...)
}

// commandOf is command for a user with this home.
func commandOf(t *testing.T, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{began: time.Now(), stdout: &out, stderr: &errs, getenv: func(name string) string { return map[string]string{"HOME": home, "HF_ENDPOINT": noHub}[name] }}
	code = a.exit(a.executeHere(args...))
	return code, out.String(), errs.String()
}

// foreignRun writes a run of the audit's corpus, and the public key it is
// signed by.
func foreignRun(t *testing.T, name string) (dir, key string) {
	t.Helper()
	c, err := runs.Parse(readFile(t, "audit/testdata/"+name))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	key = filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(key, []byte(runs.Key().Public().Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, key
}

// TestUnsubmittable: a run that was meant to be submitted, and found a bad
// entry in the judge cache on its way, says so at once and not only when it is
// audited.
func TestUnsubmittable(t *testing.T) {
	dir, key := foreignRun(t, "AUD-04/fires-cache-read.txt")
	code, stdout, stderr := command(t, "verify", "--trusted-key", key, dir)
	if code != exit.Findings || !strings.Contains(stderr, "gaia: error: not submittable: the judge cache did not verify: 1 integrity event\n") ||
		!strings.Contains(stdout, "unsubmittable  the judge cache did not verify: 1 integrity event\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := command(t, "verify", dir); code != exit.Untrusted || !strings.Contains(stderr, "by a key you do not trust") {
		t.Errorf("without the key: exit code %d, %s", code, stderr)
	}
}

// TestAuditExits: what an audit finds decides the exit code, and the text
// tells each finding and gap.
func TestAuditExits(t *testing.T) {
	for name, want := range map[string]string{
		"AUD-01/fires-uuid-json.txt":     "CRITICAL AUD-1.uuid-with-answer: ",
		"AUD-02/fires-no-model-call.txt": "CRITICAL AUD-2.no-model-call: ",
		"AUD-07/gap-no-revision.txt":     "AUD-7 could not see: ",
	} {
		dir, _ := foreignRun(t, name)
		code, stdout, stderr := trusting(t, "audit", dir)
		if code != exit.Findings || !strings.Contains(stdout, want) || !strings.Contains(stderr, "gaia: error: the audit is not clean: ") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
	dir, _ := foreignRun(t, "honest/search-echo.txt")
	if code, stdout, stderr := trusting(t, "audit", dir); code != exit.OK || !strings.Contains(stdout, "\nclean ") {
		t.Errorf("an honest run: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// cites is an endpoint whose answers come with citations, which the run did not ask for.
func cites(t *testing.T) string {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"m","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},
			"choices":[{"index":0,"message":{"role":"assistant","content":"FINAL ANSWER: none","annotations":[{"type":"url_citation"}]},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(ts.Close)
	return ts.URL + "/v1"
}

// TestUnfitRun: a run that is to be submitted and turns out unfit says so at its
// end and by its exit code, also when it is taken up again.
func TestUnfitRun(t *testing.T) {
	t.Parallel()
	const why = "AUD-1 answer-leakage: an unrecorded channel in task "
	data, key := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "key")
	if err := os.CopyFS(data, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	url := cites(t)
	if code, _, stderr := command(t, "key", "init", "--key", key); code != exit.OK {
		t.Fatal(stderr)
	}
	begin := func(more ...string) (code int, stdout, stderr, out string) {
		out = t.TempDir()
		code, stdout, stderr = command(t, append([]string{"run", "--submit-intent", "--dataset", "dir:" + data, "--base-url", url, "--model", "m", "--max-task-cost", "off",
			"--key", key, "--out", out, "--concurrency", "1", "--task", "fab1e001-0000-4000-8000-000000000001,fab1e002-0000-4000-8000-000000000002"}, more...)...)
		return code, stdout, stderr, out
	}
	code, stdout, stderr, _ := begin()
	if code != exit.Findings || !strings.Contains(stdout, "unsubmittable  "+why) || !strings.Contains(stderr, "gaia: error: not submittable: "+why) {
		t.Errorf("to its end: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr, _ := begin("--json"); code != exit.Findings || !strings.Contains(stdout, `"unsubmittable":"`+why) {
		t.Errorf("to its end, as JSON: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr, out := begin("--json", "--on-unsubmittable", "stop")
	if code != exit.Incomplete || !strings.Contains(stdout, `"unsubmittable":"`+why) || !strings.Contains(stdout, `"settled":1`) {
		t.Fatalf("stopped: exit code %d\n%s%s", code, stdout, stderr)
	}
	found, err := filepath.Glob(filepath.Join(out, "0*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	resume := []string{"resume", found[0], "--dataset", "dir:" + data, "--base-url", url, "--key", key, "--concurrency", "1"}
	if code, _, stderr := command(t, append(resume, "--on-unsubmittable", "stop")...); code != exit.Incomplete || !strings.Contains(stderr, "level=WARN msg=\"the run is not submittable any longer: "+why) {
		t.Errorf("taken up to stop again: exit code %d\n%s", code, stderr)
	}
	if code, stdout, stderr := command(t, resume...); code != exit.Findings || !strings.Contains(stdout, "unsubmittable  "+why) ||
		strings.Count(stderr, "the run is not submittable any longer: ") != 1 {
		t.Errorf("taken up: exit code %d\n%s%s", code, stdout, stderr)
	}
}
