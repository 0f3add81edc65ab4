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
	must(t, s.Share(nil))
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
	must(t, s.Share(nil))
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
	must(t, s.Share(nil))
	results, err := s.Run(ctx, 1, []Call{{"c", "probe", `{"text":"x"}`}})
	if err != nil || !results[0].IsError || !strings.Contains(results[0].Text, "cut off") {
		t.Errorf("%+v, %v", results, err)
	}
	if got := names(flushed(t, s, sink)); got != "tool_proposed policy_decision tool_executed" {
		t.Errorf("recorded %s", got)
	}
}

// TestSharedWitness: what a call gave is of the agent's where it read a file that was not there at the start, the names of
// files, or, of a call that can change the workspace, anything while there is such a file.
func TestSharedWitness(t *testing.T) {
	sink := &gateSink{}
	reads := func(env *Env, a probeArgs) (Output, error) {
		data, err := env.ReadFile(a.Text)
		return Output{Document: string(data), Shown: string(data)}, err
	}
	s := newSession(t, sink, nil, writer("reader", reads), NewListFiles(),
		Define(Definition[probeArgs]{Name: "read", Description: "Reads.", Run: func(_ context.Context, env *Env, a probeArgs) (Output, error) { return reads(env, a) }}))
	root := s.workspace.Root()
	must(t, root.WriteFile("given", []byte("of the task"), 0o600))
	var told []string
	must(t, s.Share(func(_ Call, out Output, foreign bool) *trajectory.Probes {
		told = append(told, fmt.Sprint(out.Document, " ", foreign))
		if !foreign {
			return nil
		}
		return &trajectory.Probes{GoldHits: 1}
	}))
	turn := 0
	run := func(name, text, want string) {
		t.Helper()
		turn++
		if text != "" {
			text = `{"text":"` + text + `"}`
		}
		if _, err := s.Run(t.Context(), turn, []Call{{"c", name, text}}); err != nil || told[len(told)-1] != want {
			t.Errorf("%s %s: %q, %v", name, text, told, err)
		}
	}
	run("read", "given", "of the task false")
	run("reader", "given", "of the task false")
	must(t, root.WriteFile("copy", []byte("of the task"), 0o600))
	must(t, root.WriteFile("own", []byte("the answer"), 0o600))
	run("read", "given", "of the task false")
	run("read", "copy", "of the task false")
	run("read", "own", "the answer true")
	run("reader", "given", "of the task true")
	run("list_files", "", "copy\t11 bytes\ngiven\t11 bytes\nown\t10 bytes\n true")
	must(t, root.Remove("own"))
	must(t, root.Remove("copy"))
	must(t, root.WriteFile("given", []byte("of the agent"), 0o600))
	run("read", "given", "of the agent true")
	own := 0
	for _, p := range flushed(t, s, sink) {
		if e, ok := p.(trajectory.ToolExecuted); ok && e.Own != nil {
			own++
		}
	}
	if own != 4 {
		t.Errorf("%d calls have something of the agent's, want 4", own)
	}
}
