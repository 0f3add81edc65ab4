// Package settings reads gaia.yaml: a flat YAML mapping from names of flags to their
// values, and three that are no flags, the MCP servers below mcp, the evaluators below
// evaluators, and what an own agent is below agent.
//
//	model: gpt-4o
//	level: [1, 2]
//	max-task-cost: 0.25
//	mcp:
//	  - name: notes
//	    command: [notes-server, --read-only]
//
// [Parse] refuses what is more than that before it is parsed, since nesting and aliases
// can cost much: anchors, tags, block texts, mappings in braces, lists in lists, a second
// document, a repeated or unknown key, and more than 64 KiB (FuzzParse). Secrets do not
// belong into the file: a value that looks like a key is refused, and no line of the file
// is ever shown. Each mistake is an [*Error] that names file, line, column and key.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/pflag"
)

// maxSize bounds, in bytes, a settings file.
const maxSize = 64 << 10

// shownWidth bounds, in characters, a text of the file in a message.
const shownWidth = 60

// Error is a mistake in a settings file.
type Error struct {
	File         string
	Line, Column int // 0: of the whole file
	Reason, Hint string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the settings %q %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// Exit makes the mistake an error of usage.
func (e *Error) Exit() *exit.Error {
	if e.Hint == "" {
		return &exit.Error{Code: exit.Usage, Err: e}
	}
	return &exit.Error{Code: exit.Usage, Err: e, Hints: []string{e.Hint}}
}

// File is a settings file that was read. A nil one is none.
type File struct {
	Name       string
	Servers    []Server
	Evaluators []Evaluator
	Agent      *Agent // nil: the file has none
	values     []value
	set        map[string]ast.Node // the flags that were set from it
}

// value is one setting; a list has several nodes.
type value struct {
	key   *ast.StringNode
	nodes []ast.Node
	list  bool
}

// Open reads the named file, else gaia.yaml; nil if that does not exist. Of the null device it is an empty file.
func Open(named string) (*File, error) {
	if named == os.DevNull { // the usual way to have none, also where there is a gaia.yaml
		return Parse(named, nil)
	}
	name := cmp.Or(named, "gaia.yaml")
	data, err := regular.Read(name, maxSize)
	switch {
	case err == nil:
		return Parse(name, data)
	case named != "":
		return nil, exit.Usagef("name another file with --settings", "reading the settings %q: %v", name, err)
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	}
	return nil, exit.Usagef("move it away, or name another with --settings", "reading the settings %q: %v", name, err)
}

// Parse reads the bytes of a settings file.
func Parse(name string, data []byte) (*File, error) {
	f := &File{Name: name, set: map[string]ast.Node{}}
	body, err := f.parse(data)
	switch {
	case err != nil:
		return nil, err
	case body == nil:
		return f, nil
	}
	pairs := pairsOf(body)
	if pairs == nil {
		return nil, f.wrong(body.GetToken(), "write a setting a line, such as model: gpt-4o", "this is no setting")
	}
	for _, pair := range pairs {
		if err := f.take(pair); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Document is a file of another kind in the form of a settings file, such as board.yaml.
type Document struct {
	file File
	body ast.Node
}

// Decode reads the bytes of such a file into a struct, strictly. An empty file sets nothing. hint says what the file
// can hold.
func Decode(name string, data []byte, into any, hint string) (Document, error) {
	d := Document{file: File{Name: name}}
	var err error
	if d.body, err = d.file.parse(data); err != nil || d.body == nil {
		return d, err
	}
	return d, d.file.decode(d.body, into, hint)
}

// Wrong returns the error of a mistake at a place: keys of mappings, and indices of lists.
func (d Document) Wrong(hint, reason string, path ...any) error {
	node, at := d.body, d.body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			for _, pair := range pairsOf(node) {
				if pair.Key.String() == step {
					node, at = pair.Value, pair.Key
				}
			}
		case int:
			if list, ok := node.(*ast.SequenceNode); ok && step < len(list.Values) {
				node, at = list.Values[step], list.Values[step]
			}
		}
	}
	if at == nil {
		return d.file.wrong(nil, hint, "%s", reason)
	}
	if pairs := pairsOf(at); len(pairs) > 0 {
		at = pairs[0].Key
	}
	return d.file.wrong(at.GetToken(), hint, "%s", reason)
}

// parse returns the one document of the file; nil if it is empty.
func (f *File) parse(data []byte) (body ast.Node, err error) {
	if len(data) > maxSize {
		return nil, &Error{File: f.Name, Reason: fmt.Sprintf("are larger than %d bytes", maxSize)}
	}
	source := strings.TrimPrefix(string(data), "\ufeff")
	for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source), "\n") {
		if !utf8.ValidString(line) {
			return nil, &Error{f.Name, i + 1, 1, "the line is not UTF-8", "save the file as UTF-8"}
		}
		if at := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || 0x7f <= r && r < 0xa0 }); at >= 0 {
			return nil, &Error{f.Name, i + 1, at + 1, "this is a control character", ""}
		}
	}
	tokens := lexer.Tokenize(source)
	if err := f.checkTokens(tokens); err != nil {
		return nil, err
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		var wrong yaml.Error
		if !errors.As(err, &wrong) {
			return nil, &Error{File: f.Name, Reason: text.Trim(err.Error(), 2*shownWidth)}
		}
		return nil, f.wrong(wrong.GetToken(), "", "%s", text.Trim(wrong.GetMessage(), 2*shownWidth))
	}
	for _, d := range tree.Docs {
		if body != nil {
			return nil, f.wrong(d.Start, "leave one of them", "there is a second document")
		}
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			body = d.Body
		}
	}
	return body, nil
}

