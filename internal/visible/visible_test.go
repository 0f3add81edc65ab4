package visible

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// invisible are characters of every kind that a reader does not see.
const invisible = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180d\u180e\u180f\u2000\u200a\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2064\u2066\u2069\u2800\u3164" +
	"\ufe00\ufe0f\ufeff\uffa0\ufff9\U0001d159\U0001d173\U000e0001\U000e0020\U000e007f\U000e0100\U000e01ef\u0000\u001b\u007f\u009b\u00a0\u3000\r"

func TestHidden(t *testing.T) {
	for _, r := range invisible {
		if !Hidden(r) {
			t.Errorf("%U is shown as it is", r)
		}
	}
	for _, r := range " aé—中กा\u0301☃𝒳🙂`|<\ufffd" {
		if Hidden(r) {
			t.Errorf("%U is escaped", r)
		}
	}
}

func TestEscapes(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Line("a\u200b\n\tb\U000e0001é"), `a\u200b\u000a\u0009b\U000e0001é`},
		{Text("a\u200b\n\tb\U000e0001é"), "a\\u200b\n\tb\\U000e0001é"},
		{JSON("\"a\u200b\U000e0001é\""), `"a\u200b\udb40\udc01é"`},
		{Quote("a\"\n\u3164\ufe0f\x1b"), `"a\"\n\u3164\ufe0f\x1b"`},
		{Line("plain é"), "plain é"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func FuzzEscapes(f *testing.F) {
	f.Add(invisible)
	f.Add("plain")
	f.Fuzz(func(t *testing.T, s string) {
		for name, shown := range map[string]string{"Line": Line(s), "Quote": Quote(s), "Text": strings.NewReplacer("\n", "", "\t", "").Replace(Text(s))} {
			if strings.ContainsFunc(shown, Hidden) || !utf8.ValidString(shown) && utf8.ValidString(s) {
				t.Errorf("%s(%q) is %q", name, s, shown)
			}
		}
		if !utf8.ValidString(s) {
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again string
		if err := json.Unmarshal([]byte(JSON(string(written))), &again); err != nil || again != s {
			t.Errorf("%q is read again as %q: %v", s, again, err)
		}
	})
}
