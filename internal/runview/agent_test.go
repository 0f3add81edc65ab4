package runview

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestOwnAgent: exchanges that overlap are shown in the order of their beginning, with what was refused, and how the
// process ended.
func TestOwnAgent(t *testing.T) {
	const task = "fab1e107-0000-4000-8000-000000000001"
	c, err := runs.Parse(`-- plan --
{"agent":{"tools":"gate","network":"record"}}
-- task ` + task + ` --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel
file: chart.csv
-- workspace chart.csv --
harbour,name
-- patch attempt_ended --
{"agent":{"confined":{"no_route":2,"unheard":7},"exit":3,"stderr":"Traceback: no such harbour\n","stderr_bytes":27}}
-- refused model_not_planned --
-- refused budget_spent --
-- refused budget_spent --
-- batch 2 calculate {"expression":"2+2"} --
4
-- exchange GET https://almanac.example/harbours --
Tolmey, once Ostrel
-- patch exchange_completed --
{"status":0,"error":"refused","content_type":null}
-- exchange GET https://almanac.example/ports --
-- answer Ostrel --
By the chart.
`)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run")
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	dir := os.DirFS(path)
	var records []rundir.Trajectory
	var followed bytes.Buffer
	follower := &Follower{W: &followed}
	var fold *rundir.Fold
	run, err := rundir.Verify(dir, rundir.Options{Begun: func(f *rundir.Fold) { fold = f },
		Event: func(e trajectory.Event) error { return follower.Event(fold, e) },
		Ended: func(r rundir.Trajectory, _ []byte) error { records = append(records, r); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := Task(&shown, dir, run, run.Tasks[0], records, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(shown.String(), "\n")
	at := func(line string) int { return slices.Index(lines, line) }
	call, result := "  call calculate(expression=\"2+2\")", "  result of calculate: 1 bytes"
	second := slices.Index(lines[at("  turn 3")+1:], call)
	if turns := []int{at("  turn 1"), at("  turn 2"), at(call), at(result), at("  turn 3"), at("  exchange 1: GET https://almanac.example/harbours"), at("    200, 19 bytes, 40 ms"), at("    Tolmey, once Ostrel"), at("    no reply: refused"), at("  turn 4")}; !slices.IsSorted(turns) || turns[0] < 0 || second < 0 {
		t.Errorf("lines %d, %d in\n%s", turns, second, shown.String())
	}
	for _, want := range []string{"  3 requests refused (budget_spent: 2, model_not_planned: 1)", "  process: exited with code 3, 20 bytes of standard output, 27 of standard error", "  past the network: 2 to addresses without a route, 7 to local ports where nothing listens", "    Traceback: no such harbour"} {
		if at(want) < 0 {
			t.Errorf("no %q in\n%s", want, shown.String())
		}
	}
	for _, want := range []string{"  attachment: chart.csv (attachment.csv)\n", "  request refused: POST /v1/chat/completions (budget_spent)\n", ", turn 3\n  result of calculate", "  exchange 2: GET https://almanac.example/ports\n    no reply: refused\n", "  process: exited with code 3"} {
		if !strings.Contains(followed.String(), want) {
			t.Errorf("no %q in\n%s", want, followed.String())
		}
	}
}
