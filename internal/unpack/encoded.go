package unpack

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/secret"
)

const (
	fewestEncoded = 8       // characters of base64 or hex
	fewestPadded  = 4       // the same with = behind it
	joinedLine    = 16      // characters of a line of several that are one run
	longestGlue   = 16      // bytes between two such lines
	aroundEncoded = 2 << 10 // bytes of text that are read with what is decoded in it
	shortDecoded  = 4 << 10 // bytes that are read in their place
	deepestText   = 3       // encodings in one another
)

// encoded visits what runs of base64 and hexadecimal digits hold, also over several lines and string literals, and what byte
// strings of programs do. Short texts are read in the place where they stand, with what is around it.
func (w *walker) encoded(path string, data []byte, depth int) {
	w.literals(path, data, depth)
	var out []byte // text around what is decoded
	last := 0      // what is before is in out
	flush := func() {
		if len(out) > 0 {
			out = append(out, data[last:min(len(data), last+aroundEncoded)]...)
			last = min(len(data), last+aroundEncoded)
			if w.spend(len(out)); depth < deepestText {
				w.text(path+"!text", out, depth+1)
			} else {
				w.pieces(path+"!text", out)
			}
			out = nil
		}
	}
	single := 0 // up to here lines are no run together
	for i := 0; i < len(data); {
		if !policy.InBase64(data[i]) {
			i++
			continue
		}
		end := runOf(data, i)
		if end-i < fewestPadded {
			i = end
			continue
		}
		if !w.ok() {
			break
		}
		run := data[i:end]
		if end-i >= joinedLine && i >= single {
			run, end = joined(data, i)
		}
		decoded, skipped := decode(run, end < len(data) && data[end] == '=')
		if line := runOf(data, i); decoded == nil && line < end {
			single, end = end, line
			decoded, skipped = decode(data[i:end], false)
		}
		switch {
		case decoded == nil:
		case len(decoded) > shortDecoded || !isText(decoded):
			if len(decoded) <= shortDecoded && secret.Entropy(decoded) > packedBits && nextMagic(decoded, 0) == len(decoded) && !isPicture(decoded) {
				break // any long name is base64 of something
			}
			w.content(path+"!"+strconv.Itoa(i), decoded, depth+1)
		default:
			if len(out) > 0 && i-last > 2*aroundEncoded || len(out) > pieceBytes/2 {
				flush()
			}
			from := min(max(last, i-aroundEncoded), i+skipped)
			out = append(append(out, data[from:i+skipped]...), ' ')
			out = append(append(out, decoded...), ' ')
			last = max(last, end)
		}
		i = max(end, i+1)
	}
	flush()
}

// joined returns the run of base64 that begins at i, over several lines, and where it ends.
func joined(data []byte, i int) (run []byte, end int) {
	end = runOf(data, i)
	run = data[i:end:end]
	for {
		next := glueEnd(data, end)
		if next < 0 {
			break
		}
		stop := runOf(data, next)
		run, end = append(run, data[next:stop]...), stop
		if stop-next < joinedLine || len(run) > heldBytes { // the last
			break
		}
	}
	return run, end
}

// runOf returns where the run of base64 ends that begins at i, or where so much of it is held.
func runOf(data []byte, i int) int {
	for end := min(len(data), i+heldBytes); i < end && policy.InBase64(data[i]); i++ {
	}
	return i
}

// glueEnd returns where what may stand between two lines of one run ends: white space with a line break, quotes, plus, comma
// and the escapes of line breaks; -1 where something else stands between them.
func glueEnd(data []byte, i int) int {
	broken := false
	for end := min(len(data), i+longestGlue); i < end; i++ {
		switch c := data[i]; {
		case c == '\n' || c == '\r':
			broken = true
		case c == '\\' && i+1 < len(data) && (data[i+1] == 'n' || data[i+1] == 'r'):
			broken = true
			i++
		case c != ' ' && c != '\t' && c != '"' && c != '\'' && c != '\\' && c != '(' && c != ')' && c != ',' && c != '#' && c != '*':
			if broken && policy.InBase64(c) {
				return i
			}
			return -1
		}
	}
	return -1
}

// decode returns what a run is the encoding of, or nil, and how many characters stand before the encoding.
func decode(run []byte, padded bool) (decoded []byte, skipped int) {
	if len(run) < fewestEncoded && !(padded && len(run) >= fewestPadded) {
		return nil, 0
	}
	if len(run) > 2 && run[0] == '0' && run[1]|0x20 == 'x' {
		if b, err := hex.DecodeString(string(run[2:])); err == nil {
			return b, 2
		}
	}
	if b := hexOf(run); worth(b, len(run)) {
		return b, 0
	}
	for range 4 {
		hope := hopeful(run[skipped:])
		if len(run)-skipped < 256 && !hope {
			break
		}
		if hope || skipped == 0 { // the middle of an encoding, or one behind a name
			b := make([]byte, base64.RawStdEncoding.DecodedLen(len(run)-skipped))
			if n, err := policy.DecodeBase64(b, run[skipped:]); err == nil && (worth(b[:n], len(run)) || n > shortDecoded && mixed(run)) {
				return b[:n], skipped
			}
		}
		next := bytes.IndexAny(run[skipped:min(len(run), skipped+64)], "/-_+") // of a name before it
		if next < 0 || len(run)-skipped-next < 3*fewestEncoded {
			break
		}
		skipped += next + 1
	}
	return nil, 0
}