// checkTokens refuses what goes beyond a flat mapping, and secrets.
func (f *File) checkTokens(tokens token.Tokens) error {
	if at := slices.IndexFunc(tokens, func(t *token.Token) bool {
		return t.Value == "mcpServers" && t.Next != nil && t.Next.Type == token.MappingValueType
	}); at >= 0 {
		return f.wrong(tokens[at], "write them as a list below mcp, and put the values of env into the environment: see docs/running.md", "mcpServers is the form of other programs")
	}
	depth, key := 0, ""
	for _, t := range tokens {
		nested := false
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType,
			token.LiteralType, token.FoldedType, token.MappingStartType:
			return f.wrong(t, "write a setting a line, such as model: gpt-4o, and lists as [a, b] or a line each", "%q is more than settings need", t.Value)
		case token.SequenceStartType:
			depth++
			nested = depth > 1
		case token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			nested = t.Prev != nil && t.Prev.Type == token.SequenceEntryType
		case token.MappingValueType:
			if t.Prev != nil {
				key = text.Trim(t.Prev.Value, shownWidth)
			}
		case token.StringType, token.SingleQuoteType, token.DoubleQuoteType:
			if isSecret(t.Value) {
				return f.wrong(t, "set OPENAI_API_KEY or HF_TOKEN in the environment; servers take names of variables", "%s holds what looks like a key: secrets do not belong into the file", key)
			}
		}
		if nested {
			return f.wrong(t, "", "there is a list in a list")
		}
	}
	return nil
}

// isSecret reports whether a text is or holds what looks like a key. Keys are known by
// how they begin, however short, and by the name that a URL gives them.
func isSecret(s string) bool {
	s = regexp.MustCompile(`//[^/@\s]*@`).ReplaceAllString(s, "//…@") // credentials of a URL are refused with the flag
	_, hidden := trajectory.Redactor{}.Redact(s)
	return hidden > 0 || regexp.MustCompile(`^(?:sk-|hf_)[A-Za-z0-9_-]{8,}$|(?i)[?&][^=&\s]*(?:key|token|secret|password)[^=&\s]*=`).MatchString(s)
}

