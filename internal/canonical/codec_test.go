package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// every has a member of every kind that a codec knows. The order of its fields is not that of its members.
type every struct {
	Two    *one                      `json:"two,omitzero"`
	Never  any                       `json:"-"`
	Args   map[string]string         `json:"args"`
	Array  [2]int                    `json:"array"`
	Cost   *int64                    `json:"cost"`
	Flag   bool                      `json:"flag,omitzero"`
	Inner  int64                     `json:"inner"`
	Lists  [][]string                `json:"lists,omitempty"`
	Name   kind                      `json:"name,omitzero"`
	Nested map[string]map[string]one `json:"nested,omitempty"`
	One    one                       `json:"one,omitzero"`
	Quoted int8                      `json:"quoted,string,omitzero"`
	Small  int8                      `json:"small"`
	Text   string                    `json:"text"`
}

type (
	kind string
	one  struct {
		A int    `json:"a,omitzero"`
		B string `json:"b"`
	}
)

var seeds = []string{
	`{"args":{},"array":[1,2],"cost":null,"inner":0,"small":-128,"text":""}`,
	`{"args":{"":"","a":"\u0000\n","é":"\"\\","` + "\ue000" + `":"1"},"array":[0,-1],"cost":9007199254740992,"flag":true,"inner":-1,` +
		`"lists":[[],["x","y"]],"name":"n","nested":{"k":{"l":{"b":""},"m":{"a":1,"b":"x"}}},"one":{"b":"1"},"small":127,"text":"a/b<>&` + "\u2028\x7f😀" + `","two":{"b":""}}`,
	`{"args":{},"array":[1,2],"cost":null,"inner":0,"quoted":"-128","small":-128,"text":""}`,
	`{"args":{"` + "😀" + `":"1","` + "\ue000" + `":"2"},"array":[1,2],"cost":0,"inner":10,"small":0,"text":"\b\f\r\t\u001f"}`,
}

// agree wants the codec and the general way to have the same answer to bytes.
func agree(t *testing.T, data []byte) (accepted bool) {
	t.Helper()
	c := codecOf(reflect.TypeFor[every]())
	if c == nil {
		t.Fatal("the type has no codec")
	}
	var fast, general every
	err, want := Decode(data, &fast), decodeAny(data, &general)
	if (err == nil) != (want == nil) {
		t.Fatalf("%q: the codec says %v, the general way %v", data, err, want)
	}
	if err != nil {
		return false
	}
	if !reflect.DeepEqual(fast, general) {
		t.Fatalf("%q is %+v, and the general way %+v", data, fast, general)
	}
	if again, err := Encode(fast); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%q is encoded as %q, %v", data, again, err)
	}
	return true
}

