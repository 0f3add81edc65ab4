package llm

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/secret"
	"github.com/tidwall/gjson"
)

// ContextLengthExceeded is the code of a request whose conversation does not fit the model.
const ContextLengthExceeded = "context_length_exceeded"

// ToolsNotSupported is the code of a request that the endpoint refused because it offers tools.
const ToolsNotSupported = "tools_not_supported"

// EmptyCompletion is the code of an answer in which the model says nothing, as filters leave it.
const EmptyCompletion = "empty_completion"

// Error is a failed request, or one that was refused before it was sent. Retryable says that the
// same request may succeed later; Stop says that every other request would fail the same way
// (credentials, quota, a model or an endpoint that is not there), so that the whole run should stop.
//
// Code is the server's own code where it gave one, else one of: "cancelled", "timeout", "transport", "unreachable" (no connection),
// "redirect", "not_json", "truncated_json", "invalid_json", "invalid_response", "response_too_large",
// "empty_completion", "context_length_exceeded", "model_not_found", "tools_not_supported", "responses_api_required",
// "not_a_chat_model", "invalid_request", "invalid_config", "not_recorded", "not_on_cassette",
// "truncated_stream", "invalid_stream", "http_NNN".
type Error struct {
	Status     int // HTTP status, or what a 200 with an error body means; 0 = no answer
	Code       string
	Message    string
	Retryable  bool
	Stop       bool
	Filtered   bool          // a content filter refused what this request says
	RetryAfter time.Duration // what the server asked for; 0 = nothing
	RequestID  string        // the server's id of the failed request, if it gave one
	Hint       string        // what the user can do about it; "" where that is not known

	cause error // context errors only: others may hold what must not be shown
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model request failed: status %d, %s: %s", e.Status, e.Code, e.Message)
	}
	return fmt.Sprintf("model request failed: %s: %s", e.Code, e.Message)
}

// OneRequest reports whether the failure says something about this request alone: its text is too
// long for the model, or a content filter refused it.
func (e *Error) OneRequest() bool { return e.Filtered || e.Code == ContextLengthExceeded }

// Unwrap returns the context's error where the caller's context ended the call.
func (e *Error) Unwrap() error { return e.cause }

// failure is what an error body says, whoever wrote it.
type failure struct {
	message   string
	code      string        // the first of code, type, status that is a word
	number    int           // the first of code, status that is a number
	moderated bool          // one input was refused, not the account
	delay     time.Duration // to wait before another try
}

// readFailure reads the error bodies of the endpoints in use: {"error":{…}} (OpenAI and most),
// [{"error":{…}}] (Google), {"error":"…"} (Ollama), {"message":…,"code":…} (older vLLM),
// {"detail":…} (FastAPI). The body must be valid JSON.
func readFailure(body []byte) failure {
	top := gjson.ParseBytes(body)
	if top.IsArray() {
		top = top.Get("0")
	}
	e := top.Get("error")
	if !e.IsObject() {
		if e.Type == gjson.String && e.Str != "" {
			return failure{message: e.Str, code: word(top.Get("error_type"))}
		}
		e = top
	}
	f := failure{
		moderated: e.Get("metadata.flagged_input").Exists(),
		delay:     span(e.Get("details.#.retryDelay|0").Str), // Google says it here, and in no header
	}
	for _, name := range []string{"message", "detail", "msg"} {
		if v := e.Get(name); v.Exists() && f.message == "" {
			f.message = v.String()
		}
	}
	for _, name := range []string{"code", "type", "status"} {
		v := e.Get(name)
		f.code = cmp.Or(f.code, word(v))
		if n := v.Int(); f.number == 0 && n >= 400 && n <= 599 {
			f.number = int(n)
		}
	}
	return f
}

// word returns a string that is not just a number.
func word(v gjson.Result) string {
	if v.Type != gjson.String || strings.Trim(v.Str, "0123456789") == "" {
		return ""
	}
	return v.Str
}

