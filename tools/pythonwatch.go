package tools

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// How often a watch looks: a program that fills memory or disk gets a few
// hundred MiB further until then.
const (
	watchEvery = 50 * time.Millisecond // during a call
	restEvery  = time.Second           // between calls
)

// maxDepth is how deep folders may lie in each other: looking at them takes the
// square of it.
const maxDepth = 64

// A watch looks from outside at what a driver and all that it started use, and
// says when it is too much. What one process may use the system limits; this is
// for all of them together, and for those that no limit of the system holds.
type watch struct {
	pid      int // of what was started, whose children are the processes
	confined bool
	root     *os.Root
	cpuLeft  time.Duration

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

func newWatch(pid int, confined bool, root *os.Root, cpuLeft time.Duration) *watch {
	return &watch{pid: pid, confined: confined, root: root, cpuLeft: cpuLeft}
}

// run looks until done, and says once what is too much.
func (w *watch) run(done <-chan struct{}, over chan<- string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		if why := w.look(); why != "" {
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

// begin says that a call begins, rest that it has ended.
func (w *watch) begin() {
	files, disk := filesOf(w.root)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.before = true, usage{files: files, disk: disk}
}

func (w *watch) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = false
}

func (w *watch) cpu() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// look says which limit is passed, "" if none is.
func (w *watch) look() string {
	u := processesOf(w.pid, pythonMemory)
	if !w.confined {
		u.scratch = 0 // it has none of its own
	}
	files, disk := filesOf(w.root)
	u.files, u.disk = files, u.disk+disk
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = max(w.used, u.cpu)
	return u.beyond(w.before, w.cpuLeft)
}

// beyond says which limit is passed by more than before.
func (u usage) beyond(before usage, cpu time.Duration) string {
	switch {
	case u.processes > pythonProcesses:
		return fmt.Sprintf("stopped: it ran more than %d processes", pythonProcesses)
	case u.tasks > pythonTasks:
		return fmt.Sprintf("stopped: it ran more than %d threads", pythonTasks)
	case u.memory > pythonMemory:
		return fmt.Sprintf("stopped: it used more than %d GiB of memory", pythonMemory>>30)
	case u.disk > max(pythonDisk, before.disk):
		return fmt.Sprintf("stopped: its files took more than %d MiB", pythonDisk>>20)
	case u.files > max(pythonFiles, before.files):
		return fmt.Sprintf("stopped: the workspace had more than %d files, or folders more than %d deep", pythonFiles, maxDepth)
	case u.scratch > pythonFiles:
		return fmt.Sprintf("stopped: it made more than %d temporary files", pythonFiles)
	case u.cpu > cpu:
		return fmt.Sprintf("stopped: the attempt used all of its %v of processor time", pythonCPU)
	}
	return ""
}

// filesOf counts what lies in a workspace, and the bytes of it, to just beyond
// where it is too much.
func filesOf(root *os.Root) (files int, size int64) {
	walkFiles(root, func(name string, info fs.FileInfo) bool {
		files++
		if info.Mode().IsRegular() {
			size += info.Size()
		}
		if strings.Count(name, "/") >= maxDepth {
			files = 2*pythonFiles + 1
		}
		return files <= 2*pythonFiles && size <= 8*pythonDisk
	})
	return files, size
}
