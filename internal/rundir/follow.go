package rundir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// ErrRemoved means that a run was removed while it was followed.
var ErrRemoved = errors.New("the run was removed while it was followed")

// Begin reads and checks the plan of a run, whose journal Follow reads.
func Begin(dir fs.FS) (*Run, error) {
	run, journal, err := open(dir, nil)
	if err != nil {
		return nil, err
	}
	run.light = true
	return run, journal.Close()
}

// BeginShard is Begin for the journal of a shard whose plan and delegation were read before.
func BeginShard(m plan.Plan, manifestSHA256 string, d plan.Delegation) *Run {
	run := &Run{Fold: NewFold(m, manifestSHA256, nil)}
	run.light = true
	run.OfShard(d)
	return run
}

// Extend takes the next lines of the journal of a run that Begin or BeginShard returned, without those of its shards. It checks them as
// Follow does, and moves run.End past each line that counts. visit, if not nil, is called with each event and its line.
// After an error the run is good for nothing.
func (r *Run) Extend(lines io.Reader, visit func(e trajectory.Event, line []byte) error) (tail *trajectory.Tail, err error) {
	r.End.Head = cmp.Or(r.End.Head, r.ManifestSHA256)
	r.End, tail, err = trajectory.ReadLines(lines, r.Manifest.RunID, r.End, func(e trajectory.Event, line []byte) error {
		if err := r.Take(&e, line); err != nil {
			return err
		}
		if reason := r.exceeds(Options{}); reason != "" {
			return &trajectory.Fault{File: trajectory.JournalFile, Line: e.Seq + 1, Reason: reason}
		}
		if visit == nil {
			return nil
		}
		return visit(e, line)
	})
	return tail, err
}

// Follow reads the journal of a run that Begin returned, and that another process may be writing, from its first line.
// It holds lock while the fold of the run takes an event and visit is called with it and its line, newline included
// (valid during the call). Where the journal ends it calls wait, and continues with what was added. It returns nil after
// run_completed, when visit returns fs.SkipAll, and when wait returns io.EOF since there is no writer; else the first
// error of wait or visit. A line counts once it is whole: one that a crash cut off is read when a resumed run has replaced
// it. The plan's signature, the chain, the order of events and the limits are checked as Verify does; derived files are
// not read.
func Follow(dir fs.FS, run *Run, lock sync.Locker, wait func() error, visit func(trajectory.Event, []byte) error) error {
	if run.Shards != nil {
		run.reading = lock
		err := run.ReadShards(dir, run.Key, nil, visit)
		if errors.Is(err, fs.SkipAll) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	lines := &journalTail{dir: dir, wait: wait}
	_, _, err := trajectory.ReadJournal(lines, run.Manifest.RunID, run.ManifestSHA256, func(e trajectory.Event, line []byte) error {
		lock.Lock()
		defer lock.Unlock()
		e.Seq += run.part.base
		if err := run.Take(&e, line); err != nil {
			return err
		}
		if reason := run.exceeds(Options{}); reason != "" {
			return &trajectory.Fault{File: trajectory.JournalFile, Line: e.Seq - run.part.base + 1, Reason: reason}
		}
		if err := visit(e, line); err != nil {
			return err
		}
		_, committed := e.Payload.(trajectory.TaskCommitted)
		if run.Completed != nil || committed && run.Shard.Shard.Of != 0 && run.AllCommitted() {
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.SkipAll):
		return nil
	case lines.err != nil && lines.err != io.EOF: // without the prefix of ReadJournal
		return lines.err
	}
	return err
}

// journalTail reads the whole lines of a journal, and waits for more at its end. It opens the file for each read, so
// that it sees when the file is removed.
type journalTail struct {
	dir  fs.FS
	wait func() error
	read int64  // bytes of the file that were handed out or are in rest
	rest []byte // whole lines
	err  error
}

func (g *journalTail) Read(p []byte) (int, error) {
	for len(g.rest) == 0 {
		if g.rest, g.err = g.more(); g.err != nil {
			return 0, g.err
		}
		if len(g.rest) > 0 {
			break
		}
		if g.err = g.wait(); g.err != nil {
			return 0, g.err
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// tailRead is how much is read of a journal at once, in bytes, unless a line is longer.
const tailRead = 1 << 20

// more returns whole lines that were added, none if there are none.
func (g *journalTail) more() ([]byte, error) {
	f, size, err := OpenFile(g.dir, trajectory.JournalFile, MaxFile)
	if isMissing(err) {
		if _, err := fs.Stat(g.dir, plan.ManifestFile); errors.Is(err, fs.ErrNotExist) {
			return nil, ErrRemoved
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size < g.read {
		return nil, trajectory.Faultf(trajectory.JournalFile, "has %d bytes and had %d before: its end was cut off while it was followed", size, g.read)
	}
	if size == g.read {
		return nil, nil
	}
	from, ok := f.(io.Seeker)
	if !ok {
		return nil, fmt.Errorf("reading %s: it can only be read from its start", trajectory.JournalFile)
	}
	if _, err := from.Seek(g.read, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading %s: %w", trajectory.JournalFile, err)
	}
	var room bytes.Buffer
	end := 0
	for n := int64(tailRead); end == 0 && n > 0; n = trajectory.MaxLine + 1 - int64(room.Len()) {
		had, err := room.ReadFrom(io.LimitReader(f, n))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", trajectory.JournalFile, err)
		}
		end = bytes.LastIndexByte(room.Bytes(), '\n') + 1
		if had < n {
			break
		}
	}
	added := room.Bytes()
	if end == 0 && len(added) > trajectory.MaxLine {
		return nil, trajectory.Faultf(trajectory.JournalFile, "ends in a line longer than %d bytes", trajectory.MaxLine)
	}
	added = added[:end]
	g.read += int64(len(added))
	return added, nil
}
