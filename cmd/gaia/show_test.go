package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures/runs"
)

// TestShowTells: what was taken out of a conversation, what was shown beside
// it, what the time cut, and why a task was not begun.
func TestShowTells(t *testing.T) {
	const question = `
-- task fab1e107-0000-4000-8000-000000000011 --
question: What was the harbour of Tolmey called before it silted up?
gold: Ostrel
`
	const cutCall = `
-- patch model_call_completed --
{"error":{"code":"cancelled","message":"cancelled while the request was under way","retryable":false,"status":null},"head":"","output_sha256":"","request_id":null,"response_model":null,"tokens":{"in":0,"out":0}}
`
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
			code, stdout, stderr := command(t, "show", dir, tt.task)
			if code != exitOK {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			for _, want := range tt.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("show does not say %q:\n%s", want, stdout)
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
