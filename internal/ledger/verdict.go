package ledger

import (
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

// Exceptions counts what a run has besides one undisturbed attempt at each task.
// Dismissals and VoidTasks follow from the decisions about the audit's findings, all
// others from the journal.
type Exceptions struct {
	Dismissals      int `json:"dismissals"`       // findings
	Interruptions   int `json:"interruptions"`    // processes that ended without closing the run, which was resumed
	LostAttempts    int `json:"lost_attempts"`    // see Attempt.Lost
	Resumes         int `json:"resumes"`          // also after a stop because a model could not be reached
	RetriedAttempts int `json:"retried_attempts"` // attempts at a task after its first; in a vote, those after one that ended as an error
	RetriedCalls    int `json:"retried_calls"`    // model calls that repeat a failed one
	VoidTasks       int `json:"void_tasks"`
}

// String lists what is not 0, or returns "none".
func (e Exceptions) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, counted(n, what))
		}
	}
	add(e.Dismissals, "dismissal")
	add(e.VoidTasks, "void task")
	add(e.RetriedAttempts, "retried attempt")
	add(e.RetriedCalls, "retried call")
	add(e.LostAttempts, "lost attempt")
	add(e.Interruptions, "interruption")
	add(e.Resumes, "resume")
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Resumed adds the interruptions and resumes of a run.
func (e Exceptions) Resumed(all []Interruption) Exceptions {
	e.Resumes += len(all)
	for _, i := range all {
		if i.Stopped == "" {
			e.Interruptions++
		}
	}
	return e
}

// Exceptions counts those that the journal shows.
func (f *Fold) Exceptions() Exceptions {
	e := Exceptions{}.Resumed(f.Interruptions)
	for _, t := range f.Tasks {
		for i, a := range t.Attempts {
			e.RetriedCalls += a.Retried
			if i > 0 && (t.rule != VoteMajority || t.Attempts[i-1].Ended.Outcome == trajectory.Errored) {
				e.RetriedAttempts++
			}
			if a.Lost() {
				e.LostAttempts++
			}
		}
	}
	return e
}

// AgentBuiltIn is the agent of this program.
const AgentBuiltIn = "built-in"

// searchBuiltIn is the search engine of a rehearsal.
const searchBuiltIn = "built-in"

// AnsweredBy names what answered the tasks of a run. RepliedAs, RepliedOther and all
// harnesses after the first follow from the journal, everything else from the plan.
type AnsweredBy struct {
	Agent        string               `json:"agent"`
	CleanBuild   bool                 `json:"clean_build"` // every harness was built from a known commit without changes
	Harnesses    []trajectory.Harness `json:"harnesses"`   // of the plan, and each other one that resumed the run
	MCPServers   []string             `json:"mcp_servers"` // sorted, with the origin of those asked over HTTP
	Model        string               `json:"model"`
	Origin       string               `json:"origin"`                 // of the model's endpoint
	RepliedAs    []string             `json:"replied_as"`             // the model's names in its replies, sorted; at most MaxReplied
	RepliedOther bool                 `json:"replied_other,omitzero"` // there are replies under other names
	Search       *SearchPlan          `json:"search,omitzero"`        // left out: the agent has no search engine
	ServedAs     []string             `json:"served_as"`              // the model's other names, declared by the plan
}

// MaxReplied is how many of the model's names in its replies are listed.
const MaxReplied = 32

// maxReplied is how long a listed name is at most, in bytes.
const maxReplied = 200

// AnsweredBy returns what the plan names, and no reply.
func (m Manifest) AnsweredBy() AnsweredBy {
	by := AnsweredBy{Agent: AgentBuiltIn, Harnesses: []trajectory.Harness{m.Harness}, MCPServers: []string{}, Model: m.Model.Name, Origin: m.Model.Origin,
		RepliedAs: []string{}, Search: m.Search, ServedAs: list(m.Model.ServedAs)}
	for _, t := range m.Offered() {
		if server, found := strings.CutPrefix(t.Server, "mcp:"); found {
			by.MCPServers = append(by.MCPServers, server)
		}
		if t.Name == "web_search" && t.Server == "" && by.Search == nil {
			by.Search = &SearchPlan{Engine: searchBuiltIn}
		}
	}
	slices.Sort(by.MCPServers)
	by.MCPServers = slices.Compact(by.MCPServers)
	return by.Resumed()
}

// Resumed adds other harnesses that continued the run, each once.
func (by AnsweredBy) Resumed(others ...trajectory.Harness) AnsweredBy {
	for _, h := range others {
		if !slices.Contains(by.Harnesses, h) {
			by.Harnesses = append(by.Harnesses, h)
		}
	}
	by.CleanBuild = !slices.ContainsFunc(by.Harnesses, func(h trajectory.Harness) bool { return h.Dirty || h.Commit == "" })
	return by
}

// AnsweredBy names what answered by the plan and the journal.
func (f *Fold) AnsweredBy() AnsweredBy {
	by := f.Manifest.AnsweredBy().Resumed(f.harnesses...)
	by.RepliedAs, by.RepliedOther = list(slices.Sorted(maps.Keys(f.repliedAs))), f.repliedOther
	return by
}

// replied takes the name of the model from a reply to the agent.
func (f *Fold) replied(p trajectory.ModelCallCompleted) {
	switch name := p.ResponseModel; {
	case p.Error != nil || name == "" || f.repliedAs[name]:
	case len(f.repliedAs) < MaxReplied && len(name) <= maxReplied:
		f.repliedAs[name] = true
	default:
		f.repliedOther = true
	}
}
