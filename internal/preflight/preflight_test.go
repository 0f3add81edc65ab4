package preflight

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// scripted answers each request with the next of its tries.
type scripted struct {
	tries [][]llm.Try // of each request
	asked []llm.Request
}

func (s *scripted) Chat(_ context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	s.asked = append(s.asked, r)
	tries := s.tries[0]
	s.tries = s.tries[1:]
	for i, t := range tries {
		if err := o.TryStarted(i + 1); err != nil {
			return llm.Response{}, err
		}
		t.Number = i + 1
		if err := o.TryCompleted(t); err != nil {
			return llm.Response{}, err
		}
		if t.Err == nil {
			return *t.Response, nil
		}
		if !t.Err.Retryable {
			return llm.Response{}, t.Err
		}
	}
	return llm.Response{}, tries[len(tries)-1].Err
}

func (s *scripted) Transcribe(ctx context.Context, t llm.Transcription, o llm.Observer) (llm.Transcript, error) {
	r, err := s.Chat(ctx, llm.Request{Model: t.Model}, o)
	return llm.Transcript{Text: r.Message.Content}, err
}

func says(text string, calls ...llm.ToolCall) llm.Try {
	return llm.Try{Response: &llm.Response{Message: llm.Message{Role: "assistant", Content: text, ToolCalls: calls}, RequestID: "req-" + text,
		ResponseModel: "m-1", Usage: llm.Usage{Reported: true, In: 10, Out: 2}, CostMicroUSD: new(int64(7))}}
}

func fails(e llm.Error) llm.Try { return llm.Try{Err: &e} }

// TestProbes: all models are asked, within 6 requests, in short texts, without
// anything that forces a call.
func TestProbes(t *testing.T) {
	gauge := llm.ToolCall{ID: "c1", Name: prompt.PreflightTool, Arguments: `{"name":"mill"}`}
	s := &scripted{tries: [][]llm.Try{{says("ready")}, {says("", gauge)}, {says("212 cm")}, {says(`{"verdict":"incorrect"}`)}, {says("blue")}, {says("tone")}}}
	m := Models{Model: Model{s, "answers"}, Tools: true, Judge: &Model{s, "judges"}, Vision: &Model{s, "looks"}, Transcription: &Hearing{s, "hears"}, MaxTokens: 90}
	var kinds []string
	for _, p := range m.Probes() {
		r := p.Run(t.Context())
		if r.Err != nil || r.Stops() || r.ResponseModel != "m-1" || r.CostMicroUSD == nil || *r.CostMicroUSD != int64(7*r.Requests) || r.Usage.In != int64(10*r.Requests) || !r.Usage.Reported {
			t.Errorf("%s: %+v", p.Kind, r)
		}
		if (r.Tool == trajectory.ToolCalled) != (p.Kind == trajectory.PreflightTools) || (r.Verdict.Judged != nil) != (p.Kind == trajectory.PreflightJudge) {
			t.Errorf("%s: tool %q, verdict %+v", p.Kind, r.Tool, r.Verdict)
		}
		kinds = append(kinds, p.Kind)
	}
	if want := []string{"model", "tools", "judge", "vision", "transcription"}; !slices.Equal(kinds, want) || len(s.asked) != 6 {
		t.Errorf("asked %v in %d requests", kinds, len(s.asked))
	}
	result := s.asked[2].Messages
	if len(result) != 3 || result[1].ToolCalls[0].ID != gauge.ID || result[2].Role != "tool" || result[2].ToolCallID != "c1" || result[2].Content == "" {
		t.Errorf("the result was sent back in %+v", result)
	}
	for i, r := range s.asked[:5] {
		text := 0
		for _, m := range r.Messages {
			text += len(m.Content)
		}
		if r.MaxTokens != 90 || i != 3 && text > 200 {
			t.Errorf("request %d: %d tokens, %d bytes", i, r.MaxTokens, text)
		}
	}
	if image := s.asked[4].Messages[0].Image; image == nil || len(image.Data) > 1000 || !strings.HasPrefix(string(image.Data), "\x89PNG") {
		t.Errorf("picture %+v", image)
	}
}

