package llm

import (
	"cmp"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	openai "github.com/sashabaranov/go-openai"
	"github.com/tidwall/gjson"
)

// chatBody is a request for a chat completion as it is sent. Its parts are a library's types, except for
// requests, messages and calls: those of the library drop a temperature of 0, an empty content
// and empty arguments, and lack what providers add (decision 0072). What is the same in every request of a
// run comes first, so that caches of prompts can use it.
type chatBody struct {
	Model               string                               `json:"model"`
	MaxCompletionTokens int                                  `json:"max_completion_tokens,omitzero"`
	MaxTokens           int                                  `json:"max_tokens,omitzero"`
	Stream              bool                                 `json:"stream"`
	Temperature         *int                                 `json:"temperature,omitzero"`
	Tools               jsontext.Value                       `json:"tools,omitzero"`
	Messages            []chatMessage                        `json:"messages"`
	ResponseFormat      *openai.ChatCompletionResponseFormat `json:"response_format,omitzero"`
	ToolChoice          string                               `json:"tool_choice,omitzero"`
}

type chatMessage struct {
	Content    any        `json:"content"` // a string, also an empty one, or a list of parts
	Role       string     `json:"role"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	messageExtras
}

// messageExtras are what providers add to a message and want back as it was: OpenRouter's reasoning,
// Anthropic's thinking by LiteLLM, DeepSeek's and vLLM's reasoning in plain text, by either name.
type messageExtras struct {
	ReasoningDetails jsontext.Value `json:"reasoning_details,omitzero"`
	ThinkingBlocks   jsontext.Value `json:"thinking_blocks,omitzero"`
	ReasoningContent jsontext.Value `json:"reasoning_content,omitzero"`
	Reasoning        jsontext.Value `json:"reasoning,omitzero"`
}

// callExtras are the same of a call: Google's signatures, its own and as LiteLLM passes them on.
type callExtras struct {
	ExtraContent           jsontext.Value `json:"extra_content,omitzero"`
	ProviderSpecificFields jsontext.Value `json:"provider_specific_fields,omitzero"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
	callExtras
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chatRequest gives a request the form of chat completions.
func chatRequest(r Request, offers jsontext.Value) chatBody {
	body := chatBody{Model: r.Model, Tools: offers, Messages: make([]chatMessage, 0, len(r.Messages))}
	if TakesTemperature(r.Model) {
		body.Temperature = new(int)
	}
	if reasons(plainName(r.Model)) {
		body.MaxCompletionTokens = r.MaxTokens
	} else {
		body.MaxTokens = r.MaxTokens
	}
	for _, m := range r.Messages {
		// A reply with calls and no text has the content "": llama-cpp-python fails where it is null or missing.
		message := chatMessage{Content: m.Content, Role: m.Role, ToolCallID: m.ToolCallID}
		restore(m.Opaque, &message.messageExtras)
		if m.Image != nil {
			var parts []openai.ChatMessagePart
			if m.Content != "" {
				parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: m.Content})
			}
			message.Content = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL,
				ImageURL: &openai.ChatMessageImageURL{URL: m.Image.dataURI()}})
		}
		for _, call := range m.ToolCalls {
			c := chatCall{ID: call.ID, Type: "function", Function: chatFunction{Name: call.Name, Arguments: call.Arguments}}
			restore(call.Opaque, &c.callExtras)
			message.ToolCalls = append(message.ToolCalls, c)
		}
		body.Messages = append(body.Messages, message)
	}
	if r.NoCalls && len(r.Tools) > 0 {
		body.ToolChoice = noCalls
	}
	if len(r.Schema) > 0 {
		body.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: r.SchemaName, Schema: jsontext.Value(r.Schema), Strict: true}}
	}
	return body
}

// chatOffers gives tools the form of chat completions.
func chatOffers(specs []ToolSpec) (all []openai.Tool) {
	for _, t := range specs {
		all = append(all, openai.Tool{Type: openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: jsontext.Value(t.Parameters)}})
	}
	return all
}

// noCalls is the choice of tools of a request without calls.
const noCalls = "none"

