package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestSkipsSaysAll: of whatever a check could not see in the cases, also without
// the gold answers, it says beforehand that it may not.
func TestSkipsSaysAll(t *testing.T) {
	long.NotRaced(t)
	const (
		noGold, goldSkips   = "the gold answers are not at hand", "the gold answers are not at hand"
		hashes, hashesSkips = "the run records digests alone", "the run records digests alone"
		outside             = "outside of the sandbox"
	)
	clauses := map[string][][2]string{ // a piece of the gap, the clause of Skips
		"AUD-1": {{noGold, goldSkips}, {hashes, hashesSkips}, {"the plan's probes", "probes of another version"}, {"has no probes", "have no probes"}, {"no addresses", "no addresses of a page"},
			{"longer head", "a head is longer than heads are"}, {"searches by itself", "searched by itself"}, {"had the network", "had the network"}, {"unrecorded channel", "searched by itself"}, {"may echo", "may echo"}, {"was not probed", "was not probed whole"}, {outside, outside}},
		"AUD-2": {{"reports no usage", "the provider reports no usage"}, {hashes, "no arguments are recorded"}},
		"AUD-3": {{"no digest of a task's attachment", "no digest of an attachment"}, {noGold, goldSkips}, {hashes, hashesSkips}, {"the plan's probes", "probes of another version"}, {"the template", "a form that this version knows"}, {"does not name the template", "templates,"},
			{"without the request", "requests,"}, {"no system message or no question", "digests of messages"}, {"no more messages", "no more messages"}, {"longer head", "a longer head"},
			{"is not shown whole", "not shown whole"}, {"more messages that are not", "or too many"}, {"of its start workspace", "the start workspace"}, {"of a start workspace", "the start workspace"},
			{"gave a file", "a tool gave a file"}, {"neither one of this version", "neither one of this version"}, {"more of themselves", "say more of themselves"}},
		"AUD-4":  {{hashes, hashesSkips}, {outside, outside}, {"arguments are cut", "arguments are cut"}, {"the judge cache", "the judge cache"}},
		"AUD-5":  {{noGold, goldSkips}},
		"AUD-6":  {{"does not declare", "does not declare"}, {"by the rule", "a rule that this version does not know"}},
		"AUD-7":  {{"which split", "which split"}, {"consists of", "consists of"}, {"not shown whole", "not shown whole"}},
		"AUD-8":  {{hashes, hashesSkips}, {"not recorded whole", "not recorded whole"}},
		"AUD-10": {{"not recorded as it was given", "not recorded as it was given"}, {noGold, goldSkips}},
		"AUD-12": {{"recording failed", "recording failed"}, {noGold, goldSkips}, {hashes, "digests alone"}, {"template", "templates"}, {"null battery", "a null battery"}, {"rules of the plan", "rules"}, {"is not shown", "an answer is not shown"}},
		"AUD-13": {{"no ids of them", "the journal none"}, {"of another kind", "none of the same"}, {"can be the difference", "could be what the export has more"}},
		"AUD-14": {{"no model", "name no model"}},
		"AUD-18": {{hashes, hashesSkips}, {"not recorded whole", "not recorded whole"}},
		"AUD-19": {{noGold, goldSkips}},
		"AUD-20": {{"null battery", "no null battery"}, {noGold, goldSkips}},
		"AUD-22": {{noGold, goldSkips}, {hashes, hashesSkips}, {"the plan's probes", "probes of another version"}, {"had the network", "had the network"}, {"were not looked through", "not looked through"}, {"up to a bound", "not to their end"},
			{"does not say where", "does not say where"}, {"variables of the agent", "variables were not looked at"}},
		"AUD-23": {{"nothing shows how", "no record of how"}, {"network of its host", "the network of its host"}, {outside, outside}},
		"AUD-21": {{"a start workspace is not recorded", "the start workspace"}},
	}
	said := map[string]string{} // gaps, and where
	for name, r := range reports(t) {
		for _, c := range r.Checks {
			for _, gap := range c.Gaps {
				said[c.ID+" "+gap] = name
			}
		}
	}
	for name, c := range corpus(t) {
		if !strings.Contains(name, "/"+gap) && !strings.HasPrefix(name, "AUD-10/") && !strings.HasPrefix(name, "AUD-20/") {
			continue
		}
		for _, c := range audited(t, c, false).Checks {
			for _, gap := range c.Gaps {
				said[c.ID+" "+gap] = name + " without the gold answers"
			}
		}
	}
	skips := map[string]string{}
	for _, c := range audit.Checks() {
		skips[c.ID] = c.Skips
		for _, clause := range clauses[c.ID] {
			if !strings.Contains(c.Skips, clause[1]) {
				t.Errorf("%s does not say that it skips when %q", c.ID, clause[1])
			}
		}
	}
	for text, name := range said {
		id, gap, _ := strings.Cut(text, " ")
		if !slices.ContainsFunc(clauses[id], func(clause [2]string) bool { return strings.Contains(gap, clause[0]) }) {
			t.Errorf("%s: no clause of what %s skips is for %q; it skips when %s", name, id, gap, skips[id])
		}
	}
}

// TestRulesStandAlone: what a rule says is read without the rules before it.
func TestRulesStandAlone(t *testing.T) {
	for _, c := range audit.Checks() {
		for _, r := range c.Rules {
			for _, words := range []string{"like these", "like those", "such a name", "the same as above"} {
				if strings.Contains(r.When, words) {
					t.Errorf("%s.%s points to another rule: %s", c.ID, r.ID, r.When)
				}
			}
		}
	}
}
