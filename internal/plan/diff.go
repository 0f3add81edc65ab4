package plan

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Diff names the members of two plans that are not equal, with both values where they are short. The commitment to gold
// is only named; tools are named with their servers.
func Diff(old, now Plan) ([]string, error) {
	a, errA := members(old)
	b, errB := members(now)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		x, y := a[name], b[name]
		switch {
		case bytes.Equal(x, y):
		case name == "tools":
			out = append(out, toolDifferences(old.Tools, now.Tools))
		case name == "gold_commitment" || len(x) > maxShown || len(y) > maxShown:
			out = append(out, name+" differs")
		default:
			out = append(out, fmt.Sprintf("%s was %s, is %s", name, x, y))
		}
	}
	return out, nil
}

// toolDifferences says in what two lists of tools differ.
func toolDifferences(old, now []ToolPlan) string {
	a, b := map[string]ToolPlan{}, map[string]ToolPlan{}
	for _, t := range old {
		a[t.Name] = t
	}
	for _, t := range now {
		b[t.Name] = t
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		before, was := a[name]
		after, is := b[name]
		if reflect.DeepEqual(before, after) {
			continue
		}
		what := name
		if server := both[name].Server; server != "" {
			what += " of " + server
		}
		switch {
		case !is:
			what += " is missing"
		case !was:
			what += " is new"
		case before.Network != after.Network:
			what += fmt.Sprintf(" has the network %q instead of %q", after.Network, before.Network)
		case !slices.Equal(before.Env, after.Env):
			what += fmt.Sprintf(" is given the variables %q instead of %q", after.Env, before.Env)
		default:
			what += " is described otherwise"
		}
		out = append(out, what)
	}
	if more := len(out) - maxToolsShown; more > 0 {
		out = append(out[:maxToolsShown], fmt.Sprintf("and %d more", more))
	}
	if len(out) == 0 { // the difference is in members that are not compared
		return "tools differ"
	}
	return "tools differ: " + strings.Join(out, ", ")
}

// maxToolsShown bounds how many tools a difference names.
const maxToolsShown = 8

// maxShown bounds, in bytes, the values that a difference quotes.
const maxShown = 300

func members(m Plan) (map[string]jsontext.Value, error) {
	b, err := m.Encode()
	if err != nil {
		return nil, err
	}
	var out map[string]jsontext.Value
	return out, json.Unmarshal(b, &out)
}
