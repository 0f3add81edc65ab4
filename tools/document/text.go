package document

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/wlynxg/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode/utf32"
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

const (
	guessSample = 64 << 10 // bytes that a guess is made from
	wideSample  = 4 << 10  // bytes that are examined to recognise UTF-16
)

// encodingOf finds what text is encoded in: nil for UTF-8. A byte order mark
// decides, then the content type, then what the text itself declares (web pages
// and XML), unless it is UTF-8 all the same. The rest is a guess.
func encodingOf(data []byte, contentType string) (e encoding.Encoding, name string, guessed bool) {
	switch { // which the library does not know
	case bytes.HasPrefix(data, []byte("\xff\xfe\x00\x00")):
		return utf32.UTF32(utf32.LittleEndian, utf32.ExpectBOM), "utf-32le", false
	case bytes.HasPrefix(data, []byte("\x00\x00\xfe\xff")):
		return utf32.UTF32(utf32.BigEndian, utf32.ExpectBOM), "utf-32be", false
	case escapes.Match(data) && !slices.ContainsFunc(data, isHigh) && decodes(japanese.ISO2022JP, data):
		return japanese.ISO2022JP, "iso-2022-jp", false // otherwise taken for UTF-8
	}
	e, name, certain := charset.DetermineEncoding(data, contentType)
	if certain && name == "utf-8" || !certain && utf8.Valid(data) {
		return nil, "utf-8", false
	}
	if certain {
		return e, name, false
	}
	if m := inDeclaration.FindSubmatch(data[:min(len(data), 1024)]); m != nil {
		if e, name := named(string(m[1])); e != nil {
			return e, name, false
		}
	}
	if name != "windows-1252" && name != "utf-8" {
		return e, name, false // a web page's own declaration
	}
	if nearlyUTF8(data) {
		return nil, "utf-8", false
	}
	e, name = guessEncoding(data)
	return e, name, true
}

// nearlyUTF8 reports whether all but a few stray bytes are UTF-8: other encodings
// seldom have two such characters in a row.
func nearlyUTF8(data []byte) bool {
	good, bad := 0, 0
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good++
		}
		data = data[size:]
	}
	return good >= 4 && good >= 10*bad
}

var (
	escapes       = regexp.MustCompile(`\x1b\$[B@]`) // that switch to Japanese characters in ISO 2022
	inDeclaration = regexp.MustCompile(`^\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']`)
)

func isHigh(b byte) bool { return b >= 0x80 }

// named is an encoding by one of its names, nil for UTF-8 and unknown ones.
func named(label string) (encoding.Encoding, string) {
	e, err := htmlindex.Get(label)
	if err != nil {
		return nil, ""
	}
	name, err := htmlindex.Name(e)
	if err != nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") {
		return nil, "" // text that says so and is not is in another encoding
	}
	return e, name
}

// guessEncoding guesses what text that is not UTF-8 is encoded in. Nothing
// separates the encodings of western Europe for sure; the most common is the
// guess for all of them, as in browsers.
func guessEncoding(data []byte) (encoding.Encoding, string) {
	sample := data[:min(len(data), guessSample)]
	if i := bytes.LastIndexByte(sample, '\n'); i > 0 && len(sample) < len(data) {
		sample = sample[:i] // not in the middle of a character
	}
	label, sure := detected(sample)
	if label == "MacCyrillic" && !slices.ContainsFunc(sample, func(b byte) bool { return b >= 0x80 && b < 0xa0 }) {
		label = "windows-1251" // the two differ in capitals, and in those bytes
	}
	labels := map[string]string{"MacCyrillic": "x-mac-cyrillic", "GB2312": "gb18030", "GB18030": "gb18030", "CP932": "shift_jis", "CP949": "euc-kr"}
	e, name := named(cmp.Or(labels[label], label))
	foreign := []string{"shift_jis", "euc-jp", "euc-kr", "gb18030", "big5", "koi8-r", "windows-1251", "x-mac-cyrillic",
		"iso-8859-5", "windows-1253", "iso-8859-7", "windows-1255", "iso-8859-8", "windows-874", "iso-2022-jp"}
	if e != nil && sure >= 0.6 && slices.Contains(foreign, name) && decodes(e, sample) {
		return e, name
	}
	if isShiftJIS(sample) {
		return japanese.ShiftJIS, "shift_jis"
	}
	return named("windows-1252")
}

// detected asks the library, which is not to be trusted with what it is given.
func detected(sample []byte) (label string, confidence float64) {
	defer func() {
		if recover() != nil {
			label, confidence = "", 0
		}
	}()
	r := chardet.Detect(sample)
	return r.Encoding, r.Confidence
}

func decodes(e encoding.Encoding, sample []byte) bool {
	text, err := e.NewDecoder().Bytes(sample)
	return err == nil && !bytes.ContainsRune(text, utf8.RuneError)
}

// isShiftJIS knows short texts that the library does not: they have to be
// valid, mostly in Japanese, and without the narrow letters that the accented
// ones of western Europe would be.
func isShiftJIS(sample []byte) bool {
	text, err := japanese.ShiftJIS.NewDecoder().Bytes(sample)
	if err != nil {
		return false
	}
	all, wide := 0, 0
	for _, r := range string(text) {
		switch {
		case r == utf8.RuneError || r >= 0xff61 && r <= 0xff9f:
			return false
		case r >= 0x3000:
			wide++
		}
		all++
	}
	return wide > 2 && wide*5 > all
}

// withMark puts the byte order mark before UTF-16 that has none. Only text in
// letters of one byte is known by its zeros: each second byte.
func withMark(data []byte) []byte {
	sample := data[:min(len(data), wideSample)]
	if len(data)%2 != 0 || len(sample) < 4 || !bytes.ContainsRune(sample, 0) {
		return data
	}
	for zero, mark := range []string{"\xfe\xff", "\xff\xfe"} {
		letters, pairs := 0, len(sample)/2
		for i := range pairs {
			if c := sample[2*i+1-zero]; sample[2*i+zero] == 0 && (c >= ' ' || c == '\t' || c == '\n' || c == '\r') {
				letters++
			}
		}
		if letters*10 >= pairs*9 {
			return append([]byte(mark), data...)
		}
	}
	return data
}
