// Package outage decides by the attempts that failed whether the endpoint of a run is down, so that the run stops and can
// be resumed in place of losing its tasks.
//
// A run stops in three cases: consecutive attempts could not reach the model; the endpoint says that no request can
// succeed, such as for a key that is not valid; or it refuses several tasks in the same way before any task had a reply.
// What one task alone may be the cause of stops no run. run.TestOutage and the tests beside it try it with real
// endpoints.
package outage

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// How many attempts have to fail before the run stops.
const (
	// maxUnreachable is how many consecutive attempts may fail to reach the model, each after all its tries: every
	// further task would fail. A second attempt at the same task shows the same. Replies that cannot be used are not
	// counted: the task may be the cause.
	maxUnreachable = 10
	// maxRefused is how many tasks may be refused in the same way before any task had a reply: it is not what they ask
	// that the endpoint refuses.
	maxRefused = 4
)

// Outage counts what shows that the endpoint is down, by the attempts that failed, in this process.
type Outage struct {
	unreachable []string             // tasks of consecutive attempts that could not reach the model
	refused     map[refused][]string // tasks, each once
	replied     bool                 // a task had a reply, in any process
}

// Reached takes note of an attempt that did not fail: the endpoint is there.
func (o *Outage) Reached() { o.unreachable = nil }

// refused is how an endpoint refuses a request for good.
type refused struct {
	status int
	code   string
}

// Failed counts how an attempt at a task failed, and returns why the run is to stop, "" if it is not. text is the error
// in words that can be recorded.
func (o *Outage) Failed(task string, e *llm.Error, text string) string {
	if e.Retryable && (e.Status < 200 || e.Status > 299) {
		twice := slices.Contains(o.unreachable, task)
		o.unreachable = append(o.unreachable, task)
		if n := len(o.unreachable); n >= maxUnreachable || twice {
			return fmt.Sprintf("%d consecutive attempts could not reach the model; last error: %s", n, text)
		}
		return ""
	}
	o.unreachable = nil
	if e.Stop {
		return text
	}
	if o.replied || e.Retryable || e.Status < 400 || e.OneRequest() {
		return ""
	}
	how := refused{e.Status, e.Code}
	if !slices.Contains(o.refused[how], task) {
		if o.refused == nil {
			o.refused = map[refused][]string{}
		}
		o.refused[how] = append(o.refused[how], task)
	}
	if n := len(o.refused[how]); n >= maxRefused {
		return fmt.Sprintf("the endpoint refused the first request of %d tasks in the same way; last error: %s", n, text)
	}
	return ""
}

// Saw takes an event of the journal.
func (o *Outage) Saw(e trajectory.Event) {
	if done, ok := e.Payload.(trajectory.ModelCallCompleted); ok && done.Error == nil {
		o.replied = true
	}
}
