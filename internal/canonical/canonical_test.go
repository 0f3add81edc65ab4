package canonical_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json/jsontext"
)

// document has a member of every kind that signed files use.
type document struct {
	Args   map[string]string `json:"args"`
	Cost   *int64            `json:"cost"`
	Count  int64             `json:"count"`
	Extra  jsontext.Value    `json:"extra,omitzero"`
	Inner  *inner            `json:"inner,omitzero"`
	List   []string          `json:"list"`
	Name   string            `json:"name"`
	Number int               `json:"number,omitzero"`
	Note   string            `json:"note,omitzero"`
	Ok     bool              `json:"ok"`
}

type inner struct {
	Flag bool  `json:"flag,omitzero"`
	Size int64 `json:"size"`
}

func TestCanonical(t *testing.T) {
	raw := func(s string) jsontext.Value { return jsontext.Value(s) }
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"members by UTF-16 code units (RFC 8785 §3.2.3)", raw(`{"\u20ac":"Euro Sign","\r":"Carriage Return",
			"\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",
			"\u00f6":"Latin Small Letter O With Diaeresis"}`),
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
				`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		{"members of members", raw(`{"b":{"z":1,"a":[{"d":1,"c":2}]},"a":0}`), `{"a":0,"b":{"a":[{"c":2,"d":1}],"z":1}}`},
		{"order of arrays is kept", raw(`[3,1,2]`), `[3,1,2]`},
		{"a map", map[string]int{"b": 1, "a": 2, "B": 3}, `{"B":3,"a":2,"b":1}`},
		{"only the escapes that must be", "\b\t\n\f\r\"\\/<>&\u007f\u2028\u2029\x00\x1f'€",
			`"\b\t\n\f\r\"\\/<>&` + "\u007f\u2028\u2029" + `\u0000\u001f'€"`},
		{"escapes that need not be are undone", raw(`"\u0041\/\u20ac\ud83d\ude00\u000A\u001F"`), `"A/€😀\n\u001f"`},
		{"white space", raw(" {\n\t\"a\" : [ 1 , 2 ] } \r"), `{"a":[1,2]}`},
		{"digits in strings are not numbers", raw(`{"1.5":"-0 \" 1e400 \\","x":"\\"}`), `{"1.5":"-0 \" 1e400 \\","x":"\\"}`},
		{"empty", []any{map[string]int{}, []int{}, "", nil}, `[{},[],"",null]`},
		{"nil slice and map", struct {
			A []int          `json:"a"`
			B map[string]int `json:"b"`
			C *int           `json:"c"`
		}{}, `{"a":[],"b":{},"c":null}`},
		{"largest", int64(1 << 53), `9007199254740992`},
		{"smallest", int64(-1 << 53), `-9007199254740992`},
		{"a whole float is an integer", float64(12), `12`},
		{"zero", 0, `0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := canonical.Encode(tt.in)
			if err != nil || string(got) != tt.want {
				t.Fatalf("Canonical = %s, %v\nwant %s", got, err, tt.want)
			}
			if independent := canonicalAgain(t, got); independent != tt.want {
				t.Errorf("an independent encoder gives %s", independent)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	raw := func(s string) jsontext.Value { return jsontext.Value(s) }
	tests := map[string]any{
		"a fraction":               1.5,
		"a fraction in an array":   []float64{1, 2, 0.1},
		"above 2^53":               int64(1<<53 + 1),
		"below -2^53":              int64(-1<<53 - 1),
		"uint64":                   uint64(math.MaxUint64),
		"int64":                    int64(math.MinInt64),
		"beyond int64":             raw(`123456789012345678901234567890`),
		"exponent":                 raw(`1e3`),
		"large exponent":           raw(`1E400`),
		"point zero":               raw(`1.0`),
		"minus zero":               raw(`-0`),
		"minus zero as a float":    math.Copysign(0, -1),
		"a float that is too big":  1e21,
		"not a number":             math.NaN(),
		"infinity":                 math.Inf(1),
		"not UTF-8":                "a\xffb",
		"not UTF-8 in a name":      map[string]int{"\xc0": 1},
		"half a surrogate pair":    raw(`"\ud83d"`),
		"duplicate names":          raw(`{"a":1,"a":1}`),
		"duplicate names, escaped": raw(`{"a":1,"\u0061":1}`),
		"no JSON":                  raw(`{`),
		"two values":               raw(`1 2`),
		"a function":               func() {},
	}
	for name, in := range tests {
		if got, err := canonical.Encode(in); err == nil {
			t.Errorf("%s: Canonical = %s", name, got)
		}
		if name != "not UTF-8" && name != "not UTF-8 in a name" && name != "half a surrogate pair" {
			if got, err := canonical.EncodeLossy(in); err == nil {
				t.Errorf("%s: CanonicalLossy = %s", name, got)
			}
		}
	}
}

func TestCanonicalLossy(t *testing.T) {
	tests := []struct{ in, want string }{
		{"a\xffb", `"a�b"`},
		{"\xe2\x82", `"��"`},
		{"ok €\x00", `"ok €\u0000"`},
		{"\xed\xa0\x80", `"���"`}, // a surrogate, encoded
	}
	for _, tt := range tests {
		got, err := canonical.EncodeLossy(tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("CanonicalLossy(%q) = %s, %v; want %s", tt.in, got, err, tt.want)
		}
		var back string
		if err := canonical.Decode(got, &back); err != nil || !utf8.ValidString(back) {
			t.Errorf("what CanonicalLossy(%q) wrote does not read: %q, %v", tt.in, back, err)
		}
	}
	if got, err := canonical.EncodeLossy(map[string]int{"\xff": 1, "\xfe": 2}); err == nil {
		t.Errorf("two names that become one gave %s", got)
	}
}

// good is the one encoding of a document; each case of TestDecodeRefuses is a
// small change of it.
const good = `{"args":{"a":"1","b":"2"},"cost":5,"count":-3,"inner":{"size":7},"list":["x","y"],"name":"é\n","number":4,"ok":true}`

func TestDecode(t *testing.T) {
	for _, in := range []string{
		good,
		`{"args":{},"cost":null,"count":0,"list":[],"name":"","ok":false}`,
		`{"args":{},"cost":0,"count":9007199254740992,"extra":{"a":[1,{"b":null}]},"inner":{"flag":true,"size":-9007199254740992},"list":[""],"name":"` + "\u2028" + `","note":"\u0000","ok":false}`,
	} {
		var d document
		if err := canonical.Decode([]byte(in), &d); err != nil {
			t.Errorf("Decode(%s): %v", in, err)
		}
	}
	var d document
	if err := canonical.Decode([]byte(good), &d); err != nil {
		t.Fatal(err)
	}
	if d.Args["b"] != "2" || *d.Cost != 5 || d.Count != -3 || d.Inner.Size != 7 || d.List[1] != "y" || d.Name != "é\n" || d.Number != 4 || !d.Ok {
		t.Errorf("decoded %+v", d)
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, old, new string }{
		{"duplicate member", `"count":-3`, `"count":-3,"count":-3`},
		{"duplicate in a map", `"a":"1"`, `"a":"1","a":"1"`},
		{"unknown member", `"ok":true`, `"ok":true,"other":1`},
		{"unknown member inside", `{"size":7}`, `{"size":7,"weight":1}`},
		{"member in other case", `"name"`, `"Name"`},
		{"missing member", `"count":-3,`, ``},
		{"other order", `"count":-3,"inner":{"size":7}`, `"inner":{"size":7},"count":-3`},
		{"other order in a map", `"a":"1","b":"2"`, `"b":"2","a":"1"`},
		{"space", `"count":-3`, `"count": -3`},
		{"space before", `{"args"`, ` {"args"`},
		{"newline after", `"ok":true}`, "\"ok\":true}\n"},
		{"a second value", `"ok":true}`, `"ok":true}{}`},
		{"trailing bytes", `"ok":true}`, `"ok":true}x`},
		{"a NUL after", `"ok":true}`, "\"ok\":true}\x00"},
		{"a byte order mark", `{"args"`, "\ufeff" + `{"args"`},
		{"float", `"count":-3`, `"count":-3.0`},
		{"exponent", `"count":-3`, `"count":-3e0`},
		{"fraction", `"count":-3`, `"count":-3.5`},
		{"leading zero", `"count":-3`, `"count":-03`},
		{"plus", `"count":-3`, `"count":+3`},
		{"minus zero", `"count":-3`, `"count":-0`},
		{"above 2^53", `"count":-3`, `"count":9007199254740993`},
		{"below -2^53", `"count":-3`, `"count":-9007199254740993`},
		{"beyond int64", `"count":-3`, `"count":99999999999999999999`},
		{"a number as a string", `"count":-3`, `"count":"-3"`},
		{"a boolean as a number", `"ok":true`, `"ok":1`},
		{"null for a number", `"count":-3`, `"count":null`},
		{"null for a list", `["x","y"]`, `null`},
		{"null for a map", `{"a":"1","b":"2"}`, `null`},
		{"null for a string", `"x"`, `null`},
		{"an escape that need not be", `"é\n"`, `"\u00e9\n"`},
		{"a long escape", `\n`, `\u000a`},
		{"an escaped slash", `"x"`, `"\/"`},
		{"an escape in upper case", `"x"`, `"\u001F"`},
		{"an escaped name", `"count"`, `"c\u006funt"`},
		{"a raw control character", `\n`, "\n"},
		{"not UTF-8", `é`, "\xe9"},
		{"overlong UTF-8", `é`, "\xc1\xa9"},
		{"half a surrogate pair", `é`, `\ud83d`},
		{"an explicit zero", `"number":4`, `"number":0`},
		{"an explicit empty string", `"number":4`, `"note":"","number":4`},
		{"an explicit null", `"inner":{"size":7}`, `"inner":null`},
		{"an explicit false", `{"size":7}`, `{"flag":false,"size":7}`},
		{"space in a raw member", `"inner":{"size":7}`, `"extra":{"a": 1},"inner":{"size":7}`},
		{"other order in a raw member", `"inner":{"size":7}`, `"extra":{"b":1,"a":1},"inner":{"size":7}`},
		{"a float in a raw member", `"inner":{"size":7}`, `"extra":[0.5],"inner":{"size":7}`},
		{"a duplicate in a raw member", `"inner":{"size":7}`, `"extra":{"b":1,"b":1},"inner":{"size":7}`},
		{"cut", `,"ok":true}`, ``},
		{"nothing", good, ``},
		{"null", good, `null`},
		{"a list", good, `[` + good + `]`},
		{"nested beyond reason", `["x","y"]`, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(good, tt.old) != 1 {
				t.Fatalf("%q does not stand once in the good document", tt.old)
			}
			var d document
			if err := canonical.Decode([]byte(strings.Replace(good, tt.old, tt.new, 1)), &d); !errors.Is(err, canonical.ErrMalformed) {
				t.Errorf("Decode: %v", err)
			}
		})
	}
}

