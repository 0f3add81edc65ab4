package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// withCache gives a run the judge cache that lies in a directory.
func withCache(t *testing.T, c Config, dir string) Config {
	t.Helper()
	cache, err := judgecache.Open(dir, c.Key, nil, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.Verdicts = cache
	return c
}

// warm runs everything once and returns the directory of its judge cache and
// what came of it.
func warm(t *testing.T) (string, ledger.Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "judgments")
	r := execute(t, t.TempDir(), withCache(t, config(t), dir))
	s := verified(t, r.Dir).Summary()
	if s.Judge.Asked == 0 || s.Judge.Cached != 0 || s.Judge.TokensIn == 0 || s.JudgeCacheIntegrityEvents != 0 {
		t.Fatalf("with a cold cache: %+v", s.Judge)
	}
	return dir, s
}

// TestWarmCache: a repeated run asks the judge nothing and has the same scores.
func TestWarmCache(t *testing.T) {
	dir, cold := warm(t)
	r := execute(t, t.TempDir(), withCache(t, config(t), dir))
	s := verified(t, r.Dir).Summary()
	if s.Judge.Asked != cold.Judge.Asked || s.Judge.Cached != s.Judge.Asked || s.Judge.Judged != cold.Judge.Judged || s.Judge.TokensIn != 0 || *s.Judge.CostMicroUSD != 0 {
		t.Errorf("judge %+v, before %+v", s.Judge, cold.Judge)
	}
	if diff := cmp.Diff(cold.Scores, s.Scores); diff != "" {
		t.Errorf("other scores:\n%s", diff)
	}
}

// TestReadGold: a finished run's private file has the gold of every task, also
// of those without an answer, as the plan committed to it.
func TestReadGold(t *testing.T) {
	c := config(t)
	r := execute(t, t.TempDir(), c)
	answers, salt, err := ReadGold(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Gold.Map(), answers); diff != "" {
		t.Errorf("gold differs:\n%s", diff)
	}
	commitment, err := ledger.Commitment(answers, salt)
	if err != nil || commitment != verified(t, r.Dir).Manifest.GoldCommitment {
		t.Errorf("commitment %s, %v", commitment, err)
	}
	path := filepath.Join(r.Dir, PrivateFile)
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
		if _, _, err := ReadGold(r.Dir); !errors.As(err, &fault) || fault.File != PrivateFile {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(path, append(data, `{"answer":"half a li`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := ReadGold(r.Dir); err != nil || len(again) != len(answers) {
		t.Errorf("with a half-written line: %d answers, %v", len(again), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadGold(r.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}
