package transcript

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// elsewhere are the members that an item shows as its text or its call.
var elsewhere = map[string]bool{
	"task_started.question": true, "context_compiled.head": true, "context_compiled.message_heads": true, "model_call_completed.head": true,
	"tool_proposed.args": true, "tool_proposed.malformed": true, "policy_decision.shown": true, "tool_executed.head": true,
	"exchange_completed.head": true, "tool_proposed.call_id": true, "policy_decision.call_id": true, "policy_violation.call_id": true,
	"approval_requested.call_id": true, "approval_resolved.call_id": true, "checkpoint_saved.call_id": true, "rollback.call_id": true, "tool_executed.call_id": true,
	"answer_committed.reasoning_trace": true, "attempt_ended.workspace.diff": true,
}

// facts returns the members of a payload that are set, under their names, in the order of the journal. A list shows its
// first elements. A type of event that gets a member shows it without a change here.
func facts(p trajectory.Payload, rules map[string]string) []([2]string) {
	f := &factList{rules: rules, typ: string(p.Type())}
	switch p := p.(type) {
	case trajectory.ContextCompiled:
		if p.Origins == nil {
			f.add("sources", sources(p))
		}
	case trajectory.AttemptEnded:
		if p.Workspace != nil {
			f.add("change", runview.Change(p.Workspace))
		}
		if p.Agent != nil {
			f.add("process", runview.Process(p.Agent))
		}
	}
	f.members("", "", reflect.ValueOf(p))
	return f.all
}

type factList struct {
	all   [][2]string
	rules map[string]string
	typ   string
}

func (f *factList) add(name, value string) {
	if value == "" || len(f.all) == maxFacts {
		return
	}
	if len(f.all) == maxFacts-1 {
		name, value = "more", "this event has further members: see its line of the journal"
	}
	f.all = append(f.all, [2]string{name, cut(value, maxFact)})
}

// members adds the members of a struct. path is where it is in the payload, label how it is called.
func (f *factList) members(path, label string, v reflect.Value) {
	for i := range v.NumField() {
		member := jsonName(v.Type().Field(i))
		if at := path + "." + member; !elsewhere[f.typ+at] {
			f.member(at, strings.TrimSpace(label+" "+plainName(member)), member, v.Field(i))
		}
	}
}

func (f *factList) member(path, label, member string, v reflect.Value) {
	switch value := v.Interface().(type) {
	case *trajectory.Origins:
		if value != nil {
			f.add("origins", origins(*value))
			if value.Probes != nil {
				f.add("probes of the agent's text", describeOr(*value.Probes, "nothing found"))
			}
			f.list("agent's passages", "passages", reflect.ValueOf(value.Passages))
		}
		return
	case *trajectory.Probes:
		if value != nil {
			f.add(label, describeOr(*value, "nothing found"))
		}
		return
	case trajectory.Tokens:
		f.add(label, fmt.Sprintf("%d in (%d cached), %d out (%d reasoning)", value.In, value.Cached, value.Out, value.Reasoning))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if !v.IsZero() {
			f.members(path, label, v)
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct {
			if !v.IsNil() {
				f.members(path, label, v.Elem())
			}
			return
		}
		f.add(label, scalar(member, v))
	case reflect.Slice:
		f.list(label, member, v)
	default:
		if !v.IsZero() {
			f.add(label, scalar(member, v))
		}
	}
}

// list adds the first elements of a list, each under the name for one.
func (f *factList) list(label, member string, v reflect.Value) {
	if stem, ok := strings.CutSuffix(label, "ies"); ok {
		label = stem + "y"
	}
	label = strings.TrimSuffix(label, "s")
	for i := range min(v.Len(), maxListed) {
		element := v.Index(i)
		switch {
		case element.Kind() == reflect.Struct:
			f.add(label, describe(element.Interface()))
		case member == "rule_ids":
			id := element.String()
			text := f.rules[id]
			if text == "" {
				text = "the plan has no rule of this id"
			}
			f.add("rule", cut(id, maxTitle)+": "+text)
		default:
			f.add(label, element.String())
		}
	}
	if more := v.Len() - maxListed; more > 0 {
		f.add(label, fmt.Sprintf("and %d more", more))
	}
}

// describe returns the members of a struct that are set, on one line.
func describe(value any) string {
	v := reflect.ValueOf(value)
	var parts []string
	for i, size := 0, 0; i < v.NumField() && size < maxFact; i++ {
		field, member := v.Field(i), jsonName(v.Type().Field(i))
		if field.IsZero() {
			continue
		}
		part := plainName(member)
		switch {
		case member == "bytes" || member == "sha256": // whose values tell
			part = scalar(member, field)
		case field.Kind() == reflect.Bool:
		case field.Kind() == reflect.Struct:
			part += " (" + describe(field.Interface()) + ")"
		case field.Kind() == reflect.Pointer && field.Elem().Kind() == reflect.Struct:
			part += " (" + describeOr(field.Elem().Interface(), "nothing found") + ")"
		default:
			part += " " + cut(scalar(member, field), maxFact)
		}
		parts = append(parts, part)
		size += len(part)
	}
	return strings.Join(parts, ", ")
}

func describeOr(value any, nothing string) string {
	if text := describe(value); text != "" {
		return text
	}
	return nothing
}

// scalar returns a text, a number, a truth value or a pointer to one, with the unit that its name has.
func scalar(member string, v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "unknown"
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		if v.Bool() {
			return "yes"
		}
		return "no"
	case reflect.Int, reflect.Int64:
		n := v.Int()
		switch {
		case strings.HasSuffix(member, "_microusd"):
			return view.Dollars(&n)
		case strings.HasSuffix(member, "_ms"):
			return strconv.FormatInt(n, 10) + " ms"
		case strings.HasSuffix(member, "bytes"):
			return view.Bytes(n)
		}
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// jsonName returns the name of a member in the journal.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// plainName returns the name of a member without its unit.
func plainName(member string) string {
	member = strings.TrimSuffix(strings.TrimSuffix(member, "_microusd"), "_ms")
	return strings.ReplaceAll(member, "_", " ")
}

// origins describes where the bytes of an own agent's request come from.
func origins(o trajectory.Origins) string {
	return shares([]share{{"agent", float64(o.Agent)}, {"exchange", float64(o.Exchange)}, {"question", float64(o.Question)}, {"reply", float64(o.Reply)},
		{"result", float64(o.Result)}, {"workspace", float64(o.Workspace)}})
}

// sources describes where the messages come from that are new in a request.
func sources(p trajectory.ContextCompiled) string {
	all := []share{{"question", 0}, {"model", 0}, {"tool", 0}, {"template", 0}}
	for _, m := range p.Messages {
		i := 3
		switch source, _, _ := strings.Cut(m.Source, ":"); source {
		case "question":
			i = 0
		case "model":
			i = 1
		case "tool":
			i = 2
		}
		all[i].bytes += float64(m.Bytes)
	}
	return shares(all)
}

type share struct {
	name  string
	bytes float64
}

// shares describes parts of a whole.
func shares(all []share) string {
	whole := 0.0
	for _, s := range all {
		whole += s.bytes
	}
	var parts []string
	for _, s := range all {
		if s.bytes > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %% (%s)", s.name, 100*s.bytes/whole, view.Bytes(int64(s.bytes))))
		}
	}
	return strings.Join(parts, ", ")
}
