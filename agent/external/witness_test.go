package external

import (
	"testing"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
)

// TestWitness: a result is known to the attempt, but for what the agent asked with and what it may have written itself; of
// both is recorded whether they hold gold.
func TestWitness(t *testing.T) {
	const gold, page = "Marchetti", "The lamp of the outer harbour wall was painted in 1742 by the sister of its keeper."
	for _, c := range []struct {
		name, tool, args, document string
		foreign                    bool
		own                        int    // hits of gold in what is the agent's; -1: nothing is
		known                      string // afterwards as a result
		unknown                    string // afterwards as the agent's
	}{
		{"a page", "web_search", `{}`, page, false, -1, page, ""},
		{"asked for by the model", "web_search", `{"query":"keeper of the outer harbour wall in Vells"}`, "keeper of the outer harbour wall in Vells: none", false, -1, "keeper of the outer harbour wall in Vells: none", ""},
		{"asked for by the agent", "web_search", `{"query":"lamps"}`, page, false, 0, page, ""},
		{"an echo", "web_search", `{"code":"print('Marchetti')"}`, "Marchetti", false, 1, "", "Marchetti"},
		{"a long echo", "web_search", `{"code":"print('Marchetti is what the sister of the keeper was called')"}`, "Done. Marchetti is what the sister of the keeper was called", false, 1, "", "Marchetti is what the sister of the keeper was called"},
		{"a file of the agent's", "web_search", `{}`, page + " It was Marchetti.", true, 1, "", page},
		{"a computation of the agent", "calculate", `{"expression":"22558+1"}`, "22559 Marchetti", false, 1, "", "22559 Marchetti"},
		{"a computation of the model", "calculate", `{"expression":"1742 + 17"}`, "1759", false, 0, "1759", ""},
		{"code of the agent", "python", `{"code":"print(bytes.fromhex('4d'))"}`, "Marchetti", false, 1, "", "Marchetti"},
		{"the answer", policy.SubmitAnswer, `{"answer":"Marchetti"}`, "The answer is submitted.", false, -1, "", "Marchetti"},
		{"a file of what was given", "web_search", `{}`, "Which lamp is the highest of all in Vells?", true, -1, "", ""},
	} {
		a := Agent{Origins: origin.New(), Probe: probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: question, Gold: gold})}
		a.Origins.Add(origin.Question, "Which lamp is the highest of all in Vells?")
		a.Origins.Add(origin.Reply, `{"query":"keeper of the outer harbour wall in Vells"}`)
		a.Origins.Add(origin.Reply, "Let me see: calculate(\"1742+17\") should do.")
		own := a.witness(tools.Call{Name: c.tool, Args: c.args}, tools.Output{Document: c.document, Shown: c.document}, c.foreign)
		if hits := -1; own != nil || c.own != hits {
			if own != nil {
				hits = own.GoldHits
			}
			if hits != c.own {
				t.Errorf("%s: gold stands %d times in what is the agent's, want %d", c.name, hits, c.own)
			}
		}
		if _, rest := a.Origins.Divide(c.known); len(rest) > 0 {
			t.Errorf("%s: %q is not known", c.name, rest)
		}
		if _, rest := a.Origins.Divide(c.unknown); c.unknown != "" && len(rest) == 0 {
			t.Errorf("%s: %q is known", c.name, c.unknown)
		}
	}
}
