package tools

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/secret"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// Limits of what is read. They hold for files and for what comes over HTTP.
const (
	MaxFile     = 64 << 20 // bytes of a file
	MaxDocument = 16 << 20 // bytes of text made from one; the rest is left out, with a note
	PageRunes   = 8000     // characters of a document shown at once
	LineRunes   = 300      // characters shown of a line in a list of matches
	around      = 2        // lines shown before and after a line that matches
)

// Document is a file or page turned into text.
type Document struct {
	Kind  string   // "csv", "xlsx", "pdf", "text", …
	Notes []string // what the reader found worth saying: "12 rows", "decoded from windows-1252"
	Text  string   // valid UTF-8, lines end with \n
}

// Show renders page n (from 1; 0 means 1) of d under a line that says what
// this is and how to read on. With find only the lines holding it (whatever
// their case) are shown, with their neighbours and line numbers.
func (d Document) Show(title string, page int, find string) Output {
	about := strings.Join(append([]string{title + ": " + d.Kind}, d.Notes...), ", ")
	text := d.Text
	if find != "" {
		lines, matches := matching(d.Text, find)
		if matches == 0 {
			return Output{Document: d.Text, Shown: fmt.Sprintf("[%s; no line holds %q]", about, find)}
		}
		about += fmt.Sprintf("; lines holding %q: %d, each as number:text, neighbours as number-text", find, matches)
		text = lines
	}
	pages := Paginate(text)
	if page == 0 {
		page = 1
	}
	if page < 0 || page > len(pages) {
		out := Failed("there is no page %d of %s: the last one is %d", page, title, len(pages))
		out.Document = d.Text
		return out
	}
	about += fmt.Sprintf("; page %d of %d", page, len(pages))
	if page < len(pages) {
		about += fmt.Sprintf("; read on with page=%d", page+1)
		if find == "" {
			about += " or look inside with find"
		}
	}
	return Output{Document: d.Text, Shown: "[" + about + "]\n" + pages[page-1]}
}

// Paginate cuts text into pages of at most PageRunes characters, after a line
// or at least a word where one ends in the second half of the page.
func Paginate(text string) []string {
	var pages []string
	for {
		end := RuneOffset(text, PageRunes)
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

// RuneOffset returns where the first n characters of text end, in bytes.
func RuneOffset(text string, n int) int {
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
	at := make([]int, len(lines)) // place of find in a line, in characters
	for i, line := range lines {
		folded := fold(line)
		if at[i] = strings.Index(folded, want); at[i] >= 0 {
			at[i] = utf8.RuneCountInString(folded[:at[i]])
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
	if utf8.RuneCountInString(line) <= LineRunes {
		return line
	}
	runes := []rune(line)
	from := max(0, min(at-LineRunes/2, len(runes)-LineRunes))
	part := string(runes[from : from+LineRunes])
	if from > 0 {
		part = "…" + part
	}
	if from+LineRunes < len(runes) {
		part += "…"
	}
	return part
}

// fold makes case not matter, one character for one, so that positions in the
// result are positions in s.
func fold(s string) string {
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, s)
}

// Unreadable is the reason, for the model, why there is no document.
type Unreadable struct{ Why string }

func (u *Unreadable) Error() string { return u.Why }

func Unreadablef(format string, args ...any) error {
	return &Unreadable{fmt.Sprintf(format, args...)}
}

// Plain is the text of an error on one line. A library's words can hold
// anything that is in the file.
func Plain(err error) string {
	if err == nil {
		return ""
	}
	return PlainLine(err.Error())
}

// PlainLine is a text from outside on one line, as it may be shown.
func PlainLine(text string) string {
	text = strings.Map(Printable, strings.ToValidUTF8(text, "\ufffd"))
	return text[:RuneOffset(text, 400)]
}

// Printable makes every kind of space a space and drops control characters and
// soft hyphens.
func Printable(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r' || r == '\u00a0':
		return ' '
	case r < ' ' || r == '\u00ad':
		return -1
	}
	return r
}

// Clipped is d with no more text than a document may have.
func (d Document) Clipped() Document {
	if len(d.Text) > MaxDocument { // cut after a line if there is one, else between characters
		end := strings.LastIndexByte(d.Text[:MaxDocument], '\n') + 1
		if end == 0 {
			for end = MaxDocument; !utf8.RuneStart(d.Text[end]); end-- {
			}
		}
		d.Text = d.Text[:end]
		d.Notes = append(d.Notes, fmt.Sprintf("only its first %d MiB of text", MaxDocument>>20))
	}
	return d
}

// Origin returns scheme and host of an address, "" if it has none.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// PlainName quotes a name that would not stay on its line.
func PlainName(name string) string {
	if strings.ContainsFunc(name, visible.Hidden) {
		return visible.Quote(name)
	}
	return name
}

// OneLine joins the words of a text with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// maxReason bounds, in bytes, what a library's error is quoted with. It is below
// what the evidence keeps of a name.
const maxReason = 240

// Clipped redacts credentials before the cut: half of one is not known for one.
func Clipped(s string) string {
	s, _ = secret.Redact(s, trajectory.Redacted)
	return strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
}

// Count is a number of things in words: "1 page", "2 pages".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Failed is a result that the model can act on.
func Failed(format string, args ...any) Output {
	text := "error: " + fmt.Sprintf(format, args...)
	return Output{Document: text, Shown: text, IsError: true}
}
