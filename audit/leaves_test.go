package audit_test

import (
	"regexp"

	"github.com/gaia-harness/gaia/fixtures/runs"
)

// changes are made to a value; what they return is none if it cannot be made.
func changes() map[string]func(any) any {
	digit := regexp.MustCompile(`\d`)
	return map[string]func(any) any{
		"changed": func(v any) any {
			switch v := v.(type) {
			case string:
				if at := digit.FindAllStringIndex(v, -1); at != nil {
					b := []byte(v)
					b[at[len(at)-1][0]] ^= 1
					return string(b)
				}
				return v + "x"
			case float64:
				return v + 1
			case bool:
				return !v
			}
			return nil
		},
		"made nothing": func(v any) any {
			switch v := v.(type) {
			case string:
				if v != "" {
					return ""
				}
			case float64:
				if v != 0 {
					return 0
				}
			}
			return nil
		},
	}
}

// fieldsOf returns the members of an event that can be changed by themselves:
// all of its payload, and where it belongs. Numbers, hashes and times of lines
// follow from their places.
func fieldsOf(l runs.Line) map[string]func(func(any) any) bool {
	kind, _ := l["type"].(string)
	all := leaves(l["payload"], kind)
	for _, name := range []string{"attempt", "mono_us", "task_id", "turn"} {
		if _, there := l[name]; there {
			all["event."+name] = setter(l, name)
		}
	}
	return all
}

func setter(object map[string]any, name string) func(func(any) any) bool {
	return func(change func(any) any) bool {
		v := change(object[name])
		if v != nil {
			object[name] = v
		}
		return v != nil
	}
}

// leaves returns what changes the leaves of a value, by their paths. Elements of
// an array have one path, and the first of them that has a leaf is changed.
func leaves(v any, path string) map[string]func(func(any) any) bool {
	all := map[string]func(func(any) any) bool{}
	add := func(more map[string]func(func(any) any) bool) {
		for name, set := range more {
			if all[name] == nil {
				all[name] = set
			}
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			switch member.(type) {
			case map[string]any, []any:
				add(leaves(member, path+"."+name))
			default:
				all[path+"."+name] = setter(v, name)
			}
		}
	case []any:
		for i, element := range v {
			switch element.(type) {
			case map[string]any, []any:
				add(leaves(element, path+"[]"))
			default:
				add(map[string]func(func(any) any) bool{path + "[]": func(change func(any) any) bool {
					other := change(element)
					if other != nil {
						v[i] = other
					}
					return other != nil
				}})
			}
		}
	}
	return all
}
