package llm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// The dialects in which own agents ask models: chat completions, OpenAI's Responses API, and Anthropic's Messages API.
const (
	DialectChat      = APIChat
	DialectResponses = APIResponses
	DialectMessages  = "messages"
)

// Asked is an own agent's request, as far as it is read.
type Asked struct {
	Model       string
	Stream      bool
	MaxTokens   int64     // at most, of a completion; 0 = none stated
	Completions int       // n, at least 1
	Messages    []Message // one for each part of a message that is not the model's
	Tools       []byte    // the value of the member that defines the tools, as it came; nil = none
	Offered     []string  // names of tools that the agent runs itself
	Withheld    []string  // what the provider would do on its own: tools that it runs, remote MCP, media by URL, other models
	State       string    // member that refers to state at the provider, such as previous_response_id; "" = none
}

// RoleOther is the role of what a request has outside of its messages and a model may read all the same, such as
// response_format, and of items of a kind that is not known.
const RoleOther = "other"

// maxAsked bounds the JSON values of a request, names of members included. What is read of a value takes some hundred
// bytes.
const maxAsked = 500_000

// maxNested bounds how deep a request is nested: each level is looked at once more.
const maxNested = 128

// ReadAsked reads a request. An error says why the body is no request of the dialect: it is not one JSON object, states a
// member twice (endpoints disagree about which of them counts), or lacks the model or the messages.
//
// System prompts and messages for developers have the role "system", results of tools the role "tool". What the model said
// is one message for each reply; of other messages each part is one. Text is Content and a picture Image; other parts,
// reasoning and members that are not known are Opaque, as they came. Marks for the cache of prompts are left out, since
// they wander from message to message. Settings that a model may read (text, lists and objects) are one message of
// RoleOther, the first.
func ReadAsked(dialect string, body []byte) (Asked, error) {
	if err := checkAsked(body); err != nil {
		return Asked{}, err
	}
	form, ok := requestForms[dialect]
	if !ok {
		return Asked{}, fmt.Errorf("dialect %q is not known", dialect)
	}
	r := &asking{Asked: Asked{Completions: 1}}
	top, err := r.members(gjson.ParseBytes(body), form)
	if err != nil {
		return Asked{}, err
	}
	if err := r.settings(top, form); err != nil {
		return Asked{}, err
	}
	if err := form.messages(r, top); err != nil {
		return Asked{}, err
	}
	if r.unclear != nil {
		return Asked{}, r.unclear
	}
	return r.Asked, nil
}

// requestForm says what one dialect's requests consist of.
type requestForm struct {
	read      []string // members that are read, or that no model reads
	maxTokens []string
	messages  func(*asking, map[string]gjson.Result) error
	tool      func(gjson.Result) (names []string, runs bool) // runs: by the agent
}

var requestForms = map[string]requestForm{
	DialectChat: {
		read: []string{"messages", "functions", "function_call", "max_tokens", "max_completion_tokens", "modalities", "n", "stop",
			"reasoning_effort", "verbosity", "tools", "tool_choice", "stream", "stream_options", "model",
			"user", "metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "reasoning"},
		maxTokens: []string{"max_tokens", "max_completion_tokens"},
		messages:  func(r *asking, top map[string]gjson.Result) error { return eachMessage(top, r.chatMessage) }, tool: chatTool,
	},
	DialectResponses: {
		read: []string{"input", "instructions", "max_output_tokens", "include", "truncation", "store", "tools", "tool_choice", "stream", "stream_options", "model",
			"user", "metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "reasoning", "client_metadata"},
		maxTokens: []string{"max_output_tokens"},
		messages:  (*asking).responsesItems, tool: responsesTool,
	},
	DialectMessages: {
		read: []string{"messages", "system", "max_tokens", "tools", "tool_choice", "stream", "model", "metadata", "service_tier", "thinking", "betas",
			"cache_control", "inference_geo", "speed", "stop_sequences"},
		maxTokens: []string{"max_tokens"},
		messages:  (*asking).messagesMessages, tool: messagesTool,
	},
}

// withheldMembers have the provider search, read or run something, or ask another model: OpenAI's, OpenRouter's, xAI's,
// Alibaba's, Cohere's, Azure's, Anthropic's and LiteLLM's.
var withheldMembers = []string{"web_search_options", "plugins", "search_parameters", "enable_search", "connectors", "data_sources", "mcp_servers", "models", "fallbacks"}

// stateMembers refer to what is at the provider. A prompt is a template there, a container its file system.
var stateMembers = []string{"previous_response_id", "conversation", "background", "prompt", "container"}

// checkAsked reports why a body is not one JSON object without doubles.
func checkAsked(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return errors.New("the body is not a JSON object")
	}
	for n := 0; ; n++ {
		_, err := dec.ReadToken()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return errors.New("the body has a member twice in one object")
		case err != nil:
			return errors.New("the body is not valid JSON")
		case n > 0 && dec.StackDepth() == 0 && dec.PeekKind() != 0:
			return errors.New("the body is more than one JSON value")
		case dec.StackDepth() > maxNested:
			return fmt.Errorf("the body is nested more than %d deep", maxNested)
		case n == maxAsked:
			return fmt.Errorf("the body holds more than %d values", maxAsked)
		}
	}
}

