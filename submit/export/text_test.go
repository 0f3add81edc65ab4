package export

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/trajectory"
)

// FuzzContentOf: of any beginning of a message's canonical form the beginning of
// its content is shown, and of anything else no more than text.
func FuzzContentOf(f *testing.F) {
	for _, content := range []string{"", "plain", "a \"b\" \\ c\n\x01", "𝔊 é \u2028", `\u00`, strings.Repeat("x", 3000)} {
		f.Add(content, 20)
	}
	f.Add(`{"content":"a\u12`, 3)
	f.Fuzz(func(t *testing.T, content string, at int) {
		if got := contentOf(content); !utf8.ValidString(got) && utf8.ValidString(content) {
			t.Fatalf("contentOf(%q) is %q", content, got)
		}
		valid := strings.ToValidUTF8(content, "\ufffd")
		line := string(trajectory.SentMessage{Content: valid, Role: "user"}.Canonical())
		if m, whole := message(line); !whole || m.Content != valid {
			t.Fatalf("the whole message reads as %q", m.Content)
		}
		if at < 0 || at > len(line) {
			at = len(line) - 1
		}
		for at > 0 && at < len(line) && !utf8.RuneStart(line[at]) {
			at--
		}
		if got := contentOf(line[:at]); !strings.HasPrefix(valid, got) {
			t.Fatalf("%q shows %q", line[:at], got)
		} else if at == len(line)-1 && got != valid {
			t.Fatalf("all of the content is there, and %q is shown", got)
		}
	})
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
		cut   bool
	}{{"abc", 3, "abc", false}, {"abcd", 3, "abc", true}, {"aé", 2, "a", true}, {"", 0, "", false}, {"é", 1, "", true}} {
		if got, cut := shorten(tt.text, tt.limit); got != tt.want || cut != tt.cut {
			t.Errorf("shorten(%q, %d) is %q, %v", tt.text, tt.limit, got, cut)
		}
	}
}
