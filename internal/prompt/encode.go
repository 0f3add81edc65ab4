package prompt

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// caseJSON is the object a judge grades, on one line.
func caseJSON(question, candidate, expected string) string {
	return encode(struct {
		Question  string `json:"question"`
		Expected  string `json:"expected"`
		Candidate string `json:"candidate"`
	}{question, expected, candidate}, jsontext.EscapeForHTML(true))
}

func encode(v any, o ...json.Options) string {
	b, err := json.Marshal(v, append(o, jsontext.AllowInvalidUTF8(true))...)
	if err != nil {
		panic(err) // strings always marshal
	}
	return escapeUnseen(string(b))
}

// escapeUnseen writes what is unseen in a JSON text as \u escapes. Outside
// ASCII, a JSON text has characters only within its strings, so that the value
// stays the same.
func escapeUnseen(s string) string {
	if strings.IndexFunc(s, unseen) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch high, low := utf16.EncodeRune(r); {
		case !unseen(r):
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// unseen reports whether a character can hide or reorder text: controls, joiners and
// direction marks, fillers, variation selectors, tags. The ranges are written
// out because a rendering must not change with the toolchain's Unicode tables.
func unseen(r rune) bool {
	switch {
	case r < 0x7f:
		return false
	case r <= 0x9f,
		r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5,
		0x180b <= r && r <= 0x180f,
		0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f,
		r == 0x3164, 0xfe00 <= r && r <= 0xfe0f, r == 0xfeff, r == 0xffa0, 0xfff9 <= r && r <= 0xfffb,
		0xe0000 <= r && r <= 0xe0fff:
		return true
	}
	return false
}
