package plan

import (
	"errors"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestNoSecret: behind escapes a secret is one, too, and what no user and no server
// said is none, whatever a variable is called that has it.
func TestNoSecret(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	redact := trajectory.NewRedactor([]string{commit}, "canary")
	tool := func(p ToolPlan) Plan { return Plan{Tools: []ToolPlan{p}} }
	for _, test := range []struct {
		plan Plan
		want string // where; "": nowhere
	}{
		{Plan{Harness: trajectory.Harness{Commit: commit}, Dataset: Dataset{Revision: commit}}, ""},
		{tool(ToolPlan{Name: "a__b", Schema: `{"type":"object","properties":{"c":{"enum":["d",1,null,true]}}}`, Server: "mcp:a"}), ""},
		{tool(ToolPlan{Name: "a__b", Schema: `{"properties":{"c":{"enum":["d","\u0063anary"]}}}`, Server: "mcp:a"}), `the arguments of the tool "a__b" of mcp:a`},
		{tool(ToolPlan{Name: "a__b", Schema: `{"properties":{"\u0063anary":{}}}`, Server: "mcp:a"}), `the arguments of the tool "a__b" of mcp:a`},
		{tool(ToolPlan{Name: "a__b", Server: "mcp:a https://canary.example"}), `the server of the tool "a__b" of mcp:a https://[redacted].example`},
		{tool(ToolPlan{Name: "a__b", Server: "mcp:a", Env: []string{"A", "canary"}}), `a name of a variable of the tool "a__b" of mcp:a`},
		{tool(ToolPlan{Name: "python", Description: "Python in /opt/canary"}), `the description of the tool "python" of gaia`},
		{Plan{Search: &SearchPlan{Origin: "https://canary.example"}}, "search.origin"},
		{Plan{Dataset: Dataset{Selection: "task canary"}}, "dataset.selection"},
		{Plan{Agent: &AgentPlan{Command: []string{"agent", "--key=canary"}}}, "agent.command[1]"},
		{Plan{Agent: &AgentPlan{Env: []string{"A", "canary"}}}, "agent.env[1]"},
	} {
		err := NoSecret(test.plan, redact)
		var got *SecretError
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &got) || got.Where != test.want) {
			t.Errorf("%+v: %v, want %q", test.plan, err, test.want)
		}
	}
	if err := NoSecret(tool(ToolPlan{Schema: "{"}), redact); err == nil {
		t.Error("a schema that is none passes")
	}
}
