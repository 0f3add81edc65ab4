package runview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
)

// Plan describes what a plan decides.
func Plan(m plan.Plan) [][2]string {
	var rows view.List
	if m.Rehearsal {
		rows.Add("rehearsal", RehearsalNote)
	}
	rows = append(rows, Dataset(m)...)
	var levels [3]int
	for _, t := range m.Tasks {
		levels[t.Level-1]++
	}
	rows.Addf("tasks", "%d (%d/%d/%d by level), %s each", len(m.Tasks), levels[0], levels[1], levels[2], view.Count(m.Voting.Attempts, "attempt"))
	if m.Agent != nil {
		rows.Add("agent", Agent(m.Agent))
		rows.Add("limits", agentLimits(m.Agent))
	}
	rows.Add("model", model(m.Model))
	if m.Judge != nil {
		rows.Add("judge", m.Judge.Model)
	}
	if m.Transcription != nil {
		rows.Add("transcription", m.Transcription.Model)
	}
	if m.Vision != nil {
		rows.Add("vision", m.Vision.Model)
	}
	if m.Search != nil {
		rows.Add("search", m.Search.Engine+" at "+m.Search.Origin)
	}
	var tools []string
	for _, t := range m.Offered() {
		tools = append(tools, t.Name)
	}
	rows.Add("tools", cmp.Or(strings.Join(tools, ", "), "none"))
	rows.Add("policy", m.PolicyMode+" "+m.PolicyHash)
	rows.Add("budgets", budgets(m.Budgets))
	rows.Add("evidence", m.Evidence)
	rows.Addf("submit", "intended: %t", m.SubmitIntent)
	rows.AddNonEmpty("cassette", m.Cassette)
	return rows
}

func model(m plan.ModelPlan) string {
	text := m.Name + " at " + m.Origin
	if len(m.ServedAs) > 0 {
		text += ", served as " + strings.Join(m.ServedAs, " or ")
	}
	if m.API != "" {
		text += ", by " + m.API
	}
	if m.Images {
		text += ", with pictures"
	}
	if m.NoTemperature {
		text += ", without a temperature"
	}
	if m.MaxTokens > 0 {
		text += fmt.Sprintf(", completions up to %d tokens", m.MaxTokens)
	}
	if m.ContextWindow > 0 {
		text += fmt.Sprintf(", a window of %d tokens", m.ContextWindow)
	}
	return text
}

// Agent names an own agent, by the digest of its folder, and says what it reaches.
func Agent(a *plan.AgentPlan) string {
	network := "no network"
	switch {
	case a.Unconfined:
		network = "outside of the sandbox"
	case a.Network == plan.NetworkRecord:
		network = "a recorded network"
	case a.Network == plan.NetworkHost:
		network = "the network of this machine"
	}
	tools := "tools of the run"
	if a.Tools == plan.AgentToolsNone {
		tools = "tools in itself"
	}
	return a.Label() + ", " + network + ", " + tools
}

// listed is of how many tasks a file has the answers where an audit takes it for a list of them.
const listed = 3

// Found says what was found in the folders of an own agent before the run, and warns of what an audit makes of it; both are ""
// where nothing was looked for or found.
func Found(p *plan.AgentProbe) (found, warning string) {
	if p == nil {
		return "", ""
	}
	var parts []string
	for _, n := range []struct {
		count int
		of    string
	}{{p.Answers, "the gold answer beside id or question"}, {p.Questions, "the question or a digest of it"}, {p.IDs, "the id"}, {p.Listed, "the gold answer in a list"}} {
		if n.count > 0 {
			parts = append(parts, n.of+" of "+view.Count(n.count, "task"))
		}
	}
	switch {
	case p.Answers > 0:
		warning = "the agent's folders hold answers of tasks: an audit reports this as CRITICAL, and the run cannot be submitted"
	case p.IDs+p.Questions > 0, slices.ContainsFunc(p.Found, func(f plan.AgentFound) bool { return f.Listed >= listed }):
		warning = "the agent's folders hold something of tasks, which an audit reports: leave out the dataset, and what was made of it"
	}
	return strings.Join(parts, ", "), warning
}

// agentLimits describes what bounds an own agent.
func agentLimits(a *plan.AgentPlan) string {
	text := view.Count(a.Calls, "model call") + ", " + (time.Duration(a.TimeoutMs) * time.Millisecond).String()
	if !a.Unconfined {
		text += fmt.Sprintf(", %s of memory, %s, %s of files", size(a.MemoryBytes), view.Count(a.Processes, "process"), size(a.DiskBytes))
	}
	return text + " an attempt"
}

// size returns bytes in the units that settings have.
func size(n int64) string {
	if n%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// budgets describes the limits of an attempt, and of the run.
func budgets(b plan.Budgets) string {
	text := view.Count(b.ToolCalls, "tool call")
	if b.Turns > 0 { // an own agent has none
		text = view.Count(b.Turns, "turn")
		if b.ToolCalls > 0 {
			text += ", " + view.Count(b.ToolCalls, "tool call")
		}
	}
	if b.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens", b.Tokens)
	}
	if b.WallMs > 0 {
		text += ", " + (time.Duration(b.WallMs) * time.Millisecond).String()
	}
	if b.CostMicroUSD > 0 {
		text += ", " + view.Dollars(&b.CostMicroUSD)
	}
	text += " an attempt"
	if b.RunCostMicroUSD > 0 {
		text += "; " + view.Dollars(&b.RunCostMicroUSD) + " the run"
	}
	return text
}

// Tools lists the tools that the model has, and how those that it does not have could be offered.
func Tools(m plan.Plan) string {
	var names, missing []string
	for _, t := range m.Tools {
		if m.Policy.Offers(t.Name) {
			names = append(names, t.Name)
		} else {
			missing = append(missing, t.Name+" (the policy denies it)")
		}
	}
	for _, optional := range [][2]string{{"describe_image", "--vision-model"}, {"python", "see 'gaia doctor'"},
		{"transcribe_audio", "--transcription-model"}, {"web_search", "--search"}} {
		if !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Name == optional[0] }) {
			missing = append(missing, optional[0]+" ("+optional[1]+")")
		}
	}
	if m.Agent != nil && m.Agent.Tools == plan.AgentToolsNone {
		return "tools: those of the agent"
	}
	line := "tools: " + strings.Join(names, ", ")
	if len(missing) > 0 {
		line += "; not offered: " + strings.Join(missing, ", ")
	}
	return line
}

// Differences describes in what a plan differs from an earlier one that it repeats. Of a dry plan, what is not read for it is
// left out: the key, the judge cache and the attachments.
func Differences(old, now plan.Plan, dry bool) (string, error) {
	if dry {
		now.SigningKey = old.SigningKey
		if now.Judge != nil && old.Judge != nil {
			judge := *now.Judge
			judge.Cache = old.Judge.Cache
			now.Judge = &judge
		}
		now.Tasks = slices.Clone(now.Tasks)
		earlier := map[string]plan.PlannedTask{}
		for _, t := range old.Tasks {
			earlier[t.TaskID] = t
		}
		for i, t := range now.Tasks {
			if old := earlier[t.TaskID]; old.FileName == t.FileName {
				now.Tasks[i].FileBytes, now.Tasks[i].FileSHA256 = old.FileBytes, old.FileSHA256
			}
		}
	}
	same := old
	same.RunID, same.Created, same.Harness, same.GoldCommitment = now.RunID, now.Created, now.Harness, now.GoldCommitment
	found, err := plan.Diff(same.Unsalted(), now.Unsalted())
	if len(found) == 0 {
		return "nothing", err
	}
	return strings.Join(found, "; "), err
}
