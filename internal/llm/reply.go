package llm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// reply is what an answer says.
type reply struct {
	id          string
	model       string
	fingerprint string
	channels    []string
	usage       Usage
	cost        *int64 // micro-USD, as the endpoint reported it
	output      output // of a chat completion or a response
}

// readReply judges a whole answer to a request by one of the interfaces. Either it is a JSON object
// without an error in it, or an *Error says what it is; the reply has its usage then, if there is one. It holds maxValues
// values at most.
func readReply(api string, status int, header http.Header, body []byte, maxValues int) (reply, *Error) {
	syntax := checkJSON(body)
	if status < 200 || status > 299 {
		return reply{}, httpError(status, header, body, syntax == nil)
	}
	if syntax != nil {
		return reply{}, unreadable(status, header, body, syntax)
	}
	values := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	n := 0 // names of members count; a value takes a byte at least
	for ; len(body) > maxValues && n < maxValues; n++ {
		if _, err := values.ReadToken(); err != nil {
			break
		}
	}
	if n == maxValues {
		return reply{}, &Error{Status: status, Code: "response_too_large", RequestID: requestID(header),
			Message: fmt.Sprintf("the answer holds more than %d values", maxValues)}
	}
	answer := gjson.ParseBytes(body)
	for _, path := range []string{"error", "choices.0.error", "0.error"} {
		if e := answer.Get(path); (e.Type == gjson.String || e.IsObject()) && !holdsNothing(e) {
			wrapped := []byte(`{"error":` + e.Raw + `}`)
			usage := answer.Get("usage")
			return reply{id: requestID(header), usage: readUsage(api, usage), cost: reportedCost(usage, header)},
				httpError(readFailure(wrapped).realStatus(), header, wrapped, true)
		}
	}
	invalid := &Error{Status: status, Code: "invalid_response", Retryable: true, RequestID: requestID(header)}
	if !answer.IsObject() {
		invalid.Message = "the answer is JSON, but not an object"
		return reply{}, invalid
	}
	top := answer.Map()
	message := top["choices"].Get("0.message")
	r := reply{
		id:          requestID(header),
		model:       top["model"].String(),
		fingerprint: top["system_fingerprint"].Str,
		channels:    channels(top, message),
		usage:       readUsage(api, top["usage"]),
		cost:        reportedCost(top["usage"], header),
	}
	r.id = cmp.Or(r.id, top["id"].String())
	read, missing := false, ""
	switch state := top["status"].Str; {
	case api == APIChat:
		r.output, read = readChoice(top["choices"])
		missing = "the answer does not have the form of a chat completion"
	case api == APIResponses && slices.Contains([]string{"", "completed", "incomplete"}, state):
		r.output, read = readOutput(top)
		missing = "the answer does not have the form of a response: it has no list of output items"
	case api == DialectMessages:
		r.output, read = readBlocks(top)
		missing = "the answer does not have the form of a message: it has no list of content blocks"
	case api == APIResponses:
		missing = fmt.Sprintf("the response is not there: its status is %q", state)
	default:
		return r, nil
	}
	if !read {
		r.output, invalid.Message = output{}, missing // it may be read in part
		return r, invalid
	}
	return r, nil
}

// maxValues bounds the JSON values of an answer: what holds them takes a hundred times their bytes.
const maxValues = 100_000

// maxPassed bounds the JSON values of a reply to an own agent, which may ask for the probabilities of tokens.
const maxPassed = 2_000_000

