package policyfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/policy"
)

// TestReadCall: a call is one object with a tool and its arguments, and nothing else.
func TestReadCall(t *testing.T) {
	for text, want := range map[string]string{
		`{"tool":"Bash","arguments":{}}`: "",
		``:                               "it is empty",
		`{`:                              "it is not JSON",
		`[]`:                             "it is not an object",
		`{"tool":1}`:                     "its tool is not text",
		`{"arguments":{}}`:               "it names no tool",
		`{"tool":"python","more":1}`:     `"more" is no member of a call`,
		`{"tool":"` + strings.Repeat("x", maxFile) + `"}`: "it is larger than 1048576 bytes",
	} {
		call, err := ReadCall("-", strings.NewReader(text))
		if want == "" && (err != nil || call.Tool != policy.ToolName("Bash")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %+v, %v, want %q", text, call, err, want)
		}
	}
}

// TestDecide: a call is decided by the policy and by the schema of its tool.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		mode, call string
		verdict    policy.Verdict
		reason     string
	}{
		{"autonomous", `{"tool":"calculate","arguments":{"expression":"1+1"}}`, policy.Allow, ""},
		{"autonomous", `{"tool":"calculate","arguments":{"expression":1}}`, policy.Deny, "the arguments do not fit calculate"},
		{"autonomous", `{"tool":"calculate","arguments":[]}`, policy.Deny, ""},
		{"autonomous", `{"tool":"notes__add","arguments":{"text":"x"}}`, policy.Allow, ""},
		{"autonomous", `{"tool":"unknown","arguments":{}}`, policy.Deny, ""},
		{"restricted", `{"tool":"python","arguments":{"code":"1"}}`, policy.Deny, ""},
	} {
		p, err := Named(c.mode)
		if err != nil {
			t.Fatal(err)
		}
		call, err := ReadCall("-", strings.NewReader(c.call))
		if err != nil {
			t.Fatal(err)
		}
		d, err := call.Decide(p)
		if err != nil || d.Verdict != c.verdict || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: %+v, %v", c.call, d, err)
		}
	}
}

// TestNamed: a policy is a mode or a regular file that names tools there can be.
func TestNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "policy.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, want := range map[string]string{
		"": "", "restricted": "", dir: "is not a regular file", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := Named(name); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if p, err := Named(write("mode: approved\ndeny: [calculate, notes__add]\n")); err != nil || p.Mode != policy.Approved {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Named(write("mode: approved\ndeny: [calculator]\n")); err == nil || !strings.Contains(err.Error(), `names the tool "calculator"`) {
		t.Error(err)
	}
	if hint := NoTool("calculat"); hint != "did you mean calculate?" {
		t.Errorf("hint %q", hint)
	}
}