// realStatus returns the HTTP status that an error in a 200 answer means: the number it names, else
// the one its code is known for, else 500.
func (f failure) realStatus() int {
	if f.number != 0 {
		return f.number
	}
	if strings.HasPrefix(strings.ToLower(f.message), wrongEndpoint) {
		return http.StatusNotFound
	}
	code := strings.ToLower(f.code)
	for _, known := range []struct {
		part   string
		status int
	}{
		{"context_length", http.StatusBadRequest},
		{"rate_limit", http.StatusTooManyRequests},
		{"resource_exhausted", http.StatusTooManyRequests},
		{"insufficient_quota", http.StatusTooManyRequests},
		{"billing", http.StatusPaymentRequired},
		{"api_key", http.StatusUnauthorized},
		{"auth", http.StatusUnauthorized},
		{"permission", http.StatusForbidden},
		{"not_found", http.StatusNotFound},
		{"invalid", http.StatusBadRequest},
		{"bad_request", http.StatusBadRequest},
		{"overloaded", http.StatusServiceUnavailable},
		{"timeout", http.StatusGatewayTimeout},
	} {
		if strings.Contains(code, known.part) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}

// httpError classifies an answer whose status (the real one) is not a success. The body may be
// anything; valid reports whether it is JSON.
func httpError(status int, header http.Header, body []byte, valid bool) *Error {
	var f failure
	if valid {
		f = readFailure(body)
	}
	if f.message == "" { // its status and content type, and the body's beginning unless it is a page
		media := mediaType(header)
		f.message = fmt.Sprintf("%s, with a body of %d bytes (%s)",
			cmp.Or(http.StatusText(status), "unnamed status"), len(body), cmp.Or(media, "no content type"))
		if media == "text/plain" && len(body) > 0 {
			f.message += ": " + string(body[:min(len(body), 64<<10)]) // cut to size only after redaction
		}
	}
	e := &Error{Status: status, Code: f.code, Message: f.message, RequestID: requestID(header)}
	switch lower := strings.ToLower(f.message); {
	case status >= 300 && status < 400:
		e.Code, e.Stop = "redirect", true
		e.Message = fmt.Sprintf("the endpoint redirects to %q; redirects are not followed: set the base URL to the final address", header.Get("Location"))
	case slices.Contains([]string{"insufficient_quota", "account_deactivated", "access_terminated"}, f.code),
		strings.Contains(f.code, "billing"), strings.Contains(lower, "credit balance is too low"):
		e.Stop = true
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired:
		e.Stop = true
	case f.filtered(lower):
		e.Filtered = true
	case status == http.StatusForbidden:
		e.Stop = true
	case containsAny(lower, "only supported in v1/responses", "use /v1/responses", "use v1/responses", "use the responses api"):
		e.Code, e.Stop = "responses_api_required", true
		e.Message = "the model needs the Responses API: ask it with --api responses; the endpoint says: " + f.message
	case strings.Contains(lower, "not a chat model"):
		e.Code, e.Stop = "not_a_chat_model", true
		e.Message = "the model does not do chat completions: it may answer with --api responses; the endpoint says: " + f.message
	case status != http.StatusTooManyRequests && containsAny(lower, toolsRefused...):
		e.Code, e.Stop = ToolsNotSupported, true
		e.Hint = "name a model that calls tools with --model, or start the server with tool calling on (vLLM: --enable-auto-tool-choice and --tool-call-parser; llama.cpp: --jinja)"
	case status == http.StatusNotFound && (f.code == "model_not_found" || f.code == "DeploymentNotFound" || f.code == "not_found_error" && strings.HasPrefix(lower, "model:") || // most servers give no code
		strings.Contains(lower, "model") && containsAny(lower, "not found", "does not exist")):
		e.Code, e.Stop = "model_not_found", true
	case status == http.StatusNotFound:
		// A page, or a router that does not know the path: the base URL is wrong.
		e.Stop = !valid || lower == "not found" || lower == "file not found" || lower == "resource not found" || strings.HasPrefix(lower, "invalid url") || strings.HasPrefix(lower, wrongEndpoint)
	case status != http.StatusTooManyRequests && (f.code == ContextLengthExceeded || f.code == "exceed_context_size_error" ||
		containsAny(lower, tooLong...) || strings.Contains(lower, "token count") && strings.Contains(lower, "exceeds the maximum")):
		e.Code = ContextLengthExceeded
	case slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}, status) || status >= 500:
		e.Retryable, e.RetryAfter = true, f.delay
	}
	e.Code = cmp.Or(e.Code, fmt.Sprintf("http_%d", status))
	return e
}

