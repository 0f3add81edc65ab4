package audit

import "testing"

// TestExceeds: where one in 1000 lies, by values that Fisher's test gives elsewhere.
func TestExceeds(t *testing.T) {
	tests := []struct {
		of, rest tally
		want     bool // p
	}{
		{tally{}, tally{}, false},
		{tally{5, 0}, tally{15, 0}, false},                  // 1
		{tally{5, 4}, tally{15, 0}, false},                  // 0.001032
		{tally{5, 5}, tally{15, 0}, true},                   // 0.0000645
		{tally{10, 5}, tally{20, 0}, false},                 // 0.00177
		{tally{10, 6}, tally{20, 0}, true},                  // 0.000354
		{tally{30, 30}, tally{60, 60}, false},               // 1: all failed
		{tally{165, 80}, tally{800, 8}, true},               // far below
		{tally{165, 20}, tally{800, 97}, false},             // 0.5
		{tally{5, 0}, tally{15, 15}, false},                 // 1: the others failed
		{tally{200_000, 2_000}, tally{200_000, 1000}, true}, // many, in linear time
	}
	for _, tt := range tests {
		if got := exceeds(tt.of, tt.rest); got != tt.want {
			t.Errorf("%v of %v against %v of %v: %v", tt.of.failed, tt.of.all, tt.rest.failed, tt.rest.all, got)
		}
	}
}

// TestTimeOf: ids that tell when they were made.
func TestTimeOf(t *testing.T) {
	for id, want := range map[string]int64{
		"0195eb2c-4f00-7abc-8def-0123456789ab": 0x0195eb2c4f00, "chatcmpl-0195EB2C-4F00-7ABC-8DEF-0123456789AB": 0x0195eb2c4f00,
		"01JQNJRKR00123456789ABCDEF": 1743407304448, "req_01JQNJRKR00123456789ABCDEF": 1743407304448, "gen-1743424933-Ab3d": 1743424933000,
		"0195eb2c-4f00-4abc-8def-0123456789ab": 0, "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012": 0, "msg_01XFDUDYJgAACzvnptvVoYEL": 0, "": 0, "req-1": 0, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ": 0,
	} {
		if got, ok := timeOf(id); got != want && ok || ok != (want > 0) {
			t.Errorf("%q: %d %v, want %d", id, got, ok, want)
		}
	}
}

// TestLocal: which origins are of this computer or of a private network.
func TestLocal(t *testing.T) {
	for origin, want := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://localhost:11434": true, "http://[::1]": true, "http://10.1.2.3": true, "http://172.20.0.3:80": true, "http://192.168.1.4": true,
		"http://[fd00::3]:8080": true, "http://100.100.1.2": true, "http://litellm:4000": true, "http://host.docker.internal:4000": true, "http://gateway.lan": true, "http://0.0.0.0:1": true,
		"http://[::ffff:10.0.0.1]": true, "http://LOCALHOST.": true,
		"https://api.openai.com": false, "https://models.example:8443": false, "http://203.0.113.9": false, "http://172.32.0.1": false, "builtin:model": false, "": false, "https://localhost.example": false,
	} {
		if got := local(origin); got != want {
			t.Errorf("%q: %v", origin, got)
		}
	}
	for name, want := range map[string]bool{
		"gpt-4.1": true, "gpt-4o-mini": true, "openai/gpt-5": true, "gpt-3.5-turbo": true, "o3": true, "o4-mini": true, "chatgpt-4o-latest": true, "claude-sonnet-4-5": true,
		"us.anthropic.claude-opus-4-1-20250805-v1:0": true, "gemini-2.5-pro": true, "models/gemini-2.0-flash": true, "grok-4": true, "sonar-pro": true, "amazon.nova-pro-v1:0": true, "qwen-max": true,
		"gpt-oss-120b": false, "gpt-j-6b": false, "gpt2": false, "gemma-3-27b-it": false, "qwen3-32b": false, "llama-3.3-70b": false, "deepseek-r1": false, "mistral-7b": false, "scripted-model": false,
		"grok-1": false, "openchat": false, "olmo-2": false,
	} {
		if got := commercial().MatchString(nameOf(name).base); got != want {
			t.Errorf("%q: %v, base %q", name, got, nameOf(name).base)
		}
	}
}
