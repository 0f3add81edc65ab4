package prompt

// What models are asked before the first task of a run, and the tool that one of
// them is asked to call. A gauge is read by no model that does not call it.
const (
	PreflightQuestion = "Reply with the word ready."
	PreflightLook     = "Which colour is this picture? Reply with one word."
	PreflightToolCall = "What does the water gauge called mill read now? Call the tool read_gauge to find out."
	PreflightTool     = "read_gauge"
)
