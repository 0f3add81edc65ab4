package llm

import (
	"slices"

	"github.com/tidwall/gjson"
)

// maxChannels bounds the names that are kept of one answer.
const maxChannels = 16

// channels names what an answer shows of work that the endpoint did on its own: "citations" of
// pages that no one here fetched, "search_results" and "grounding" beside the message, "executed_tools"
// and "server_tool_use", and the items of a response that are neither said, thought nor asked of us,
// by their own type ("web_search_call"). Empty lists and zero counts show nothing.
func channels(top map[string]gjson.Result, message gjson.Result) []string {
	var found []string
	see := func(name string, shows bool) {
		if shows && len(found) < maxChannels && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, sign := range []struct{ name, path string }{
		{"citations", "annotations"},
		{"citations", "citations"},
		{"citations", "provider_specific_fields.citations"},
		{"executed_tools", "executed_tools"},
		{"grounding", "grounding_metadata"},
		{"grounding", "vertex_ai_grounding_metadata"},
		{"search_results", "search_results"},
		{"search_results", "provider_specific_fields.web_search_results"},
	} {
		see(sign.name, !holdsNothing(message.Get(sign.path)) || !holdsNothing(top[sign.path]))
	}
	usage := top["usage"]
	see("server_tool_use", counts(usage.Get("server_tool_use")) || counts(usage.Get("prompt_tokens_details.web_search_requests")))
	see("search_results", counts(usage.Get("num_search_queries")) || counts(usage.Get("num_sources_used")))
	for _, item := range top["output"].Array() {
		switch kind := item.Get("type").Str; kind {
		case "message":
			for _, part := range item.Get("content").Array() {
				see("citations", !holdsNothing(part.Get("annotations")))
			}
		case "reasoning", "function_call", "":
		default:
			see(kind, true)
		}
	}
	return found
}

// counts reports whether a number, or one within, is more than zero.
func counts(v gjson.Result) bool {
	if v.IsObject() {
		more := false
		v.ForEach(func(_, n gjson.Result) bool {
			more = n.Num > 0
			return !more
		})
		return more
	}
	return v.Num > 0
}
