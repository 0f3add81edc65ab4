package probe

import (
	"bytes"
	"math"
	"unicode"
	"unicode/utf8"
)

// wordScanner goes through the words of canonical text.
type wordScanner struct {
	b          []byte
	start, end int // of the word
	line       int // where the word's line begins
	hash       uint32
}

// The words' hash is FNV-1a.
const (
	hashSeed  = 2166136261
	hashPrime = 16777619
)

// next moves to the next word and says whether there is one.
func (s *wordScanner) next() bool {
	b, i := s.b, s.end
	for i < len(b) {
		c := b[i]
		if wordByte(c) {
			break
		}
		if c < utf8.RuneSelf {
			i++
			if c == '\n' {
				s.line = i
			}
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if wordRune(r) {
			break
		}
		i += size
	}
	s.start = i
	hash := uint32(hashSeed)
	for i < len(b) {
		c := b[i]
		if wordByte(c) {
			hash = (hash ^ uint32(c)) * hashPrime
			i++
			continue
		}
		if c < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(b[i:])
		if !wordRune(r) {
			break
		}
		hash = (hash ^ uint32(r)) * hashPrime
		i += size
	}
	s.end, s.hash = i, hash
	return i > s.start
}

// word returns the word itself.
func (s *wordScanner) word() []byte { return s.b[s.start:s.end] }

// wordBytes are the ASCII characters of words of canonical text.
var wordBytes = func() (in [256]bool) {
	for c := range in {
		in[c] = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_'
	}
	return in
}()

func wordByte(c byte) bool { return wordBytes[c] }

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return wordByte(byte(r))
	}
	return ideograph(r) || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// lexicon numbers words from 1, on top of those of another. Most words of a document are in none and are told by a
// filter over their hashes.
type lexicon struct {
	below  *lexicon
	ids    map[string]uint32
	last   uint32
	filter [256]uint64
}

// newLexicon returns one that has room for so many words.
func newLexicon(below *lexicon, words int) *lexicon {
	l := &lexicon{below: below, ids: make(map[string]uint32, words)}
	l.reset()
	return l
}

// reset takes all words out that the one below does not have.
func (l *lexicon) reset() {
	clear(l.ids)
	if l.last, l.filter = 0, [256]uint64{}; l.below != nil {
		l.last, l.filter = l.below.last, l.below.filter
	}
}

func filterBit(hash uint32) (int, uint64) {
	hash *= 0x9e3779b1
	return int(hash >> 24), 1 << (hash >> 18 & 63)
}

// find returns the number of the scanner's word, 0 if it has none.
func (l *lexicon) find(s *wordScanner) uint32 {
	i, bit := filterBit(s.hash)
	if l.filter[i]&bit == 0 {
		return 0
	}
	for ; l != nil; l = l.below {
		if id, ok := l.ids[string(s.word())]; ok {
			return id
		}
	}
	return 0
}

// known keeps the last words that were looked up in a lexicon, by their hashes: most words of a text come again.
type known [128]struct {
	word []byte // nil: none
	id   uint32
}

// find returns the number of the scanner's word in a lexicon, always the same one, 0 if it has none.
func (k *known) find(l *lexicon, s *wordScanner) uint32 {
	i, bit := filterBit(s.hash)
	if l.filter[i]&bit == 0 {
		return 0
	}
	e := &k[s.hash%uint32(len(k))]
	if e.word == nil || !bytes.Equal(e.word, s.word()) {
		e.word, e.id = s.word(), l.find(s)
	}
	return e.id
}

// add returns the number of the scanner's word, which it has from now on. The text is that of the scanner.
func (l *lexicon) add(s *wordScanner, text string) uint32 {
	if id := l.find(s); id > 0 {
		return id
	}
	i, bit := filterBit(s.hash)
	l.filter[i] |= bit
	l.last++
	l.ids[text[s.start:s.end]] = l.last
	return l.last
}

// addAll returns the numbers of all words of canonical text.
func (l *lexicon) addAll(b []byte) []uint32 {
	var ids []uint32
	text := string(b)
	for s := (wordScanner{b: b}); s.next(); {
		ids = append(ids, l.add(&s, text))
	}
	return ids
}

// automaton finds sequences of words, all in one walk (Aho and Corasick 1975).
type automaton struct {
	edges map[edge]int32
	first uint32 // of all words, which are numbered
	last  uint32
	fail  []int32
	found [][]int // by state: the sequences that end here, longest first
}

type edge struct {
	state int32
	word  uint32
}

// noSequences is that of none.
var noSequences = newAutomaton(nil)

func newAutomaton(sequences [][]uint32) *automaton {
	a := &automaton{edges: map[edge]int32{}, first: math.MaxUint32, fail: []int32{0}, found: [][]int{nil}}
	type child struct{ parent, state int32 }
	var words []uint32 // the word that leads into a state
	words = append(words, 0)
	levels := [][]child{}
	for i, sequence := range sequences {
		state := int32(0)
		for depth, word := range sequence {
			a.first, a.last = min(a.first, word), max(a.last, word)
			next, ok := a.edges[edge{state, word}]
			if !ok {
				next = int32(len(a.fail))
				a.edges[edge{state, word}] = next
				a.fail, a.found, words = append(a.fail, 0), append(a.found, nil), append(words, word)
				if depth == len(levels) {
					levels = append(levels, nil)
				}
				levels[depth] = append(levels[depth], child{state, next})
			}
			state = next
		}
		if state > 0 {
			a.found[state] = append(a.found[state], i)
		}
	}
	for _, level := range levels {
		for _, c := range level {
			if c.parent > 0 {
				a.fail[c.state] = a.step(a.fail[c.parent], words[c.state])
			}
			a.found[c.state] = append(a.found[c.state], a.found[a.fail[c.state]]...)
		}
	}
	return a
}

