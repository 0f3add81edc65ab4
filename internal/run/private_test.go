package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// TestReadPrivate: a finished run's private file has the gold of every task, also
// of those without an answer, as the plan committed to it.
func TestReadPrivate(t *testing.T) {
	c := config(t)
	r := execute(t, t.TempDir(), c)
	answers, salts, err := grading.ReadPrivate(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.env.Gold.Map(), answers); diff != "" {
		t.Errorf("gold differs:\n%s", diff)
	}
	commitment, err := plan.Commitment(answers, salts.Salt)
	if err != nil || commitment != verified(t, r.Dir).Manifest.GoldCommitment {
		t.Errorf("commitment %s, %v", commitment, err)
	}
	path := filepath.Join(r.Dir, rundir.PrivateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for name, damaged := range map[string][]byte{
		"no salt":        bytes.Join(lines[1:], nil),
		"space":          bytes.Replace(data, []byte(`"gold":`), []byte(`"gold": `), 1),
		"unknown member": bytes.Replace(data, []byte(`"gold":`), []byte(`"golf":"","gold":`), 1),
		"nothing":        nil,
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		var fault *trajectory.Fault
		if _, _, err := grading.ReadPrivate(r.Dir); !errors.As(err, &fault) || fault.File != rundir.PrivateFile {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(path, append(data, `{"answer":"half a li`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := grading.ReadPrivate(r.Dir); err != nil || len(again) != len(answers) {
		t.Errorf("with a half-written line: %d answers, %v", len(again), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := grading.ReadPrivate(r.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}
