package origin

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// calls are the forms in which a model asks for a call in its text, where an agent reads that out of it. What they find is the
// name of the tool.
var calls = sync.OnceValue(func() (all []*regexp.Regexp) {
	for _, form := range []string{
		`(?im)^[\s*#_>-]*action[\s\d*_]*:[\s*_` + "`" + `"]*([\w.:/-]+)(?:[\[(]|[\s\S]*?^[\s*#_>-]*action[\s_]*input)`,
		`<function=\s*"?([\w.:/-]*)`,
		`<(?:\w+:)?invoke\s+name\s*=\s*["']?([\w.:/-]*)`,
		`<\|?tool_calls?\|?>(?:\s*\{\s*"name"\s*:\s*"([\w.:/-]*)")?`,
		`[{,]\s*"(?:action|tool|tool_name|function)"\s*:\s*"([\w.:/-]+)"`,
		`"name"\s*:\s*"([\w.:/-]+)"\s*,\s*"(?:arguments|parameters|args|input)"\s*:`,
		`"(?:arguments|parameters|args|action_input)"\s*:[\s\S]*?"(?:name|action)"\s*:\s*"([\w.:/-]+)"`,
	} {
		all = append(all, regexp.MustCompile(form))
	}
	return all
})

// Bounds on where calls are looked for in a text, in bytes, and on how many of a form.
const (
	mostLooked = 1 << 20
	mostAsked  = 64
)

// Code reports whether a text of a model may be or hold code, or asks for a call of another tool than those with the names,
// whose results are recorded.
func Code(text string, recorded []string) bool {
	for _, mark := range []string{"```", "<code", "import ", "print(", "def "} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	for _, form := range calls() {
		for _, found := range form.FindAllStringSubmatch(text[:min(len(text), mostLooked)], mostAsked) {
			if !Recorded(found[1], recorded) {
				return true
			}
		}
	}
	return false
}

// Recorded reports whether a tool that a model asks for is one of those with the names. Clients of MCP put a prefix before them.
func Recorded(asked string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		at := len(asked) - len(name)
		return at == 0 && asked == name || at > 0 && asked[at:] == name && strings.ContainsRune("_-./:", rune(asked[at-1]))
	})
}
