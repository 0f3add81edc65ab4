package rundir

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

func TestServerNotes(t *testing.T) {
	const begin = "run started\na.1 begin\na.1.1 turn\na.1.1 prompt\n"
	const context, tools = ": start the server with a larger context, or give its size with --context-window",
		": the model or its server may ignore tools; 'gaia doctor' tries one"
	for name, tt := range map[string]struct {
		tools  int
		script string
		want   [][2]string
	}{
		"tools called": {2, oneSolved, nil},
		"no tools":     {0, begin + "a.1.1 call in=1 out=1\na.1.1 done\na.1 answer 42\na.1 ended answered\n", nil},
		"tools ignored": {2, begin + "a.1.1 call in=1 out=1\na.1.1 done\na.1.2 turn\na.1.2 call in=1 out=1\na.1.2 done\na.1 answer 42\na.1 ended answered\n",
			[][2]string{{"tools", "2 tools offered in 2 model calls, none called" + tools}}},
		"tools ignored once":              {1, begin + "a.1.1 call in=1 out=1\n", [][2]string{{"tools", "1 tool offered in 1 model call, none called" + tools}}},
		"tried: " + trajectory.ToolCalled: {1, begin + "a.1.1 call in=1 out=1\n", [][2]string{{"tools", "1 tool offered in 1 model call, none called, though the model called the one of the preflight"}}},
		"tried: " + trajectory.ToolNone:   {1, begin + "a.1.1 call in=1 out=1\n", nil},
		"tried: " + trajectory.ToolOther:  {1, begin + "a.1.1 call in=1 out=1\n", nil},
		"no reply":                        {2, begin + "a.1.1 call error\n", nil},
		"tools refused": {2, begin + "a.1.1 call error=tools_not_supported\na.1.1 call error=tools_not_supported\n",
			[][2]string{{"tools", "the endpoint refused tools in 2 requests: name a model that calls tools, or start the server with tool calling on"}}},
		"no room": {0, begin + "a.1.1 call error=context_length_exceeded\na.1.1 done\na.1 ended no_answer\n",
			[][2]string{{"context", "the endpoint refused a conversation as too long in 1 of 2 tasks, and 1 attempt ended without an answer for it" + context}}},
		"condensed": {0, begin + "a.1.1 call error=context_length_exceeded\na.1.1 call in=1 out=1\na.1.1 done\na.1 ended no_answer\n",
			[][2]string{{"context", "the endpoint refused a conversation as too long in 1 of 2 tasks" + context}}},
		"both": {3, begin + "a.1.1 call error=context_length_exceeded\na.1.1 call in=1 out=1\nb.1 begin\nb.1.1 turn\nb.1.1 call error=context_length_exceeded\nb.1.1 done\nb.1 ended no_answer\n",
			[][2]string{{"context", "the endpoint refused a conversation as too long in 2 of 2 tasks, and 1 attempt ended without an answer for it" + context},
				{"tools", "3 tools offered in 1 model call, none called" + tools}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := planOf(t, "a", "b")
			if name == "tools called" {
				m = planOf(t, "a")
			}
			m.Tools = make([]plan.ToolPlan, tt.tools)
			f, _ := mustFollow(t, m, tt.script)
			if called, tried := strings.CutPrefix(name, "tried: "); tried {
				f.preflights = &PreflightSummary{Tool: called}
			}
			if diff := cmp.Diff(tt.want, f.ServerNotes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
