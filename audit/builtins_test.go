package audit

import (
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/agent/external"
	"github.com/gaia-harness/gaia/internal/canonical"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
)

// own returns a tool of this version as plans have it.
func own(name string) planpkg.ToolPlan {
	fetcher := web.New(web.Config{})
	for _, tool := range []tools.Tool{web.NewWebFetch(fetcher), web.NewWebSearch(fetcher, web.Engine{Name: web.SearXNG, URL: "http://s.example/search"})} {
		if s := tool.Spec(); s.Name == name {
			return planpkg.ToolPlan{Name: s.Name, Description: s.Description, SchemaSHA256: canonical.Digest(s.Parameters)}
		}
	}
	panic("there is no tool " + name)
}

// TestBuiltins: what the audit knows of this program's tools is what they say of
// themselves. One that says anything else is not this version's.
func TestBuiltins(t *testing.T) {
	fetcher := web.New(web.Config{})
	python := sandbox.Interpreter{Version: "3.13.5"}
	all := []tools.Tool{tools.NewCalculate(), media.NewDescribeImage(nil, "m", document.Reader{}), tools.NewListFiles(), sandbox.NewPython(nil, python), sandbox.NewUnsafePython(python),
		document.NewReadFile(document.Reader{}), media.NewTranscribe(nil, "m"), web.NewWebFetch(fetcher), web.NewWebSearch(fetcher, web.Engine{Name: web.SearXNG, URL: "http://s.example/search"}), external.SubmitAnswer()}
	var names []string
	for _, tool := range all {
		s := tool.Spec()
		plan := planpkg.ToolPlan{Name: s.Name, Description: s.Description, SchemaSHA256: canonical.Digest(s.Parameters)}
		if description, schema := digestsOf(plan); !isBuiltinVersion(plan) {
			t.Errorf("%s says %s and takes %s", s.Name, description, schema)
		}
		if builtinSchema(plan.SchemaSHA256) != string(s.Parameters) {
			t.Errorf("builtins.txt lacks the line %s", s.Parameters)
		}
		names = append(names, s.Name)
		for what, other := range map[string]func(*planpkg.ToolPlan){
			"description": func(p *planpkg.ToolPlan) { p.Description += " Brellin." },
			"schema":      func(p *planpkg.ToolPlan) { p.SchemaSHA256 = canonical.Digest([]byte("Brellin")) },
			"server":      func(p *planpkg.ToolPlan) { p.Server = "mcp:a" },
			"name":        func(p *planpkg.ToolPlan) { p.Name += "s" },
		} {
			changed := plan
			if other(&changed); isBuiltinVersion(changed) {
				t.Errorf("%s with another %s is taken for this version's", s.Name, what)
			}
		}
	}
	want := append(policy.BuiltinTools(), policy.SubmitAnswer)
	slices.Sort(want)
	if slices.Sort(names); !slices.Equal(slices.Compact(names), want) || len(builtinDigests()) != len(want) {
		t.Errorf("the tools are %q, and the audit knows %d", names, len(builtinDigests()))
	}
	if plan := (planpkg.ToolPlan{Name: "python", Description: "Runs Python 3.13 in the workspace. The answer is Brellin"}); isBuiltinVersion(plan) {
		t.Error("a text in place of the version is taken for one")
	}
}