// TestDecodeFlips changes every single bit: nothing that still decodes may
// decode to the same document.
func TestDecodeFlips(t *testing.T) {
	var want document
	if err := canonical.Decode([]byte(good), &want); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			b := []byte(good)
			b[i] ^= 1 << bit
			var d document
			if canonical.Decode(b, &d) != nil {
				continue
			}
			if again, err := canonical.Encode(d); err != nil || string(again) == good {
				t.Errorf("byte %d, bit %d: %s decodes to the same document (%v)", i, bit, b, err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"args":{},"cost":null,"count":0,"extra":{"a":[1,{"b":null}]},"list":[],"name":"\u0000","ok":false}`))
	f.Add([]byte(`{"args":{"` + "\ue000" + `":"","😀":""},"cost":-1,"count":0,"list":[],"name":"","ok":false}`))
	f.Add([]byte(`{"extra":1e400}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d document
		if canonical.Decode(data, &d) != nil {
			return
		}
		again, err := canonical.Encode(d)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("accepted %q, which encodes to %q (%v)", data, again, err)
		}
		if independent := canonicalAgain(t, data); independent != string(data) {
			t.Fatalf("accepted %q, for which an independent encoder gives %q", data, independent)
		}
	})
}

// FuzzCanonical compares with the library's own canonical form, whatever way
// was taken to it.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{good, `{"a":1,"b":[{"z":0},{"a":0}],"c":{"d":{}}}`, `{"b":1,"a":2}`, `{"a":1,"a!":2,"a ":3}`, `{"a ":1,"a":2}`, `{"a!":1,"a":2}`, `{"é":1,"a":2}`,
		`{"\n":1,"a":2}`, `["\/","\u0001","\u0009","\u001F","\u001f","\u007f"]`, ` [ 1 ] `, strings.Repeat("[", 40) + `{"b":1,"a":2}` + strings.Repeat("]", 40),
		`{"a":` + strings.Repeat(`{"b":`, 40) + `{"z":1,"a":2}` + strings.Repeat("}", 41), `{"x":[],"y":{},"a":null}`, `{"a":[{"b":1},2],"B":true}`, `-0`, `1.0`, `9007199254740993`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := canonical.Encode(jsontext.Value(data))
		if err != nil {
			return
		}
		want := jsontext.Value(bytes.Clone(data))
		if err := want.Canonicalize(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Canonical(%q) = %q, the library gives %q (%v)", data, got, want, err)
		}
	})
}

