package document

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json/jsontext"
)

// readText reads everything that is text in some encoding.
func (q request) readText() (tools.Document, error) {
	text, notes, err := decodeText(q.Data, q.ContentType)
	if err != nil {
		return tools.Document{}, err
	}
	media, ext := q.mediaType(), q.extension()
	file := q.Base == "" && slices.Contains(pageExtensions, ext) && strings.Contains(text, "<")
	if file {
		notes = append(notes, "as markdown, without what it does not show")
	}
	switch page := q.isPage() || q.Base != "" && media == "" && looksLikeHTML(text); {
	case (page || file) && q.Less > 0:
		notes = append(notes, "the source of a web page, which takes too much to convert")
	case page || file:
		doc, err := readHTML(text, q.Base)
		doc.Notes = append(notes, doc.Notes...)
		return doc, err
	case media == "text/tab-separated-values" || ext == ".tsv" || ext == ".tab":
		return tools.Document{Kind: "tsv", Notes: append(notes, countLines(text, '\t')...), Text: text}, nil
	case media == "text/csv" || ext == ".csv":
		return tools.Document{Kind: "csv", Notes: append(notes, countRows(text, delimiter(text))...), Text: text}, nil
	case strings.HasSuffix(media, "json") || strings.HasPrefix(ext, ".json") || ext == ".geojson":
		return tools.Document{Kind: "json", Notes: notes, Text: readableJSON(text)}, nil
	}
	return tools.Document{Kind: "text", Notes: notes, Text: text}, nil
}

// decodeText makes UTF-8 with \n line ends of data, in the encoding that
// [encodingOf] finds.
func decodeText(data []byte, contentType string) (text string, notes []string, err error) {
	encoding, name, guessed := encodingOf(data, contentType)
	if encoding == nil {
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		text = string(data)
		if !utf8.Valid(data) {
			text = strings.ToValidUTF8(text, "\ufffd")
			notes = append(notes, "with bytes that are not UTF-8, shown as \ufffd")
		}
	} else {
		decoded, err := encoding.NewDecoder().Bytes(data)
		if err != nil {
			return "", nil, tools.Unreadablef("it cannot be decoded from %s: %v", name, err)
		}
		text = strings.TrimPrefix(string(decoded), "\ufeff")
		note := "decoded from " + name
		if guessed {
			note += " (a guess)"
		}
		notes = append(notes, note)
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return "", nil, tools.Unreadablef("it looks like text but holds NUL bytes (the first at offset %d), so it is binary or damaged", i)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.NewReplacer("\r", "\n", "\f", "\n").Replace(text), notes, nil // a page ends with a line
}

// delimiter guesses what separates the fields of a csv file: the candidate
// that is most frequent in the first line.
func delimiter(text string) rune {
	first, _, _ := strings.Cut(text, "\n")
	best := ','
	for _, c := range ";\t|" {
		if strings.Count(first, string(c)) > strings.Count(first, string(best)) {
			best = c
		}
	}
	return best
}

// countLines describes a table without quotes: each line is a row.
func countLines(text string, comma rune) []string {
	rows, least, most := 0, math.MaxInt, 0
	for line := range strings.Lines(text) {
		if line != "\n" {
			columns := strings.Count(line, string(comma)) + 1
			rows, least, most = rows+1, min(least, columns), max(most, columns)
		}
	}
	return sizeOf(rows, least, most, comma)
}

// maxFields bounds the fields of a table with quotes whose rows are counted: all can be
// in one row, and each takes 24 bytes while its row is read.
const maxFields = 4 << 20

// countRows describes a table; the text itself is shown as it is, since
// nothing is clearer than the original.
func countRows(text string, comma rune) []string {
	if !strings.Contains(text, `"`) {
		return countLines(text, comma)
	}
	if strings.Count(text, string(comma)) > maxFields {
		return []string{fmt.Sprintf("with more than %d fields", maxFields)}
	}
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	for rows, least, most := 0, math.MaxInt, 0; ; rows++ {
		fields, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return sizeOf(rows, least, most, comma)
		case err != nil:
			return []string{"not well-formed: " + err.Error()}
		}
		least, most = min(least, len(fields)), max(most, len(fields))
	}
}

func sizeOf(rows, least, most int, comma rune) []string {
	columns := tools.Count(most, "column")
	if least < most {
		columns = fmt.Sprintf("%d to %d columns", least, most)
	}
	return []string{tools.Count(rows, "row") + " counting the first", columns, fmt.Sprintf("separated by %q", comma)}
}

// readableJSON breaks JSON into lines where it has only a few long ones, so
// that pages and find work on it. Numbers and names stay as they are written. It
// stops above maxDocument: the spaces before the lines of nested values can take
// thousands of times the text.
func readableJSON(text string) string {
	if len(text) < tools.LineRunes*(strings.Count(text, "\n")+1) {
		return text
	}
	keep := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)}
	var out strings.Builder
	from, to := jsontext.NewDecoder(strings.NewReader(text), keep...), jsontext.NewEncoder(&out, append(keep, jsontext.WithIndent("  "))...)
	for out.Len() <= tools.MaxDocument {
		token, err := from.ReadToken()
		if _, values := to.StackIndex(0); errors.Is(err, io.EOF) && values == 1 {
			break
		}
		if err == nil {
			err = to.WriteToken(token)
		}
		if err != nil || to.OutputOffset() > tools.MaxDocument+1<<20 { // it keeps back what only opens
			return text
		}
	}
	return out.String()
}