// restore reads what members kept. What the other interface gave is no object, and left out.
func restore[E messageExtras | callExtras](opaque []byte, extras *E) {
	var kept E
	if len(opaque) > 0 && opaque[0] == '{' && json.Unmarshal(opaque, &kept, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) == nil {
		*extras = kept
	}
}

func (i *Image) dataURI() string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// readChoice reads the choices of a chat completion, of which there is one unless more were asked for: what the others say
// follows the first. The second result is false where it does not have the form of one; members that are not read may have
// any form.
func readChoice(choices gjson.Result) (output, bool) {
	first := choices.Get("0")
	known := (choices.Type == gjson.Null || choices.IsArray()) && (first.Type == gjson.Null || first.IsObject())
	message, ok := chatReply(first.Get("message"))
	finish := first.Get("finish_reason")
	out := output{message: message, finish: text(finish)}
	known = known && ok && (finish.Type == gjson.String || finish.Type == gjson.Null)
	if choices.Get("1").Exists() {
		choices.ForEach(func(i, choice gjson.Result) bool {
			if i.Int() > 0 {
				more, ok := chatReply(choice.Get("message"))
				known = known && ok
				if more.Content != "" {
					out.message.Content = strings.TrimPrefix(out.message.Content+"\n"+more.Content, "\n")
				}
				out.message.ToolCalls = append(out.message.ToolCalls, more.ToolCalls...)
			}
			return true
		})
	}
	return out, known
}

// chatReply reads a message of the model. The second result is false where it does not have the form of one.
func chatReply(raw gjson.Result) (Message, bool) {
	known := raw.Type == gjson.Null || raw.IsObject()
	word := func(v gjson.Result) string {
		known = known && (v.Type == gjson.String || v.Type == gjson.Null)
		return text(v)
	}
	message := Message{Role: "assistant"}
	if content := raw.Get("content"); content.IsArray() {
		for _, part := range content.Array() {
			message.Content += word(part.Get("text"))
		}
	} else {
		message.Content = word(content)
	}
	message.Content = cmp.Or(message.Content, word(raw.Get("refusal"))) // a separate field
	calls := raw.Get("tool_calls")
	known = known && (calls.Type == gjson.Null || calls.IsArray())
	for _, call := range calls.Array() {
		message.ToolCalls = append(message.ToolCalls, ToolCall{ID: word(call.Get("id")), Name: word(either(call, "function.name", "custom.name")),
			Arguments: word(either(call, "function.arguments", "custom.input")), Opaque: members(call, "extra_content", "provider_specific_fields")})
	}
	// A provider wants back reasoning it signed always, reasoning in plain text only beside calls, which the model goes
	// on from.
	wanted := [][]string{{"reasoning_details", "thinking_blocks"}, {"reasoning_content"}, {"reasoning"}}
	for i, names := range wanted {
		if message.Opaque == nil && (i == 0 || len(message.ToolCalls) > 0) {
			message.Opaque = members(raw, names...)
		}
	}
	return message, known
}

// maxOpaque bounds what is kept for a provider, in bytes. More is dropped whole: a part of it would be
// worth nothing.
const maxOpaque = 1 << 20

// members returns an object of those members of v that hold something; nil if there are none, or too
// much.
func members(v gjson.Result, names ...string) []byte {
	var out []byte
	for _, name := range names {
		m := v.Get(name)
		if holdsNothing(m) {
			continue
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = append(append(out, `"`+name+`":`...), m.Raw...)
		if len(out) > maxOpaque {
			return nil
		}
	}
	if out == nil {
		return nil
	}
	return whole(append(out, '}'))
}

// whole makes JSON of a server fit to be sent again: nil if it is too large, else valid UTF-8.
func whole(opaque []byte) []byte {
	if len(opaque) > maxOpaque {
		return nil
	}
	return []byte(strings.ToValidUTF8(string(opaque), "\uFFFD"))
}

// holdsNothing reports whether a value is missing, null, false, or empty.
func holdsNothing(v gjson.Result) bool {
	switch v.Type {
	case gjson.JSON:
		found := false
		v.ForEach(func(_, _ gjson.Result) bool { found = true; return false })
		return !found
	case gjson.String:
		return v.Str == ""
	default:
		return v.Type == gjson.Null || v.Type == gjson.False
	}
}
