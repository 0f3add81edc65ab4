package history

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCosts: what a run cost is counted of all its tasks, and what is not known is no 0; lines can be read again, in any
// order and twice.
func TestCosts(t *testing.T) {
	ungraded := statsAt("c", "2031-02-05", "x "+trajectory.Unscored)
	ungraded.Dataset.Selection, ungraded.Dataset.ErrorsOf.RunID = "errors-of=b task=x", "b"
	var costs []Cost
	for _, s := range []rundir.RunStats{statsAt("b", "2031-02-04", "x solved", "y failed"), statsAt("a", "2031-02-03", "x solved", "y solved ?"), ungraded} {
		costs = append(costs, CostOf(s))
	}
	b, err := CostLines(costs)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cost_microusd":2000,"manifest_sha256":"","model":"m","run_id":"b","schema":"gaia.cost/1","selection":"","signed_by":"","solved":1,"started":"2031-02-04T12:00:00.000Z","tasks":2,"tokens":200}
{"cost_microusd":null,"manifest_sha256":"","model":"m","run_id":"a","schema":"gaia.cost/1","selection":"","signed_by":"","solved":2,"started":"2031-02-03T12:00:00.000Z","tasks":2,"tokens":200}
{"cost_microusd":1000,"manifest_sha256":"","model":"m","only_errors":true,"run_id":"c","schema":"gaia.cost/1","selection":"errors-of=b task=x","signed_by":"","solved":null,"started":"2031-02-05T12:00:00.000Z","tasks":1,"tokens":100}
`
	if string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	first, _, _ := strings.Cut(want, "\n")
	read, err := ReadCosts([]byte(want + first + "\n"))
	if err != nil || len(read) != 3 || read[0].RunID != "a" || read[1].RunID != "b" || *read[1].Solved != 1 || read[2].Solved != nil {
		t.Fatalf("%+v, %v", read, err)
	}
	if p := CostCurve(read); len(p.Rows) != 3 || p.Rows[1][6] != "0.001000" || p.SVG == "" {
		t.Errorf("%+v", p)
	}
	for cause, lines := range map[string]string{
		"line 1: it does not end":                     first,
		"line 2: another line has the run b":          first + "\n" + strings.Replace(first, `"solved":1`, `"solved":0`, 1) + "\n",
		"line 1: its schema is":                       strings.Replace(first, "gaia.cost/1", "gaia.cost/2", 1) + "\n",
		`line 1: it began at "soon"`:                  strings.Replace(first, "2031-02-04T12:00:00.000Z", "soon", 1) + "\n",
		"line 1: it has values that no run has":       strings.Replace(first, `"solved":1`, `"solved":3`, 1) + "\n",
		`its selection "errors-of=b task=x" and only`: strings.Replace(string(b), `"only_errors":true,`, "", 1),
		"line 2: not the canonical JSON of its type":  first + "\n\n",
	} {
		if _, err := ReadCosts([]byte(lines)); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%v, want %s", err, cause)
		}
	}
}

// FuzzReadCosts: what is read is written as it was, sorted, and can be drawn.
func FuzzReadCosts(f *testing.F) {
	b, err := CostLines([]Cost{CostOf(statsAt("b", "2031-02-04", "x solved", "y failed"))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(bytes.Replace(b, []byte(`"b"`), []byte(`"a"`), 1), b...))
	f.Fuzz(func(t *testing.T, lines []byte) {
		costs, err := ReadCosts(lines)
		if err != nil {
			return
		}
		b, err := CostLines(costs)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			if !bytes.Contains(lines, line) {
				t.Errorf("%q is not in %q", line, lines)
			}
		}
		if p := CostCurve(costs); len(p.Rows) != len(costs) {
			t.Errorf("%d rows of %d runs", len(p.Rows), len(costs))
		}
	})
}
