package policy

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// seekingWindow is how many words on either side of gaia belong to it. A page that is handed on may
// speak of everything somewhere.
const seekingWindow = 20

// seekingWords are the words, and words in a row, by which R001 recognises a text that looks for the
// benchmark's answers.
type seekingWords struct {
	Answers   []string `json:"answers"`   // what is wanted
	Exact     []string `json:"exact"`     // of them, those that other things called gaia hardly have
	Materials []string `json:"materials"` // what may be wanted of other things, too
	Certain   []string `json:"certain"`   // by which no other gaia is meant
	Benchmark []string `json:"benchmark"` // by which another may be meant
	Splits    []string `json:"splits"`    // the same, where no other name is next to gaia
	Dataset   []string `json:"dataset"`   // the same, and other things have them often: only with answers
	Weak      []string `json:"weak"`      // only where nothing else is said, or two of them with answers
	Others    []string `json:"others"`    // by which another is meant
	Plain     []string `json:"plain"`     // words of any search, which say nothing of another gaia
	Names     []string `json:"names"`     // what else the benchmark is called
	Joined    []string `json:"joined"`    // what may be written in one word with gaia
	Strong    []string `json:"strong"`    // by which no other is meant when answers are wanted, whatever is said besides
	Excused   []string `json:"excused"`   // of which Strong is a part and another thing
	Foreign   []string `json:"foreign"`   // words of languages without spaces, each followed by the English one

	plainWords map[string]bool
	translate  *strings.Replacer
}

// Seeks reports whether a text, a query or an address, looks for this benchmark's answers: within 20 words
// of gaia, or of what else the benchmark is called, it names the benchmark and what would be had there, in
// any order. Percent encoding, base64 and hex hide nothing. Weak words, such as a level, count only beside words for a
// benchmark, its splits or its data, or where nothing in the text points to another gaia.
func Seeks(text string) bool {
	lists := &data().Lists.Seeking
	for _, form := range forms(text) {
		form = lists.translate.Replace(form)
		if !strings.Contains(form, "gaia") && !strings.Contains(form, "general") {
			continue
		}
		if lists.seeks(form) {
			return true
		}
		if !strings.Contains(form, "://") {
			continue
		}
		for value := range strings.FieldsFuncSeq(form, func(r rune) bool { return strings.ContainsRune("?&=#", r) }) {
			if strings.Contains(value, "gaia") && lists.seeks(value) { // a query in an address
				return true
			}
		}
	}
	return false
}

// seeks reports whether one form of a text looks for the answers.
func (s *seekingWords) seeks(form string) bool {
	var all []string
	for _, word := range words(form) {
		if rest, found := strings.CutPrefix(word, "gaia"); found && slices.Contains(s.Joined, rest) { // written together
			all = append(all, "gaia")
			word = rest
		}
		all = append(all, word)
	}
	for i := range all {
		from, to := max(0, i-seekingWindow), min(len(all), i+seekingWindow+1)
		if all[i] == "gaia" && s.sought(all[from:to], i-from) {
			return true
		}
		named := func(name string) bool { // another name of the benchmark begins here
			want := strings.Fields(name)
			return len(want) <= len(all)-i && slices.Equal(want, all[i:i+len(want)])
		}
		if all[i] == "general" && slices.ContainsFunc(s.Names, named) { // its words may be words like others
			if count := phrasesIn(all[from:to]); count(s.Answers) > 0 && count(s.Benchmark)+count(s.Splits)+count(s.Weak) > 0 {
				return true
			}
		}
	}
	return false
}

// phrasesIn returns a function that counts which of some phrases are among words.
func phrasesIn(words []string) func(phrases []string) int {
	near := " " + strings.Join(words, " ") + " "
	return func(phrases []string) (n int) {
		for _, p := range phrases {
			if strings.Contains(near, " "+p+" ") {
				n++
			}
		}
		return n
	}
}

