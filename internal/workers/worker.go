package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// Joining says how a worker works.
type Joining struct {
	Client  *queue.Client
	Out     string // folder of the worker's journal; "": one below Runs, by the id of the worker's key
	Runs    string
	Name    string                     // of this machine, for the server's display
	Trusted func(sign.PublicKey) error // whether the signature of the plan counts
	Harness trajectory.Harness
	Rand    io.Reader
	Drain   <-chan struct{} // when closed, no further task begins

	// Env makes what a run of the plan needs here, and the plan as this machine has it. done ends what was started.
	Env func(context.Context, *planfolder.Folder) (m plan.Plan, env run.Env, done func() error, err error)
	// Joined, if not nil, is called before the first task.
	Joined func(f *planfolder.Folder, number int, dir string)
}

// Report is what a worker did.
type Report struct {
	Claimed    int    `json:"claimed"` // tasks
	Dir        string `json:"dir"`     // of its journal
	RunID      string `json:"run_id"`
	Superseded int    `json:"superseded"` // tasks that it finished after another worker
	Worker     int    `json:"worker"`     // its number in the run
}

// worker is one that has joined.
type worker struct {
	client *queue.Client
	key    sign.Key
	run    *run.Run
	none   context.Context // ends when no task is left to wait for
	asked  atomic.Int64    // questions about money

	sending sync.Mutex // guards what is up to lines
	journal *os.File
	sent    int64 // bytes that the server has
	lines   int64

	mu       sync.Mutex
	underWay map[int]*queue.Task
	report   Report
}

// alive is how often a worker says that it is there.
const alive = time.Second

// Join has a worker do tasks of a plan until none is left, it is drained, or ctx ends. While the server does not answer
// it waits.
func Join(ctx context.Context, j Joining) (report Report, err error) {
	w := &worker{client: j.Client, underWay: map[int]*queue.Task{}}
	if w.key, err = sign.NewKey(j.Rand); err != nil {
		return report, err
	}
	if j.Out == "" {
		id := strings.TrimPrefix(w.key.Public().ID(), "SHA256:")
		j.Out = filepath.Join(j.Runs, ".worker-"+strings.NewReplacer("/", "_", "+", "-").Replace(id))
	}
	joined, handed, err := j.Client.Join(ctx, queue.Join{Key: w.key.Public().Line(), Name: j.Name, Version: runenv.Version(j.Harness)})
	if err != nil {
		return report, err
	}
	left := false
	leave := func(reason string) {
		if !left {
			left = true
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), alive)
			defer cancel()
			_ = j.Client.Leave(ctx, reason) // the server sees by itself that nothing comes any more
		}
	}
	defer func() {
		if err != nil {
			leave("it failed, or was interrupted")
		}
	}()
	f, err := writePlan(filepath.Join(j.Out, "plan"), handed)
	if err != nil {
		return report, err
	}
	if err := j.Trusted(f.Key); err != nil {
		return report, err
	}
	m, env, done, err := j.Env(ctx, f)
	if err != nil {
		return report, err
	}
	defer done()
	d, _, err := f.Plan.ReadDelegation(joined.Delegation, f.ManifestSHA256, f.Key)
	if err != nil {
		return report, err
	}
	if f.RPM > 0 || f.TPM > 0 {
		env.Limiter.Share(j.Client.Permit)
	}
	env.Key, env.Continue = w.key, false // without evidence nothing can be claimed
	w.report = Report{RunID: f.Plan.RunID, Worker: joined.Index, Dir: filepath.Join(j.Out, fmt.Sprintf("%s.worker-%d", f.Plan.RunID, joined.Index))}
	if w.run, err = run.CreateShard(w.report.Dir, run.Signed{Plan: m, Manifest: f.Manifest, Envelope: f.Envelope},
		run.Part{Delegation: d, Envelope: joined.Delegation, Key: w.key, Next: w.next, Committed: w.committed, Money: w.money}, env); err != nil {
		return report, err
	}
	defer w.run.Close()
	if w.journal, err = os.Open(filepath.Join(w.report.Dir, trajectory.JournalFile)); err != nil {
		return report, err
	}
	defer w.journal.Close()
	if j.Joined != nil {
		j.Joined(f, joined.Index, w.report.Dir)
	}
	none, stop := context.WithCancel(ctx)
	defer stop()
	w.none = none
	var told sync.WaitGroup
	told.Go(func() { w.tell(none, stop) })
	err = w.run.Execute(ctx, j.Drain)
	if errors.Is(err, run.ErrDrained) {
		err = nil
	}
	stop()
	told.Wait()
	for _, t := range w.underWay {
		t.Return()
	}
	if err == nil {
		w.progress(ctx)
		leave("it was drained, or no task is left")
	}
	return w.report, err
}

