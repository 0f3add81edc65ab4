package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/jedib0t/go-pretty/v6/text"
)

// settingsName is the file of settings that is looked for where gaia runs.
const settingsName = "gaia.yaml"

// maxSettings bounds, in bytes, a file of settings.
const maxSettings = 64 << 10

// A settingsFile is a flat YAML mapping from names of flags to their values, but
// for the MCP servers, which are a list of mappings, and the evaluators, which are
// mappings by name. A nil one is none.
type settingsFile struct {
	name    string
	lines   []string
	entries []entry
	set     map[string]place // the flags that were set from it
	servers []mcpEntry

	evaluators []evaluatorEntry
}

// An entry is one setting. Lists keep each value's own place.
type entry struct {
	key    string
	at     place
	values []value
	list   bool
}

type value struct {
	text string
	kind ast.NodeType // StringType, IntegerType, FloatType, BoolType
	at   place
}

// A place is a line and a column of characters, both from 1.
type place struct{ line, column int }

// openSettings reads the file that --settings names, else gaia.yaml if it is
// there.
func openSettings(named string) (*settingsFile, error) {
	if named == os.DevNull { // the usual way to have none, also where there is a gaia.yaml
		return parseSettings(named, nil)
	}
	name := cmp.Or(named, settingsName)
	data, err := readAtMost(name, maxSettings)
	switch {
	case err == nil:
	case named != "":
		return nil, usage("name another file with --settings", "reading the settings %q: %v", name, unwrapPath(err))
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	default:
		return nil, usage("move it away, or name another with --settings", "reading the settings %q: %v", name, unwrapPath(err))
	}
	return parseSettings(name, data)
}

// parseSettings reads the bytes of a settings file. What is more than a flat
// mapping to values and lists of values is refused before it is parsed: nesting
// and aliases can cost much.
func parseSettings(name string, data []byte) (*settingsFile, error) {
	if len(data) > maxSettings {
		return nil, usage("", "the settings %q are larger than %d bytes", name, maxSettings)
	}
	source := strings.TrimPrefix(string(data), "\ufeff")
	f := &settingsFile{name: name, set: map[string]place{},
		lines: strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source), "\n")}
	if err := f.readable(); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(source)
	if err := f.foreign(tokens); err != nil {
		return nil, err
	}
	if err := f.flat(tokens); err != nil {
		return nil, err
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var wrong yaml.Error
		if !errors.As(err, &wrong) || wrong.GetToken() == nil {
			return nil, usage("", "the settings %q: %s", name, text.Trim(err.Error(), 2*shownWidth))
		}
		at := placeOf(wrong.GetToken())
		err := f.wrong(at, "", "%s", text.Trim(wrong.GetMessage(), 2*shownWidth))
		if at.line <= len(f.lines) && !strings.Contains(f.lines[at.line-1], ":") {
			err = masked(err, "")
		}
		return nil, err
	}
	if len(tree.Docs) > 1 {
		return nil, f.wrong(placeOf(tree.Docs[1].Start), "leave one of them", "there is a second document")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return f, nil
	}
	body, ok := tree.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		if _, comment := tree.Docs[0].Body.(*ast.CommentGroupNode); comment {
			return f, nil
		}
		return nil, masked(f.wrong(placeOf(tree.Docs[0].Body.GetToken()), "write a setting a line, such as model: gpt-4o", "this is no setting"), "")
	}
	return f, f.gather(body)
}

// readable refuses what no text editor shows as it is.
func (f *settingsFile) readable() error {
	for i, line := range f.lines {
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			return f.wrong(place{i + 1, strings.Index(indent, "\t") + 1}, "indent with spaces", "the line begins with a tab")
		}
		column := 0
		for at, r := range line {
			column++
			if _, size := utf8.DecodeRuneInString(line[at:]); r == utf8.RuneError && size == 1 {
				return f.wrong(place{i + 1, column}, "save the file as UTF-8", "this is not UTF-8")
			}
			if unicode.IsControl(r) && r != '\t' {
				return f.wrong(place{i + 1, column}, "", "this is a control character")
			}
		}
	}
	return nil
}

// foreign refuses the MCP servers of other programs, which have another form and secrets in it.
func (f *settingsFile) foreign(tokens token.Tokens) error {
	for _, t := range tokens {
		if t.Value == "mcpServers" && t.Next != nil && t.Next.Type == token.MappingValueType {
			err := f.wrong(placeOf(t), "", "%q is the form of other programs: here servers are a list, %s", t.Value, mcpKey).(*failure)
			err.Hints = []string{"write it so in gaia.yaml, and put the values of env into the environment:", "mcp:", "  - name: notes", "    command: [PROGRAM, ARGUMENT]", "    env: [NAME]"}
			return masked(err, t.Value+": ")
		}
		if t.Type == token.MappingStartType && t.Prev != nil && t.Prev.Prev != nil && t.Prev.Prev.Value == "env" {
			return f.pairedEnv(placeOf(t))
		}
	}
	return nil
}

