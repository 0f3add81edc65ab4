package tools

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
)

// What a model refuses is a result with what it took, and who refused is said
// only if someone was asked; any other failure ends the attempt.
func TestAskingFails(t *testing.T) {
	const cannot, who = `cannot hear "a"`, "the model that hears"
	cost := int64(7)
	for _, c := range []struct {
		name   string
		tries  int
		err    *llm.Error
		want   string // shown; "": it is an error
		billed bool
	}{
		{"refused", 2, &llm.Error{Status: 400, Message: "no such sound", RequestID: "r1"}, `error: cannot hear "a": the model that hears does not take it: no such sound`, true},
		{"never asked", 0, &llm.Error{Message: "it has no form", RequestID: ""}, `error: cannot hear "a": it has no form`, true},
		{"after many tries", 6, &llm.Error{Status: 503, Message: "busy", RequestID: "r2", Retryable: true}, "", false},
		{"key refused, after an answer that was paid", 2, &llm.Error{Status: 401, Message: "no", RequestID: "r3", Stop: true}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := (&Env{}).Asking("m")
			for n := range c.tries {
				must(t, asked.TryStarted(n+1))
			}
			if c.billed && c.want == "" {
				must(t, asked.TryCompleted(llm.Try{Response: &llm.Response{CostMicroUSD: &cost}}))
			}
			out, err := asked.Failure(c.err, cannot, who)
			if out.Shown != c.want || out.IsError == (c.want == "") || (err != nil) != (c.want == "") || (out.Model != nil) != c.billed {
				t.Fatalf("%+v, %v", out, err)
			}
			if c.want != "" && (out.Model.RequestID != c.err.RequestID || out.Model.Tries != c.tries || *out.Model.CostMicroUSD != 0) {
				t.Errorf("recorded %+v", *out.Model)
			}
			if c.want == "" && c.billed && *out.Model.CostMicroUSD != cost {
				t.Errorf("billed %+v", *out.Model)
			}
		})
	}
}
