package workers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// journalCopy is the server's copy of the journal of one worker, in a folder that is read as that of a shard is. All
// lines in it were checked, as a verifier checks them, before they were written.
type journalCopy struct {
	dir     string
	shard   trajectory.Shard
	key     sign.PublicKey
	release func() error // unlocks the folder

	reported bool // that the worker is refused; guarded by the server

	mu        sync.Mutex
	run       *rundir.Run
	file      *os.File
	size      int64          // bytes of whole lines, all of them in the file
	rest      []byte         // the beginning of the next line
	committed map[int]string // digest of each task that is committed
	head      []byte         // newest signed head; nil: none came
	headEnd   trajectory.End // what it covers
	headSize  int64          // likewise, in bytes
	heads     map[string]struct{}
	broken    error // why no more is taken from this worker; nil: nothing
}

// newCopy makes the folder of a worker's copy, durably.
func (s *Server) newCopy(d plan.Delegation, envelope []byte, key sign.PublicKey) (*journalCopy, error) {
	dir := filepath.Join(s.dir, strconv.Itoa(d.Shard.Index))
	aside := filepath.Join(s.dir, ".new-"+strconv.Itoa(d.Shard.Index))
	if err := os.RemoveAll(aside); err != nil {
		return nil, err
	}
	files := []runfiles.File{{Name: plan.DelegationFile, Data: envelope}}
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, plan.AgentFilesFile} {
		if content, there := s.signed.Files[name]; there {
			files = append(files, runfiles.File{Name: name, Data: content})
		}
	}
	held, err := runfiles.Create(aside, nil, files...)
	if err == nil {
		err = held.Close()
	}
	if err == nil {
		err = os.Rename(aside, dir)
	}
	if err == nil {
		err = durable.SyncDir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("making the folder for the journal of worker %d: %w", d.Shard.Index, err)
	}
	return s.openCopy(dir, d, key, nil)
}

// openCopy opens the folder of a copy, and reads what is in it. An unfinished last line is cut: it was not acknowledged.
// heads are the signed heads that came with it, in order.
func (s *Server) openCopy(dir string, d plan.Delegation, key sign.PublicKey, heads []string) (_ *journalCopy, err error) {
	c := &journalCopy{dir: dir, shard: d.Shard, key: key, committed: map[int]string{}, heads: map[string]struct{}{},
		run: rundir.BeginShard(s.signed.Plan, s.digest, d)}
	if c.release, err = runfiles.Hold(dir); err != nil {
		return nil, err
	}
	if c.file, err = os.OpenFile(filepath.Join(dir, trajectory.JournalFile), os.O_RDWR, 0); err != nil {
		c.release()
		return nil, err
	}
	at := int64(0)
	tail, err := c.run.Extend(bufio.NewReaderSize(c.file, 1<<20), func(e trajectory.Event, line []byte) error {
		at += int64(len(line))
		for len(heads) > 0 {
			said, err := trajectory.ParseCheckpoint([]byte(heads[0]))
			if err == nil && said.Journal.Events > e.Seq+1 {
				break
			}
			if err == nil {
				err = c.signed([]byte(heads[0]), trajectory.End{Events: e.Seq + 1, Head: canonical.Digest(line)}, at)
			}
			if err != nil {
				return err
			}
			heads = heads[1:]
		}
		return c.taken(e, line)
	})
	if err == nil && len(heads) > 0 {
		err = errors.New("it is shorter than what was acknowledged")
	}
	if err == nil && tail != nil {
		err = c.file.Truncate(tail.Offset)
	}
	if err == nil {
		c.size, err = c.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("reading the journal of worker %d: %w", d.Shard.Index, err)
	}
	return c, nil
}

func (c *journalCopy) close() error { return errors.Join(c.file.Close(), c.release()) }

// taken follows the lines that have found their place.
func (c *journalCopy) taken(e trajectory.Event, _ []byte) error {
	if p, ok := e.Payload.(trajectory.TaskCommitted); ok {
		c.committed[c.run.Task(e.TaskID).Index] = p.Digest
	}
	return nil
}

