package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// writer is a tool that may change the workspace; do gets what the tool gets.
func writer(name string, do func(*Env, probeArgs) (Output, error)) Tool {
	return Define(Definition[probeArgs]{Name: name, Description: "Does what the test says.", Writes: true,
		Run: func(_ context.Context, env *Env, a probeArgs) (Output, error) { return do(env, a) }})
}

// saves writes its text to the file "out".
func saves(env *Env, a probeArgs) (Output, error) {
	return Output{Document: "saved", Shown: "saved"}, env.Root.WriteFile("out", []byte(a.Text), 0o644)
}

// asked answers requests for approval in order, and keeps what it was asked and what
// was on disk then.
type asked struct {
	sink    *gateSink
	answers []Answer
	got     []Approval
	durable []string
	fail    error
}

func (a *asked) Approve(_ context.Context, q Approval) (Answer, error) {
	a.got, a.durable = append(a.got, q), append(a.durable, a.sink.durable())
	if a.fail != nil {
		return Answer{}, a.fail
	}
	return a.answers[len(a.got)-1], nil
}

// TestGateApproval: a call that needs approval runs only after someone gave it,
// which is asked when the request is on disk and recorded before the call runs.
func TestGateApproval(t *testing.T) {
	secret := "sk-" + strings.Repeat("a1B2", 10)
	sink := &gateSink{}
	approver := &asked{sink: sink, answers: []Answer{{true, trajectory.ByPerson}, {false, trajectory.ByPerson}}}
	var ran []string
	var before string
	s := newSession(t, sink, func(p *policy.Policy) { p.Mode = policy.Approved }, probe("probe", func(a probeArgs) (Output, error) {
		ran, before = append(ran, a.Text), sink.durable()
		return Output{Shown: "did"}, nil
	}))
	s.gate.Approver = approver
	results, err := s.Run(t.Context(), 1, []Call{
		{"c1", "probe", `{"text":"` + secret + `"}`},
		{"c2", "probe", `{"text":"no"}`},
		{"c3", "probe", `{"text":"x","wrong":1}`},
		{"c4", "probe", `{"text":"open judgments.jsonl"}`},
	})
	must(t, err)
	if !slices.Equal(ran, []string{secret}) || results[0].Text != "did" || !strings.HasPrefix(results[1].Text, "refused: a person refused this call: ") ||
		!strings.HasPrefix(results[2].Text, "error: the arguments do not fit") || !strings.HasPrefix(results[3].Text, "refused: R002") {
		t.Errorf("ran %q, results %+v", ran, results)
	}
	if len(approver.got) != 2 || approver.got[0].TaskID != "task" || approver.got[0].Tool != "probe" || approver.got[0].Args != `{"text":"[redacted]"}` || approver.got[0].Reason == "" {
		t.Errorf("asked %+v", approver.got)
	}
	if d := approver.durable[0]; strings.Count(d, `"type":"approval_requested"`) != 2 || strings.Contains(d, "approval_resolved") {
		t.Errorf("when it was asked, on disk was %s", d)
	}
	if strings.Count(before, `"type":"approval_resolved"`) != 2 || strings.Contains(before, "tool_executed") {
		t.Errorf("when it ran, on disk was %s", before)
	}
	payloads := flushed(t, s, sink)
	const want = "tool_proposed approval_requested tool_proposed approval_requested tool_proposed policy_decision tool_proposed policy_decision policy_violation" +
		" approval_resolved policy_decision approval_resolved policy_decision tool_executed"
	if got := names(payloads); got != want {
		t.Fatalf("recorded %s,\nwant     %s", got, want)
	}
	proposed, request := payloads[0].(trajectory.ToolProposed), payloads[1].(trajectory.ApprovalRequested)
	if request.ArgsSHA256 != proposed.ArgsSHA256 || request.CallID != "c1" || request.Name != "probe" {
		t.Errorf("requested %+v", request)
	}
	for i, p := range payloads[9:13] {
		switch p := p.(type) {
		case trajectory.ApprovalResolved:
			if p.Approved != (i == 0) || p.By != trajectory.ByPerson || p.CallID != fmt.Sprintf("c%d", i/2+1) {
				t.Errorf("resolved %+v", p)
			}
		case trajectory.PolicyDecision:
			if (p.Decision == "allow") != (i == 1) || p.Decision == "confirm" || (p.Shown == "") != (i == 1) {
				t.Errorf("decided %+v", p)
			}
		}
	}
}

