package trajectory

import (
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

// NewRedactor also takes out the given values, which the caller found in
// secret-named settings. Values that are short or have no key's shape stay,
// so that a password "the" does not eat prose.
func NewRedactor(values []string) Redactor {
	var r Redactor
	for _, v := range values {
		if keyShaped.MatchString(v) {
			r.values = append(r.values, v)
		}
	}
	// The longest first: of two values that begin alike, the shorter one would
	// leave the other's end behind.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// keyShaped is what a value of a secret-named setting must look like.
var keyShaped = regexp.MustCompile(`^[A-Za-z0-9_+/=.:~-]{16,}$`)

// secretShapes are the published forms of common credentials. Bodies are often
// JSON text, where what stands before a key may be an escape that ends in a
// letter: the line break of "\nsk-…".
var secretShapes = regexp.MustCompile(`(\b|\\(?:[bfnrt]|u[0-9a-f]{4}))(?:sk-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}` +
	`|hf_[A-Za-z0-9]{30,}|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}|tvly-[A-Za-z0-9_-]{20,}` +
	`|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)

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
	n += len(secretShapes.FindAllStringIndex(s, -1))
	return secretShapes.ReplaceAllString(s, "${1}"+Redacted), n
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
