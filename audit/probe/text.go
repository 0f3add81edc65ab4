package probe

import (
	"bytes"
	"encoding/binary"
	"html"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	unescapePasses = 3    // layers of encoding that are undone
	longestTag     = 1024 // bytes; what goes on for longer is text
	longestEntity  = 33   // bytes, from & to ;
	bareAttributes = 2    // what has more words without a value is text
)

// probeText is canonical text and a way from byte offsets to characters.
type probeText struct {
	b        []byte
	marks    []uint32   // characters before each 64th byte; nil for ASCII
	numbered []interval // line numbers; see lineNumbers
	counted  []interval // those that are certainly not a gold answer
}

// canonicalText undoes what formats do to text, so that a leak reads the same in all of them.
//
// A pass goes through the text once, from left to right. It turns HTML entities that end in a semicolon into their
// characters, a tag into white space (see tagEnd), and the escapes \n \t \r \b \f \uXXXX (with surrogate pairs) and
// a backslash before ASCII punctuation into what they stand for; what it has written it does not look at again.
// While a pass undid an entity or an escape there is another, up to three: JSON in HTML, HTML in JSON and JSON in
// JSON are undone in any order, three deep. What comes out is brought to NFKC and lower case, without characters of
// category Cf (soft hyphens, zero-width spaces) and without diacritics, and letters of other scripts that look like
// Latin ones become these (see foldedRunes). U+FDFA stays as it is, and invalid UTF-8 becomes U+FFFD.
func canonicalText(s string) probeText { return foldedText(unescaped(s)) }

// foldedText is the last step of canonicalText: NFKC, and then what appendFolded does. It may change b.
func foldedText(b []byte) probeText {
	t := probeText{b: folded(b)}
	t.index()
	return t
}

func folded(b []byte) []byte {
	if isASCII(b) {
		for i, c := range b {
			if 'A' <= c && c <= 'Z' {
				b[i] = c + 'a' - 'A'
			}
		}
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/16)
	for found := true; found; {
		var part []byte
		part, b, found = bytes.Cut(b, []byte(longLigature))
		out = appendFolded(out, norm.NFKC.Bytes(part))
		if found {
			out = append(out, longLigature...)
		}
	}
	return out
}

// unescaped is s after the passes of canonicalText.
func unescaped(s string) []byte {
	b, spare := []byte(s), []byte(nil)
	for range unescapePasses {
		if bytes.IndexByte(b, '<') < 0 && bytes.IndexByte(b, '&') < 0 && bytes.IndexByte(b, '\\') < 0 {
			break
		}
		out, undone := unescape(spare[:0], b)
		b, spare = out, b
		if !undone {
			break
		}
	}
	return b
}

// unescape is one pass over b, appended to out. It says whether it undid an entity or an escape.
func unescape(out, b []byte) ([]byte, bool) {
	if cap(out) < len(b) {
		out = make([]byte, 0, len(b)+len(b)/16)
	}
	undone, from := false, 0
	inline := -1 // length of out behind the space of tags that follow a word directly
	for i := 0; i < len(b); {
		c := b[i]
		if c != '<' && c != '&' && c != '\\' {
			i++
			continue
		}
		out = append(out, b[from:i]...)
		size := 0
		switch c {
		case '<':
			var space byte
			if size, space = tagEnd(b[i:]); size > 0 {
				out, inline = appendSpace(out, space, inline, b[i+size:])
			}
		case '&':
			out, size = appendEntity(out, b[i:])
			undone = undone || size > 0
		case '\\':
			out, size = appendEscape(out, b[i:])
			undone = undone || size > 0
		}
		from = i + size
		i = max(from, i+1)
	}
	return append(out, b[from:]...), undone
}

// tagJoint is the space of inline tags that stand between two letters. It is white space, but the two may be parts
// of one word.
const tagJoint = '\x01'

