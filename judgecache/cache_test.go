package judgecache_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

// newKey makes a key that is the same in every run.
func newKey(t testing.TB, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func clock() time.Time {
	return time.Date(2026, 1, 2, 4, 4, 5, 678_999_999, time.FixedZone("", 3600))
}

func open(t testing.TB, dir string, key sign.Key, trusted ...sign.PublicKey) *judgecache.Cache {
	t.Helper()
	c, err := judgecache.Open(dir, key, trusted, clock)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t testing.TB, c *judgecache.Cache, ctx judgecache.Context, correct bool) {
	t.Helper()
	if err := c.Put(ctx, correct); err != nil {
		t.Fatal(err)
	}
}

func digest(t testing.TB, ctx judgecache.Context) string {
	t.Helper()
	d, err := ctx.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func path(t testing.TB, dir string, ctx judgecache.Context) string {
	return filepath.Join(dir, strings.TrimPrefix(digest(t, ctx), "sha256:")+".json")
}

// question is another context for every n.
func question(n int) judgecache.Context {
	return judgecache.Context{
		TaskID: fmt.Sprintf("fab1e000-0000-4000-8000-%012d", n), Answer: "a heron", Expected: "the grey heron",
		Model: "umpire-1", Origin: "https://judge.example", PromptDigest: canonical.Digest([]byte("judge.v1")), Battery: canonical.Digest([]byte("battery")),
	}
}

const (
	judgmentType = "application/vnd.gaia-harness.judgment+json"
	batteryType  = "application/vnd.gaia-harness.null-battery+json"
)

// forge makes an entry as another program would, from the format alone.
func forge(t testing.TB, key sign.Key, members map[string]string) []byte {
	t.Helper()
	return forgeAs(t, key, judgmentType, members)
}

func forgeAs(t testing.TB, key sign.Key, payloadType string, members map[string]string) []byte {
	t.Helper()
	payload, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	members["signature"] = base64.StdEncoding.EncodeToString(key.Sign([]byte(pae)))
	data, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// members are those of the entry that Put makes for ctx, but for the signature.
func members(t testing.TB, key sign.Key, ctx judgecache.Context, verdict string) map[string]string {
	return map[string]string{
		"schema": "gaia.judgment/1", "key": key.Public().ID(), "context": digest(t, ctx),
		"verdict": verdict, "model": ctx.Model, "created": "2026-01-02T03:04:05.678Z",
	}
}

func TestPutThenGet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "judgments")
	key := newKey(t, 1)
	for n, correct := range []bool{true, false} {
		c, ctx := open(t, dir, key), question(n)
		if _, found, bad, err := c.Get(ctx); found || bad != nil || err != nil {
			t.Errorf("before Put: found %v, bad %v, %v", found, bad, err)
		}
		put(t, c, ctx, !correct)
		put(t, c, ctx, correct)
		for name, c := range map[string]*judgecache.Cache{"same": c, "reopened": open(t, dir, key)} {
			got, found, bad, err := c.Get(ctx)
			if got != correct || !found || bad != nil || err != nil {
				t.Errorf("%s cache: Get = %v, %v, %v, %v; want %v", name, got, found, bad, err, correct)
			}
		}
		data, err := os.ReadFile(path(t, dir, ctx))
		if err != nil {
			t.Fatal(err)
		}
		verdict := map[bool]string{true: "correct", false: "incorrect"}[correct]
		if want := forge(t, key, members(t, key, ctx, verdict)); !bytes.Equal(data, want) {
			t.Errorf("the entry is\n%s\nnot\n%s", data, want)
		}
		if bytes.Contains(data, []byte("heron")) {
			t.Error("the entry holds the answer")
		}
	}
	for name, mode := range map[string]fs.FileMode{
		path(t, dir, question(0)): 0o600, dir: 0o700 | fs.ModeDir, filepath.Dir(dir): 0o700 | fs.ModeDir,
	} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, %v; want %v", filepath.Base(name), info.Mode(), err, mode)
		}
	}
	if s := sweep(t, open(t, dir, key)); s.Checked != 2 || len(s.Bad) > 0 {
		t.Errorf("Sweep = %+v", s)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("the directory holds %v, %v; want two files", files, err)
	}
}

