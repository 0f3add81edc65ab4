package tools

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	pageRunes = 8000 // characters of a document shown at once
	around    = 2    // lines shown before and after a line that matches
	lineRunes = 300  // characters shown of a line in a list of matches
)

// document is a file or page turned into text.
type document struct {
	kind  string   // "csv", "xlsx", "pdf", "text", …
	notes []string // what the reader found worth saying: "12 rows", "decoded from windows-1252"
	text  string   // valid UTF-8, lines end with \n
}

// show renders page n (from 1; 0 means 1) of d under a line that says what
// this is and how to read on. With find only the lines holding it (whatever
// their case) are shown, with their neighbours and line numbers.
func (d document) show(title string, page int, find string) Output {
	about := strings.Join(append([]string{title + ": " + d.kind}, d.notes...), ", ")
	text := d.text
	if find != "" {
		lines, matches := matching(d.text, find)
		if matches == 0 {
			return Output{Document: d.text, Shown: fmt.Sprintf("[%s; no line holds %q]", about, find)}
		}
		about += fmt.Sprintf("; lines holding %q: %d, each as number:text, neighbours as number-text", find, matches)
		text = lines
	}
	pages := paginate(text)
	if page == 0 {
		page = 1
	}
	if page < 0 || page > len(pages) {
		out := failed("there is no page %d of %s: the last one is %d", page, title, len(pages))
		out.Document = d.text
		return out
	}
	about += fmt.Sprintf("; page %d of %d", page, len(pages))
	if page < len(pages) {
		about += fmt.Sprintf("; read on with page=%d", page+1)
		if find == "" {
			about += " or look inside with find"
		}
	}
	return Output{Document: d.text, Shown: "[" + about + "]\n" + pages[page-1]}
}

// paginate cuts text into pages of at most pageRunes characters, after a line
// or at least a word where one ends in the second half of the page.
func paginate(text string) []string {
	var pages []string
	for {
		end := runeOffset(text, pageRunes)
		if end == len(text) {
			return append(pages, text)
		}
		cut := end
		if i := strings.LastIndexByte(text[:end], '\n'); i >= end/2 {
			cut = i + 1
		} else if i := strings.LastIndexByte(text[:end], ' '); i >= end/2 {
			cut = i + 1
		}
		pages, text = append(pages, text[:cut]), text[cut:]
	}
}

// runeOffset returns where the first n characters of text end, in bytes.
func runeOffset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// matching lists the lines that hold find and their neighbours, as grep does:
// "12:match", "13-neighbour", and "--" between groups.
func matching(text, find string) (list string, matches int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	want := fold(find)
	at := make([]int, len(lines)) // where find stands in a line, in characters
	for i, line := range lines {
		if at[i] = runeIndex(fold(line), want); at[i] >= 0 {
			matches++
		}
	}
	var b strings.Builder
	last := -1 // the last line listed
	for i, line := range lines {
		near := at[max(i-around, 0):min(i+around+1, len(at))]
		if slices.Max(near) < 0 {
			continue
		}
		if last >= 0 && i > last+1 {
			b.WriteString("--\n")
		}
		mark := "-"
		if at[i] >= 0 {
			mark = ":"
		}
		fmt.Fprintf(&b, "%d%s%s\n", i+1, mark, window(line, at[i]))
		last = i
	}
	return b.String(), matches
}

// window cuts a long line to the part around character at.
func window(line string, at int) string {
	if utf8.RuneCountInString(line) <= lineRunes {
		return line
	}
	runes := []rune(line)
	from := max(0, min(at-lineRunes/2, len(runes)-lineRunes))
	part := string(runes[from : from+lineRunes])
	if from > 0 {
		part = "…" + part
	}
	if from+lineRunes < len(runes) {
		part += "…"
	}
	return part
}

// fold makes case not matter, one character for one, so that positions in the
// result are positions in s.
func fold(s string) []rune {
	runes := []rune(s)
	for i, r := range runes {
		runes[i] = unicode.ToLower(unicode.ToUpper(r))
	}
	return runes
}

func runeIndex(s, want []rune) int {
	i := strings.Index(string(s), string(want))
	if i < 0 {
		return -1
	}
	return utf8.RuneCountInString(string(s)[:i])
}
