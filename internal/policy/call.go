package policy

import (
	"maps"
	"slices"
	"strings"
)

// BuiltinTools returns the tools of this program, by name.
func BuiltinTools() []string {
	return []string{"calculate", "describe_image", "list_files", "python", "read_file", "transcribe_audio", "web_fetch", "web_search"}
}

// CallOf returns what a call with these arguments would touch. The arguments of this program's own
// tools are known; of any other tool each may be fetched or opened if it looks like an address or a
// path. Every argument is a text as well. The call counts as one of a tool that there is.
func CallOf(tool string, args map[string]string) Call {
	c := Call{Tool: tool, Known: true}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		c.Texts = append(c.Texts, args[name])
	}
	switch tool {
	case "calculate", "web_search":
	case "web_fetch":
		c.URLs = []string{args["url"]} // rules see through archives
	case "describe_image", "read_file", "transcribe_audio":
		c.Paths = []string{args["path"]}
	case "list_files":
		c.Paths = []string{"."}
	case "python":
		c.Code = c.Texts
	default:
		for _, value := range c.Texts {
			if strings.Contains(value, "://") {
				c.URLs = append(c.URLs, value)
			}
			if strings.ContainsAny(value, `/\.`) && !strings.ContainsAny(value, " \t\n") {
				c.Paths = append(c.Paths, value)
			}
		}
	}
	return c
}