// checkJSON reports whether body is one JSON value and nothing else: nil, io.ErrUnexpectedEOF when it
// ends too early, another error otherwise. It bounds nesting, which the field picker does not.
func checkJSON(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := dec.SkipValue(); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// unreadable is the error for a success whose body is not JSON. A body that was meant to be JSON may
// come out whole next time; a page will stay a page.
func unreadable(status int, header http.Header, body []byte, syntax error) *Error {
	media := mediaType(header)
	meant := media == "" || media == "application/json" || strings.HasSuffix(media, "+json") ||
		bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	e := &Error{Status: status, RequestID: requestID(header)}
	switch {
	case !meant:
		e.Code = "not_json"
		e.Message = fmt.Sprintf("the endpoint answers with %s instead of JSON: is the base URL that of a chat completions interface?", media)
	case errors.Is(syntax, io.ErrUnexpectedEOF):
		e.Code, e.Retryable = "truncated_json", true
		e.Message = fmt.Sprintf("the answer ends in the middle, after %d bytes", len(body))
	default:
		e.Code, e.Retryable = "invalid_json", true
		e.Message = "the answer is not valid JSON"
	}
	return e
}

// readUsage reads token counts, by the names of any interface. Counts that are missing, not whole,
// negative, absurd or at odds with each other make the whole usage unreported. Some endpoints leave
// reasoning out of completion_tokens and show it in total_tokens only: it is output all the same.
func readUsage(api string, u gjson.Result) Usage {
	in, okIn := count(either(u, "prompt_tokens", "input_tokens"))
	out, okOut := count(either(u, "completion_tokens", "output_tokens"))
	cached, okCached := optionalCount(either(u, "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens"))
	reasoning, okReasoning := optionalCount(either(u, "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"))
	var written, hour int64
	if api == DialectMessages { // the counts of the cache are beside the input
		var okWritten, okHour bool
		cached, okCached = optionalCount(u.Get("cache_read_input_tokens"))
		written, okWritten = optionalCount(u.Get("cache_creation_input_tokens"))
		hour, okHour = optionalCount(u.Get("cache_creation.ephemeral_1h_input_tokens"))
		reasoning, okReasoning = optionalCount(u.Get("output_tokens_details.thinking_tokens"))
		in, okIn = in+cached+written, okIn && okWritten && okHour && hour <= written
	}
	if !okIn || !okOut || !okCached || !okReasoning {
		return Usage{}
	}
	if total, ok := count(u.Get("total_tokens")); ok && total > in+out {
		out = total - in
	}
	usage := Usage{Reported: true, In: in, Out: out, Cached: cached, Reasoning: reasoning, Written: written - hour, WrittenHour: hour}
	if !usage.plausible() {
		return Usage{}
	}
	return usage
}

// either returns the first of the members that is there.
func either(v gjson.Result, paths ...string) gjson.Result {
	for _, path := range paths {
		if m := v.Get(path); m.Exists() {
			return m
		}
	}
	return gjson.Result{}
}

// count reads a whole number from 0 to maxTokens.
func count(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	return n, err == nil && n >= 0 && n <= maxTokens
}

// optionalCount is count for a field that may be missing or null.
func optionalCount(v gjson.Result) (int64, bool) {
	if v.Type == gjson.Null {
		return 0, true
	}
	return count(v)
}

// costHeader is where a LiteLLM gateway reports what a request cost, in US dollars.
const costHeader = "X-Litellm-Response-Cost"

// reportedCost returns what the endpoint says that a request cost, in micro-USD: usage.cost of the body
// (OpenRouter), else the header of a LiteLLM gateway. nil = neither says it. A header that is repeated or
// is no amount is ignored. So is 0: gateways write it for models whose price they do not know.
func reportedCost(usage gjson.Result, header http.Header) *int64 {
	if cost := microUSD(usage.Get("cost")); cost != nil {
		return cost
	}
	values := header.Values(costHeader)
	if len(values) != 1 || len(values[0]) > maxName {
		return nil
	}
	amount := jsontext.Value(strings.TrimSpace(values[0])) // Python writes floats as JSON does
	if !amount.IsValid() || amount.Kind() != '0' {
		return nil
	}
	cost := microUSD(gjson.ParseBytes(amount))
	if cost == nil || *cost == 0 {
		return nil
	}
	return cost
}

// microUSD reads an amount of US dollars exactly and rounds it up to a whole micro-USD. nil = there is
// none, or none that can be true (negative, or more than 10,000 dollars for one request).
func microUSD(v gjson.Result) *int64 {
	if v.Type != gjson.Number || math.Signbit(v.Num) || v.Num > 10_000 {
		return nil
	}
	cost := int64(1)
	if v.Num >= 1e-9 || v.Num == 0 { // smaller amounts round up to 1; the bound keeps the arithmetic small
		amount, ok := new(big.Rat).SetString(strconv.FormatFloat(v.Num, 'g', -1, 64))
		if !ok {
			return nil
		}
		amount.Mul(amount, big.NewRat(1_000_000, 1))
		quotient, rest := new(big.Int).QuoRem(amount.Num(), amount.Denom(), new(big.Int))
		cost = quotient.Int64()
		if rest.Sign() > 0 {
			cost++
		}
	}
	return &cost
}

// maxChannels bounds the names that are kept of one answer.
const maxChannels = 16

// channels names what an answer shows of work that the endpoint did on its own: "citations" of
// pages that this program did not fetch, "search_results" and "grounding" beside the message, "executed_tools"
// and "server_tool_use", and the items of a response that are neither said, thought nor asked of us,
// by their own type ("web_search_call"), as the blocks of a message. Empty lists and zero counts show nothing.
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
	see("container", !holdsNothing(top["container"]))
	for _, block := range top["content"].Array() { // of the Messages API
		switch kind := block.Get("type").Str; kind {
		case "text":
			for _, citation := range block.Get("citations").Array() { // others are of what the request holds
				see("citations", citation.Get("type").Str == "web_search_result_location")
			}
		case "thinking", "redacted_thinking", "tool_use", "compaction", "":
		default:
			see(kind, true)
		}
	}
	for _, item := range top["output"].Array() {
		switch kind := item.Get("type").Str; kind {
		case "message":
			for _, part := range item.Get("content").Array() {
				see("citations", !holdsNothing(part.Get("annotations")))
			}
		case "reasoning", "compaction", "":
		default:
			if _, calls := itemCall(item); !calls {
				see(kind, true)
			}
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

// ReadAnswer reads a whole answer to a request that asked for a model; the status is that of HTTP. Where the answer is of
// no use but states its usage there is a Response beside the Error, since that was spent all the same. The Error names no
// address and none of the credentials that have a known form; whoever has the key takes it out of the body first.
//
// The Messages API counts what it read from its cache of prompts and what it wrote there beside the input: all of it is
// In, what it read is Cached. What it wrote is Written, and costs as other input where the table has no price for it.
func ReadAnswer(dialect string, status int, header http.Header, body []byte, requested string, prices Prices) (*Response, *Error) {
	r, failed := readReply(dialect, status, header, body, maxPassed)
	if failed == nil {
		response, err := assemble(requested, r, prices, "")
		if err != nil {
			err.shown("")
		}
		return response, err
	}
	if failed.Retryable {
		failed.RetryAfter = cmp.Or(RetryAfter(failed.Status, header, nil), failed.RetryAfter)
	}
	if failed.shown(""); r.usage.Reported || r.cost != nil {
		response, _ := assemble(requested, r, prices, "")
		return response, failed
	}
	return nil, failed
}

// assemble makes a response of a reply to a request for a model.
func assemble(model string, r reply, prices Prices, key string) (*Response, *Error) {
	response := &Response{
		Message:       r.output.message,
		FinishReason:  tidy(r.output.finish, maxName, key),
		RequestID:     tidy(r.id, maxName, key),
		ResponseModel: tidy(r.model, maxName, key),
		Fingerprint:   tidy(r.fingerprint, maxName, key),
		Usage:         r.usage,
		CostMicroUSD:  cmp.Or(r.cost, prices.Cost(model, r.usage)),
	}
	for _, name := range r.channels {
		if name = tidy(name, maxName, key); name != "" {
			response.Channels = append(response.Channels, name)
		}
	}
	slices.Sort(response.Channels)
	response.Channels = slices.Compact(response.Channels)
	if strings.TrimSpace(response.Message.Content) == "" && len(response.Message.ToolCalls) == 0 {
		return response, &Error{Status: http.StatusOK, Code: EmptyCompletion, Retryable: true, RequestID: r.id,
			Message: fmt.Sprintf("the completion has neither content nor tool calls (finish reason %q)", response.FinishReason)}
	}
	return response, nil
}
