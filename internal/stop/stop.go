// Package stop turns the signals that end a command into contexts.
//
// A run stops in two ways: the first signal lets it finish the tasks under way, the second ends it at once ([Catch]). All
// other commands end at the first one ([Context]). A hang-up is ignored where the caller ignored it, as nohup does.
package stop

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gaia-harness/gaia/internal/view"
	"golang.org/x/sys/unix"
)

func stopSignals() []os.Signal {
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	return stops
}

// Context returns a context that the first stop signal ends.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, stopSignals()...)
}

// Stopper is how a run stops.
type Stopper struct {
	Context context.Context // ended by the second signal, and by the first before Begin
	Drain   <-chan struct{} // closed by the first signal after Begin
	Release func()          // gives the signals back; may be called twice

	begun    atomic.Bool
	mu       sync.Mutex
	out      io.Writer
	underWay func() int
}

// Catch takes the stop signals over until they are released, and a broken pipe where the reader of the output has gone, as a
// terminal that hangs up. A connection that the other side has closed gives the same signal, and stops nothing. Notices go to
// out.
func Catch(parent context.Context, out io.Writer) *Stopper {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	draining, ended := make(chan struct{}), make(chan struct{})
	s := &Stopper{Context: ctx, Drain: draining, out: out, underWay: func() int { return 0 }}
	s.Release = sync.OnceFunc(func() { signal.Stop(signals); close(ended); cancel() })
	signal.Notify(signals, append(stopSignals(), syscall.SIGPIPE)...)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case sig := <-signals:
				if sig == syscall.SIGPIPE {
					gone := unread(syscall.Stdout) || unread(syscall.Stderr)
					if gone {
						signal.Ignore(syscall.SIGPIPE) // each further line would break the pipe again
					}
					if !gone || n > 0 { // an own agent has hung up; or the interrupt ended the reader, too
						n--
						continue
					}
				}
			}
			if n > 0 || !s.begun.Load() {
				cancel()
				continue
			}
			s.mu.Lock()
			what := "no task is under way; what is done is graded and closed if no task is left out"
			if n := s.underWay(); n > 0 {
				what = "finishing " + view.Count(n, "task") + " under way"
			}
			fmt.Fprintf(s.out, "gaia: %s; interrupt again to stop now\n", what)
			s.mu.Unlock()
			close(draining)
		}
	}()
	return s
}

// unread reports whether no one can read any more what is written to a descriptor.
func unread(descriptor int) bool {
	fds := []unix.PollFd{{Fd: int32(descriptor)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// Begin is called when there are tasks to finish. Notices go to out from now on; underWay returns the number of tasks under way.
func (s *Stopper) Begin(out io.Writer, underWay func() int) {
	s.mu.Lock()
	s.out, s.underWay = out, underWay
	s.mu.Unlock()
	s.begun.Store(true)
}
