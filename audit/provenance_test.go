package audit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// BenchmarkProvenance attributes 1,000 calls of one attempt whose prompts have 100 kB, each new: from the counts in the journal,
// with all bodies at hand, where they are probed again, and with the task's id in each, so that each is divided again as well.
// The bodies are the caller's, and not part of the peak.
func BenchmarkProvenance(b *testing.B) {
	const calls, size = 1000, 100_000
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		for range 1 + random.IntN(4) {
			words[i] += string("bdfklmnprst"[random.IntN(11)]) + string("aeiou"[random.IntN(5)])
		}
	}
	text := func(n int) string {
		var s strings.Builder
		for s.Len() < n {
			s.WriteString(words[random.IntN(len(words))] + " ")
		}
		return s.String()
	}
	m := plan.New()
	agent := plan.DefaultAgent()
	m.Agent, m.Probes, m.GoldCommitment = &agent, probe.Version, canonical.Digest(nil)
	m.Tasks = []plan.PlannedTask{{TaskID: lighthouse.TaskID}}
	attempt := func(mark string) (events []trajectory.Event, all map[string][]byte) {
		events = []trajectory.Event{{Payload: trajectory.TaskStarted{Question: lighthouse.Question}}}
		all, reply := map[string][]byte{}, ""
		for turn := range calls {
			message := trajectory.SentMessage{Role: "user", Content: mark + reply + text(size-len(reply))} // a tenth of which a reply explains
			line := message.Canonical()
			body := string(line) + "\n"
			prompt := trajectory.Redactor{}.Excerpt(body, trajectory.PromptHead)
			all[prompt.SHA256] = []byte(body)
			reply = text(size / 10)
			said := string(trajectory.SentMessage{Role: "assistant", Content: reply}.Canonical())
			out := trajectory.Redactor{}.Excerpt(said, trajectory.OutputHead)
			all[out.SHA256] = []byte(said)
			for _, p := range []trajectory.Payload{trajectory.TurnStarted{},
				trajectory.ContextCompiled{Bytes: prompt.Bytes, ContentSHA256: prompt.SHA256, Head: prompt.Head, Truncated: prompt.Truncated,
					Messages: []trajectory.Message{{Bytes: int64(len(line)), Role: "user", SHA256: canonical.Digest(line), Source: plan.AgentSource}},
					Origins:  &trajectory.Origins{Agent: size, Probes: &trajectory.Probes{}}},
				trajectory.ModelCallStarted{Request: &trajectory.AgentRequest{Bytes: size, SHA256: prompt.SHA256}, Try: 1},
				trajectory.ModelCallCompleted{Bytes: out.Bytes, Head: out.Head, OutputSHA256: out.SHA256, Truncated: out.Truncated, UsageReported: true, Reply: &trajectory.AgentReply{Probes: &trajectory.Probes{}}},
				trajectory.TurnCompleted{}} {
				events = append(events, trajectory.Event{Turn: turn + 1, Payload: p})
			}
		}
		return events, all
	}
	run := func(b *testing.B, events []trajectory.Event, at bodies, seen func(i int)) {
		g := newGatherer(m, map[string]string{lighthouse.TaskID: lighthouse.Gold})
		g.bodies = at
		for i, ev := range events {
			ev.Seq, ev.TaskID, ev.Attempt = int64(i), lighthouse.TaskID, 1
			if err := g.add(ev); err != nil {
				b.Fatal(err)
			}
			seen(i)
		}
	}
	for _, c := range []struct {
		name, mark string
		bodies     bool
	}{{"counts", "", false}, {"bodies", "", true}, {"divided", lighthouse.TaskID + "\n", true}} {
		b.Run(c.name, func(b *testing.B) {
			events, all := attempt(c.mark)
			at := bodies{named: map[string]bool{}, used: map[string]bool{}}
			if c.bodies {
				at.all = all
			}
			used := func() (t time.Duration) {
				var u syscall.Rusage
				_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
				return time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
			begun := used()
			for b.Loop() {
				run(b, events, at, func(int) {})
			}
			b.StopTimer()
			b.ReportMetric((used()-begun).Seconds()/float64(b.N), "cpu-s/op")
			heap := func() uint64 {
				var s runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&s)
				return s.HeapInuse
			}
			before, most := heap(), uint64(0)
			run(b, events, at, func(i int) {
				if i%100 == 0 {
					most = max(most, heap())
				}
			})
			b.ReportMetric(float64(max(most, before)-before)/(1<<20), "MiB-peak")
		})
	}
}

// TestTextsThatWait: what a reply says explains a text that is divided after it, whatever came between; of more than is kept
// the oldest is forgotten, and texts without number do not wait.
func TestTextsThatWait(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("lamp %d of the outer harbour wall\n", i) }
	m := &ownReader{index: origin.New()}
	for i := range 12 {
		text := strings.Repeat(line(i), 1<<20/len(line(i)))
		if m.gives(origin.Reply, text); m.waits > waitingBytes+len(text) {
			t.Fatalf("%d bytes wait", m.waits)
		}
	}
	if len(m.waiting) == 0 {
		t.Error("no text waits")
	}
	if rest := m.divide(line(11)); len(rest) > 0 || m.waiting != nil {
		t.Errorf("of the newest text %.80q is not explained, and %d texts wait", rest, len(m.waiting))
	}
	if rest := m.divide(line(1)); len(rest) == 0 {
		t.Error("the oldest text is kept")
	}
	for _, i := range append([]int{20}, slices.Repeat([]int{21}, 12)...) { // the index keeps a text that comes again once
		m.gives(origin.Result, strings.Repeat(line(i), 1<<20/len(line(i))))
	}
	if rest := m.divide(line(20)); len(rest) > 0 {
		t.Errorf("%.80q is forgotten, though little else came after it", rest)
	}
	for i := range waitingTexts + 10 {
		m.gives(origin.Result, fmt.Sprint("lamp ", i))
		if len(m.waiting) >= waitingTexts {
			t.Fatal("too many texts wait")
		}
	}
	if rest := m.divide("it is lamp 7"); !slices.Equal(rest, []string{"it is "}) {
		t.Errorf("%q", rest)
	}
}

// TestSentAfterAResume: a passage that most tasks send is shared, whether it was recorded before the run was resumed, and
// then sent without a record, or only after; one that few send is not.
func TestSentAfterAResume(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int // tasks that others had sent it for, as recorded; -1: it is not recorded
		shared        bool
	}{
		"before": {9, -1, true}, "after": {-1, 9, true}, "both": {4, 9, true}, "few": {2, 2, false}, "few, then none": {2, -1, false},
	} {
		var s sentPassages
		for process, others := range []int{c.before, c.after} {
			for i := range 10 {
				s.add(fmt.Sprint(process, "-", i), nil)
			}
			if others >= 0 {
				s.add(fmt.Sprint(process, "-0"), []trajectory.Passage{{Key: "k", Tasks: others}})
			}
			if process == 0 {
				s.resume()
			}
		}
		if got := s.shared(broughtFact{Passages: []trajectory.Passage{{Key: "k"}}}); got != c.shared {
			t.Errorf("%s: shared is %t", name, got)
		}
	}
}