// take takes one setting.
func (f *File) take(pair *ast.MappingValueNode) error {
	key, ok := pair.Key.(*ast.StringNode)
	if !ok || key.Value == "" {
		return f.wrong(pair.Key.GetToken(), "a setting is called as the flag of 'gaia run' is", "this is no name of a setting")
	}
	switch key.Value {
	case serversKey:
		return f.takeServers(pair.Value)
	case evaluatorsKey:
		return f.takeEvaluators(pair.Value)
	case agentKey:
		return f.takeAgent(pair.Value)
	}
	v := value{key: key, nodes: []ast.Node{pair.Value}}
	if list, ok := pair.Value.(*ast.SequenceNode); ok {
		v.list, v.nodes = true, list.Values
	}
	if len(v.nodes) == 0 {
		return f.wrong(key.GetToken(), "give it a value, or leave it out", "%s names nothing", text.Trim(key.Value, shownWidth))
	}
	for _, n := range v.nodes {
		switch n.Type() {
		case ast.StringType, ast.IntegerType, ast.FloatType, ast.BoolType:
		case ast.NullType:
			return f.wrong(key.GetToken(), "give it a value, or leave it out", "%s has no value", text.Trim(key.Value, shownWidth))
		default:
			return f.wrong(n.GetToken(), "settings are not nested", "%s is neither a value nor a list of values", text.Trim(key.Value, shownWidth))
		}
		if textOf(n) == "" {
			return f.wrong(n.GetToken(), "give it a value, or leave it out", "%s is empty", text.Trim(key.Value, shownWidth))
		}
	}
	f.values = append(f.values, v)
	return nil
}

func textOf(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return n.GetToken().Value
}

