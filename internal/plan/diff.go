package plan

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Diff names the members of two plans that are not equal, with both values where they are short. The commitment to gold
// is only named; tools are named with their servers. What was found in the folders of an own agent is not compared.
func Diff(old, now Plan) ([]string, error) {
	if old.Agent != nil && now.Agent != nil { // what is found in the same folders follows from the tasks
		agent := *now.Agent
		agent.Probed, now.Agent = old.Agent.Probed, &agent
	}
	if slices.Equal(old.Tasks, now.Tasks) { // which are large
		old.Tasks, now.Tasks = nil, nil
	}
	if slices.Equal(old.SplitIDs, now.SplitIDs) {
		old.SplitIDs, now.SplitIDs = nil, nil
	}
	a, errA := members(old)
	b, errB := members(now)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(joined(a, b))) {
		x, y := a[name], b[name]
		switch {
		case bytes.Equal(x, y):
		case name == "tools":
			out = append(out, toolDifferences(old.Tools, now.Tools))
		case name == "agent" && old.Agent != nil && now.Agent != nil:
			found, err := agentDifferences(*old.Agent, *now.Agent)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		case name == "agent" && now.Agent == nil:
			out = append(out, "agent was "+old.Agent.Name+", is the built-in one")
		case name == "agent":
			out = append(out, "agent was the built-in one, is "+now.Agent.Name)
		case name == "gold_commitment" || len(x) > maxShown || len(y) > maxShown:
			out = append(out, name+" differs")
		default:
			out = append(out, fmt.Sprintf("%s was %s, is %s", name, x, y))
		}
	}
	return out, nil
}

// agentDifferences says in what two own agents differ. Of folders it compares what is in them as well as where they are.
func agentDifferences(old, now AgentPlan) (out []string, err error) {
	a, errA := members(old)
	b, errB := members(now)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(joined(a, b))) {
		x, y := a[name], b[name]
		switch {
		case bytes.Equal(x, y), name == "files_sha256": // it follows from the folders
		case name == "folders":
			for i := range max(len(old.Folders), len(now.Folders)) {
				switch {
				case i >= len(old.Folders):
					out = append(out, fmt.Sprintf("agent: folder %s is new", now.Folders[i].Path))
				case i >= len(now.Folders):
					out = append(out, fmt.Sprintf("agent: folder %s is missing", old.Folders[i].Path))
				case old.Folders[i].Path != now.Folders[i].Path:
					out = append(out, fmt.Sprintf("agent: folder was %s, is %s", old.Folders[i].Path, now.Folders[i].Path))
				case old.Folders[i] != now.Folders[i]:
					out = append(out, fmt.Sprintf("agent: folder %s differs", now.Folders[i].Path))
				}
			}
		case len(x) > maxShown || len(y) > maxShown:
			out = append(out, "agent: "+name+" differs")
		case len(x) == 0:
			out = append(out, fmt.Sprintf("agent: %s is %s", name, y))
		case len(y) == 0:
			out = append(out, fmt.Sprintf("agent: %s was %s", name, x))
		default:
			out = append(out, fmt.Sprintf("agent: %s was %s, is %s", name, x, y))
		}
	}
	if len(out) == 0 { // the folders have the same files, listed otherwise
		out = []string{"agent: files_sha256 differs"}
	}
	return out, nil
}

func joined[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
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
	both := joined(a, b)
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
	if len(out) == 0 { // the difference is in members that are not compared
		return "tools differ"
	}
	return "tools differ: " + strings.Join(view.First(maxToolsShown, out), ", ")
}

// maxToolsShown bounds how many tools a difference names.
const maxToolsShown = 8

// maxShown bounds, in bytes, the values that a difference quotes.
const maxShown = 300

func members(of any) (map[string]jsontext.Value, error) {
	b, err := canonical.Encode(of)
	if err != nil {
		return nil, err
	}
	var out map[string]jsontext.Value
	return out, json.Unmarshal(b, &out)
}

// KnownSplits returns the splits that the plan lists, as they are now where that is known. A hub may list a split that is
// not run only then or only now.
func KnownSplits(then, now []SplitPlan) []SplitPlan {
	var out []SplitPlan
	for _, s := range then {
		if at := slices.IndexFunc(now, func(n SplitPlan) bool { return n.Name == s.Name }); at >= 0 {
			s = now[at]
		}
		out = append(out, s)
	}
	return out
}
