package submit

import (
	"errors"
	"github.com/gaia-harness/gaia/internal/rundir"
	"os"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// tooGood and tooBad are runs whose journal holds a verdict that the official
// scorer does not give.
func tooGood(t testing.TB) string {
	t.Helper()
	return change(t, two, "-- answer 14 --", "-- patch judgment --\n{\"official\":true}\n-- answer 15 --")
}

func tooBad(t testing.TB) string {
	t.Helper()
	return change(t, two, "-- answer 14 --", "-- patch judgment --\n{\"official\":false}\n-- answer 14 --")
}

// voted is a run with three attempts, of which the one that does not count was
// credited.
const voted = `A vote in which an answer that lost is credited.
-- plan --
{"voting":{"attempts":3,"rule":"majority.v1"}}
-- split validation --
carried gold
` + firstTask + `
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- call web_fetch {"url":"http://almanac.example/heights.html"} --
The lamps of Ostrel were fourteen in number.
-- answer 14 --
The almanac counts fourteen lamps.
-- call web_fetch {"url":"http://almanac.example/heights.html"} --
The lamps of Ostrel were fourteen in number.
-- patch judgment --
{}
-- patch judgment --
{"official":true}
-- answer 15 --
I counted them.
-- call web_fetch {"url":"http://almanac.example/heights.html"} --
The lamps of Ostrel were fourteen in number.
-- answer 14 --
The almanac counts fourteen lamps.
`

// TestRescore: with the gold answers at hand a verdict that the scorer does not
// give is found, whoever audited with what.
func TestRescore(t *testing.T) {
	long.NotRaced(t)
	for name, tt := range map[string]struct{ text, want string }{
		"credited":                    {tooGood(t), "says that the answer is correct, and by the gold answers it is not"},
		"not credited":                {tooBad(t), "says that the answer is not correct, and by the gold answers it is"},
		"an attempt that lost a vote": {voted, "says that the answer of attempt 2 is correct, and by the gold answers it is not"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, tt.text)
			gold := c.Gold
			_, err := Build(t.Context(), withDirty(c))
			wantRescoreFault(t, err, tt.want)
			nothingLeft(t, c.Out)
			c.Gold = nil // whoever packages it has never seen the answers
			p := mustBuild(t, withDirty(c))
			if p.NotRescored != noGold {
				t.Errorf("without gold answers: %q", p.NotRescored)
			}
			_, err = Verify(os.DirFS(p.Path), Options{Gold: gold})
			wantRescoreFault(t, err, tt.want)
		})
	}
	c := config(t, two)
	v, err := Verify(os.DirFS(mustBuild(t, c).Path), Options{Gold: c.Gold})
	if err != nil || v.NotRescored != "" {
		t.Errorf("an honest run: %+v, %v", v, err)
	}
	if err := v.Rescore(&audit.Gold{Answers: map[string]string{firstTask: "15", secondTask: "Tolmey"}, Salt: c.Gold.Salt}); !errors.Is(err, audit.ErrGold) {
		t.Errorf("other answers: %v", err)
	}
	unscored := config(t, planned(change(t, change(t, change(t, two, "gold: 14\n", ""), "gold: Tolmey\n", ""), "-- split validation --\ncarried gold\n", "-- split test --\n"), `{"dataset":{"split":"test"}}`))
	if p := mustBuild(t, unscored); p.NotRescored != "the run is unscored" {
		t.Errorf("an unscored run: %q", p.NotRescored)
	}
}

func withDirty(c Config) Config {
	c.AllowDirty = true
	return c
}

func wantRescoreFault(t *testing.T, err error, want string) {
	t.Helper()
	var fault *trajectory.Fault
	if !errors.As(err, &fault) || fault.File != rundir.ResultsFile || fault.Line != 1 || fault.Reason != want {
		t.Errorf("%v, want %s: line 1: %s", err, rundir.ResultsFile, want)
	}
}

// TestRescoreLeavesOutVoid: a task that was made void counts wrong whatever its
// verdict is.
func TestRescoreLeavesOutVoid(t *testing.T) {
	c := config(t, tooGood(t))
	decide(t, c, ruling(t, c, audit.Void, "AUD-12.verdict-differs", firstTask))
	decide(t, c, ruling(t, c, audit.Void, "AUD-5.verdict-differs", firstTask))
	p := mustBuild(t, withDirty(c))
	if p.NotRescored != "" || p.Statement.Predicate.Scores.Official.Correct != 0 {
		t.Errorf("%q, %+v", p.NotRescored, p.Statement.Predicate.Scores)
	}
}

// TestRescoreBeforeReport: who holds the key, credits an answer and writes a
// report that is silent about it is told of the verdict, which says more than that
// the report differs.
func TestRescoreBeforeReport(t *testing.T) {
	c := config(t, tooGood(t))
	gold := c.Gold
	c.Gold = nil
	pkg := memory(load(t, mustBuild(t, withDirty(c)).Path))
	resign(t, pkg, runs.Key(), func(s *Statement) { claimGold(&s.Predicate, true, BySigner) })
	if _, err := Verify(pkg, byAnother()); err != nil && !strings.Contains(err.Error(), "leaves out") {
		t.Fatal(err)
	}
	_, err := Verify(pkg, Options{Gold: gold})
	wantRescoreFault(t, err, "says that the answer is correct, and by the gold answers it is not")
}