// TestDigest spells the signed object out: a change here makes every entry
// there is useless.
func TestDigest(t *testing.T) {
	ctx := judgecache.Context{TaskID: "t", Answer: "é\n\"", Expected: "<e>", Model: "m", Origin: "o", PromptDigest: "p"}
	want := canonical.Digest([]byte(`{"answer":"é\n\"","expected":"<e>","model":"m","origin":"o","prompt_digest":"p","task_id":"t"}`))
	if got := digest(t, ctx); got != want {
		t.Errorf("Digest = %s, not %s", got, want)
	}
	want = canonical.Digest([]byte(`{"answer":"é\n\"","battery_sha256":"b","expected":"<e>","model":"m","origin":"o","prompt_digest":"p","task_id":"t"}`))
	if ctx.Battery = "b"; digest(t, ctx) != want {
		t.Errorf("Digest under a battery = %s, not %s", digest(t, ctx), want)
	}
}

func TestNotUTF8(t *testing.T) {
	c := open(t, t.TempDir(), newKey(t, 1))
	for i := range 7 {
		ctx := withField(question(1), i, "secret \xff")
		_, digestErr := ctx.Digest()
		_, found, bad, getErr := c.Get(ctx)
		for _, err := range []error{digestErr, getErr, c.Put(ctx, true)} {
			if err == nil || err.Error() != "a judgment's context is not UTF-8" {
				t.Errorf("field %d: %v", i, err)
			}
		}
		if found || bad != nil {
			t.Errorf("field %d: found %v, bad %v", i, found, bad)
		}
	}
}

func TestPutRefusesWhatGetWould(t *testing.T) {
	dir := t.TempDir()
	long := withField(question(1), 3, strings.Repeat("m", 16<<10))
	if err := open(t, dir, newKey(t, 1)).Put(long, true); err == nil || err.Error() != "a judgment cannot be kept: it would be too large" {
		t.Errorf("a name of 16 KiB: %v", err)
	}
	which := battery()
	which.Model = long.Model
	if err := open(t, dir, newKey(t, 1)).Put(which, true); err == nil || err.Error() != "a null battery cannot be kept: it would be too large" {
		t.Errorf("a battery of a name of 16 KiB: %v", err)
	}
	late, err := judgecache.Open(dir, newKey(t, 1), nil, func() time.Time { return clock().AddDate(9000, 0, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Put(question(1), true); err == nil || err.Error() != "a judgment cannot be kept: it would be not the canonical JSON of a judgment" {
		t.Errorf("in the year 11026: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("it left %v, %v", files, err)
	}
}

// TestSweepIsComplete has every kind of name there can be.
func TestSweepIsComplete(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, newKey(t, 1))
	put(t, c, question(1), true)
	put(t, c, question(2), true)
	entry, err := os.ReadFile(path(t, dir, question(1)))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(path(t, dir, question(1)))
	legacy := []byte(`{"key":"0af3","verdict":"correct"}`)
	for name, content := range map[string][]byte{
		"." + name + "123456": []byte(`{"cont`), "README": nil, name + ".bak": entry, "JSON": entry,
		"old.json": legacy,
		".json":    entry, "0.json": entry, "moved.json": entry, "\x1b[2J.json": nil,
		strings.ToUpper(name[:64]) + ".json": entry, "sha256:" + name: entry, strings.Repeat("0", 64) + ".json": entry,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := []judgecache.Bad{
		{Name: "\x1b[2J.json", Reason: malformed}, {Name: ".json", Reason: misplaced}, {Name: "0.json", Reason: misplaced},
		{Name: strings.Repeat("0", 64) + ".json", Reason: misplaced}, {Name: strings.ToUpper(name[:64]) + ".json", Reason: misplaced},
		{Name: "d.json", Reason: notRegular}, {Name: "moved.json", Reason: misplaced}, {Name: "sha256:" + name, Reason: misplaced},
	}
	slices.SortFunc(want, func(a, b judgecache.Bad) int { return strings.Compare(a.Name, b.Name) })
	got := sweep(t, c)
	if !slices.Equal(got.Bad, want) || got.Checked != 2+1+len(want) {
		t.Errorf("Sweep = %d, %q\nwant %q", got.Checked, got.Bad, want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := sweep(t, c); got.Checked != 1 || !slices.Equal(got.Bad, []judgecache.Bad{{Name: judgecache.Place, Reason: judgecache.NotRead}}) {
		t.Errorf("Sweep of a directory that went = %+v", got)
	}
}

func sweep(t testing.TB, c *judgecache.Cache) judgecache.Sweep {
	t.Helper()
	return c.Sweep()
}

// withField returns ctx with its i-th field set.
func withField(ctx judgecache.Context, i int, s string) judgecache.Context {
	*[]*string{&ctx.TaskID, &ctx.Answer, &ctx.Expected, &ctx.Model, &ctx.Origin, &ctx.PromptDigest, &ctx.Battery}[i] = s
	return ctx
}
