package workers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// told is a run of which the journals of two workers are known: what is sent in tests.
type told struct {
	merged runs.Merged
	folder *planfolder.Folder
	list   rundir.Shards
}

// tell has two workers do the tasks of a case, the second one of them after the first.
func tell(t testing.TB) told {
	t.Helper()
	c := runs.Honest(5)
	n := len(planOf(t, c).Tasks)
	first, second := []int{0, 1}, []int{1}
	for i := 2; i < n; i++ {
		second = append(second, i)
	}
	merged, err := c.Merged(0, runs.Part{Index: 1, Tasks: first, Begun: []int{2}}, runs.Part{Index: 2, Tasks: second})
	if err != nil {
		t.Fatal(err)
	}
	one := merged.Shards[0]
	m := planOf(t, c)
	salts, err := grading.NewSalts(rand.Reader, m.Rehearsal)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(one[plan.ManifestFile], &m); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "plan")
	if err := planfolder.Write(dir, planfolder.Parts{Places: planfolder.Places{Source: "fixtures"}, Plan: m, Manifest: one[plan.ManifestFile],
		Envelope: one[plan.EnvelopeFile], Salts: salts, Key: runs.Key(), Rand: rand.Reader}); err != nil {
		t.Fatal(err)
	}
	folder, err := planfolder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	x := told{merged: merged, folder: folder}
	if err := canonical.Decode(merged.Files[rundir.ShardsFile], &x.list); err != nil {
		t.Fatal(err)
	}
	return x
}

