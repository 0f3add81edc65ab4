package runlist

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// isServer reports whether a path is called as the folder of a server of workers is.
func isServer(path string) bool {
	id, found := strings.CutPrefix(filepath.Base(path), runfiles.ServerPrefix)
	return found && isID(id)
}

// servers returns the run of the folder of a server: none while no worker has joined, or once the merged run is beside it.
func servers(dir string) []place {
	id := strings.TrimPrefix(filepath.Base(dir), runfiles.ServerPrefix)
	_, joined := os.Lstat(filepath.Join(dir, "1"))
	_, merged := os.Lstat(filepath.Join(filepath.Dir(dir), id))
	if joined != nil || merged == nil {
		return nil
	}
	at := begun(filepath.Join(dir, "1"), os.DirFS(filepath.Join(dir, "1")))
	return []place{{dir: dir, id: id, started: at.started, served: true}}
}

// server is what was read of the journals that a server has, so that only what is new is read again.
type server struct {
	mu     sync.Mutex
	copies []*journal // of the workers 1, 2, and so on
}

type journal struct {
	run  *rundir.Run
	size int64 // bytes of the lines that were read
	last string
}

// server returns what was read of a folder.
func (s *Seen) server(dir string) *server {
	if s == nil {
		return new(server)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers == nil {
		s.servers = map[string]*server{}
	}
	if s.servers[dir] == nil {
		s.servers[dir] = new(server)
	}
	return s.servers[dir]
}

// served reads the journals that a server has, as far as they go, and adds up what is in them. They are checked as a
// verifier does. A task that two workers committed counts once.
func (e Entry) served(o Options) Entry {
	s := o.Seen.server(e.Dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.State, e.work.CostMicroUSD = page.Interrupted, new(int64)
	var first *rundir.Run
	committed := map[string]bool{}
	for n := 1; n <= plan.MaxShards; n++ {
		name := strconv.Itoa(n)
		w := page.Worker{Name: "worker " + name, Dir: filepath.Join(e.Dir, name), State: page.Damaged, Work: page.Work{CostMicroUSD: new(int64)}}
		info, err := os.Lstat(w.Dir)
		if err != nil {
			break
		}
		if len(s.copies) < n {
			s.copies = append(s.copies, new(journal))
		}
		j, busy := s.copies[n-1], false
		if !info.IsDir() {
			err = trajectory.Faultf(name, "is no folder")
		}
		if err == nil {
			busy, err = runfiles.Busy(w.Dir)
		}
		if err == nil {
			err = j.read(os.DirFS(w.Dir))
		}
		if err == nil && first == nil {
			first = j.run
			e.plan(first.Manifest)
			e.SignedBy, e.Started = first.Key.ID(), cmp.Or(first.Started, e.Started)
			e.Trusted = o.Reader.Trust.OfID(e.SignedBy) == nil
			if most := first.Manifest.Budgets.RunCostMicroUSD; most > 0 {
				e.budget = &most
			}
		}
		if err == nil && (j.run.ManifestSHA256 != first.ManifestSHA256 || j.run.Shard == nil || j.run.Shard.Shard.Index != n || j.run.Shard.Shard.Of != 0) {
			err = trajectory.Faultf(plan.DelegationFile, "is not of worker %d of the run", n)
		}
		if err != nil {
			w.Problem = err.Error()
			e = e.damaged(fmt.Errorf("the journal of worker %d: %w", n, err))
		} else {
			if busy && e.State != page.Damaged {
				e.State = page.Served
			}
			w.State, w.Work = j.work(busy, committed)
			w.Key = j.run.ShardKey.ID()
		}
		e.workers = append(e.workers, w)
		e.work.Attempts, e.work.Errors, e.work.Tokens = e.work.Attempts+w.Work.Attempts, e.work.Errors+w.Work.Errors, e.work.Tokens+w.Work.Tokens
		e.work.CostMicroUSD, e.work.Last = stats.AddCost(e.work.CostMicroUSD, w.Work.CostMicroUSD), max(e.work.Last, w.Work.Last)
	}
	e.Done, e.Workers = len(committed), len(e.workers)
	e.work.Committed = e.Done
	if e.State != page.Damaged {
		e.CostMicroUSD = e.work.CostMicroUSD
	}
	return e
}

// read reads the lines that the journal in dir has got since; all of them if it has become shorter.
func (j *journal) read(dir fs.FS) (err error) {
	f, size, err := rundir.OpenFile(dir, trajectory.JournalFile, rundir.MaxFile)
	if err != nil {
		return err
	}
	defer f.Close()
	again := j.run != nil
	if again && size < j.size { // it was cut at its newest head
		*j, again = journal{}, false
	}
	if j.run == nil {
		if j.run, err = rundir.Begin(dir); err != nil {
			return err
		}
	}
	_, err = j.run.Extend(io.NewSectionReader(f.(io.ReaderAt), j.size, size-j.size), func(e trajectory.Event, line []byte) error {
		j.size, j.last = j.size+int64(len(line)), e.Timestamp
		return nil
	})
	if err != nil {
		if *j = (journal{}); again { // it may be another one
			return j.read(dir)
		}
	}
	return err
}

// work returns what a worker does and has done, and adds the tasks that it has committed.
func (j *journal) work(busy bool, committed map[string]bool) (state string, w page.Work) {
	state, w = page.Interrupted, page.Work{CostMicroUSD: new(int64), Last: j.last}
	if busy {
		state = "waiting"
	}
	for _, t := range j.run.Tasks {
		if t.Committed != nil {
			w.Committed++
			committed[t.Plan.TaskID] = true
		} else if busy && t.Open() != nil {
			state = page.Running
		}
		for _, a := range t.Attempts {
			w.Attempts++
			if a.Error != nil {
				w.Errors++
			}
			w.Tokens += a.Tokens.In + a.Tokens.Out
			w.CostMicroUSD = stats.AddCost(w.CostMicroUSD, a.CostMicroUSD)
		}
	}
	return state, w
}
