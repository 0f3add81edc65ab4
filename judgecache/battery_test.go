package judgecache_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

func battery() judgecache.BatteryContext {
	return judgecache.BatteryContext{Battery: canonical.Digest([]byte("battery")), Model: "umpire-1", Origin: "https://judge.example", PromptDigest: canonical.Digest([]byte("judge.v1"))}
}

func batteryPath(t testing.TB, dir string, which judgecache.BatteryContext) string {
	t.Helper()
	d, err := which.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, strings.TrimPrefix(d, "sha256:")+".json")
}

func putBattery(t testing.TB, c *judgecache.Cache, which judgecache.BatteryContext, withstood bool) {
	t.Helper()
	if err := c.Put(which, withstood); err != nil {
		t.Fatal(err)
	}
}

// batteryMembers are those of the entry that PutBattery makes, but for the
// signature.
func batteryMembers(t testing.TB, key sign.Key, which judgecache.BatteryContext, verdict string) map[string]string {
	return map[string]string{
		"schema": "gaia.null-battery/1", "key": key.Public().ID(), "context": "sha256:" + strings.TrimSuffix(filepath.Base(batteryPath(t, "", which)), ".json"),
		"verdict": verdict, "model": which.Model, "created": "2026-01-02T03:04:05.678Z",
	}
}

