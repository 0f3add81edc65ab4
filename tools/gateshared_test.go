package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestSharedWriters: turns that come at once run beside each other, but for those that can change the workspace: each of
// them is alone, and its checkpoint has what the agent itself wrote before.
func TestSharedWriters(t *testing.T) {
	sink := &gateSink{}
	var running, writing atomic.Int32
	alone := func(env *Env, a probeArgs) (Output, error) {
		if writing.Add(1) != 1 || running.Load() != 0 {
			t.Error("a writer ran beside another call")
		}
		defer writing.Add(-1)
		return saves(env, a)
	}
	var readers sync.WaitGroup
	readers.Add(4)
	reads := func(probeArgs) (Output, error) {
		running.Add(1)
		defer running.Add(-1)
		if writing.Load() != 0 {
			t.Error("a reader ran beside a writer")
		}
		return Output{Shown: "read"}, nil
	}
	s := newSession(t, sink, nil, writer("writer", alone), probe("quick", reads), probe("probe", func(a probeArgs) (Output, error) {
		readers.Done()
		readers.Wait() // for ever, unless all four run at once
		return reads(a)
	}))
	must(t, s.Share())
	own := s.workspace.Root().Name() + "/own"
	must(t, os.WriteFile(own, []byte("of the agent"), 0o600))
	var all sync.WaitGroup
	run := func(turn int, name string) {
		all.Go(func() {
			results, err := s.Run(t.Context(), turn, []Call{{fmt.Sprint("c", turn), name, `{"text":"x"}`}})
			if err != nil || results[0].IsError {
				t.Errorf("%s: %+v, %v", name, results, err)
			}
		})
	}
	for i := range 4 {
		run(i+1, "probe")
	}
	all.Wait()
	for i := range 12 {
		run(i+5, []string{"writer", "writer", "quick"}[i%3])
	}
	all.Wait()
	checkpoints := 0
	for _, p := range flushed(t, s, sink) {
		if c, ok := p.(trajectory.CheckpointSaved); ok {
			checkpoints++
			if len(c.Workspace) == 0 || c.Workspace[len(c.Workspace)-1].Path != "own" {
				t.Errorf("a checkpoint lists %+v", c.Workspace)
			}
		}
	}
	if checkpoints != 8 {
		t.Errorf("%d checkpoints, want 8", checkpoints)
	}
}

// TestSharedIsNotRestored: nothing that an own agent wrote is undone, also where a call breaks a rule or the workspace
// cannot be kept; then no tool changes it.
func TestSharedIsNotRestored(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, writer("writer", saves), probe("probe", func(probeArgs) (Output, error) { return Output{Shown: "read"}, nil }))
	must(t, s.Share())
	run := func(turn int, name, text string) Result {
		t.Helper()
		results, err := s.Run(t.Context(), turn, []Call{{"c", name, `{"text":"` + text + `"}`}})
		must(t, err)
		return results[0]
	}
	own := s.workspace.Root().Name() + "/own"
	run(1, "writer", "one")
	must(t, os.WriteFile(own, []byte("of the agent"), 0o600))
	if r := run(2, "probe", "open judgments.jsonl"); !r.IsError {
		t.Errorf("a rule was broken: %+v", r)
	}
	must(t, os.Truncate(own, 1<<40)) // more than can be kept
	if r := run(3, "writer", "two"); !r.IsError || !strings.Contains(r.Text, "cannot be kept") {
		t.Errorf("a call changed a workspace that cannot be kept: %+v", r)
	}
	change, err := s.workspace.Change(s.rec)
	if err != nil || !change.Truncated || change.TreeSHA256 != "" {
		t.Errorf("of a workspace that cannot be kept: %+v, %v", change, err)
	}
	must(t, os.Truncate(own, 3))
	if r := run(4, "writer", "three"); r.IsError {
		t.Errorf("a workspace that can be kept again: %+v", r)
	}
	change, err = s.workspace.Change(s.rec)
	if err != nil || strings.Join(change.Files, " ") != ". out own" && strings.Join(change.Files, " ") != "out own" {
		t.Errorf("changed: %+v, %v", change, err)
	}
	rollbacks := 0
	for _, p := range flushed(t, s, sink) {
		if r, ok := p.(trajectory.Rollback); ok {
			if rollbacks++; r.Restores() || r.TreeAfter != r.TreeBefore || strings.Join(r.RuleIDs, "") != policy.GraderSurfaces {
				t.Errorf("rolled back: %+v", r)
			}
		}
	}
	if rollbacks != 1 {
		t.Errorf("%d rollbacks recorded, want that of the broken rule", rollbacks)
	}
}

// TestSharedCutOff: a call that the end of an own agent's attempt cuts off has a result that says so.
func TestSharedCutOff(t *testing.T) {
	sink := &gateSink{}
	ctx, cancel := context.WithCancel(t.Context())
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) {
		cancel()
		return Output{}, errors.New("the context ended")
	}))
	must(t, s.Share())
	results, err := s.Run(ctx, 1, []Call{{"c", "probe", `{"text":"x"}`}})
	if err != nil || !results[0].IsError || !strings.Contains(results[0].Text, "cut off") {
		t.Errorf("%+v, %v", results, err)
	}
	if got := names(flushed(t, s, sink)); got != "tool_proposed policy_decision tool_executed" {
		t.Errorf("recorded %s", got)
	}
}