// pairsOf returns the members of a mapping, nil of anything else.
func pairsOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// wrong returns the error of a mistake at a token.
func (f *File) wrong(t *token.Token, hint, format string, args ...any) *Error {
	e := &Error{f.Name, 1, 1, fmt.Sprintf(format, args...), hint}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// environment has the variables of the environment that have the value of a flag which is not given.
var environment = map[string][]string{"base-url": {"OPENAI_BASE_URL"}, "searxng-url": {"SEARXNG_URL"},
	"key": {keyring.FromContent, keyring.FromFile}, "shard": {"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"}}

// Environment returns the variables of the environment that have the value of a flag which is not given.
func Environment(flag string) []string { return environment[flag] }

// NotFlags are the flags of run that are for the command line alone: they say where
// settings come from, are of one call, or give code this machine.
func NotFlags() []string {
	return []string{"help", "settings", "like", "only-errors", "dry-run", "unsafe-local-python", "agent", "agent-timeout", "unsafe-local-agent", "plan", "shard", "shard-key", "shards"}
}

// OldName annotates a flag that is the old name of another, with that one's name.
const OldName = "gaia_old_name_of"

// Apply sets the flags that the file names, except those for which keep reports that
// something stronger has decided. A mistake is an error all the same.
func (f *File) Apply(flags *pflag.FlagSet, keep func(name string) bool) error {
	if f == nil {
		return nil
	}
	for _, v := range f.values {
		key := v.key.Value
		flag := flags.Lookup(key)
		if flag == nil || slices.Contains(NotFlags(), key) {
			return f.unknown(v, flags)
		}
		if names := flag.Annotations[OldName]; names != nil {
			if slices.ContainsFunc(f.values, func(v value) bool { return v.key.Value == names[0] }) {
				return f.wrong(v.key.GetToken(), "leave "+key+" out", "%s is the old name of %s, and both are here", key, names[0])
			}
			key, flag = names[0], flags.Lookup(names[0])
		}
		kept := keep(key)
		if err := f.checkKinds(v, flag.Value.Type()); err != nil {
			return err
		}
		if kept {
			continue
		}
		f.set[key] = v.nodes[0]
		var texts []string
		for _, n := range v.nodes {
			texts = append(texts, textOf(n))
		}
		var err error
		if list, isList := flag.Value.(pflag.SliceValue); isList {
			err = list.Replace(texts)
			flag.Changed = true
		} else {
			err = flags.Set(key, texts[0])
		}
		if err != nil {
			reason := err.Error()
			if i := strings.LastIndex(reason, ": "); i >= 0 {
				reason = reason[i+2:]
			}
			return f.wrong(v.nodes[0].GetToken(), "", "%s is %q, which is not %s: %s", key,
				text.Trim(strings.Join(texts, ","), shownWidth), Described(flag.Value.Type()), text.Trim(reason, shownWidth))
		}
	}
	return nil
}

// checkKinds refuses values of another kind than the flag's: a quoted number is a text.
func (f *File) checkKinds(v value, kind string) error {
	single, isList := strings.CutSuffix(strings.Replace(kind, "Array", "Slice", 1), "Slice")
	if v.list && !isList {
		return f.wrong(v.key.GetToken(), "", "%s is a list, and is to be %s", v.key.Value, Described(kind))
	}
	for _, n := range v.nodes {
		fits, is := false, n.Type()
		switch single {
		case "int", "int64":
			fits = is == ast.IntegerType && regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`).MatchString(textOf(n))
		case "bool":
			fits = is == ast.BoolType
		case Dollars, AutoOrNumber:
			fits = is == ast.StringType || is == ast.IntegerType || is == ast.FloatType
		default:
			fits = is == ast.StringType
		}
		if !fits {
			hint := ""
			if is != ast.StringType && single == "string" {
				hint = "put it in quotes if it is meant"
			}
			return f.wrong(n.GetToken(), hint, "%s is %q, which is not %s", v.key.Value, text.Trim(textOf(n), shownWidth), Described(kind))
		}
	}
	return nil
}

// Kinds of text flags that are written as a number, or may be.
const (
	Dollars      = "dollars"
	AutoOrNumber = "auto|number"
)

// described has the types of flags that are not written as text.
var described = map[string]string{
	"int": "a whole number", "int64": "a whole number", "intSlice": "a list of whole numbers", "stringSlice": "a list of texts",
	"stringArray": "a list of texts", "bool": "true or false", "duration": "a time such as 15m", Dollars: "US dollars",
	"fraction": "a fraction from 0 to 1", AutoOrNumber: "auto or a number",
}

// Described returns how a type of a flag is written.
func Described(kind string) string { return cmp.Or(described[kind], "text") }

// unknown refuses a key that is no setting. Its value is not shown: it may be a secret.
func (f *File) unknown(v value, flags *pflag.FlagSet) error {
	key := v.key.Value
	if slices.Contains(NotFlags(), key) {
		return f.wrong(v.key.GetToken(), "", "%q is for the command line alone", key)
	}
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	secret := slices.ContainsFunc([]string{"apikey", "token", "secret", "password", "credential", "signingkey"}, func(word string) bool { return strings.HasSuffix(plain, word) })
	if secret && flags.Lookup(key+"s") == nil {
		return f.wrong(v.key.GetToken(), "set OPENAI_API_KEY, HF_TOKEN or the key of the search engine in the environment", "%q is no setting: secrets do not belong into the file", text.Trim(key, shownWidth))
	}
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	hint := "a setting is called as the flag of 'gaia run' is; see its --help"
	if near := Nearest(key, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return f.wrong(v.key.GetToken(), hint, "there is no setting %q", text.Trim(key, shownWidth))
}

// Value returns the value of a flag that takes one text; "" if the file has none.
func (f *File) Value(key string) string {
	if f != nil {
		for _, v := range f.values {
			if v.key.Value == key && !v.list {
				return textOf(v.nodes[0])
			}
		}
	}
	return ""
}

// Point adds the place in the file to an error of usage that names a flag set from there.
func (f *File) Point(err error) error {
	var found *exit.Error
	if f == nil || !errors.As(err, &found) || found.Code != exit.Usage {
		return err
	}
	message := found.Err.Error()
	for _, m := range regexp.MustCompile(`(?:--|\bunknown )([a-z][a-z-]*)`).FindAllStringSubmatch(message, -1) {
		if node := f.set[m[1]]; node != nil {
			at := f.wrong(node.GetToken(), "", "%s", strings.ReplaceAll(message, "--"+m[1], m[1]))
			return &exit.Error{Code: exit.Usage, Err: at, Hints: found.Hints}
		}
	}
	return err
}

// Nearest returns the name that fewest changes make of key, "" if none is near.
func Nearest(key string, names []string) string {
	key = strings.ToLower(strings.ReplaceAll(key, "_", "-"))
	best, found := 2+len(key)/4, ""
	for _, name := range names {
		if d := distance(key, name); d < best {
			best, found = d, name
		}
	}
	return found
}

// distance is how many characters must be inserted, left out, replaced or swapped with the next to make one name of another.
func distance(a, b string) int {
	var above, above2 []int // the rows before: of a without its last character, and without two
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above2, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			if row[j+1] = above[j]; a[i] != b[j] {
				row[j+1] = 1 + min(above[j], above[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above2[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
