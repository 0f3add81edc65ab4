package origin

import (
	"hash/maphash"
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words are the words of a text.
type words struct {
	buf    []byte  // in lower case, with a space after each
	ends   []int32 // of each word in buf
	places []int32 // of each word in the text
	single bool    // the open word is one character, to which only marks are added
	open   bool
}

const maxWord = 32 // bytes; a longer one is several

// readings returns the words of a text, and of HTML those of the text without its tags as well.
func readings(text string) []*words {
	all := []*words{read(text, false)}
	if strings.Contains(text, "</") || strings.Contains(text, "/>") {
		all = append(all, read(text, true))
	}
	return all
}

// Kinds of bytes.
const (
	gap = iota
	letter
	special
)

var kinds = func() (k [256]uint8) {
	for c := range k {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			k[c] = letter
		case c == '\\', c == '%', c == '&', c == '<', c >= utf8.RuneSelf:
			k[c] = special
		}
	}
	return k
}()

// read returns the words of a text, without those in tags where tagless.
func read(text string, tagless bool) *words {
	w := &words{buf: make([]byte, 0, len(text)+1), ends: make([]int32, 0, len(text)/5), places: make([]int32, 0, len(text)/5)}
	for i := 0; i < len(text); {
		c := text[i]
		switch kinds[c] {
		case letter:
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			if !w.open || w.single || len(w.buf)-w.begin() >= maxWord {
				w.close()
				w.open = true
				w.places = append(w.places, int32(i))
			}
			w.buf = append(w.buf, c)
			i++
		case gap:
			w.close()
			i++
		default:
			i += w.special(text, i, tagless)
		}
	}
	w.close()
	return w
}

// begin returns where the open word begins in buf.
func (w *words) begin() int {
	if len(w.ends) == 0 {
		return 0
	}
	return int(w.ends[len(w.ends)-1]) + 1
}

func (w *words) close() {
	if w.open {
		w.ends = append(w.ends, int32(len(w.buf)))
		w.buf = append(w.buf, ' ')
		w.open, w.single = false, false
	}
}

// special reads an escape of JSON, HTML or an address, a tag, or a character that is not ASCII, and returns its bytes.
func (w *words) special(text string, i int, tagless bool) int {
	switch c := text[i]; {
	case c == '\\':
		return w.escape(text, i)
	case c == '%':
		var plain []byte
		n := 0
		for ; i+n+2 < len(text) && text[i+n] == '%'; n += 3 {
			b, err := strconv.ParseUint(text[i+n+1:i+n+3], 16, 8)
			if err != nil {
				break
			}
			plain = append(plain, byte(b))
		}
		for _, r := range string(plain) {
			w.add(r, i)
		}
		if n == 0 {
			w.close()
		}
		return max(n, 1)
	case c == '&':
		const longest = 32
		end := strings.IndexByte(text[i:min(len(text), i+longest)], ';')
		if end > 0 {
			if plain := html.UnescapeString(text[i : i+end+1]); len(plain) < end { // else it is none
				for _, r := range plain {
					w.add(r, i)
				}
				return end + 1
			}
		}
		w.close()
		return 1
	case c == '<':
		w.close()
		const longest = 4096
		if tagless && i+1 < len(text) && (kinds[text[i+1]] == letter || text[i+1] == '/' || text[i+1] == '!') {
			if end := strings.IndexByte(text[i:min(len(text), i+longest)], '>'); end > 0 {
				return end + 1
			}
		}
		return 1
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	w.add(r, i)
	return size
}

// escape reads an escape of JSON, which may have been escaped again.
func (w *words) escape(text string, i int) int {
	n := 1
	for i+n < len(text) && text[i+n] == '\\' {
		n++
	}
	if i+n == len(text) {
		w.close()
		return n
	}
	switch text[i+n] {
	case 'n', 't', 'r':
		w.close()
		return n + 1
	case 'u':
		if i+n+5 <= len(text) {
			if code, err := strconv.ParseUint(text[i+n+1:i+n+5], 16, 16); err == nil {
				w.add(rune(code), i) // half of a pair is U+FFFD
				return n + 5
			}
		}
	}
	w.close()
	return n
}

// add adds a character that stands at a place.
func (w *words) add(r rune, place int) {
	switch {
	case unicode.IsMark(r):
		if !w.open {
			return
		}
	case r < utf8.RuneSelf && kinds[r] == letter, unicode.IsLetter(r) && !unspaced(r), unicode.IsNumber(r):
		if !w.open || w.single || len(w.buf)-w.begin() >= maxWord {
			w.close()
			w.open = true
			w.places = append(w.places, int32(place))
		}
	case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsSymbol(r)):
		w.close()
		w.open, w.single = true, true
		w.places = append(w.places, int32(place))
	default:
		w.close()
		return
	}
	w.buf = utf8.AppendRune(w.buf, unicode.ToLower(r))
}

// unspaced reports whether a letter is of a script that parts no words: of China, Japan, Thailand, Laos, Burma or Cambodia.
func unspaced(r rune) bool {
	return r >= 0x0e00 && (r < 0x0f00 || r >= 0x1000 && r < 0x10a0 || r >= 0x1780 && r < 0x1800 || r >= 0x3040 && r < 0x3100 ||
		r >= 0x3400 && r < 0xa000 || r >= 0xf900 && r < 0xfb00 || r >= 0x20000 && r < 0x40000)
}

// size returns the bytes of the words with a space after each but the last.
func (w *words) size() int { return max(len(w.buf)-1, 0) }

// start returns where a word begins in buf.
func (w *words) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(w.ends[i-1]) + 1
}

// between returns the words from the first to the last.
func (w *words) between(first, last int) []byte { return w.buf[w.start(first):w.ends[last]] }

// windows visits the shortest stretch of a window's size that begins with each word, and the shortest that ends with each
// word, where that is another one.
func (w *words) windows(visit func(begin, end int)) {
	end := 0
	for begin := range w.ends {
		for end < len(w.ends) && int(w.ends[end])-w.start(begin) < window {
			end++
		}
		if end == len(w.ends) {
			break
		}
		visit(begin, end)
	}
	begin := 0
	for end := range w.ends {
		for begin < end && int(w.ends[end])-w.start(begin+1) >= window {
			begin++
		}
		if end > begin && int(w.ends[end-1])-w.start(begin) >= window {
			visit(begin, end)
		}
	}
}

// digested is a window, its digest, and the first slot of a shelf that may hold it.
type digested struct {
	begin, end int
	digest     uint64
	slot       uint32
}

// batches visits the windows, some at a time.
func (w *words) batches(seed maphash.Seed, visit func([]digested)) {
	const size = 256
	batch := make([]digested, 0, min(size, 2*len(w.ends)))
	w.windows(func(begin, end int) {
		if batch = append(batch, digested{begin, end, maphash.Bytes(seed, w.between(begin, end)), 0}); len(batch) == size {
			visit(batch)
			batch = batch[:0]
		}
	})
	visit(batch)
}
