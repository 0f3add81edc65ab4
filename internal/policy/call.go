package policy

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// BuiltinTools returns the tools of this program, by name.
func BuiltinTools() []string {
	return []string{"calculate", "describe_image", "list_files", "python", "read_file", "transcribe_audio", "web_fetch", "web_search"}
}

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

// CallOf returns what a call with these arguments, as Arguments gives them, would touch. The arguments
// of this program's own tools are known. What any other tool makes of its own nobody knows: each string
// anywhere in them, names included, is told as one, the addresses and paths that are words of it as
// such, what bears the name of code or of a command as that. Every argument is a text as well. The call
// counts as one of a tool that there is.
func CallOf(tool string, args map[string]string) Call {
	c := Call{Tool: tool, Known: true}
	names := slices.Sorted(maps.Keys(args))
	for _, name := range names {
		c.Texts = append(c.Texts, args[name])
	}
	switch tool {
	case "calculate", "web_search":
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
