package trajectory

import (
	"encoding/base64"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// credential is an invented one as it stands in text: secret is what must go.
type credential struct{ shape, name, text, secret string }

// planted returns credentials of every shape.
func planted(t testing.TB) (all []credential) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "internal", "secret", "testdata", "credentials.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // a comment
		}
		text := strings.NewReplacer("·", "", `\n`, "\n").Replace(fields[2])
		before, rest, _ := strings.Cut(text, "«")
		secret, after, _ := strings.Cut(rest, "»")
		all = append(all, credential{fields[0], fields[1], before + secret + after, secret})
	}
	return all
}

// openai is the credential that tests use where any will do.
func openai(t testing.TB) string { return planted(t)[0].text }

// TestRedactRandomKeys draws keys as their issuers do: what tells them from
// slugs must know every one.
func TestRedactRandomKeys(t *testing.T) {
	long.NotRaced(t)
	const small, capital, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	const hex, alnum, url64 = digits + "abcdef", small + capital + digits, small + capital + digits + "-_"
	random := mathrand.New(mathrand.NewChaCha8([32]byte{3}))
	draw := func(n int, alphabet string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	forms := []struct {
		name string
		draw func() string
	}{
		{"openai", func() string { return "sk-" + draw(20, alnum) + "T3Blbk" + "FJ" + draw(20, alnum) }},
		{"openai, project", func() string { return "sk-proj-" + draw(74, url64) + "T3Blbk" + "FJ" + draw(74, url64) }},
		{"openai, service", func() string { return "sk-svcacct-" + draw(58, url64) + "T3Blbk" + "FJ" + draw(58, url64) }},
		{"anthropic", func() string { return "sk-ant-api03-" + draw(93, url64) + "AA" }},
		{"openrouter", func() string { return "sk-or-v1-" + draw(64, hex) }},
		{"deepseek", func() string { return "sk-" + draw(32, hex) }},
		{"moonshot", func() string { return "sk-" + draw(48, alnum) }},
		{"github", func() string { return "ghp_" + draw(36, alnum) }},
		{"github, fine", func() string { return "github_pat_" + draw(22, alnum) + "_" + draw(59, alnum) }},
		{"hugging face", func() string { return "hf_" + draw(34, small+capital) }},
		{"groq", func() string { return "gsk_" + draw(52, alnum) }},
		{"xai", func() string { return "xai-" + draw(80, alnum) }},
		{"nvidia", func() string { return "nvapi-" + draw(64, url64) }},
		{"tavily", func() string { return "tvly-dev-" + draw(32, alnum) }},
		{"npm", func() string { return "npm_" + draw(36, alnum) }},
		{"aws", func() string { return "AKIA" + draw(16, capital+"234567") }},
		{"google", func() string { return "AIza" + draw(35, url64) }},
		{"google, access", func() string { return "ya29." + draw(150, url64) }},
		{"slack", func() string { return "xoxb-" + draw(12, digits) + "-" + draw(12, digits) + "-" + draw(24, alnum) }},
		{"bearer, 256 bits", func() string { return "Bearer " + draw(43, url64) }},
	}
	for _, form := range forms {
		for range 1000 {
			key := form.draw()
			got, _ := Redactor{}.Redact(key)
			if left := strings.ReplaceAll(got, Redacted, ""); left != "" && left != "Bearer " {
				t.Errorf("%s: %q became %q", form.name, key, got)
				break
			}
		}
	}
}

func TestRedactLeavesInnocentText(t *testing.T) {
	long.NotRaced(t)
	image := make([]byte, 1<<20)
	if _, err := mathrand.NewChaCha8([32]byte{4}).Read(image); err != nil {
		t.Fatal(err)
	}
	innocent := []string{
		"", "sk-learn", "from sk-learn import", "the sk- prefix", "sk-", "sk-short-1234", "a sk-8 board",
		"sk-loading-indicator-wrapper-inner", `<div class="sk-fading-circle-12 sk-circle-container-wrapper">`, "sk-toggleable__control-label--estimator", "sk-hidden--visually-and-for-readers",
		"sk-NavigationBar_wrapper__3kX9z", "sk-learn-0-24-2-random-forest-classifier", "sk-2031-02-03-report-of-the-harbour-board", "/wiki/sk-slovenska-narodna-kniznica-v-martine-2031.html",
		"sk-InternationalizationProviderContext", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "sk-your-api-key-goes-here-please", "sk-proj-your-project-key-goes-here", "sk-ant-api03-your-key-goes-in-here",
		"desk-and-chair-arrangement-of-the-hall", "risk-adjusted-returns-on-capital-2031", "task-0123456789-0123456789-0123456789", "ask-aB3dE5gH7jaB3dE5gH7jaB3d",
		"hf_hub_download", "from huggingface_hub import hf_hub_download, hf_hub_url", "hf_home", "hf_transformermodelingutilitiesextended.py", "HF_TRANSFORMERMODELINGUTILITIESEXTENDED",
		"ghp_", "gho_st", "ghp_importantnotesaboutthegreenharbourpier.txt", "laghp_aB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3dE5gH7j", "github_pat_", "github_pat_of_the_integration_tests_and_of_nothing_else",
		"AKIA", "AKIAN", "AKIA is a family name, AKIA-2031 a bridge", "ASIA is a continent", "ASIATIC LION PANTHERA LEO", "MALAKIAQZ7EXAMPLE3INVEN",
		"xoxo", "xox-", "xoxo-hugs-and-kisses", "xoxp-hugs-and-kisses-to-all", "AIzawl is the capital of Mizoram", "tvly-", "tvly-client-configuration-and-options",
		"BSA", "BSA-the-bureau-of-small-arms-history", "BSABirminghamSmallArmsCompanyLimited", "pplx-api", "nvapi-reference-documentation-of-the-drivers-and-more", "npm_config_registry", "npm_lifecycleeventoftheharbourbuildsystem",
		"gsk_glaxo", "SG. 2031", "sk_live", "sk_test_harbour", "risk_live_0123456789abcdef01234567",
		"eyJhbGciOiJIUzI1NiJ9", "eyJ.eyJ.x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0", "eyJafjallajokull is no volcano. eyJafjord neither.",
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAaB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3=\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\nMIIBaB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3dE5gH7j\n-----END CERTIFICATE-----", "-----BEGIN PGP PUBLIC KEY BLOCK-----",
		"3f2b8c1e-9d47-4a60-8f15-27c9e0ab41d3", "d0c4a3b4f1e2a5968778695a4b3c2d1e0f9e8d7c", "commit d0c4a3b4f1e2a5968778695a4b3c2d1e0f9e8d7c", canonical.Digest(nil), "01JZ0000000000000000000RVN",
		"SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDvvr2p1tG4kFfQj5c", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0pZ3Vmo9dE5gH7jaB3dE5gH7jaB3dE5gH7jaB3 marta",
		"https://almanac.example/islands/marrack.html?page=2#tolls", "http://harbour.example:8080/tolls", "https://harbour.example:8080/@marta", "https://social.example/@marta", "git@code.example:marta/tolls.git",
		"mailto:marta@harbour.example", "see https://a.example: or write to marta@harbour.example", "https://marta@harbour.example/",
		"the bearer of the ring", "Bearer token-authentication-of-the-harbour", "a bearer internationalization", "Bearer bonds of 1990",
		"data:image/png;base64," + base64.StdEncoding.EncodeToString(image),
		"The key to the lighthouse is under the mat; its password is swordfish.",
	}
	r := NewRedactor([]string{"the", "password", "swordfish", "", "short", "two words that are long enough", "fifteen-chars-x", "quote\"s-are-no-key-shape"})
	if len(r.values) > 0 {
		t.Errorf("took %q for keys", r.values)
	}
	for _, s := range innocent {
		for _, redactor := range []Redactor{{}, r} {
			if got, n := redactor.Redact(s); got != s || n != 0 {
				t.Errorf("%.80q became %.80q with %d redactions", s, got, n)
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
	inURL, n := NewRedactor([]string{"Zm9vYmFyL2Jhei8rcXV4=="}).Redact("https://harbour.example/?key=Zm9vYmFyL2Jhei8rcXV4%3D%3D&sig=Zm9vYmFyL2Jhei8rcXV4==")
	if inURL != "https://harbour.example/?key=[redacted]&sig=[redacted]" || n != 2 {
		t.Errorf("in a URL: %q, %d", inURL, n)
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
		want := Excerpt{SHA256: canonical.Digest([]byte(tt.body)), Bytes: int64(len(tt.body)), Head: tt.head, Truncated: tt.truncated}
		if got != want {
			t.Errorf("%s: %+v\nwant %+v", tt.name, got, want)
		}
	}
}

// TestExcerptCutsNoKey slides keys of every shape over the cut, byte by byte
// in the thorough run: no part of one may be left.
func TestExcerptCutsNoKey(t *testing.T) {
	long.NotRaced(t)
	const limit = 400
	value := "s3cr3t-" + strings.Repeat("0123456789", 10)
	keys := append(planted(t), credential{"value", "of a setting", value, value})
	r := NewRedactor([]string{value})
	for _, c := range keys {
		key, name := c.secret, c.shape
		for at := limit - len(c.text) - 3; at < limit+3; at += long.Step(3) {
			before, after := strings.Repeat(" ", max(at, 0)), strings.Repeat(" ~", 200)
			body := before + c.text + after
			x := r.Excerpt(body, limit)
			for n := 4; n <= min(len(key), 12); n += 4 { // "AKIA" alone is no secret, but it is not there either
				if strings.Contains(x.Head, key[:n]) {
					t.Fatalf("%s at %d: the head ends in %q", name, at, x.Head[max(0, len(x.Head)-30):])
				}
			}
			if x.SHA256 != canonical.Digest([]byte(body)) || x.Bytes != int64(len(body)) || x.Redactions != 1 || len(x.Head) > limit || !x.Truncated {
				t.Fatalf("%s at %d: %+v", name, at, x)
			}
		}
	}
}

// TestExcerptAfterMuchRedaction: so much is taken out of the start that the head
// comes from what lay beyond the first window, where a key lies across its edge.
func TestExcerptAfterMuchRedaction(t *testing.T) {
	const limit = 2048
	key := openai(t)
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
	for _, c := range planted(f) {
		f.Add("text "+c.text+" text", 10)
	}
	f.Add("a\xff\xe2\x82€😀", 3)
	f.Fuzz(func(t *testing.T, body string, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		x := Redactor{}.Excerpt(body, limit)
		if !utf8.ValidString(x.Head) || len(x.Head) > limit || x.Bytes != int64(len(body)) || x.SHA256 != canonical.Digest([]byte(body)) {
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

// BenchmarkExcerpt cuts a page of 1 MB as a tool's result is cut, and a message
// of 64 KiB whole: the latter is all search, the former mostly hashing.
func BenchmarkExcerpt(b *testing.B) {
	line := `<p class="sk-circle-fade">The <a href="https://harbour.example/tolls?page=2#sk-table">tolls of Marrack</a> were set in 1904; ask-and-tell@harbour.example.</p>` + "\n"
	page := strings.Repeat(line, 1<<20/len(line))
	r := NewRedactor([]string{"a-secret-value-0123456789"})
	b.Run("page", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			if x := r.Excerpt(page, ResultHead); x.Redactions != 0 {
				b.Fatal(x.Redactions)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.SetBytes(64 << 10)
		for b.Loop() {
			if _, n := r.Redact(page[:64<<10]); n != 0 {
				b.Fatal(n)
			}
		}
	})
}

// Values that are known to be secret go whatever they look like.
func TestRedactDeclared(t *testing.T) {
	r := NewRedactor([]string{"a found one"}, "short-key-12345", "p@ss/word!2026#longer", "k,e;y-with-comma", "tiny5")
	got, n := r.Redact("short-key-12345 p@ss/word!2026#longer p%40ss%2Fword%212026%23longer k,e;y-with-comma tiny5 a found one")
	if want := "[redacted] [redacted] [redacted] [redacted] tiny5 a found one"; got != want || n != 4 {
		t.Errorf("%q, %d", got, n)
	}
}
