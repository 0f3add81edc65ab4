package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gofrs/flock"
)

// Config says what a server serves.
type Config struct {
	Folder *planfolder.Folder
	Key    sign.Key // of the plan
	Out    string   // where runs are

	Watch   func(trajectory.Event)             // called with each event of a worker's journal, in the order of that journal; one at a time
	Resumed func(*rundir.Fold)                 // called with what an earlier server had of each worker; may be nil
	Told    func(note string, pairs ...any)    // called with what happened to workers
	Warn    func(message string, pairs ...any) // called with what went wrong
	Now     func() time.Time
}

// silent is how long a worker may send nothing before it counts as gone.
const silent = 30 * time.Second

// Server has the tasks of a plan done by workers, and keeps copies of their journals.
type Server struct {
	c      Config
	signed *planfolder.Folder
	digest string
	dir    string
	lock   *flock.Flock

	mu     sync.Mutex // guards what follows
	copies []*journalCopy
	byKey  map[string]int // worker by the line of its key
	state  *state
	limits *limits
	left   map[int]bool // workers that have ended in order
	silent map[int]bool // workers that were reported
	second map[int]int  // by the workers' own word: tasks that they finished after another
	failed error        // the disk failed: what is acknowledged from now on might be lost

	watching sync.Mutex
	ended    chan struct{} // closed when all is claimed, or the disk failed
	end      sync.Once
}

// Dir returns the folder of a server of a run: copies of the workers' journals, and claims.
func Dir(out, runID string) string { return filepath.Join(out, runfiles.ServerPrefix+runID) }

// NewServer opens the folder of the server of a plan, and makes it where there is none. It continues what an earlier
// server began.
func NewServer(c Config) (_ *Server, err error) {
	f := c.Folder
	if !f.Key.Equal(c.Key.Public()) {
		return nil, exit.Usagef("give the key that the plan was made with as --key", "the plan is signed by %s, and this key is %s", f.Key.ID(), c.Key.Public().ID())
	}
	if f.Plan.Evidence == plan.EvidenceBodies {
		return nil, exit.Usagef("plan without --evidence-full-bodies, or run it in shards: gaia run --plan "+view.Quote(f.Dir), "the plan has --evidence-full-bodies, and workers send no bodies")
	}
	s := &Server{c: c, signed: f, digest: f.ManifestSHA256, dir: Dir(c.Out, f.Plan.RunID), byKey: map[string]int{},
		left: map[int]bool{}, silent: map[int]bool{}, second: map[int]int{}, ended: make(chan struct{})}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, exit.New(exit.Failure, fmt.Errorf("making the folder of the server: %w", err), "choose another place with --out")
	}
	s.lock = flock.New(filepath.Join(s.dir, "lock"))
	if held, err := s.lock.TryLock(); err != nil || !held {
		return nil, errors.Join(runfiles.ErrBusy, err)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.state, err = openState(s.dir, len(f.Plan.Tasks)); err != nil {
		return nil, err
	}
	s.limits = newLimits(f.Plan.Budgets.RunCostMicroUSD, f.RPM, f.TPM, c.Now, silent)
	for worker, kept := range s.state.kept {
		s.limits.restore(worker, kept)
	}
	if err := s.openCopies(); err != nil {
		return nil, err
	}
	for i, claimed := range s.state.claims { // each rests on a copy
		if claimed.Worker == 0 {
			continue
		}
		if claimed.Worker > len(s.copies) || s.copies[claimed.Worker-1].committed[i] != claimed.Digest {
			return nil, trajectory.Faultf(stateFile, "has a claim of task %d by worker %d, whose journal does not commit it", i+1, claimed.Worker)
		}
	}
	s.endIfDone()
	return s, nil
}

// openCopies reads the copies that an earlier server kept.
func (s *Server) openCopies() error {
	for index := 1; ; index++ {
		dir := filepath.Join(s.dir, strconv.Itoa(index))
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		envelope, err := rundir.ReadFile(os.DirFS(dir), plan.DelegationFile, plan.MaxDelegation)
		if err != nil {
			return err
		}
		d, key, err := s.signed.Plan.ReadDelegation(envelope, s.digest, s.signed.Key)
		if err != nil {
			return err
		}
		c, err := s.openCopy(dir, d, key, s.state.heads[index])
		if err != nil {
			return err
		}
		s.copies, s.byKey[d.Shard.Key] = append(s.copies, c), index
		if s.c.Resumed != nil {
			s.c.Resumed(c.run.Fold)
		}
	}
}

// Close closes the files.
func (s *Server) Close() error {
	var errs []error
	for _, c := range s.copies {
		errs = append(errs, c.close())
	}
	if s.state != nil {
		errs = append(errs, s.state.file.Close())
	}
	return errors.Join(append(errs, s.lock.Unlock())...)
}

