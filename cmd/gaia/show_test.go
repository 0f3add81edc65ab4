package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestShowTells: what rules, people and rollbacks did, what was taken out of a conversation, what was shown beside
// it, what the time cut, and why a task was not begun.
func TestShowTells(t *testing.T) {
	t.Parallel()
	const question = `
-- task fab1e107-0000-4000-8000-000000000011 --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel
`
	const cutCall = `
-- patch model_call_completed --
{"error":{"code":"cancelled","message":"cancelled while the request was under way","retryable":false,"status":null},"head":"","output_sha256":"","request_id":null,"response_model":null,"tokens":{"in":0,"out":0}}
`
	diff := ""
	for i := range 20 {
		diff += fmt.Sprintf(`+line %d\n`, i)
	}
	tool := func(name string) string {
		return `{"description":"Does it.","name":"` + name + `","schema_sha256":"sha256:3f0a5b8c1d2e4f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"}`
	}
	for name, tt := range map[string]struct {
		story string
		task  string
		want  []string
	}{
		"picture": {"-- plan --\n{\"model\":{\"images\":true}}\n" + question + "file: house.png\n\n-- workspace house.png --\nPNG, a house\n\n-- picture house.png --\n\n-- answer Ostrel --\nBy the chart.\n",
			"fab1e107", []string{"\n  turn 1\n  shown with the question: house.png (image/png, 12 bytes)\n  model "}},
		"condensed": {question + "\n-- call browse {\"url\":\"http://a.example/\"} --\n\n-- condense call-1 --\n\n-- answer Ostrel --\nBy the chart.\n",
			"fab1e107", []string{"\n  turn 2\n  condensed: 1 result taken out to make room (context_window)\n  model "}},
		"cut": {question + cutCall + "\n-- no answer --\nIt is said to be Ostrel.\n",
			"fab1e107", []string{"\n  turn 1\n  cut: the time of the attempt was up\n"}},
		"stopped": {question + cutCall + "\n-- error 504 --\nlate\n\n-- answer Ostrel --\nBy the chart.\n",
			"fab1e107", []string{"\n  turn 1\n  model failed: 0 cancelled while the request was under way\n"}},
		"governed": {`
-- plan --
{"policy":{"confirm":["browse"]},"tools":[` + tool("browse") + `,` + tool("python") + `,` + tool("read_file") + `]}
` + question + `
-- workspace a.csv --
1,2

-- call browse {"page":7,"deep":true,"find":"seven","url":"http://a.example/"} --
The old harbour.

-- patch rollback --
{"restored":["made.txt","notes/a.txt"],"tree_found":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}

-- call read_file {"path":"../../results.jsonl"} --

-- patch attempt_ended --
{"workspace":{"added":20,"diff":"` + diff + `","files":["made.txt"],"removed":1,"reworked":2,"tree_sha256":"sha256:0000000000000000000000000000000000000000000000000000000000000000","truncated":true}}

-- answer Ostrel --
By the chart.
`, "fab1e107", []string{
			"\n  call browse(deep=true, find=\"seven\", page=7, url=\"http://a.example/\")\n  approval asked: the policy requires it\n  approval given by a person, after 4000 ms\n",
			"\n  rules hit: R002\n  violation: R002 grader surfaces: this names the run's own records or verdicts (results.jsonl)\n" +
				"  rollback: put back: made.txt, notes/a.txt; the workspace is as it was\n  refused of read_file",
			"\n  workspace: 1 file changed: made.txt; 20 lines added, 1 removed, 2 reworked\n    +line 0\n", "\n    … 8 more lines\n",
		}},
		"skipped": {"-- plan --\n{\"budgets\":{\"run_cost_microusd\":30}}\n" + question + "\n-- answer Ostrel --\nBy the chart.\n" + strings.ReplaceAll(question, "0011", "0012"),
			"fab1e107-0000-4000-8000-000000000012", []string{"sealed as skipped\nnot begun: $0.000030 the run, used up or not enough for another attempt\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := runs.Parse(tt.story)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "run")
			if err := c.Write(dir); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := trusting(t, "show", dir, tt.task)
			if code != exit.OK {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			for _, want := range tt.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("show does not say %q:\n%s", want, stdout)
				}
			}
			if name == "governed" {
				_, stdout, _ := command(t, "show", dir, tt.task, "--diff")
				if want := "    +line 18\n    +line 19\n    … the journal has no more of it\n"; !strings.Contains(stdout, want) {
					t.Errorf("show --diff does not say %q:\n%s", want, stdout)
				}
				if _, stdout, _ = command(t, "show", dir); !strings.Contains(stdout, "rules      1 violation, 1 rollback\n") {
					t.Errorf("show does not count what rules stopped:\n%s", stdout)
				}
			}
			if name == "skipped" {
				want := "budget     $0.000030 the run, used up or not enough for another attempt: 1 task was not begun\n"
				if _, stdout, _ := command(t, "show", dir); !strings.Contains(stdout, want) {
					t.Errorf("show does not say %q:\n%s", want, stdout)
				}
			}
		})
	}
}
