package judgecache_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

func battery() judgecache.Trial {
	return judgecache.Trial{Battery: sign.Digest([]byte("battery")), Model: "umpire-1", Origin: "https://judge.example", PromptDigest: sign.Digest([]byte("judge.v1"))}
}

func trialPath(t testing.TB, dir string, trial judgecache.Trial) string {
	t.Helper()
	d, err := trial.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, strings.TrimPrefix(d, "sha256:")+".json")
}

func putTrial(t testing.TB, c *judgecache.Cache, trial judgecache.Trial, withstood bool) {
	t.Helper()
	if err := c.PutTrial(trial, withstood); err != nil {
		t.Fatal(err)
	}
}

// trialMembers are those of the entry that PutTrial makes, but for the
// signature.
func trialMembers(t testing.TB, key sign.Key, trial judgecache.Trial, verdict string) map[string]string {
	return map[string]string{
		"schema": "gaia.null-battery/1", "key": key.Public().ID(), "context": "sha256:" + strings.TrimSuffix(filepath.Base(trialPath(t, "", trial)), ".json"),
		"verdict": verdict, "model": trial.Model, "created": "2026-01-02T03:04:05.678Z",
	}
}

func TestPutTrialThenTrial(t *testing.T) {
	key, trial := newKey(t, 1), battery()
	for verdict, withstood := range map[string]bool{"withstood": true, "paid": false} {
		dir := t.TempDir()
		c := open(t, dir, key)
		putTrial(t, c, trial, withstood)
		for name, c := range map[string]*judgecache.Cache{"same": c, "reopened": open(t, dir, key)} {
			got, found, bad, err := c.Trial(trial)
			if got != withstood || !found || bad != nil || err != nil {
				t.Errorf("%s cache: Trial = %v, %v, %v, %v; want %v", name, got, found, bad, err, withstood)
			}
		}
		data, err := os.ReadFile(trialPath(t, dir, trial))
		if want := forgeAs(t, key, trialType, trialMembers(t, key, trial, verdict)); err != nil || !bytes.Equal(data, want) {
			t.Errorf("the entry is\n%s, %v\nnot\n%s", data, err, want)
		}
		put(t, open(t, dir, key), question(1), true)
		if s := sweep(t, open(t, dir, key)); s.Checked != 2 || len(s.Bad) > 0 {
			t.Errorf("Sweep = %+v", s)
		}
	}
}

// TestPaidStays: what a judge paid for stays, whoever of the trusted keeps that
// it withstood; what is bad does not stand in the way, and is told of all the same.
func TestPaidStays(t *testing.T) {
	own, other := newKey(t, 1), newKey(t, 2)
	for name, c := range map[string]struct {
		before func(*judgecache.Cache, string)
		put    bool
		want   bool
	}{
		"paid, then withstood":           {func(c *judgecache.Cache, _ string) { putTrial(t, c, battery(), false) }, true, false},
		"another's paid, then withstood": {func(_ *judgecache.Cache, dir string) { putTrial(t, open(t, dir, other), battery(), false) }, true, false},
		"paid twice":                     {func(c *judgecache.Cache, _ string) { putTrial(t, c, battery(), false) }, false, false},
		"withstood, then paid":           {func(c *judgecache.Cache, _ string) { putTrial(t, c, battery(), true) }, false, false},
		"withstood twice":                {func(c *judgecache.Cache, _ string) { putTrial(t, c, battery(), true) }, true, true},
		"a stranger's paid":              {func(_ *judgecache.Cache, dir string) { putTrial(t, open(t, dir, newKey(t, 3)), battery(), false) }, true, true},
		"paid, its signature spoilt": {func(c *judgecache.Cache, dir string) {
			putTrial(t, c, battery(), false)
			spoil(t, trialPath(t, dir, battery()))
		}, true, true},
		"withstood, its signature spoilt": {func(c *judgecache.Cache, dir string) {
			putTrial(t, c, battery(), true)
			spoil(t, trialPath(t, dir, battery()))
		}, false, false},
		"paid, and removed": {func(c *judgecache.Cache, dir string) {
			putTrial(t, c, battery(), false)
			must(t, os.Remove(trialPath(t, dir, battery())))
		}, true, true},
	} {
		dir := t.TempDir()
		cache := open(t, dir, own, other.Public())
		c.before(cache, dir)
		putTrial(t, cache, battery(), c.put)
		if got, found, bad, err := cache.Trial(battery()); got != c.want || !found || bad != nil || err != nil {
			t.Errorf("%s: Trial = %v, %v, %v, %v", name, got, found, bad, err)
		}
		spoil(t, trialPath(t, dir, battery()))
		if _, _, bad, _ := cache.Trial(battery()); bad == nil {
			t.Errorf("%s: nobody is told of an entry that is bad then", name)
		}
	}
}

// spoil changes the time that an entry says.
func spoil(t testing.TB, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, bytes.Replace(data, []byte(".678Z"), []byte(".679Z"), 1), 0o600))
}

// TestAnotherTrialMisses: an outcome is of one battery, put to one judge.
func TestAnotherTrialMisses(t *testing.T) {
	c := open(t, t.TempDir(), newKey(t, 1))
	putTrial(t, c, battery(), true)
	for i := range 4 {
		other, broken := battery(), battery()
		for trial, text := range map[*judgecache.Trial]string{&other: "another", &broken: "\xff"} {
			*[]*string{&trial.Battery, &trial.Model, &trial.Origin, &trial.PromptDigest}[i] = text
		}
		if withstood, found, bad, err := c.Trial(other); withstood || found || bad != nil || err != nil {
			t.Errorf("field %d: Trial = %v, %v, %v, %v", i, withstood, found, bad, err)
		}
		_, found, _, err := c.Trial(broken)
		for _, err := range []error{err, c.PutTrial(broken, true)} {
			if found || err == nil || err.Error() != "a judge's null battery is not named in UTF-8" {
				t.Errorf("field %d: found %v, %v", i, found, err)
			}
		}
	}
}