// refuse returns what a worker is told that sends what no worker sends.
func refuse(format string, args ...any) error {
	return &queue.Refusal{Reason: fmt.Sprintf(format, args...)}
}

// take takes the bytes of the journal from an offset on, and the head after them, if there is one. With a head all is
// durable when it returns. It returns how many bytes it has, which is where the worker continues; bytes from another
// offset are not taken. A worker whose lines do not verify is refused from then on. An error of the disk is no refusal:
// the copy is then behind what was checked, and the server must end.
func (c *journalCopy) take(offset int64, data, head []byte) (have int64, watch []trajectory.Event, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, nil, c.broken
	}
	if at := c.size + int64(len(c.rest)); offset != at {
		if offset < c.size || offset > at {
			c.rest = nil
			return c.size, nil, nil
		}
		c.rest = c.rest[:offset-c.size]
	}
	if len(c.rest)+len(data) > trajectory.MaxLine+queue.MaxChunk {
		c.broken = refuse("sent a line longer than %d bytes", trajectory.MaxLine)
		return 0, nil, c.broken
	}
	c.rest = append(c.rest, data...)
	whole := c.rest[:bytes.LastIndexByte(c.rest, '\n')+1]
	_, err = c.run.Extend(bytes.NewReader(whole), func(e trajectory.Event, line []byte) error {
		watch = append(watch, e)
		return c.taken(e, line)
	})
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
		c.broken = refuse("its journal does not verify: %v", err)
		return 0, nil, c.broken
	}
	if err != nil {
		return 0, nil, err
	}
	if len(whole) > 0 {
		if _, err := c.file.WriteAt(whole, c.size); err != nil {
			return 0, nil, fmt.Errorf("writing the journal of worker %d: %w", c.shard.Index, err)
		}
		c.size += int64(len(whole))
		c.rest = append([]byte(nil), c.rest[len(whole):]...)
	}
	if len(head) == 0 {
		return c.size + int64(len(c.rest)), watch, nil
	}
	if len(c.rest) > 0 {
		err = refuse("sent a head in the middle of a line")
	} else if c.head == nil || c.run.End.Events > c.headEnd.Events {
		err = c.signed(head, c.run.End, c.size)
	} else if string(head) != string(c.head) {
		err = refuse("signed two heads of one journal")
	}
	if err != nil {
		c.broken = err
		return 0, nil, err
	}
	if err := (runfiles.DataSync{File: c.file}).Sync(); err != nil {
		return 0, nil, fmt.Errorf("syncing the journal of worker %d: %w", c.shard.Index, err)
	}
	return c.size, watch, nil
}

// signed checks a head of the journal that ends at end, after size bytes, and keeps it.
func (c *journalCopy) signed(head []byte, end trajectory.End, size int64) error {
	want, err := c.run.ShardCheckpoint(end)
	if err == nil {
		err = want.Verify(head, c.key)
	}
	if err != nil {
		return refuse("its head is not that of its journal: %v", err)
	}
	c.head, c.headEnd, c.headSize = head, end, size
	c.heads[string(head)] = struct{}{}
	return nil
}

// holds reports whether a claim of a task rests on the copy: the task is committed with this digest, below a head that
// the worker's key signed.
func (c *journalCopy) holds(task int, digest string, head []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.heads[string(head)]
	return known && digest != "" && c.committed[task] == digest
}

// cut ends the copy at its newest head, which becomes its checkpoint. It returns false if there is none.
func (c *journalCopy) cut() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == nil {
		return false, nil
	}
	c.broken = errors.New("the run is being closed")
	if err := c.file.Truncate(c.headSize); err != nil {
		return false, err
	}
	if err := c.file.Sync(); err != nil {
		return false, err
	}
	place := filepath.Join(c.dir, trajectory.CheckpointFile)
	aside, err := durable.WriteAside(c.dir, c.head, 0o644)
	if err == nil {
		err = os.Rename(aside, place)
	}
	if err != nil {
		return false, err
	}
	return true, durable.SyncDir(c.dir)
}
