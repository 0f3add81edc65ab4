package policy

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// codeNames are what tools call an argument that is code, commandNames one that is a line for a shell,
// or its words.
func codeNames() []string    { return []string{"code", "program", "python", "script", "source"} }
func commandNames() []string { return []string{"bash", "cmd", "command", "line", "shell"} }

// given takes in an argument of a tool that is not this program's: a string, or the JSON text of another
// value.
func (c *Call) given(name, text string) {
	c.says("", name)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		before := len(c.Strings)
		whole := c.nested(name, text)
		c.Texts = append(c.Texts, c.Strings[before:]...)
		if whole {
			return
		}
	}
	c.says(name, text)
}

// nested takes in the strings of a JSON array or object, and the names in it, up to a mistake. It
// returns whether there is none.
func (c *Call) nested(name, text string) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	under := []string{name} // the member that holds what comes, at each depth
	var words []string      // of a command
	for {
		token, err := d.ReadToken()
		if err != nil {
			c.runs(words)
			return errors.Is(err, io.EOF) && d.StackDepth() == 0
		}
		last := len(under) - 1
		switch token.Kind() {
		case '{', '[':
			under = append(under, under[last])
		case '}', ']':
			under = under[:last]
			c.runs(words)
			words = nil
		case '"':
			kind, n := d.StackIndex(d.StackDepth())
			switch named := kind == '{' && n%2 == 1; {
			case named:
				under[last] = token.String()
				c.says("", token.String())
			case kind == '[' && bears(under[last], commandNames()):
				words = append(words, token.String())
				c.says("", token.String())
			default:
				c.says(under[last], token.String())
			}
		}
	}
}

// bears says whether a member's name is one of these, in any case of letters.
func bears(name string, names []string) bool { return slices.Contains(names, strings.ToLower(name)) }

// runs takes in a command that is given as its words.
func (c *Call) runs(words []string) {
	if len(words) == 0 {
		return
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	c.Lines = append(c.Lines, strings.Join(quoted, " "))
}

// says takes in one string below a member of this name.
func (c *Call) says(name, text string) {
	c.Strings = append(c.Strings, text)
	switch {
	case bears(name, codeNames()):
		c.Code = append(c.Code, text)
	case bears(name, commandNames()):
		c.Lines = append(c.Lines, text)
	}
	if strings.Contains(text, "://") {
		c.URLs = append(c.URLs, text)
	}
	for word := range strings.FieldsFuncSeq(text, betweenWords) {
		switch {
		case strings.Contains(word, "://"):
			if word != text {
				c.URLs = append(c.URLs, word)
			}
			if word == text || strings.HasPrefix(strings.ToLower(word), "file:") {
				c.Paths = append(c.Paths, word)
			}
		case word == text && strings.ContainsAny(word, `/\.`), likePath(word):
			c.Paths = append(c.Paths, word)
		}
	}
}

// betweenWords says whether a character ends a word that may be a path or an address.
func betweenWords(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`,;()[]{}<>|=", r) }

// likePath says whether a word looks like a path: it is rooted, hidden or on a drive, or has a slash in
// it.
func likePath(word string) bool {
	drive := len(word) > 1 && word[1] == ':' && (word[0]|0x20 >= 'a' && word[0]|0x20 <= 'z')
	return drive || strings.ContainsAny(word[:1], "/~.") || strings.ContainsAny(word, `/\`)
}