// appendSpace appends the white space of a tag. Inline is the length of out if nothing but inline tags follow a
// word there.
func appendSpace(out []byte, space byte, inline int, rest []byte) ([]byte, int) {
	switch {
	case space == noSpace:
		return out, inline
	case space != ' ' || len(out) == 0:
		return append(out, space), -1
	case inline == len(out):
	case glueByte(out[len(out)-1]):
		out = append(out, ' ')
	default:
		return append(out, ' '), -1
	}
	if len(rest) > 0 && glueByte(rest[0]) {
		out[len(out)-1] = tagJoint
	}
	return out, len(out)
}

// glueByte reports whether a byte can belong to a word.
func glueByte(c byte) bool { return asciiAlnum(c) || c >= utf8.RuneSelf }

// appendEntity appends what the entity at the start of b stands for and returns its length, 0 if there is none.
func appendEntity(out, b []byte) ([]byte, int) {
	end := 1
	for end < len(b) && end < longestEntity && (asciiAlnum(b[end]) || b[end] == '#') {
		end++
	}
	if end == len(b) || b[end] != ';' {
		return out, 0
	}
	if char, known := entities[string(b[1:end])]; known {
		return append(out, char), end + 1
	}
	entity := string(b[:end+1])
	plain := html.UnescapeString(entity)
	if plain == entity {
		return out, 0
	}
	return append(out, plain...), end + 1
}

// entities are those that are most common, and the non-breaking space as a space.
var entities = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "#34": '"', "apos": '\'', "#39": '\'', "#x27": '\'', "nbsp": ' '}

// appendEscape does the same for the escape at the start of b.
func appendEscape(out, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return out, 0
	}
	switch c := b[1]; {
	case strings.IndexByte("nrtbf", c) >= 0:
		return append(out, "\n\r\t  "[strings.IndexByte("nrtbf", c)]), 2
	case c == 'x' && len(b) >= 4:
		if v, err := strconv.ParseUint(string(b[2:4]), 16, 8); err == nil && v >= ' ' && v < utf8.RuneSelf {
			return append(out, byte(v)), 4
		}
	case c == 'u':
		high, ok := hexEscape(b)
		if !ok {
			return out, 0
		}
		if low, ok := hexEscape(b[6:]); ok && high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000 {
			return utf8.AppendRune(out, (high-0xd800)<<10+(low-0xdc00)+0x10000), 12
		}
		return utf8.AppendRune(out, high), 6
	case c < utf8.RuneSelf && (unicode.IsPunct(rune(c)) || unicode.IsSymbol(rune(c))):
		return append(out, c), 2
	}
	return out, 0
}

// hexEscape reads \uXXXX.
func hexEscape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || !asciiAlnum(b[2]) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(v), err == nil
}

// longLigature is a whole sentence in one character, which NFKC would turn into eleven times its bytes.
const longLigature = "\ufdfa"

