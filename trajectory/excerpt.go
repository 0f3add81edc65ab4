package trajectory

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/secret"
)

// How much of a body the journal shows, in bytes.
const (
	PromptHead   = 2 << 10
	OutputHead   = 2 << 10
	ResultHead   = 4 << 10
	ArgumentHead = 8 << 10
	OddHead      = 16 << 10 // of a message that its source does not give
)

// Excerpt is the hash-plus-head form of a body: SHA256 and Bytes are of the whole original, Head its start with secrets
// taken out, never ending inside a character.
type Excerpt struct {
	SHA256     string
	Bytes      int64
	Head       string
	Truncated  bool
	Redactions int
	BodySHA256 string // of the whole body without secrets, where it is kept; else ""
}

// Redactor takes secrets out of text before it is written. The zero value knows the forms of package secret only.
type Redactor struct {
	values []string
}

// NewRedactor also takes out the given values, as they are and as a URL escapes them: found ones, of settings whose
// names say that they are secret, and declared ones, which are. Of those that were found the short ones and those
// without a key's shape stay, so that a password "the" does not eat prose; of the declared ones those of under six
// bytes.
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
	// The longest first: of two values that begin alike, the shorter one would leave the other's end behind.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// keyShaped is what a value of a secret-named setting must look like.
var keyShaped = regexp.MustCompile(`^[A-Za-z0-9_+/=.:~-]{16,}$`)

// Redacted replaces a secret.
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
	s, found := secret.Redact(s, Redacted)
	return s, n + found
}

// maxLabel bounds, in bytes, the names and codes that come from outside.
const maxLabel = 256

// Label returns a name, code or id from outside as it may be recorded: without secrets, and cut to 256 bytes.
func (r Redactor) Label(s string) string {
	clean, _ := r.Redact(strings.ToValidUTF8(s, "\ufffd"))
	return CutUTF8(clean, maxLabel)
}

// How far beyond the cut a secret that begins before it is looked for, and how far the head stays from the edge of what
// was searched, where half a secret may be: the bound of keyShaped. A private key needs no end to be found.
const (
	redactWindow = 8 << 10
	redactMargin = 4 << 10
)

// Excerpt cuts body to limit bytes. Secrets are looked for before the cut, so that no half of one is left at its edge:
// where redaction makes the text so much shorter that the head would reach the edge of the window, the window grows.
// Bytes that are not UTF-8 are shown as U+FFFD.
func (r Redactor) Excerpt(body string, limit int) Excerpt {
	x := Excerpt{SHA256: canonical.Digest([]byte(body)), Bytes: int64(len(body))}
	for size := limit + redactWindow; ; size *= 2 {
		window := CutUTF8(body, size)
		clean, n := r.Redact(strings.ToValidUTF8(window, "�"))
		if len(window) < len(body) && len(clean) < limit+redactMargin {
			continue
		}
		x.Redactions = n
		x.Head = CutUTF8(clean, limit)
		x.Truncated = len(x.Head) < len(clean) || len(window) < len(body)
		return x
	}
}

// CutUTF8 returns at most limit bytes of s without splitting a character.
func CutUTF8(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// BodiesDir is the folder of a run directory that holds whole bodies, each in a file that is called by the hexadecimal
// digits of its digest.
const BodiesDir = "bodies/sha256"

// Body is a whole body without secrets, under its digest.
type Body struct {
	SHA256 string
	Text   string
}

// BodyFile returns where a run directory keeps the body of a digest; "" for what is no digest.
func BodyFile(digest string) string {
	if !canonical.IsDigest(digest) {
		return ""
	}
	return path.Join(BodiesDir, strings.TrimPrefix(digest, "sha256:"))
}
