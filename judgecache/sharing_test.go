package judgecache_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/judgecache"
)

// TestManyWriters has two caches on one directory, each with its own key.
func TestManyWriters(t *testing.T) {
	const questions, rounds = 8, 6
	dir := t.TempDir()
	one, two := newKey(t, 1), newKey(t, 2)
	caches := []*judgecache.Cache{open(t, dir, one, two.Public()), open(t, dir, two, one.Public())}
	var wg sync.WaitGroup
	for _, c := range caches {
		for n := range questions {
			wg.Go(func() {
				for range rounds {
					if err := c.Put(question(n), n%2 == 0); err != nil {
						t.Errorf("Put: %v", err)
					}
				}
			})
			wg.Go(func() {
				for range rounds * 20 {
					correct, found, bad, err := c.Get(question(n))
					if bad != nil || err != nil || found && correct != (n%2 == 0) {
						t.Errorf("Get = %v, %v, %v, %v", correct, found, bad, err)
					}
				}
				c.Sweep()
			})
		}
	}
	wg.Wait()
	wantWhole(t, caches[0], dir, questions)
}

// TestOneReport has many ask for a bad entry at once.
func TestOneReport(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, newKey(t, 1))
	if err := os.WriteFile(path(t, dir, question(1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var reports atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, found, bad, err := c.Get(question(1))
			if found || err != nil {
				t.Errorf("Get: found %v, %v", found, err)
			}
			if bad != nil {
				reports.Add(1)
			}
		})
	}
	wg.Wait()
	if n := reports.Load(); n != 1 {
		t.Errorf("%d reports of one bad entry", n)
	}
}

// childDir is the variable that tells a test that it is the second process,
// and which directory it is for.
const childDir = "JUDGECACHE_TEST_DIR"

// again is a second process that runs the same test.
func again(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	return cmd
}

// TestTwoProcesses runs itself once more and writes the same entries.
func TestTwoProcesses(t *testing.T) {
	const questions = 40
	dir, child := os.LookupEnv(childDir)
	if !child {
		dir = t.TempDir()
	}
	c := open(t, dir, newKey(t, 1))
	var other *exec.Cmd
	var said bytes.Buffer
	if !child {
		other = again(t, dir)
		other.Stdout, other.Stderr = &said, &said
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range questions {
		if err := c.Put(question(n), n%2 == 0); err != nil {
			t.Errorf("Put: %v", err)
		}
	}
	if child {
		return
	}
	if err := other.Wait(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, said.Bytes())
	}
	wantWhole(t, c, dir, questions)
}

// wantWhole wants the entries of questions 0 to n-1 and nothing else.
func wantWhole(t *testing.T, c *judgecache.Cache, dir string, n int) {
	t.Helper()
	if s := sweep(t, c); s.Checked != n || len(s.Bad) > 0 {
		t.Errorf("Sweep = %+v", s)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != n {
		t.Errorf("the directory holds %d files, %v; want %d", len(files), err, n)
	}
	for i := range n {
		if correct, found, bad, err := c.Get(question(i)); correct != (i%2 == 0) || !found || bad != nil || err != nil {
			t.Errorf("question %d: Get = %v, %v, %v, %v", i, correct, found, bad, err)
		}
	}
}

// TestUnreadable needs a user whom file modes bind.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, newKey(t, 1))
	put(t, c, question(1), true)
	if err := os.Chmod(path(t, dir, question(1)), 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(path(t, dir, question(1))); err == nil {
		f.Close()
		t.Skip("this user reads files of mode 0000: an unreadable entry is not tried")
	}
	want := judgecache.Bad{Name: filepath.Base(path(t, dir, question(1))), Reason: "not readable"}
	if _, found, bad, err := c.Get(question(1)); found || bad == nil || *bad != want || err != nil {
		t.Errorf("Get: found %v, bad %v, %v", found, bad, err)
	}
}

// TestFullDisk has a limit on the size of files stand for the disk: half an
// entry is written, and then no more. The limit holds for a process whole, so
// the writing is done in another one.
func TestFullDisk(t *testing.T) {
	dir, child := os.LookupEnv(childDir)
	if child {
		putOnFullDisk(t, dir)
		return
	}
	dir = t.TempDir()
	c := open(t, dir, newKey(t, 1))
	put(t, c, question(1), false)
	before, err := os.ReadFile(path(t, dir, question(1)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := again(t, dir).CombinedOutput()
	if err != nil {
		t.Errorf("the other process: %v\n%s", err, out)
	} else if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("a full disk is not tried:\n%s", out)
	}
	if after, err := os.ReadFile(path(t, dir, question(1))); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the entry changed: %s, %v", after, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory holds %v, %v; want one file", files, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(question(1), true); err == nil {
		t.Error("put into a directory that is not there")
	}
}

func putOnFullDisk(t *testing.T, dir string) {
	c := open(t, dir, newKey(t, 1))
	signal.Ignore(syscall.SIGXFSZ) // then a write past the limit fails with EFBIG
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skipf("the size of files cannot be limited: %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 200, Max: limit.Max}); err != nil {
		t.Skipf("the size of files cannot be limited: %v", err)
	}
	defer func() { // a coverage report is written at the end
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}()
	for n := 1; n <= 2; n++ {
		err := c.Put(question(n), true)
		if err == nil || !strings.HasPrefix(err.Error(), "writing a judgment: ") || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("Put on a full disk: %v", err)
		}
	}
}
