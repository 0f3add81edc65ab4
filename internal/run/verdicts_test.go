package run

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
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

// spoil turns the verdict of an entry, without signing it.
func spoil(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no entries: %v", err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(data, []byte(`"verdict":"incorrect"`), []byte(`"verdict":"correct"`), 1)
	if bytes.Equal(other, data) {
		other = bytes.Replace(data, []byte(`"verdict":"correct"`), []byte(`"verdict":"incorrect"`), 1)
	}
	if err := os.WriteFile(names[0], other, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[0])
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

// TestSpoiltCache: an entry that somebody changed is not used. It keeps a run
// that is meant to be submitted from starting; another one asks again and counts
// it.
func TestSpoiltCache(t *testing.T) {
	dir, cold := warm(t)
	name := spoil(t, dir)
	c := withCache(t, config(t), dir)
	out := t.TempDir()
	var bad *CacheError
	if _, err := Create(out, c); !errors.As(err, &bad) || len(bad.Sweep.Bad) != 1 || bad.Sweep.Bad[0].Name != name || !strings.Contains(err.Error(), name) {
		t.Fatalf("a run meant to be submitted: %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	c.SubmitIntent = false
	r := execute(t, out, c)
	s := verified(t, r.Dir).Summary()
	if s.JudgeCacheIntegrityEvents != 1 || s.Judge.Cached != s.Judge.Asked-1 || s.Judge.TokensIn == 0 {
		t.Errorf("%d integrity events, judge %+v", s.JudgeCacheIntegrityEvents, s.Judge)
	}
	if diff := cmp.Diff(cold.Scores, s.Scores); diff != "" {
		t.Errorf("other scores:\n%s", diff)
	}
	if swept, err := c.Verdicts.Sweep(); err != nil || len(swept.Bad) != 0 {
		t.Errorf("the entry was not replaced: %+v, %v", swept, err)
	}
}

// TestCacheSpoiltMeanwhile: an entry that is changed after the sweep is found
// when it is wanted, and that is on record before the judge is asked.
func TestCacheSpoiltMeanwhile(t *testing.T) {
	dir, cold := warm(t)
	c := withCache(t, config(t), dir)
	c.Watch = func(e trajectory.Event) {
		if _, ok := e.Payload.(trajectory.RunStarted); ok {
			spoil(t, dir)
		}
	}
	r, err := Create(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	var read []trajectory.SecurityEvent
	found, err := ledger.Verify(os.DirFS(r.Dir), ledger.Options{Event: func(e trajectory.Event) error {
		if p, ok := e.Payload.(trajectory.SecurityEvent); ok && p.Kind == trajectory.JudgeCacheRead {
			read = append(read, p)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := found.Summary()
	if len(read) != 1 || read[0].Bad != 1 || len(read[0].Entries) != 1 || s.JudgeCacheIntegrityEvents != 1 || s.Judge.Cached != s.Judge.Asked-1 {
		t.Errorf("%+v, %d integrity events, judge %+v", read, s.JudgeCacheIntegrityEvents, s.Judge)
	}
	if diff := cmp.Diff(cold.Scores, s.Scores); diff != "" {
		t.Errorf("other scores:\n%s", diff)
	}
}

// TestStrangersCache: what another key signed is as bad as what nobody did.
func TestStrangersCache(t *testing.T) {
	dir, _ := warm(t)
	c := config(t)
	other, err := sign.NewKey(rand.NewChaCha8([32]byte{99}))
	if err != nil {
		t.Fatal(err)
	}
	c.Key = other
	var bad *CacheError
	if _, err := Create(t.TempDir(), withCache(t, c, dir)); !errors.As(err, &bad) || len(bad.Sweep.Bad) != bad.Sweep.Checked {
		t.Errorf("error is %v", err)
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
