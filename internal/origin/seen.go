package origin

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// phrase is an answer, an element of a list, or a word of it, and where it stands.
type phrase struct {
	plain  []byte // its words without spaces; empty for a number
	number float64
	in     uint8 // a bit for each rank
}

// mostElements bounds the elements of an answer that are looked for one by one.
const mostElements = 64

// Seen says where an answer stands, as the official scorer compares: case, white space and punctuation do not count, and
// a number is the same in other spellings of its value, whatever its sign. It stands in a source as whole words. One that
// stands nowhere as a whole, but each of its elements or else each of its words does, stands where all of them do, or
// else where any does. Where in is empty, sharesWord says whether a word of the answer, other than an article or the like,
// stands somewhere. The sources are sorted.
func (x *Index) Seen(answer string) (in []Source, sharesWord bool) {
	whole := newPhrase(answer)
	if len(whole.plain) == 0 && math.IsNaN(whole.number) {
		return nil, false
	}
	phrases, elements, single := []*phrase{whole}, []*phrase{}, map[string]*phrase{}
	list := strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ';' || r == '\n' })
	if math.IsNaN(whole.number) && len(list) <= mostElements {
		for _, element := range list {
			if p := newPhrase(element); len(list) > 1 && (len(p.plain) > 0 || !math.IsNaN(p.number)) {
				phrases, elements = append(phrases, p), append(elements, p)
			}
		}
	}
	w := read(answer, false)
	for i := range w.ends {
		if len(whole.plain) > 0 {
			single[string(w.between(i, i))] = &phrase{}
		}
	}
	for _, g := range x.texts() {
		if ranked[g.rank-1] != Definition {
			g.lookFor(phrases, single)
		}
	}
	words := make([]*phrase, 0, len(single))
	for word, p := range single {
		words = append(words, p)
		sharesWord = sharesWord || p.in != 0 && !slices.Contains(empty, word)
	}
	where := whole.in
	for _, parts := range [][]*phrase{elements, words} {
		if where == 0 && len(parts) > 1 {
			where = everywhere(parts)
		}
	}
	if where == 0 {
		return nil, sharesWord
	}
	for i, s := range ranked {
		if where>>(i+1)&1 == 1 {
			in = append(in, s)
		}
	}
	slices.Sort(in)
	return in, false
}

// Holds reports whether one text of a source holds the words of another text in order, with or without what parts them. A text
// without words is held by none.
func (x *Index) Holds(s Source, text string) bool {
	plain := func(text string) []byte { return bytes.ReplaceAll(read(text, false).buf, []byte{' '}, nil) }
	sought := plain(text)
	if len(sought) == 0 {
		return false
	}
	rank := uint8(slices.Index(ranked[:], s) + 1)
	return slices.ContainsFunc(x.texts(), func(g given) bool { return g.rank == rank && bytes.Contains(plain(g.text), sought) })
}

// texts returns those that the index holds.
func (x *Index) texts() (all []given) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.shelves() {
		all = append(all, s.texts...)
	}
	return all
}

// empty are words that most texts share.
var empty = []string{"a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "no", "not", "of", "on", "or", "that", "the", "this", "to", "was", "with", "yes"}

// everywhere returns where all parts stand, or else where any does; 0 where one of them stands nowhere.
func everywhere(parts []*phrase) uint8 {
	all, some := uint8(math.MaxUint8), uint8(0)
	for _, p := range parts {
		if p.in == 0 {
			return 0
		}
		all, some = all&p.in, some|p.in
	}
	return cmp.Or(all, some)
}

func newPhrase(text string) *phrase {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(strings.NewReplacer("$", "", "%", "", ",", "").Replace(text), 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		return &phrase{number: math.Abs(n)}
	}
	p := &phrase{number: math.NaN()}
	if w := read(text, false); len(w.ends) > 0 {
		p.plain = bytes.ReplaceAll(w.between(0, len(w.ends)-1), []byte{' '}, nil)
	} else {
		p.plain = []byte(text) // of punctuation alone
	}
	return p
}

// lookFor notes which phrases stand in a text, and which single words.
func (g given) lookFor(phrases []*phrase, single map[string]*phrase) {
	var begins [256]bool
	numbers := false
	for _, p := range phrases {
		if len(p.plain) > 0 {
			begins[p.plain[0]] = true
		} else {
			numbers = true
		}
	}
	if numbers {
		eachNumber(g.text, func(n float64) {
			for _, p := range phrases {
				if p.number == n {
					p.in |= 1 << g.rank
				}
			}
		})
	}
	for _, w := range readings(g.text) {
		for i := range w.ends {
			if p := single[string(w.between(i, i))]; p != nil {
				p.in |= 1 << g.rank
			}
			if !begins[w.buf[w.start(i)]] {
				continue
			}
			for _, p := range phrases {
				if p.in>>g.rank&1 == 0 && w.begins(i, p.plain) {
					p.in |= 1 << g.rank
				}
			}
		}
	}
	for _, p := range phrases {
		if len(single) == 0 && len(p.plain) > 0 && strings.Contains(g.text, string(p.plain)) { // punctuation
			p.in |= 1 << g.rank
		}
	}
}

// begins reports whether the words from the i-th on begin with a phrase.
func (w *words) begins(i int, plain []byte) bool {
	for ; len(plain) > 0 && i < len(w.ends); i++ {
		rest, ok := bytes.CutPrefix(plain, w.between(i, i))
		if !ok {
			return false
		}
		if plain = rest; len(plain) == 0 {
			return true
		}
	}
	return false
}

// eachNumber visits the values of the numerals of a text, in which commas may part groups of three digits.
func eachNumber(text string, visit func(float64)) {
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	var plain []byte
	for i := 0; i < len(text); i++ {
		if !digit(i) {
			continue
		}
		glued := i > 0 && kinds[text[i-1]] == letter && !(i > 1 && text[i-2] == '\\') // but for the n of a line break
		plain = plain[:0]
		if i > 0 && text[i-1] == '.' && !digit(i-2) {
			plain = append(plain, '.')
		}
		for ; digit(i); i++ {
			plain = append(plain, text[i])
		}
		for i < len(text) && text[i] == ',' && digit(i+1) && digit(i+2) && digit(i+3) && !digit(i+4) {
			plain = append(plain, text[i+1:i+4]...)
			i += 4
		}
		if i < len(text) && text[i] == '.' && digit(i+1) && (len(plain) == 0 || plain[0] != '.') {
			plain = append(plain, '.')
			for i++; digit(i); i++ {
				plain = append(plain, text[i])
			}
		}
		if n, err := strconv.ParseFloat(string(plain), 64); err == nil && !glued {
			visit(n)
		}
	}
}
