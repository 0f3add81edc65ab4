package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/tools"
	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

// maxExpanded bounds how large a schema may be with everything in it that it
// refers to. Validating takes as many steps for each value, and a reference
// to itself takes no end of them: the library has no limit.
const maxExpanded = 4096

// parameters returns the schema of a tool's arguments as the model gets it.
func parameters(schema any) ([]byte, error) {
	object, ok := schema.(map[string]any)
	if !ok {
		return nil, errors.New("is no JSON object")
	}
	if object["type"] != "object" {
		return nil, errors.New("is not of type object")
	}
	if _, has := object["properties"]; !has {
		object["properties"] = map[string]any{} // model endpoints insist on it
	}
	hidden := ""
	eachText(object, func(text string) {
		if hidden == "" {
			hidden = unseen(text)
		}
	})
	if hidden != "" {
		return nil, fmt.Errorf("has a character that is not seen, %s", hidden)
	}
	b, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		return nil, errors.New("cannot be written as JSON")
	}
	if len(b) > maxSchema {
		return nil, fmt.Errorf("has %d bytes; %d are the limit", len(b), maxSchema)
	}
	_, err = resolveSchema(b)
	return b, err
}

// resolveSchema makes a schema ready to validate with.
func resolveSchema(schema []byte) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := s.UnmarshalJSON(schema); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %s", tools.Plain(err))
	}
	// What counts is what the library understood: it takes names of either case.
	understood, err := s.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %s", tools.Plain(err))
	}
	size, err := schemaParts(understood)
	if err != nil {
		return nil, err
	}
	if size > maxExpanded {
		return nil, fmt.Errorf("is larger than %d parts, with what it refers to", maxExpanded)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("cannot be resolved: %s", tools.Plain(err))
	}
	return resolved, nil
}

// expansion measures a schema with what it refers to in place of references.
type expansion struct {
	root  map[string]any
	sizes map[string]int // of targets; -1: being measured
}

// schemaParts counts what a schema consists of, with what it refers to.
func schemaParts(schema []byte) (int, error) {
	var root map[string]any
	if err := json.Unmarshal(schema, &root); err != nil {
		return 0, errors.New("is no JSON object")
	}
	e := expansion{root, map[string]int{}}
	return e.size(root, true)
}

// target is the only form of reference that is followed, so that the meaning
// of others does not matter.
var target = regexp.MustCompile(`^#/(\$defs|definitions)/([A-Za-z0-9_.-]+)$`)

func (e expansion) size(v any, top bool) (total int, err error) {
	total = 1
	add := func(n int, problem error) {
		total, err = min(total+n, maxExpanded+1), cmp.Or(err, problem)
	}
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			add(e.size(part, false))
		}
	case map[string]any:
		for name, part := range v {
			switch text, isText := part.(string); {
			case isText && (name == "$dynamicRef" || name == "$id" && !top):
				add(0, fmt.Errorf("uses %s, which is not supported", name))
			case isText && name == "$ref":
				add(e.follow(text))
			default:
				add(e.size(part, false))
			}
		}
	}
	return total, err
}

func (e expansion) follow(ref string) (int, error) {
	m := target.FindStringSubmatch(ref)
	if m == nil {
		return 0, fmt.Errorf("refers to %q; only #/$defs/… is supported", tools.PlainLine(ref))
	}
	if size, seen := e.sizes[ref]; seen {
		if size < 0 {
			return 0, fmt.Errorf("refers to itself by %q", ref)
		}
		return size, nil
	}
	definitions, _ := e.root[m[1]].(map[string]any)
	definition, there := definitions[m[2]]
	if !there {
		return 0, fmt.Errorf("refers to %q, which is not there", ref)
	}
	e.sizes[ref] = -1
	size, err := e.size(definition, false)
	e.sizes[ref] = size
	return size, err
}

// unseen names the first character of a text that a reader would not see, or
// that makes the rest look different from what it is. A description with one
// may tell the model what the user does not read. "" if there is none.
func unseen(text string) string {
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
		case r == unicode.ReplacementChar || unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) && r >= 0xe0100,
			unicode.Is(unicode.Co, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return fmt.Sprintf("%U", r)
		}
	}
	if strings.ToValidUTF8(text, "") != text {
		return "a byte that is not UTF-8"
	}
	return ""
}

// eachText visits the texts of a JSON value, and the names in it.
func eachText(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, e := range v {
			eachText(e, visit)
		}
	case map[string]any:
		for name, e := range v {
			visit(name)
			eachText(e, visit)
		}
	}
}