func TestCodecAgrees(t *testing.T) {
	n := 0
	for _, seed := range seeds {
		if !agree(t, []byte(seed)) {
			t.Errorf("%s is refused", seed)
		}
		for at := range len(seed) + 1 {
			agree(t, []byte(seed[:at]))
			for _, c := range "\x00\t \"\\,:{}[]-019aeunrst\x7f\x80\xff" {
				put := string([]byte{byte(c)})
				if agree(t, []byte(seed[:at]+put+seed[at:])) {
					n++
				}
				if at < len(seed) && agree(t, []byte(seed[:at]+put+seed[at+1:])) {
					n++
				}
			}
			if at < len(seed) {
				agree(t, []byte(seed[:at]+seed[at+1:]))
			}
		}
		for _, s := range []string{`\u000a`, `\u0041`, `\/`, `\u001F`, `\u00`, `\ud83d\ude00`, "null", "[]", "{}", `""`, "1e3", "1.0", "-0", "00", "9007199254740993", "99999999999999999999"} {
			for at := range len(seed) {
				agree(t, []byte(seed[:at]+s+seed[at:]))
			}
		}
		for _, name := range []string{"array", "cost", "inner", "small", "lists", "one", "two", "nested", "flag", "name", "quoted"} {
			for _, value := range []string{"null", "[]", "{}", `""`, "0", "-1", "128", `"0"`, `"-1"`, `"128"`, `"01"`, `"-0"`, `"+1"`, `" 1"`, "true", "false", "[1]", "[1,2,3]", `[[]]`, `{"a":0,"b":""}`, `{"a":{}}`} {
				before, rest, ok := strings.Cut(seed, `"`+name+`":`)
				if _, after, found := strings.Cut(rest, `,"`); ok && found {
					agree(t, []byte(before+`"`+name+`":`+value+`,"`+after))
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d changes are another document", n)
	}
}

func FuzzCodec(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}

// TestNoCodec lists types that the general way must take.
func TestNoCodec(t *testing.T) {
	type recursive struct {
		Next *recursive `json:"next"`
	}
	type Embedded struct{}
	for _, v := range []any{recursive{}, []byte{}, [2]uint8{}, 1.5, uint(1), time.Second, time.Time{}, map[kind]int{}, errors.New(""), struct{ Embedded }{},
		struct {
			A int
		}{}, struct {
			A int `json:"'a b'"`
		}{}, struct {
			A string `json:"a,string"`
		}{}, struct {
			A time.Duration `json:"a,string"`
		}{}, struct {
			A one `json:"a,omitempty"`
		}{}} {
		if codecOf(reflect.TypeOf(v)) != nil {
			t.Errorf("%T has a codec", v)
		}
	}
	number := reflect.TypeFor[int]()
	for what, fields := range map[string][]reflect.StructField{ // which vet does not let a test write down
		"a member that is not exported": {{Name: "a", PkgPath: "a", Type: number, Tag: `json:"a"`}},
		"two members of a name":         {{Name: "A", Type: number, Tag: `json:"a"`}, {Name: "B", Type: number, Tag: `json:"a"`}},
	} {
		if codecOf(reflect.StructOf(fields)) != nil {
			t.Errorf("%s has a codec", what)
		}
	}
}

// TestInterface: a type that holds an interface has a codec that encodes what it holds.
func TestInterface(t *testing.T) {
	type holder struct {
		Steps []any `json:"steps"`
	}
	for _, tt := range []struct {
		steps []any
		want  string
	}{
		{nil, `{"steps":[]}`},
		{[]any{nil, 1, "x", one{A: 1}, &one{}, (*one)(nil), []any{true}}, `{"steps":[null,1,"x",{"a":1,"b":""},{"b":""},null,[true]]}`},
		{[]any{1.0, json.RawMessage(` {"b":1,"a":2}`)}, `{"steps":[1,{"a":2,"b":1}]}`}, // the general way encodes it
	} {
		got, err := Encode(holder{tt.steps})
		if err != nil || string(got) != tt.want {
			t.Errorf("encoded as %s, %v, want %s", got, err, tt.want)
		}
		var back holder
		if err := Decode(got, &back); err != nil && !strings.Contains(tt.want, "1") {
			t.Errorf("%s is refused: %v", got, err)
		}
	}
	if got, err := Encode(holder{[]any{MaxInt + 1}}); err == nil {
		t.Errorf("a number that is too large is encoded as %s", got)
	}
}

// TestDecodeReplaces: nothing is left of what the value was before.
func TestDecodeReplaces(t *testing.T) {
	v := every{Flag: true, Lists: [][]string{{"x"}}, One: one{A: 1}, Args: map[string]string{"a": "b"}}
	if err := Decode([]byte(seeds[0]), &v); err != nil || v.Flag || v.Lists != nil || v.One != (one{}) || len(v.Args) != 0 {
		t.Errorf("decoded %+v, %v", v, err)
	}
}

// TestStrings compares strings of all bytes, at all places of a word, with the general way.
func TestStrings(t *testing.T) {
	for c := range 256 {
		for length := range 20 {
			for at := range length + 1 {
				text := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("é"[:2], (length-at)/2)
				got, err := Encode(text)
				want, failed := encodeAny(text, false)
				if (err == nil) != (failed == nil) || !bytes.Equal(got, want) {
					t.Fatalf("%q is encoded as %s, %v; the general way gives %s, %v", text, got, err, want, failed)
				}
				var back string
				if err == nil && (Decode(got, &back) != nil || back != text) {
					t.Fatalf("%s is decoded as %q", got, back)
				}
				raw := []byte(`"` + text + `"`)
				if err, want := Decode(raw, &back), decodeAny(raw, new(string)); (err == nil) != (want == nil) {
					t.Fatalf("%s: the codec says %v, the general way %v", raw, err, want)
				}
			}
		}
	}
}

func TestRecent(t *testing.T) {
	var texts []string
	var data []byte
	for i := range 10 * recentStrings {
		for _, text := range []string{strconv.Itoa(i), strings.Repeat("x", i%100), Digest([]byte{byte(i)})} {
			texts = append(texts, text)
			data, _ = appendString(data, text)
		}
	}
	s := Scan(data)
	defer s.Close()
	for _, text := range texts {
		if got := s.Recent(); got != text {
			t.Fatalf("%q is read as %q", text, got)
		}
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(seeds[1])
	for name, decode := range map[string]func([]byte, any) error{"codec": Decode, "general": decodeAny} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := decode(data, new(every)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	var v every
	if err := Decode([]byte(seeds[1]), &v); err != nil {
		b.Fatal(err)
	}
	for name, encode := range map[string]func(any, bool) ([]byte, error){"codec": encode, "general": encodeAny} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := encode(v, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
