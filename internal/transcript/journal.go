package transcript

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Journal is the journal of a run. One goroutine follows it, while any number read what was read of it so far.
type Journal struct {
	dir      fs.FS
	rules    map[string]string // texts of the rules of the plan, by id
	followed atomic.Bool

	mu       sync.RWMutex // guards what follows
	run      *rundir.Run
	lines    table
	files    []file // of the run, as far as they were read
	attempts map[place]*attempt
	state    State
	usage    usage
	pictures map[string]picture // of workspaces, by digest
}

// State is how far a journal has been read.
type State struct {
	Events, Bytes int64  // of whole lines
	Version       uint64 // grows with each change
	Complete      bool   // the run has ended
	Fault         error  // why the journal cannot be read on: a *trajectory.Fault, [rundir.ErrRemoved], or a failure to read; nil if it can
	Started, Last string // times of the first and the last event; "" before the first
}

// place is an attempt of a task. Attempt 0 has the events of a task without attempts, and of task "" those of the run.
type place struct {
	task    string
	attempt int
}

// attempt lists the events of an attempt. The array of lines is only added to, so that a reader can keep it.
type attempt struct {
	lines []uint32 // from 0, in the journal
	ended bool
	turns turns

	began, last time.Time // times of the first and the last of its events
}

// file is a journal of the run: a merged one has several, whose lines are numbered through.
type file struct {
	name  string
	lines int64 // of the journals before it
	bytes int64 // likewise
}

// entry is an event in the journal. 96 bits of the digest of its line show that the line is still the same.
type entry struct {
	sum    [12]byte
	offset uint32 // in its file; rundir.MaxFile is 4 GiB
	size   uint32 // newline included
	turn   uint32
	typ    uint8 // place of its type in types
}

// types are all types of events, sorted.
var types = trajectory.Types()

// picture is a file of an attempt's workspace.
type picture struct {
	of   place
	name string // in the run directory
}

// table has the entries of all lines, in blocks, which are not moved: a copy of it can be read while it is added to.
type table struct {
	blocks [][]entry
	n      int64
}

const blockSize = 1024

func (t *table) add(e entry) {
	if t.n%blockSize == 0 {
		t.blocks = append(t.blocks, make([]entry, blockSize))
	}
	t.blocks[t.n/blockSize][t.n%blockSize] = e
	t.n++
}

func (t table) at(line int64) entry { return t.blocks[line/blockSize][line%blockSize] }

// Open reads and checks the plan of a run directory or an opened package, whose files can be read from any place.
func Open(dir fs.FS) (*Journal, error) {
	run, err := rundir.Begin(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, run: run, rules: map[string]string{}, attempts: map[place]*attempt{}, pictures: map[string]picture{}}
	for _, r := range run.Manifest.Policy.Rules() {
		j.rules[r.ID] = r.Title
	}
	run.OnSuperseded(func(e trajectory.Event, line []byte) error {
		j.add(e, line)
		return nil
	})
	return j, nil
}

// Follow reads the journal as [rundir.Follow] does: to its end, then, after each wait, what was added. It returns nil
// when the run is complete, or when wait returns io.EOF because there is no writer, and else why it ended. It can be
// called once; what was read stays readable.
func (j *Journal) Follow(wait func() error) error {
	if !j.followed.CompareAndSwap(false, true) {
		return errors.New("this journal is followed already")
	}
	stopped := false
	err := rundir.Follow(j.dir, j.run, &j.mu, func() error {
		err := wait()
		stopped = err != nil
		return err
	}, j.take)
	if err != nil && !stopped {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.state.Fault = err
		j.state.Version++
	}
	return err
}

// take takes an event that the fold has taken. The lock is held.
func (j *Journal) take(e trajectory.Event, line []byte) error {
	at := place{e.TaskID, e.Attempt}
	switch p := e.Payload.(type) {
	case trajectory.TaskCommitted:
		at.attempt = p.Attempts
	case trajectory.TaskSealed:
		at.attempt = p.Attempt
	}
	a := j.attempts[at]
	if a == nil {
		a = &attempt{ended: at.attempt == 0}
		j.attempts[at] = a
	}
	a.lines = append(a.lines, uint32(j.lines.n))
	j.add(e, line)
	if !a.ended {
		a.last = e.Time()
	}
	switch e.Payload.(type) {
	case trajectory.TaskStarted:
		a.began = a.last
	case trajectory.AttemptEnded:
		a.ended = true
	}
	j.seePictures(e)
	a.turns.add(e)
	return nil
}

// add takes a line, also one of an attempt that does not count.
func (j *Journal) add(e trajectory.Event, line []byte) {
	if _, opens := e.Payload.(trajectory.RunStarted); opens {
		name, _ := j.run.Place(e.Seq)
		j.files = append(j.files, file{name, j.lines.n, j.state.Bytes})
	}
	sum := sha256.Sum256(line)
	typ, _ := slices.BinarySearch(types, e.Payload.Type())
	j.lines.add(entry{[12]byte(sum[:12]), uint32(j.state.Bytes - j.files[len(j.files)-1].bytes), uint32(len(line)), uint32(e.Turn), uint8(typ)})
	j.usage.add(e)
	j.state.Events++
	j.state.Version++
	j.state.Bytes += int64(len(line))
	j.state.Started, j.state.Last, j.state.Complete = j.run.Started, max(j.state.Last, e.Timestamp), j.run.Completed != nil
}

