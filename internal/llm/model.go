package llm

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The interfaces that a model can be asked by.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// APIOf returns the interface by which a model must be asked at an endpoint ("" = api.openai.com).
// APIResponses is only for OpenAI's own host, and there for the models that think or act by it alone:
// chat is what every compatible endpoint has, also for models of those names.
func APIOf(model, baseURL string) string {
	name := plainName(model)
	base, err := url.Parse(cmp.Or(strings.TrimSpace(baseURL), defaultBaseURL))
	if err != nil {
		return APIChat
	}
	host := strings.ToLower(base.Hostname())
	if host != "api.openai.com" && !strings.HasSuffix(host, ".api.openai.com") || slices.Contains(words(name), "search") {
		return APIChat // models that search are asked by chat alone
	}
	if reasons(name) || strings.HasPrefix(name, "computer-use") {
		return APIResponses
	}
	return APIChat
}

// TakesTemperature reports, by its name, whether a model takes a temperature. None is sent to one that
// does not: it would refuse the request.
func TakesTemperature(model string) bool {
	name := plainName(model)
	major, minor := claudeVersion(name)
	return !reasons(name) && !slices.Contains(words(name), "search") && (major < 4 || major == 4 && minor < 7)
}

// SeesImages reports, by its name, whether a model is known to take pictures.
func SeesImages(model string) bool {
	name := plainName(model)
	parts := words(name)
	hasPart := func(part string) bool { return slices.Contains(parts, part) }
	isOf := func(of string) bool { return family(name, of) }
	if slices.ContainsFunc([]string{"audio", "realtime", "transcribe", "tts", "embedding", "search", "1b", "270m"}, hasPart) {
		return false // of families that see otherwise
	}
	if slices.ContainsFunc([]string{"vision", "vl", "multimodal"}, hasPart) {
		return true
	}
	if slices.ContainsFunc([]string{"o1-mini", "o1-preview", "o3-mini", "gemini-pro", "gemini-1.0"}, isOf) {
		return false
	}
	major, _ := claudeVersion(name)
	return major >= 3 || reasons(name) || chatOfGPT(name) ||
		containsAny(name, "llava", "pixtral", "minicpm-v", "internvl", "moondream") ||
		slices.ContainsFunc([]string{
			"gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-4-turbo", "computer-use", "gemini", "llama-4", "llama4",
			"gemma-3", "gemma3", "gemma-4", "gemma4", "grok-4", "mistral-small-3.1", "mistral-small-3.2", "mistral-small3.1",
			"mistral-small3.2", "mistral-small-2503", "mistral-small-2506", "mistral-small-latest", "mistral-medium-3",
			"mistral-medium-latest", "kimi-k2.5", "qwen2vl", "qwen2.5vl", "qwen3vl", "glm-4v", "glm-4.5v", "glm-4.6v",
		}, isOf)
}

// ServerSide returns what a model is known, by its name, to do on the server's side (searching, running
// code), past every gate; "" if nothing is known.
func ServerSide(model string) string {
	name := plainName(model)
	parts := words(name)
	switch {
	case strings.HasSuffix(name, ":online") || slices.Contains(parts, "online"):
		return fmt.Sprintf("model %q searches the web on its own (online)", model)
	case strings.Contains(name, "deep-research"), slices.Contains(parts, "deepsearch"):
		return fmt.Sprintf("model %q searches and reads the web on its own", model)
	case slices.Contains(parts, "search"), family(name, "sonar"):
		return fmt.Sprintf("model %q searches the web on its own", model)
	case family(name, "compound"):
		return fmt.Sprintf("model %q searches the web and runs code on its own", model)
	case strings.Contains(name, "computer-use"):
		return fmt.Sprintf("model %q is made to act on a computer of the provider's tools", model)
	}
	return ""
}

// plainName is a model's name in lower case without what providers put before it ("openai/", "models/",
// "us.anthropic.") and without the mark of a fine-tuned model.
func plainName(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	name = name[strings.LastIndex(name, "/")+1:]
	name = strings.TrimPrefix(name, "ft:")
	if before, _, found := strings.Cut(name, "claude-"); found && strings.HasSuffix(before, ".") {
		name = name[len(before):]
	}
	return name
}

// words splits a name where its parts are joined.
func words(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.:@", r) })
}

// family reports whether a name is that of a family or begins with it and a joint.
func family(name, of string) bool {
	rest, found := strings.CutPrefix(name, of)
	return found && (rest == "" || strings.ContainsRune("-_.:@", rune(rest[0])))
}

// reasons reports whether a plain name is one of OpenAI's reasoning models: o1, o3 and so on, GPT from
// 5 on, Codex, Deep Research. They take no temperature, and their limit of tokens has another name.
func reasons(name string) bool {
	if family(name, "codex-mini") {
		return true
	}
	if rest, found := strings.CutPrefix(name, "o"); found {
		_, after, ok := leadingNumber(rest)
		return ok && (after == "" || strings.ContainsRune("-:@", rune(after[0])))
	}
	rest, found := strings.CutPrefix(name, "gpt-")
	n, after, ok := leadingNumber(rest)
	return found && ok && n >= 5 && n < 100 && (after == "" || strings.ContainsRune("-.:@", rune(after[0]))) && !chatOfGPT(name)
}

// chatOfGPT reports whether a plain name is that of the GPT-5 which does not reason.
func chatOfGPT(name string) bool { return family(name, "gpt-5-chat") }

// claudeVersion reads the version of a Claude ("claude-3-5-haiku-20241022", "claude-opus-4.7",
// "claude-sonnet-4-20250514"): its first number and the one after it, unless that is a date. 0 = not a
// Claude, or one from before there were families.
func claudeVersion(name string) (major, minor int) {
	rest, found := strings.CutPrefix(name, "claude-")
	if !found {
		return 0, 0
	}
	parts := words(rest)
	at := slices.IndexFunc(parts, func(s string) bool { _, err := strconv.Atoi(s); return err == nil })
	if at < 0 || at > 1 {
		return 0, 0
	}
	major, _ = strconv.Atoi(parts[at])
	if at+1 < len(parts) && len(parts[at+1]) <= 2 {
		minor, _ = strconv.Atoi(parts[at+1])
	}
	return major, minor
}

// leadingNumber splits a string after the digits it begins with.
func leadingNumber(s string) (n int, after string, ok bool) {
	after = strings.TrimLeft(s, "0123456789")
	n, err := strconv.Atoi(s[:len(s)-len(after)])
	return n, after, err == nil
}
