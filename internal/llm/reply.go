package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// reply is what the client library loses of an answer, and the part of the body it is given.
type reply struct {
	id    string
	model string
	usage Usage
	cost  *int64 // micro-USD, as the endpoint reported it
	body  []byte // {"choices":…}
}

// readReply judges a whole answer. Either it is a JSON object without an error in it, or an *Error
// says what it is.
func readReply(status int, header http.Header, body []byte) (reply, *Error) {
	syntax := checkJSON(body)
	if status < 200 || status > 299 {
		return reply{}, httpError(status, header, body, syntax == nil)
	}
	if syntax != nil {
		return reply{}, unreadable(status, header, body, syntax)
	}
	top := gjson.ParseBytes(body)
	for _, path := range []string{"error", "choices.0.error", "0.error"} {
		if e := top.Get(path); (e.Type == gjson.String && e.Str != "") || (e.IsObject() && len(e.Map()) > 0) {
			wrapped := []byte(`{"error":` + e.Raw + `}`)
			return reply{}, httpError(readFailure(wrapped).realStatus(), header, wrapped, true)
		}
	}
	if !top.IsObject() {
		return reply{}, &Error{Status: status, Code: "invalid_response", Retryable: true, RequestID: requestID(header),
			Message: "the answer is JSON, but not an object"}
	}
	r := reply{
		id:    requestID(header),
		model: top.Get("model").String(),
		usage: readUsage(top.Get("usage")),
		cost:  microUSD(top.Get("usage.cost")),
		body:  choicesOnly(top),
	}
	if r.id == "" {
		r.id = top.Get("id").String()
	}
	return r, nil
}

// choicesOnly keeps what the client library is to decode. Everything else of the answer (usage,
// timestamps, extensions) is either read here or not at all: odd values there must not spoil it.
func choicesOnly(top gjson.Result) []byte {
	choices := top.Get("choices").Raw
	if choices == "" {
		choices = "null"
	}
	return []byte(`{"choices":` + choices + `}`)
}

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

// readUsage reads token counts. Counts that are missing, not whole, negative, absurd or at odds with
// each other make the whole usage unreported. Some endpoints leave reasoning out of
// completion_tokens and show it in total_tokens only: it is output all the same.
func readUsage(u gjson.Result) Usage {
	in, okIn := count(u.Get("prompt_tokens"))
	out, okOut := count(u.Get("completion_tokens"))
	cached, okCached := optionalCount(u.Get("prompt_tokens_details.cached_tokens"))
	reasoning, okReasoning := optionalCount(u.Get("completion_tokens_details.reasoning_tokens"))
	if !okIn || !okOut || !okCached || !okReasoning {
		return Usage{}
	}
	if total, ok := count(u.Get("total_tokens")); ok && total > in+out {
		out = total - in
	}
	usage := Usage{Reported: true, In: in, Out: out, Cached: cached, Reasoning: reasoning}
	if !usage.plausible() {
		return Usage{}
	}
	return usage
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