// Ended is closed when all tasks are claimed, or the disk failed: Err says which.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Err returns why the server cannot go on; nil if nothing failed.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// fail ends the server if err is one of the disk.
func (s *Server) fail(err error) {
	if err != nil && s.failed == nil {
		s.failed = err
		s.end.Do(func() { close(s.ended) })
	}
}

func (s *Server) endIfDone() {
	if s.state.open == 0 {
		s.end.Do(func() { close(s.ended) })
	}
}

// reportSilent reports workers that send nothing, once each.
func (s *Server) reportSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, a := range s.limits.accounts {
		gone := !s.left[w] && !a.seen.IsZero() && s.c.Now().Sub(a.seen) > silent
		if gone && !s.silent[w] {
			s.c.Warn("a worker sends nothing; its tasks go to others", "worker", w)
		}
		s.silent[w] = gone
	}
}

// worker returns the copy of the worker that a message is from.
func (s *Server) worker(key string) (*journalCopy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := s.byKey[key]
	switch {
	case s.failed != nil:
		return nil, refuse("the server has failed and ends")
	case index == 0:
		return nil, refuse("the server knows no worker of this run with the key %s", view.Line(key))
	}
	s.limits.of(index).seen = s.c.Now()
	return s.copies[index-1], nil
}

// Join implements queue.Handler.
func (s *Server) Join(_ context.Context, j queue.Join) (queue.Joined, error) {
	key, err := sign.ParsePublicKey(j.Key)
	if err != nil || key.Line() != j.Key {
		return queue.Joined{}, refuse("the key of the worker is not one ssh-ed25519 key")
	}
	if want := runenv.Version(s.signed.Plan.Harness); j.Version != want {
		return queue.Joined{}, refuse("the plan is of gaia %s, and the worker is gaia %s", want, view.Line(j.Version))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	index, known := s.byKey[key.Line()]
	switch {
	case s.failed != nil:
		return queue.Joined{}, refuse("the server has failed and ends")
	case known:
	case s.state.open == 0:
		return queue.Joined{}, refuse("all tasks are done")
	case len(s.copies) == plan.MaxShards:
		return queue.Joined{}, refuse("%d workers have joined, which is the most that a run can have", plan.MaxShards)
	default:
		index = len(s.copies) + 1
		d := s.signed.Plan.NewDelegation(s.digest, trajectory.Shard{Index: index, Key: key.Line()})
		envelope, err := d.Sign(s.c.Key)
		if err != nil {
			return queue.Joined{}, err
		}
		c, err := s.newCopy(d, envelope, key)
		if err != nil {
			s.fail(err)
			return queue.Joined{}, err
		}
		s.copies, s.byKey[key.Line()] = append(s.copies, c), index
		s.c.Told("a worker has joined", "worker", index, "name", view.Line(j.Name), "key", key.ID())
	}
	s.limits.of(index).seen = s.c.Now()
	delete(s.left, index)
	envelope, err := os.ReadFile(filepath.Join(s.dir, strconv.Itoa(index), plan.DelegationFile))
	return queue.Joined{Delegation: envelope, Index: index}, err
}

// Append implements queue.Handler.
func (s *Server) Append(_ context.Context, a queue.Append) (int64, error) {
	c, err := s.worker(a.Key)
	if err != nil {
		return 0, err
	}
	size, events, err := c.take(a.Offset, a.Lines, a.Note)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if refused := (*queue.Refusal)(nil); !errors.As(err, &refused) {
			s.fail(err)
		} else if !c.reported {
			c.reported = true
			s.c.Warn("a worker is refused", "worker", c.shard.Index, "reason", view.Line(err.Error()))
		}
		return 0, err
	}
	var entries []entry
	s.mu.Lock()
	if len(a.Note) > 0 {
		entries = append(entries, entry{Head: string(a.Note), Worker: c.shard.Index})
	}
	for _, e := range events {
		if _, committed := e.Payload.(trajectory.TaskCommitted); !committed {
			continue
		}
		if i := c.run.Task(e.TaskID).Index; s.state.claims[i].Worker != 0 {
			entries = append(entries, entry{Second: true, Task: i + 1, Worker: c.shard.Index})
		}
	}
	if len(entries) > 0 {
		err = s.state.write(false, entries...)
		s.fail(err)
	}
	s.mu.Unlock()
	if s.c.Watch != nil {
		s.watching.Lock()
		for _, e := range events {
			s.c.Watch(e)
		}
		s.watching.Unlock()
	}
	return size, err
}

// Permit implements queue.Handler.
func (s *Server) Permit(_ context.Context, p queue.Permit) (time.Duration, error) {
	if _, err := s.worker(p.Key); err != nil {
		return 0, err
	}
	return s.limits.permit(p.Tokens), nil
}

// Reserve implements queue.Handler.
func (s *Server) Reserve(_ context.Context, m queue.Money) (queue.Grant, error) {
	c, err := s.worker(m.Key)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, keep := s.limits.allow(c.shard.Index, m)
	if keep > 0 {
		err = s.state.write(true, entry{Kept: keep, Worker: c.shard.Index})
		s.fail(err)
	}
	return answer, err
}

