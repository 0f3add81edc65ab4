package run

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/trajectory"
)

// How many attempts have to fail before the run stops.
const (
	// maxAway is how many consecutive attempts may fail to reach the model, each after
	// all its tries: then the endpoint is away, and every further task would fail. A
	// second attempt at the same task shows the same. Replies that cannot be used are
	// not counted: the task may be the cause.
	maxAway = 10
	// maxRefused is how many tasks may be refused in the same way before any task had
	// a reply: it is not what they ask that the endpoint refuses.
	maxRefused = 4
)

// outage counts what speaks against the endpoint, by the attempts that failed, in
// this process.
type outage struct {
	away    []string             // tasks of consecutive attempts that could not reach the model
	refused map[refused][]string // tasks, each once
	replied bool                 // a task had a reply, in any process
}

// refused is how an endpoint refuses a request for good.
type refused struct {
	status int
	code   string
}

// failed takes how an attempt at a task failed, and returns why the run is to stop,
// "" if it is not. text is the error in words that can be recorded.
func (o *outage) failed(task string, e *llm.Error, text string) string {
	if e.Retryable && (e.Status < 200 || e.Status > 299) {
		twice := slices.Contains(o.away, task)
		o.away = append(o.away, task)
		if n := len(o.away); n >= maxAway || twice {
			return fmt.Sprintf("%d consecutive attempts could not reach the model; last error: %s", n, text)
		}
		return ""
	}
	o.away = nil
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

// saw takes an event of the journal.
func (o *outage) saw(e trajectory.Event) {
	if done, ok := e.Payload.(trajectory.ModelCallCompleted); ok && done.Error == nil {
		o.replied = true
	}
}

// ended notes an attempt that did not fail: the endpoint is there.
func (o *outage) ended() { o.away = nil }

// A StopError means that a model which the run needs cannot be asked. The run is
// closed, and goes on when it is resumed. Its text is without secrets.
type StopError struct {
	Asked string // the kind of model, as preflight names them: trajectory.PreflightModel and so on
	text  string
	cause error
}

func (e *StopError) Error() string { return e.text }
func (e *StopError) Unwrap() error { return e.cause }
