package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
)

// TestRemedy: a mistake in the plan is not said to be fixed by resuming.
func TestRemedy(t *testing.T) {
	const resume = "gaia resume runs/01J"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("the disk is full"), "fix that, then: " + resume},
		{&llm.Error{Status: 503, Code: "http_503"}, "fix that, then: " + resume},
		{&llm.Error{Status: 401, Code: "invalid_api_key"}, "set OPENAI_API_KEY to a key of the endpoint, then: " + resume},
		{&llm.Error{Status: 400, Code: "responses_api_required"}, "start a new run with --api responses: resume keeps to the interface of the plan"},
		{&llm.Error{Status: 404, Code: "http_404", Hint: "try --base-url http://127.0.0.1:8000/v1"}, "try --base-url http://127.0.0.1:8000/v1"},
		{&llm.Error{Code: "not_on_cassette"}, "start a new run with the settings that the recording was made with: tasks, model, budgets and tools"},
	} {
		if got := classify(unfinished(fmt.Errorf("solving: %w", tt.err), resume)).Hints; len(got) != 1 || got[0] != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