// misspelt reports whether a name is one of others but for case: decoders in Go take it for that.
func misspelt(name string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return name != other && strings.EqualFold(name, other) })
}

// asking reads one request.
type asking struct {
	Asked
	reply   []gjson.Result // items of a Responses request that the model gave, one after the other
	unclear error          // a member that decoders read in more ways than one
}

// partMembers are what is read of messages, items and parts.
var partMembers = []string{"role", "content", "type", "text", "refusal", "tool_calls", "tool_call_id", "function_call", "name", "image_url", "source", "input", "output", "arguments", "call_id", "tool_use_id", "tools"}

// open returns the members of a message, an item or a part.
func (r *asking) open(v gjson.Result) map[string]gjson.Result {
	top := v.Map()
	for name := range top {
		if !slices.Contains(partMembers, name) && misspelt(name, partMembers) {
			r.unclear = fmt.Errorf("a member differs from %q in case only", strings.ToLower(clip(name, maxName)))
		}
	}
	return top
}

// members returns the members of a request, and adds those as a message that are no setting and not read otherwise.
func (r *asking) members(request gjson.Result, form requestForm) (top map[string]gjson.Result, err error) {
	known := slices.Concat(form.read, withheldMembers, stateMembers)
	top = map[string]gjson.Result{}
	var others []byte
	request.ForEach(func(name, value gjson.Result) bool {
		top[name.Str] = value
		if slices.Contains(known, name.Str) {
			return true
		}
		if misspelt(name.Str, known) {
			err = fmt.Errorf("member %q differs from a member of the interface in case only", clip(name.Str, maxName))
		}
		if value.Type == gjson.String || value.Type == gjson.JSON {
			others = append(append(append(append(others, ','), name.Raw...), ':'), value.Raw...)
		}
		return err == nil
	})
	if others != nil {
		others[0] = '{'
		r.Messages = append(r.Messages, Message{Role: RoleOther, Content: strings.ToValidUTF8(string(append(others, '}')), "\uFFFD")})
	}
	return top, err
}

// settings reads what a request has beside its messages.
func (r *asking) settings(top map[string]gjson.Result, form requestForm) error {
	r.Model = text(top["model"])
	if top["model"].Type != gjson.String || r.Model == "" {
		return errors.New(`the body has no "model"`)
	}
	switch top["stream"].Type {
	case gjson.True:
		r.Stream = true
	case gjson.False, gjson.Null:
	default:
		return errors.New(`"stream" is neither true nor false`)
	}
	for _, name := range form.maxTokens {
		n, ok := optionalCount(top[name])
		if !ok && top[name].Raw != "-1" { // of some servers: no limit
			return fmt.Errorf("%q is not a number of tokens", name)
		}
		r.MaxTokens = max(r.MaxTokens, n)
	}
	if n := top["n"]; n.Type != gjson.Null && slices.Contains(form.read, "n") {
		count, ok := count(n)
		if !ok || count < 1 || count > 128 {
			return errors.New(`"n" is not a number from 1 to 128`)
		}
		r.Completions = int(count)
	}
	for _, name := range withheldMembers {
		if !holdsNothing(top[name]) {
			r.withhold(name)
		}
	}
	for _, name := range stateMembers {
		if !holdsNothing(top[name]) && r.State == "" {
			r.State = name
		}
	}
	for _, name := range []string{"tools", "functions"} {
		list := top[name]
		if list.Type == gjson.Null || !slices.Contains(form.read, name) {
			continue
		}
		if !list.IsArray() {
			return fmt.Errorf("%q is not a list", name)
		}
		read := form.tool
		if name == "functions" { // from before there were tools
			read = func(tool gjson.Result) ([]string, bool) { return []string{clip(text(tool.Get("name")), maxName)}, true }
		}
		r.offers(list, read)
	}
	return nil
}

