package policy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// BuiltinTools returns the tools of this program, by name.
func BuiltinTools() []string {
	return []string{"calculate", "describe_image", "list_files", "python", "read_file", "transcribe_audio", "web_fetch", "web_search"}
}

// SubmitAnswer is the tool by which an own agent gives its answer. It reaches nothing and changes nothing, and no rule,
// list, mode or budget denies it: an answer is judged by the scorer.
const SubmitAnswer = "submit_answer"

// Own reports whether a tool is one of this program, whose arguments it knows the meaning of.
func Own(tool string) bool { return tool == SubmitAnswer || slices.Contains(BuiltinTools(), tool) }

// ToolName returns this program's name for a tool that other systems have under another (Read, Bash),
// and any other name as it is.
func ToolName(tool string) string {
	switch tool {
	case "Read", "Grep":
		return "read_file"
	case "Glob":
		return "list_files"
	case "WebFetch":
		return "web_fetch"
	case "WebSearch":
		return "web_search"
	case "Bash", "Edit", "Write":
		return "python"
	}
	return tool
}

// Arguments reads the arguments of a call, one JSON object: strings as they are, other values as their
// JSON text. No text at all is no arguments.
func Arguments(text []byte) (map[string]string, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]string{}, nil
	}
	if args := plainArguments(text); args != nil {
		return args, nil
	}
	var values map[string]jsontext.Value
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	args := make(map[string]string, len(values))
	for name, value := range values {
		args[name] = string(value)
		if value.Kind() == '"' {
			if b, err := jsontext.AppendUnquote(nil, value); err == nil {
				args[name] = string(b)
			}
		}
	}
	return args, nil
}

// plainArguments is Arguments for an object of strings of visible ASCII without escapes, as most are; nil for another one, and
// for what is no such object.
func plainArguments(text []byte) map[string]string {
	next := func(sign byte) bool { // takes it, and spaces before it
		for len(text) > 0 && text[0] == ' ' {
			text = text[1:]
		}
		is := len(text) > 0 && text[0] == sign
		if is {
			text = text[1:]
		}
		return is
	}
	word := func() (s string, ok bool) {
		if !next('"') {
			return "", false
		}
		for i, c := range text {
			if c == '"' {
				s, text = string(text[:i]), text[i+1:]
				return s, true
			}
			if c < ' ' || c >= utf8.RuneSelf-1 || c == '\\' {
				break
			}
		}
		return "", false
	}
	if !next('{') {
		return nil
	}
	args := map[string]string{}
	for more := true; more; more = next(',') {
		name, named := word()
		_, twice := args[name]
		if !named || twice || !next(':') {
			return nil
		}
		value, whole := word()
		if !whole {
			return nil
		}
		args[name] = value
	}
	if !next('}') || len(text) > 0 {
		return nil
	}
	return args
}

// Names returns the names of arguments, in their order.
func Names(args map[string]string) []string {
	names := make([]string, 0, len(args))
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CallOf returns what a call with these arguments, as Arguments returns them, would touch. The meaning of
// the arguments of this program's tools is known. Any other tool may do anything with its arguments: each
// string anywhere in them, names included, is one of Strings; words of it that are addresses or paths are
// URLs and Paths, and what is named like code or a command is Code or Lines. Every argument is one of
// Texts as well. The call counts as known.
func CallOf(tool string, args map[string]string) Call {
	c := Call{Tool: tool, Known: true}
	names := Names(args)
	for _, name := range names {
		c.Texts = append(c.Texts, args[name])
	}
	switch tool {
	case "calculate", "web_search", SubmitAnswer:
	case "web_fetch":
		c.URLs = []string{args["url"]}
		if at := args["archived"]; at != "" {
			c.URLs = append(c.URLs, "https://web.archive.org/web/"+at+"/"+args["url"])
		}
	case "describe_image", "read_file", "transcribe_audio":
		c.Paths = []string{args["path"]}
	case "list_files":
		c.Paths = []string{"."}
	case "python":
		c.Code = c.Texts
	default:
		for _, name := range names {
			c.given(name, args[name])
		}
	}
	return c
}

// given adds an argument of a tool that is not this program's: a string, or the JSON text of another
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

// nested adds the strings of a JSON array or object, and the names in it, up to a syntax error. It
// reports whether there is none.
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
			switch isName := kind == '{' && n%2 == 1; {
			case isName:
				under[last] = token.String()
				c.says("", token.String())
			case kind == '[' && named(under[last], data().Lists.CommandArguments):
				words = append(words, token.String())
				c.says("", token.String())
			default:
				c.says(under[last], token.String())
			}
		}
	}
}

// named reports whether a member's name is one of these, in any case of letters.
func named(name string, names []string) bool { return slices.Contains(names, strings.ToLower(name)) }

// runs adds a command that is given as its words.
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

// says adds one string below a member of this name.
func (c *Call) says(name, text string) {
	c.Strings = append(c.Strings, text)
	switch {
	case named(name, data().Lists.CodeArguments):
		c.Code = append(c.Code, text)
	case named(name, data().Lists.CommandArguments):
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
		case word == text && strings.ContainsAny(word, `/\.`), strings.ContainsAny(word[:1], "/~.") || strings.ContainsAny(word, `/\`),
			len(word) > 1 && word[1] == ':' && word[0]|0x20 >= 'a' && word[0]|0x20 <= 'z': // a drive
			c.Paths = append(c.Paths, word)
		}
	}
}

// betweenWords reports whether a character ends a word that may be a path or an address.
func betweenWords(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`,;()[]{}<>|=", r) }
