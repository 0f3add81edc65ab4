package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// BuiltinTools returns the tools of this program, by name.
func BuiltinTools() []string {
	return []string{"calculate", "describe_image", "list_files", "python", "read_file", "transcribe_audio", "web_fetch", "web_search"}
}

// CallOf returns what a call with these arguments would touch: strings as they are, other values as
// their JSON text. The arguments of this program's own tools are known; of any other tool each string
// anywhere in them, names included, may be fetched or opened if it looks like an address or a path.
// Every argument is a text as well. The call counts as one of a tool that there is.
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
		for _, text := range slices.Clone(c.Texts) {
			inside := nested(text)
			c.Texts = append(c.Texts, inside...)
			if len(inside) == 0 {
				inside = []string{text}
			}
			for _, value := range inside {
				if strings.Contains(value, "://") {
					c.URLs = append(c.URLs, value)
				}
				if strings.ContainsAny(value, `/\.`) && !strings.ContainsAny(value, " \t\n") {
					c.Paths = append(c.Paths, value)
				}
			}
		}
	}
	return c
}

// nested returns the strings in a JSON array or object, and the names; none of any other text.
func nested(text string) (found []string) {
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return nil
	}
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return found // what is behind the mistake is in the text as a whole
		}
		if token.Kind() == '"' {
			found = append(found, token.String())
		}
	}
}
