package llm

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// unwatched is an Observer that keeps nothing.
type unwatched struct{}

func (unwatched) TryStarted(int) error   { return nil }
func (unwatched) TryCompleted(Try) error { return nil }

// longTalk is a conversation of 40 messages with tool calls and results, about 50 KB, and ten tools.
func longTalk(model string) Request {
	r := Request{Model: model, MaxTokens: 4096, Messages: []Message{
		{Role: "system", Content: strings.Repeat("be brief and careful. ", 60)},
		{Role: "user", Content: "how many of them are there?"},
	}}
	for i := 0; len(r.Messages) < 40; i++ {
		id := fmt.Sprintf("call_%04d", i)
		r.Messages = append(r.Messages,
			Message{Role: "assistant", ToolCalls: []ToolCall{{ID: id, Name: "read_file", Arguments: `{"page":` + fmt.Sprint(i) + `,"path":"list.txt"}`}}},
			Message{Role: "tool", ToolCallID: id, Content: strings.Repeat("a line of \"text\" <with> some & signs\n", 70)})
	}
	for i := range 10 {
		r.Tools = append(r.Tools, ToolSpec{Name: fmt.Sprintf("tool_%d", i), Description: "does one thing and says so",
			Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"of a file"},"page":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}`)})
	}
	return r
}

// BenchmarkChat is what one call costs here, without a network.
func BenchmarkChat(b *testing.B) {
	for api, body := range map[string]string{
		APIChat:      goodBody,
		APIResponses: `{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"forty-two","annotations":[]}]}],"usage":{"input_tokens":100,"output_tokens":20}}`,
	} {
		b.Run(api, func(b *testing.B) {
			c := New(Config{BaseURL: "http://127.0.0.1/v1", API: api, Transport: canned{200, http.Header{"Content-Type": {"application/json"}}, []byte(body)}})
			r := longTalk("test-model")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Chat(context.Background(), r, unwatched{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
