package llm

import (
	"bytes"
	"cmp"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	openai "github.com/sashabaranov/go-openai"
	"github.com/tidwall/gjson"
)

// responsesBody is a request to the Responses API as it is sent, of the client library's types where they
// can say it. Nothing is stored at the server: each
// request holds the whole conversation, the model's encrypted reasoning included.
type responsesBody struct {
	Model           string                     `json:"model"`
	Include         []string                   `json:"include,omitempty"`
	MaxOutputTokens int                        `json:"max_output_tokens,omitzero"`
	Store           bool                       `json:"store"`
	Stream          bool                       `json:"stream"`
	Temperature     *int                       `json:"temperature,omitzero"`
	Text            *openai.ResponseTextConfig `json:"text,omitzero"`
	Tools           jsontext.Value             `json:"tools,omitzero"`
	Input           []any                      `json:"input"`
	ToolChoice      string                     `json:"tool_choice,omitzero"`
}

// responsesOffer states that it is not strict: the API takes a tool as strict by default, and refuses
// schemas with optional parameters then.
type responsesOffer struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// responsesRequest gives a request the form of the Responses API.
func responsesRequest(r Request, offers jsontext.Value) responsesBody {
	body := responsesBody{Model: r.Model, Tools: offers, MaxOutputTokens: r.MaxTokens, Input: make([]any, 0, len(r.Messages))}
	if TakesTemperature(r.Model) {
		body.Temperature = new(int)
	}
	if reasons(plainName(r.Model)) { // others refuse to be asked for it
		body.Include = []string{"reasoning.encrypted_content"}
	}
	for _, m := range r.Messages {
		body.Input = append(body.Input, inputItems(m)...)
	}
	if r.NoCalls && len(r.Tools) > 0 {
		body.ToolChoice = noCalls
	}
	if len(r.Schema) > 0 {
		body.Text = &openai.ResponseTextConfig{Format: &openai.ResponseTextFormat{Type: "json_schema", Name: r.SchemaName,
			Schema: jsontext.Value(r.Schema), Strict: true}}
	}
	return body
}

