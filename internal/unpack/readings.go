package unpack

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	fewestApart    = 4 // characters that stand apart and make a word
	fewestBackward = 5 // digits of a number that counts backwards: shorter ones are others by chance
)

// Readings returns what a reader who is told how can make of pieces of text, each a text by itself: the pieces one after the
// other, with and without a space between them, words whose letters stand apart, what base64 and hexadecimal digits hold, and
// the whole backwards and with letters turned by 13. There are more ways to hide a text; these take no key.
func Readings(pieces []string) (all []string) {
	if len(pieces) == 0 {
		return nil
	}
	if len(pieces) > 1 {
		trimmed := make([]string, len(pieces))
		for i, p := range pieces {
			trimmed[i] = strings.TrimSpace(p)
		}
		all = append(all, strings.Join(trimmed, ""), strings.Join(trimmed, " "))
	}
	text := strings.Join(pieces, "\n")
	for _, marks := range []bool{false, true} {
		if closed := closedUp(text, marks); closed != "" {
			all = append(all, closed)
		}
	}
	_, _ = Walk("", []byte(text), Limits{Bytes: int64(8*len(text)) + 1<<20, Depth: 3, Entries: 1000}, func(path, found string) error {
		if path != "" {
			all = append(all, found)
		}
		return nil
	}) // what is beyond the limits is left out
	return append(all, backwards(text), turned(text))
}

// closedUp returns the words whose letters stand apart by white space, or if marks is true by a mark such as a dash, "" if there
// are none. Two of these are a space.
func closedUp(text string, marks bool) string {
	var out strings.Builder
	var word []rune
	letters := 0
	flush := func() {
		if letters >= fewestApart {
			out.WriteString(string(word) + "\n")
		}
		word, letters = word[:0], 0
	}
	text = strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t', '\r':
			return ' '
		case '-', '_', '|', '/', ',', '*', '·':
			if marks {
				return ' '
			}
		}
		if r > unicode.MaxASCII && unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text)
	for part := range strings.SplitSeq(text, " ") {
		r, size := utf8.DecodeRuneInString(part)
		switch {
		case size < len(part):
			flush()
		case size > 0:
			word, letters = append(word, r), letters+1
		case letters > 0 && word[len(word)-1] != ' ':
			word = append(word, ' ')
		}
	}
	flush()
	return out.String()
}

// backwards returns a text backwards, without its short numbers.
func backwards(text string) string {
	all := []rune(text)
	slices.Reverse(all)
	digit := func(i int) bool { return i < len(all) && unicode.IsDigit(all[i]) }
	for i := 0; i < len(all); i++ {
		end := i
		for digit(end) {
			end++
		}
		if n := end - i; n > 0 && n < fewestBackward {
			for j := i; j < end; j++ {
				all[j] = '_'
			}
		}
		i = max(i, end-1)
	}
	return string(all)
}

// turned returns a text with each letter of ASCII replaced by the one 13 after or before it.
func turned(text string) string {
	return strings.Map(func(r rune) rune {
		if low := r | ' '; low >= 'a' && low <= 'z' {
			return r - low + 'a' + (low-'a'+13)%26
		}
		return r
	}, text)
}
