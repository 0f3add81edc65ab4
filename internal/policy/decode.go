package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	maxEncoded = 2  // layers of base64 or hex that are undone
	minEncoded = 24 // characters of a run that is decoded: no shorter one holds an address or a query
	minDecoded = 12 // bytes of text that a run must give
)

// decodings returns a text as it is and in every form that undoing its encodings gives: up to three layers of percent
// encoding, and below these up to two layers of base64 or hex, of whose runs only the text that they hold is returned.
func decodings(text string) []string {
	all := percentLayers(text)
	from := 0
	for range maxEncoded {
		to := len(all)
		for ; from < to; from++ {
			if hidden := decodedRuns(all[from]); hidden != "" {
				all = append(all, percentLayers(hidden)...)
			}
		}
	}
	return all
}

// percentLayers returns a text with zero to three layers of percent encoding undone, each different from the one before.
func percentLayers(text string) []string {
	all := []string{text}
	for range 3 {
		decoded := percentDecode(text)
		if decoded == text {
			break
		}
		text = decoded
		all = append(all, text)
	}
	return all
}

// decodedRuns returns the texts that runs of base64 and hex encode, with | after each. Base64 may be of either alphabet, without
// padding, and have anything before it that belongs to the alphabet too, such as a folder's name and a slash.
func decodedRuns(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		from := i
		for ; i < len(text) && InBase64(text[i]); i++ {
		}
		if run := text[from:i]; len(run) >= minEncoded {
			decoded := make([]byte, len(run))
			for phase := range 4 {
				n, _ := DecodeBase64(decoded, []byte(run[phase:]))
				writeText(&out, decoded[:n])
			}
			for part := range strings.FieldsFuncSeq(run, func(r rune) bool { return r >= 0x80 || hexDigit(byte(r)) < 0 }) {
				if decoded, err := hex.DecodeString(part[:len(part)&^1]); err == nil && len(part) >= minEncoded {
					writeText(&out, decoded)
				}
			}
		}
		i = max(i, from+1)
	}
	return out.String()
}

// writeText writes the runs of printable ASCII in decoded bytes, with | behind each.
func writeText(out *strings.Builder, decoded []byte) {
	for run := range bytes.FieldsFuncSeq(decoded, func(r rune) bool { return r < ' ' || r > '~' }) {
		if len(run) >= minDecoded {
			out.Write(run)
			out.WriteByte('|')
		}
	}
}

// DecodeBase64 decodes base64 without padding, of either alphabet or a mix of both, into dst and
// returns the number of bytes before the first error. It ignores a last character that was cut off
// from its group. dst must have room for base64.RawStdEncoding.DecodedLen(len(src)) bytes.
func DecodeBase64(dst, src []byte) (int, error) {
	if len(src)%4 == 1 {
		src = src[:len(src)-1]
	}
	if bytes.ContainsAny(src, "-_") {
		src = bytes.Clone(src)
		for i, c := range src {
			switch c {
			case '-':
				src[i] = '+'
			case '_':
				src[i] = '/'
			}
		}
	}
	return base64.RawStdEncoding.Decode(dst, src)
}

// InBase64 reports whether a byte belongs to either alphabet of base64.
func InBase64(c byte) bool { return inBase64[c] }

var inBase64 = func() (all [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_") {
		all[c] = true
	}
	return all
}()

// percentDecode undoes one layer of percent encoding; what is not an encoding stays as it is.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0 {
			out = append(out, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func hexDigit(c byte) int {
	i := strings.IndexByte("0123456789abcdefABCDEF", c)
	if i > 15 {
		i -= 6
	}
	return i
}
