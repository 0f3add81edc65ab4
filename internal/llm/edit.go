package llm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// What EditAsked changes.
const (
	EditUsage = "include_usage" // a streamed chat completion reports its usage
	EditStore = "store"         // OpenAI keeps no response
	EditStrip = "strip"         // tools that the provider runs are taken out
)

// EditAsked returns a request as it is passed on, and the edits that it took, in the order of their constants; without
// edits sent is body. All other bytes stay as they are. With strip, tools that the provider runs are taken out, their
// list where nothing is left of it, members that have the provider search or read, and a tool_choice that names what is
// taken out. An error says what the request has that strip does not take out, or that strip was not asked for: such a
// request is not passed on. a is what ReadAsked returned for the body.
func EditAsked(dialect string, body []byte, a Asked, strip bool) (sent []byte, edits []string, err error) {
	if len(a.Withheld) == 0 && dialect != DialectResponses && (dialect != DialectChat || !a.Stream) {
		return body, nil, nil
	}
	members, err := children(body)
	if err != nil {
		return nil, nil, err
	}
	e := edit{body: body, members: members}
	if dialect == DialectChat && a.Stream && e.includeUsage() {
		edits = append(edits, EditUsage)
	}
	if dialect == DialectResponses && e.store() {
		edits = append(edits, EditStore)
	}
	if len(a.Withheld) > 0 {
		if !strip {
			return nil, nil, fmt.Errorf("the request has %s", strings.Join(a.Withheld, ", "))
		}
		if err := e.strip(dialect); err != nil {
			return nil, nil, err
		}
		edits = append(edits, EditStrip)
	}
	if len(edits) == 0 {
		return body, nil, nil
	}
	if sent, err = e.apply(); err != nil {
		return nil, nil, err
	}
	if len(a.Withheld) > 0 { // media, and whatever the above did not know
		left, err := ReadAsked(dialect, sent)
		if err != nil {
			return nil, nil, err
		}
		if len(left.Withheld) > 0 {
			return nil, nil, fmt.Errorf("the request has %s", strings.Join(left.Withheld, ", "))
		}
	}
	return sent, edits, nil
}

// child is a member of an object or an element of a list, by its place in the bytes of that.
type child struct {
	name       string
	after      int // where the one before ends, or the bracket
	start, end int // of the value
}

// children returns the members of an object or the elements of a list, which begins with its bracket or white space.
func children(v []byte) (all []child, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	open, err := dec.ReadToken()
	if err != nil || open.Kind() != '{' && open.Kind() != '[' {
		return nil, errors.New("the body is not a JSON object")
	}
	object := open.Kind() == '{'
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		c := child{after: int(dec.InputOffset())}
		if object {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			c.name = name.String()
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		c.end = int(dec.InputOffset())
		c.start = c.end - len(value)
		all = append(all, c)
	}
	return all, nil
}

// splice puts text in the place of the bytes from start to end.
type splice struct {
	start, end int
	text       string
}

// edit gathers changes of one request.
type edit struct {
	body    []byte
	members []child
	splices []splice
	added   string       // members to add at the end
	gone    map[int]bool // members to take out
}

// member returns the place of a member; -1 = there is none.
func (e *edit) member(name string) int {
	return slices.IndexFunc(e.members, func(c child) bool { return c.name == name })
}

func (e *edit) value(i int) gjson.Result {
	return gjson.ParseBytes(e.body[e.members[i].start:e.members[i].end])
}

// set gives a member a value.
func (e *edit) set(name, value string) {
	if i := e.member(name); i >= 0 {
		e.splices = append(e.splices, splice{e.members[i].start, e.members[i].end, value})
		return
	}
	e.added += `,"` + name + `":` + value
}

// includeUsage asks for the usage of a stream. It reports whether that was not asked for.
func (e *edit) includeUsage() bool {
	i := e.member("stream_options")
	if i < 0 || !e.value(i).IsObject() {
		e.set("stream_options", `{"include_usage":true}`)
		return true
	}
	at := e.members[i].start
	options, err := children(e.body[at:e.members[i].end])
	if err != nil {
		return false // it was read before
	}
	for _, o := range options {
		if o.name == "include_usage" {
			if string(e.body[at+o.start:at+o.end]) == "true" {
				return false
			}
			e.splices = append(e.splices, splice{at + o.start, at + o.end, "true"})
			return true
		}
	}
	first := `"include_usage":true`
	if len(options) > 0 {
		first += ","
	}
	e.splices = append(e.splices, splice{at + 1, at + 1, first})
	return true
}

