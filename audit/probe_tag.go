package audit

// tagEnd returns the length of the tag at the start of b, and the white space it
// becomes; 0 if there is none.
//
// A tag is < or </ and the name of an element of HTML, or <! and a letter, up to
// the next > outside of quotes, within 1024 bytes and without another <. All its
// attributes but two have values. So a sentence after a lone < is text, and so
// are <Grey Heron> and <answer>. Values are dropped with their tag, but not those
// of a longer one: pages keep whole data sets in an attribute. Of a comment and
// of CDATA only the opening is dropped. A tag that begins or ends a line becomes
// a newline, one of a cell a tab, <wbr> nothing, others a space (see appendSpace).
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
		for i < len(b) && (asciiSpace(b[i]) || b[i] == '/') {
			i++
		}
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

// attributeEnd returns where the attribute at place i ends and whether it has a
// value, or -1 if there is none.
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

// tagSpace returns what a tag of this name becomes, 0 if HTML has no such
// element.
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
	switch string(lower[:len(name)]) {
	case "td", "th", "dt", "dd":
		return '\t'
	case "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "details", "dialog", "div", "dl",
		"fieldset", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "li",
		"main", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul":
		return '\n'
	case "a", "abbr", "area", "audio", "b", "base", "bdi", "bdo", "button", "canvas", "circle", "cite", "code", "col",
		"colgroup", "data", "datalist", "del", "dfn", "em", "embed", "figcaption", "font", "frame", "frameset", "g", "i",
		"iframe", "img", "input", "ins", "kbd", "label", "legend", "line", "link", "map", "mark", "meta", "meter", "nobr",
		"noscript", "object", "optgroup", "output", "param", "path", "picture", "polygon", "progress", "q", "rect", "rp",
		"rt", "ruby", "s", "samp", "script", "select", "slot", "small", "source", "span", "strike", "strong", "style",
		"sub", "sup", "svg", "template", "text", "textarea", "time", "track", "tt", "u", "use", "var", "video":
		return ' '
	case "wbr":
		return noSpace
	}
	return 0
}

func asciiSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'
}