// TestGateNoOneToAsk: with no terminal to ask, the mode denies what needs approval,
// with one wait for the disk.
func TestGateNoOneToAsk(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, func(p *policy.Policy) { p.Mode = policy.Approved }, probe("probe", func(probeArgs) (Output, error) { panic("it ran") }))
	results, err := s.Run(t.Context(), 1, []Call{{"c1", "probe", `{"text":"x"}`}})
	must(t, err)
	payloads := recorded(t, sink)
	if got, want := names(payloads), "tool_proposed approval_requested approval_resolved policy_decision policy_violation"; got != want {
		t.Fatalf("recorded %s, want %s", got, want)
	}
	resolved, decision := payloads[2].(trajectory.ApprovalResolved), payloads[3].(trajectory.PolicyDecision)
	if v := payloads[4].(trajectory.PolicyViolation); v.Class != string(policy.DeniedByMode) || v.CallID != "c1" || len(v.RuleIDs) > 0 {
		t.Errorf("the violation is %+v", v)
	}
	if resolved.Approved || resolved.By != trajectory.ByNoTerminal || decision.Decision != "deny" || decision.Shown != results[0].Text {
		t.Errorf("resolved %+v, decided %+v, shown %q", resolved, decision, results[0].Text)
	}
}

// TestGateApprovalEnds: a question that the end of the run cuts off leaves the
// request, and nothing runs.
func TestGateApprovalEnds(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, func(p *policy.Policy) { p.Mode = policy.Approved }, probe("probe", func(probeArgs) (Output, error) { panic("it ran") }))
	s.gate.Approver = &asked{sink: sink, fail: context.Canceled}
	if _, err := s.Run(t.Context(), 1, []Call{{"c1", "probe", `{"text":"x"}`}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got, want := names(recorded(t, sink)), "tool_proposed approval_requested"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestGateCheckpoint: the workspace is kept, and that is on disk, before a call that
// may change it runs; one that cannot be kept or recorded is not changed.
func TestGateCheckpoint(t *testing.T) {
	sink := &gateSink{}
	var before string
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) { return Output{Shown: "read"}, nil }),
		writer("writer", func(env *Env, a probeArgs) (Output, error) {
			before = sink.durable()
			return saves(env, a)
		}))
	for i, text := range []string{"one", "two"} {
		_, err := s.Run(t.Context(), i+1, []Call{{"p", "probe", `{"text":"x"}`}, {"w1", "writer", `{"text":"` + text + `"}`}, {"w2", "writer", `{"text":"` + text + `"}`}})
		must(t, err)
		if n := strings.Count(before, `"type":"checkpoint_saved"`); n != i+1 {
			t.Errorf("when call %d ran, %d checkpoints were on disk", i, n)
		}
	}
	_, err := s.Run(t.Context(), 3, []Call{{"p", "probe", `{"text":"x"}`}})
	must(t, err)
	var saved []trajectory.CheckpointSaved
	for _, p := range flushed(t, s, sink) {
		if c, ok := p.(trajectory.CheckpointSaved); ok {
			saved = append(saved, c)
		}
	}
	if len(saved) != 2 || saved[0].CallID != "w1" || len(saved[0].Workspace) != 0 || saved[0].TreeSHA256 == saved[1].TreeSHA256 ||
		!slices.Equal(saved[1].Workspace, []trajectory.File{{Bytes: 3, Path: "out", SHA256: canonical.Digest([]byte("one"))}}) {
		t.Errorf("checkpoints %+v", saved)
	}
	change, err := s.workspace.Change(s.rec)
	must(t, err)
	if change.Added != 1 || change.Reworked != 1 || !strings.Contains(change.Diff, "+two") {
		t.Errorf("the change is %+v", change)
	}
}

