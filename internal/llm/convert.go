package llm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	openai "github.com/sashabaranov/go-openai"
)

// prepared is a request as it will be sent, however often.
type prepared struct {
	model string
	api   string // APIChat or APIResponses
	size  int    // about how many bytes a model reads of it
	body  []byte
}

// compose gives a request the form of the interface it goes by.
func (c *Client) compose(r Request) (prepared, *Error) {
	p := prepared{model: r.Model, api: c.config.API, size: r.size()}
	if p.api == "" {
		p.api = APIOf(r.Model, c.config.BaseURL)
	}
	for _, t := range r.Tools {
		if !jsontext.Value(t.Parameters).IsValid() {
			return p, unsendable("the parameters of tool %q are not JSON", t.Name)
		}
	}
	if len(r.Schema) > 0 && !jsontext.Value(r.Schema).IsValid() {
		return p, unsendable("schema %q is not JSON", r.SchemaName)
	}
	var body any
	if p.api == APIResponses {
		body = responsesRequest(r)
	} else {
		body = chatRequest(r)
	}
	var err error
	// What a provider gave is sent back as it is, odd as it may be.
	p.body, err = json.Marshal(body, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return p, unsendable("the request cannot be put into JSON: %v", err)
	}
	return p, nil
}

func unsendable(format string, args ...any) *Error {
	return &Error{Code: "invalid_request", Stop: true, Message: fmt.Sprintf(format, args...)}
}

// assemble puts together what the library decoded and what it lost.
func (c *Client) assemble(p prepared, completion openai.ChatCompletionResponse, r reply) (Response, *Error) {
	message, finish := r.output.message, r.output.finish
	if p.api != APIResponses {
		message, finish = readChoice(completion, r.message)
	}
	response := Response{
		Message:       message,
		FinishReason:  c.tidy(finish, maxName),
		RequestID:     c.tidy(r.id, maxName),
		ResponseModel: c.tidy(r.model, maxName),
		Fingerprint:   c.tidy(r.fingerprint, maxName),
		Usage:         r.usage,
		CostMicroUSD:  r.cost,
	}
	for _, name := range r.channels {
		if name = c.tidy(name, maxName); name != "" {
			response.Channels = append(response.Channels, name)
		}
	}
	slices.Sort(response.Channels)
	response.Channels = slices.Compact(response.Channels)
	if response.CostMicroUSD == nil {
		response.CostMicroUSD = c.config.Prices.Cost(p.model, r.usage)
	}
	if strings.TrimSpace(message.Content) == "" && len(message.ToolCalls) == 0 {
		return response, &Error{Status: http.StatusOK, Code: EmptyCompletion, Retryable: true, RequestID: r.id,
			Message: fmt.Sprintf("the completion has neither content nor tool calls (finish reason %q)", response.FinishReason)}
	}
	return response, nil
}
