package llm

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	openai "github.com/sashabaranov/go-openai"
)

// assemble puts together what the library decoded and what it lost.
func (c *Client) assemble(model string, completion openai.ChatCompletionResponse, r reply) (Response, *Error) {
	response := Response{
		Message:       Message{Role: openai.ChatMessageRoleAssistant},
		RequestID:     c.tidy(r.id, maxName),
		ResponseModel: c.tidy(r.model, maxName),
		Usage:         r.usage,
		CostMicroUSD:  r.cost,
	}
	if response.CostMicroUSD == nil {
		response.CostMicroUSD = c.config.Prices.Cost(model, r.usage)
	}
	if len(completion.Choices) > 0 {
		choice := completion.Choices[0]
		response.FinishReason = c.tidy(string(choice.FinishReason), maxName)
		response.Message.Content = choice.Message.Content
		for _, part := range choice.Message.MultiContent {
			response.Message.Content += part.Text
		}
		if response.Message.Content == "" {
			response.Message.Content = choice.Message.Refusal // said in a field of its own
		}
		for _, call := range choice.Message.ToolCalls {
			response.Message.ToolCalls = append(response.Message.ToolCalls, ToolCall{
				ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
			})
		}
	}
	if strings.TrimSpace(response.Message.Content) == "" && len(response.Message.ToolCalls) == 0 {
		return response, &Error{Status: http.StatusOK, Code: "empty_completion", Retryable: true, RequestID: r.id,
			Message: fmt.Sprintf("the completion has neither content nor tool calls (finish reason %q)", response.FinishReason)}
	}
	return response, nil
}

// compose turns a request into the library's. Temperature is the smallest number the library does
// not drop: it lets the library refuse models that take none, and the exchange sends 0 for it.
func compose(r Request) (openai.ChatCompletionRequest, *Error) {
	request := openai.ChatCompletionRequest{Model: r.Model, MaxTokens: r.MaxTokens, Temperature: math.SmallestNonzeroFloat32}
	for _, m := range r.Messages {
		message := openai.ChatCompletionMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
		for _, call := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, openai.ToolCall{
				ID: call.ID, Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: call.Name, Arguments: call.Arguments},
			})
		}
		request.Messages = append(request.Messages, message)
	}
	for _, t := range r.Tools {
		schema := jsontext.Value(t.Parameters)
		if !schema.IsValid() {
			return request, &Error{Code: "invalid_request", Stop: true, Message: fmt.Sprintf("the parameters of tool %q are not JSON", t.Name)}
		}
		request.Tools = append(request.Tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Description, Parameters: schema,
		}})
	}
	if len(r.Schema) > 0 {
		schema := jsontext.Value(r.Schema)
		if !schema.IsValid() {
			return request, &Error{Code: "invalid_request", Stop: true, Message: fmt.Sprintf("schema %q is not JSON", r.SchemaName)}
		}
		request.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: r.SchemaName, Schema: schema, Strict: true},
		}
	}
	return request, nil
}

// refusal explains why the library did not send a request.
func refusal(model string, err error) *Error {
	e := &Error{Code: "invalid_request", Stop: true, Message: err.Error()}
	for _, needsResponses := range []error{
		openai.ErrReasoningModelLimitationsOther, openai.ErrReasoningModelMaxTokensDeprecated,
		openai.ErrReasoningSamplingUnsupported, openai.ErrReasoningToolsRequireResponses,
	} {
		if errors.Is(err, needsResponses) {
			e.Code = "responses_api_required"
			e.Message = fmt.Sprintf("model %q needs the Responses API, which this version does not speak yet", model)
		}
	}
	if errors.Is(err, openai.ErrChatCompletionInvalidModel) {
		e.Code, e.Message = "not_a_chat_model", fmt.Sprintf("model %q does not do chat completions", model)
	}
	return e
}
