package rundir

import (
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

func TestSpent(t *testing.T) {
	cost := func(n int64) *int64 { return &n }
	reply := func(c *int64) trajectory.Payload {
		return trajectory.ModelCallCompleted{OutputSHA256: "sha256:x", CostMicroUSD: c}
	}
	for _, tt := range []struct {
		name     string
		payloads []trajectory.Payload
		unknown  int64
		want     int64
	}{
		{"nothing", nil, 5, 0},
		{"all known", []trajectory.Payload{reply(cost(3)), trajectory.Judgment{CostMicroUSD: cost(4)}, trajectory.ToolExecuted{Model: &trajectory.ModelUse{CostMicroUSD: cost(5)}}}, 100, 12},
		{"a failed try costs nothing", []trajectory.Payload{trajectory.ModelCallCompleted{}, trajectory.ToolExecuted{}, trajectory.TurnStarted{}}, 100, 0},
		{"unknown is the most expensive", []trajectory.Payload{reply(cost(3)), reply(cost(9)), reply(nil), reply(nil)}, 5, 30},
		{"and no less than what is said", []trajectory.Payload{reply(cost(3)), trajectory.Judgment{}}, 50, 53},
		{"an answer that was lost may be billed", []trajectory.Payload{reply(cost(9)), trajectory.ModelCallStarted{}, trajectory.ModelCallCompleted{Error: &trajectory.CallError{Code: "timeout"}}}, 5, 18},
		{"a refusal is not", []trajectory.Payload{reply(cost(9)), trajectory.ModelCallCompleted{Error: &trajectory.CallError{Status: 429}}, trajectory.ModelCallCompleted{Error: &trajectory.CallError{Code: trajectory.Unreachable}}}, 5, 9},
		{"a request without an end may be", []trajectory.Payload{trajectory.ModelCallStarted{}, trajectory.ModelCallStarted{}, reply(cost(9))}, 5, 18},
		{"and no sum overflows", []trajectory.Payload{reply(cost(maxCounted - 1)), reply(nil), reply(nil)}, 0, maxCounted},
	} {
		var f Fold
		for _, p := range tt.payloads {
			f.price(p)
		}
		if got := f.Spent(tt.unknown); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