// mostPictures bounds the pictures of workspaces that are remembered.
const mostPictures = 20_000

// seePictures remembers the pictures of a workspace, which a run directory has as files.
func (j *Journal) seePictures(e trajectory.Event) {
	for _, f := range workspaceOf(e.Payload) {
		name := path.Join("work", fmt.Sprintf("%04d-%d", j.run.Task(e.TaskID).Index+1, e.Attempt), f.Path)
		if _, seen := j.pictures[f.SHA256]; !seen && pictureType(f.Path) != "" && fs.ValidPath(f.Path) && len(f.Path) <= maxFact && len(j.pictures) < mostPictures {
			j.pictures[f.SHA256] = picture{place{e.TaskID, e.Attempt}, name}
		}
	}
}

// State returns how far the journal has been read.
func (j *Journal) State() State {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.state
}

// Read calls f with the run as far as it was read. f keeps nothing of it, calls no method of j, and
// returns soon: the reading waits for it.
func (j *Journal) Read(f func(*rundir.Run)) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	f(j.run)
}

// events is a copy of what is known of the events of an attempt.
type events struct {
	lines []uint32
	table table
	files []file
	open  bool
}

// events returns what is known of an attempt; the error matches fs.ErrNotExist if the plan has no such task, or the
// journal no such attempt.
func (j *Journal) events(task string, number int) (events, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if task != "" && j.run.Task(task) == nil {
		return events{}, fmt.Errorf("task %.100q: %w", task, fs.ErrNotExist)
	}
	a := j.attempts[place{task, number}]
	if a == nil {
		return events{}, fmt.Errorf("attempt %d of task %.100q: %w", number, task, fs.ErrNotExist)
	}
	return events{a.lines, j.lines, j.files, !a.ended}, nil
}

// Place returns where the chunk begins that has a line of the journal; false if the line is of no event of the attempt.
func (j *Journal) Place(task string, attempt int, line int64) (from int, ok bool) {
	all, err := j.events(task, attempt)
	if err != nil || line < 1 || line > all.table.n {
		return 0, false
	}
	at, found := slices.BinarySearch(all.lines, uint32(line-1))
	return at - at%ChunkSize, found
}

// Part names the shard whose folder the run is, "" if it is a whole run.
func (j *Journal) Part() string {
	if j.run.Shard == nil { // which does not change
		return ""
	}
	return j.run.Shard.String()
}

// in returns the file that has a line, counted from 0.
func in(files []file, line int64) file {
	at, found := slices.BinarySearchFunc(files, line, func(f file, line int64) int { return cmp.Compare(f.lines, line) })
	if !found {
		at--
	}
	return files[max(at, 0)]
}

// Where returns the journal that has a line, counted from 1, and the line in it; "" if the run has one journal, where both
// are the same.
func (j *Journal) Where(n int64) (journal string, line int64) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.run.Shards == nil {
		return "", n
	}
	return j.run.Place(n - 1)
}

// open opens a journal of the run; the error is rundir.ErrRemoved if the run was removed.
func (j *Journal) open(name string) (seekable, error) {
	f, _, err := rundir.OpenFile(j.dir, name, rundir.MaxFile)
	if err != nil {
		if _, missing := fs.Stat(j.dir, plan.ManifestFile); errors.Is(missing, fs.ErrNotExist) {
			return nil, rundir.ErrRemoved
		}
		return nil, err
	}
	s, ok := f.(seekable)
	if !ok {
		f.Close()
		return nil, fmt.Errorf("reading %s: it can only be read from its start", name)
	}
	return s, nil
}

// reader reads lines again, and keeps the journal open that it read last: those of an attempt are in one of a shard, and in
// that of the run.
type reader struct {
	j    *Journal
	name string
	file seekable
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// line reads a line again, which must be what it was. It is counted from 0.
func (r *reader) line(e entry, of file, line int64) ([]byte, error) {
	if r.file == nil || r.name != of.name {
		r.close()
		r.file = nil
		file, err := r.j.open(of.name)
		if err != nil {
			return nil, err
		}
		r.name, r.file = of.name, file
	}
	data := make([]byte, e.size)
	_, err := r.file.Seek(int64(e.offset), io.SeekStart)
	if err == nil {
		_, err = io.ReadFull(r.file, data)
	}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("reading %s: %w", of.name, err)
	}
	if sum := sha256.Sum256(data); err != nil || [12]byte(sum[:12]) != e.sum {
		return nil, &trajectory.Fault{File: of.name, Line: line - of.lines + 1, Reason: "was changed after it had been read"}
	}
	return data, nil
}
