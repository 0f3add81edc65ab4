package probe

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/policy"
)

// hints say what a reading found that another form of the text may undo.
type hints struct {
	rotated bool // words of the task in rot13
	spaced  bool // letters that stand alone, one after the other
}

// eachForm calls visit with the forms of a text: in canonical form, with its encodings undone (see decoded), then
// also with its layout undone (see laidOut), then also with the task's words out of rot13. It leaves out a form
// that differs in nothing. What is written in an encoding is replaced where it stands, so that it is read together
// with what stands around it. All forms together take time and memory linear in the text.
func (p *Prober) eachForm(s string, visit func(probeText) hints) {
	b := unescaped(s)
	plain := p.decoded(b)
	t := numberedText(b)
	found := visit(t)
	if plain != nil {
		t = numberedText(plain)
		more := visit(t)
		found = hints{found.rotated || more.rotated, found.spaced || more.spaced}
	}
	if b := p.laidOut(t, found.spaced); b != nil {
		t = probeText{b: b}
		t.index()
		visit(t)
	}
	if found.rotated {
		p.unrotate(t.b)
		visit(t)
	}
}

// numberedText is foldedText with its line numbers.
func numberedText(b []byte) probeText {
	t := foldedText(b)
	t.numbered, t.counted = lineNumbers(t.b)
	return t
}

func rot13(c rune) rune {
	if 'a' <= c && c <= 'z' {
		return 'a' + (c-'a'+13)%26
	}
	return c
}

// shortestRotated is the letters of a word that is known in rot13. A shorter one is known behind another.
const shortestRotated = 3

// prepareRotated adds the rot13 of the task's words, of labels and of common words, unless it is a word that is
// looked for itself.
func (p *Prober) prepareRotated(question, gold []byte) {
	known := p.lexicon.last
	words := append(p.rotated[:0], "the and was were that this with for from which what how answer question final correct solution gold expected "...)
	words = append(append(append(words, question...), ' '), gold...)
	for i, c := range words {
		words[i] = byte(rot13(rune(c)))
	}
	p.rotated = words
	text := string(words)
	for s := (wordScanner{b: words}); s.next(); {
		// A word of signs that rot13 leaves as they are is none.
		if s.end-s.start >= shortestRotated && bytes.ContainsFunc(s.word(), func(r rune) bool { return rot13(r) != r }) {
			p.lexicon.add(&s, text)
		}
	}
	p.firstRotated, p.lastRotated = known+1, p.lexicon.last
}

// isRotated reports whether the number of a word is that of one in rot13.
func (p *Prober) isRotated(id uint32) bool { return id >= p.firstRotated && id <= p.lastRotated }

// unrotate undoes rot13 in place: of the task's words, and of words of one or two letters behind them.
func (p *Prober) unrotate(b []byte) {
	end := -2 // of the last word that it changed
	for s := (wordScanner{b: b}); s.next(); {
		short := s.end-s.start < shortestRotated && s.start-end <= 2
		if !short && !p.isRotated(p.lexicon.find(&s)) {
			continue
		}
		for i := s.start; i < s.end; i++ {
			b[i] = byte(rot13(rune(b[i])))
		}
		end = s.end
	}
}

const (
	decodePasses    = 2  // encodings within encodings that are undone
	shortestEncoded = 40 // characters of base64 and hex
	shortestLine    = 16 // characters of a line of them
	encodedStarts   = 4  // places in a run where base64 may begin
)

// decoded returns b with its encodings replaced by what they stand for, or nil if it has none; it leaves b as it
// is.
//
// These are percent escapes that give valid UTF-8, hexadecimal digits in pairs with one byte between two of them,
// as a dump has, and runs of at least 40 characters of base64 (either alphabet) or hexadecimal digits that give
// mostly printable UTF-8, also over lines of equal length. Runs that the question itself has stay as they are.
// There are two passes, so base64 within base64 is undone.
func (p *Prober) decoded(b []byte) []byte {
	var out []byte
	for range decodePasses {
		changed := false
		for _, undo := range []func([]byte) []byte{undoPercents, undoPairs, p.undoRuns} {
			if next := undo(b); next != nil {
				b, out, changed = next, next, true
			}
		}
		if !changed {
			break
		}
	}
	return out
}

