package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gaia-harness/gaia/internal/progress"
)

// stopper turns signals into the two ways a run stops: the first closes drain,
// the second ends ctx.
type stopper struct {
	ctx     context.Context
	drain   <-chan struct{}
	release func()      // gives the signals back; may be called twice
	begun   atomic.Bool // there are tasks to finish: until then the first signal ends ctx

	mu       sync.Mutex
	out      io.Writer
	underWay func() int // tasks
}

// stopSignals are the signals that stop a command. The hang-up is left out where it was ignored
// from the start, as nohup does.
func stopSignals() []os.Signal {
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	return stops
}

// untilStopped returns a context that the first stop signal ends.
func untilStopped(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, stopSignals()...)
}

// catchSignals takes the stop signals over until they are released, and a broken pipe: the
// reader of the output has gone, as a terminal that hangs up.
func (a *app) catchSignals(parent context.Context) *stopper {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	draining, ended := make(chan struct{}), make(chan struct{})
	s := &stopper{ctx: ctx, drain: draining, out: a.stderr, underWay: func() int { return 0 }}
	s.release = sync.OnceFunc(func() { signal.Stop(signals); close(ended); cancel() })
	signal.Notify(signals, append(stopSignals(), syscall.SIGPIPE)...)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case sig := <-signals:
				if sig == syscall.SIGPIPE {
					signal.Ignore(syscall.SIGPIPE) // each further line would break the pipe again
				}
				if sig == syscall.SIGPIPE && n > 0 { // the interrupt ended the reader, too
					n--
					continue
				}
			}
			if n > 0 || !s.begun.Load() {
				cancel()
				continue
			}
			s.mu.Lock()
			what := "no task is under way; what is done is graded and closed if no task is left out"
			if n := s.underWay(); n > 0 {
				what = "finishing " + counted(n, "task") + " under way"
			}
			fmt.Fprintf(s.out, "gaia: %s; interrupt again to stop now\n", what)
			s.mu.Unlock()
			close(draining)
		}
	}()
	return s
}

// say sends the notice elsewhere than to standard error: above a progress bar, which
// knows the tasks under way.
func (s *stopper) say(p *progress.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out, s.underWay = p, p.UnderWay
}
