package audit

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const longestEchoHead = 64 // bytes before an echo, in which words announce it

// quotedParts returns what of a question stands in quotation marks, in order. Where
// one mark opens and closes, or is an apostrophe, the one that opens follows no word,
// and the one that closes follows no space and precedes no word. A mark that is never
// closed opens nothing.
func quotedParts(b []byte) []interval {
	var parts []interval
	unclosed := map[string]bool{} // marks that close nothing any more
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		i += size
		closers := closingMarks(r)
		if closers == "" || unclosed[closers] || ambiguous(r) && wordBefore(b, i-size) {
			continue
		}
		end := closingMark(b, i, closers)
		if end == 0 {
			unclosed[closers] = true
			continue
		}
		parts = append(parts, interval{i, end})
		i = end
	}
	return parts
}

// closingMarks returns the marks that close what a mark opens; "" if it opens nothing.
func closingMarks(r rune) string {
	switch r {
	case '"', '\'', '`':
		return string(r)
	case '“':
		return "”"
	case '„', '‟':
		return "“”"
	case '«':
		return "»"
	case '»':
		return "«"
	case '‘':
		return "’"
	case '‚':
		return "‘’"
	case '‹':
		return "›"
	case '「':
		return "」"
	case '『':
		return "』"
	}
	return ""
}

// ambiguous reports whether a mark may open, close or be an apostrophe.
func ambiguous(mark rune) bool { return strings.ContainsRune("\"'`’", mark) }

// closingMark returns where the first of the marks behind a place stands, 0 for none.
func closingMark(b []byte, from int, marks string) int {
	for i := from; ; {
		next := bytes.IndexAny(b[i:], marks)
		if next < 0 {
			return 0
		}
		i += next
		r, size := utf8.DecodeRune(b[i:])
		after, _ := utf8.DecodeRune(b[i+size:])
		if !ambiguous(r) || i > from && !asciiSpace(b[i-1]) && !wordRune(after) {
			return i
		}
		i += size
	}
}

// askingSentence returns where the last sentence with a question mark begins and
// ends, in bytes; the whole question if there is none.
func askingSentence(b []byte) interval {
	end := max(bytes.LastIndexByte(b, '?'), bytes.LastIndex(b, []byte("？")))
	if end < 0 {
		return interval{0, len(b)}
	}
	start := 0
	for i := 0; i+1 < end; i++ {
		if strings.IndexByte(".!?", b[i]) >= 0 && asciiSpace(b[i+1]) || b[i] == '\n' {
			start = i + 1
		}
	}
	return interval{start, end}
}

// echoStems are what words begin with that stand before the echo of a query.
var echoStems = []string{"query", "queries", "search", "results", "resultados", "resultats", "ergebnisse", "suche", "recherche", "busca", "busqueda",
	"ricerca", "risultati", "zoek", "поиск", "запрос", "検索", "搜索", "showing", "asked", "input", "prompt"}

// echoHead reports whether a place of the question begins as the echo of a query
// does: behind words such as "results for", or in an address. At the beginning of a
// document the question stands without them.
func echoHead(b []byte, place interval) bool {
	i := place.start
	for i > 0 {
		r, size := utf8.DecodeLastRune(b[:i])
		if wordRune(r) {
			break
		}
		if r == '=' {
			return true
		}
		i -= size
	}
	var last [3][]byte
	words := 0
	for s := (wordScanner{b: b[max(0, i-longestEchoHead):i]}); s.next(); words++ {
		last = [3][]byte{last[1], last[2], s.word()}
	}
	if words == 0 {
		return true
	}
	for _, word := range last {
		for _, stem := range echoStems {
			if bytes.HasPrefix(word, []byte(stem)) {
				return true
			}
		}
	}
	return false
}

// asksAt reports whether a document begins with a field for the question, whose value
// stands at a place.
func (t probeText) asksAt(start int) bool {
	before := bytes.Trim(t.b[:min(start, longestEchoHead)], " \t\n{[(\"':")
	return len(before) == 0 || string(before) == "question"
}
