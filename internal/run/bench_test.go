package run

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// BenchmarkResume opens and takes up a run of 100,000 events, some 90 MB, whose
// last tasks are under way: verifying it, writing its records again, and
// recording that it goes on.
func BenchmarkResume(b *testing.B) {
	c := config(b)
	began := time.Now()
	c.env.Now, c.env.Rand, c.env.Mono = time.Now, rand.Reader, func() time.Duration { return time.Since(began) }
	r, err := Create(b.TempDir(), c.plan, c.env)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, r, 100_000)
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	size := int64(0)
	for b.Loop() {
		again, err := Resume(r.Dir, c.plan, c.env)
		if err != nil {
			b.Fatal(err)
		}
		info, err := again.files.Journal.Stat()
		if err != nil {
			b.Fatal(err)
		}
		size = info.Size()
		again.Close()
	}
	b.SetBytes(size)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/resume")
}

// fill records some n events of what agents do, over all tasks: attempts of
// many turns, the last three of them under way.
func fill(b *testing.B, r *Run, n int) {
	b.Helper()
	head := strings.Repeat("The harbour of Branmoor was dredged twice. ", 20)
	digest := canonical.Digest([]byte(head))
	bytes := int64(len(head))
	for i, t := range r.fold.Tasks {
		rec := &trajectory.Attempt{Log: r.log, TaskID: t.Plan.TaskID, Number: 1}
		add := func(turn int, payloads ...trajectory.Payload) {
			if _, err := rec.Enqueue(turn, payloads...); err != nil {
				b.Fatal(err)
			}
		}
		add(0, trajectory.TaskStarted{FileName: t.Plan.FileName, Question: r.env.Set.Tasks[t.Index].Question, Workspace: []trajectory.File{}})
		for turn := 1; turn <= n/len(r.fold.Tasks)/8; turn++ {
			call := fmt.Sprint("call-", turn)
			add(turn, trajectory.TurnStarted{}, trajectory.ContextCompiled{Bytes: bytes, ContentSHA256: digest, Head: head, Messages: []trajectory.Message{{Bytes: bytes, Role: "tool", SHA256: digest, Source: "tool:" + call}}},
				trajectory.ModelCallStarted{RequestedModel: r.fold.Manifest.Model.Name, Try: 1},
				trajectory.ModelCallCompleted{Bytes: bytes, CostMicroUSD: new(int64), FinishReason: "tool_calls", Head: head, OutputSHA256: digest, RequestedModel: r.fold.Manifest.Model.Name, Tokens: trajectory.Tokens{In: 900, Out: 30}, Try: 1, UsageReported: true},
				trajectory.ToolProposed{Args: map[string]string{"url": "http://almanac.example/"}, ArgsSHA256: digest, CallID: call, Name: "web_fetch"},
				trajectory.PolicyDecision{CallID: call, Decision: "allow", Mode: "autonomous", PolicyHash: r.fold.Manifest.PolicyHash},
				trajectory.ToolExecuted{Bytes: bytes, CallID: call, Head: head, Name: "web_fetch", OutputSHA256: digest, Probes: &trajectory.Probes{}, ShownBytes: bytes, ShownSHA256: digest},
				trajectory.TurnCompleted{ToolCalls: 1})
		}
		if i < len(r.fold.Tasks)-3 {
			add(0, trajectory.AnswerCommitted{Answer: "42", Rule: "final-answer.v1"}, trajectory.AttemptEnded{Outcome: trajectory.Answered})
		}
		if err := rec.Append(0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyRun is what verifying alone takes of the same run.
func BenchmarkVerifyRun(b *testing.B) {
	c := config(b)
	r, err := Create(b.TempDir(), c.plan, c.env)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	fill(b, r, 100_000)
	info, err := r.files.Journal.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if found, err := rundir.Verify(os.DirFS(r.Dir), rundir.Options{}); err != nil || found.End.Events < 99_000 {
			b.Fatal(err)
		}
	}
}