func TestDigest(t *testing.T) {
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if got := canonical.Digest([]byte("abc")); got != want {
		t.Errorf("Digest = %s", got)
	}
	h := sha256.New()
	h.Write([]byte("a"))
	h.Write([]byte("bc"))
	if got := canonical.DigestOf(h); got != want {
		t.Errorf("DigestOf = %s", got)
	}
	empty := sha256.Sum256(nil)
	if got := canonical.Digest(nil); got != "sha256:"+hex.EncodeToString(empty[:]) {
		t.Errorf("Digest of nothing = %s", got)
	}
}

// canonicalAgain is a second implementation of the canonical form, over the
// standard library's reader: integers and strings only.
func canonicalAgain(t *testing.T, data []byte) string {
	t.Helper()
	dec := stdjson.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("the standard library cannot read %q: %v", data, err)
	}
	var b strings.Builder
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(x, y string) int { return slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y))) })
		for i, name := range names {
			b.WriteString([]string{"{", ","}[min(i, 1)])
			writeCanonical(b, name)
			b.WriteByte(':')
			writeCanonical(b, v[name])
		}
		b.WriteString([]string{"{}", "}"}[min(len(v), 1)])
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, x)
		}
		b.WriteByte(']')
	case string:
		b.WriteByte('"')
		for _, r := range v {
			if at := strings.IndexRune("\b\t\n\f\r\"\\", r); at >= 0 {
				b.WriteString(`\` + `btnfr"\`[at:at+1])
			} else if r < 0x20 {
				fmt.Fprintf(b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
	case stdjson.Number:
		b.WriteString(v.String())
	case bool:
		fmt.Fprint(b, v)
	case nil:
		b.WriteString("null")
	}
}
