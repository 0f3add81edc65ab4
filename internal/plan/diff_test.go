package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// TestToolDifferences: of two lists of tools it is said which tools differ, how, and
// whose they are.
func TestToolDifferences(t *testing.T) {
	notes := ToolPlan{Name: "notes__find", Description: "Finds.", Server: "mcp:notes"}
	other := notes
	other.Description = "Finds more."
	none, host, given := notes, notes, notes
	none.Network, host.Network, given.Network, given.Env = "none", "host", "none", []string{"TOKEN"}
	var many []ToolPlan
	for i := range 10 {
		many = append(many, ToolPlan{Name: fmt.Sprintf("t%d", i)})
	}
	for name, tt := range map[string]struct {
		old, now []ToolPlan
		want     []string
	}{
		"same":      {[]ToolPlan{notes}, []ToolPlan{notes}, nil},
		"other":     {[]ToolPlan{notes}, []ToolPlan{other}, []string{"tools differ: notes__find of mcp:notes is described otherwise"}},
		"network":   {[]ToolPlan{none}, []ToolPlan{host}, []string{`tools differ: notes__find of mcp:notes has the network "host" instead of "none"`}},
		"variables": {[]ToolPlan{none}, []ToolPlan{given}, []string{`tools differ: notes__find of mcp:notes is given the variables ["TOKEN"] instead of []`}},
		"missing":   {[]ToolPlan{{Name: "python"}, notes}, many[:1], []string{"tools differ: notes__find of mcp:notes is missing, python is missing, t0 is new"}},
		"many":      {nil, many, []string{"tools differ: t0 is new, t1 is new, t2 is new, t3 is new, t4 is new, t5 is new, t6 is new, t7 is new, and 2 more"}},
		"twice":     {[]ToolPlan{notes, notes}, []ToolPlan{notes}, []string{"tools differ"}},
	} {
		old, now := New(), New()
		old.Tools, now.Tools = tt.old, tt.now
		got, err := Diff(old, now)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

// TestAgentDifferences: of two own agents it is said which members differ, and of folders which have other files.
func TestAgentDifferences(t *testing.T) {
	agent := func(change func(*AgentPlan)) *AgentPlan {
		a := DefaultAgent()
		a.Name, a.Folders, a.FilesSHA256 = "mine", []AgentFolder{{Path: "/a", SHA256: "1"}, {Path: "/b"}}, "1"
		if change != nil {
			change(&a)
		}
		return &a
	}
	for name, tt := range map[string]struct {
		old, now *AgentPlan
		want     []string
	}{
		"same":        {agent(nil), agent(nil), nil},
		"built-in":    {nil, agent(nil), []string{"agent was the built-in one, is mine"}},
		"not own":     {agent(nil), nil, []string{"agent was mine, is the built-in one"}},
		"a file":      {agent(nil), agent(func(a *AgentPlan) { a.Folders[0].SHA256, a.FilesSHA256 = "2", "2" }), []string{"agent: folder /a differs"}},
		"only a list": {agent(nil), agent(func(a *AgentPlan) { a.FilesSHA256 = "2" }), []string{"agent: files_sha256 differs"}},
		"a folder":    {agent(nil), agent(func(a *AgentPlan) { a.Folders[1].Path = "/c" }), []string{"agent: folder was /b, is /c"}},
		"more":        {agent(nil), agent(func(a *AgentPlan) { a.Folders = append(a.Folders, AgentFolder{Path: "/c"}) }), []string{"agent: folder /c is new"}},
		"fewer":       {agent(nil), agent(func(a *AgentPlan) { a.Folders = a.Folders[:1] }), []string{"agent: folder /b is missing"}},
		"probed":      {agent(nil), agent(func(a *AgentPlan) { a.Probed = &AgentProbe{Files: 2} }), nil},
		"members": {agent(func(a *AgentPlan) { a.Env = []string{"A"} }), agent(func(a *AgentPlan) { a.Network, a.Strip = NetworkHost, true }),
			[]string{`agent: env was ["A"]`, `agent: network was "none", is "host"`, "agent: strip is true"}},
	} {
		old, now := New(), New()
		old.Agent, now.Agent = tt.old, tt.now
		got, err := Diff(old, now)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

// TestAgentProbeFault: counts that nothing can have are no plan's.
func TestAgentProbeFault(t *testing.T) {
	for want, change := range map[string]func(*AgentProbe){
		"":               func(*AgentProbe) {},
		"no files":       func(p *AgentProbe) { p.Files = -1 },
		"many files":     func(p *AgentProbe) { p.Files = 5 },
		"many bytes":     func(p *AgentProbe) { p.Bytes = MaxAgentBytes + 1 },
		"many programs":  func(p *AgentProbe) { p.Native = 4 },
		"fewer":          func(p *AgentProbe) { p.Unread = -1 },
		"another bound":  func(p *AgentProbe) { p.Stopped = "depth" },
		"no line":        func(p *AgentProbe) { p.Found[0].Line = 0 },
		"another line":   func(p *AgentProbe) { p.Found[1].Line = 5 },
		"twice":          func(p *AgentProbe) { p.Found[1].Line = 1 },
		"nothing there":  func(p *AgentProbe) { p.Found[1].IDs = 0 },
		"more in a file": func(p *AgentProbe) { p.Found[1].IDs = 4 },
		"nowhere":        func(p *AgentProbe) { p.Found = nil },
	} {
		p := AgentProbe{Answers: 2, Bytes: 100, Files: 3, Found: []AgentFound{{Answers: 2, IDs: 2, Line: 1}, {IDs: 3, Line: 4}}, IDs: 3}
		change(&p)
		a := DefaultAgent()
		a.Name, a.FilesSHA256, a.Probed = "mine", canonical.Digest(nil), &p
		a.Folders = []AgentFolder{{Bytes: 100, Files: 4, Path: "/a", SHA256: canonical.Digest(nil)}}
		if fault := a.Fault(); (fault != "") != (want != "") {
			t.Errorf("%s: %q", want, fault)
		}
	}
}

// TestAnsweredByOwnAgent: who answered is named by the digest of its folder, and where it was asked by both endpoints.
func TestAnsweredByOwnAgent(t *testing.T) {
	a := DefaultAgent()
	a.Name, a.Folders, a.MessagesOrigin = "built-in", []AgentFolder{{Path: "/a", SHA256: "sha256:1"}}, "https://b.example"
	m := New()
	m.Agent, m.Model.Origin = &a, "https://a.example"
	if by := m.AnsweredBy(); by.Agent != "built-in sha256:1" || by.Origin != "https://a.example and https://b.example" {
		t.Errorf("%+v", by)
	}
}