func TestGateCheckpointFails(t *testing.T) {
	t.Run("disk", func(t *testing.T) { // there is no place for the copy
		sink := &gateSink{}
		s := newSession(t, sink, nil, writer("writer", func(*Env, probeArgs) (Output, error) { panic("it ran") }))
		closed, err := os.OpenRoot(t.TempDir())
		must(t, errors.Join(err, closed.Close()))
		s.workspace.store = closed
		must(t, s.workspace.Root().WriteFile("in", []byte("x"), 0o644))
		if _, err := s.Run(t.Context(), 1, []Call{{"c1", "writer", `{"text":"x"}`}}); err == nil || !strings.Contains(err.Error(), "copying the workspace") {
			t.Errorf("error is %v", err)
		}
		if got := recorded(t, sink); len(got) != 0 {
			t.Errorf("recorded %s", names(got))
		}
	})
	t.Run("journal", func(t *testing.T) {
		s := newSession(t, &gateSink{fail: errors.New("disk full")}, nil, writer("writer", func(*Env, probeArgs) (Output, error) { panic("it ran") }))
		if _, err := s.Run(t.Context(), 1, []Call{{"c1", "writer", `{"text":"x"}`}}); !errors.Is(err, trajectory.ErrNotRecorded) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("too large from the start", func(t *testing.T) {
		sink := &gateSink{}
		s := newSession(t, sink, nil, writer("writer", func(*Env, probeArgs) (Output, error) { panic("it ran") }))
		f, err := s.workspace.Root().Create("huge")
		must(t, err)
		must(t, errors.Join(f.Truncate(MaxWorkspace+1), f.Close()))
		results, err := s.Run(t.Context(), 1, []Call{{"c1", "writer", `{"text":"x"}`}})
		if err != nil || !strings.HasPrefix(results[0].Text, "refused: the workspace cannot be kept") {
			t.Errorf("results %+v, error %v", results, err)
		}
		if got, want := names(flushed(t, s, sink)), "tool_proposed policy_decision"; got != want {
			t.Errorf("recorded %s, want %s", got, want)
		}
		if change, err := s.workspace.Change(s.rec); err != nil || len(change.Files) != 0 {
			t.Errorf("the change is %+v, %v", change, err)
		}
	})
}

// counting is something kept between calls.
type counting struct{ closed *atomic.Int32 }

func (c counting) Close() error { c.closed.Add(1); return nil }

// TestGateRollback: in mode autonomous a turn that breaks rules leaves the workspace
// as it found it, and what tools kept of it ends; the model and the journal are told.
func TestGateRollback(t *testing.T) {
	const write, bad = `{"text":"changed"}`, `{"text":"open judgments.jsonl"}`
	const redirect = `{"text":"changed","url":"http://pages.example/"}`
	for _, c := range []struct {
		name     string
		change   func(*policy.Policy)
		calls    []Call
		restored []string // nil: no rollback
		rules    string
		dropped  int32
	}{
		{"no violation", nil, []Call{{"c1", "writer", write}}, nil, "", 0},
		{"violation beside a change", nil, []Call{{"c1", "writer", write}, {"c2", "probe", bad}}, []string{"out"}, "R002", 1},
		{"violation before the change", nil, []Call{{"c1", "probe", bad}, {"c2", "writer", write}}, []string{"out"}, "R002", 1},
		{"violation without a change", nil, []Call{{"c1", "probe", bad}}, []string{}, "R002", 0},
		{"redirect refused", nil, []Call{{"c1", "writer", redirect}}, []string{"out"}, "R001", 1},
		{"budget", func(p *policy.Policy) { p.MaxToolCalls = 2 }, []Call{{"c1", "writer", write}, {"c2", "probe", `{"text":"x"}`}}, nil, "", 0},
		{"mode approved", func(p *policy.Policy) { p.Mode = policy.Approved }, []Call{{"c1", "writer", write}, {"c2", "probe", bad}}, nil, "", 0},
		{"too large", nil, []Call{{"c1", "writer", `{"text":"huge"}`}}, []string{".", "out"}, "", 1},
		{"too large in mode approved", func(p *policy.Policy) { p.Mode = policy.Approved }, []Call{{"c1", "writer", `{"text":"huge"}`}}, []string{".", "out"}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink, closed := &gateSink{}, &atomic.Int32{}
			s := newSession(t, sink, c.change, probe("probe", func(probeArgs) (Output, error) { return Output{Shown: "read"}, nil }),
				writer("writer", func(env *Env, a probeArgs) (Output, error) {
					_, err := env.Kept.Get("interpreter", func() (io.Closer, error) { return counting{closed}, nil })
					if a.URL != "" && env.AllowURL("https://huggingface.co/datasets/gaia-benchmark/GAIA") == nil {
						t.Error("the redirect was allowed")
					}
					if a.Text == "huge" {
						err = errors.Join(err, os.Truncate(env.Root.Name()+"/out", 1<<40))
					} else {
						err = errors.Join(err, env.Root.WriteFile("out", []byte(a.Text), 0o644))
					}
					return Output{Document: "done", Shown: "done"}, err
				}))
			s.gate.Approver = &asked{sink: sink, answers: slices.Repeat([]Answer{{true, trajectory.ByPerson}}, 2)}
			_, err := s.Run(t.Context(), 1, []Call{{"c0", "writer", `{"text":"before"}`}})
			must(t, err)
			results, err := s.Run(t.Context(), 2, c.calls)
			must(t, err)
			content, err := os.ReadFile(s.workspace.Root().Name() + "/out")
			must(t, err)
			var got *trajectory.Rollback
			payloads := flushed(t, s, sink)
			for i, p := range payloads {
				if r, ok := p.(trajectory.Rollback); ok {
					got = &r
					for _, later := range payloads[i:] {
						if later.Type() == trajectory.TypePolicyViolation {
							t.Error("a violation stands after the rollback")
						}
					}
				}
				if e, ok := p.(trajectory.ToolExecuted); ok && e.CallID == "c1" {
					shown := trajectory.SentMessage{Content: results[0].Text, Role: "tool", ToolCallID: "c1"}
					if e.ShownSHA256 != canonical.Digest(shown.Canonical()) || e.ShownBytes != int64(len(results[0].Text)) {
						t.Errorf("the digest is not of what was shown, %q", results[0].Text)
					}
				}
			}
			changes := slices.ContainsFunc(c.calls, func(c Call) bool { return c.Name == "writer" })
			told := slices.ContainsFunc(results, func(r Result) bool { return strings.Contains(r.Text, "put back as it was before this turn") })
			if c.restored == nil {
				if got != nil || string(content) != "changed" || told {
					t.Errorf("rolled back: %+v, the file holds %q, results %+v", got, content, results)
				}
				return
			}
			if got == nil {
				t.Fatalf("no rollback among %s", names(payloads))
			}
			if !slices.Equal(got.Restored, c.restored) || strings.Join(got.RuleIDs, " ") != c.rules || got.TreeBefore == "" || got.TreeAfter != got.TreeBefore ||
				got.TreeFound != "" && (got.TreeFound == got.TreeBefore) != (len(c.restored) == 0) || (got.TreeFound == "") != strings.HasPrefix(c.name, "too large") || got.Reason == "" {
				t.Errorf("the rollback is %+v", *got)
			}
			if string(content) != "before" || told != changes || closed.Load() != c.dropped {
				t.Errorf("the file holds %q, results %+v, %d kept ended", content, results, closed.Load())
			}
		})
	}
}

// TestGateRollbackWithoutFiles: where there is no workspace there is nothing to put
// back.
func TestGateRollbackWithoutFiles(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, probe("probe", nil))
	s.workspace = nil
	_, err := s.Run(t.Context(), 1, []Call{{"c1", "probe", `{"text":"open judgments.jsonl"}`}})
	must(t, err)
	if got, want := names(flushed(t, s, sink)), "tool_proposed policy_decision policy_violation"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestGateLeftBehind: what a program that an earlier call left behind does between
// two turns is part of neither; what it does in one that breaks rules is undone.
func TestGateLeftBehind(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, probe("probe", nil), writer("writer", saves))
	_, err := s.Run(t.Context(), 1, []Call{{"c0", "writer", `{"text":"before"}`}})
	must(t, err)
	must(t, s.workspace.Root().WriteFile("left", []byte("behind"), 0o644))
	_, err = s.Run(t.Context(), 2, []Call{{"c1", "probe", `{"text":"open judgments.jsonl"}`}})
	must(t, err)
	payloads := flushed(t, s, sink)
	if r, ok := payloads[len(payloads)-1].(trajectory.Rollback); !ok || !slices.Contains(r.Restored, "left") || r.TreeAfter != r.TreeBefore {
		t.Errorf("recorded %+v", payloads[len(payloads)-1])
	}
	must(t, os.Truncate(s.workspace.Root().Name()+"/out", 1<<40))
	_, err = s.Run(t.Context(), 3, []Call{{"c2", "writer", `{"text":"after"}`}})
	must(t, err)
	if got := names(flushed(t, s, sink)); !strings.HasSuffix(got, "tool_proposed policy_decision rollback checkpoint_saved tool_executed") {
		t.Errorf("recorded %s", got)
	}
}

