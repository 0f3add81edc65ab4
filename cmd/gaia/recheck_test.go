package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestRecheck: a change in the middle of the journal, while the run is under
// way, is for --recheck and for verify to find.
func TestRecheck(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(data, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	for _, change := range []bool{false, true} {
		for _, recheck := range []string{"--recheck=false", "--recheck"} {
			out := t.TempDir()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if change {
					inRun(t, out, func(journal []byte) []byte {
						return bytes.Replace(journal, []byte(`"type":"run_started"`), []byte(`"type":"run_starred"`), 1)
					})
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id":"x","model":"m","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},
					"choices":[{"index":0,"message":{"role":"assistant","content":"FINAL ANSWER: none"},"finish_reason":"stop"}]}`)
			}))
			defer model.Close()
			want := exit.OK
			if change && recheck == "--recheck" {
				want = exit.Evidence
			}
			code, stdout, stderr := command(t, "run", recheck, "--dataset", "dir:"+data, "--base-url", model.URL, "--model", "m", "--max-task-cost", "off", "--out", out,
				"--no-preflight", "--task", "fab1e001-0000-4000-8000-000000000001")
			if code != want {
				t.Errorf("changed %v, %s: exit code %d, want %d\n%s%s", change, recheck, code, want, stdout, stderr)
			}
			if code, _, stderr := command(t, "verify", onlyRun(t, out)); (code == exit.Evidence) != change {
				t.Errorf("changed %v: verify ends with %d\n%s", change, code, stderr)
			}
		}
	}
}

// onlyRun returns the one run directory in a folder.
func onlyRun(t *testing.T, out string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "0*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// inRun changes the journal of the one run in a folder, in place and without another
// length.
func inRun(t *testing.T, out string, change func([]byte) []byte) {
	path := filepath.Join(onlyRun(t, out), trajectory.JournalFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteAt(change(b), 0); err != nil {
		t.Error(err)
	}
}
