package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a policy file may be at most.
const (
	maxPolicyFile = 64 << 10 // bytes
	maxPolicyName = 200      // bytes of a name in a list
	maxToolCalls  = 1_000_000_000
	maxTaskCost   = 1_000_000 // US dollars, exclusive
)

// budgetOff switches a budget off, in words.
const budgetOff = "off"

// FileError is what is wrong with a policy file: at a line and a column of characters, both from 1.
// Hint, which may be "", says what to do.
type FileError struct {
	Line, Column  int
	Message, Hint string
}

func (e *FileError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

func wrong(t *token.Token, hint, format string, args ...any) error {
	e := &FileError{Line: 1, Column: 1, Message: fmt.Sprintf(format, args...), Hint: hint}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// Parse reads a policy file, a YAML mapping:
//
//	mode: autonomous            # restricted, approved or autonomous
//	allow: [read_file, Bash]    # tools, also by the names that other systems give them; "*" is all
//	deny: [web_search]
//	confirm: [python]           # tools that need a person in any mode
//	max_tool_calls: 100         # per task, or off
//	max_task_cost: 0.50         # US dollars per task, or off
//	answer_sources: [answers.example/gaia] # further ones for R001
//	commands: [git]             # further ones for R004
//	packages: [requests]        # further ones for R005
//
// Only mode must be there. Mode restricted allows no more than Builtin has it allow. What is left out is the mode's own; what is added to a rule comes on top of
// it. The policy is canonical. Every error is a *FileError.
func Parse(data []byte) (Policy, error) {
	if len(data) > maxPolicyFile {
		return Policy{}, wrong(nil, "", "a policy is at most %d bytes", maxPolicyFile)
	}
	source := strings.TrimPrefix(string(data), "\ufeff")
	line, column := 1, 0
	for at, r := range source { // what no text editor shows as it is
		column++
		if _, size := utf8.DecodeRuneInString(source[at:]); r == utf8.RuneError && size == 1 {
			return Policy{}, &FileError{line, column, "this is not UTF-8", "save the file as UTF-8"}
		}
		if unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) {
			return Policy{}, &FileError{line, column, "this is a control character", ""}
		}
		if r == '\n' {
			line, column = line+1, 0
		}
	}
	body, err := mapping(source)
	if err != nil {
		return Policy{}, err
	}
	names := []string{"mode", "allow", "deny", "confirm", "max_tool_calls", "max_task_cost", "answer_sources", "commands", "packages"}
	members := map[string]*ast.MappingValueNode{}
	for _, pair := range body {
		key, ok := pair.Key.(*ast.StringNode)
		if !ok || !slices.Contains(names, key.Value) {
			at := pair.Key.GetToken()
			return Policy{}, wrong(at, "the members are "+strings.Join(names, ", "), "%q is no member of a policy", clip(at.Value))
		}
		if first := members[key.Value]; first != nil {
			return Policy{}, wrong(key.GetToken(), "leave one of them", "%s stands here again, after line %d", key.Value, first.Key.GetToken().Position.Line)
		}
		members[key.Value] = pair
	}
	if members["mode"] == nil {
		return Policy{}, wrong(nil, "begin with mode: restricted, approved or autonomous", "mode is missing")
	}
	return assemble(members)
}

// mapping returns the members of the one document of a file. What is more than lists in a mapping is
// refused before it is parsed: nesting and aliases can cost much.
func mapping(source string) ([]*ast.MappingValueNode, error) {
	tokens := lexer.Tokenize(source)
	depth, before := 0, token.UnknownType
	for _, t := range tokens {
		nested := false
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType,
			token.LiteralType, token.FoldedType, token.MappingStartType:
			return nil, wrong(t, "write lists and values only", "%q is more than a policy needs", clip(t.Value))
		case token.SequenceStartType:
			depth++
			nested = depth > 1
		case token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			nested = before == token.SequenceEntryType
		}
		if nested {
			return nil, wrong(t, "", "there is a list in a list")
		}
		before = t.Type
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			return nil, wrong(at.GetToken(), "", "%s", clip(at.GetMessage()))
		}
		return nil, wrong(nil, "", "%s", clip(err.Error()))
	}
	if len(tree.Docs) > 1 {
		return nil, wrong(tree.Docs[1].Start, "leave one of them", "there is a second document")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, nil
	}
	switch body := tree.Docs[0].Body.(type) {
	case *ast.MappingNode:
		return body.Values, nil
	case *ast.CommentGroupNode:
		return nil, nil
	default:
		return nil, wrong(body.GetToken(), "begin with mode: restricted, approved or autonomous", "this is no member of a policy")
	}
}

