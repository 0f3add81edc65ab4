package judgecache

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
)

func sealed(t testing.TB) (name string, data []byte, trusted map[string]sign.PublicKey) {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	digest := canonical.Digest([]byte("a context"))
	data, err = entry{
		Schema: judgments().schema, Key: key.Public().ID(), Context: digest, Verdict: judgments().yes,
		Model: "ümpire/1", Created: "2026-01-02T03:04:05.678Z",
	}.seal(key)
	if err != nil {
		t.Fatal(err)
	}
	return fileName(digest), data, map[string]sign.PublicKey{key.Public().ID(): key.Public()}
}

// TestEveryBit: an entry in which one bit is another, or one byte is missing,
// doubled or cut at, is bad. None passes for an old entry, which no one is
// told of.
func TestEveryBit(t *testing.T) {
	name, data, trusted := sealed(t)
	if _, reason := verify(name, data, trusted); reason != noReason {
		t.Fatalf("the entry itself is %s", reason)
	}
	refuse := func(what string, changed []byte) {
		t.Helper()
		if bytes.Equal(changed, data) {
			return
		}
		if _, reason := verify(name, changed, trusted); reason == noReason || isLegacy(changed) {
			t.Errorf("%s: %q", what, changed)
		}
	}
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			refuse(fmt.Sprintf("byte %d, bit %d", i, bit), changed)
		}
		refuse("cut", data[:i])
		refuse("missing", slices.Delete(bytes.Clone(data), i, i+1))
		refuse("doubled", slices.Insert(bytes.Clone(data), i, data[i]))
	}
}

// TestContextsDiffer: two contexts have one digest only if they are equal,
// whatever stands in their fields. Half of the pairs are one text, cut into
// fields at different places. A battery of a judge has the digest of none.
func TestContextsDiffer(t *testing.T) {
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("\x00\n\r\t |,;:/\"\\{}[]ae\u00e9\ufffd\u2028")), 0, 3, -1)
	fields := rapid.SliceOfN(piece, 7, 7)
	toContext := func(f []string) Context { return Context{f[0], f[1], f[2], f[3], f[4], f[5], f[6]} }
	same, different := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		f := fields.Draw(t, "fields")
		g := fields.Draw(t, "others")
		if rapid.Bool().Draw(t, "cut again") {
			delimiter := rapid.SampledFrom([]string{"", "\x00", "\n", "|", ",", `","`}).Draw(t, "delimiter")
			g = recut(t, strings.Join(f, delimiter), delimiter)
		}
		a, b := toContext(f), toContext(g)
		da, err := a.Digest()
		if err != nil {
			t.Fatal(err)
		}
		db, err := b.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if (da == db) != (a == b) {
			t.Fatalf("%q and %q have digests %s and %s", f, g, da, db)
		}
		which, err := BatteryContext{g[6], g[3], g[4], g[5]}.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if which == da || which == db {
			t.Fatalf("%q is a battery, and yet has the digest of a judgment", g)
		}
		if a == b {
			same++
		} else {
			different++
		}
	})
	if same == 0 || different == 0 {
		t.Errorf("%d pairs were the same and %d not: one side was not tried", same, different)
	}
}

// recut cuts text into seven fields that give it again when joined.
func recut(t *rapid.T, text, delimiter string) []string {
	var runes = []rune(text)
	var g []string
	for len(g) < 6 {
		n := rapid.IntRange(0, len(runes)).Draw(t, "cut")
		if rest, ok := strings.CutPrefix(string(runes[n:]), delimiter); ok {
			g, runes = append(g, string(runes[:n])), []rune(rest)
			continue
		}
		before, after, ok := strings.Cut(string(runes), delimiter)
		g = append(g, before)
		if runes = []rune(after); !ok {
			g, runes = append(g, slices.Repeat([]string{""}, 6-len(g))...), nil
		}
	}
	return append(g, string(runes))
}

// FuzzParse: what is accepted is the one form of what it says, and is not an
// entry of the old form, too.
func FuzzParse(f *testing.F) {
	_, data, _ := sealed(f)
	f.Add(data)
	f.Add(bytes.Replace(data, []byte(`"correct"`), []byte(`"incorrect"`), 1))
	f.Add(bytes.Replace(data, []byte("/"), []byte(`\/`), 1))
	f.Add(bytes.Replace(bytes.Replace(data, []byte("judgment"), []byte("null-battery"), 1), []byte(`"correct"`), []byte(`"paid"`), 1))
	f.Add([]byte(`{"key":"k","verdict":"correct"}`))
	f.Add([]byte(`{"context":"","created":"","key":"","model":"","schema":"gaia.judgment/1","verdict":"correct"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		old := isLegacy(data)
		e, reason := parse(data)
		if reason != noReason {
			if e != (entry{}) {
				t.Errorf("%s, and yet %+v", reason, e)
			}
			return
		}
		again, err := canonical.Encode(e)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q is accepted, but encodes to %q, %v", data, again, err)
		}
		sig, err := sign.DecodeBase64(e.Signature)
		if err != nil || base64.StdEncoding.EncodeToString(sig) != e.Signature || old {
			t.Errorf("signature %q, legacy %v", e.Signature, old)
		}
		kind := e.Schema + " " + e.Verdict
		known := []string{"gaia.judgment/1 correct", "gaia.judgment/1 incorrect", "gaia.null-battery/1 withstood", "gaia.null-battery/1 paid"}
		if !slices.Contains(known, kind) || len(fileName(e.Context)) != 69 {
			t.Errorf("accepted %+v", e)
		}
	})
}

// TestUnreadableForAnyReason: an entry that cannot be read is bad and stops no
// look at all of them. A file in the directory's place makes every read fail.
func TestUnreadableForAnyReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	name, _, _ := sealed(t)
	r := newReader(file, nil)
	if e, found := r.entry(name); !found || e != (Entry{Name: name, Reason: unreadable}) {
		t.Errorf("entry: %v, %v", e, found)
	}
	if shut := unlisted(file); shut != NotRead {
		t.Errorf("unlisted: %q", shut)
	}
	c := &Cache{reader: r, reported: map[string]bool{}}
	for what, err := range map[string]error{"Put": c.Put(BatteryContext{}, true), "Get": func() error { _, _, _, err := c.Get(Context{}); return err }()} {
		if err == nil || !strings.HasSuffix(err.Error(), ": not a directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
