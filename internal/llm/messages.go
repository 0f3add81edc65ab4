package llm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// clientTool matches the types of those of Anthropic's tools that run where the agent does.
var clientTool = regexp.MustCompile(`^(?:bash|text_editor|computer|memory|computer_toolset|browser_toolset)_[0-9]{8}$`)

// messagesTool reports the name of a tool of the Messages API.
func messagesTool(tool gjson.Result) (names []string, runs bool) {
	kind := tool.Get("type").Str
	name := clip(text(tool.Get("name")), maxName)
	if kind != "" && kind != "custom" && !clientTool.MatchString(kind) || kind == "" && name == "" {
		return nil, false
	}
	return []string{cmp.Or(name, kind)}, true
}

// messagesMessages reads the messages of the Messages API.
func (r *asking) messagesMessages(top map[string]gjson.Result) error {
	if system := top["system"]; system.Type != gjson.Null {
		r.content(Message{Role: "system"}, system)
	}
	return eachMessage(top, r.messagesMessage)
}

func (r *asking) messagesMessage(m gjson.Result) {
	top := r.open(m)
	content, known := top["content"], []string{"content", "role"}
	like := Message{Role: top["role"].Str}
	switch like.Role {
	case "assistant":
		r.blockMedia(content)
		r.Messages = append(r.Messages, readContent(content))
	case "system", "user":
	default:
		like.Role, known = RoleOther, known[:1]
	}
	switch {
	case like.Role == "assistant":
	case content.IsArray():
		content.ForEach(func(_, block gjson.Result) bool {
			if block.Get("type").Str != "tool_result" {
				r.part(like, block)
				return true
			}
			top := r.open(block)
			result := Message{Role: "tool", ToolCallID: text(top["tool_use_id"])}
			r.content(result, top["content"])
			r.leave(result, rest(block, top, "type", "tool_use_id", "content", "cache_control"))
			return true
		})
	default:
		r.content(like, content)
	}
	r.leave(like, rest(m, top, known...))
}

// blockMedia withholds what the blocks of a reply, as it was sent back, have the provider fetch. What tools were called
// with, and what they gave, are no blocks of media.
func (r *asking) blockMedia(content gjson.Result) {
	if !content.IsArray() {
		return
	}
	content.ForEach(func(_, block gjson.Result) bool {
		r.open(block)
		if slices.Contains([]string{"image", "document", "container_upload"}, block.Get("type").Str) {
			r.media(block)
		}
		return true
	})
}

// readBlocks reads a message of the Messages API. The second result is false where it does not have the form of one.
func readBlocks(top map[string]gjson.Result) (output, bool) {
	content := top["content"]
	if !content.IsArray() {
		return output{}, false
	}
	out := output{message: readContent(content), finish: text(top["stop_reason"])}
	switch out.finish { // in the words of a chat completion
	case "end_turn", "stop_sequence":
		out.finish = "stop"
	case "max_tokens":
		out.finish = "length"
	case "tool_use":
		out.finish = "tool_calls"
	case "refusal":
		out.finish = "content_filter"
	}
	return out, true
}

// readContent reads what the model said: the text of its blocks, parted by a line break where something else is between
// them, and its calls. Blocks that hold something else are opaque, in their order.
func readContent(content gjson.Result) Message {
	message := Message{Role: "assistant"}
	if !content.IsArray() {
		message.Content = text(content)
		return message
	}
	var said strings.Builder
	var left []string
	parted := false
	content.ForEach(func(_, block gjson.Result) bool {
		switch block.Get("type").Str {
		case "text":
			if parted && said.Len() > 0 {
				said.WriteByte('\n')
			}
			parted = false
			said.WriteString(text(block.Get("text")))
			if rest(block, block.Map(), "type", "text", "cache_control") != nil { // it cites
				left = append(left, block.Raw)
			}
			return true
		case "tool_use":
			call := ToolCall{ID: text(block.Get("id")), Name: text(block.Get("name")), Arguments: text(block.Get("input"))}
			if input := block.Get("input"); input.IsObject() { // endpoints and libraries space and escape it otherwise
				if plain, err := jsontext.AppendFormat(nil, input.Raw, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err == nil {
					call.Arguments = string(plain)
				}
			}
			message.ToolCalls = append(message.ToolCalls, call)
		default:
			left = append(left, block.Raw)
		}
		parted = true
		return true
	})
	message.Content = said.String()
	if left != nil {
		message.Opaque = opaque(array(left))
	}
	return message
}
