package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

var agentConfinement = Check{
	ID: "AUD-23", Name: "agent-confinement", Severity: Critical, Gate: true,
	Title: "own agents ran in the sandbox as planned, and reached nothing past it",
	Why: "an agent that can reach the network past the recorded one, write to its own folders or leave a process behind has inputs and helpers " +
		"that no record shows. What holds it is probed from inside before each attempt, and counted from outside at its end",
	Fix:    "run the agent on a machine whose sandbox holds, which gaia doctor tries; nothing of this run can be used",
	Skips:  "an attempt that counts has no record of how the agent was confined, the agent had the network of its host, or it ran outside of the sandbox",
	Absent: builtinAgent,
	Rules: []Rule{
		{"not-confined", Critical, 1, "an own agent that ran though its sandbox was not as planned: with a route to a public address, unfiltered system calls, folders that can be written to or a way to privileges, or that left a process alive", "the sandbox as planned, in every attempt"},
		{"exchanges-refused", Info, 1, "exchanges over the recorded network that were refused, by reason", "for the record: none of them left"},
		{"bypass-tried", Info, 1, "connections and datagrams that went nowhere, past the recorded network: programs commonly look up names and try addresses by themselves first", "for the record: none of them arrived"},
	},
	run: func(e *evidence, n *notes) {
		own := e.Manifest.Agent
		if own == nil {
			n.absent(builtinAgent)
			return
		}
		n.gapIf(own.Unconfined, "the agent ran outside of the sandbox: nothing held it, and nothing shows what it did")
		n.gapIf(own.Network == plan.NetworkHost && !own.Unconfined, "the agent had the network of its host: what it reached is not in the journal")
		refused, noRoute, unheard := map[string]int{}, int64(0), int64(0)
		e.eachTask(func(t *taskEvidence) {
			for _, a := range t.Attempts {
				for _, r := range a.Refused {
					code := r.Code
					if !isCode().MatchString(code) {
						code = "other"
					}
					refused[code] += r.Count
				}
				if a.Ended == nil || a.Ended.Agent == nil {
					continue
				}
				if a.Number == t.Result.Attempt || e.Manifest.Voting.Attempts > 1 || a.Ended.Agent.Confined != nil {
					checkConfined(*own, n, t.at(a, a.EndedAt), *a.Ended)
				}
				if c := a.Ended.Agent.Confined; c != nil {
					noRoute, unheard = min(noRoute+c.NoRoute, canonical.MaxInt), min(unheard+c.Unheard, canonical.MaxInt)
				}
			}
		})
		if len(refused) > 0 {
			var codes []string
			for _, code := range slices.Sorted(maps.Keys(refused)) {
				codes = append(codes, fmt.Sprintf("%s: %d", code, refused[code]))
			}
			n.find("exchanges-refused", place{given: true}, strings.Join(codes, ", "))
		}
		n.findIf(noRoute+unheard > 0, "bypass-tried", place{given: true}, fmt.Sprintf("%d to addresses without a route, %d to local ports where nothing listens", noRoute, unheard))
	},
}

// checkConfined looks at how an own agent was confined in an attempt.
func checkConfined(own plan.AgentPlan, n *notes, at place, p trajectory.AttemptEnded) {
	c := p.Agent.Confined
	if c == nil {
		n.gapIf(!own.Unconfined && p.Outcome != trajectory.Errored, "nothing shows how the agent was confined in an attempt that counts")
		return
	}
	var missing []string
	for _, held := range []struct {
		is   bool
		what string
	}{
		{c.Filtered, "system calls are not filtered"},
		{c.NoPrivileges, "it can gain privileges"},
		{c.ReadOnly, "its folders can be written to"},
		{c.Isolated || own.Network == plan.NetworkHost, "there is a route to a public address"},
		{c.Ended, "a process was alive at its end"},
	} {
		if !held.is {
			missing = append(missing, held.what)
		}
	}
	if len(missing) > 0 && p.Agent.Ended != trajectory.AgentNotStarted { // such an agent is not started
		n.find("not-confined", at, "the sandbox of the agent: "+strings.Join(missing, ", "))
	}
}

// isCode is the form of the codes with which requests are refused.
var isCode = lazily(`^[a-z_]{1,40}$`)

// builtinAgent is why there is no agent to be confined.
const builtinAgent = "the plan has the built-in agent, which reaches nothing but its tools"
