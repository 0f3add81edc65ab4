package canonical

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"sync"
	"unicode/utf8"
)

// A Scanner reads canonical JSON from front to back. Each value has one form, so nothing that it reads needs a second
// look. Once a method finds other bytes than it reads, the scanner has failed: all methods return zero values from then
// on.
type Scanner struct {
	data   []byte
	at     int
	failed bool
	text   []byte                // the string that is read, once it has an escape
	recent [recentStrings]string // short strings that were read, each at its hash
}

// Strings of up to DigestSize bytes are kept to be returned again.
const (
	recentStrings = 1 << recentBits
	recentBits    = 10
)

// scanners are kept, with their recent strings, to be used again.
var scanners = sync.Pool{New: func() any { return new(Scanner) }}

// Scan returns a scanner of data. Close gives it back.
func Scan(data []byte) *Scanner {
	s := scanners.Get().(*Scanner)
	s.data, s.at, s.failed = data, 0, false
	return s
}

// Close lets the scanner be used again.
func (s *Scanner) Close() {
	s.data = nil
	if cap(s.text) > maxRoom {
		s.text = nil
	}
	scanners.Put(s)
}

// End returns ErrMalformed if the scanner has failed or has not read all bytes.
func (s *Scanner) End() error {
	if s.failed || s.at != len(s.data) {
		return ErrMalformed
	}
	return nil
}

// Offset returns how many bytes were read.
func (s *Scanner) Offset() int { return s.at }

// Fail makes the scanner fail.
func (s *Scanner) Fail() { s.data, s.at, s.failed = nil, 0, true }

// Has reads text if it follows and reports whether it does.
func (s *Scanner) Has(text string) bool {
	if len(s.data)-s.at < len(text) || string(s.data[s.at:s.at+len(text)]) != text {
		return false
	}
	s.at += len(text)
	return true
}

// Expect reads text, which must follow.
func (s *Scanner) Expect(text string) {
	if !s.Has(text) {
		s.Fail()
	}
}

// next reads c if it follows and reports whether it does.
func (s *Scanner) next(c byte) bool {
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// Next reads n bytes, whatever they are; there are fewer if the scanner fails. They are valid as long as its data.
func (s *Scanner) Next(n int) []byte {
	if len(s.data)-s.at < n {
		s.Fail()
		return nil
	}
	s.at += n
	return s.data[s.at-n : s.at]
}

// Int reads an integer within ±2⁵³.
func (s *Scanner) Int() int64 {
	negative := s.next('-')
	start, n := s.at, int64(0)
	for ; s.at < len(s.data) && s.data[s.at]-'0' <= 9 && n <= MaxInt; s.at++ {
		n = 10*n + int64(s.data[s.at]-'0')
	}
	if s.at == start || n > MaxInt || s.data[start] == '0' && (s.at > start+1 || negative) {
		s.Fail()
		return 0
	}
	if negative {
		return -n
	}
	return n
}

// Bool reads true or false.
func (s *Scanner) Bool() bool {
	if s.Has("true") {
		return true
	}
	s.Expect("false")
	return false
}

// String reads a string.
func (s *Scanner) String() string { return string(s.string()) }

// Known is String for a string that is probably text, which it then returns.
func (s *Scanner) Known(text string) string {
	if b := s.string(); string(b) != text {
		return string(b)
	}
	return text
}

// Recent reads a string that may have been read before, and returns the one from then if it is among the recent ones.
// It saves most allocations of a journal: the digests, names and ids of an attempt come again with every turn.
func (s *Scanner) Recent() string {
	text := s.string()
	if len(text) > DigestSize {
		return string(text)
	}
	h := uint64(len(text))
	if n := len(text); n >= 8 {
		h += binary.LittleEndian.Uint64(text[n-8:])
	} else {
		for _, c := range text {
			h = h<<8 | uint64(c)
		}
	}
	slot := &s.recent[h*0x9e3779b97f4a7c15>>(64-recentBits)]
	if *slot != string(text) {
		*slot = string(text)
	}
	return *slot
}

// string reads a string of which only what must be escaped is, in its shortest way. What it returns is valid until the
// next call.
func (s *Scanner) string() []byte {
	if !s.next('"') {
		s.Fail()
		return nil
	}
	start, from, ascii := s.at, s.at, true // what lies before from is in s.text
	for s.text = s.text[:0]; ; {
		s.at += plain(s.data[s.at:])
		if s.at == len(s.data) {
			break
		}
		switch c := s.data[s.at]; {
		case c == '"':
			raw := s.data[start:s.at]
			if !ascii && !utf8.Valid(raw) {
				s.Fail()
				return nil
			}
			if from > start {
				s.text = append(s.text, s.data[from:s.at]...)
				raw = s.text
			}
			s.at++
			return raw
		case c == '\\':
			n, value := escape(s.data[s.at:])
			if n == 0 {
				s.Fail()
				return nil
			}
			s.text = append(append(s.text, s.data[from:s.at]...), value)
			s.at += n
			from = s.at
		case c < ' ':
			s.Fail()
			return nil
		default:
			ascii = false
			for s.at < len(s.data) && s.data[s.at] >= utf8.RuneSelf {
				s.at++
			}
		}
	}
	s.Fail()
	return nil
}

// escape returns the length of the escape that b begins with, and its value; 0 if it is not the one that must be.
func escape(b []byte) (n int, value byte) {
	if len(b) < 2 {
		return 0, 0
	}
	if c := escaped[b[1]]; c != 0 {
		return 2, c
	}
	if b[1] != 'u' || len(b) < 6 || !isNeededEscape(b[2:6]) {
		return 0, 0
	}
	v, _ := strconv.ParseUint(string(b[4:6]), 16, 8) // isNeededEscape has looked at the digits
	return 6, byte(v)
}

// Some bytes have a short escape: escaped has the byte by what follows its backslash, and escapes the other way round.
var (
	escaped = [256]byte{'"': '"', '\\': '\\', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
	escapes = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
)

// plain returns how many bytes at the start of b are ASCII and need no escape. It looks at eight at once: the highest
// bit of each byte of hit says whether it is another one. A borrow can set it wrongly, but only behind a right one.
func plain(b []byte) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		hit := w | (w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)
		if hit &= highest; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	if n := len(b) - 8; i < len(b) && n >= 0 { // the last eight, of which the first ones are plain
		w := binary.LittleEndian.Uint64(b[n:])
		hit := w | (w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)
		if hit &= highest; hit != 0 {
			return n + bits.TrailingZeros64(hit)/8
		}
		return len(b)
	}
	for ; i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\'; i++ {
	}
	return i
}

// appendString appends a string in its one form. It reports false if text is not UTF-8.
func appendString(b []byte, text string) ([]byte, bool) {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	ascii := true
	from := 0 // what lies before is in b
	for i := 0; ; {
		i += plain([]byte(text[i:])) // makes no copy
		if i == len(text) {
			return append(append(b, text[from:]...), '"'), ascii || utf8.ValidString(text)
		}
		c := text[i]
		if c >= utf8.RuneSelf {
			ascii = false
			for i < len(text) && text[i] >= utf8.RuneSelf {
				i++
			}
			continue
		}
		b = append(b, text[from:i]...)
		if e := escapes[c]; e != 0 {
			b = append(b, '\\', e)
		} else {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
}
