package rundir

import (
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestFailed: an attempt failed for infrastructure only where neither the agent nor the model can be the cause.
func TestFailed(t *testing.T) {
	model, tool := &trajectory.Error{Stage: "model"}, &trajectory.Error{Stage: "solve"}
	call := func(e trajectory.CallError) serverCounts {
		var c serverCounts
		c.add(trajectory.ModelCallCompleted{Error: &e})
		return c
	}
	again := serverCounts{down: true}
	again.add(trajectory.ModelCallCompleted{})
	ended := func(reason string) *trajectory.AttemptEnded {
		return &trajectory.AttemptEnded{Outcome: trajectory.Errored, Reason: reason}
	}
	infra := ended(trajectory.Infrastructure)
	notStarted := &trajectory.AttemptEnded{Agent: &trajectory.AgentEnd{Ended: trajectory.AgentNotStarted}, Outcome: trajectory.Errored, Reason: trajectory.Infrastructure}
	for name, tc := range map[string]struct {
		a     Attempt
		want  Failed
		infra bool
	}{
		"under way":              {Attempt{}, "", false},
		"answered":               {Attempt{Ended: &trajectory.AttemptEnded{Outcome: trajectory.Answered}}, "", false},
		"no answer":              {Attempt{Ended: &trajectory.AttemptEnded{Outcome: trajectory.NoAnswer}, server: call(trajectory.CallError{Status: 503, Retryable: true})}, "", false},
		"server error":           {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Status: 503, Retryable: true})}, FailedEndpoint, true},
		"rate limit":             {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Status: 429, Retryable: true})}, FailedEndpoint, true},
		"unreachable":            {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Code: trajectory.Unreachable, Retryable: true})}, FailedEndpoint, true},
		"cut off":                {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Status: 200, Code: "truncated_json", Retryable: true})}, FailedEndpoint, true},
		"unusable reply":         {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Status: 200, Code: "empty_completion", Retryable: true})}, FailedRequest, false},
		"refused request":        {Attempt{Ended: infra, Error: model, server: call(trajectory.CallError{Status: 400})}, FailedRequest, false},
		"a reply came afterward": {Attempt{Ended: infra, Error: model, server: again}, FailedRequest, false},
		"tool":                   {Attempt{Ended: infra, Error: tool, server: call(trajectory.CallError{Status: 503, Retryable: true})}, FailedOther, false},
		"no cause":               {Attempt{Ended: infra}, FailedOther, false},
		"not started":            {Attempt{Ended: notStarted, Error: tool}, FailedSandbox, true},
		"interrupted":            {Attempt{Ended: ended(trajectory.Interrupted)}, FailedInterrupted, true},
		"stopped":                {Attempt{Ended: ended(trajectory.RunStopped), Error: model}, FailedStop, true},
		"interrupted answer":     {Attempt{Ended: ended(trajectory.Interrupted), silent: 1}, FailedLost, false},
		"stopped answer":         {Attempt{Ended: ended(trajectory.RunStopped), silent: 1}, FailedLost, false},
	} {
		if got := tc.a.Failed(); got != tc.want || got.Infrastructure() != tc.infra {
			t.Errorf("%s: %q, of infrastructure: %t", name, got, got.Infrastructure())
		}
	}
}
