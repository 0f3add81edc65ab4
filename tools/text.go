package tools

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// readText reads everything that is text in some encoding.
func (r Reader) readText(ctx context.Context, src source) (document, error) {
	text, notes, err := decodeText(src.data, src.contentType)
	if err != nil {
		return document{}, err
	}
	switch media, ext := src.mediaType(), src.extension(); {
	case src.isPage() || src.base != nil && media == "" && looksLikeHTML(text):
		return r.readHTML(ctx, text, src.base, notes)
	case src.base == nil && (ext == ".html" || ext == ".htm" || ext == ".xhtml") && strings.Contains(text, "<"):
		return r.readHTML(ctx, text, new(url.URL), append(notes, "as markdown, without what it does not show")) // links stay as they are
	case media == "text/tab-separated-values" || ext == ".tsv" || ext == ".tab":
		return document{"tsv", append(notes, countLines(text)...), text}, nil
	case media == "text/csv" || ext == ".csv":
		return document{"csv", append(notes, countRows(text, delimiter(text))...), text}, nil
	case strings.HasSuffix(media, "json") || strings.HasPrefix(ext, ".json") || ext == ".geojson":
		return document{"json", notes, readableJSON(text)}, nil
	}
	return document{"text", notes, text}, nil
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
			return "", nil, unreadablef("it cannot be decoded from %s: %v", name, err)
		}
		text = strings.TrimPrefix(string(decoded), "\ufeff")
		note := "decoded from " + name
		if guessed {
			note += " (a guess)"
		}
		notes = append(notes, note)
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return "", nil, unreadablef("it looks like text but holds NUL bytes (the first at offset %d), so it is binary or damaged", i)
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
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	rows, least, most := 0, 0, 0
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return []string{"not well-formed: " + err.Error()}
		}
		if rows == 0 || len(record) < least {
			least = len(record)
		}
		rows, most = rows+1, max(most, len(record))
	}
	return sizeOf(rows, least, most, comma)
}

func sizeOf(rows, least, most int, comma rune) []string {
	columns := count(most, "column")
	if least < most {
		columns = fmt.Sprintf("%d to %d columns", least, most)
	}
	return []string{count(rows, "row") + " counting the first", columns, fmt.Sprintf("separated by %q", comma)}
}

// readableJSON breaks JSON into lines where it has only a few long ones, so
// that pages and find work on it. Numbers and names stay as they are written.
func readableJSON(text string) string {
	if len(text) < lineRunes*(strings.Count(text, "\n")+1) {
		return text
	}
	v := jsontext.Value(text)
	if err := v.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)); err != nil {
		return text
	}
	return string(v) + "\n"
}
