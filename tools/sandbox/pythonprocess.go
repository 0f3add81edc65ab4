package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/tools"
)

//go:embed python.py
var pythonDriver string

// startTime bounds how long an interpreter may take to be ready.
const startTime = 30 * time.Second

// A pythonSession is the interpreter of one attempt: a process that is started
// on first need and after each one that was lost.
type pythonSession struct {
	mu     sync.Mutex // held by who makes a call
	tool   *python
	root   *tools.Folder // nil: the workspace is a folder that is lost with the process
	ctx    context.Context
	cancel context.CancelFunc
	now    *pythonProcess // nil: none runs
	cpu    time.Duration  // of those that ran before
}

func newPythonSession(p *python, root *tools.Folder) *pythonSession {
	s := &pythonSession{tool: p, root: root}
	s.ctx, s.cancel = context.WithCancel(context.Background()) // it outlives the call that makes it
	return s
}

// Close ends the process and all that it started, and waits for that.
func (s *pythonSession) Close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	return nil
}

func (s *pythonSession) end() {
	if s.now == nil {
		return
	}
	s.now.end()
	s.cpu += s.now.watch.CPU()
	s.now = nil
}

// call runs code. The caller holds the lock. An error means that no process could
// be had, or that ctx ended.
func (s *pythonSession) call(ctx context.Context, code string, timeout time.Duration) (pythonResult, error) {
	if s.cpu >= LimitCPU {
		return pythonResult{status: "lost", why: fmt.Sprintf("the attempt has used all of its %v of processor time, so python is over", LimitCPU)}, nil
	}
	if s.now == nil {
		if s.ctx.Err() != nil {
			return pythonResult{}, errors.New("the attempt is over")
		}
		p, err := s.start(ctx)
		if err != nil {
			return pythonResult{}, err
		}
		s.now = p
	}
	s.now.watch.Begin()
	r := s.now.ask(ctx, fmt.Sprintf("%d\n%s", len(code), code), timeout)
	if r.status != "lost" {
		if why := s.now.watch.Look(); why != "" {
			r.status, r.why = "lost", why
		}
	}
	s.now.watch.Rest()
	if r.status == "lost" {
		p := s.now
		s.end()
		if p.program.exhausted {
			_, r.why = usage{memory: limitMemory + 1}.beyond(pythonLimits(), usage{}, LimitCPU)
		}
	}
	return r, ctx.Err()
}

func (s *pythonSession) start(ctx context.Context) (*pythonProcess, error) {
	confined, i := s.tool.sandbox != nil, s.tool.interpreter
	// What the driver limits its process and all that come of it to, before any code of a call runs. NPROC does not
	// hold where the user outside is root; the watch does.
	args := []string{"-I", "-B", "-c", pythonDriver, "CORE=0", fmt.Sprint("CPU=", int64(LimitCPU/time.Second)),
		fmt.Sprint("FSIZE=", tools.MaxWorkspace), fmt.Sprint("NOFILE=", pythonOpen)}
	if confined { // elsewhere other programs of the user would count, and macOS knows no limit of memory
		args = append(args, fmt.Sprint("AS=", 2*limitMemory), fmt.Sprint("DATA=", limitMemory), fmt.Sprint("NPROC=", limitTasks))
	}
	if err := s.root.Enterable(); err != nil {
		return nil, fmt.Errorf("starting python: %w", err)
	}
	workspace := ""
	if s.root != nil {
		workspace = s.root.Name()
	}
	own, cancel := context.WithCancel(s.ctx)
	var cmd *Program
	if confined {
		cmd = s.tool.sandbox.Command(own, Jail{ReadOnly: i.Required, workspace: workspace}, i.Path, args...)
	} else {
		unconfined := exec.CommandContext(own, i.Path, args...)
		child.Group(unconfined)
		unconfined.Env, unconfined.Dir = []string{}, workspace
		cmd = &Program{Cmd: unconfined}
	}
	p := &pythonProcess{cancel: cancel, chunks: make(chan []byte), done: make(chan struct{}), over: make(chan string, 1)}
	if err := p.launch(cmd); err != nil {
		cancel()
		return nil, fmt.Errorf("starting python: %w", err)
	}
	ready := p.ask(ctx, "-\n", startTime)
	if ready.status != "ready" {
		p.end()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("starting python: %s: %q", ready.why, tools.Clipped(ready.text()))
	}
	p.watch = NewWatch(cmd.Process.Pid, confined, s.root, LimitCPU-s.cpu)
	p.watch.Begin() // before it first looks
	go p.watch.Run(p.done, p.over)
	return p, nil
}

