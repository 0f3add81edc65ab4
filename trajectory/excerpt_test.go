package trajectory

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/sign"
)

// planted are invented credentials, put together here so that no scanner takes
// this file for a leak.
func planted() map[string]string {
	many := strings.Repeat("aB3dE5gH7j", 8)
	return map[string]string{
		"openai":       "sk-" + many[:48],
		"project":      "sk-proj-" + many[:20] + "_" + many[:10] + "-x",
		"anthropic":    "sk-ant-api03-" + many[:40],
		"aws":          "AKIA" + "QZ7EXAMPLE3INVEN",
		"aws session":  "ASIA" + "QZ7EXAMPLE3INVEN",
		"github":       "ghp_" + many[:36],
		"github oauth": "gho_" + many[:40],
		"github fine":  "github_pat_" + many[:22] + "_" + many[:40],
		"hub":          "hf_" + many[:34],
		"slack":        "xoxb-" + "123456789012-" + many[:20],
		"google":       "AIza" + many[:35],
		"tavily":       "tvly-" + many[:32],
		"jwt":          "eyJ" + many[:20] + ".eyJ" + many[:40] + "." + many[:43],
		"pem":          "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n" + many + "\n" + many + "\n-----END " + "OPENSSH PRIVATE KEY-----",
		"pem, plain":   "-----BEGIN " + "PRIVATE KEY-----\n" + many + "\n-----END " + "PRIVATE KEY-----",
	}
}

func TestRedactShapes(t *testing.T) {
	// where a key may stand; the last ones are JSON text
	around := [][2]string{{"", ""}, {"key: ", ""}, {"(", ")."}, {"KEY=", "\n"}, {"\n", "\n"}, {`"`, `"`}, {"/", "?x"}, {"é", "é"}, {":", ","},
		{`{"content":"line\n`, `\nnext"}`}, {`"\t`, `\t"`}, {`"\r`, `"`}, {`{"arguments":"{\"text\":\"a\\n`, `\"}"}`}, {`"\u001b`, `"`}, {`"\u0000`, `"`}}
	for name, key := range planted() {
		for _, a := range around {
			got, n := Redactor{}.Redact(a[0] + key + a[1])
			if want := a[0] + Redacted + a[1]; got != want || n != 1 {
				t.Errorf("%s: %q with %d redactions, want %q", name, got, n, want)
			}
		}
	}
	two := planted()
	got, n := Redactor{}.Redact("a " + two["github"] + " b " + two["aws"] + " c " + two["github"])
	if got != "a [redacted] b [redacted] c [redacted]" || n != 3 {
		t.Errorf("three keys: %q, %d", got, n)
	}
	got, n = Redactor{}.Redact("see " + two["pem"][:100])
	if got != "see [redacted]" || n != 1 {
		t.Errorf("a private key without its end: %q, %d", got, n)
	}
}

func TestRedactLeavesInnocentText(t *testing.T) {
	innocent := []string{
		"", "sk-learn", "from sk-learn import", "the sk- prefix", "sk-", "sk-short-1234", "a sk-8 board",
		"desk-and-chair-arrangement-of-the-hall", "risk-adjusted-returns-on-capital-2031", "task-0123456789-0123456789-0123456789",
		"hf_hub_download", "from huggingface_hub import hf_hub_download, hf_hub_url", "hf_home", "ghp_", "gho_st", "github_pat_", "AKIA", "AKIAN", "ASIA is a continent",
		"ASIATIC LION PANTHERA LEO", "xoxo", "xox-", "AIzawl is the capital of Mizoram", "tvly-", "eyJhbGciOiJIUzI1NiJ9", "eyJ.eyJ.x",
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----",
		"3f2b8c1e-9d47-4a60-8f15-27c9e0ab41d3", "d0c4a3b4f1e2a5968778695a4b3c2d1e0f9e8d7c", sign.Digest(nil),
		"SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDvvr2p1tG4kFfQj5c", "https://almanac.example/islands/marrack.html?page=2#tolls",
		"The key to the lighthouse is under the mat; its password is swordfish.",
	}
	r := NewRedactor([]string{"the", "password", "swordfish", "", "short", "two words that are long enough", "fifteen-chars-x", "quote\"s-are-no-key-shape"})
	if len(r.values) > 0 {
		t.Errorf("took %q for keys", r.values)
	}
	for _, s := range innocent {
		for _, redactor := range []Redactor{{}, r} {
			if got, n := redactor.Redact(s); got != s || n != 0 {
				t.Errorf("%q became %q with %d redactions", s, got, n)
			}
		}
	}
}

func TestRedactValues(t *testing.T) {
	long, longer := "hunter2hunter2hu", "hunter2hunter2hunter2"
	if !strings.HasPrefix(longer, long) || len(long) != 16 {
		t.Fatal("the values do not begin alike")
	}
	for _, values := range [][]string{{long, longer}, {longer, long}, {longer, long, longer}} {
		r := NewRedactor(values)
		got, n := r.Redact("a=" + longer + " b=" + long + "," + long + " c=" + strings.ToUpper(long))
		if want := "a=[redacted] b=[redacted],[redacted] c=" + strings.ToUpper(long); got != want || n != 3 {
			t.Errorf("%v: %q, %d, want %q", values, got, n, want)
		}
	}
	for _, v := range []string{"Zm9vYmFyL2Jhei8rcXV4==", "key.with:dots~and=signs/", "0123456789abcdef"} {
		r := NewRedactor([]string{v})
		got, n := r.Redact("<" + v + v + ">")
		if got != "<[redacted][redacted]>" || n != 2 {
			t.Errorf("%q: %q, %d", v, got, n)
		}
	}
}