func TestPutBatteryThenGet(t *testing.T) {
	key, which := newKey(t, 1), battery()
	for verdict, withstood := range map[string]bool{"withstood": true, "paid": false} {
		dir := t.TempDir()
		c := open(t, dir, key)
		putBattery(t, c, which, withstood)
		for name, c := range map[string]*judgecache.Cache{"same": c, "reopened": open(t, dir, key)} {
			got, found, bad, err := c.Get(which)
			if got != withstood || !found || bad != nil || err != nil {
				t.Errorf("%s cache: GetBattery = %v, %v, %v, %v; want %v", name, got, found, bad, err, withstood)
			}
		}
		data, err := os.ReadFile(batteryPath(t, dir, which))
		if want := forgeAs(t, key, batteryType, batteryMembers(t, key, which, verdict)); err != nil || !bytes.Equal(data, want) {
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
		want   string // "paid", "withstood", or why the entry that is there stays
	}{
		"paid, then withstood":           {func(c *judgecache.Cache, _ string) { putBattery(t, c, battery(), false) }, true, "paid"},
		"another's paid, then withstood": {func(_ *judgecache.Cache, dir string) { putBattery(t, open(t, dir, other), battery(), false) }, true, "paid"},
		"paid twice":                     {func(c *judgecache.Cache, _ string) { putBattery(t, c, battery(), false) }, false, "paid"},
		"withstood, then paid":           {func(c *judgecache.Cache, _ string) { putBattery(t, c, battery(), true) }, false, "paid"},
		"withstood twice":                {func(c *judgecache.Cache, _ string) { putBattery(t, c, battery(), true) }, true, "withstood"},
		"a stranger's paid":              {func(_ *judgecache.Cache, dir string) { putBattery(t, open(t, dir, newKey(t, 3)), battery(), false) }, true, Untrusted},
		"paid, its signature spoilt": {func(c *judgecache.Cache, dir string) {
			putBattery(t, c, battery(), false)
			spoil(t, batteryPath(t, dir, battery()))
		}, true, forged},
		"withstood, its signature spoilt": {func(c *judgecache.Cache, dir string) {
			putBattery(t, c, battery(), true)
			spoil(t, batteryPath(t, dir, battery()))
		}, false, forged},
		"paid, and removed": {func(c *judgecache.Cache, dir string) {
			putBattery(t, c, battery(), false)
			must(t, os.Remove(batteryPath(t, dir, battery())))
		}, true, "withstood"},
	} {
		dir := t.TempDir()
		cache := open(t, dir, own, other.Public())
		c.before(cache, dir)
		err := cache.Put(battery(), c.put)
		if c.want == Untrusted || c.want == forged {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: PutBattery: %v", name, err)
			}
			if _, found, bad, _ := cache.Get(battery()); found || bad == nil || bad.Reason != c.want {
				t.Errorf("%s: GetBattery: found %v, bad %v", name, found, bad)
			}
			continue
		}
		if got, found, bad, getErr := cache.Get(battery()); got != (c.want == "withstood") || !found || bad != nil || errors.Join(err, getErr) != nil {
			t.Errorf("%s: GetBattery = %v, %v, %v, %v, %v", name, got, found, bad, err, getErr)
		}
		spoil(t, batteryPath(t, dir, battery()))
		if _, _, bad, _ := cache.Get(battery()); bad == nil {
			t.Errorf("%s: an entry that is bad then is not reported", name)
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

// TestAnotherBatteryMisses: an outcome is of one battery, put to one judge.
func TestAnotherBatteryMisses(t *testing.T) {
	c := open(t, t.TempDir(), newKey(t, 1))
	putBattery(t, c, battery(), true)
	for i := range 4 {
		other, broken := battery(), battery()
		for which, text := range map[*judgecache.BatteryContext]string{&other: "another", &broken: "\xff"} {
			*[]*string{&which.Battery, &which.Model, &which.Origin, &which.PromptDigest}[i] = text
		}
		if withstood, found, bad, err := c.Get(other); withstood || found || bad != nil || err != nil {
			t.Errorf("field %d: GetBattery = %v, %v, %v, %v", i, withstood, found, bad, err)
		}
		_, found, _, err := c.Get(broken)
		for _, err := range []error{err, c.Put(broken, true)} {
			if found || err == nil || err.Error() != "a judge's null battery is not named in UTF-8" {
				t.Errorf("field %d: found %v, %v", i, found, err)
			}
		}
	}
}

// TestBatteryDigest spells the signed object out: a change here makes every
// remembered battery useless.
func TestBatteryDigest(t *testing.T) {
	got, err := judgecache.BatteryContext{Battery: "b", Model: "m", Origin: "o", PromptDigest: "p"}.Digest()
	if want := canonical.Digest([]byte(`{"battery_sha256":"b","model":"m","origin":"o","prompt_digest":"p"}`)); got != want || err != nil {
		t.Errorf("Digest = %s, %v; not %s", got, err, want)
	}
}

// TestKindsApart tries to have a judgment taken for a battery, and a battery for a
// judgment: with the files there are, and by someone who holds a trusted key.
func TestKindsApart(t *testing.T) {
	const anotherKind = "of another kind than was asked"
	own, foreign := newKey(t, 1), newKey(t, 2)
	judgment, which := path(t, "", question(1)), batteryPath(t, "", battery())
	digestOf := func(file string) string { return "sha256:" + strings.TrimSuffix(file, ".json") }
	edit := func(old ...string) func([]byte) []byte {
		return func(data []byte) []byte { return []byte(strings.NewReplacer(old...).Replace(string(data))) }
	}
	asIs := edit()
	asBattery := []string{"gaia.judgment/1", "gaia.null-battery/1", `"correct"`, `"withstood"`}
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
	asTried := func() map[string]string { return batteryMembers(t, own, battery(), "withstood") }
	for _, c := range []struct {
		name, from, to string
		change         func([]byte) []byte
		want           string
	}{
		{"judgment under a battery's name", judgment, which, asIs, misplaced},
		{"judgment with a battery's context", judgment, which, edit(digestOf(judgment), digestOf(which)), forged},
		{"judgment called a battery", judgment, judgment, edit(asBattery...), forged},
		{"judgment called a battery, under its name", judgment, which, edit(append(asBattery, digestOf(judgment), digestOf(which))...), forged},
		{"judgment with a battery's schema", judgment, judgment, edit(asBattery[:2]...), malformed},
		{"judgment with a battery's verdict", judgment, judgment, edit(asBattery[2:]...), malformed},
		{"judgment signed with a battery's context", judgment, which, resign(own, judgmentType, asJudged(), "context", digestOf(which)), anotherKind},
		{"battery signed as a judgment is", which, which, resign(own, judgmentType, asTried()), forged},

		{"battery under a judgment's name", which, judgment, asIs, misplaced},
		{"battery with a judgment's context", which, judgment, edit(digestOf(which), digestOf(judgment)), forged},
		{"battery called a judgment", which, which, edit(asJudgment...), forged},
		{"battery called a judgment, under its name", which, judgment, edit(append(asJudgment, digestOf(which), digestOf(judgment))...), forged},
		{"battery with a judgment's schema", which, which, edit(asJudgment[:2]...), malformed},
		{"battery with a judgment's verdict", which, which, edit(asJudgment[2:]...), malformed},
		{"battery signed with a judgment's context", which, judgment, resign(own, batteryType, asTried(), "context", digestOf(judgment)), anotherKind},
		{"judgment signed as a battery is", judgment, judgment, resign(own, batteryType, asJudged()), forged},

		{"battery of a stranger", which, which, resign(foreign, batteryType, asTried(), "key", foreign.Public().ID()), Untrusted},
		{"battery with its verdict turned", which, which, edit(`"withstood"`, `"paid"`), forged},
		{"battery of another model", which, which, resign(own, batteryType, asTried(), "model", "umpire-2"), anotherModel},
		{"battery without a signature", which, which, func([]byte) []byte {
			m := asTried()
			forgeAs(t, own, batteryType, m)
			delete(m, "signature")
			return writeCanonical(t, m)
		}, unsigned},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cache := open(t, dir, own)
			put(t, cache, question(1), true)
			putBattery(t, cache, battery(), true)
			data, err := os.ReadFile(filepath.Join(dir, c.from))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, c.to), c.change(data), 0o600); err != nil {
				t.Fatal(err)
			}
			var found bool
			var bad *judgecache.Bad
			if c.to == which {
				_, found, bad, err = cache.Get(battery())
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

func writeCanonical(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canonical.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
