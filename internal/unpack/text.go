package unpack

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isText reports whether bytes are text of one byte or UTF-8 a character: there is no control character that texts do not have.
func isText(data []byte) bool {
	for _, c := range data {
		if c < ' ' && (c < '\b' || c > '\r') && c != 0x1b {
			return false
		}
	}
	return true
}

// decodeWide returns text in UTF-16, of either order, with or without a mark, in UTF-8.
func decodeWide(data []byte) ([]byte, bool) {
	if len(data) < 4 {
		return nil, false
	}
	var order binary.ByteOrder
	switch {
	case data[0] == 0xff && data[1] == 0xfe && (data[2] != 0 || data[3] != 0):
		order, data = binary.LittleEndian, data[2:]
	case data[0] == 0xfe && data[1] == 0xff:
		order, data = binary.BigEndian, data[2:]
	default:
		var zeros [2]int
		head := data[:min(len(data), 4<<10)&^1]
		for i, c := range head {
			if c == 0 {
				zeros[i&1]++
			}
		}
		switch {
		case 10*zeros[0] < zeros[1] && 2*zeros[1] > len(head)/2:
			order = binary.LittleEndian
		case 10*zeros[1] < zeros[0] && 2*zeros[0] > len(head)/2:
			order = binary.BigEndian
		default:
			return nil, false
		}
	}
	out, odd := make([]byte, 0, len(data)), 0
	for i := 0; i+1 < len(data); i += 2 {
		r := rune(order.Uint16(data[i:]))
		if utf16.IsSurrogate(r) && i+3 < len(data) {
			if pair := utf16.DecodeRune(r, rune(order.Uint16(data[i+2:]))); pair != utf8.RuneError {
				r, i = pair, i+2
			}
		}
		if r < ' ' && (r < '\b' || r > '\r') || r == utf8.RuneError {
			odd++
		}
		out = utf8.AppendRune(out, r)
	}
	return out, 50*odd <= len(out)
}

// text visits a text in pieces, and what is encoded in it.
func (w *walker) text(path string, data []byte, depth int) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	w.pieces(path, data)
	w.encoded(path, data, depth)
}

// pieces visits a text piece by piece. A piece begins and ends where a character does.
func (w *walker) pieces(path string, data []byte) {
	for start := 0; start < len(data) && w.ok(); {
		end := min(len(data), start+pieceBytes)
		for back := 0; end < len(data) && back < utf8.UTFMax && !utf8.RuneStart(data[end]); back++ {
			end--
		}
		w.emit(path, utf8Text(data[start:end]))
		if end == len(data) {
			break
		}
		start = end - overlapBytes
		for back := 0; back < utf8.UTFMax && !utf8.RuneStart(data[start]); back++ {
			start++
		}
	}
}

// utf8Text returns a text in UTF-8: bytes that are none are taken as those of Latin-1.
func utf8Text(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	out := make([]byte, 0, len(data)+len(data)/8)
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			r = rune(data[0])
		}
		out, data = utf8.AppendRune(out, r), data[size:]
	}
	return string(out)
}

// runs returns the runs of text in binary data, a line each: UTF-8 and the Latin letters of UTF-16 and UTF-32. A run is cut
// where a length before it says that a text ends.
func runs(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data); {
		if step := wideAt(data, i); step > 0 {
			for ; i+step <= len(data) && wideAt(data[:min(len(data), i+step)], i) == step; i += step {
				out = append(out, data[i])
			}
			if i+1 == len(data) && printable(data[i]) {
				out = append(out, data[i])
			}
			out = append(out, '\n')
			continue
		}
		end := runEnd(data, i)
		if end == i {
			i++
			continue
		}
		out = appendRun(out, data, i, end)
		i = end
	}
	return out
}

func printable(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\t' || c == '\r' }

// wideAt returns the bytes of a character where several Latin letters of UTF-16 or UTF-32 begin, little end first; else 0.
func wideAt(data []byte, i int) int {
	if i+2 > len(data) || data[i+1] != 0 || !printable(data[i]) {
		return 0
	}
	if i+4 <= len(data) && data[i+2] == 0 && data[i+3] == 0 {
		return 4
	}
	if i+4 > len(data) || data[i+3] == 0 && printable(data[i+2]) || i >= 2 && data[i-1] == 0 && printable(data[i-2]) {
		return 2
	}
	return 0
}

// runEnd returns where the printable UTF-8 ends that begins at i.
func runEnd(data []byte, i int) int {
	for i < len(data) {
		if c := data[i]; c < utf8.RuneSelf {
			if !printable(c) {
				break
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			break
		}
		i += size
	}
	return i
}

// appendRun appends a run of text, in lines if lengths are in it or before it, as serialised strings have.
func appendRun(out, data []byte, start, end int) []byte {
	for pos := start; pos < end; {
		next, cut := pos, end
		for skip := 0; skip < 4 && pos+skip < end; skip++ { // a length may be printable itself
			n := lengthBefore(data, pos+skip, end)
			if rest := end - pos - skip - n; n > 0 && (skip == 0 || n >= 8 && rest >= 0) {
				next, cut = pos+skip, pos+skip+n
				break
			}
		}
		if next > pos {
			out = append(append(out, data[pos:next]...), '\n')
		}
		if cut-next >= shortestRun || cut < end || lengthBefore(data, next, end) == cut-next {
			out = append(append(out, data[next:cut]...), '\n')
		}
		pos = cut
	}
	return out
}

// lengthBefore returns the length that the bytes before i give to the text there, if it is within end; else 0.
func lengthBefore(data []byte, i, end int) int {
	fits := func(n uint64) bool { return n > 0 && n <= uint64(end-i) }
	if i >= 4 {
		if n := binary.LittleEndian.Uint32(data[i-4:]); fits(uint64(n)) {
			return int(n)
		}
		if n := binary.BigEndian.Uint32(data[i-4:]); fits(uint64(n)) {
			return int(n)
		}
	}
	if i >= 2 {
		if n := binary.BigEndian.Uint16(data[i-2:]); n > 0xff && fits(uint64(n)) {
			return int(n)
		}
		if n := uint64(data[i-2])&0x7f | uint64(data[i-1])<<7; data[i-2] >= 0x80 && data[i-1] < 0x80 && fits(n) {
			return int(n)
		}
	}
	if i >= 1 {
		c := data[i-1]
		if 0xa0 <= c && c < 0xc0 { // of MessagePack
			c &= 0x1f
		}
		if fits(uint64(c)) {
			return int(c)
		}
	}
	return 0
}
