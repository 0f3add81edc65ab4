package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/run"
)

// The exit codes of every command, and the error that carries one: see package exit.
const (
	exitOK          = exit.OK
	exitFailure     = exit.Failure
	exitUsage       = exit.Usage
	exitFindings    = exit.Findings
	exitEvidence    = exit.Evidence
	exitIncomplete  = exit.Incomplete
	exitUntrusted   = exit.Untrusted
	exitInterrupted = exit.Interrupted
)

type failure = exit.Error

func fail(code int, err error, hints ...string) error { return exit.New(code, err, hints...) }

func usage(hint, format string, args ...any) error { return exit.Usagef(hint, format, args...) }

func firstOf(errs ...error) error { return exit.First(errs...) }

// classify returns err with the exit code and the hints that its kind gives.
func classify(err error) *failure {
	e := exit.Of(err)
	if errors.Is(err, run.ErrBusy) && len(e.Hints) == 0 {
		e = &failure{Code: e.Code, Err: e.Err, Hints: []string{"wait for it to end, or stop it"}}
	}
	return e
}

// exit prints an error and returns the exit code it means.
func (a *app) exit(err error) int {
	if err != nil {
		err = classify(err)
	}
	return exit.Print(a.stderr, err)
}

func noPlace(err error) bool { return durable.NoPlace(err) }

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
