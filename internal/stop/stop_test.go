package stop

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCatch: the first signal drains, the second ends the context; before there are tasks, the first ends it.
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
	s.Begin(&out, func() int { return 2 })
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