// Progress implements queue.Handler.
func (s *Server) Progress(_ context.Context, p queue.Progress) (queue.Order, error) {
	c, err := s.worker(p.Key)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.second[c.shard.Index] = max(s.second[c.shard.Index], p.Lost)
	if s.state.open == 0 {
		return queue.Done, nil
	}
	return queue.Work, nil
}

// Leave implements queue.Handler.
func (s *Server) Leave(_ context.Context, l queue.Leave) error {
	c, err := s.worker(l.Key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left[c.shard.Index] {
		s.left[c.shard.Index] = true
		counted := 0 // tasks
		for _, of := range s.state.claims {
			if of.Worker == c.shard.Index {
				counted++
			}
		}
		s.c.Told("a worker has left", "worker", c.shard.Index, "counted", counted, "reason", view.Line(l.Reason))
	}
	return nil
}

// Claimed implements queue.Handler. A claim counts if it is the first of its task and the copy of the worker's journal
// commits the task so.
func (s *Server) Claimed(_ context.Context, q queue.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := s.byKey[q.Key]
	switch {
	case s.failed != nil:
		return s.failed
	case index == 0 || q.RunID != s.signed.Plan.RunID || q.Task < 0 || q.Task >= len(s.state.claims):
		return refuse("a claim of task %d is of no worker or no task of this run", q.Task+1)
	case !s.copies[index-1].holds(q.Task, q.Digest, q.Head):
		return refuse("a claim of task %d by worker %d rests on no journal", q.Task+1, index)
	}
	if known := s.state.claims[q.Task]; known.Worker == index {
		return nil
	} else if known.Worker != 0 { // the bucket had lost the claim that counts
		err := s.state.write(false, entry{Second: true, Task: q.Task + 1, Worker: index})
		s.fail(err)
		return errors.Join(err, refuse("task %d is claimed by worker %d", q.Task+1, known.Worker))
	}
	if err := s.state.write(true, entry{Digest: q.Digest, Head: string(q.Head), Task: q.Task + 1, Worker: index}); err != nil {
		s.fail(err)
		return err
	}
	s.endIfDone()
	return nil
}

// Claims implements queue.Handler.
func (s *Server) Claims() iter.Seq2[queue.Claim, error] {
	return func(yield func(queue.Claim, error) bool) {
		stop := errors.New("stop")
		s.mu.Lock()
		size, counted := s.state.size, slices.Clone(s.state.claims)
		s.mu.Unlock()
		_, err := readEntries(io.NewSectionReader(s.state.file, 0, size), func(e entry) error {
			if e.Digest == "" || counted[e.Task-1] != (claimed{e.Worker, e.Digest}) {
				return nil
			}
			s.mu.Lock()
			key := s.copies[e.Worker-1].shard.Key
			s.mu.Unlock()
			if !yield(queue.Claim{Digest: e.Digest, Head: []byte(e.Head), Key: key, RunID: s.signed.Plan.RunID, Task: e.Task - 1}, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(queue.Claim{}, err)
		}
	}
}

// Plan returns what the queue hands to each worker: the files of the plan folder. There is no key among them, no gold
// and no salt.
func (s *Server) Plan() (queue.Plan, error) {
	f, others := s.signed, map[string][]byte{}
	for name, content := range f.Files {
		if name != plan.ManifestFile && name != plan.EnvelopeFile {
			others[name] = content
		}
	}
	rest, err := canonical.Encode(others)
	return queue.Plan{RunID: f.Plan.RunID, Tasks: len(f.Plan.Tasks), Manifest: f.Manifest, Envelope: f.Envelope, Settings: rest, BaseURL: f.BaseURL}, err
}

// writePlan writes what a worker was handed as a plan folder, which it reads and verifies.
func writePlan(dir string, p queue.Plan) (*planfolder.Folder, error) {
	var files map[string][]byte
	if err := canonical.Decode(p.Settings, &files); err != nil {
		return nil, fmt.Errorf("reading the plan that the server sent: %w", err)
	}
	for name := range files { // whoever signed the plan is not known yet
		if !slices.Contains([]string{plan.ConstitutionFile, plan.AgentFilesFile, planfolder.PlacesFile, planfolder.EnvelopeFile, planfolder.SettingsFile}, name) {
			return nil, fmt.Errorf("the server sent a file %q, which no plan has", view.Line(name))
		}
	}
	if files == nil {
		return nil, errors.New("the server sent a plan without files")
	}
	files[plan.ManifestFile], files[plan.EnvelopeFile] = p.Manifest, p.Envelope
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.New(exit.Failure, fmt.Errorf("making the folder of the worker: %w", err), "choose another place with --out")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for name, content := range files {
		if err := root.WriteFile(name, content, 0o644); err != nil {
			return nil, err
		}
	}
	return planfolder.Open(dir)
}