// TestStops: what speaks against the run, and what does not.
func TestStops(t *testing.T) {
	other := llm.ToolCall{ID: "c1", Name: "grind", Arguments: `{}`}
	broken := llm.ToolCall{ID: "c1", Name: prompt.PreflightTool, Arguments: `{"name":`}
	for _, tt := range []struct {
		name     string
		tools    bool
		tries    []llm.Try
		stops    bool
		requests int
		tool     string
		unpaid   bool // the cost is not known
	}{
		{"unknown model", false, []llm.Try{fails(llm.Error{Status: 400, Code: "http_400"})}, true, 1, "", false},
		{"wrong key", false, []llm.Try{fails(llm.Error{Status: 401, Code: "invalid_api_key", Stop: true})}, true, 1, "", false},
		{"pages in place of replies", false, []llm.Try{fails(llm.Error{Status: 200, Code: "not_json"})}, true, 1, "", true},
		{"replies that end early", false, []llm.Try{fails(llm.Error{Status: 200, Code: "truncated_json", Retryable: true}), fails(llm.Error{Status: 200, Code: "truncated_json", Retryable: true})}, true, 2, "", true},
		{"busy, then there", false, []llm.Try{fails(llm.Error{Status: 429, Code: "rate_limit_exceeded", Retryable: true}), says("ready")}, false, 2, "", false},
		{"away", false, []llm.Try{fails(llm.Error{Code: "unreachable", Retryable: true}), fails(llm.Error{Code: "unreachable", Retryable: true})}, false, 2, "", false},
		{"down", false, []llm.Try{fails(llm.Error{Status: 503, Code: "http_503", Retryable: true})}, false, 1, "", false},
		{"a filter", false, []llm.Try{fails(llm.Error{Status: 400, Code: "content_filter", Filtered: true})}, false, 1, "", false},
		{"no room", false, []llm.Try{fails(llm.Error{Status: 400, Code: llm.ContextLengthExceeded})}, false, 1, "", false},
		{"says nothing", false, []llm.Try{{Response: says("").Response, Err: &llm.Error{Status: 200, Code: llm.EmptyCompletion, Retryable: true}}, says("ready")}, false, 1, "", false},
		{"calls no tool", true, []llm.Try{says("I cannot know.")}, false, 1, trajectory.ToolNone, false},
		{"calls another tool", true, []llm.Try{says("", other)}, false, 1, trajectory.ToolOther, false},
		{"calls the tool with half an object", true, []llm.Try{says("", broken)}, false, 1, trajectory.ToolOther, false},
		{"no tools are taken", true, []llm.Try{fails(llm.Error{Status: 400, Code: "http_400"})}, true, 1, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Models{Model: Model{&scripted{tries: [][]llm.Try{tt.tries}}, "answers"}, Tools: tt.tools}
			probes := m.Probes()
			r := probes[len(probes)-1].Run(t.Context())
			if r.Stops() != tt.stops || r.Requests != tt.requests || r.Tool != tt.tool || (r.CostMicroUSD == nil) != tt.unpaid {
				t.Errorf("stops %v, %+v", r.Stops(), r)
			}
		})
	}
}

// TestResultRefused: a server that takes a call and not its result is found.
func TestResultRefused(t *testing.T) {
	s := &scripted{tries: [][]llm.Try{{says("", llm.ToolCall{ID: "c1", Name: prompt.PreflightTool, Arguments: `{"name":"mill"}`})}, {fails(llm.Error{Status: 422, Code: "http_422"})}}}
	r := Models{Model: Model{s, "answers"}, Tools: true}.Probes()[1].Run(t.Context())
	var failed *llm.Error
	if !r.Stops() || r.Tool != trajectory.ToolCalled || r.Requests != 2 || !errors.As(r.Err, &failed) || failed.Status != 422 {
		t.Errorf("%+v", r)
	}
}