// pythonProcess is a driver that runs. Its process is foreign from the first
// call on: what it says is output and nothing else.
type pythonProcess struct {
	program  *Program
	cancel   context.CancelFunc
	requests *os.File
	output   *os.File
	chunks   chan []byte   // of its output; closed at the end of it
	done     chan struct{} // closed once it has ended
	over     chan string   // which limit it went beyond
	watch    *Watch
}

func (p *pythonProcess) launch(cmd *Program) (err error) {
	in, requests, err := os.Pipe()
	if err != nil {
		return err
	}
	output, out, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close(), requests.Close())
	}
	p.program, p.requests, p.output = cmd, requests, output
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		return errors.Join(err, requests.Close(), output.Close())
	}
	go func() {
		_ = cmd.Wait() // how it ended is its own matter
		// Whoever it left behind may hold the pipe; what is in it is read.
		_ = output.SetReadDeadline(time.Now().Add(time.Second))
		close(p.done)
	}()
	go func() {
		defer close(p.chunks)
		for {
			chunk := make([]byte, 64<<10)
			n, err := output.Read(chunk)
			if n > 0 {
				p.chunks <- chunk[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// end kills the process, all that it started where it is confined, and waits.
func (p *pythonProcess) end() {
	p.cancel()
	for range p.chunks {
	}
	<-p.done
	p.requests.Close()
	p.output.Close()
}

// ask sends a request, which is "-", or the bytes of the code and the code, and
// gathers output until the mark that ends it, which is made for it alone. Code may
// find it and write it: it then ends its own call, and no one else's.
func (p *pythonProcess) ask(ctx context.Context, request string, timeout time.Duration) pythonResult {
	mark := "\x1e" + rand.Text() + " "
	_ = p.requests.SetWriteDeadline(time.Now().Add(timeout))
	_, err := p.requests.WriteString(mark + request)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	said := gathered{mark: []byte(mark)}
	for more := err == nil; more; {
		var chunk []byte
		select {
		case chunk, more = <-p.chunks:
			if said.add(chunk) {
				return said.pythonResult
			}
		case <-timer.C:
			return said.lost(fmt.Sprintf("stopped after %s", tools.Count(int(timeout/time.Second), "second")))
		case why := <-p.over:
			return said.lost(why)
		case <-ctx.Done():
			return said.lost("interrupted")
		}
	}
	return said.lost("the interpreter ended")
}

// gathered is what there is of the answer to a request, as output comes, up to a
// mark and a word behind it.
type gathered struct {
	pythonResult
	mark    []byte
	pending []byte // what may belong to the mark
}

// add takes more output and reports whether the answer is whole. What comes
// behind it is dropped.
func (a *gathered) add(chunk []byte) bool {
	a.pending = append(a.pending, chunk...)
	at := bytes.Index(a.pending, a.mark)
	if at < 0 {
		if rest := len(a.pending) - len(a.mark); rest > 0 {
			a.captured.add(a.pending[:rest])
			a.pending = append([]byte(nil), a.pending[rest:]...)
		}
		return false
	}
	word, _, whole := bytes.Cut(a.pending[at+len(a.mark):], []byte("\n"))
	if !whole && len(word) <= maxStatus {
		return false
	}
	a.captured.add(a.pending[:at])
	if a.status = string(word); a.status != "ready" && a.status != "ok" {
		a.status = "raised"
	}
	return true
}

// maxStatus is longer, in bytes, than any word that the driver says.
const maxStatus = 16

// lost ends an answer that will not be whole.
func (a *gathered) lost(why string) pythonResult {
	a.captured.add(a.pending)
	a.status, a.why = "lost", why
	return a.pythonResult
}
