package sandbox

import (
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// How often a watch looks: a program that fills memory or disk gets a few
// hundred MiB further until then.
const (
	watchEvery = 50 * time.Millisecond // during a call
	restEvery  = time.Second           // between calls
	agentEvery = time.Second / 2       // an own agent that uses less than half of all that it may
)

// What all processes that are watched may use together. It is for arithmetic, tables
// and pictures of the size that questions come with, and far below what makes a
// machine useless for the attempts beside.
const (
	LimitCPU       = 10 * time.Minute // an attempt
	limitMemory    = 2 << 30          // bytes: numeric libraries with a table of a few hundred MiB
	limitProcesses = 64               // programs that run beside each other
	limitTasks     = 256              // processes and threads: numeric libraries start one for each core
)

// Limits of a control group. The watch stops a program before it meets them, unless
// it holds memory that the watch does not see, such as what is queued in sockets.
const (
	groupMemory = limitMemory + 2*scratchSize // bytes: temporary folders are memory
	groupTasks  = limitTasks + 64
)

// limits are what the processes that are watched may use together.
type limits struct {
	memory, disk     int64 // bytes
	processes, tasks int
	files, scratch   int // in the workspace; in a temporary folder
}

// pythonLimits are those of the tool python and of MCP servers.
func pythonLimits() limits {
	return limits{limitMemory, tools.MaxWorkspace, limitProcesses, limitTasks, tools.MaxEntries, tools.MaxEntries}
}

// A watch looks from outside at what a driver and all that it started use, and
// says when it is too much. What one process may use the system limits; this is
// for all of them together, and for those that no limit of the system holds.
type Watch struct {
	pid      int // of what was started, whose children are the processes
	confined bool
	root     *tools.Folder
	limits   limits
	own      int // processes that are not the program's own
	CPULeft  time.Duration
	wake     chan struct{} // a call has begun

	mu     sync.Mutex
	calls  bool
	before usage // at the beginning of the call: what is there already is no reason to stop it
	used   time.Duration
}

// usage is what processes use together.
type usage struct {
	processes, tasks int
	memory, disk     int64 // bytes
	files, scratch   int   // in the workspace; in a temporary folder
	cpu              time.Duration
}

// NewWatch watches the processes that pid started; root is their workspace, nil for none.
func NewWatch(pid int, confined bool, root *tools.Folder, cpuLeft time.Duration) *Watch {
	return &Watch{pid: pid, confined: confined, root: root, limits: pythonLimits(), CPULeft: cpuLeft, wake: make(chan struct{}, 1)}
}

// Run looks until done, and says once what is too much.
func (w *Watch) Run(done <-chan struct{}, over chan<- string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		case <-w.wake:
		}
		if why := w.Look(); why != "" {
			over <- why
			return
		}
		w.mu.Lock()
		next := restEvery
		if w.calls {
			next = watchEvery
		}
		w.mu.Unlock()
		timer.Reset(next)
	}
}

// Begin notes that a call begins.
func (w *Watch) Begin() {
	files, disk := filesOf(w.root, w.limits)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.before = true, usage{files: files, disk: disk}
	select {
	case w.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Rest notes that a call has ended.
func (w *Watch) Rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = false
}

// CPU returns the processor time that was used.
func (w *Watch) CPU() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// Look says which limit is passed, "" if none is.
func (w *Watch) Look() string {
	_, why, _ := w.look()
	return why
}

// look also returns what kind of limit it is, as [trajectory.AgentEnd] names it, and whether half of one is passed.
func (w *Watch) look() (kind, why string, much bool) {
	u := processesOf(w.pid, w.confined, w.limits)
	u.processes -= w.own
	files, disk := filesOf(w.root, w.limits)
	u.files, u.disk = files, u.disk+disk
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = max(w.used, u.cpu)
	kind, why = u.beyond(w.limits, w.before, w.CPULeft)
	l := w.limits
	half := limits{l.memory / 2, l.disk / 2, l.processes / 2, l.tasks / 2, l.files / 2, l.scratch / 2}
	_, beyond := u.beyond(half, w.before, w.CPULeft)
	return kind, why, beyond != ""
}

// beyond says which limit is passed by more than before.
func (u usage) beyond(l limits, before usage, cpu time.Duration) (kind, why string) {
	switch {
	case u.processes > l.processes:
		return trajectory.AgentProcesses, fmt.Sprintf("stopped: it ran more than %d processes", l.processes)
	case u.tasks > l.tasks:
		return trajectory.AgentProcesses, fmt.Sprintf("stopped: it ran more than %d threads", l.tasks)
	case u.memory > l.memory:
		return trajectory.AgentMemory, "stopped: it used more than " + inBytes(l.memory) + " of memory"
	case u.disk > max(l.disk, before.disk):
		return trajectory.AgentDisk, "stopped: its files took more than " + inBytes(l.disk)
	case u.files > max(l.files, before.files):
		return trajectory.AgentDisk, fmt.Sprintf("stopped: the workspace had more than %d files, or folders more than %d deep", l.files, tools.MaxDepth)
	case u.scratch > l.scratch:
		return trajectory.AgentDisk, fmt.Sprintf("stopped: it made more than %d temporary files", l.scratch)
	case u.cpu > cpu:
		return "", fmt.Sprintf("stopped: the attempt used all of its %v of processor time", LimitCPU)
	}
	return "", ""
}

// inBytes writes a number of bytes in GiB, or in MiB where that would be no whole number.
func inBytes(n int64) string {
	if n%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// filesOf counts what lies in a workspace, and the bytes of it, to just beyond
// where it is too much: it may have been there from the start.
func filesOf(root *tools.Folder, l limits) (files int, size int64) {
	_ = root.Walk(func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case name == ".":
			return nil
		case tools.TooDeep(name):
			files = 2*l.files + 1
		default:
			files++
		}
		if info.Mode().IsRegular() {
			size += info.Size()
			if hidden := allocated(info); hidden > 2*info.Size()+128<<10 { // file systems themselves allocate ahead
				size += hidden - info.Size()
			}
		}
		if files > 2*l.files || size > 8*l.disk {
			return fs.SkipAll
		}
		return nil
	})
	return files, size
}
