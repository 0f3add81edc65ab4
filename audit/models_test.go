package audit

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestDeclaresModel: which names in a reply are those of a planned model.
func TestDeclaresModel(t *testing.T) {
	tests := []struct {
		planned, model string
		servedAs       []string
		want           bool
	}{
		{"sample-4o", "sample-4o", nil, true},
		{"sample-4o", "Sample-4O", nil, true},
		{"sample-4o", "sample-4o-2024-08-06", nil, true},
		{"sample-4o", "sample-4o-20240806", nil, true},
		{"sample-4o", "sample-4o-202408-06", nil, false},
		{"sample-4o", "sample-4o-2024-0806", nil, false},
		{"sample-4o", "sample-4o-2024-08", nil, false},
		{"sample-4o", "sample-4o-20241306", nil, false},
		{"sample-4o", "sample-4o-20240832", nil, false},
		{"sample-4o", "sample-4o-19990806", nil, false},
		{"sample-4o", "sample-4o-2024-08-06-mini", nil, false},
		{"sample-4o", "sample-4o-2024-08-06-2024-08-06", nil, false},
		{"sample-4o", "sample-4o-mini", nil, false},
		{"sample-4o", "sample-4o-mini-2024-08-06", nil, false},
		{"sample-4o", "sample-4", nil, false},
		{"sample-4o", "", nil, false},
		{"sample-4o-2024-08-06", "sample-4o", nil, false},
		{"sample-4o-2024-08-06", "sample-4o-2024-11-20", nil, false},
		{"sample-4o-latest", "sample-4o-2024-11-20", nil, true},
		{"sample-4o-latest", "sample-4o-mini-2024-11-20", nil, false},
		{"maker/sample-4o", "sample-4o", nil, true},
		{"maker/sample-4o", "sample-4o-2024-08-06", nil, true},
		{"maker/sample-4o", "4o", nil, false},
		{"gateway/maker/sample-4o", "maker/sample-4o", nil, true},
		{"sample-4o", "tuner/sample-4o", nil, true},
		{"maker/sample-4o", "tuner/sample-4o", nil, false},
		{"maker/sample-4o:free", "sample-4o", nil, true},
		{"maker/sample-4o:free", "maker/sample-4o:free", nil, true},
		{"maker/sample-4o", "maker/sample-4o:nitro", nil, true},
		{"sample:8b", "sample:8b", nil, true},
		{"sample:8b", "sample:70b", nil, false},
		{"sample:8b", "sample", nil, false},
		{"sample", "sample:70b", nil, false},
		{"sample-4o-mini", "sample-4o", nil, false},
		{"sample-4o", "sample-4o-turbo", nil, false},
		{"sample-4o", "sample-4o-preview", nil, false},
		{"sample-4o", "sample-4o-1106-preview", nil, false},
		{"sample-4o", "sample-4o-1", nil, false},
		{"sample-4o", "sample-4o-405", nil, false},
		{"sample-4o", "sample-4o-0613", nil, true},
		{"sample-4o", "sample-4o-1332", nil, false},
		{"sample-4o-0613", "sample-4o-1106", nil, false},
		{"sample-4-1", "sample-4.5", nil, false},
		{"sample-2.5-flash", "sample-2.5-flash-001", nil, true},
		{"sample-2.5-flash-001", "sample-2.5-flash-002", nil, false},
		{"sample-large-latest", "sample-large-2411", nil, true},
		{"sample-large-latest", "sample-small-2411", nil, false},
		{"sample-large-latest", "sample-large-08-2024", nil, true},
		{"sample-sonnet-4-0", "sample-sonnet-4-20250514", nil, true},
		{"sample-sonnet-4-0", "sample-sonnet-4-5-20250514", nil, false},
		{"sample-3.5-sonnet", "sample-3-5-sonnet-20241022", nil, true},
		{"sample-3.5-sonnet", "sample-3-7-sonnet-20241022", nil, false},
		{"sample-sonnet@20241022", "sample-sonnet-20241022", nil, true},
		{"eu.maker.sample-v1:0", "us.maker.sample-v1:0", nil, false},
		{"maker/sample-v1", "sample", nil, false},
		{"my-deployment", "sample-4o-2024-08-06", nil, false},
		{"my-deployment", "sample-4o-2024-08-06", []string{"sample-4o"}, true},
		{"my-deployment", "sample-4o-mini", []string{"sample-4o"}, false},
		{"my-deployment", "my-deployment", []string{"sample-4o"}, true},
		{"my-deployment", "/", nil, false},
		{"my-deployment", "model.safetensors", nil, false},
		{"sample-7b-instruct", "Sample-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"sample-7b-instruct", "sample-7b-instruct.Q8_0.gguf", nil, true},
		{"sample-7b-instruct", "/models/Sample-7B-Instruct-IQ2_XS.gguf", nil, true},
		{"sample-7b-instruct", `C:\models\bob\Sample-7B-Instruct-f16.gguf`, nil, true},
		{"sample-7b-instruct", "./models/sample-7b-instruct.i1-q4_k_m.gguf", nil, true},
		{"sample-7b-instruct", "Sample-7B-Instruct-UD-Q4_K_XL-00001-of-00002.gguf", nil, true},
		{"sample-7b-instruct", "bob/Sample-7B-Instruct-GGUF/Sample-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"sample-7b-instruct", "hf.co/bob/Sample-7B-Instruct-GGUF:Q4_K_M", nil, true},
		{"maker/sample-7b-instruct", "hf.co/bob/Sample-7B-Instruct-GGUF:Q4_K_M", nil, true},
		{"sample-7b-instruct", "sample-7b-instruct@q4_k_m", nil, true},
		{"sample-7b-instruct", "Maker_Sample-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"maker/sample-7b-instruct", "Maker_Sample-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"maker/sample-7b-instruct", "tuner_Sample-7B-Instruct-Q4_K_M.gguf", nil, false},
		{"maker_sample", "maker_sample.gguf", nil, true},
		{"llama-3-8b", "/models/llama-3-8b.Q8_0.gguf", nil, true},
		{"llama-3-8b-instruct", "Meta-Llama-3-8B-Instruct.Q8_0.gguf", nil, true},
		{"sample-7b-instruct", "/models/Sample-7B-Instruct/model.safetensors", nil, true},
		{"sample-7b-instruct", "/models/Sample-7B-Instruct/model-00001-of-00004.safetensors", nil, true},
		{"sample-7b-instruct", "/root/.cache/huggingface/hub/models--Maker--Sample-7B-Instruct/snapshots/0123456789012345678901234567890123456789", nil, true},
		{"tuner/sample-7b-instruct", "/root/.cache/huggingface/hub/models--Maker--Sample-7B-Instruct/snapshots/0123456789012345678901234567890123456789", nil, false},
		{"sample-7b-instruct", "/models/Sample-7B-Instruct/", nil, true},
		{"sample2.5-7b-instruct", "sample2.5:7b", nil, true},
		{"sample2.5:7b", "Sample2.5-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"sample2.5:7b", "sample2.5:7b-instruct-q4_K_M", nil, true},
		{"sample-7b-instruct-q4_k_m", "Sample-7B-Instruct-Q4_K_M.gguf", nil, true},
		{"sample-7b-instruct-q8_0", "Sample-7B-Instruct-Q2_K.gguf", nil, false},
		{"sample-7b-instruct", "Sample-14B-Instruct-Q4_K_M.gguf", nil, false},
		{"sample-7b-instruct", "Other-7B-Instruct-Q4_K_M.gguf", nil, false},
		{"sample-7b-instruct", "/models/Sample-7B-Instruct-Uncensored.Q8_0.gguf", nil, false},
		{"sample-7b-instruct", "sample-7b-base.gguf", nil, false},
		{"sample2.5-7b-instruct", "sample2.5:14b", nil, false},
		{"sample2.5-7b-instruct", "sample2.5:7b-base", nil, false},
		{"sample-7b-instruct", "/models/other/model.safetensors", nil, false},
	}
	for _, tt := range tests {
		if got := Declares(plan.ModelPlan{Name: "another", ServedAs: tt.servedAs}, tt.model, tt.planned); got != tt.want {
			t.Errorf("%q for the planned %q, served as %q: %v", tt.model, tt.planned, tt.servedAs, got)
		}
	}
}

// TestOneModel: either of two names is declared by the other.
func TestOneModel(t *testing.T) {
	for _, pair := range [][2]string{
		{"gpt-4o", "openai/gpt-4o"}, {"gemini-2.5-flash", "models/gemini-2.5-flash"}, {"google/gemini-2.5-flash", "models/gemini-2.5-flash"},
		{"llama3.1", "llama3.1:latest"}, {"sample", "/models/sample"}, {"org/sample", "/models/sample"}, {"sample", "org/sample"}, {"sample", "/srv/data/other/sample"},
		{"claude-3.5-sonnet", "claude-3-5-sonnet"}, {"claude-3-5-sonnet-20241022", "us.anthropic.claude-3-5-sonnet-20241022-v2:0"},
		{"anthropic/claude-sonnet-4-20250514", "eu.anthropic.claude-sonnet-4-20250514-v1:0"}, {"gpt-4o-2024-08-06", "openai/gpt-4o-20240806"},
		{"mistral-large", "mistral-large-latest"}, {"Org/Sample", "sample"},
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if !Declares(plan.ModelPlan{}, p[1], p[0]) {
				t.Errorf("%q for the planned %q is another model", p[1], p[0])
			}
		}
	}
	for _, pair := range [][2]string{
		{"gpt-4o", "gpt-4o-mini"}, {"openai/gpt-4o", "gpt-4o-mini"}, {"gpt-4", "gpt-4-turbo"}, {"gpt-4.1", "gpt-4"}, {"gemini-2.5-flash", "models/gemini-2.5-pro"},
		{"gemini-2.5-flash", "gemini-2.5-flash-lite"}, {"gemini-2.5-flash", "gemini-2.5-flash-preview"}, {"llama3.1", "llama3.2:latest"}, {"llama3.1:8b", "llama3.1:70b"},
		{"maker/sample", "tuner/sample"}, {"mistral-large-latest", "mistral-small-latest"}, {"anthropic.claude-3-haiku-v1:0", "anthropic.claude-3-opus-v1:0"},
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if Declares(plan.ModelPlan{}, p[1], p[0]) {
				t.Errorf("%q for the planned %q is the same model", p[1], p[0])
			}
		}
	}
}

// TestModelsOfTools: the models that tools ask are looked at like the agent's, but
// that their endpoints may name no model.
func TestModelsOfTools(t *testing.T) {
	tests := []struct {
		name, model, request string
		undeclared, missing  bool
	}{
		{"as planned", "sample-hearing", "hear-2", false, false},
		{"a release", "sample-hearing-2026-01-15", "hear-2", false, false},
		{"another one", "sample-model", "hear-2", true, false},
		{"none named", "", "hear-2", false, false},
		{"no request", "sample-hearing", "", false, true},
	}
	for _, tt := range tests {
		k := newTalk()
		k.g.e.Manifest.Transcription, k.g.e.Manifest.Tools = &plan.TranscriptionPlan{Model: "sample-hearing"}, []plan.ToolPlan{{Name: "transcribe_audio"}}
		k.g.e.Manifest.Model.Name = "sample-model"
		for i, use := range []trajectory.ModelUse{{ResponseModel: "sample-hearing", RequestID: "hear-1"}, {ResponseModel: tt.model, RequestID: tt.request}} {
			use.RequestedModel, use.Tries = "sample-hearing", 1
			c := trajectory.SentCall{Arguments: "{}", ID: string(rune('1' + i)), Name: "transcribe_audio"}
			k.ask(trajectory.SentMessage{Role: "assistant", ToolCalls: []trajectory.SentCall{c}}, nil)
			k.call(c, "words", func(p *trajectory.ToolExecuted) { p.Model = &use })
		}
		export := &UsageExport{Requests: []ExportedRequest{{In: 1}}}
		for _, c := range runChecks(k.g.e, Options{Usage: export}).Checks {
			if got := says(c, "answered transcribe_audio"); c.ID == "AUD-14" && got != tt.undeclared {
				t.Errorf("%s: another model is %v: %v", tt.name, got, c.Findings)
			}
			if got := says(c, "replies to transcribe_audio have no id"); c.ID == "AUD-13" && got != tt.missing {
				t.Errorf("%s: a missing id is %v: %v", tt.name, got, c.Findings)
			}
		}
	}
}

// TestUnheard: which failed tries an endpoint may have answered and been paid for.
func TestUnheard(t *testing.T) {
	tests := []struct {
		name string
		err  *trajectory.CallError
		want bool
	}{
		{"no word of it", nil, true},
		{"cut off", &trajectory.CallError{}, true},
		{"unreachable", &trajectory.CallError{Code: trajectory.Unreachable}, false},
		{"not to be read", &trajectory.CallError{Status: 200}, true},
		{"refused", &trajectory.CallError{Status: 400}, false},
		{"too often", &trajectory.CallError{Status: 429}, false},
		{"gateway", &trajectory.CallError{Status: 504}, true},
	}
	for _, tt := range tests {
		if got := unheard(tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