// store has a response not kept. It reports whether it would have been.
func (e *edit) store() bool {
	if i := e.member("store"); i >= 0 && e.value(i).Type == gjson.False {
		return false
	}
	e.set("store", "false")
	return true
}

// strip takes out what the provider would do on its own.
func (e *edit) strip(dialect string) error {
	e.gone = map[int]bool{}
	for _, name := range withheldMembers {
		if i := e.member(name); i >= 0 && !holdsNothing(e.value(i)) {
			e.gone[i] = true
		}
	}
	var names []string // of the tools that are taken out
	all := false
	if i := e.member("tools"); i >= 0 {
		cut, went, left, err := e.stripTools(dialect, e.members[i].start, e.members[i].end)
		if err != nil {
			return err
		}
		names = went
		if all = len(went) > 0 && left == 0; all {
			e.gone[i] = true
		} else {
			e.splices = append(e.splices, cut...)
		}
	}
	if i := e.member("input"); i >= 0 && dialect == DialectResponses && e.value(i).IsArray() { // items may define tools
		at := e.members[i].start
		items, err := children(e.body[at:e.members[i].end])
		if err != nil {
			return err
		}
		for _, item := range items {
			parts, err := children(e.body[at+item.start : at+item.end])
			if err != nil {
				return err
			}
			for _, part := range parts {
				if part.name != "tools" {
					continue
				}
				cut, went, _, err := e.stripTools(dialect, at+item.start+part.start, at+item.start+part.end)
				if err != nil {
					return err
				}
				e.splices, names = append(e.splices, cut...), append(names, went...)
			}
		}
	}
	if i := e.member("parallel_tool_calls"); i >= 0 && all { // endpoints refuse it without tools
		e.gone[i] = true
	}
	if i := e.member("tool_choice"); i >= 0 && (all || mentions(e.value(i), names)) {
		e.gone[i] = true
	}
	return nil
}

// stripTools takes tools of the provider out of the list that lies from at to end. It returns what they are called, and how
// many tools are left.
func (e *edit) stripTools(dialect string, at, end int) (cut []splice, went []string, left int, err error) {
	list := e.body[at:end]
	if !gjson.ParseBytes(list).IsArray() {
		return nil, nil, 0, nil
	}
	tools, err := children(list)
	if err != nil {
		return nil, nil, 0, err
	}
	gone := map[int]bool{}
	for i, t := range tools {
		one := &asking{}
		tool := gjson.ParseBytes(list[t.start:t.end])
		if one.offers(gjson.Parse("["+tool.Raw+"]"), requestForms[dialect].tool); len(one.Withheld) > 0 {
			gone[i] = true
			went = append(went, toolKind(tool), tool.Get("name").Str, tool.Get("server_label").Str)
		}
	}
	return cuts(list, at, tools, gone), went, len(tools) - len(gone), nil
}

// mentions reports whether a string of v is one of the names.
func mentions(v gjson.Result, names []string) bool {
	found := v.Type == gjson.String && v.Str != "" && slices.Contains(names, v.Str)
	if v.Type == gjson.JSON {
		v.ForEach(func(_, inner gjson.Result) bool {
			found = found || mentions(inner, names)
			return !found
		})
	}
	return found
}

// cuts takes children out of v, which lies at an offset, each with one comma.
func cuts(v []byte, offset int, all []child, gone map[int]bool) (out []splice) {
	kept := false
	for i, c := range all {
		switch {
		case gone[i]:
			out = append(out, splice{offset + c.after, offset + c.end, ""})
		case !kept && i > 0: // it comes first now
			comma := c.after + bytes.IndexByte(v[c.after:], ',') + 1
			out = append(out, splice{offset + c.after, offset + comma, ""})
			kept = true
		default:
			kept = true
		}
	}
	return out
}

// apply returns the changed request. What is taken out and what is changed are different members.
func (e *edit) apply() ([]byte, error) {
	all := append(e.splices, cuts(e.body, 0, e.members, e.gone)...)
	if e.added != "" {
		end := e.members[len(e.members)-1].end
		all = append(all, splice{end, end, e.added})
	}
	slices.SortStableFunc(all, func(a, b splice) int { return a.start - b.start })
	var sent []byte
	at := 0
	for _, s := range all {
		if s.start < at {
			return nil, errors.New("edits of the request overlap")
		}
		sent = append(append(sent, e.body[at:s.start]...), s.text...)
		at = s.end
	}
	return append(sent, e.body[at:]...), nil
}
