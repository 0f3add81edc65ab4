// Package evaluator runs a program of the user as a [history.Evaluator]: one process for each run event, which gets the
// event as a line of JSON and prints its verdict.
//
// Time, output and environment of the program are bounded: it has the variables that it is given and no other. It is the
// leader of a process group, which is killed when it ends or its time is up; a child that left the group stays, and holds
// nothing up. Every failure (it does not start, exits with another code than 0, prints no verdict or too much) is a failed
// evaluation with a reason, never one that passes (TestCommand).
package evaluator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/go-json-experiment/json"
)

// Limits, in bytes, of what a program prints.
const (
	maxVerdict = 64 << 10
	maxDetails = 4 << 10
	maxStderr  = 4 << 10 // the last of it
)

// Command is an evaluator that is a program.
type Command struct {
	Context context.Context // ends all that runs
	Label   string
	Args    []string // the program, and what it is given
	Timeout time.Duration
	Environ []string // NAME=value; nothing else is set
}

// Name is the evaluator's.
func (c Command) Name() string { return c.Label }

// verdict is what a program prints.
type verdict struct {
	Details string   `json:"details"`
	Pass    *bool    `json:"pass"`
	Score   *float32 `json:"score"` // left out: 1 if it passes, else 0
}

// Evaluate runs the program on a run event.
func (c Command) Evaluate(e rundir.RunEvent) history.Evaluation {
	out, err := c.run(e)
	if err == nil {
		var v history.Evaluation
		if v, err = decode(out); err == nil {
			v.Name = c.Label
			return v
		}
	}
	return history.Evaluation{Details: "failed: " + err.Error(), Name: c.Label}
}

func (c Command) run(e rundir.RunEvent) ([]byte, error) {
	line, err := canonical.Encode(e)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Timeout)
	defer cancel()
	out, said := &bounded{limit: maxVerdict, stop: cancel}, &tail{}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append([]string{}, c.Environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(line, '\n')), out, said
	cmd.WaitDelay = time.Second // for what holds its output open and is not killed
	child.Group(cmd)
	err = cmd.Start()
	if err == nil {
		err = cmd.Wait()
		child.Kill(cmd)
	}
	switch {
	case c.Context.Err() != nil:
		return nil, c.Context.Err()
	case out.over:
		return nil, fmt.Errorf("it printed more than %d bytes", maxVerdict)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it took longer than %s%s", c.Timeout, said.last())
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, errors.New("it ended, and left its output open")
	case err != nil:
		return nil, fmt.Errorf("%w%s", err, said.last())
	}
	return out.buf.Bytes(), nil
}

// decode reads a verdict: one JSON object of its members and no others.
func decode(out []byte) (history.Evaluation, error) {
	var v verdict
	if err := json.Unmarshal(out, &v, json.RejectUnknownMembers(true)); err != nil || v.Pass == nil {
		return history.Evaluation{}, errors.New(`it printed no verdict, which is one object such as {"pass": true, "score": 0.5, "details": "why"}`)
	}
	e := history.Evaluation{Details: v.Details, Pass: *v.Pass}
	if e.Pass {
		e.Score = 1
	}
	if v.Score != nil {
		e.Score = *v.Score
	}
	switch {
	case !(e.Score >= 0 && e.Score <= 1):
		return history.Evaluation{}, fmt.Errorf("its score %g is not from 0 to 1", e.Score)
	case len(e.Details) > maxDetails || !utf8.ValidString(e.Details):
		return history.Evaluation{}, fmt.Errorf("its details are longer than %d bytes", maxDetails)
	}
	return e, nil
}

// bounded keeps what is written to it, and stops who writes more than its limit.
type bounded struct {
	buf   bytes.Buffer
	limit int
	over  bool
	stop  func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.buf.Len()+len(p) > b.limit; b.over {
		b.stop()
		return 0, errors.New("too much is printed")
	}
	return b.buf.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct{ end []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	t.end = append([]byte(nil), t.end[max(0, len(t.end)-maxStderr):]...)
	return len(p), nil
}

// last returns the last line that says something, after a colon; "" if there is none.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.end), "\ufffd")), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}
