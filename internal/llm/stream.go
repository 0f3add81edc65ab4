package llm

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxStream bounds what is kept of a streamed reply, in bytes, but for the event that passes it.
const maxStream = 64 << 20

// Stream reads a reply that comes as server-sent events, while they are passed on. It is for one goroutine at a time.
type Stream struct {
	dialect string
	added   bool // the usage was not asked for
	limit   int

	reply    object            // as far as it came
	items    map[int64]string  // whole items of a response, by their place
	parts    map[int64]*object // what came of those that are not whole: "item" as it began, and "delta"
	kept     int               // bytes of the above, at most
	finished bool              // the response came, or a message has its stop reason
	ended    bool              // the last event came
	usable   bool              // of the event before
	fault    string            // code of why the reply cannot be read; "" = it can be
	why      string
}

// NewStream returns the reader of one reply. With addedUsage the request asks for a usage that the agent did not ask for
// (EditUsage).
func NewStream(dialect string, addedUsage bool) *Stream {
	return &Stream{dialect: dialect, added: addedUsage, limit: maxStream}
}

// Next reads one event, the blank line after it included, and returns what is passed on of it: the event as it is, or
// nothing, where it is the usage that was not asked for or follows the last event. last reports the event that ends the
// reply. An event that cannot be read is passed on; the reply cannot be read then.
func (s *Stream) Next(event []byte) (pass []byte, last bool) {
	if s.ended {
		return nil, false
	}
	s.usable = false
	kind, data := eventData(event)
	if len(bytes.TrimSpace(data)) == 0 {
		return event, false // a comment, or an event without data, which clients ignore
	}
	if s.dialect == DialectChat && string(bytes.TrimSpace(data)) == "[DONE]" {
		s.ended = true
		return event, true
	}
	e := gjson.ParseBytes(data)
	if err := checkJSON(data); err != nil || !e.IsObject() {
		s.fail("invalid_stream", "an event of the stream is not a JSON object")
		s.usable = true // for what is not known
		return event, false
	}
	if s.fault == "" && s.kept > s.limit {
		s.fail("response_too_large", "the streamed reply is larger than "+strconv.Itoa(s.limit)+" bytes")
		s.reply, s.items, s.parts = s.reply.only("id", "model", "usage"), nil, nil
	}
	kind = cmp.Or(e.Get("type").Str, kind)
	switch s.dialect {
	case DialectChat:
		return s.chunk(event, e), false
	case DialectResponses:
		s.ended = s.responseEvent(kind, e)
	default:
		s.ended = s.messageEvent(kind, e)
	}
	return event, s.ended
}

// Usable reports whether a client may act on the reply before its end, since the event that Next read last has the end of a
// call or says why the reply ends. Where that is not known, it may.
func (s *Stream) Usable() bool { return s.usable }

func (s *Stream) fail(code, why string) {
	if s.fault == "" {
		s.fault, s.why = code, why
	}
}

// merge adds a part to the reply, but of one that cannot be read the usage alone.
func (s *Stream) merge(part gjson.Result) {
	if s.fault != "" {
		if part = part.Get("usage"); !part.IsObject() {
			return
		}
		part = gjson.Parse(`{"usage":` + part.Raw + `}`)
	}
	s.kept += len(part.Raw)
	s.reply.merge(part)
}

// chunk reads a part of a chat completion and returns what is passed on of it.
func (s *Stream) chunk(event []byte, e gjson.Result) []byte {
	s.merge(e)
	for _, choice := range e.Get("choices").Array() {
		s.usable = s.usable || !holdsNothing(choice.Get("finish_reason")) || slices.ContainsFunc(append(choice.Get("delta.tool_calls").Array(), choice.Get("delta")), endsCall)
	}
	if s.added && holdsNothing(e.Get("choices")) && e.Get("usage").IsObject() && !e.Get("error").Exists() {
		return nil
	}
	return event
}

// endsCall reports whether a part of a chat completion may be the end of a call: clients act on arguments that are whole JSON.
func endsCall(part gjson.Result) bool {
	for _, name := range []string{"function.arguments", "function_call.arguments"} {
		if arguments := part.Get(name); arguments.IsObject() || strings.HasSuffix(strings.TrimSpace(arguments.Str), "}") {
			return true
		}
	}
	return false
}

