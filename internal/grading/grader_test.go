package grading

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/judge"
)

// cutOff is a model whose requests end with their context.
type cutOff struct{ cancel func() }

func (c cutOff) Chat(ctx context.Context, _ llm.Request, _ llm.Observer) (llm.Response, error) {
	c.cancel()
	return llm.Response{}, ctx.Err()
}

// TestScoreCutOff: a judge that passed its self-test is asked when the grading ends, for example because the disk is full.
func TestScoreCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	j := Judge{Client: cutOff{cancel}, Name: "judge"}
	p := j.Plan(false)
	g := &Grader{Judge: &j, Plan: &p, Now: time.Now, Recorded: func() (passed, settled bool) { return true, true }}
	answer := "blue"
	_, _, err := g.Score(ctx, judge.Item{TaskID: "t", Question: "Which colour?", Gold: "red", Answer: &answer})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
