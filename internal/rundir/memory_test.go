package rundir

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

var journalMiB = flag.Int64("journal", 24, "size of the journal that TestConstantMemory verifies, in MiB")

// buffered is a journal on disk that no one waits for.
type buffered struct{ *bufio.Writer }

func (b buffered) Sync() error { return nil }

// longRun writes a finished run of 466 tasks whose journal has some size of
// bytes, and returns its directory.
func longRun(t testing.TB, size int64) string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const tasks = 466
	var ids []string
	for i := range tasks {
		ids = append(ids, fmt.Sprintf("task-%03d", i))
	}
	m := planOf(t, ids...)
	dir, key, manifest := t.TempDir(), testKey(t, 1), encodePlan(t, m)
	envelope, err := sign.Seal(key, plan.ManifestType, manifest)
	check(err)
	put := func(name string, data []byte) { check(os.WriteFile(filepath.Join(dir, name), data, 0o644)) }
	put(plan.ManifestFile, manifest)
	put(plan.EnvelopeFile, envelope)
	put(plan.ConstitutionFile, policy.Constitution(m.Policy))
	create := func(name string) buffered {
		f, err := os.Create(filepath.Join(dir, name))
		check(err)
		t.Cleanup(func() { f.Close() })
		return buffered{bufio.NewWriterSize(f, 1<<20)}
	}
	journal, records := create(trajectory.JournalFile), create(TrajectoriesFile)
	fold := NewFold(m, canonical.Digest(manifest), func(r Trajectory) error {
		line, err := r.AppendTo(nil)
		check(err)
		_, err = records.Write(line)
		return err
	})
	began := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	log, err := trajectory.NewLog(journal, trajectory.End{Head: fold.ManifestSHA256}, trajectory.LogConfig{RunID: m.RunID, Rand: rand.NewChaCha8([32]byte{1}),
		Now: func() time.Time { return began }, Mono: func() time.Duration { return 0 }, Recorded: fold.Add})
	check(err)
	add := func(d ...trajectory.Draft) {
		_, err := log.Append(d...)
		check(err)
	}
	add(trajectory.Draft{Payload: trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: fold.ManifestSHA256, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Rehearsal: true}})
	head := strings.Repeat("The harbour of Branmoor was dredged twice. ", 90)
	digest, bytes := canonical.Digest([]byte(head)), int64(len(head))
	for _, task := range fold.Tasks {
		id := task.Plan.TaskID
		at := func(turn int, p trajectory.Payload) trajectory.Draft {
			return trajectory.Draft{TaskID: id, Attempt: 1, Turn: turn, Payload: p}
		}
		add(at(0, trajectory.TaskStarted{Question: question(id), Workspace: []trajectory.File{}}))
		for turn := 1; int64(turn) <= max(1, size/tasks/9500); turn++ {
			call := fmt.Sprint("call-", turn)
			add(at(turn, trajectory.TurnStarted{}),
				at(turn, trajectory.ContextCompiled{Bytes: bytes, ContentSHA256: digest, Head: head[:2048], Messages: []trajectory.Message{{Bytes: bytes, Role: "tool", SHA256: digest, Source: "tool:" + call}}, Truncated: true}),
				at(turn, trajectory.ModelCallCompleted{Bytes: bytes, CostMicroUSD: new(int64), Head: head[:1024], OutputSHA256: digest, RequestedModel: m.Model.Name, Try: 1}),
				at(turn, trajectory.ToolProposed{Args: map[string]string{"url": "http://almanac.example/"}, ArgsSHA256: digest, CallID: call, Name: "web_fetch"}),
				at(turn, trajectory.ToolExecuted{Bytes: bytes, CallID: call, Head: head, Name: "web_fetch", OutputSHA256: digest, ShownBytes: bytes, ShownSHA256: digest}))
		}
		add(at(0, trajectory.AnswerCommitted{Answer: "42", Rule: "final-answer.v1"}), at(0, trajectory.AttemptEnded{Outcome: trajectory.Answered}))
		add(at(0, trajectory.Judgment{CostMicroUSD: new(int64), Judged: new(bool), Path: "judge", Tries: 1, Model: "scripted-judge", Prompt: "judge.v1"}),
			trajectory.Draft{TaskID: id, Payload: trajectory.TaskSealed{Attempt: 1, Attempts: 1, Outcome: trajectory.Failed, Salt: testSalt}})
	}
	done, _ := fold.RunCompleted()
	add(trajectory.Draft{Payload: done})
	results := create(ResultsFile)
	check(fold.WriteResults(results))
	check(results.Flush())
	summary, err := fold.Summary().Encode()
	check(err)
	checkpoint, err := fold.Checkpoint(log.End())
	check(err)
	note, err := checkpoint.Sign(key)
	check(err)
	put(SummaryFile, summary)
	put(trajectory.CheckpointFile, note)
	check(journal.Flush())
	check(records.Flush())
	return dir
}

// TestConstantMemory verifies a journal that is much larger than what may be
// held of it: with -journal 1024 one of a GiB. What is held is looked at at a
// hundred places, after collecting what is not.
func TestConstantMemory(t *testing.T) {
	long.NotRaced(t)
	dir := longRun(t, *journalMiB<<20)
	info, err := os.Stat(filepath.Join(dir, trajectory.JournalFile))
	if err != nil || info.Size() < *journalMiB<<20*9/10 {
		t.Fatalf("the journal has %d bytes, %v", info.Size(), err)
	}
	lines := int64(0)
	count := func(trajectory.Event) error { lines++; return nil }
	if _, err := Verify(os.DirFS(dir), Options{Event: count}); err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as outside tests
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	before, held, heap := memory.HeapAlloc, uint64(0), uint64(0)
	every := lines / 100
	began := time.Now()
	found, err := Verify(os.DirFS(dir), Options{Event: func(e trajectory.Event) error {
		if e.Seq%every == 0 {
			runtime.ReadMemStats(&memory)
			heap = max(heap, memory.HeapInuse)
			runtime.GC()
			runtime.ReadMemStats(&memory)
			held = max(held, memory.HeapAlloc-min(before, memory.HeapAlloc))
		}
		return nil
	}})
	if err != nil || !found.Complete {
		t.Fatal(err)
	}
	t.Logf("%d MiB, %d events: %d KiB held at most, %d MiB of heap in use at most, %.1f MB/s", info.Size()>>20, lines, held>>10, heap>>20,
		float64(info.Size())/1e6/time.Since(began).Seconds())
	if limit := uint64(8<<20 + *journalMiB<<20/64); held > limit || heap > 64<<20 {
		t.Errorf("%d bytes are held, with a limit of %d; %d MiB of heap are in use", held, limit, heap>>20)
	}
}
