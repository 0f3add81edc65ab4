package trajectory

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/sign"
)

// How much of a body the journal shows, in bytes.
const (
	PromptHead   = 2 << 10
	OutputHead   = 2 << 10
	ResultHead   = 4 << 10
	ArgumentHead = 8 << 10
	OddHead      = 16 << 10 // of a message that its source does not give
)

// Excerpt is the hash-plus-head form of a body: SHA256 and Bytes are of the
// whole original, Head its start with secrets taken out, never ending inside
// a character.
type Excerpt struct {
	SHA256     string
	Bytes      int64
	Head       string
	Truncated  bool
	Redactions int
	BodySHA256 string // of the whole body without secrets, where it is kept; else ""
}

// Redactor takes secrets out of text before it is written. The zero value
// knows key shapes only.
type Redactor struct {
	values []string
}

// NewRedactor also takes out the given values, as they are and as they stand in
// a URL: found ones, of settings whose names say that they are secret, and
// declared ones, which are. Of those that were found the short ones and those
// without a key's shape stay, so that a password "the" does not eat prose; of
// the declared ones those of under six bytes.
func NewRedactor(found []string, declared ...string) Redactor {
	var r Redactor
	values := slices.DeleteFunc(slices.Clone(found), func(v string) bool { return !keyShaped.MatchString(v) })
	values = append(values, slices.DeleteFunc(slices.Clone(declared), func(v string) bool { return len(v) < 6 })...)
	for _, v := range values {
		r.values = append(r.values, v)
		for _, escaped := range []string{url.QueryEscape(v), url.PathEscape(v)} {
			if !slices.Contains(r.values, escaped) {
				r.values = append(r.values, escaped)
			}
		}
	}
	// The longest first: of two values that begin alike, the shorter one would
	// leave the other's end behind.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// keyShaped is what a value of a secret-named setting must look like.
var keyShaped = regexp.MustCompile(`^[A-Za-z0-9_+/=.:~-]{16,}$`)

// shape is the published form of a kind of credential. The secret is the first
// group of the form. Text is searched only if it holds one of the marks, which
// is much cheaper than the form. Where slugs and identifiers have the form,
// too, random tells the secret from them; whatever makes it true of some text
// makes it true of every longer one, or the head of a body could show what the
// body does not.
type shape struct {
	name   string
	marks  []string
	form   *regexp.Regexp
	random func(string) bool
}

// An edge stands before a credential. Bodies are often JSON text or hold URLs,
// so that may be an escape that ends in a letter: the line break of "\nsk-…".
const (
	escape = `\\(?:[bfnrt]|u[0-9a-f]{4})|%[0-9A-Fa-f]{2}`
	edge   = `(?:\b|` + escape + `)`
)

// secretShapes are looked for in this order: those of long keys whose alphabet
// has hyphens before others that such a key may hold by chance. Each takes all
// that its alphabet gives, or what follows would seem to begin at an edge once
// it is gone.
var secretShapes = []shape{
	// also PGP's; the end may be out of sight
	{"private key", []string{"PRIVATE KEY"}, regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$))`), nil},
	{"aws", []string{"AKIA", "ASIA"}, regexp.MustCompile(edge + `((?:AKIA|ASIA)[0-9A-Z]{16,})`), nil},
	{"langfuse", []string{"sk-lf-"}, regexp.MustCompile(edge + `(sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12,})`), nil},
	// OpenAI's of all ages, Anthropic's sk-ant-api03-, OpenRouter's sk-or-v1-, DeepSeek's, LiteLLM's; also CSS classes
	{"sk-", []string{"sk-"}, regexp.MustCompile(edge + `(sk-[A-Za-z0-9_-]{20,})`), looksRandom},
	{"stripe", []string{"k_live_", "k_test_"}, regexp.MustCompile(edge + `([sr]k_(?:live|test)_[A-Za-z0-9]{16,})`), nil},
	{"elevenlabs", []string{"sk_"}, regexp.MustCompile(edge + `(sk_[0-9a-f]{48,})`), nil},
	{"github", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(edge + `(gh[pousr]_[A-Za-z0-9]{36,})`), mixedCase},
	{"github fine-grained", []string{"github_pat_"}, regexp.MustCompile(edge + `(github_pat_[A-Za-z0-9_]{40,})`), opaque},
	{"gitlab", []string{"glpat-"}, regexp.MustCompile(edge + `(glpat-[A-Za-z0-9_-]{20,})`), opaque},
	{"hugging face", []string{"hf_"}, regexp.MustCompile(edge + `(hf_[A-Za-z0-9]{30,})`), mixedCase}, // letters only
	{"slack", []string{"xox"}, regexp.MustCompile(edge + `(xox[abeoprs]-[A-Za-z0-9-]{10,})`), hasDigit},
	{"slack app", []string{"xapp-"}, regexp.MustCompile(edge + `(xapp-[0-9]-[A-Za-z0-9-]{20,})`), nil},
	{"google", []string{"AIza"}, regexp.MustCompile(edge + `(AIza[0-9A-Za-z_-]{35,})`), nil},
	{"google oauth", []string{"ya29.", "GOCSPX-"}, regexp.MustCompile(edge + `((?:ya29\.|GOCSPX-)[0-9A-Za-z_-]{20,})`), opaque},
	{"groq", []string{"gsk_"}, regexp.MustCompile(edge + `(gsk_[A-Za-z0-9]{40,})`), mixedCase},
	{"xai", []string{"xai-"}, regexp.MustCompile(edge + `(xai-[A-Za-z0-9]{60,})`), mixedCase},
	{"perplexity", []string{"pplx-"}, regexp.MustCompile(edge + `(pplx-[A-Za-z0-9]{40,})`), nil},
	{"nvidia", []string{"nvapi-"}, regexp.MustCompile(edge + `(nvapi-[A-Za-z0-9_-]{40,})`), opaque},
	{"tavily", []string{"tvly-"}, regexp.MustCompile(edge + `(tvly-[A-Za-z0-9_-]{20,})`), mixedCase},
	// three letters are soon found in base64, so nothing of that may stand before them
	{"brave", []string{"BSA"}, regexp.MustCompile(`(?:^|[^A-Za-z0-9_+/-]|` + escape + `)(BSA[A-Za-z0-9_-]{24,})`), looksRandom},
	{"npm", []string{"npm_"}, regexp.MustCompile(edge + `(npm_[A-Za-z0-9]{36,})`), mixedCase},
	{"sendgrid", []string{"SG."}, regexp.MustCompile(edge + `(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})`), nil},
	{"jwt", []string{".eyJ"}, regexp.MustCompile(edge + `(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`), nil},
	{"bearer", []string{"earer "}, regexp.MustCompile(`[Bb]earer +([A-Za-z0-9._~+/-]{16,}=*)`), opaque},
	{"password in a URL", []string{"://"}, regexp.MustCompile(`://[^\s/?#@:"'<>\\\[\]]*:([^\s/?#@"'<>\\\[\]]{3,})@`), nil},
}

