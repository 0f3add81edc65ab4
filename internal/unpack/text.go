package unpack

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
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
	if len(data) < 4 || len(data) > heldBytes { // a longer one has runs of text
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

// textStrings is what stands before a string in the pickles of Python's first protocol, which are text.
var textStrings = regexp.MustCompile(`\n[a-z()0-9]*[VSUI]['"]?`)

// text visits a text in pieces, and what is encoded in it.
func (w *walker) text(path string, data []byte, depth int) {
	if len(data) <= heldBytes && bytes.Contains(data[:min(len(data), 64)], []byte("p0\n")) && bytes.HasSuffix(bytes.TrimSpace(data), []byte(".")) {
		w.pieces(path, textStrings.ReplaceAll(data, []byte("\n")))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	w.pieces(path, data)
	w.encoded(path, data, depth)
}

// pieces visits a text piece by piece. A piece begins and ends where a character does.
func (w *walker) pieces(path string, data []byte) {
	for start := 0; start < len(data) && w.live(); {
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

// runs appends the runs of text in binary data, a line each: UTF-8 and the Latin letters of UTF-16 and UTF-32. A run is cut
// where a length before it says that a text ends, and around a UUID.
func runs(out, data []byte) []byte {
	for i := 0; i < len(data); {
		if begins[data[i]] == 0 {
			i++
			continue
		}
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
		if end-i < shortestRun && !shortAnnounced(data, i) { // most of what is in a program for a machine
			i = end
			continue
		}
		for i < end {
			id := uuidAt(data, i, end)
			out = appendRun(out, data, i, id)
			if i = id; id < end {
				i += uuidBytes
				out = append(append(out, data[id:i]...), '\n')
			}
		}
	}
	return paired(out)
}

const (
	windowBytes  = 1 << 20 // of binary data that runs are taken from at once
	windowShared = 64 << 10
)

// runsUntil returns where binary data is cut behind start: behind a run of text, if that is not too long.
func runsUntil(data []byte, start int) int {
	end := min(len(data), start+windowBytes)
	for most := min(len(data), start+heldBytes); end < most && (data[end] >= ' ' || printable(data[end]) || data[end] == 0 && printable(data[end-1])); end++ {
	}
	return end
}

const (
	uuidBytes  = 36
	mostPaired = 256 // ids in a row
)

// uuidAt returns where the next UUID begins, as many ids are, or end.
func uuidAt(data []byte, from, end int) int {
	for i := from; ; {
		next := bytes.IndexByte(data[i:end], '-')
		if next < 0 {
			return end
		}
		next += i
		if i = next + 1; next-8 >= from && hexDigit(data[next-1]) && isUUID(data[next-8:min(end, next-8+uuidBytes)]) {
			return next - 8
		}
	}
}

func isUUID(b []byte) bool {
	if len(b) != uuidBytes {
		return false
	}
	for i, c := range b {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !hexDigit(c) {
			return false
		}
	}
	return true
}

// paired appends to lines of text pairs of the ids that stand in a row and the values that stand before them, as the constants of
// compiled Python do.
func paired(text []byte) []byte {
	var values, ids [][]byte // values: at least the last mostPaired; ids: one more at most
	pair := func() {
		if n := len(ids); n > 1 && n <= len(values) && n <= mostPaired {
			for i, id := range ids {
				text = append(append(append(append(text, id...), ' '), values[len(values)-n+i]...), '\n')
			}
		}
		ids = ids[:0]
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case isUUID(line):
			if len(ids) <= mostPaired {
				ids = append(ids, line)
			}
		case len(line) == 0, len(line) < shortestRun && line[len(line)-1] == '$': // the type and the length of the next id
		default:
			if len(ids) > 0 {
				pair()
				values = values[:0]
			}
			if len(values) == 2*mostPaired {
				values = values[:copy(values, values[mostPaired:])]
			}
			values = append(values, line)
		}
	}
	pair()
	return text
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

// begins says what a byte begins: 1 is a printable character, 2 may be one of several bytes.
var begins = func() (all [256]byte) {
	for c := range all {
		if printable(byte(c)) {
			all[c] = 1
		} else if c >= 0xc2 && c <= 0xf4 {
			all[c] = 2
		}
	}
	return all
}()

// runEnd returns where the printable UTF-8 ends that begins at i.
func runEnd(data []byte, i int) int {
	for i < len(data) {
		switch begins[data[i]] {
		case 1:
			i++
			continue
		case 2:
			if r, size := utf8.DecodeRune(data[i:]); size > 1 && unicode.IsPrint(r) {
				i += size
				continue
			}
		}
		return i
	}
	return i
}

// shortAnnounced reports whether the bytes before i may give a length of less than shortestRun, as lengths has them.
func shortAnnounced(data []byte, i int) bool {
	if i == 0 {
		return false
	}
	switch c := data[i-1]; {
	case c > 0 && c < shortestRun, c > 0xa0 && c < 0xa0+shortestRun:
		return true
	case c == 0 && i >= 2:
		c = data[i-2]
		return c > 0x80 && c < 0x80+shortestRun || c == 0 && i >= 4 && data[i-3] == 0 && data[i-4] > 0 && data[i-4] < shortestRun
	}
	return false
}

const (
	mostPrefix = 4 // printable bytes of a length and a type before a string
	mostBehind = 4 // bytes of what comes behind the last string of a run
)

// appendRun appends a run of text, in lines if lengths are in it or before it, as serialised strings have.
func appendRun(out, data []byte, start, end int) []byte {
	for pos := start; pos < end; {
		next, cut := prefixed(data, pos, end)
		if next > pos {
			out = append(append(out, data[pos:next]...), '\n')
		}
		if all := lengths(data, next); cut-next >= shortestRun || cut < end || slices.Contains(all[:], cut-next) {
			out = append(append(out, data[next:cut]...), '\n')
		}
		pos = cut
	}
	return out
}

// prefixed returns where the string begins and ends that a length announces: one behind which the run ends soon, or one right at
// pos whose length no text has. It returns pos and end if there is none.
func prefixed(data []byte, pos, end int) (next, cut int) {
	for i := pos; i <= pos+mostPrefix && i < end; i++ {
		for _, n := range lengths(data, i) {
			if rest := end - i - n; n > 0 && 0 <= rest && rest <= mostBehind && (i == pos || n >= shortestRun) {
				return i, i + n
			}
		}
	}
	if pos > 0 && !printable(data[pos-1]) {
		for _, n := range lengths(data, pos) {
			if n > 0 && n < end-pos {
				return pos, pos + n
			}
		}
	}
	return pos, end
}

// lengths returns the lengths that the bytes before i may give to the text there, in the ways of several formats; 0 for none.
func lengths(data []byte, i int) (all [5]int) {
	if i >= 4 { // which no text has by chance
		if all[0] = int(binary.LittleEndian.Uint32(data[i-4:])); all[0] >= 1<<20 {
			all[0] = int(binary.BigEndian.Uint32(data[i-4:]))
		}
		if all[0] >= 1<<20 {
			all[0] = 0
		}
	}
	if i >= 2 {
		if n := int(binary.BigEndian.Uint16(data[i-2:])); n > 0xff {
			all[1] = n
		}
		if data[i-2] >= 0x80 && data[i-1] < 0x80 {
			all[2] = int(data[i-2])&0x7f | int(data[i-1])<<7
		}
	}
	if i >= 1 {
		c := data[i-1]
		if all[3] = int(c); 0xa0 <= c && c < 0xc0 { // of MessagePack
			all[4] = int(c & 0x1f)
		}
	}
	return all
}