// offers reads a list that defines tools.
func (r *asking) offers(list gjson.Result, read func(gjson.Result) (names []string, runs bool)) {
	r.Tools = append(r.Tools, list.Raw...)
	list.ForEach(func(_, tool gjson.Result) bool {
		names, runs := read(tool)
		tool.ForEach(func(name, _ gjson.Result) bool {
			runs = runs && !misspelt(name.Str, toolMembers)
			return runs
		})
		if !runs {
			r.withhold("tool " + toolKind(tool))
			return true
		}
		r.Offered = append(r.Offered, names...)
		return true
	})
}

// toolMembers say who runs a tool.
var toolMembers = []string{"type", "function", "custom", "name", "environment", "execution", "tools"}

// toolKind names a tool that the agent does not run by its type, else by its first member.
func toolKind(tool gjson.Result) (kind string) {
	if kind = clip(tool.Get("type").String(), maxName); kind == "" {
		tool.ForEach(func(name, _ gjson.Result) bool {
			kind = clip(name.Str, maxName)
			return false
		})
	}
	if kind == "" {
		kind = "of no type"
	}
	return kind
}

// withhold notes something that the provider would do on its own.
func (r *asking) withhold(what string) {
	if !slices.Contains(r.Withheld, what) && len(r.Withheld) < maxWithheld {
		r.Withheld = append(r.Withheld, what)
	}
}

// maxWithheld bounds the names of what a request has that is withheld. The first is enough to refuse it.
const maxWithheld = 64

// chatTool reports the name of a tool of chat completions.
func chatTool(tool gjson.Result) (names []string, runs bool) {
	kind := tool.Get("type").Str
	if kind != "function" && kind != "custom" {
		return nil, false
	}
	runs = true
	tool.ForEach(func(name, value gjson.Result) bool {
		// Gateways take further members for tools of the provider.
		runs = !value.IsObject() || name.Str == kind || name.Str == "parameters" || name.Str == "cache_control"
		return runs
	})
	if !runs {
		return nil, false
	}
	return []string{clip(text(either(tool, kind+".name", "name")), maxName)}, true
}

// eachMessage lets read take each member of the list "messages".
func eachMessage(top map[string]gjson.Result, read func(gjson.Result)) error {
	messages := top["messages"]
	if !messages.IsArray() {
		return errors.New(`the body has no list "messages"`)
	}
	var err error
	messages.ForEach(func(_, m gjson.Result) bool {
		if !m.IsObject() {
			err = errors.New("a message is not an object")
			return false
		}
		read(m)
		return true
	})
	return err
}

func (r *asking) chatMessage(m gjson.Result) {
	top := r.open(m)
	content, known := top["content"], []string{"role", "content"}
	like := Message{Role: top["role"].Str}
	switch like.Role {
	case "assistant":
		r.media(content)
		message, _ := chatReply(m)
		known = append(known, "refusal", "tool_calls")
		if content.IsArray() {
			var plain bool
			if message.Content, plain = r.joined(content); !plain {
				known[1] = ""
			}
		}
		if call := top["function_call"]; call.IsObject() {
			known = append(known, "function_call")
			message.ToolCalls = append(message.ToolCalls, ToolCall{Name: text(call.Get("name")), Arguments: text(call.Get("arguments"))})
		}
		message.Opaque = rest(m, top, known...)
		r.Messages = append(r.Messages, message)
		return
	case "system", "developer":
		like.Role = "system"
	case "user":
	case "tool", "function":
		like = Message{Role: "tool", ToolCallID: text(either(m, "tool_call_id", "name"))}
		known = append(known, "tool_call_id", "name")
	default:
		like.Role, known = RoleOther, known[1:]
	}
	r.content(like, content)
	r.leave(like, rest(m, top, known...))
}

// joined returns the text of a list of parts, and whether they are nothing else.
func (r *asking) joined(parts gjson.Result) (all string, plain bool) {
	var b strings.Builder
	plain = true
	parts.ForEach(func(_, part gjson.Result) bool {
		said, top := either(part, "text", "refusal"), r.open(part)
		plain = plain && said.Type == gjson.String && rest(part, top, append(unreadMembers, "text", "refusal")...) == nil
		b.WriteString(text(said))
		return true
	})
	return b.String(), plain
}

// content adds what a message that is not the model's holds: a string, or a list of parts, each of which is a message.
func (r *asking) content(like Message, content gjson.Result) {
	before := len(r.Messages)
	switch {
	case content.Type == gjson.String:
		like.Content = text(content)
	case content.IsArray():
		content.ForEach(func(_, part gjson.Result) bool {
			r.part(like, part)
			return true
		})
	case content.Type != gjson.Null:
		r.part(like, content)
	}
	if len(r.Messages) == before {
		r.Messages = append(r.Messages, like)
	}
}

