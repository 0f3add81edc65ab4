package audit_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// unreachable are the rules by which nothing can be found in a run that
// verifies, each with the reason. What they find is shown on evidence that no
// journal gave.
func unreachable() map[string]string {
	return map[string]string{
		"AUD-11.coverage-differs":    "results and summary are rebuilt from the journal before the audit begins, one for each planned task: TestCoverageDenominator",
		"AUD-11.headline-differs":    "the summary is rebuilt from the journal before the audit begins: TestCoverageDenominator",
		"AUD-6.answer-after-grading": "no text has two attempts open at a time: TestAnswerAfterGrading",

		"AUD-6.attempts-superseded":       "a text has one journal: TestMergedRules",
		"AUD-6.merged-by-another-version": "a text has one journal: TestMergedRules",
		"AUD-6.shard-lost":                "a text has one journal: TestMergedRules",
		"AUD-6.shards-lost":               "a text has one journal: TestMergedRules",
		"AUD-6.tasks-made-again":          "a text has one journal: TestMergedRules",
	}
}

// TestRules: every rule finds what at least two cases expect of it by name, and
// with the rule switched off these do not get it. It switches off that of one
// case in 12, in the thorough run of all, or of a third where commits take turns.
func TestRules(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	expected := map[string][]string{}
	for name, c := range corpus(t) {
		for _, want := range c.Expect {
			if want.Rule != "" {
				rule := want.Check + "." + want.Rule
				expected[rule] = append(expected[rule], name)
			}
		}
	}
	eachCase(t, 12, func(t *testing.T, name string, c runs.Case) {
		files, err := c.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.Expect {
			if want.Rule == "" {
				continue
			}
			rule := want.Check + "." + want.Rule
			r, err := auditedWith(files, c, true, audit.Options{}.Without(rule))
			if err != nil {
				t.Fatal(err)
			}
			if len(unmet(check(t, r, want.Check), want)) == 0 {
				t.Errorf("without %s it is the same", rule)
			}
		}
	})
	for _, c := range audit.Checks() {
		for _, r := range c.Rules {
			rule := c.ID + "." + r.ID
			cases := slices.Compact(slices.Sorted(slices.Values(expected[rule])))
			delete(expected, rule)
			switch reason := unreachable()[rule]; {
			case reason != "" && len(cases) > 0:
				t.Errorf("%s is found in %v, though %s", rule, cases, reason)
			case reason == "" && len(cases) < 2:
				t.Errorf("%s is expected by name in %d cases, want 2: %v", rule, len(cases), cases)
			}
		}
	}
	for rule, cases := range expected {
		t.Errorf("there is no rule %s, which %v expects", rule, cases)
	}
}

// eachCase runs a test for every case of the corpus, or one of step, some of them
// at a time, and returns when all are done.
func eachCase(t *testing.T, step int, visit func(t *testing.T, name string, c runs.Case)) {
	t.Helper()
	cases := corpus(t)
	t.Run("cases", func(t *testing.T) {
		for i, name := range slices.Sorted(maps.Keys(cases)) {
			if !long.Walk(i, step) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				visit(t, name, cases[name])
			})
		}
	})
}