func TestExcerpt(t *testing.T) {
	tests := []struct {
		name, body string
		limit      int
		head       string
		truncated  bool
	}{
		{"empty", "", 4, "", false},
		{"shorter", "abc", 4, "abc", false},
		{"exact", "abcd", 4, "abcd", false},
		{"longer", "abcde", 4, "abcd", true},
		{"two bytes across the cut", "abcé", 4, "abc", true},
		{"two bytes up to the cut", "abéx", 4, "abé", true},
		{"three bytes", "ab€", 4, "ab", true},
		{"four bytes", "a😀", 4, "a", true},
		{"four bytes first", "😀", 3, "", true},
		{"nothing allowed", "a", 0, "", true},
		{"not UTF-8", "a\xffb", 9, "a�b", false},
		{"not UTF-8, a run", "a\xff\xfe\xfdb", 9, "a�b", false},
		{"not UTF-8, longer than its bytes", "\xff", 2, "", true},
		{"half a character at the end", "ab\xe2\x82", 9, "ab�", false},
		{"longer than the window", strings.Repeat("a", 4+redactWindow+1), 4, "aaaa", true},
	}
	for _, tt := range tests {
		got := Redactor{}.Excerpt(tt.body, tt.limit)
		want := Excerpt{SHA256: sign.Digest([]byte(tt.body)), Bytes: int64(len(tt.body)), Head: tt.head, Truncated: tt.truncated}
		if got != want {
			t.Errorf("%s: %+v\nwant %+v", tt.name, got, want)
		}
	}
}

// TestExcerptCutsNoKey slides keys of every shape over the cut, byte by byte:
// no part of one may be left.
func TestExcerptCutsNoKey(t *testing.T) {
	const limit = 400
	value := "s3cr3t-" + strings.Repeat("0123456789", 10)
	keys := planted()
	keys["value"] = value
	r := NewRedactor([]string{value})
	for name, key := range keys {
		for at := limit - len(key) - 3; at < limit+3; at++ {
			before, after := strings.Repeat(" ", max(at, 0)), strings.Repeat(" ~", 200)
			body := before + key + after
			x := r.Excerpt(body, limit)
			for n := 4; n <= min(len(key), 12); n += 4 { // "AKIA" alone is no secret, but it is not there either
				if strings.Contains(x.Head, key[:n]) {
					t.Fatalf("%s at %d: the head ends in %q", name, at, x.Head[max(0, len(x.Head)-30):])
				}
			}
			if x.SHA256 != sign.Digest([]byte(body)) || x.Bytes != int64(len(body)) || x.Redactions != 1 || len(x.Head) > limit || !x.Truncated {
				t.Fatalf("%s at %d: %+v", name, at, x)
			}
		}
	}
}

// TestExcerptAfterMuchRedaction: so much is taken out of the start that the head
// comes from what lay beyond the first window, where a key lies across its edge.
func TestExcerptAfterMuchRedaction(t *testing.T) {
	const limit = 2048
	key := planted()["openai"]
	value := strings.Repeat("v4lue-", 600)
	for _, big := range []string{
		"-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("x", redactWindow) + "-----END " + "PRIVATE KEY-----",
		strings.Repeat(key+" ", 200),
		strings.Repeat(value+" ", 3),
	} {
		for shift := 0; shift < len(key)+4; shift += 7 {
			fill := limit + redactWindow - len(big) - shift
			body := big + strings.Repeat(".", max(fill, 0)) + " " + key + " " + strings.Repeat("z", 1<<14)
			x := NewRedactor([]string{value}).Excerpt(body, limit)
			if strings.Contains(x.Head, "sk-") || strings.Contains(x.Head, key[8:16]) || strings.Contains(x.Head, "v4lue") {
				t.Fatalf("shift %d: the head holds %q", shift, x.Head)
			}
			if !utf8.ValidString(x.Head) || len(x.Head) > limit || !x.Truncated {
				t.Fatalf("shift %d: %+v", shift, x)
			}
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	for _, key := range planted() {
		f.Add("text "+key+" text", 10)
	}
	f.Add("a\xff\xe2\x82€😀", 3)
	f.Fuzz(func(t *testing.T, body string, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		x := Redactor{}.Excerpt(body, limit)
		if !utf8.ValidString(x.Head) || len(x.Head) > limit || x.Bytes != int64(len(body)) || x.SHA256 != sign.Digest([]byte(body)) {
			t.Fatalf("%+v", x)
		}
		if !x.Truncated && x.Redactions == 0 && x.Head != strings.ToValidUTF8(body, "�") {
			t.Fatalf("not truncated, not redacted, and not the body: %q", x.Head)
		}
		if clean, n := (Redactor{}).Redact(x.Head); n != 0 {
			t.Fatalf("the head still holds a key: %q", clean)
		}
	})
}