// wrongEndpoint begins LM Studio's message for a path that it does not know, which comes with status 200.
const wrongEndpoint = "unexpected endpoint or method"

// toolsRefused are said where the model, or the server as it was started, takes no tools. No server has a code for it.
var toolsRefused = []string{
	"does not support tools", "does not support tool", "not support function calling", "found that support tool use",
	"tool choice requires --enable-auto-tool-choice", "tools param requires --jinja", "tool calling is not supported",
	"`tool calling` is not supported", "does not support parameters: ['tools'",
}

// tooLong are said where the conversation no longer fits the model.
var tooLong = []string{
	"maximum context length", "context_length_exceeded", "context length exceeded", "exceeds the context length",
	"exceeds the available context size", "prompt is too long", "context window",
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// pathHint returns the hint for a 404 that is not about the model: a base URL that ends in /v1, and not
// after it. It is "" where the base URL has a version already.
func pathHint(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	base.User = nil
	for _, interfaceOf := range []string{"/chat/completions", "/responses"} {
		if path, found := strings.CutSuffix(strings.TrimRight(base.Path, "/"), interfaceOf); found {
			base.Path = path
			return "the base URL ends before " + interfaceOf + ": try --base-url " + base.String()
		}
	}
	if before, _, found := strings.Cut(base.Path, "/openai/deployments/"); found {
		base.Path = before + "/openai/v1"
		return "this is the earlier interface of Azure, which needs a query: name the deployment by --model and try --base-url " + base.String()
	}
	if regexp.MustCompile(`(?:^|/)v[0-9]`).MatchString(base.Path) {
		return ""
	}
	return "the base URL has no /v1, where most servers answer: try --base-url " + base.JoinPath("v1").String()
}

// filtered reports whether a content filter refused the request. The codes are those of OpenAI and Azure
// (content_filter, content_policy_violation, ResponsibleAIPolicyViolation), LiteLLM
// (ContentPolicyViolationError), OpenRouter (metadata.flagged_input), Google (SAFETY, PROHIBITED_CONTENT,
// RECITATION, BLOCKLIST), Bedrock (guardrail_intervened), Alibaba (data_inspection_failed) and Mistral, Groq
// and xAI (content_moderation); DeepSeek says it in words only.
func (f failure) filtered(lowerMessage string) bool {
	code := strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(f.code))
	return f.moderated || slices.Contains([]string{"safety", "recitation", "blocklist"}, code) ||
		containsAny(code, "contentfilter", "contentpolicy", "responsibleaipolicy", "contentmoderation", "moderationblocked", "guardrail",
			"datainspectionfailed", "prohibitedcontent") ||
		containsAny(lowerMessage, "content management policy", "contentpolicyviolationerror", "content exists risk", "content filter",
			"flagged by our safety", "input data may contain inappropriate content", "violating our usage policy")
}

// mediaType returns the content type without parameters, in lower case; "" if there is none that
// can be read.
func mediaType(header http.Header) string {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media
}

// requestID returns the server's id of the request from the headers: OpenAI and most of those like
// it say x-request-id, Anthropic says request-id.
func requestID(header http.Header) string {
	return cmp.Or(header.Get("X-Request-Id"), header.Get("Request-Id"))
}

// maxMessage and maxName bound what is kept of a server's words, in bytes, and maxTidied
// what is searched for credentials before that.
const (
	maxMessage = 600
	maxName    = 200
	maxTidied  = 64 << 10
)

// clip makes server text fit to be shown and recorded: valid UTF-8, no control characters, at most
// max bytes and never half a character.
func clip(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}

// shown makes an error fit to be shown and recorded.
func (e *Error) shown(key string) *Error {
	e.Code, e.Message, e.RequestID = tidy(e.Code, maxName, key), tidy(e.Message, maxMessage, key), tidy(e.RequestID, maxName, key)
	e.Hint = tidy(e.Hint, maxMessage, key)
	return e
}

// tidy takes the key and other credentials out of server text, then cuts it: half a
// credential is not known for one. Keys of fewer than 8 characters are not secrets but
// placeholders ("none").
func tidy(s string, limit int, key string) string {
	if len(key) >= 8 {
		s = strings.ReplaceAll(s, key, "[redacted]")
	}
	s, _ = secret.Redact(clip(s, maxTidied), "[redacted]")
	return clip(s, limit)
}