// undoPercents undoes the percent escapes in b that give printable text; nil if there are none.
func undoPercents(b []byte) []byte {
	e := percentsUndone(b)
	return e.done()
}

func percentsUndone(b []byte) edit {
	e := edit{b: b}
	var char [utf8.UTFMax]byte
	for i := bytes.IndexByte(b, '%'); i >= 0 && i+3 <= len(b); {
		n, size := 0, 0
		for n < len(char) && i+3*n+3 <= len(b) && b[i+3*n] == '%' {
			if _, err := hex.Decode(char[n:n+1], b[i+3*n+1:i+3*n+3]); err != nil {
				break
			}
			n++
			if r, width := utf8.DecodeRune(char[:n]); r != utf8.RuneError {
				if width == n && (unicode.IsPrint(r) || r == '\n' || r == '\r' || r == '\t') {
					size = n
				}
				break
			}
		}
		if size > 0 {
			e.replace(interval{i, i + 3*size}, char[:size])
		}
		i = max(e.from, i+1)
		next := bytes.IndexByte(b[i:], '%')
		if next < 0 {
			break
		}
		i += next
	}
	return e
}

// fewestPairs is how many pairs of hexadecimal digits are undone.
const fewestPairs = shortestEncoded / 2

// undoPairs undoes the hexadecimal digits in b that stand in pairs, with the same byte between any two, and give
// mostly printable UTF-8. It looks at few places of b, which at least one of every long enough run covers.
func undoPairs(b []byte) []byte {
	e := pairsUndone(b)
	return e.done()
}

func pairsUndone(b []byte) edit {
	e := edit{b: b}
	for i := 0; i+3*fewestPairs < len(b); i += 3 * fewestPairs / 2 {
		start, end := i, i
		for at := i; at < i+3 && end == i; at++ {
			if end = pairsEnd(b, at); end-at < 3*4 {
				end = i
				continue
			}
			for start = at; start >= e.from+3 && b[start-1] == b[at+2] && pairAt(b, start-3); start -= 3 {
			}
		}
		if end-start < 3*fewestPairs-1 {
			continue
		}
		text := make([]byte, 0, (end-start)/3+1)
		for k := start; k < end; k += 3 {
			text, _ = hex.AppendDecode(text, b[k:k+2])
		}
		if printable(text) {
			e.replace(interval{start, end}, []byte(" "), unescaped(string(text)), []byte(" "))
		}
		i = max(i, end-3*fewestPairs/2)
	}
	return e
}

// pairsEnd returns where the pairs end that begin at i with the same byte, which is no letter or digit, between any
// two; i if there is no second one.
func pairsEnd(b []byte, i int) int {
	if i+5 > len(b) || asciiAlnum(b[i+2]) || !pairAt(b, i) {
		return i
	}
	end := i + 2
	for end+3 <= len(b) && b[end] == b[i+2] && pairAt(b, end+1) {
		end += 3
	}
	return end
}

func pairAt(b []byte, i int) bool { return isHex(b[i : i+2]) }

// undoRuns undoes the runs of base64 and hexadecimal digits in b.
func (p *Prober) undoRuns(b []byte) []byte {
	e := edit{b: b}
	var run []byte
	for i := 0; i+shortestLine <= len(b); {
		j := i + shortestLine - 1
		for j >= i && policy.InBase64(b[j]) {
			j--
		}
		if j >= i {
			i = j + 1
			continue
		}
		end := encodedEnd(b, i)
		first := end - i
		run = append(run[:0], b[i:end]...)
		run, end = appendLines(run, b, end)
		text, skipped := runText(run, first)
		if text != nil && !strings.Contains(p.question, string(run[skipped:min(skipped+shortestEncoded, first)])) {
			e.replace(interval{i + skipped, end}, []byte(" "), unescaped(string(text)), []byte(" "))
		}
		i = end
	}
	return e.done()
}

