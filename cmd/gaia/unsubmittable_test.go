package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures/runs"
)

// command runs a command in this process, in an empty home.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	home := t.TempDir()
	a := &app{began: time.Now(), stdout: &out, stderr: &errs, getenv: func(name string) string { return map[string]string{"HOME": home, "HF_ENDPOINT": noHub}[name] }}
	code = a.exit(a.execute(args))
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
	if code != exitFindings || !strings.Contains(stderr, "gaia: error: not submittable: 1 entry of the judge cache did not verify\n") ||
		!strings.Contains(stdout, "unsubmittable  1 entry of the judge cache did not verify\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := command(t, "verify", dir); code != exitEvidence || !strings.Contains(stderr, "by a key you do not trust") {
		t.Errorf("without the key: exit code %d, %s", code, stderr)
	}
}

// TestAuditExits: what an audit finds decides the exit code, and the text
// tells each finding and gap.
func TestAuditExits(t *testing.T) {
	for name, want := range map[string]string{
		"AUD-01/fires-uuid-json.txt":     "CRITICAL AUD-1.uuid-with-answer (exploited), task ",
		"AUD-02/fires-no-model-call.txt": "CRITICAL AUD-2.no-model-call (exploited), task ",
		"AUD-07/gap-no-revision.txt":     "AUD-7 could not see: ",
	} {
		dir, _ := foreignRun(t, name)
		code, stdout, stderr := command(t, "audit", dir)
		if code != exitFindings || !strings.Contains(stdout, want) || !strings.Contains(stderr, "gaia: error: the audit is not clean: ") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
	dir, _ := foreignRun(t, "honest/search-echo.txt")
	if code, stdout, stderr := command(t, "audit", dir); code != exitOK || !strings.Contains(stdout, "\nclean ") {
		t.Errorf("an honest run: exit code %d\n%s%s", code, stdout, stderr)
	}
}