// flat refuses what goes beyond a flat mapping.
func (f *settingsFile) flat(tokens token.Tokens) error {
	depth, before := 0, token.UnknownType
	for _, t := range tokens {
		nested := false
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType,
			token.LiteralType, token.FoldedType, token.MappingStartType:
			return f.wrong(placeOf(t), "write a setting a line, such as model: gpt-4o", "%q is more than settings need", t.Value)
		case token.SequenceStartType:
			depth++
			nested = depth > 1
		case token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			nested = before == token.SequenceEntryType
		}
		if nested {
			return f.wrong(placeOf(t), "", "there is a list in a list")
		}
		before = t.Type
	}
	return nil
}

// gather takes the settings of a mapping.
func (f *settingsFile) gather(body *ast.MappingNode) error {
	for _, pair := range body.Values {
		key, ok := pair.Key.(*ast.StringNode)
		if !ok || key.Value == "" {
			return masked(f.wrong(placeOf(pair.Key.GetToken()), "a setting is called as the flag of 'gaia run' is", "this is no name of a setting"), "")
		}
		e := entry{key: key.Value, at: placeOf(key.GetToken())}
		if i := slices.IndexFunc(f.entries, func(o entry) bool { return o.key == e.key }); i >= 0 {
			return f.wrong(e.at, "leave one of them", "%s stands here again, after line %d", e.key, f.entries[i].at.line)
		}
		if e.key == mcpKey {
			if err := f.gatherServers(pair.Value); err != nil {
				return err
			}
			f.entries = append(f.entries, e)
			continue
		}
		if e.key == evaluatorsKey {
			if err := f.gatherEvaluators(pair.Value); err != nil {
				return err
			}
			f.entries = append(f.entries, e)
			continue
		}
		nodes := []ast.Node{pair.Value}
		if list, ok := pair.Value.(*ast.SequenceNode); ok {
			e.list, nodes = true, list.Values
		}
		for _, node := range nodes {
			v := value{kind: node.Type(), at: placeOf(node.GetToken())}
			switch n := node.(type) {
			case *ast.StringNode:
				v.text = n.Value
			case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
				v.text = node.GetToken().Value
			case *ast.NullNode:
				return f.wrong(e.at, "give it a value, or leave it out", "%s has no value", e.key)
			default:
				return f.wrong(v.at, "settings are not nested", "%s is neither a value nor a list of values", e.key)
			}
			if v.text == "" {
				return f.wrong(v.at, "give it a value, or leave it out", "%s is empty", e.key)
			}
			e.values = append(e.values, v)
		}
		f.entries = append(f.entries, e)
	}
	return nil
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

// wrong is a mistake at a place of the file, with the line and a caret under it.
func (f *settingsFile) wrong(at place, hint, format string, args ...any) error {
	err := usage(hint, "%s:%d:%d: %s", f.name, at.line, at.column, fmt.Sprintf(format, args...)).(*failure)
	err.Excerpt = f.excerpt(at)
	if at.line >= 1 && at.line <= len(f.lines) && holdsSecret(f.lines[at.line-1]) {
		return masked(err, "")
	}
	return err
}

// shownWidth bounds, in characters, how much of a line is shown before and
// after a mistake.
const shownWidth = 60

// credentials of a URL are not shown.
const credentials = `//[^/@\s]*@`

// excerpt shows a line with a caret under the column.
func (f *settingsFile) excerpt(at place) []string {
	if at.line < 1 || at.line > len(f.lines) {
		return nil
	}
	line := []rune(strings.ReplaceAll(strings.ToValidUTF8(f.lines[at.line-1], "\ufffd"), "\t", " "))
	column := min(max(at.column, 1), len(line)+1) - 1
	start, end := max(0, column-shownWidth), min(len(line), column+shownWidth)
	before, after := oneLine(string(line[start:column])), oneLine(string(line[column:end]))
	after = regexp.MustCompile(credentials).ReplaceAllString(after, "//…@")
	number := fmt.Sprintf("%5d", at.line)
	return []string{number + " | " + before + after, strings.Repeat(" ", len(number)) + " | " + strings.Repeat(" ", text.StringWidthWithoutEscSequences(before)) + "^"}
}
