package stats

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// scored writes tasks as "a solved", "b failed ?" for a price that is unknown, or "c failed
// other" for another question; each costs 100 and takes 10 tokens more than the one before.
func scored(lines ...string) []Scored {
	var out []Scored
	for i, line := range lines {
		words := strings.Fields(line)
		cost := int64(100 * (i + 1))
		s := Scored{CostMicroUSD: &cost, Level: 1 + i%3, Outcome: words[1], Question: "asked", TaskID: words[0], Tokens: int64(10 * (i + 1))}
		if len(words) > 2 && words[2] == "?" {
			s.CostMicroUSD = nil
		} else if len(words) > 2 {
			s.Question = words[2]
		}
		out = append(out, s)
	}
	return out
}

func TestCompare(t *testing.T) {
	micro := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		a, b []Scored
		want Comparison
	}{
		{"each kind of pair", scored("a solved", "b solved", "c failed", "d error"), scored("d skipped", "c solved", "b error", "a solved"),
			Comparison{
				A: Compared{CostMicroUSD: micro(1000), Only: []string{}, RatePPM: 500_000, Solved: 2, Tokens: 100},
				B: Compared{CostMicroUSD: micro(1000), Only: []string{}, RatePPM: 500_000, Solved: 2, Tokens: 100},
				// The sum of 4 draws of −1, 0, 0, +1: 1 of 256 resamples gives −4, 8 give −3.
				Both: 1, CostMicroUSD: micro(0), Flips: []Flip{{"solved", 2, "b", "error"}, {"failed", 3, "c", "solved"}}, HighPPM: 750_000, LowPPM: -750_000,
				Neither: 1, OnlyA: 1, OnlyB: 1, Other: []string{}, PPPM: 1_000_000, Tasks: 4}},
		{"what both have", scored("x solved", "a failed", "y failed", "b failed"), scored("a solved", "z failed", "b failed"),
			Comparison{
				A:    Compared{CostMicroUSD: micro(600), Only: []string{"x", "y"}, Tokens: 60},
				B:    Compared{CostMicroUSD: micro(400), Only: []string{"z"}, RatePPM: 500_000, Solved: 1, Tokens: 40},
				Both: 0, CostMicroUSD: micro(-200), Flips: []Flip{{"failed", 2, "a", "solved"}}, HighPPM: 1_000_000, LowPPM: 0,
				Neither: 1, OnlyB: 1, Other: []string{}, PPPM: 1_000_000, RatePPM: 500_000, Tasks: 2, Tokens: -20}},
		{"another question, an unknown price", scored("a solved", "b solved ?"), scored("a solved other", "b solved"),
			Comparison{
				A:    Compared{Only: []string{}, RatePPM: million, Solved: 1, Tokens: 20},
				B:    Compared{CostMicroUSD: micro(200), Only: []string{}, RatePPM: million, Solved: 1, Tokens: 20},
				Both: 1, Flips: []Flip{}, Other: []string{"a"}, PPPM: 1_000_000, Tasks: 1}},
	} {
		got, err := Compare(c.a, c.b)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.name, err, got, c.want)
		}
	}
}

// TestCompareSkipped: a task that one run did not begin is compared by the dataset that
// both plans name.
func TestCompareSkipped(t *testing.T) {
	task := func(asked, metadata, file string) []Scored {
		return []Scored{{FileName: file, MetadataSHA256: metadata, Outcome: trajectory.Failed, Question: asked, TaskID: "a"},
			{Outcome: trajectory.Solved, Question: "the same", TaskID: "b"}}
	}
	for name, c := range map[string]struct {
		a, b  []Scored
		tasks int
	}{
		"asked once, one dataset":     {task("x", "one", ""), task("", "one", ""), 2},
		"asked once, two datasets":    {task("x", "one", ""), task("", "two", ""), 1},
		"never asked, two datasets":   {task("", "one", ""), task("", "two", ""), 1},
		"asked twice, two datasets":   {task("x", "one", ""), task("x", "two", ""), 2},
		"asked otherwise":             {task("x", "one", ""), task("y", "one", ""), 1},
		"asked about different files": {task("x", "one", "a.csv"), task("x", "one", "b.csv"), 1},
	} {
		if got, err := Compare(c.a, c.b); err != nil || got.Tasks != c.tasks {
			t.Errorf("%s: %d tasks, %v; want %d", name, got.Tasks, err, c.tasks)
		}
	}
}

func TestCompareRefusals(t *testing.T) {
	many := make([]Scored, maxCompared+1)
	for i := range many {
		many[i] = Scored{Outcome: trajectory.Failed, TaskID: fmt.Sprint(i)}
	}
	for _, c := range []struct {
		a, b []Scored
		want string
	}{
		{scored("a solved"), scored("b solved"), "no task in common"},
		{scored("a solved"), scored("a solved other"), "no task in common"},
		{nil, nil, "no task in common"},
		{many, many, "20001 tasks in common, and at most 20000"},
	} {
		if got, err := Compare(c.a, c.b); err == nil || !strings.Contains(err.Error(), c.want) || !reflect.DeepEqual(got, Comparison{}) {
			t.Errorf("%v: %v", c.want, err)
		}
	}
}
