package proxy

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/go-json-experiment/json/jsontext"
)

// maxSaid bounds, in bytes, what is kept of the replies of an attempt. What was said before the last maxSaid bytes is
// forgotten, and Holds then answers false where it would have answered true.
const maxSaid = 1 << 20

// said is what replies said, each as plain text between line breaks, which no plain text has.
type said struct{ text []byte }

// Holds reports whether a reply of the attempt held an answer, in its text or in the arguments of a tool call. Both are
// compared as the official scorer compares texts: in lower case, without white space and punctuation. An answer of
// nothing else is held by none.
func (p *Proxy) Holds(answer string) bool {
	plain := appendPlain(nil, answer)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(plain) > 0 && bytes.Contains(p.said.text, plain)
}

func (s *said) add(m llm.Message) {
	text := appendPlain([]byte{'\n'}, m.Content)
	for _, c := range m.ToolCalls {
		for _, value := range scalars(c.Arguments) {
			text = appendPlain(append(text, '\n'), value)
		}
	}
	if over := len(text) - maxSaid; over > 0 {
		text = text[over:]
	}
	if over := len(s.text) + len(text) - maxSaid; over > 0 {
		s.text = s.text[:copy(s.text, s.text[over:])]
	}
	s.text = append(s.text, text...)
}

// scalars returns the texts and numbers of a JSON value, and all of what is no JSON.
func scalars(value string) (found []string) {
	d := jsontext.NewDecoder(strings.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			if rest := value[min(int(d.InputOffset()), len(value)):]; strings.TrimSpace(rest) != "" {
				found = append(found, rest)
			}
			return found
		}
		if kind := token.Kind(); kind == '"' || kind == '0' {
			found = append(found, token.String())
		}
	}
}

// appendPlain appends a text in lower case, without white space and ASCII punctuation.
func appendPlain(to []byte, text string) []byte {
	for _, r := range text {
		if unicode.IsSpace(r) || r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			continue
		}
		to = utf8.AppendRune(to, unicode.ToLower(r))
	}
	return to
}