// appendFolded appends text in lower case, without format characters and diacritics, with Latin letters for those
// that look like them. A soft hyphen at the end of a line is a hyphen.
func appendFolded(out, b []byte) []byte {
	table := foldedRunes()
	for len(b) > 0 {
		if c := b[0]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			out, b = append(out, c), b[1:]
			continue
		}
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case r == softHyphen && len(b) > 0 && asciiSpace(b[0]):
			out = append(out, '-')
			continue
		case int(r) < len(table):
			f := table[r]
			if f.first == 0 {
				continue
			}
			if out = utf8.AppendRune(out, f.first); f.second != 0 {
				out = append(out, f.second)
			}
			continue
		case r == hyphen:
			r = '-'
		case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef: // variation selectors
			continue
		case !ideograph(r):
			if unicode.Is(unicode.Cf, r) {
				continue
			}
			r = unicode.ToLower(r)
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// isASCII reports whether no byte is beyond ASCII, eight bytes at a time.
func isASCII(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
}

const markBytes = 64

func (t *probeText) index() {
	if isASCII(t.b) {
		return
	}
	chars := 0
	for i, c := range t.b {
		if i%markBytes == 0 {
			t.marks = append(t.marks, uint32(chars))
		}
		if c&0xc0 != 0x80 {
			chars++
		}
	}
}

// pos returns how many characters stand before a byte offset.
func (t *probeText) pos(offset int) int {
	if t.marks == nil {
		return offset
	}
	mark := offset / markBytes
	if mark >= len(t.marks) {
		mark = len(t.marks) - 1
	}
	n := int(t.marks[mark])
	for _, c := range t.b[mark*markBytes : offset] {
		if c&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// chars returns how many characters stand between two byte offsets.
func (t *probeText) chars(from, to int) int { return t.pos(to) - t.pos(from) }

func asciiAlnum(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

// ideograph says of common characters, without looking them up, that they are letters without case.
func ideograph(r rune) bool { return 0x4e00 <= r && r <= 0x9fff || 0xac00 <= r && r <= 0xd7a3 }

const (
	softHyphen = '\u00ad'
	hyphen     = '\u2010' // what NFKC makes of the non-breaking hyphen, too
)

// foldedRune is what a character becomes: a character and perhaps an ASCII letter behind it. It is zero for a
// character that is dropped.
type foldedRune struct {
	first  rune
	second byte
}

// foldedRunes maps the characters below U+2000.
//
// A character becomes its lower case. Latin, Greek and Cyrillic letters lose their diacritics. Letters that look
// like a Latin one become it: the table is the part of Unicode's confusables (UTS #39) that concerns single letters
// of Greek, Cyrillic and Armenian and the small capitals. It does not depend on what stands around a letter, so
// that texts in these scripts still match themselves. Format characters, combining diacritical marks and fillers
// are dropped.
var foldedRunes = sync.OnceValue(func() *[0x2000]foldedRune {
	alike := map[rune]rune{}
	pair := func(others, latin string) {
		letters := []rune(latin)
		for i, r := range []rune(others) {
			alike[r] = letters[i]
		}
	}
	pair("авсеһіјкӏмнорԛѕтѵԝхуԁгүѡ", "abcehijklmhopqstvwxydryw") // Cyrillic
	pair("αβεηικνορτυχωςγ", "abehikvoptyxwσy")                   // Greek; the final sigma is a sigma
	pair("օոսհզցյ", "onuhqgj")                                   // Armenian
	pair("ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢɑɡɩ", "abcdeghijklmnoprtuvwyzagi")
	pair("øłđħıŧðƒ", "oldhitdf")
	double := map[rune]foldedRune{'ß': {'s', 's'}, 'æ': {'a', 'e'}, 'œ': {'o', 'e'}, 'þ': {'t', 'h'}}

	table := new([0x2000]foldedRune)
	for i := range table {
		r := rune(i)
		switch {
		case unicode.Is(unicode.Cf, r), r >= 0x300 && r <= 0x36f, r == 0x115f, r == 0x1160, r >= 0x180b && r <= 0x180f:
			continue
		case r < 0x80:
			table[i] = foldedRune{first: unicode.ToLower(r)}
			continue
		}
		r = unicode.ToLower(r)
		if unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) {
			for _, base := range norm.NFD.String(string(r)) {
				r = base
				break
			}
		}
		f, ok := double[r]
		if !ok {
			f.first = r
			if latin, ok := alike[r]; ok {
				f.first = latin
			}
		}
		table[i] = f
	}
	return table
})

// tagEnd returns the length of the tag at the start of b, and the white space it becomes; 0 if there is none.
//
// A tag is < or </ and the name of an element of HTML, or <! and a letter, up to the next > outside of quotes,
// within 1024 bytes and without another <. All its attributes but two have values. So a sentence after a lone < is
// text, and so are <Grey Heron> and <answer>. Values are dropped with their tag, but not those of a longer one:
// pages keep whole data sets in an attribute. Of a comment and of CDATA only the opening is dropped. A tag that
// begins or ends a line becomes a newline, one of a cell a tab, <wbr> nothing, others a space (see appendSpace).
func tagEnd(b []byte) (int, byte) {
	b = b[:min(len(b), longestTag)]
	for _, opening := range []string{"<!--", "<![CDATA["} {
		if len(b) >= len(opening) && string(b[:len(opening)]) == opening {
			return len(opening), ' '
		}
	}
	i := 1
	if i < len(b) && (b[i] == '/' || b[i] == '!') {
		i++
	}
	name := i
	for i < len(b) && asciiAlnum(b[i]) {
		i++
	}
	if i == name {
		return 0, 0
	}
	space, bare := tagSpace(b[name:i]), bareAttributes
	if b[1] == '!' {
		space, bare = ' ', longestTag
	}
	if space == 0 || digitByte(b[name]) {
		return 0, 0
	}
	for {
		start := i
		i = skip(b, i, spaces+"/")
		switch {
		case i == len(b):
			return 0, 0
		case b[i] == '>':
			return i + 1, space
		case i == start:
			return 0, 0
		}
		end, valued := attributeEnd(b, i)
		if end < 0 {
			return 0, 0
		}
		if !valued {
			if bare--; bare < 0 {
				return 0, 0
			}
		}
		i = end
	}
}

// attributeEnd returns where the attribute at place i ends and whether it has a value, or -1 if there is none.
func attributeEnd(b []byte, i int) (int, bool) {
	start := i
	for i < len(b) && !asciiSpace(b[i]) && b[i] != '=' && b[i] != '>' && b[i] != '/' {
		if b[i] == '<' || b[i] == '\'' {
			return -1, false
		}
		i++
	}
	if i == start || i == len(b) {
		return -1, false
	}
	if b[i] != '=' {
		return i, false
	}
	i++
	if i < len(b) && (b[i] == '"' || b[i] == '\'') {
		quote := b[i]
		for i++; i < len(b) && b[i] != quote; i++ {
			if b[i] == '<' {
				return -1, false
			}
		}
		if i == len(b) {
			return -1, false
		}
		return i + 1, true
	}
	for i < len(b) && !asciiSpace(b[i]) && b[i] != '>' {
		if b[i] == '<' || b[i] == '"' {
			return -1, false
		}
		i++
	}
	return i, true
}

// noSpace is what tagSpace returns for a tag that leaves nothing.
const noSpace = 0xff

// tagSpaces is what the tags of HTML's elements become.
var tagSpaces = func() map[string]byte {
	all := map[string]byte{"wbr": noSpace}
	for names, space := range map[string]byte{
		"td th dt dd": '\t',
		`address article aside blockquote body br caption center details dialog div dl fieldset figure footer form h1 h2 h3 h4 h5 h6 head
		header hr html li main nav ol option p pre section summary table tbody tfoot thead title tr ul`: '\n',
		`a abbr area audio b base bdi bdo button canvas circle cite code col colgroup data datalist del dfn em embed figcaption font frame
		frameset g i iframe img input ins kbd label legend line link map mark meta meter nobr noscript object optgroup output param path
		picture polygon progress q rect rp rt ruby s samp script select slot small source span strike strong style sub sup svg template
		text textarea time track tt u use var video`: ' ',
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = space
		}
	}
	return all
}()

// tagSpace returns what a tag of this name becomes, 0 if HTML has no such element.
func tagSpace(name []byte) byte {
	var lower [10]byte
	if len(name) > len(lower) {
		return 0
	}
	for i, c := range name {
		if c >= 'A' {
			c |= 0x20
		}
		lower[i] = c
	}
	return tagSpaces[string(lower[:len(name)])]
}

// spaces is ASCII white space.
const spaces = " \t\n\r\f"

func asciiSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'
}