// TestGateWritersInOrder: calls that may change the workspace run one after the
// other, in the order in which they were asked for.
func TestGateWritersInOrder(t *testing.T) {
	var running atomic.Int32
	var order []string
	s := newSession(t, &gateSink{}, nil, writer("writer", func(_ *Env, a probeArgs) (Output, error) {
		if running.Add(1) != 1 {
			t.Error("two run at once")
		}
		time.Sleep(time.Millisecond)
		order = append(order, a.Text)
		running.Add(-1)
		return Output{Shown: a.Text}, nil
	}))
	var calls []Call
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprint("t", i))
		calls = append(calls, Call{fmt.Sprint("c", i), "writer", `{"text":"` + want[i] + `"}`})
	}
	_, err := s.Run(t.Context(), 1, calls)
	must(t, err)
	if !slices.Equal(order, want) {
		t.Errorf("ran %q", order)
	}
}

// TestGateRedirectsAtOnce: a tool may ask about several addresses at the same time.
func TestGateRedirectsAtOnce(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, writer("writer", func(env *Env, _ probeArgs) (Output, error) {
		done := make(chan error)
		for range 8 {
			go func() { done <- env.AllowURL("https://huggingface.co/datasets/gaia-benchmark/GAIA") }()
		}
		for range 8 {
			if <-done == nil {
				t.Error("it was allowed")
			}
		}
		return Output{}, nil
	}))
	_, err := s.Run(t.Context(), 1, []Call{{"c1", "writer", `{"text":"x"}`}})
	must(t, err)
	if n := strings.Count(names(flushed(t, s, sink)), "policy_violation"); n != 8 {
		t.Errorf("%d violations are recorded", n)
	}
}

// BenchmarkGateWriter measures a call that may change a workspace and does not,
// without waits for the journal: what it adds is looking at the files twice.
func BenchmarkGateWriter(b *testing.B) {
	sink := &gateSink{}
	s := newSession(b, sink, func(p *policy.Policy) { p.MaxToolCalls = policy.Unlimited }, writer("writer", func(*Env, probeArgs) (Output, error) {
		return Output{Document: "d", Shown: "d"}, nil
	}))
	must(b, s.workspace.Root().WriteFile("table.csv", make([]byte, 1<<20), 0o644))
	for b.Loop() {
		sink.buf.Reset()
		if _, err := s.Run(context.Background(), 1, []Call{{"c1", "writer", `{"text":"x"}`}}); err != nil {
			b.Fatal(err)
		}
	}
}
