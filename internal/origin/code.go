package origin

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// callForm is a form in which a model asks for a call in its text, where an agent reads that out of it. What it finds is
// the name of the tool. Each place where it is found has one of the marks, in lower case.
type callForm struct {
	find  *regexp.Regexp
	marks []string
}

var calls = sync.OnceValue(func() []callForm {
	form := func(find string, marks ...string) callForm { return callForm{regexp.MustCompile(find), marks} }
	return []callForm{
		form(`(?im)^[\s*#_>-]*action[\s\d*_]*:[\s*_`+"`"+`"]*([\w.:/-]+)(?:[\[(]|[\s\S]*?^[\s*#_>-]*action[\s_]*input)`, "action"),
		form(`<function=\s*"?([\w.:/-]*)`, "<function="),
		form(`<(?:\w+:)?invoke\s+name\s*=\s*["']?([\w.:/-]*)`, "invoke"),
		form(`<\|?tool_calls?\|?>(?:\s*\{\s*"name"\s*:\s*"([\w.:/-]*)")?`, "tool_call"),
		form(`[{,]\s*"(?:action|tool|tool_name|function)"\s*:\s*"([\w.:/-]+)"`, `"action"`, `"tool"`, `"tool_name"`, `"function"`),
		form(`"name"\s*:\s*"([\w.:/-]+)"\s*,\s*"(?:arguments|parameters|args|input)"\s*:`, `"name"`),
		form(`"(?:arguments|parameters|args|action_input)"\s*:[\s\S]*?"(?:name|action)"\s*:\s*"([\w.:/-]+)"`, `"arguments"`, `"parameters"`, `"args"`, `"action_input"`),
	}
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
	text = text[:min(len(text), mostLooked)]
	lower := strings.ToLower(text)
	for _, form := range calls() {
		if !slices.ContainsFunc(form.marks, func(mark string) bool { return strings.Contains(lower, mark) }) {
			continue
		}
		for _, found := range form.find.FindAllStringSubmatch(text, mostAsked) {
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
