package document

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json/jsontext"
)

// rowsByLibrary is countRows by encoding/csv, which builds the fields.
func rowsByLibrary(text string, comma rune) []string {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord = comma, -1
	rows, least, most := 0, 0, 0
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return sizeOf(rows, least, most, comma)
		}
		if err != nil {
			return []string{"not well-formed: " + err.Error()}
		}
		if rows == 0 || len(record) < least {
			least = len(record)
		}
		rows, most = rows+1, max(most, len(record))
	}
}

// TestCountRows: rows, fields and errors are those of encoding/csv, for every text
// of up to seven of the characters that matter.
func TestCountRows(t *testing.T) {
	t.Parallel()
	const letters = "a\",\n"
	var all func(text string, left int)
	all = func(text string, left int) {
		if want, got := fmt.Sprint(rowsByLibrary(text, ',')), fmt.Sprint(countRows(text, ',')); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		for i := 0; i < len(letters) && left > 0; i++ {
			all(text+letters[i:i+1], left-1)
		}
	}
	all("", 7)
}

// TestCountRowsAllocates: a row of many fields takes no memory for each.
func TestCountRowsAllocates(t *testing.T) {
	text := strings.Repeat("a,", 1<<20) + "\n" + strings.Repeat("\"b\nb\",", 1<<18)
	if n := testing.AllocsPerRun(1, func() { countRows(text, ',') }); n > 50 {
		t.Errorf("%v allocations", n)
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