// looksRandom tells keys from slugs, which are words and numbers between
// hyphens. Keys are drawn from an alphabet of 16 to 64 characters: 16 or more
// letters and digits with nothing between them, or (base64url, which may break
// anywhere) capitals, small letters and digits that keep taking turns.
func looksRandom(s string) bool {
	const separator, lower, upper, digit = 0, 1, 2, 4
	seen, inPiece, piece := 0, 0, 0
	pairs, turns, last := 0, 0, separator
	for i := range len(s) {
		class := separator
		switch c := s[i]; {
		case 'a' <= c && c <= 'z':
			class = lower
		case 'A' <= c && c <= 'Z':
			class = upper
		case '0' <= c && c <= '9':
			class = digit
		}
		if class == separator {
			inPiece, piece, last = 0, 0, separator
			continue
		}
		seen |= class
		inPiece |= class
		piece++
		if last != separator {
			pairs++
			if class != last {
				turns++
			}
		}
		last = class
		if piece >= 16 && inPiece&digit != 0 && inPiece != digit {
			return true
		}
		// words take turns seldom: each begins with a capital at most
		if turns*5 >= pairs*2 && (i >= 22 && seen == lower|upper|digit || i >= 32 && seen == lower|upper) {
			return true
		}
	}
	return false
}

// mixedCase tells keys from identifiers that are written in one case.
func mixedCase(s string) bool {
	body := s[strings.IndexAny(s, "_-")+1:]
	return body != strings.ToLower(body) && body != strings.ToUpper(body)
}

// opaque is looser, for where a credential is announced.
func opaque(s string) bool {
	return looksRandom(s) || mixedCase(s) && (hasDigit(s) || len(s) >= 32)
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// Redact returns s without secrets and how many were taken out.
func (r Redactor) Redact(s string) (string, int) {
	n := 0
	for _, v := range r.values {
		if c := strings.Count(s, v); c > 0 {
			n += c
			s = strings.ReplaceAll(s, v, Redacted)
		}
	}
	for _, shape := range secretShapes {
		clean, c := shape.redact(s)
		s, n = clean, n+c
	}
	return s, n
}

func (s shape) redact(text string) (string, int) {
	if !slices.ContainsFunc(s.marks, func(mark string) bool { return strings.Contains(text, mark) }) {
		return text, 0
	}
	var out strings.Builder
	done, n := 0, 0
	for _, at := range s.form.FindAllStringSubmatchIndex(text, -1) {
		from, to := at[2], at[3]
		if s.random != nil && !s.random(text[from:to]) {
			continue
		}
		out.WriteString(text[done:from])
		out.WriteString(Redacted)
		done, n = to, n+1
	}
	if n == 0 {
		return text, 0
	}
	out.WriteString(text[done:])
	return out.String(), n
}

// maxLabel bounds, in bytes, the names and codes that come from outside.
const maxLabel = 256

// Label returns a name, code or id from outside as it may be recorded: without
// secrets, and cut to 256 bytes.
func (r Redactor) Label(s string) string {
	clean, _ := r.Redact(strings.ToValidUTF8(s, "\ufffd"))
	return cutUTF8(clean, maxLabel)
}

// How far beyond the cut a secret that begins before it is looked for, and how
// far the head stays from the edge of what was searched, where half a secret
// may stand: the bound of keyShaped. A private key needs no end to be found.
const (
	redactWindow = 8 << 10
	redactMargin = 4 << 10
)

// Excerpt cuts body to limit bytes. Secrets are looked for before the cut, so
// that no half of one is left at its edge: where redaction makes the text so
// much shorter that the head would reach the edge of the window, the window
// grows. Bytes that are not UTF-8 are shown as U+FFFD.
func (r Redactor) Excerpt(body string, limit int) Excerpt {
	x := Excerpt{SHA256: sign.Digest([]byte(body)), Bytes: int64(len(body))}
	for size := limit + redactWindow; ; size *= 2 {
		window := cutUTF8(body, size)
		clean, n := r.Redact(strings.ToValidUTF8(window, "�"))
		if len(window) < len(body) && len(clean) < limit+redactMargin {
			continue
		}
		x.Redactions = n
		x.Head = cutUTF8(clean, limit)
		x.Truncated = len(x.Head) < len(clean) || len(window) < len(body)
		return x
	}
}

// cutUTF8 returns at most limit bytes of s without splitting a character.
func cutUTF8(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