// responsesOffers gives tools the form of the Responses API.
func responsesOffers(specs []ToolSpec) (all []responsesOffer) {
	for _, t := range specs {
		all = append(all, responsesOffer{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return all
}

// inputItems are the items of one message. Those of an assistant come in the order in which the model
// gave them: reasoning comes before what it led to.
func inputItems(m Message) []any {
	switch {
	case m.Role == "tool":
		return []any{openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: m.ToolCallID, Output: m.Content}}
	case m.Image != nil:
		var parts []any
		if m.Content != "" {
			parts = append(parts, openai.ResponseInputText{Type: "input_text", Text: m.Content})
		}
		return []any{openai.ResponseInputMessage{Type: "message", Role: m.Role, Content: append(parts, openai.ResponseInputImage{Type: "input_image", ImageURL: m.Image.dataURI()})}}
	}
	var items []any
	said, called := m.Content == "" && len(m.ToolCalls) > 0, 0
	say := func(phase string) {
		if !said {
			items = append(items, openai.ResponseInputMessage{Type: "message", Role: m.Role, Content: m.Content, Phase: phase})
		}
		said = true
	}
	call := func() {
		if called < len(m.ToolCalls) {
			c := m.ToolCalls[called]
			items = append(items, inputCall{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		called++
	}
	if bytes.HasPrefix(m.Opaque, []byte("[")) {
		for _, item := range gjson.ParseBytes(m.Opaque).Array() {
			switch item.Get("type").Str {
			case "reasoning":
				items = append(items, jsontext.Value(item.Raw))
			case "message":
				say(item.Get("phase").Str)
			case "function_call":
				call()
			}
		}
	}
	say("")
	for called < len(m.ToolCalls) {
		call()
	}
	return items
}

// output is what a response holds.
type output struct {
	message Message
	finish  string
}

// readOutput reads the items of a response. The second result is false where they do not have the form
// of one.
func readOutput(top map[string]gjson.Result) (output, bool) {
	items := top["output"]
	if !items.IsArray() {
		return output{}, false
	}
	out := output{message: Message{Role: "assistant"}}
	var said, refused []string
	for _, item := range items.Array() {
		switch item.Get("type").Str {
		case "message":
			content := item.Get("content")
			parts, whole, refusal := content.Array(), "", "" // what was said in one message, and what was refused
			if content.Type == gjson.String {
				parts, whole = nil, text(content)
			}
			for _, part := range parts {
				whole += text(part.Get("text"))
				refusal += text(part.Get("refusal"))
			}
			if whole != "" {
				said = append(said, whole)
			}
			if refusal != "" {
				refused = append(refused, refusal)
			}
		default:
			if call, ok := itemCall(item); ok {
				out.message.ToolCalls = append(out.message.ToolCalls, call)
			}
		}
	}
	if len(said) == 0 {
		said = refused
	}
	out.message.Content = strings.Join(said, "\n")
	out.message.Opaque = responsesOpaque(items.Array())
	out.finish = "stop" // the end, in the words of a chat completion
	if len(out.message.ToolCalls) > 0 {
		out.finish = "tool_calls"
	}
	if top["status"].Str == "incomplete" {
		out.finish = cmp.Or(text(top["incomplete_details"].Get("reason")), "incomplete") // "content_filter"
		if out.finish == "max_output_tokens" {
			out.finish = "length"
		}
	}
	return out, true
}

// text reads a string as the decoder of the other interface does: bytes that are not UTF-8 become
// U+FFFD.
func text(v gjson.Result) string {
	return strings.ToValidUTF8(v.String(), "\uFFFD")
}

// placeholder marks an item that the message itself holds.
type placeholder struct {
	Type  string `json:"type"`
	Phase string `json:"phase,omitzero"`
}

// responsesOpaque is the list of a response's items to send back: reasoning verbatim where it can be
// read again without the server's store, placeholders that keep the order for the rest. nil = nothing
// that is worth it, or too much.
func responsesOpaque(items []gjson.Result) []byte {
	var list []string
	worth := false
	for _, item := range items {
		switch kind := item.Get("type").Str; kind {
		case "reasoning":
			if holdsNothing(item.Get("encrypted_content")) && holdsNothing(item.Get("content")) {
				continue
			}
			list, worth = append(list, item.Raw), true
		case "message", "function_call":
			phase := clip(text(item.Get("phase")), maxName)
			mark, err := json.Marshal(placeholder{Type: kind, Phase: phase})
			if err != nil {
				return nil
			}
			list, worth = append(list, string(mark)), worth || phase != ""
		}
	}
	if !worth {
		return nil
	}
	return whole([]byte(array(list)))
}

// itemCall reads an item by which a response calls a tool that whoever asked runs. Functions are called by name and
// arguments, custom tools by name and input; other tools are those that OpenAI has defined, and are named by them.
func itemCall(item gjson.Result) (ToolCall, bool) {
	call := ToolCall{ID: text(item.Get("call_id"))}
	switch item.Get("type").Str {
	case "function_call":
		call.Name, call.Arguments = qualified(item.Get("namespace"), item.Get("name")), text(item.Get("arguments"))
	case "custom_tool_call":
		call.Name, call.Arguments = qualified(item.Get("namespace"), item.Get("name")), text(item.Get("input"))
	case "local_shell_call":
		call.Name, call.Arguments = "local_shell", text(item.Get("action"))
	case "shell_call":
		call.Name, call.Arguments = "shell", text(item.Get("action"))
		return call, item.Get("environment.type").Str != "container_reference" // it ran at the provider
	case "apply_patch_call":
		call.Name, call.Arguments = "apply_patch", text(item.Get("operation"))
	case "computer_call":
		call.Name, call.Arguments = "computer", text(either(item, "actions", "action"))
	case "tool_search_call":
		call.Name, call.Arguments = "tool_search", text(item.Get("arguments"))
		return call, item.Get("execution").Str == "client"
	default:
		return call, false
	}
	return call, true
}

// qualified returns the name of a tool with that of its namespace, in the form of clients that have no namespaces.
func qualified(namespace, name gjson.Result) string {
	if space := text(namespace); space != "" {
		return strings.TrimRight(space, "_") + "__" + text(name)
	}
	return text(name)
}

// responsesTool reports the names of a tool of the Responses API.
func responsesTool(tool gjson.Result) (names []string, runs bool) {
	kind := tool.Get("type").Str
	switch kind {
	case "function", "custom":
		return []string{clip(text(tool.Get("name")), maxName)}, true
	case "namespace":
		for _, inner := range tool.Get("tools").Array() {
			if kind := inner.Get("type").Str; kind != "function" && kind != "custom" {
				return nil, false
			}
			names = append(names, clip(qualified(tool.Get("name"), inner.Get("name")), maxName))
		}
		return names, true
	case "shell":
		runs = tool.Get("environment.type").Str == "local"
	case "tool_search":
		runs = tool.Get("execution").Str == "client"
	case "local_shell", "apply_patch", "computer", "computer_use_preview", "computer-preview":
		runs = true
	}
	if !runs {
		return nil, false
	}
	return []string{kind}, true
}

// responsesItems reads the input of a response.
func (r *asking) responsesItems(top map[string]gjson.Result) error {
	if instructions := top["instructions"]; instructions.Type != gjson.Null {
		r.content(Message{Role: "system"}, instructions)
	}
	input := top["input"]
	if input.Type == gjson.String {
		r.content(Message{Role: "user"}, input)
		return nil
	}
	if !input.IsArray() {
		if r.State == "" {
			return errors.New(`the body has no "input"`)
		}
		return nil
	}
	var err error
	input.ForEach(func(_, item gjson.Result) bool {
		if !item.IsObject() {
			err = errors.New("an item of the input is not an object")
			return false
		}
		r.item(item)
		return true
	})
	r.replied()
	return err
}

// item reads one item. What the model gave is gathered until something else comes. Codex defines its tools in an item.
func (r *asking) item(item gjson.Result) {
	top := r.open(item)
	if top["tools"].IsArray() {
		r.offers(top["tools"], responsesTool)
	}
	kind, role := top["type"].Str, top["role"].Str
	if kind == "" && role != "" {
		kind = "message"
	}
	_, calls := itemCall(item)
	if calls || kind == "reasoning" || kind == "compaction" || kind == "message" && role == "assistant" ||
		strings.HasSuffix(kind, "_call") {
		r.media(top["content"])
		r.reply = append(r.reply, item)
		return
	}
	r.replied()
	known := []string{"type", "id", "status", "call_id", "output", "role", "content"}
	switch {
	case kind == "message":
		like := Message{Role: "user"}
		switch role {
		case "system", "developer":
			like.Role = "system"
		case "user":
		default:
			like.Role, known[5] = RoleOther, ""
		}
		r.content(like, top["content"])
		r.leave(like, rest(item, top, known...))
	case strings.HasSuffix(kind, "_output"):
		like := Message{Role: "tool", ToolCallID: text(top["call_id"])}
		if output := top["output"]; kind == "shell_call_output" { // what commands wrote, in another form
			like.Content = text(output)
			r.Messages = append(r.Messages, like)
		} else {
			r.content(like, output)
		}
		r.leave(like, rest(item, top, known...))
	default:
		if kind == "item_reference" || kind == "" && top["id"].Type == gjson.String {
			r.State = cmp.Or(r.State, "item_reference")
		}
		r.media(item)
		r.leave(Message{Role: RoleOther}, opaque(item.Raw))
	}
}

// replied adds what was gathered of a reply as one message.
func (r *asking) replied() {
	if len(r.reply) == 0 {
		return
	}
	message := Message{Role: "assistant"}
	var said []string
	var left []string
	for _, item := range r.reply {
		if call, ok := itemCall(item); ok {
			message.ToolCalls = append(message.ToolCalls, call)
			continue
		}
		content := item.Get("content")
		words, plain := text(content), content.Type == gjson.String
		if content.IsArray() {
			words, plain = r.joined(content)
		}
		if item.Get("role").Str == "assistant" {
			if words != "" {
				said = append(said, words)
			}
			if plain {
				continue
			}
		}
		left = append(left, item.Raw)
	}
	message.Content = strings.Join(said, "\n")
	if left != nil {
		message.Opaque = opaque(array(left))
	}
	r.Messages, r.reply = append(r.Messages, message), nil
}