// TestTrialDigest spells the signed object out: a change here makes every
// remembered trial useless.
func TestTrialDigest(t *testing.T) {
	got, err := judgecache.Trial{Battery: "b", Model: "m", Origin: "o", PromptDigest: "p"}.Digest()
	if want := sign.Digest([]byte(`{"battery_sha256":"b","model":"m","origin":"o","prompt_digest":"p"}`)); got != want || err != nil {
		t.Errorf("Digest = %s, %v; not %s", got, err, want)
	}
}

// TestKindsApart tries to have a judgment taken for a trial, and a trial for a
// judgment: with the files there are, and by somebody who holds a trusted key.
func TestKindsApart(t *testing.T) {
	const anotherKind = "of another kind than was asked"
	own, foreign := newKey(t, 1), newKey(t, 2)
	judgment, trial := path(t, "", question(1)), trialPath(t, "", battery())
	digestOf := func(file string) string { return "sha256:" + strings.TrimSuffix(file, ".json") }
	edit := func(old ...string) func([]byte) []byte {
		return func(data []byte) []byte { return []byte(strings.NewReplacer(old...).Replace(string(data))) }
	}
	asIs := edit()
	asTrial := []string{"gaia.judgment/1", "gaia.null-battery/1", `"correct"`, `"withstood"`}
	asJudgment := []string{"gaia.null-battery/1", "gaia.judgment/1", `"withstood"`, `"correct"`}
	resign := func(key sign.Key, payloadType string, m map[string]string, change ...string) func([]byte) []byte {
		return func([]byte) []byte {
			for i := 0; i < len(change); i += 2 {
				m[change[i]] = change[i+1]
			}
			return forgeAs(t, key, payloadType, m)
		}
	}
	asJudged := func() map[string]string { return members(t, own, question(1), "correct") }
	asTried := func() map[string]string { return trialMembers(t, own, battery(), "withstood") }
	for _, c := range []struct {
		name, from, to string
		change         func([]byte) []byte
		want           string
	}{
		{"judgment under a trial's name", judgment, trial, asIs, misplaced},
		{"judgment with a trial's context", judgment, trial, edit(digestOf(judgment), digestOf(trial)), forged},
		{"judgment called a trial", judgment, judgment, edit(asTrial...), forged},
		{"judgment called a trial, under its name", judgment, trial, edit(append(asTrial, digestOf(judgment), digestOf(trial))...), forged},
		{"judgment with a trial's schema", judgment, judgment, edit(asTrial[:2]...), malformed},
		{"judgment with a trial's verdict", judgment, judgment, edit(asTrial[2:]...), malformed},
		{"judgment signed with a trial's context", judgment, trial, resign(own, judgmentType, asJudged(), "context", digestOf(trial)), anotherKind},
		{"trial signed as a judgment is", trial, trial, resign(own, judgmentType, asTried()), forged},

		{"trial under a judgment's name", trial, judgment, asIs, misplaced},
		{"trial with a judgment's context", trial, judgment, edit(digestOf(trial), digestOf(judgment)), forged},
		{"trial called a judgment", trial, trial, edit(asJudgment...), forged},
		{"trial called a judgment, under its name", trial, judgment, edit(append(asJudgment, digestOf(trial), digestOf(judgment))...), forged},
		{"trial with a judgment's schema", trial, trial, edit(asJudgment[:2]...), malformed},
		{"trial with a judgment's verdict", trial, trial, edit(asJudgment[2:]...), malformed},
		{"trial signed with a judgment's context", trial, judgment, resign(own, trialType, asTried(), "context", digestOf(judgment)), anotherKind},
		{"judgment signed as a trial is", judgment, judgment, resign(own, trialType, asJudged()), forged},

		{"trial of a stranger", trial, trial, resign(foreign, trialType, asTried(), "key", foreign.Public().ID()), Untrusted},
		{"trial with its verdict turned", trial, trial, edit(`"withstood"`, `"paid"`), forged},
		{"trial of another model", trial, trial, resign(own, trialType, asTried(), "model", "umpire-2"), anotherModel},
		{"trial without a signature", trial, trial, func([]byte) []byte {
			m := asTried()
			forgeAs(t, own, trialType, m)
			delete(m, "signature")
			return canonical(t, m)
		}, unsigned},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cache := open(t, dir, own)
			put(t, cache, question(1), true)
			putTrial(t, cache, battery(), true)
			data, err := os.ReadFile(filepath.Join(dir, c.from))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, c.to), c.change(data), 0o600); err != nil {
				t.Fatal(err)
			}
			var found bool
			var bad *judgecache.Bad
			if c.to == trial {
				_, found, bad, err = cache.Trial(battery())
			} else {
				_, found, bad, err = cache.Get(question(1))
			}
			if want := (judgecache.Bad{Name: c.to, Reason: c.want}); found || bad == nil || *bad != want || err != nil {
				t.Errorf("found %v, bad %v, %v; want %v", found, bad, err, want)
			}
			wantSwept := []judgecache.Bad{{Name: c.to, Reason: c.want}}
			if c.want == anotherKind || c.want == anotherModel { // only who asks knows of it
				wantSwept = nil
			}
			if got := sweep(t, open(t, dir, own)); !slices.Equal(got.Bad, wantSwept) {
				t.Errorf("Sweep: %v, want %v", got.Bad, wantSwept)
			}
		})
	}
}

func canonical(t testing.TB, v any) []byte {
	t.Helper()
	data, err := sign.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
