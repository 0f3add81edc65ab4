package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json/jsontext"
)

func TestCountRows(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "[0 rows counting the first 0 columns separated by ',']",
		"a,b\n\n\"c\nd\",e,f\n":          "[2 rows counting the first 2 to 3 columns separated by ',']",
		"a,\"b\"c\n":                     `[not well-formed: parse error on line 1, column 5: extraneous or missing " in quoted-field]`,
		strings.Repeat(",", 5<<20):       "[1 row counting the first 5242881 columns separated by ',']",
		`"` + strings.Repeat(",", 5<<20): "[with more than 4194304 fields]",
		strings.Repeat("a,b\n", 99):      "[99 rows counting the first 2 columns separated by ',']",
	} {
		if got := fmt.Sprint(countRows(text, ',')); got != want {
			t.Errorf("%.20q: %s, want %s", text, got, want)
		}
	}
}

// TestReadableJSON: what is indented is what jsontext indents, up to the limit of a
// document.
func TestReadableJSON(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat(" ", tools.LineRunes)
	for _, text := range []string{`{"a":[1.50,1e400,"\u0041",{}],"a":[],"b":{"c":null}}`, `"x"`, `[]`, `{"a":1} {"b":2}`, `{"a":`, ``, `[1,]`} {
		text += filler
		want := text
		v := jsontext.Value(text)
		if v.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)) == nil {
			want = string(v) + "\n"
		}
		if got := readableJSON(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	const deep = 9_999
	nested := strings.Repeat("[", deep) + strings.Repeat("]", deep)
	nested = "[" + strings.Repeat(nested+",", 800) + "0]"
	if got := readableJSON(nested); len(got) > tools.MaxDocument+1<<20 {
		t.Errorf("%d bytes of JSON become %d", len(nested), len(got))
	}
}