// sought reports whether words around gaia, which is at place at, look for the benchmark's answers.
func (s *seekingWords) sought(around []string, at int) bool {
	count := phrasesIn(around)
	weakNext := func() bool { // as where gaia is followed by level 2
		next := strings.Join(around[at+1:min(len(around), at+3)], " ") + " "
		return slices.ContainsFunc(s.Weak, func(p string) bool { return strings.HasPrefix(next, p+" ") })
	}
	answers := count(s.Answers) > 0
	if !answers && count(s.Materials) == 0 {
		return false
	}
	others, weak := count(s.Others) > 0, count(s.Weak)
	strong := count(s.Strong) > 0 && count(s.Excused) == 0
	bare := s.plain(around[max(0, at-1):min(len(around), at+2)]) // no part of another name, such as Gaia Sky or Villa Gaia
	switch {
	case count(s.Certain) > 0 && (bare || answers && !others):
		return true
	case answers && strong, count(s.Exact) > 0 && weakNext():
		return true
	case others:
		return false
	case count(s.Benchmark) > 0 && (answers || strong || bare):
		return true
	case bare && (count(s.Splits) > 0 || answers && (count(s.Dataset) > 0 || weak > 1) || count(s.Exact) > 0 && weak > 0):
		return true
	}
	if answers && weak > 0 && count(s.Dataset) > 0 && s.plain(around[at:min(len(around), at+2)]) {
		return true
	}
	return (weak > 0 || count(s.Exact) > 0 && count([]string{"question", "questions", "task", "tasks"}) > 0) && s.plain(around)
}

// plain reports whether all words are ones that say nothing of another gaia: numbers, the benchmark's own
// words and those of any search.
func (s *seekingWords) plain(all []string) bool {
	return !slices.ContainsFunc(all, func(word string) bool {
		return !s.plainWords[word] && strings.Trim(word, "0123456789") != ""
	})
}

// NamesTask reports whether a text, a query or an address, holds the id of a task, compared by its letters and
// digits alone. Of an id of 32 or more there may be other signs and spaces between them, and all that follows the
// first 20 may be missing, as where the last group of a UUID is left out. An id that says nothing, of fewer
// than 8 of them or without a digit, is held by none.
func NamesTask(text, id string) bool {
	want := bareID(strings.ToLower(id))
	if text == "" || len(want) < 8 || !strings.ContainsAny(want, "0123456789") {
		return false
	}
	for _, form := range forms(text) {
		between := func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
		for run := range strings.FieldsFuncSeq(form, between) {
			if len(run) < len(want) {
				continue
			}
			bare := bareID(run)
			if bare == want || len(want) >= 32 && strings.Contains(bare, want) { // no such run is there by chance
				return true
			}
		}
		if len(want) < 32 {
			continue
		}
		// Words, one after another, may be the id, or most of it with nothing behind that would make it another one.
		all := words(form)
		for i, word := range all {
			if !strings.HasPrefix(want, word) {
				continue
			}
			rest, next := want, i
			for next < len(all) && rest != "" {
				after, found := strings.CutPrefix(rest, all[next])
				if !found {
					break
				}
				rest, next = after, next+1
			}
			other := next < len(all) && len(all[next]) >= len(rest) && strings.Trim(all[next], "0123456789abcdef") == ""
			if len(want)-len(rest) >= mostOfID && (rest == "" || !other) {
				return true
			}
		}
	}
	return false
}

// mostOfID is how many letters and digits of a long id name it: all but the last group of a UUID.
const mostOfID = 20

func bareID(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "-", ""), "_", "") }

// forms are a text as those see it who undo its encoding, in lower case and in one form of each character.
func forms(text string) []string {
	all := decodings(text)
	for i, form := range all {
		all[i] = strings.ToLower(norm.NFKC.String(strings.ReplaceAll(form, "+", " ")))
	}
	return all
}

// Searched returns what a call has others look for: queries and addresses, and
// all that a server's tool is given.
func (c Call) Searched() []string {
	if c.Tool == "web_search" || !Own(c.Tool) {
		return slices.Concat(c.Texts, c.URLs)
	}
	return c.URLs
}

// Asked returns what of Searched cannot be about a file of the workspace, which may be named by the
// task's id: queries of a search, and addresses elsewhere.
func (c Call) Asked() []string {
	var all []string
	if c.Tool == "web_search" {
		all = append(all, c.Texts...)
	}
	server := !Own(c.Tool)
	for _, url := range c.URLs {
		if server && (strings.HasPrefix(strings.ToLower(url), "file:") || strings.ContainsFunc(url, betweenWords)) {
			continue // text with an address in it, which is there once more by itself
		}
		all = append(all, url)
	}
	return all
}

// Told returns what of a call others are given that need not be about what they are to look for: all
// that a server's tool is given, and what a fetch has besides its address.
func (c Call) Told() []string {
	switch {
	case !Own(c.Tool):
		return c.Texts
	case c.Tool == "web_fetch":
		return slices.DeleteFunc(slices.Clone(c.Texts), func(text string) bool { return slices.Contains(c.URLs, text) })
	}
	return nil
}