// hopeful reports whether base64 begins as that of text or of a packed file does.
func hopeful(run []byte) bool {
	var head [3]byte
	if n, err := policy.DecodeBase64(head[:], run[:min(len(run), 4)]); err != nil || n == 0 {
		return false
	}
	if c := head[0]; c < utf8.RuneSelf {
		return true
	}
	r, size := utf8.DecodeRune(head[:])
	return bytes.IndexByte([]byte("\xfd\x80\x89\xff\xfe\xca\xce\xcf"), head[0]) >= 0 || size > 1 && r != utf8.RuneError || !utf8.FullRune(head[:])
}

func hexOf(run []byte) []byte {
	if len(run)%2 != 0 || !hexDigit(run[0]) || !hexDigit(run[1]) || !hexDigit(run[2]) {
		return nil
	}
	b := make([]byte, len(run)/2)
	if _, err := hex.Decode(b, run); err != nil {
		return nil
	}
	return b
}

// mixed reports whether a run has capital and small letters and digits, as no list of words or digests in hex has.
func mixed(run []byte) bool {
	return bytes.ContainsAny(run, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && bytes.ContainsAny(run, "ghijklmnopqrstuvwxyz") && bytes.ContainsAny(run, "0123456789")
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// worth reports whether decoded bytes are text of more than punctuation, the beginning of a stream, or many.
func worth(b []byte, characters int) bool {
	if len(b) == 0 {
		return false
	}
	if known(b) || characters >= 256 && (utf8.Valid(b) || runsIn(b)) {
		return true
	}
	said := false
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if said = said || r >= utf8.RuneSelf || unicode.IsLetter(r) || unicode.IsDigit(r); r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
		i += size
	}
	return said
}

// known reports whether bytes begin as a packed file does.
func known(b []byte) bool {
	return len(b) >= 20 && (begin(b, "SQLite format 3", "PAR1", "\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05", "PACK", "\x5d\x00\x00") ||
		nextMagic(b[:min(len(b), 64)], 0) == 0 || isPicture(b) || isNative(b) || isTar(b))
}

// runsIn reports whether most of the bytes stand in runs of text.
func runsIn(b []byte) bool {
	head := b[:min(len(b), 4<<10)]
	most := 0 // bytes of runs; no more than mostLines times as many come of them
	for i := 0; i < len(head); {
		if begins[head[i]] == 0 {
			i++
			continue
		}
		end := max(runEnd(head, i), i+1)
		if end-i >= shortestRun || shortAnnounced(head, i) || end < len(head) && head[end] == 0 {
			most += end - i
		}
		i = end
	}
	const mostLines = 6
	return 2*mostLines*most > len(head) && 2*len(runs(make([]byte, 0, len(head)), head)) > len(head)
}

// literals looks through byte strings of programs that begin as a packed file does, such as b'\x1f\x8b…'.
func (w *walker) literals(path string, data []byte, depth int) {
	for _, begin := range []string{`\x1f\x8b`, `x\x9c`, `x\xda`, `x^`, `PK\x03\x04`, `BZh91AY&SY`, `\xfd7zXZ\x00`, `(\xb5/\xfd`, `\x80\x04\x95`, `\x80\x05\x95`, `SQLite format 3\x00`} {
		for from := 0; w.ok(); {
			at := bytes.Index(data[from:], []byte(begin))
			if at < 0 {
				break
			}
			at += from
			from = at + len(begin)
			if at == 0 || data[at-1] != '"' && data[at-1] != '\'' {
				continue
			}
			b, end := literal(data, at, data[at-1])
			if len(b) >= 20 {
				w.content(path+"!"+strconv.Itoa(at), b, depth+1)
			}
			from = max(from, end)
		}
	}
}

// literal returns the bytes of a string literal of C, Python and the like up to its quote, and where it ends.
func literal(data []byte, i int, quote byte) (out []byte, end int) {
	for i < len(data) && data[i] != quote && len(out) < heldBytes {
		if data[i] != '\\' || i+1 == len(data) {
			out = append(out, data[i])
			i++
			continue
		}
		c := data[i+1]
		i += 2
		switch {
		case c == 'x' && i+2 <= len(data):
			v, err := strconv.ParseUint(string(data[i:i+2]), 16, 8)
			if err != nil {
				return out, i
			}
			out = append(out, byte(v))
			i += 2
		case '0' <= c && c <= '7':
			v := c - '0'
			for n := 0; n < 2 && i < len(data) && '0' <= data[i] && data[i] <= '7'; n++ {
				v = v<<3 | data[i] - '0'
				i++
			}
			out = append(out, v)
		case c == '\n':
		default:
			if at := bytes.IndexByte([]byte("abfnrtv"), c); at >= 0 {
				c = "\a\b\f\n\r\t\v"[at]
			}
			out = append(out, c)
		}
	}
	return out, i
}