func planOf(t testing.TB, c runs.Case) (m plan.Plan) {
	t.Helper()
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(files[plan.ManifestFile], &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// server opens the server of the run, below out.
func (x told) server(t testing.TB, out string) *Server {
	t.Helper()
	s, err := NewServer(Config{Folder: x.folder, Key: runs.Key(), Out: out, Now: time.Now, Told: func(string, ...any) {}, Warn: func(string, ...any) {}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var background = context.Background()

func (x told) key(index int) string { return runs.ShardKey(index).Public().Line() }

func (x told) join(t testing.TB, s *Server, index int) {
	t.Helper()
	for range 2 { // asking twice is asking once
		j, err := s.Join(background, queue.Join{Key: x.key(index), Version: runenv.Version(x.folder.Plan.Harness)})
		if err != nil || j.Index != index || !bytes.Equal(j.Delegation, x.merged.Shards[index-1][plan.DelegationFile]) {
			t.Fatalf("joined as %d, %v", j.Index, err)
		}
	}
}

// send sends bytes of the journal of worker 1, and a head if there is one.
func (x told) send(s *Server, offset int64, lines []byte, note string) (int64, error) {
	return s.Append(background, queue.Append{Key: x.key(1), Offset: offset, Lines: lines, Note: []byte(note)})
}

// claims returns the claims of a worker, for all tasks that count in its journal or not.
func (x told) claims(t testing.TB, index int) (out []queue.Claim) {
	t.Helper()
	files := x.merged.Shards[index-1]
	for _, line := range bytes.Split(bytes.TrimSpace(files[trajectory.JournalFile]), []byte("\n")) {
		var e struct {
			TaskID  string                   `json:"task_id"`
			Type    trajectory.Type          `json:"type"`
			Payload trajectory.TaskCommitted `json:"payload"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != trajectory.TypeTaskCommitted {
			continue
		}
		for i, p := range x.folder.Plan.Tasks {
			if p.TaskID == e.TaskID {
				out = append(out, queue.Claim{Digest: e.Payload.Digest, Head: files[trajectory.CheckpointFile], Key: x.key(index),
					RunID: x.folder.Plan.RunID, Task: i})
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no claims")
	}
	return out
}

// TestCopies: journals that are sent in pieces, with answers that get lost, to a server that is killed after any of them,
// are copied byte for byte, and make the run that the journals make.
func TestCopies(t *testing.T) {
	x, out := tell(t), t.TempDir()
	s := x.server(t, out)
	again := func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = x.server(t, out)
	}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for index := 1; index <= 2; index++ {
		x.join(t, s, index)
		files := x.merged.Shards[index-1]
		journal := files[trajectory.JournalFile]
		for at := int64(0); at < int64(len(journal)); {
			n := min(1+random.Int64N(4000), int64(len(journal))-at)
			a := queue.Append{Key: x.key(index), Offset: at, Lines: journal[at : at+n]}
			if at+n == int64(len(journal)) {
				a.Note = files[trajectory.CheckpointFile]
			}
			size, err := s.Append(background, a)
			if err != nil {
				t.Fatal(err)
			}
			switch random.IntN(6) {
			case 0: // killed: what was not a whole line is gone
				again()
			case 1: // the answer is lost
				continue
			}
			if a.Note != nil && size != int64(len(journal)) {
				t.Fatalf("%d of %d bytes", size, len(journal))
			}
			if at, err = s.Append(background, queue.Append{Key: x.key(index), Offset: 1 << 40}); err != nil || at > size {
				t.Fatalf("it has %d of %d bytes, %v", at, size, err)
			}
		}
		copied, err := os.ReadFile(filepath.Join(Dir(out, x.folder.Plan.RunID), strconv.Itoa(index), trajectory.JournalFile))
		if err != nil || !bytes.Equal(copied, journal) {
			t.Errorf("the copy has %d bytes of %d, %v", len(copied), len(journal), err)
		}
	}
	for index := 1; index <= 2; index++ {
		for _, c := range x.claims(t, index) {
			counts := index == 1 || c.Task != 1 // which both have
			for range 2 {
				if err := s.Claimed(background, c); (err == nil) != counts {
					t.Errorf("task %d by worker %d: %v", c.Task+1, index, err)
				}
			}
		}
		again()
	}
	select {
	case <-s.Ended():
	default:
		t.Error("the server does not see that all is claimed")
	}
	if n, want := s.Counts(), (Counts{Claimed: len(x.folder.Plan.Tasks), Superseded: 1, Workers: 2}); n != want {
		t.Errorf("%+v, not %+v", n, want)
	}
	claimed := 0
	for c, err := range s.Claims() {
		if claimed++; err != nil || s.Claimed(background, c) != nil {
			t.Errorf("claim %+v: %v", c, err)
		}
	}
	if claimed != len(x.folder.Plan.Tasks) {
		t.Errorf("%d claims are on record", claimed)
	}
	list, folders, err := s.Finish()
	if err != nil || !reflect.DeepEqual(list, x.list) || len(folders) != 2 {
		t.Fatalf("%v\n%+v, not\n%+v", err, list, x.list)
	}
	for i, folder := range folders {
		head, err := os.ReadFile(filepath.Join(folder, trajectory.CheckpointFile))
		if err != nil || !bytes.Equal(head, x.merged.Shards[i][trajectory.CheckpointFile]) {
			t.Errorf("the head of worker %d: %v", i+1, err)
		}
	}
	again() // which still has all
	if list, _, err := s.Finish(); err != nil || !reflect.DeepEqual(list, x.list) {
		t.Errorf("finished again: %v", err)
	}
	s.Close()
}

// TestHostile: what no worker sends is refused, and nothing of it reaches a copy; what comes after it neither.
func TestHostile(t *testing.T) {
	long.NotRaced(t)
	x := tell(t)
	files := x.merged.Shards[0]
	journal, head := files[trajectory.JournalFile], string(files[trajectory.CheckpointFile])
	other := x.merged.Shards[1]
	lines := bytes.SplitAfter(journal, []byte("\n"))
	for name, send := range map[string]func(s *Server) (int64, error){
		"a line changed": func(s *Server) (int64, error) {
			changed := bytes.Clone(journal)
			changed[bytes.Index(changed, []byte(`"type":"task_started"`))+9]++
			return x.send(s, 0, changed, "")
		},
		"a line left out":        func(s *Server) (int64, error) { return x.send(s, 0, append(bytes.Clone(lines[0]), lines[2]...), "") },
		"the journal of another": func(s *Server) (int64, error) { return x.send(s, 0, other[trajectory.JournalFile], "") },
		"the head of another":    func(s *Server) (int64, error) { return x.send(s, 0, journal, string(other[trajectory.CheckpointFile])) },
		"a head before its end": func(s *Server) (int64, error) {
			return x.send(s, 0, bytes.Join(lines[:len(lines)-2], nil), head)
		},
		"a head within a line": func(s *Server) (int64, error) { return x.send(s, 0, journal[:len(journal)-2], head) },
		"no lines":             func(s *Server) (int64, error) { return x.send(s, 0, []byte("harbour\n"), head) },
		"an endless line": func(s *Server) (int64, error) {
			part := bytes.Repeat([]byte("a"), queue.MaxChunk)
			for at := int64(0); ; at += int64(len(part)) {
				if n, err := x.send(s, at, part, ""); err != nil || at > 2*trajectory.MaxLine {
					return n, err
				}
			}
		},
		"two heads": func(s *Server) (int64, error) {
			if _, err := x.send(s, 0, journal, head); err != nil {
				return 0, nil
			}
			return x.send(s, int64(len(journal)), nil, head+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			s := x.server(t, out)
			defer s.Close()
			x.join(t, s, 1)
			if _, err := send(s); !isRefusal(err) {
				t.Errorf("is taken: %v", err)
			}
			if _, err := x.send(s, 0, journal, head); !isRefusal(err) {
				t.Errorf("the worker is taken back: %v", err)
			}
			copied, err := os.ReadFile(filepath.Join(Dir(out, x.folder.Plan.RunID), "1", trajectory.JournalFile))
			if err != nil || !bytes.HasPrefix(journal, copied) {
				t.Errorf("the copy has %d bytes that are not the journal's, %v", len(copied), err)
			}
			for _, c := range x.claims(t, 1) {
				if err := s.Claimed(background, c); name != "two heads" && !isRefusal(err) {
					t.Errorf("task %d counts: %v", c.Task+1, err)
				}
			}
		})
	}
	out := t.TempDir()
	s := x.server(t, out)
	defer s.Close()
	x.join(t, s, 1)
	good := x.claims(t, 1)[0]
	if err := s.Claimed(background, good); !isRefusal(err) {
		t.Errorf("before its lines came: %v", err)
	}
	if _, err := x.send(s, 0, journal, head); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *queue.Claim){
		"of another run":        func(c *queue.Claim) { c.RunID = "01JZ" },
		"of no task":            func(c *queue.Claim) { c.Task = len(x.folder.Plan.Tasks) },
		"of a task before":      func(c *queue.Claim) { c.Task = -1 },
		"of another task":       func(c *queue.Claim) { c.Task++ },
		"of a task only begun":  func(c *queue.Claim) { c.Task = 2 },
		"with another digest":   func(c *queue.Claim) { c.Digest = canonical.Digest(nil) },
		"with a head of others": func(c *queue.Claim) { c.Head = other[trajectory.CheckpointFile] },
		"of a stranger":         func(c *queue.Claim) { c.Key = x.key(7) },
	} {
		c := good
		change(&c)
		if err := s.Claimed(background, c); !isRefusal(err) {
			t.Errorf("a claim %s: %v", name, err)
		}
	}
	for name, ask := range map[string]func() error{
		"lines of a stranger": func() error {
			_, err := s.Append(background, queue.Append{Key: x.key(7), Lines: journal})
			return err
		},
		"money for a stranger": func() error { _, err := s.Reserve(background, queue.Money{Key: x.key(7), Seq: 1}); return err },
		"another version": func() error {
			h := x.folder.Plan.Harness
			h.Version = "0.0.1"
			_, err := s.Join(background, queue.Join{Key: x.key(3), Version: runenv.Version(h)})
			if err == nil || !strings.Contains(err.Error(), "0.0.1") {
				t.Errorf("another version: %v", err)
			}
			return err
		},
		"no key": func() error {
			_, err := s.Join(background, queue.Join{Key: "harbour", Version: runenv.Version(x.folder.Plan.Harness)})
			return err
		},
	} {
		if err := ask(); !isRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Finish(); err == nil {
		t.Error("a run with tasks that are not claimed is finished")
	}
	if n := s.Counts(); n.Claimed != 0 {
		t.Errorf("%+v", n)
	}
	if _, err := NewServer(Config{Folder: x.folder, Key: runs.Key(), Out: out, Now: time.Now}); !errors.Is(err, runfiles.ErrBusy) {
		t.Errorf("two servers have one folder: %v", err)
	}
	if _, err := NewServer(Config{Folder: x.folder, Key: runs.ShardKey(1), Out: t.TempDir(), Now: time.Now}); err == nil {
		t.Error("another key than the plan's")
	}
}

func isRefusal(err error) bool {
	var refused *queue.Refusal
	return errors.As(err, &refused)
}

// TestMoney: workers never have more together than the limit, whatever the order of their questions, and what one had
// that is gone, or that the server had granted before it was killed, stays taken.
func TestMoney(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(100, 0, 0, func() time.Time { return now }, time.Minute)
	ask := func(worker int, seq, spent, held int64, want queue.Grant) {
		t.Helper()
		l.of(worker).seen = now
		if got, _ := l.allow(worker, queue.Money{Seq: seq, Spent: spent, Held: held}); got != want {
			t.Errorf("worker %d, question %d: %s, not %s", worker, seq, got, want)
		}
		if sum := l.of(1).spent + l.of(1).held + l.of(2).spent + l.of(2).held; sum > 100 {
			t.Errorf("%d of 100 are taken", sum)
		}
	}
	ask(1, 1, 0, 60, queue.Granted)
	ask(1, 1, 0, 60, queue.Granted) // again
	ask(2, 1, 0, 50, queue.Wait)    // the first may release some
	ask(2, 2, 0, 40, queue.Granted)
	ask(1, 2, 30, 30, queue.Granted) // what was reserved is spent
	ask(1, 3, 30, 10, queue.Granted)
	ask(1, 2, 0, 60, queue.Wait) // comes late
	ask(2, 3, 40, 20, queue.Granted)
	ask(2, 4, 40, 21, queue.Wait)
	now = now.Add(2 * time.Minute) // the first is gone, and what it has reserved may be spent
	ask(2, 5, 40, 21, queue.Spent)
	ask(2, 6, 60, 0, queue.Granted)

	again := newLimits(100, 0, 0, func() time.Time { return now }, time.Minute)
	again.restore(1, 40)
	if got, _ := again.allow(2, queue.Money{Seq: 1, Held: 61}); got == queue.Granted {
		t.Error("a worker has what another had before the server was killed")
	}
	if got, _ := again.allow(1, queue.Money{Seq: 4, Spent: 30}); got != queue.Granted {
		t.Error("a worker cannot release what it had")
	}
	if got, _ := again.allow(2, queue.Money{Seq: 2, Held: 70}); got != queue.Granted {
		t.Error("what was released cannot be had")
	}
	if got, _ := newLimits(0, 0, 0, time.Now, 0).allow(1, queue.Money{Held: 1 << 60}); got != queue.Granted {
		t.Error("there is no limit")
	}
}

// FuzzClaimed: no message of a stranger counts or makes the server fail.
func FuzzClaimed(f *testing.F) {
	x := tell(f)
	s := x.server(f, f.TempDir())
	f.Cleanup(func() { s.Close() })
	x.join(f, s, 1)
	f.Add("key", []byte("head"), []byte("line\n"), int64(0), 1)
	f.Add(x.key(1), []byte(nil), []byte("{}"), int64(0), 0)
	f.Fuzz(func(t *testing.T, key string, head, lines []byte, offset int64, task int) {
		_, _ = s.Join(background, queue.Join{Key: key, Version: key})
		_, _ = s.Append(background, queue.Append{Key: key, Note: head, Lines: lines, Offset: offset})
		_, _ = s.Reserve(background, queue.Money{Key: key, Seq: offset, Held: offset})
		_ = s.Claimed(background, queue.Claim{Digest: key, Head: head, Key: key, RunID: x.folder.Plan.RunID, Task: task})
		if n := s.Counts(); n != (Counts{}) || s.Err() != nil {
			t.Errorf("%+v, %v", n, s.Err())
		}
	})
}

// TestPlanSent: a worker writes no file that a plan does not have, wherever a server wants it.
func TestPlanSent(t *testing.T) {
	for name, settings := range map[string]string{
		"none": "null", "no object": "[]", "a parent": `{"..":""}`, "below": `{"keys/1":""}`, "elsewhere": `{"/tmp/1":""}`, "a key": `{"keys":"AA=="}`,
		"a twin": `{"manifest.json":"AA=="}`, "no name": `{"":"AA=="}`,
	} {
		dir := filepath.Join(t.TempDir(), "plan")
		if _, err := writePlan(dir, queue.Plan{Manifest: []byte("{}"), Envelope: []byte("{}"), Settings: []byte(settings)}); err == nil {
			t.Errorf("%s: is taken", name)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder is made: %v", name, err)
		}
	}
}
