package trajectory

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// crashJournal, when it is set, makes this program a writer of the journal it
// names instead of a test.
const crashJournal = "TRAJECTORY_TEST_CRASH_JOURNAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashJournal); path != "" {
		if err := crashWriter(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(long.Main(m))
}

// crashWriter goes on with a journal after cutting its torn tail, and appends
// from several goroutines until it is killed. It prints the id of every event
// that Append has acknowledged, and only those.
func crashWriter(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	end, tail, err := ReadJournal(f, runID, manifestDigest, func(Event, []byte) error { return nil })
	if err != nil {
		return err
	}
	if tail != nil {
		if err := f.Truncate(tail.Offset); err != nil {
			return err
		}
	}
	began := time.Now()
	l, err := NewLog(f, end, LogConfig{RunID: runID, Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader})
	if err != nil {
		return err
	}
	var out sync.Mutex
	failed := make(chan error)
	for n := range 4 {
		go func() {
			for i := 1; ; i++ {
				p := AnswerCommitted{Answer: strings.Repeat("é", n/3*100*(i%30)), Rule: "crash"} // some lines span pages
				ids, err := l.Append(Draft{TaskID: fmt.Sprint("task-", n), Attempt: i, Payload: p}, Draft{TaskID: fmt.Sprint("task-", n), Attempt: i, Payload: Error{}})
				if err != nil {
					failed <- err
					return
				}
				out.Lock()
				_, err = fmt.Println(strings.Join(ids, "\n"))
				out.Unlock()
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

var kills = flag.Int("kills", 300/long.Step(10), "how often TestKilledWriterLosesNothing kills a writer, in tens")

// TestKilledWriterLosesNothing kills a real writer at random moments, ten times
// on each journal: every event that was acknowledged is there, and
// the rest is whole lines and at most one torn one. A kill seldom tears a line,
// so every other time the start of one is left at the end, as a power cut may.
func TestKilledWriterLosesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for journal := range (*kills + killsOfAJournal - 1) / killsOfAJournal {
		t.Run(fmt.Sprint(journal), func(t *testing.T) {
			t.Parallel()
			killWriters(t, self, mathrand.New(mathrand.NewPCG(1, uint64(journal))))
		})
	}
}

const killsOfAJournal = 10

func killWriters(t *testing.T, self string, random *mathrand.Rand) {
	path, acknowledged := filepath.Join(t.TempDir(), JournalFile), map[string]bool{}
	for round := range killsOfAJournal {
		for _, id := range killedWriter(t, self, path, 1+random.IntN(30), time.Duration(random.IntN(1000))*time.Microsecond) {
			acknowledged[id] = true
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		_, tail, err := ReadJournal(bytes.NewReader(data), runID, manifestDigest, func(e Event, _ []byte) error {
			there[e.ID] = true
			return nil
		})
		if err != nil {
			t.Fatalf("round %d: what is left does not verify: %v", round, err)
		}
		if tail != nil && bytes.IndexByte(tail.Bytes, '\n') >= 0 {
			t.Fatalf("round %d: the tail is more than one line", round)
		}
		if round%2 == 1 {
			last := data[bytes.LastIndexByte(data[:len(data)-1], '\n')+1:]
			if err := os.WriteFile(path, append(data, last[:1+random.IntN(len(last)-1)]...), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for id := range acknowledged {
			if !there[id] {
				t.Fatalf("round %d: acknowledged event %s is lost", round, id)
			}
		}
	}
}

// killedWriter starts a writer, kills it a while after it has acknowledged some
// events, and returns all that it acknowledged.
func killedWriter(t *testing.T, self, path string, after int, while time.Duration) (ids []string) {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashJournal+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(pipe)
	for {
		line, err := in.ReadString('\n')
		if err != nil { // a line without its newline was not printed whole
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		if ids = append(ids, strings.TrimSpace(line)); len(ids) == after {
			time.Sleep(while)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() || len(ids) < after {
		t.Fatalf("the writer was not killed, it ended: %v after %d events, %s", err, len(ids), &stderr)
	}
	return ids
}