// assemble makes the policy of the members.
func assemble(members map[string]*ast.MappingValueNode) (Policy, error) {
	mode, err := scalar("mode", members["mode"].Value)
	if err != nil {
		return Policy{}, err
	}
	p, err := Builtin(Mode(mode))
	if err != nil {
		return Policy{}, wrong(members["mode"].Value.GetToken(), "it is one of restricted, approved, autonomous", "unknown governance mode %q", clip(mode))
	}
	for _, list := range []struct {
		name  string
		into  *[]string
		tools bool
	}{{"allow", &p.Allow, true}, {"deny", &p.Deny, true}, {"confirm", &p.Confirm, true},
		{"answer_sources", &p.AnswerSources, false}, {"commands", &p.Commands, false}, {"packages", &p.Packages, false}} {
		if m := members[list.name]; m != nil {
			if *list.into, err = names(list.name, m.Value, list.tools); err != nil {
				return Policy{}, err
			}
		}
	}
	if m := members["allow"]; m != nil && p.Mode == Restricted {
		for i, name := range p.Allow {
			if !slices.Contains(readers(), name) {
				at := m.Value.(*ast.SequenceNode).Values[i].GetToken()
				return Policy{}, wrong(at, "it can have only some of "+strings.Join(readers(), ", "), "mode restricted cannot allow %q", clip(name))
			}
		}
	}
	if m := members["max_tool_calls"]; m != nil {
		text, err := scalar("max_tool_calls", m.Value)
		if err != nil {
			return Policy{}, err
		}
		if p.MaxToolCalls = Unlimited; text != budgetOff {
			if p.MaxToolCalls, err = strconv.Atoi(text); err != nil || p.MaxToolCalls < 1 || p.MaxToolCalls > maxToolCalls {
				return Policy{}, wrong(m.Value.GetToken(), "give a number from 1 to 1000000000, or off", "max_tool_calls is %q", clip(text))
			}
		}
	}
	if m := members["max_task_cost"]; m != nil {
		text, err := scalar("max_task_cost", m.Value)
		if err != nil {
			return Policy{}, err
		}
		if p.MaxCostMicroUSD = Unlimited; text != budgetOff {
			amount, err := strconv.ParseFloat(text, 64)
			if err != nil || !(amount >= 1e-6 && amount < maxTaskCost) {
				return Policy{}, wrong(m.Value.GetToken(), "give US dollars, such as 0.50, or off", "max_task_cost is %q", clip(text))
			}
			p.MaxCostMicroUSD = int64(math.Round(amount * 1e6))
		}
	}
	return p.Canonical(), nil
}

// scalar returns the one value of a member, as it is written.
func scalar(name string, node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		if n.Value != "" {
			return n.Value, nil
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, nil
	case *ast.NullNode:
	default:
		return "", wrong(node.GetToken(), "", "%s is one value, not a list", name)
	}
	return "", wrong(node.GetToken(), "give it a value, or leave it out", "%s has no value", name)
}

// names returns the names of a list, tools by this program's names for them.
func names(name string, node ast.Node, tools bool) ([]string, error) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return nil, wrong(node.GetToken(), "write a list, such as ["+map[bool]string{true: "read_file", false: "a"}[tools]+"]", "%s is not a list", name)
	}
	// What is added to a rule has to be what the rule can look for.
	meaningless := map[string]func(string) bool{
		"answer_sources": func(source string) bool {
			parts, _ := cut(source)
			return len(parts) == 0 || strings.Contains(source, "://")
		},
		"commands": func(command string) bool { return strings.Contains(command, "/") },
		"packages": func(name string) bool { return distribution(name) == "" },
	}
	all := []string{}
	for _, v := range list.Values {
		text, ok := v.(*ast.StringNode)
		switch {
		case !ok:
			return nil, wrong(v.GetToken(), "put it in quotes if it is meant", "a name of %s is not text", name)
		case text.Value == "":
			return nil, wrong(v.GetToken(), "leave it out", "a name of %s is empty", name)
		case len(text.Value) > maxPolicyName:
			return nil, wrong(v.GetToken(), "", "a name of %s is longer than %d bytes", name, maxPolicyName)
		case strings.ContainsFunc(text.Value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
			return nil, wrong(v.GetToken(), "", "%q of %s holds a space or what cannot be seen", clip(text.Value), name)
		case !tools && meaningless[name](text.Value):
			return nil, wrong(v.GetToken(), "", "%q of %s can match nothing", clip(text.Value), name)
		}
		if tools {
			all = append(all, ToolName(text.Value))
		} else {
			all = append(all, text.Value)
		}
	}
	return all, nil
}

// clip cuts what is quoted from a file.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "…"
}
