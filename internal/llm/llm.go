// Package llm asks models over the OpenAI-compatible HTTP interfaces and does not give up at the first
// hiccup: Client.Chat by chat completions or the Responses API (APIOf says which), Client.Transcribe to
// have a recording written down. A Limiter bounds how many requests an endpoint has at once, by what it
// refuses or at a fixed number, and how many of them and of their tokens it gets a minute. Prices say what
// an answer cost. A Recorder keeps an endpoint's answers on a cassette, from which a Player gives them.
// Own agents send their requests themselves, by these interfaces or Anthropic's Messages API: ReadAsked reads what they
// ask, EditAsked makes the few changes that evidence needs, and ReadAnswer reads the reply, which a Stream gathers while it
// is passed on.
//
// It promises:
//
//   - What is asked is what is sent: temperature is 0 for every model that takes one, empty tool results
//     and empty arguments are sent as empty strings. The body is
//     made once a call and is the same, byte for byte, in every try.
//   - What a provider wants back of a message (Opaque) is sent back as it came; what an endpoint did on
//     its own is named (Channels).
//   - Every request that leaves is announced to an Observer first and reported to it afterwards. An
//     Observer that fails ends the call: what cannot be recorded does not happen.
//   - An *Error reports whether another try can help (Retryable) and whether every other request would
//     fail the same way (Stop). Waits last as long as the server asks for, up to five minutes, after which
//     it is asked again whatever it said; they end with the context.
//   - The API key never occurs in an Error, also when the server echoes it.
//   - Cost is an integer in micro-USD, rounded up; what is not known is nil, never 0.
//
// It refuses: redirects (credentials and prompts would go elsewhere), bodies over a limit, answers
// that are not JSON, and usage that cannot be true. It asks no server to keep a conversation.
//
// TestDialects shows it over loopback HTTP with a conversation of each kind of endpoint, TestFaults and
// TestRequestBody the rest, TestSettles and TestRates the limiter, TestCassette the tapes; FuzzReply
// throws bytes at the seam.
package llm

// Message is one message of a conversation. Role is "system", "user", "assistant" or "tool". Opaque
// is JSON that the provider wants back with the message as it gave it (reasoning it has encrypted or
// signed), at most 1 MiB. It is an object of further members of the message, or
// for the Responses API a list of items; what the other interface gave is not sent. In the request of an own agent
// there is also RoleOther, and any message may have an Opaque, of any size: see ReadAsked.
type Message struct {
	Role       string
	Content    string
	Image      *Image     // of a user message
	ToolCalls  []ToolCall // of an assistant message
	ToolCallID string     // of a tool message: the call it answers
	Opaque     []byte     // of an assistant message
}

// Image is a picture to look at.
type Image struct {
	MediaType string // image/png, image/jpeg, image/gif or image/webp
	Data      []byte
}

// ToolCall is a call the model asks for. Arguments is the text as the model wrote it: it may be
// broken JSON, and ids may be missing or occur twice.
type ToolCall struct {
	ID, Name, Arguments string
	Opaque              []byte // as that of a Message
}

// ToolSpec describes a tool to the model; Parameters is a JSON Schema.
type ToolSpec struct {
	Name, Description string
	Parameters        []byte
}

// Request is what is asked. MaxTokens 0 leaves the limit to the endpoint. With Schema the answer is
// asked for as JSON of that schema (strict), under SchemaName. Extra has further members of the
// request as the endpoint's interface names them, such as stop. With NoCalls the tools are offered, so that the
// request begins as those before it, and none may be called.
type Request struct {
	Model      string
	Messages   []Message
	Tools      []ToolSpec
	NoCalls    bool
	MaxTokens  int
	SchemaName string
	Schema     []byte
	Extra      map[string]any
}

// Usage counts tokens. Cached tokens are part of In, Reasoning tokens part of Out. Written and WrittenHour are part of In,
// too: what the Messages API wrote to its cache of prompts, for minutes or for an hour. Reported is false
// where the endpoint gave no usage, or none that can be true; the counts are 0 then.
type Usage struct {
	Reported                   bool
	In, Out, Cached, Reasoning int64
	Written, WrittenHour       int64
}

// maxTokens bounds each count of a usage: more than any model reads or writes in one request.
const maxTokens = 100_000_000

// plausible reports whether the counts can be those of one request.
func (u Usage) plausible() bool {
	for _, n := range []int64{u.In, u.Out, u.Cached, u.Reasoning, u.Written, u.WrittenHour} {
		if n < 0 || n > maxTokens {
			return false
		}
	}
	return u.Cached+u.Written+u.WrittenHour <= u.In && u.Reasoning <= u.Out
}

// Response is what came back. RequestID is the server's id of the request (header x-request-id or
// request-id, else the id of the body). Fingerprint is the body's system_fingerprint. Channels name,
// sorted, what the endpoint did on its own (searching, running code): what it read is nowhere recorded.
// CostMicroUSD is the cost the endpoint reported, else that of the price table for the requested model;
// nil = unknown.
type Response struct {
	Message       Message
	FinishReason  string
	RequestID     string
	ResponseModel string
	Fingerprint   string
	Channels      []string
	Usage         Usage
	CostMicroUSD  *int64
}

// Try reports one request that was sent. Response is set where an answer could be read, and beside an
// Err where one of no use (empty, an error, not of the form) stated its usage: that was spent all the
// same. LatencyMs is 0 without a clock.
type Try struct {
	Number    int // from 1
	Response  *Response
	Err       *Error
	LatencyMs int64
}

// Observer sees every try around the real request. An error from either method ends the call with
// that error; after one from TryStarted nothing is sent.
type Observer interface {
	TryStarted(number int) error
	TryCompleted(t Try) error
}