// encodedEnd returns where the characters of base64 end that begin at i.
func encodedEnd(b []byte, i int) int {
	for i < len(b) && policy.InBase64(b[i]) {
		i++
	}
	return i
}

// appendLines appends to the first line of a run its other lines, which begin behind end, and returns the run's
// end. All are of equal length but the last, which is shorter and followed by padding or no word.
func appendLines(run, b []byte, end int) ([]byte, int) {
	width := len(run)
	for {
		start := skip(b[:min(len(b), end+shortestLine)], end, spaces)
		if start == end || bytes.IndexByte(b[end:start], '\n') < 0 {
			break
		}
		next := encodedEnd(b[:min(len(b), start+width+1)], start)
		if next == start || next-start > width {
			break
		}
		if last := next-start < width; last {
			if next < len(b) && b[next] != '=' && b[next] != '\n' && b[next] != '\r' && b[next] != '"' && b[next] != '\'' && b[next] != '`' {
				break
			}
			run, end = append(run, b[start:next]...), next
			break
		}
		run, end = append(run, b[start:next]...), next
	}
	return run, skip(b[:min(len(b), end+2)], end, "=")
}

// runText returns the text that a run is the encoding of, or nil, and how many characters stand before the
// encoding. It begins in the first line, perhaps behind characters of an address or a name.
func runText(run []byte, first int) (text []byte, skipped int) {
	if len(run) > 2 && run[0] == '0' && run[1]|0x20 == 'x' {
		skipped = 2
	}
	for range encodedStarts {
		if len(run)-skipped < shortestEncoded {
			break
		}
		if text := encodedText(run[skipped:]); text != nil {
			return text, skipped
		}
		i := bytes.IndexAny(run[skipped:first], "/-_+")
		if i < 0 {
			break
		}
		skipped += i + 1
	}
	return nil, 0
}

// encodedText returns the text that all of a run is the encoding of, or nil.
func encodedText(run []byte) []byte {
	if prefix := run[:shortestLine]; isHex(prefix) && len(run)%2 == 0 {
		var begin [shortestLine / 2]byte
		if _, err := hex.Decode(begin[:], prefix); err == nil && printable(begin[:]) && isHex(run) {
			text := make([]byte, len(run)/2)
			if _, err := hex.Decode(text, run); err == nil && printable(text) {
				return text
			}
		}
	}
	var begin [shortestLine]byte
	if n, err := policy.DecodeBase64(begin[:], run[:shortestLine]); err != nil || !printable(begin[:n]) {
		return nil
	}
	text := make([]byte, base64.RawStdEncoding.DecodedLen(len(run)))
	n, err := policy.DecodeBase64(text, run)
	if err != nil || !printable(text[:n]) {
		return nil
	}
	return text[:n]
}

// printable reports whether bytes are UTF-8 for people to read: of its characters at most one in 20 is none or a
// control, and half are letters, digits or spaces. Its last character may be cut.
func printable(b []byte) bool {
	all, odd, plain := 0, 0, 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 && !utf8.FullRune(b[i:]) {
			break
		}
		i += size
		all++
		switch {
		case r == utf8.RuneError, r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f, unicode.Is(unicode.Co, r):
			odd++
		case r == ' ', r == '\n', r < utf8.RuneSelf && asciiAlnum(byte(r)), r >= utf8.RuneSelf && (ideograph(r) || unicode.IsLetter(r)):
			plain++
		}
	}
	return all > 0 && 20*odd <= all && 2*plain >= all
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !digitByte(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}
