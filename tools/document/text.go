package document

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json/jsontext"
)

// readText reads everything that is text in some encoding.
func (r Reader) readText(src Source) (tools.Document, error) {
	text, notes, err := decodeText(src.Data, src.ContentType)
	if err != nil {
		return tools.Document{}, err
	}
	switch media, ext := src.mediaType(), src.extension(); {
	case src.isPage() || src.Base != nil && media == "" && looksLikeHTML(text):
		return r.readHTML(text, src.Base, notes)
	case src.Base == nil && (ext == ".html" || ext == ".htm" || ext == ".xhtml") && strings.Contains(text, "<"):
		return r.readHTML(text, new(url.URL), append(notes, "as markdown, without what it does not show")) // links stay as they are
	case media == "text/tab-separated-values" || ext == ".tsv" || ext == ".tab":
		return tools.Document{Kind: "tsv", Notes: append(notes, countLines(text)...), Text: text}, nil
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
// that stands most often in the first line.
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

// countLines describes a table of tab-separated values, which has no quotes: each
// line is a row.
func countLines(text string) []string {
	rows, least, most := 0, 0, 0
	for line := range strings.Lines(text) {
		if line == "\n" {
			continue
		}
		columns := strings.Count(line, "\t") + 1
		if rows == 0 || columns < least {
			least = columns
		}
		rows, most = rows+1, max(most, columns)
	}
	return sizeOf(rows, least, most, '\t')
}

// countRows describes a table; the text itself is shown as it stands, since
// nothing is clearer than the original.
func countRows(text string, comma rune) []string {
	rows, least, most := csvRows{text: text, comma: string(comma)}, 0, 0
	for n := 0; ; n++ {
		fields, err := rows.next()
		switch {
		case err != nil:
			return []string{"not well-formed: " + err.Error()}
		case fields == 0:
			return sizeOf(n, least, most, comma)
		case n == 0:
			least = fields
		}
		least, most = min(least, fields), max(most, fields)
	}
}

// csvRows counts the fields of rows. It accepts what encoding/csv accepts, with the same
// errors. That package builds the fields: a row of 16 MiB can take 1.7 GB.
type csvRows struct {
	text, comma string
	number      int // of the last line that was read, from 1
}

// line reads a line with its end, "" at the end of the text.
func (c *csvRows) line() (line string) {
	end := strings.IndexByte(c.text, '\n') + 1
	if end == 0 {
		end = len(c.text)
	}
	if end > 0 {
		c.number++
	}
	line, c.text = c.text[:end], c.text[end:]
	return line
}

// next returns the number of fields of the next row, 0 at the end of the text.
func (c *csvRows) next() (fields int, err error) {
	line := c.line()
	for line == "\n" {
		line = c.line()
	}
	if line == "" {
		return 0, nil
	}
	begin, column := c.number, 1
	fault := func(why error, column int) error {
		return &csv.ParseError{StartLine: begin, Line: c.number, Column: column, Err: why}
	}
row:
	for {
		fields++
		if !strings.HasPrefix(line, `"`) {
			field, more, found := strings.Cut(line, c.comma)
			if i := strings.IndexByte(field, '"'); i >= 0 {
				return 0, fault(csv.ErrBareQuote, column+i)
			}
			if !found {
				return fields, nil
			}
			line, column = more, column+len(field)+1
			continue
		}
		line, column = line[1:], column+1
		for {
			i := strings.IndexByte(line, '"')
			switch {
			case i < 0 && line == "":
				return 0, fault(csv.ErrQuote, column)
			case i < 0:
				column += len(line)
				if line = c.line(); line != "" {
					column = 1
				}
				continue
			}
			line, column = line[i+1:], column+i+1
			switch {
			case strings.HasPrefix(line, `"`):
				line, column = line[1:], column+1
			case strings.HasPrefix(line, c.comma):
				line, column = line[1:], column+1
				continue row
			case line == "" || line == "\n":
				return fields, nil
			default:
				return 0, fault(csv.ErrQuote, column-1)
			}
		}
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
