package llm

import "testing"

func TestAPIOf(t *testing.T) {
	const router, own = "https://router.example/api/v1", "https://api.openai.com/v1"
	for _, tc := range []struct{ model, baseURL, want string }{
		{"gpt-5", "", APIResponses},
		{"gpt-5", own, APIResponses},
		{"gpt-5", "https://EU.api.openai.com/v1/", APIResponses},
		{"openai/gpt-5-mini", own, APIResponses},
		{"gpt-5.1-codex", own, APIResponses},
		{"gpt-5.2-pro", own, APIResponses},
		{"gpt-6-sol", own, APIResponses},
		{"gpt-11", own, APIResponses},
		{"o1-pro", own, APIResponses},
		{"o3", own, APIResponses},
		{"o4-mini-2025-04-16", own, APIResponses},
		{"o3-deep-research", own, APIResponses},
		{"codex-mini-latest", own, APIResponses},
		{"computer-use-preview", own, APIResponses},
		{"ft:o4-mini-2025-04-16:acme::abc", own, APIResponses},
		{"gpt-5-chat-latest", own, APIChat},
		{"gpt-5-search-api", own, APIChat},
		{"gpt-4o", own, APIChat},
		{"gpt-4.1", own, APIChat},
		{"gpt-50x", own, APIChat},
		{"gpt-oss-120b", own, APIChat},
		{"olmo-2", own, APIChat},
		{"o1x", own, APIChat},
		{"", own, APIChat},
		{"gpt-5", router, APIChat},
		{"openai/gpt-5-pro", router, APIChat},
		{"gpt-5", "https://api.openai.com.router.example/v1", APIChat},
		{"gpt-5", "https://notapi.openai.com/v1", APIChat},
		{"gpt-5", ":", APIChat},
	} {
		if got := APIOf(tc.model, tc.baseURL); got != tc.want {
			t.Errorf("%q at %q: %s", tc.model, tc.baseURL, got)
		}
	}
}

func TestTakesTemperature(t *testing.T) {
	for model, want := range map[string]bool{
		"gpt-4o": true, "gpt-4.1-mini": true, "gpt-5-chat-latest": true, "gpt-oss-20b": true, "openai/gpt-4o": true, "ft:gpt-4o-2024-08-06:acme::abc": true,
		"claude-3-5-haiku-20241022": true, "claude-sonnet-4-20250514": true, "claude-opus-4-6": true, "claude-sonnet-4@20250514": true, "claude-2.1": true,
		"gemini-3-pro": true, "o200k": true, "": true, "qwen3": true, "claude-x": true,
		"o1": false, "o3-mini": false, "openai/o4-mini": false, "GPT-5": false, "openai/gpt-5:online": false, "gpt-5.1": false, "gpt-6-luna": false, "o4-mini-deep-research": false,
		"gpt-4o-search-preview": false, "gpt-5-search-api": false,
		"claude-opus-4-7": false, "anthropic/claude-opus-4.7": false, "claude-opus-4-8-20270101": false, "claude-opus-5": false, "us.anthropic.claude-opus-4-7-v1:0": false,
	} {
		if got := TakesTemperature(model); got != want {
			t.Errorf("%q: %v", model, got)
		}
	}
}

func TestSeesImages(t *testing.T) {
	for model, want := range map[string]bool{
		"gpt-4o": true, "gpt-4o-mini-2024-07-18": true, "chatgpt-4o-latest": true, "gpt-4.1-nano": true, "gpt-5": true, "gpt-5-chat-latest": true, "gpt-6-sol": true,
		"o1": true, "o3": true, "o4-mini": true, "openai/o3-pro": true, "gpt-4-turbo": true, "gpt-4-vision-preview": true,
		"claude-3-haiku-20240307": true, "claude-opus-4-7": true, "anthropic.claude-3-5-sonnet-20241022-v2:0": true,
		"models/gemini-2.5-flash": true, "gemini-1.5-pro": true, "llava:13b": true, "bakllava": true, "mistralai/Pixtral-12B-2409": true,
		"Qwen/Qwen2.5-VL-72B-Instruct": true, "qwen2.5vl:7b": true, "qwen3-vl:8b": true, "llama3.2-vision:11b": true, "meta-llama/Llama-3.2-11B-Vision-Instruct": true,
		"meta-llama/llama-4-maverick": true, "llama4:scout": true, "google/gemma-3-27b-it": true, "gemma3:4b": true, "minicpm-v:8b": true,
		"mistral-small-3.1-24b-instruct": true, "mistral-small-2503": true, "grok-4": true, "x-ai/grok-4-fast": true, "grok-2-vision-1212": true, "microsoft/phi-4-multimodal-instruct": true,
		"gpt-4": false, "gpt-3.5-turbo": false, "gpt-4o-audio-preview": false, "gpt-4o-transcribe": false, "gpt-4o-search-preview": false, "gpt-4-0613": false, "gpt-oss-120b": false,
		"o1-mini": false, "o3-mini-2025-01-31": false, "claude-2.1": false, "claude-instant-1.2": false, "gemini-pro": false, "gemini-embedding-001": false,
		"qwen3:8b": false, "qwen-vlad": false, "llama-3.2-3b-instruct": false, "gemma3:1b": false, "gemma-2-9b-it": false, "mistral-small-24b-instruct-2501": false,
		"grok-3": false, "deepseek-chat": false, "supervision-7b": false, "": false,
	} {
		if got := SeesImages(model); got != want {
			t.Errorf("%q: %v", model, got)
		}
	}
}

func TestServerSide(t *testing.T) {
	for model, want := range map[string]string{
		"openai/gpt-5:online":                     `model "openai/gpt-5:online" searches the web on its own (online)`,
		"perplexity/llama-3.1-sonar-large-online": `model "perplexity/llama-3.1-sonar-large-online" searches the web on its own (online)`,
		"gpt-4o-search-preview-2025-03-11":        `model "gpt-4o-search-preview-2025-03-11" searches the web on its own`,
		"GPT-5-search-api":                        `model "GPT-5-search-api" searches the web on its own`,
		"sonar":                                   `model "sonar" searches the web on its own`,
		"perplexity/sonar-pro":                    `model "perplexity/sonar-pro" searches the web on its own`,
		"sonar-deep-research":                     `model "sonar-deep-research" searches and reads the web on its own`,
		"o3-deep-research":                        `model "o3-deep-research" searches and reads the web on its own`,
		"jina-deepsearch-v1":                      `model "jina-deepsearch-v1" searches and reads the web on its own`,
		"groq/compound-mini":                      `model "groq/compound-mini" searches the web and runs code on its own`,
		"compound-beta":                           `model "compound-beta" searches the web and runs code on its own`,
		"computer-use-preview":                    `model "computer-use-preview" is made to act on a computer of the provider's tools`,
		"gemini-2.5-computer-use-preview-10-2025": `model "gemini-2.5-computer-use-preview-10-2025" is made to act on a computer of the provider's tools`,
		"gpt-4o":                              "",
		"gpt-5":                               "",
		"openai/gpt-5:free":                   "",
		"my-sonar-7b":                         "",
		"sonarqube-helper":                    "",
		"searchlight-7b":                      "",
		"claude-research-preview":             "",
		"alibaba/tongyi-deepresearch-30b-a3b": "",
		"compounder-7b":                       "",
		"acme/onlineness":                     "",
		"":                                    "",
	} {
		if got := ServerSide(model); got != want {
			t.Errorf("%q: %q", model, got)
		}
	}
}