// tell tells the server now and then that this worker is there, and stops it when no task is left.
func (w *worker) tell(ctx context.Context, stop func()) {
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for ctx.Err() == nil {
		if w.progress(ctx) == queue.Done {
			stop()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// progress tells the server what this worker has done, and returns what it is to do.
func (w *worker) progress(ctx context.Context) queue.Order {
	w.mu.Lock()
	p := queue.Progress{Finished: w.report.Claimed + w.report.Superseded, Lost: w.report.Superseded}
	for place := range w.underWay {
		if len(p.UnderWay) < queue.MaxUnderWay {
			p.UnderWay = append(p.UnderWay, place)
		}
	}
	w.mu.Unlock()
	order, err := w.client.Progress(ctx, p)
	if err != nil {
		return queue.Work
	}
	return order
}

// money implements budget.Ask.
func (w *worker) money(ctx context.Context, spent, reserved int64) (ok, later bool, err error) {
	grant, err := w.client.Reserve(ctx, queue.Money{Held: reserved, Seq: w.asked.Add(1), Spent: spent})
	return grant == queue.Granted, grant == queue.Wait, err
}

// next returns the next task, by its place in the plan; false if none is left.
func (w *worker) next(ctx context.Context) (int, bool, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.none, cancel)()
	for {
		t, err := w.client.Next(waiting)
		if err != nil {
			if w.none.Err() != nil {
				err = nil
			}
			return 0, false, err
		}
		w.mu.Lock()
		before := w.underWay[t.Place]
		w.underWay[t.Place] = t
		w.mu.Unlock()
		if before == nil {
			return t.Place, true, nil
		}
		before.Done() // the queue had forgotten that it is under way here
	}
}

// committed sends the journal up to the end of a task, with a signed head, and then claims the task. Another worker may
// have been first.
func (w *worker) committed(ctx context.Context, place int, digest string) error {
	head, err := w.send(ctx)
	if err != nil {
		return err
	}
	err = w.client.Claim(ctx, queue.Claim{Digest: digest, Head: head, Task: place})
	var first *queue.ClaimedError
	won := err == nil || errors.As(err, &first) && first.First.Key == w.key.Public().Line()
	if !won && first == nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if won {
		w.report.Claimed++
	} else {
		w.report.Superseded++
	}
	if t := w.underWay[place]; t != nil {
		t.Done()
		delete(w.underWay, place)
	}
	return nil
}

// send sends what the journal has up to its head now, and returns that head. When it returns the server has all of it,
// durably.
func (w *worker) send(ctx context.Context) ([]byte, error) {
	w.sending.Lock()
	defer w.sending.Unlock()
	head, err := w.run.Head()
	if err != nil {
		return nil, err
	}
	said, err := trajectory.ParseCheckpoint(head)
	if err != nil {
		return nil, err
	}
	end, piece := w.sent, make([]byte, 64<<10)
	for lines := w.lines; lines < said.Journal.Events; { // the journal may be ahead of the head
		n, err := w.journal.ReadAt(piece, end)
		if n == 0 {
			return nil, fmt.Errorf("reading the journal to send it: %w", err)
		}
		for rest := piece[:n]; len(rest) > 0 && lines < said.Journal.Events; {
			at := bytes.IndexByte(rest, '\n') + 1
			if at == 0 {
				end, rest = end+int64(len(rest)), nil
				continue
			}
			end, rest, lines = end+int64(at), rest[at:], lines+1
		}
	}
	if err := w.client.Append(ctx, w.journal, w.sent, end, head); err != nil {
		return nil, err
	}
	w.sent, w.lines = end, said.Journal.Events
	return head, nil
}