// unreadMembers are of parts, and not for a model.
var unreadMembers = []string{"type", "cache_control", "detail"}

// part adds one part of a message.
func (r *asking) part(like Message, part gjson.Result) {
	top := r.open(part)
	kind := top["type"].Str
	isText := top["text"].Type == gjson.String && (kind == "" || strings.HasSuffix(kind, "text"))
	if isText {
		like.Content, like.Opaque = text(top["text"]), rest(part, top, append(unreadMembers, "text")...)
	}
	if kind != "search_result" && (!isText || like.Opaque != nil) { // the address of a result is where its text was
		r.media(part)
	}
	source := top["source"]
	switch {
	case isText:
	case part.Type == gjson.String:
		like.Content = text(part)
	case kind == "refusal":
		like.Content = text(top["refusal"])
	case kind == "document" && source.Get("type").Str == "text":
		like.Content = text(source.Get("data"))
		like.Opaque = rest(part, top, append(unreadMembers, "source")...)
	case kind == "document" && source.Get("type").Str == "content":
		r.content(like, source.Get("content"))
		r.leave(like, rest(part, top, append(unreadMembers, "source")...))
		return
	case kind == "search_result":
		r.content(like, top["content"])
		r.leave(like, rest(part, top, append(unreadMembers, "content")...))
		return
	default:
		if like.Image = readImage(part); like.Image == nil {
			like.Opaque = opaque(part.Raw)
		}
	}
	r.Messages = append(r.Messages, like)
}

// leave adds what is left of a message as another message.
func (r *asking) leave(like Message, rest []byte) {
	if rest != nil {
		like.Opaque = rest
		r.Messages = append(r.Messages, like)
	}
}

// rest returns an object of the members of v that hold something and are not among the known ones; nil if there are none.
// top are the members of v.
func rest(v gjson.Result, top map[string]gjson.Result, known ...string) (out []byte) {
	left := false
	for name, value := range top {
		left = left || !holdsNothing(value) && !slices.Contains(known, name)
	}
	if !left {
		return nil
	}
	v.ForEach(func(name, value gjson.Result) bool {
		if !holdsNothing(value) && !slices.Contains(known, name.Str) {
			out = append(append(append(append(out, ','), name.Raw...), ':'), value.Raw...)
		}
		return true
	})
	out[0] = '{'
	return opaque(string(append(out, '}')))
}

// array returns a JSON array of values.
func array(raw []string) string { return "[" + strings.Join(raw, ",") + "]" }

// opaque returns JSON of a request as what is opaque of a message.
func opaque(raw string) []byte { return []byte(strings.ToValidUTF8(raw, "\uFFFD")) }

// readImage returns the picture that a part holds, by any of the dialects; nil if it holds none, or not in itself.
func readImage(part gjson.Result) *Image {
	media, data := part.Get("source.media_type").String(), part.Get("source.data").String()
	if address := either(part, "image_url.url", "image_url"); address.Type == gjson.String {
		head, tail, found := strings.Cut(address.String(), ";base64,")
		if media, data = strings.TrimPrefix(head, "data:"), tail; !found || media == head {
			return nil
		}
	}
	if !strings.HasPrefix(media, "image/") {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil
	}
	return &Image{MediaType: clip(media, maxName), Data: decoded}
}

// hasScheme matches what names something to be fetched.
var hasScheme = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// media withholds what a part has the provider fetch: strings that are addresses, and files that it holds. Text, titles
// and citations are no addresses to fetch, whatever they say.
func (r *asking) media(part gjson.Result) {
	if part.Type != gjson.JSON {
		return
	}
	part.ForEach(func(name, value gjson.Result) bool {
		switch {
		case slices.Contains(wordMembers, name.Str):
		case strings.Contains(name.Str, "file_id") && !holdsNothing(value):
			r.withhold("file_id")
		case value.Type == gjson.JSON:
			r.media(value)
		case value.Type != gjson.String:
		case hasScheme.MatchString(value.Str), slices.Contains(addressMembers, name.Str) && !strings.HasPrefix(value.Str, "data:"):
			r.withhold("media by URL")
		}
		return true
	})
}

// wordMembers are members of parts that no provider fetches, and addressMembers those that it fetches if they are no data.
var (
	wordMembers = []string{"text", "title", "context", "filename", "refusal", "encrypted_content", "annotations", "citations", "logprobs"}

	addressMembers = []string{"url", "image_url", "file_url", "video_url", "audio_url"}
)
