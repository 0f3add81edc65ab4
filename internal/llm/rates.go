package llm

// imageBytes is what a picture counts as: its tokens follow from its size, not from its bytes.
const imageBytes = 4096

// size returns about how many bytes a model reads of the request.
func (r Request) size() int {
	n := len(r.Schema)
	for _, m := range r.Messages {
		n += len(m.Content) + len(m.Opaque)
		for _, call := range m.ToolCalls {
			n += len(call.Name) + len(call.Arguments)
		}
		if m.Image != nil {
			n += imageBytes
		}
	}
	for _, tool := range r.Tools {
		n += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	return n
}
