package audit_test

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// alteration is one way to change one member. Elements of an array have one path,
// and the first of them that can be changed in that way is.
type alteration struct{ field, what string }

// The ways to change a member, but for other words that it may have (words).
const (
	changed = "changed" // another text, one more, or the contrary
	nothing = "made nothing"
	leftOut = "left out"
	swapped = "swapped" // two neighbours in a list
	added   = "added"   // a member that may be left out and was, or something in place of null
)

// alterations returns what can be done to an event by itself: to all of its payload,
// and to where it belongs. Numbers, hashes and times of lines follow from their
// places. Payload is the type of what it carries.
func alterations(l runs.Line, payload reflect.Type) map[alteration]func() {
	kind, _ := l["type"].(string)
	all := altering{}
	all.walk(l["payload"], payload, kind)
	for _, name := range []string{"attempt", "mono_us", "task_id", "turn"} {
		if value, there := l[name]; there {
			all.leaf(value, "event."+name, func(v any) { l[name] = v })
		}
	}
	return all
}

// altering are alterations with what makes them in place.
type altering map[alteration]func()

func (all altering) add(field, what string, make func()) {
	if key := (alteration{field, what}); all[key] == nil {
		all[key] = make
	}
}

// words are what a member may say besides, where a text that no one knows is not
// all that can be said.
func words() map[string][]string {
	return map[string][]string{
		"approval_resolved.by":       {trajectory.ByPerson, trajectory.ByAlways, trajectory.Beforehand, trajectory.ByNoTerminal},
		"attempt_ended.outcome":      {trajectory.Answered, trajectory.NoAnswer, trajectory.Errored},
		"attempt_ended.reason":       {trajectory.Interrupted, trajectory.RunStopped, trajectory.Infrastructure},
		"context_condensed.reason":   {trajectory.RefusedForLength, trajectory.WindowFull},
		"policy_decision.decision":   {"allow", "deny", "confirm"},
		"security_event.kind":        {trajectory.JudgeCacheSweep, trajectory.JudgeCacheRead},
		"task_sealed.outcome":        {trajectory.Solved, trajectory.Failed, trajectory.Skipped, trajectory.Unscored},
		"manifest.evidence":          {"heads", "bodies", "hashes"},
		"manifest.policy_mode":       {"autonomous", "interactive"},
		"manifest.voting.rule":       {"first", "majority"},
		"manifest.dataset.selection": {"all"},
	}
}

// leaf adds what can be done to a value without members.
func (all altering) leaf(v any, field string, set func(any)) {
	switch v := v.(type) {
	case string:
		other := v + "x"
		if at := regexp.MustCompile(`\d`).FindAllStringIndex(v, -1); at != nil {
			b := []byte(v)
			b[at[len(at)-1][0]] ^= 1
			other = string(b)
		}
		all.add(field, changed, func() { set(other) })
		if v != "" {
			all.add(field, nothing, func() { set("") })
		}
		for _, word := range words()[field] {
			if word != v {
				all.add(field, "made "+word, func() { set(word) })
			}
		}
	case float64:
		all.add(field, changed, func() { set(v + 1) })
		if v != 0 {
			all.add(field, nothing, func() { set(0) })
		}
	case bool:
		all.add(field, changed, func() { set(!v) })
	}
}

// walk adds what can be done to the members of a value of a type.
func (all altering) walk(v any, is reflect.Type, path string) {
	for is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		all.object(v, is, path)
	case []any:
		all.list(v, is.Elem(), path)
	}
}

func (all altering) object(v map[string]any, is reflect.Type, path string) {
	types := members(is)
	for name, member := range v {
		field, t := path+"."+name, types[name]
		if is.Kind() == reflect.Map {
			t = is.Elem()
		}
		all.add(field, leftOut, func() { delete(v, name) })
		switch member := member.(type) {
		case nil:
			all.add(field, added, func() { v[name] = plausible(t, name) })
		case map[string]any:
			all.walk(member, t, field)
		case []any:
			all.walk(member, t, field)
			all.add(field+"[]", leftOut, dropped(member, func(rest []any) { v[name] = rest }))
		default:
			all.leaf(member, field, func(other any) { v[name] = other })
		}
	}
	for name, t := range types {
		if _, there := v[name]; !there {
			all.add(path+"."+name, added, func() { v[name] = plausible(t, name) })
		}
	}
}

// dropped returns what leaves the first element of a list out; nil of an empty one.
func dropped(list []any, set func([]any)) func() {
	if len(list) == 0 {
		return nil
	}
	return func() { set(list[1:]) }
}

func (all altering) list(v []any, is reflect.Type, path string) {
	for i, element := range v {
		if i > 0 && !reflect.DeepEqual(v[i-1], element) {
			all.add(path+"[]", swapped, func() { v[i-1], v[i] = v[i], v[i-1] })
		}
		switch element.(type) {
		case map[string]any, []any:
			all.walk(element, is, path+"[]")
		default:
			all.leaf(element, path+"[]", func(other any) { v[i] = other })
		}
	}
}

// members returns the types of a struct's members, by their names in JSON.
func members(is reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	if is.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(is) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				all[name] = f.Type
			}
		}
	}
	return all
}

// plausible is something that a member of a type may well say.
func plausible(is reflect.Type, name string) any {
	switch is.Kind() {
	case reflect.Pointer:
		return plausible(is.Elem(), name)
	case reflect.Struct:
		v := map[string]any{}
		for name, t := range members(is) {
			v[name] = plausible(t, name)
		}
		return v
	case reflect.Slice:
		return []any{plausible(is.Elem(), name)}
	case reflect.Map:
		return map[string]any{"name": plausible(is.Elem(), name)}
	case reflect.Bool:
		return true
	case reflect.String:
		if strings.HasSuffix(name, "sha256") {
			return canonical.Digest([]byte(name))
		}
		return "something"
	}
	return 1
}
