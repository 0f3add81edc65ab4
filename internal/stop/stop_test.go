package stop

import (
	"bytes"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// hangUp writes to a connection that the other side has closed.
func hangUp(t *testing.T) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	if err := syscall.Close(pair[1]); err != nil {
		t.Fatal(err)
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGPIPE)
	defer signal.Stop(heard)
	if _, err := syscall.Write(pair[0], []byte("x")); err != syscall.EPIPE {
		t.Fatalf("the write ends with %v", err)
	}
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Fatal("the signal of a broken pipe is ignored")
	}
}

// TestCatch: a connection that an agent closes stops nothing, the first signal drains, the second ends the context; before there are tasks, the first ends it.
func TestCatch(t *testing.T) {
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatal(what)
		}
	}
	interrupt := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	s := Catch(t.Context(), &out)
	var interrupted atomic.Bool
	s.Begin(&out, func() int {
		if !interrupted.Load() {
			t.Error("it drains where an agent hung up")
		}
		return 2
	})
	for range 5 {
		hangUp(t)
	}
	interrupted.Store(true)
	interrupt()
	wait("the first signal does not drain", s.Drain)
	if s.Context.Err() != nil || !strings.Contains(out.String(), "gaia: finishing 2 tasks under way; interrupt again to stop now") {
		t.Errorf("%v, prints %q", s.Context.Err(), out.String())
	}
	interrupt()
	wait("the second signal does not stop", s.Context.Done())
	s.Release()
	s.Release()

	s = Catch(t.Context(), &out)
	defer s.Release()
	interrupt()
	wait("a signal before there are tasks does not stop", s.Context.Done())
}
