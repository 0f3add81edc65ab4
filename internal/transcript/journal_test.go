package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// varied returns the files of a run that has every type of event.
func varied(t testing.TB) map[string][]byte {
	t.Helper()
	c, _ := runs.Varied()
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write writes the files of a run directory.
func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noWriter is a wait for a journal that is not written any longer.
func noWriter() error { return io.EOF }

// read opens a run and reads its journal.
func read(t testing.TB, dir fs.FS) *Journal {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Follow(noWriter); err != nil {
		t.Fatal(err)
	}
	return j
}

// TestChunks: every event of a run is in one chunk of its attempt, or of the run.
func TestChunks(t *testing.T) {
	j := read(t, os.DirFS(write(t, varied(t))))
	seen := map[int64]string{}
	for at := range j.attempts {
		c, err := j.Chunk(at.task, at.attempt, 0, Filter{})
		if err != nil || c.Next != -1 || c.Prev != -1 || c.Total != len(c.Items) || c.Open {
			t.Fatalf("%v: %v, %d items, %+v", at, err, len(c.Items), c)
		}
		for _, i := range c.Items {
			if seen[i.Line] != "" || i.Title == "" {
				t.Errorf("line %d: %q and %q", i.Line, seen[i.Line], i.Title)
			}
			seen[i.Line] = i.Title
		}
	}
	if s := j.State(); int64(len(seen)) != s.Events || !s.Complete || s.Fault != nil || s.Version < uint64(s.Events) {
		t.Errorf("%d items, state %+v", len(seen), s)
	}
}

// all reads every item of an attempt.
func all(t testing.TB, j *Journal, task string, attempt int, filter Filter) (items []Item) {
	t.Helper()
	for from := 0; from >= 0; {
		c, err := j.Chunk(task, attempt, from, filter)
		if err != nil {
			t.Fatal(err)
		}
		items, from = append(items, c.Items...), c.Next
	}
	return items
}

// TestGrows: a journal that is written in pieces of any length is read while others read it, and in the end as one that
// was whole.
func TestGrows(t *testing.T) {
	files := varied(t)
	whole := read(t, os.DirFS(write(t, files)))
	journal := files[trajectory.JournalFile]
	files[trajectory.JournalFile] = nil
	dir := write(t, files)
	j, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, trajectory.JournalFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var readers, writer sync.WaitGroup
	more, ended := make(chan struct{}), make(chan struct{})
	writer.Go(func() {
		for rest := journal; len(rest) > 0; {
			n := min(len(rest), 977)
			if _, err := f.Write(rest[:n]); err != nil {
				t.Error(err)
			}
			rest = rest[n:]
			<-more
		}
	})
	for range 2 {
		readers.Go(func() {
			for last := (State{}); ; {
				s := j.State()
				if s.Events < last.Events || s.Version < last.Version || s.Bytes < last.Bytes {
					t.Errorf("state %+v after %+v", s, last)
				}
				last = s
				for _, task := range whole.run.Tasks {
					if c, err := j.Chunk(task.Plan.TaskID, 1, 0, Filter{}); err == nil && len(c.Items) != c.Total {
						t.Errorf("%d of %d items", len(c.Items), c.Total)
					} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
				}
				if s.Events > 0 {
					if lines, err := j.Line(s.Events, 2); err != nil || lines[len(lines)-1].Bad != "" {
						t.Errorf("%+v, %v", lines, err)
					}
				}
				j.Read(func(r *rundir.Run) { _ = r.Tasks[0].Attempts })
				j.Spent()
				j.Spans()
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	if err := j.Follow(func() error { more <- struct{}{}; return nil }); err != nil {
		t.Error(err)
	}
	close(ended)
	close(more)
	writer.Wait()
	readers.Wait()
	if diff := cmp.Diff(whole.State(), j.State()); diff != "" {
		t.Errorf("state (-whole +followed):\n%s", diff)
	}
	for at := range whole.attempts {
		if diff := cmp.Diff(all(t, whole, at.task, at.attempt, Filter{}), all(t, j, at.task, at.attempt, Filter{})); diff != "" {
			t.Errorf("%v (-whole +followed):\n%s", at, diff)
		}
	}
	if err := j.Follow(noWriter); err == nil {
		t.Error("it is followed twice")
	}
}

// TestEnds: how the reading of a journal ends, and that what was read before stays readable.
func TestEnds(t *testing.T) {
	stopped := errors.New("stopped")
	for _, tt := range []struct {
		name   string
		change func(journal []byte) []byte // before it is read
		later  func(dir string) error      // at the first wait
		err    error                       // of Follow; nil: none, or a fault
		fault  string
		events int64
	}{
		{"whole", nil, nil, nil, "", 79},
		{"no writer", func(b []byte) []byte { return cutLines(b, 40) }, nil, nil, "", 40},
		{"a torn line", func(b []byte) []byte { return cutLines(b, 41)[:len(cutLines(b, 40))+9] }, nil, nil, "", 40},
		{"stopped", func(b []byte) []byte { return cutLines(b, 40) }, func(string) error { return stopped }, stopped, "", 40},
		{"a changed byte", func(b []byte) []byte {
			b[len(cutLines(b, 40))+200] ^= 1
			return b
		}, nil, nil, "line 41", 40},
		{"a line left out", func(b []byte) []byte { return slices.Concat(cutLines(b, 40), b[len(cutLines(b, 41)):]) }, nil, nil, "line 41", 40},
		{"cut off", func(b []byte) []byte { return cutLines(b, 40) }, func(dir string) error {
			return os.Truncate(filepath.Join(dir, trajectory.JournalFile), 3000)
		}, nil, "was cut off", 40},
		{"removed", func(b []byte) []byte { return cutLines(b, 40) }, os.RemoveAll, rundir.ErrRemoved, "removed", 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := varied(t)
			if tt.change != nil {
				files[trajectory.JournalFile] = tt.change(files[trajectory.JournalFile])
			}
			dir := write(t, files)
			j, err := Open(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			waits := 0
			err = j.Follow(func() error {
				if waits++; tt.later == nil || waits > 1 {
					return io.EOF
				}
				return tt.later(dir)
			})
			s := j.State()
			var fault *trajectory.Fault
			switch {
			case tt.err != nil && !errors.Is(err, tt.err), tt.err == nil && tt.fault == "" && err != nil, tt.err == nil && tt.fault != "" && !errors.As(err, &fault):
				t.Errorf("error %v", err)
			case tt.fault == "" && s.Fault != nil, tt.fault != "" && (s.Fault == nil || !strings.Contains(s.Fault.Error(), tt.fault)):
				t.Errorf("fault %v", s.Fault)
			case s.Events != tt.events, s.Complete != (tt.events == 79):
				t.Errorf("state %+v", s)
			}
			c, err := j.Chunk("", 0, 0, Filter{})
			switch tt.name {
			case "removed":
				if !errors.Is(err, rundir.ErrRemoved) {
					t.Errorf("a chunk of a run that was removed: %v", err)
				}
			default:
				if err != nil || len(c.Items) < 4 {
					t.Errorf("what was read before is %d items, %v", len(c.Items), err)
				}
			}
		})
	}
}

// cutLines returns the first lines of a journal.
func cutLines(journal []byte, n int) []byte {
	return bytes.Join(bytes.SplitAfterN(journal, []byte("\n"), n+1)[:n], nil)
}

// TestChangedLater: a line that is changed, cut off or moved after it was read is not shown as something else.
func TestChangedLater(t *testing.T) {
	files := varied(t)
	dir := write(t, files)
	j := read(t, os.DirFS(dir))
	journal := files[trajectory.JournalFile]
	at := len(cutLines(journal, 5)) + 300
	line6 := append([]byte(nil), journal...)
	line6[at]++
	for name, changed := range map[string][]byte{"a byte": line6, "the end": journal[:at], "all": nil, "moved": append([]byte("\n"), journal...)} {
		if err := os.WriteFile(filepath.Join(dir, trajectory.JournalFile), changed, 0o644); err != nil {
			t.Fatal(err)
		}
		var fault *trajectory.Fault
		if c, err := j.Chunk(j.run.Tasks[0].Plan.TaskID, 1, 0, Filter{}); !errors.As(err, &fault) || !strings.Contains(err.Error(), "was changed") || len(c.Items) > 0 {
			t.Errorf("%s: %d items, %v", name, len(c.Items), err)
		}
		if lines, err := j.Line(6, 0); err != nil || len(lines) != 1 || lines[0].Text != "" || !strings.Contains(lines[0].Bad, "was changed") {
			t.Errorf("%s: %+v, %v", name, lines, err)
		}
	}
}

// TestOpenSigned: a plan that was changed is not read, and a folder that is no run neither.
func TestOpenSigned(t *testing.T) {
	files := varied(t)
	files[plan.ManifestFile] = bytes.Replace(files[plan.ManifestFile], []byte(`"rehearsal":true`), []byte(`"rehearsal":false`), 1)
	var fault *trajectory.Fault
	if _, err := Open(os.DirFS(write(t, files))); !errors.As(err, &fault) {
		t.Errorf("another plan: %v", err)
	}
	if _, err := Open(os.DirFS(t.TempDir())); !errors.As(err, &fault) {
		t.Errorf("no run: %v", err)
	}
}

// TestFilter: a filter chooses the items that it names, and pages of a filtered attempt meet.
func TestFilter(t *testing.T) {
	j := read(t, os.DirFS(write(t, varied(t))))
	task := j.run.Tasks[0].Plan.TaskID
	whole := all(t, j, task, 1, Filter{})
	for _, tt := range []struct {
		filter Filter
		want   func(Item) bool
		least  int
	}{
		{Filter{Kind: KindReply}, func(i Item) bool { return i.Kind == KindReply }, 5},
		{Filter{Tool: "read_file"}, func(i Item) bool { return i.Tool == "read_file" }, 8},
		{Filter{Bad: true}, func(i Item) bool { return i.Bad }, 5},
		{Filter{Text: "JUDGMENTS.jsonl"}, func(i Item) bool { return strings.Contains(fmt.Sprint(i), "judgments.jsonl") }, 4},
		{Filter{Kind: KindDecision, Tool: "read_file", Bad: true, Text: "rollback"}, func(i Item) bool { return strings.HasPrefix(i.Title, "rollback") }, 1},
		{Filter{Kind: "no such kind"}, func(Item) bool { return false }, 0},
		{Filter{Tool: "python"}, func(Item) bool { return false }, 0},
	} {
		var want []Item
		for _, i := range whole {
			if tt.want(i) {
				want = append(want, i)
			}
		}
		if diff := cmp.Diff(want, all(t, j, task, 1, tt.filter)); diff != "" || len(want) < tt.least {
			t.Errorf("%+v: %d items (-want +got):\n%s", tt.filter, len(want), diff)
		}
	}
	// The tool of a decision is known where the call is in the chunk before.
	for at, i := range whole {
		c, err := j.Chunk(task, 1, at, Filter{})
		if err != nil || c.Items[0].Tool != i.Tool {
			t.Errorf("line %d: tool %q, %v", i.Line, c.Items[0].Tool, err)
		}
		if from, ok := j.Place(task, 1, i.Line); !ok || from != 0 {
			t.Errorf("line %d is in the chunk from %d, %t", i.Line, from, ok)
		}
	}
	if _, ok := j.Place(task, 1, 1); ok {
		t.Error("a line of the run has a place in an attempt")
	}
	for _, missing := range []place{{"no such task", 1}, {task, 9}, {task, -1}} {
		if _, err := j.Chunk(missing.task, missing.attempt, 0, Filter{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: %v", missing, err)
		}
	}
	c, err := j.Chunk(task, 1, 1<<40, Filter{})
	if err != nil || len(c.Items) != 0 || c.Next != -1 || c.Prev != 0 {
		t.Errorf("behind the end: %+v, %v", c, err)
	}
}

// TestUsage: the series end with what the run used, and count the attempts under way.
func TestUsage(t *testing.T) {
	j := read(t, os.DirFS(write(t, varied(t))))
	spent, s := j.Spent(), j.run.Summary()
	last := spent[len(spent)-1]
	tokens := s.Tokens.Add(trajectory.Tokens{In: s.Judge.TokensIn, Out: s.Judge.TokensOut}).Add(trajectory.Tokens{In: s.Preflight.TokensIn, Out: s.Preflight.TokensOut})
	if cost := s.Cost(); cost == nil || *cost != last.CostMicroUSD || last.Tokens != tokens || last.Unpriced != 0 {
		t.Errorf("spent %+v, the run %v and %+v", last, cost, tokens)
	}
	spans := j.Spans()
	if first := spans[0]; len(spans) != 4 || first.Task != j.run.Tasks[0].Plan.TaskID || first.Attempt != 1 || !first.Ended || !first.Last.After(first.Began) {
		t.Errorf("spans %+v", spans)
	}
	turns := j.Turns(j.run.Tasks[0].Plan.TaskID, 1)
	if want := (Turns{First: 1, Count: 1, Tokens: trajectory.Tokens{In: 500, Out: 60}, ModelMs: 1020, TurnMs: 950, Calls: 1, Failed: 1}); len(turns) != 3 || turns[0] != want {
		t.Errorf("turns %+v", turns)
	}
	if j.Turns("no such task", 1) != nil {
		t.Error("turns of no task")
	}
}

// TestThinned: however much is used, there are few points, in order, and the last one has it all.
func TestThinned(t *testing.T) {
	var u usage
	start, cost := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC), int64(3)
	for i := range 100_000 {
		p := trajectory.Judgment{CostMicroUSD: &cost, Tries: 1, TokensIn: 2}
		if i%10 == 9 {
			p.CostMicroUSD = nil
		}
		u.add(trajectory.Event{Seq: int64(i), Payload: p, Timestamp: start.Add(time.Duration(i) * 17 * time.Millisecond).Format(trajectory.TimeFormat)})
	}
	last := u.points[len(u.points)-1]
	if n := len(u.points); n > maxPoints || n < maxPoints/2 || last.CostMicroUSD != 270_000 || last.Unpriced != 10_000 || last.Tokens.In != 200_000 {
		t.Errorf("%d points, the last %+v", n, last)
	}
	if !slices.IsSortedFunc(u.points, func(a, b Spent) int { return a.At.Compare(b.At) }) {
		t.Error("the points are not in order")
	}
}

// mergedRun returns the files of a run that has every type of event, made in two shards of which one ran twice.
func mergedRun(t testing.TB) runs.Merged {
	t.Helper()
	c, _ := runs.Varied()
	m, err := c.Merged(2, runs.Part{Index: 2}, runs.Part{Index: 1}, runs.Part{Index: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMerged: of a merged run every line of all journals can be read, under its number and its place in its file, and each
// event that counts is in one chunk.
func TestMerged(t *testing.T) {
	m := mergedRun(t)
	dir := os.DirFS(write(t, m.Files))
	j := read(t, dir)
	found, err := rundir.Verify(dir, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := found.Journals()
	if len(names) != 4 {
		t.Fatal(names)
	}
	var want []string // places
	var lines [][]byte
	for _, name := range names {
		for i, line := range bytes.SplitAfter(bytes.TrimSuffix(m.Files[name], []byte("\n")), []byte("\n")) {
			want, lines = append(want, fmt.Sprintf("%s, line %d", name, i+1)), append(lines, bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	if s := j.State(); s.Events != int64(len(want)) || !s.Complete || s.Fault != nil || s.Started == "" {
		t.Fatalf("%+v, want %d events", s, len(want))
	}
	for i, place := range want {
		got, err := j.Line(int64(i+1), 0)
		if err != nil || len(got) != 1 || got[0].File != place || got[0].Bad != "" || got[0].Number != int64(i+1) {
			t.Fatalf("line %d: %+v, %v, want %s", i+1, got, err, place)
		}
		if text, _ := indent(lines[i], maxLineText); got[0].Text != text {
			t.Fatalf("line %d is %q, want %q", i+1, got[0].Text, text)
		}
	}
	seen := map[int64]bool{}
	for at := range j.attempts {
		for _, i := range all(t, j, at.task, at.attempt, Filter{}) {
			if seen[i.Line] || i.Title == "" || !bytes.Contains(lines[i.Line-1], []byte(at.task)) {
				t.Errorf("%v: line %d: %q", at, i.Line, i.Title)
			}
			seen[i.Line] = true
		}
	}
	superseded := 0
	for _, line := range bytes.SplitAfter(m.Files["shards/2.2/events.jsonl"], []byte("\n")) {
		if bytes.Contains(line, []byte(`"task_id"`)) {
			superseded++
		}
	}
	if superseded == 0 || len(seen) != len(want)-superseded {
		t.Errorf("%d of %d events are in chunks, and %d are superseded", len(seen), len(want), superseded)
	}
}

// TestMergedDamage: what was read before a damaged shard stays readable, and lines behind the damage are of its journal.
func TestMergedDamage(t *testing.T) {
	m := mergedRun(t)
	const name = "shards/1/events.jsonl"
	first := int64(bytes.Count(m.Files["shards/2/events.jsonl"], []byte("\n")))
	for _, at := range []int{1, 5} {
		lines := bytes.SplitAfter(bytes.Clone(m.Files[name]), []byte("\n"))
		lines[at-1] = bytes.Replace(lines[at-1], []byte(`"seq":`), []byte(`"seq":9`), 1)
		files := maps.Clone(m.Files)
		files[name] = bytes.Join(lines, nil)
		j, err := Open(os.DirFS(write(t, files)))
		if err != nil {
			t.Fatal(err)
		}
		var fault *trajectory.Fault
		if err := j.Follow(noWriter); !errors.As(err, &fault) || fault.File != name || fault.Line != int64(at) {
			t.Fatalf("line %d: %v", at, err)
		}
		got, err := j.Line(first+int64(at), 1)
		if err != nil || len(got) != 3 || got[1].File != fmt.Sprintf("%s, line %d", name, at) || got[1].Bad == "" || got[0].Bad != "" || got[2].File != fmt.Sprintf("%s, line %d", name, at+1) {
			t.Errorf("line %d: %+v, %v", at, got, err)
		}
	}
}

// TestShardFolder: the folder of a shard can be read, and is named as what it is.
func TestShardFolder(t *testing.T) {
	j := read(t, os.DirFS(write(t, mergedRun(t).Shards[1])))
	if j.Part() != "shard 1 of 2" || j.State().Complete || j.State().Fault != nil {
		t.Errorf("%q %+v", j.Part(), j.State())
	}
	committed := 0
	for at := range j.attempts {
		for _, i := range all(t, j, at.task, at.attempt, Filter{Kind: KindEnd}) {
			if strings.HasPrefix(i.Title, "committed in its shard") {
				committed++
			}
		}
	}
	j.Read(func(run *rundir.Run) {
		if committed == 0 || committed != len(run.Tasks) {
			t.Errorf("%d of %d tasks are committed", committed, len(run.Tasks))
		}
	})
}