// step returns the state after one more word; 0 is a word in no lexicon.
func (a *automaton) step(state int32, word uint32) int32 {
	for word >= a.first && word <= a.last {
		if next, ok := a.edges[edge{state, word}]; ok {
			return next
		}
		if state == 0 {
			break
		}
		state = a.fail[state]
	}
	return 0
}

// numerals calls visit with the value of each numeral that begins in the run at the word at start, as numeralValue
// gives it, and returns the run's end. It uses buf.
func (t probeText) numerals(start int, buf []byte, visit func(value []byte, place interval)) int {
	b := t.b
	end := start // of the digits, commas and points, each comma and point between digits
	for end < len(b) && (digitByte(b[end]) || (b[end] == ',' || b[end] == '.') && end+1 < len(b) && digitByte(b[end+1])) {
		end++
	}
	from, negative := start, false
	if start > 0 && b[start-1] == '.' {
		switch {
		case !wordBefore(b, start-1):
			from--
		case digitByte(b[start-2]):
			return end
		}
	}
	if r, size := utf8.DecodeLastRune(b[:from]); r == '-' || r == '−' {
		negative = !wordBefore(b, from-size)
	}
	if r, size := utf8.DecodeRune(b[end:]); size > 0 && wordRune(r) {
		// The digits at the end belong to a word; those before a comma do not.
		last := bytes.LastIndexByte(b[start:end], ',')
		if last < 0 {
			return end
		}
		t.eachNumeral(interval{from, start + last}, negative, buf, visit)
		return end
	}
	t.eachNumeral(interval{from, end}, negative, buf, visit)
	return end
}

// eachNumeral takes a run as one numeral, or else each part between commas.
func (t probeText) eachNumeral(run interval, negative bool, buf []byte, visit func([]byte, interval)) {
	if value, ok := numeralValue(buf[:0], t.b[run.start:run.end], negative); ok {
		visit(value, run)
		return
	}
	for from := run.start; from < run.end; {
		to := from
		for to < run.end && t.b[to] != ',' {
			to++
		}
		if value, ok := numeralValue(buf[:0], t.b[from:to], negative); ok {
			visit(value, interval{from, to})
		}
		from, negative = to+1, false
	}
}

// numeralValue appends the value of a numeral without needless zeros, so that equal values are equal bytes; false
// if it is none.
//
// A numeral is ASCII digits, or one to three of them and groups of three behind commas, then perhaps a point and
// digits; or a point and digits. A hyphen or minus before it that follows no word is its sign. No word goes on
// right before or behind it, nor a point with a digit. Digits and commas that are no groups are several numerals.
// Currency and percent signs are no part of it: 1,234.50 and 1234.5 and $1,234.5 and 1234.5% have one value.
func numeralValue(out, s []byte, negative bool) ([]byte, bool) {
	whole, fraction, pointed := bytes.Cut(s, []byte("."))
	if pointed && (len(fraction) == 0 || !digits(fraction)) || !pointed && len(whole) == 0 {
		return nil, false
	}
	sign := len(out)
	if negative {
		out = append(out, '-')
	}
	begin := len(out)
	if i := bytes.IndexByte(whole, ','); i >= 0 && (i == 0 || i > 3) {
		return nil, false
	}
	for i, c := range whole {
		if c == ',' {
			if i+4 > len(whole) || !digits(whole[i+1:i+4]) || i+4 < len(whole) && whole[i+4] != ',' {
				return nil, false
			}
			continue
		}
		if !digitByte(c) {
			return nil, false
		}
		if c != '0' || len(out) > begin {
			out = append(out, c)
		}
	}
	fraction = bytes.TrimRight(fraction, "0")
	if len(out) == begin {
		if len(fraction) == 0 {
			out = out[:sign]
		}
		out = append(out, '0')
	}
	if len(fraction) > 0 {
		out = append(append(out, '.'), fraction...)
	}
	return out, true
}

// goldNumeral returns the value of a part of a gold that is a numeral, but for its sign, currency and percent signs
// and white space.
func goldNumeral(s []byte) ([]byte, bool) {
	negative := false
	outer := func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Sc, r) }
	s = bytes.TrimRightFunc(bytes.TrimLeftFunc(s, outer), func(r rune) bool { return outer(r) || r == '%' })
	for _, sign := range []string{"-", "−", "+"} {
		if rest, ok := bytes.CutPrefix(s, []byte(sign)); ok {
			s, negative = bytes.TrimLeftFunc(rest, outer), sign != "+"
			break
		}
	}
	return numeralValue(nil, s, negative)
}

func wordBefore(b []byte, offset int) bool {
	r, size := utf8.DecodeLastRune(b[:offset])
	return size > 0 && wordRune(r)
}

func digits(s []byte) bool {
	for _, c := range s {
		if !digitByte(c) {
			return false
		}
	}
	return true
}

func digitByte(c byte) bool { return '0' <= c && c <= '9' }