// responseEvent reads an event of the Responses API and reports whether it is the last. The last event holds the whole
// response; some endpoints leave the output to the events before.
func (s *Stream) responseEvent(kind string, e gjson.Result) (last bool) {
	place, item := e.Get("output_index").Int(), e.Get("item")
	switch kind {
	case "response.output_item.added":
		s.part(place, "item", item)
	case "response.output_item.done":
		s.usable = strings.HasSuffix(item.Get("type").Str, "_call")
		if s.items == nil {
			s.items = map[int64]string{}
		}
		if s.fault == "" && item.IsObject() {
			s.kept += len(item.Raw)
			s.items[place] = strings.Clone(item.Raw)
			delete(s.parts, place)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done":
		response := e.Get("response")
		s.finished = response.IsObject()
		s.merge(response)
		if output := s.reply.get("output"); len(s.items) > 0 && (output == nil || output.raw == "[]") {
			var list []string
			for _, place := range slices.Sorted(maps.Keys(s.items)) {
				list = append(list, s.items[place])
			}
			s.reply.set("output", array(list))
		}
		return true
	case "error":
		s.failure(e)
		return true
	default:
		s.usable = strings.HasSuffix(kind, "_arguments.done") || strings.HasSuffix(kind, "_input.done")
		if delta := e.Get("delta"); delta.Type == gjson.String {
			s.part(place, "delta", delta)
		}
	}
	return false
}

// part adds to what came of an item of a response that is not whole.
func (s *Stream) part(place int64, name string, v gjson.Result) {
	if s.fault != "" || !v.Exists() {
		return
	}
	if s.parts == nil {
		s.parts = map[int64]*object{}
	}
	if s.parts[place] == nil {
		s.parts[place] = &object{}
	}
	s.kept += len(v.Raw)
	s.parts[place].add(name, v)
}

// messageEvent reads an event of the Messages API and reports whether it is the last.
func (s *Stream) messageEvent(kind string, e gjson.Result) (last bool) {
	switch kind {
	case "message_start":
		s.merge(e.Get("message"))
	case "content_block_start", "content_block_delta":
		if s.fault != "" {
			return false
		}
		s.kept += len(e.Raw)
		block := s.reply.list("content").at(e.Get("index").Raw)
		delta := e.Get("delta")
		switch delta.Get("type").Str {
		case "":
			block.merge(e.Get("content_block"))
		case "input_json_delta":
			block.add(partialInput, delta.Get("partial_json"))
		case "citations_delta":
			block.add("citations", gjson.Parse("["+delta.Get("citation").Raw+"]"))
		default: // text, thinking, and what comes to be, each by the name that the block has for it
			delta.ForEach(func(name, value gjson.Result) bool {
				if name.Str != "type" {
					block.add(name.Str, value)
				}
				return true
			})
		}
	case "content_block_stop":
		s.usable = s.fault != ""
		if block := s.reply.list("content").byIndex[e.Get("index").Raw]; block != nil {
			kind := block.get("type")
			s.usable = s.usable || kind == nil || strings.HasSuffix(kind.raw, `tool_use"`)
		}
	case "message_delta":
		s.usable = !holdsNothing(e.Get("delta.stop_reason"))
		s.finished = s.finished || s.usable
		if s.fault == "" {
			s.reply.merge(e.Get("delta"))
		}
		s.merge(gjson.Parse(`{"usage":` + cmp.Or(e.Get("usage").Raw, "null") + `}`))
	case "message_stop":
		return true
	case "error":
		s.failure(e)
		return true
	}
	return false
}

// partialInput is where the input of a call is gathered. No block has a member of the name.
const partialInput = "\x00input"

// failure reads an event that ends a reply with an error.
func (s *Stream) failure(e gjson.Result) {
	if inner := e.Get("error"); inner.IsObject() {
		e = inner
	}
	s.reply.set("error", e.Raw)
}

// Body returns the reply as the dialect gives one that is not streamed, as far as it came, for ReadAnswer. A reply that did
// not come whole, or of which an event could not be read, has an error in it. No event comes after it.
func (s *Stream) Body() []byte {
	if s.fault == "" && s.reply.get("error") == nil && !s.finished && !s.done() {
		s.fail("truncated_stream", "the stream ended before the reply did")
	}
	if s.fault != "" {
		failed := s.reply.only("id", "model", "usage")
		failed.set("error", `{"code":"`+s.fault+`","message":"`+s.why+`","status":502}`)
		return failed.appendTo(nil)
	}
	switch s.dialect {
	case DialectMessages:
		for _, block := range s.reply.list("content").all {
			block.asObject().closeInput()
		}
	case DialectChat:
		choices := s.reply.list("choices")
		for _, choice := range choices.all {
			if choice.isObject() {
				choice.asObject().rename("delta", "message")
			}
		}
		slices.SortStableFunc(choices.all, func(a, b *member) int { return cmp.Compare(a.index(), b.index()) })
	}
	return s.reply.appendTo(nil)
}

// Partial returns what the model said, as far as it came, as JSON, whether the reply is whole or not. Behind it are the items of a
// response that it does not have. An error and the other members are left out: they can repeat what the request says, such
// as metadata, which no model reads.
func (s *Stream) Partial() []byte {
	said := s.reply.only("choices", "content", "output")
	b := said.appendTo(nil)
	if s.reply.get("output") == nil {
		for _, place := range slices.Sorted(maps.Keys(s.items)) {
			b = append(append(b, '\n'), s.items[place]...)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(s.parts)) {
		b = s.parts[place].appendTo(append(b, '\n'))
	}
	return b
}

// done reports whether a chat completion came whole: by the event that says so, else each choice says why it ends.
func (s *Stream) done() bool {
	if s.dialect != DialectChat || s.ended {
		return s.dialect == DialectChat
	}
	choices := s.reply.list("choices").all
	return len(choices) > 0 && !slices.ContainsFunc(choices, func(choice *member) bool {
		return !choice.isObject() || holdsNothing(gjson.ParseBytes(choice.appendTo(nil)).Get("finish_reason"))
	})
}

// closeInput gives a call its input, which comes as text.
func (o *object) closeInput() {
	input := o.get(partialInput)
	if input == nil {
		return
	}
	o.remove(partialInput)
	quoted := string(input.appendTo(nil))
	if whole := gjson.Parse(quoted).String(); checkJSON([]byte(whole)) == nil {
		o.set("input", whole)
	} else {
		o.set("input", quoted)
	}
}

// index returns the place that an element of a list states.
func (m *member) index() int64 {
	if m.object == nil || m.object.get("index") == nil {
		return 0
	}
	return gjson.Parse(m.object.get("index").raw).Int()
}

// eventData returns the name and the data of an event.
func eventData(event []byte) (kind string, data []byte) {
	found := false
	for len(event) > 0 {
		line := event
		if end := bytes.IndexAny(event, "\r\n"); end >= 0 {
			line, event = event[:end], event[end+1:]
		} else {
			event = nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if found { // several lines are one text
				data = slices.Concat(data, []byte("\n"), value)
			} else {
				data, found = value, true
			}
		}
	}
	return kind, data
}

// object is a JSON object that comes in parts. Strings of a name are put together, but for those that are whole in each
// part; members that are objects are merged, and lists extended, of which elements of one index are one.
type object struct {
	names   []string
	members map[string]*member
}

// member is a value: what came first, and whatever it grew to be, of which one at most is set.
type member struct {
	raw    string
	text   *strings.Builder // as JSON, without the last quote
	object *object
	list   *list
}

// list is a list of objects, of which those with an index can grow, and calls of tools without one.
type list struct {
	calls   bool
	all     []*member
	byIndex map[string]*object
}

// wholeStrings are members that streams repeat, or give once.
var wholeStrings = []string{"id", "type", "object", "model", "role", "name", "format", "finish_reason", "native_finish_reason", "stop_reason",
	"system_fingerprint", "service_tier", "provider"}

func (o *object) get(name string) *member { return o.members[name] }

func (o *object) set(name, raw string) {
	if o.members == nil {
		o.members = map[string]*member{}
	}
	if o.members[name] == nil {
		o.names = append(o.names, name)
	}
	o.members[name] = &member{raw: raw}
}

// only returns an object of the members of those names.
func (o *object) only(names ...string) (out object) {
	for _, name := range names {
		if m := o.members[name]; m != nil {
			out.set(name, string(m.appendTo(nil)))
		}
	}
	return out
}

func (o *object) rename(from, to string) {
	if m := o.members[from]; m != nil && o.members[to] == nil {
		delete(o.members, from)
		o.members[to] = m
		o.names[slices.Index(o.names, from)] = to
	}
}

func (o *object) remove(name string) {
	delete(o.members, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
}

// merge adds a part. Token probabilities are left out.
func (o *object) merge(part gjson.Result) {
	if !part.IsObject() {
		return
	}
	part.ForEach(func(name, value gjson.Result) bool {
		if name.Str != "logprobs" {
			o.add(name.Str, value)
		}
		return true
	})
}

// add adds a part of one member.
func (o *object) add(name string, v gjson.Result) {
	m := o.members[name]
	switch {
	case m == nil || m.raw == "null":
		o.set(name, v.Raw)
	case v.Type == gjson.Null:
	case v.Type == gjson.String && m.isString():
		switch {
		case !slices.Contains(wholeStrings, name):
			m.extend(v)
		case v.Str != "" && (name != "id" || m.raw == `""`): // some endpoints have another id in each part
			o.set(name, v.Raw)
		}
	case v.IsObject() && m.isObject():
		m.asObject().merge(v)
	case v.IsArray() && m.isList():
		m.asList(name).extend(v)
	case v.Type == gjson.String && m.isList(): // Mistral's models think in parts and speak in text
		m.asList(name).all = append(m.list.all, &member{raw: `{"type":"text","text":` + v.Raw + `}`})
	case v.IsArray() && m.isString():
		said := string(m.appendTo(nil))
		o.set(name, `[{"type":"text","text":`+said+`}]`)
		o.members[name].asList(name).extend(v)
	default:
		o.set(name, v.Raw)
	}
}

// list returns the list of a name, which is one from now on.
func (o *object) list(name string) *list {
	if m := o.members[name]; m == nil || !m.isList() {
		o.set(name, "[]")
	}
	return o.members[name].asList(name)
}

func (m *member) isString() bool { return m.text != nil || strings.HasPrefix(m.raw, `"`) }
func (m *member) isObject() bool { return m.object != nil || strings.HasPrefix(m.raw, "{") }
func (m *member) isList() bool   { return m.list != nil || strings.HasPrefix(m.raw, "[") }

// extend adds text as it came: a character may be parted.
func (m *member) extend(v gjson.Result) {
	if m.text == nil {
		m.text = &strings.Builder{}
		m.text.WriteString(m.raw[:len(m.raw)-1])
		m.raw = ""
	}
	m.text.WriteString(v.Raw[1 : len(v.Raw)-1])
}

func (m *member) asObject() *object {
	if m.object == nil {
		m.object = &object{}
		m.object.merge(gjson.Parse(m.raw))
		m.raw = ""
	}
	return m.object
}

func (m *member) asList(name string) *list {
	if m.list == nil {
		m.list = &list{calls: name == "tool_calls", byIndex: map[string]*object{}}
		m.list.extend(gjson.Parse(m.raw))
		m.raw = ""
	}
	return m.list
}

func (l *list) extend(v gjson.Result) {
	v.ForEach(func(_, element gjson.Result) bool {
		l.add(element)
		return true
	})
}

// add adds an element, or a part of one. Some endpoints number no calls, or all of them alike: a call with a name and
// another id is another call.
func (l *list) add(element gjson.Result) {
	index := element.Get("index").Raw
	if !element.IsObject() || index == "" && !l.calls {
		l.all = append(l.all, &member{raw: element.Raw})
		return
	}
	o := l.byIndex[index]
	if o == nil && index == "" && len(l.all) > 0 {
		o = l.all[len(l.all)-1].asObject()
	}
	if l.calls && o != nil && element.Get("function.name").String() != "" {
		if id, known := element.Get("id").String(), o.get("id"); id != "" && known != nil && gjson.Parse(known.raw).String() != id {
			o = nil
		}
	}
	if o == nil {
		o = l.begin(index)
	}
	o.merge(element)
}

// at returns the object of an index.
func (l *list) at(index string) *object {
	if o := l.byIndex[index]; o != nil {
		return o
	}
	return l.begin(index)
}

// begin adds an object, which has the index from now on.
func (l *list) begin(index string) *object {
	o := &object{}
	l.all = append(l.all, &member{object: o})
	l.byIndex[index] = o
	return o
}

// appendTo appends the JSON.
func (o *object) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // bytes that are not UTF-8 become U+FFFD
		b = o.members[name].appendTo(append(b, ':'))
	}
	return append(b, '}')
}

func (m *member) appendTo(b []byte) []byte {
	switch {
	case m.text != nil:
		return append(append(b, m.text.String()...), '"')
	case m.object != nil:
		return m.object.appendTo(b)
	case m.list != nil:
		b = append(b, '[')
		for i, element := range m.list.all {
			if i > 0 {
				b = append(b, ',')
			}
			b = element.appendTo(b)
		}
		return append(b, ']')
	}
	return append(b, m.raw...)
}
