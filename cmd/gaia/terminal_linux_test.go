package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/term"
)

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine gives no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Skipf("this machine gives no pseudo-terminals: %v", errno)
		}
	}
	size := struct{ rows, columns, _, _ uint16 }{rows: 24, columns: 100}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine gives no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

// screen is standard error that a test reads while it is written.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newScreen() *screen { return &screen{more: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until a text stands on the screen so many times.
func (s *screen) await(t *testing.T, text string, times int) {
	t.Helper()
	for strings.Count(s.String(), text) < times {
		select {
		case <-s.more:
		case <-t.Context().Done():
			t.Fatalf("%q is not shown %d times:\n%s", text, times, s)
		}
	}
}

// TestApproverOnATerminal: the question stands above a real bar, which keeps
// still, and escapes in arguments do not reach the terminal.
func TestApproverOnATerminal(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	if !term.IsTerminal(int(terminal.Fd())) {
		t.Fatal("the pseudo-terminal is no terminal")
	}
	a := &app{stdin: terminal, stderr: terminal, tty: true, asks: true}
	progress := progress.New(a.stderr, a.tty, 3, 1, false)
	p := approve.New(nil, a.stdin, progress)
	type outcome struct {
		answer tools.Answer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := p.Approve(t.Context(), tools.Approval{TaskID: "fab1e001", Tool: "python", Args: `{"code":"\u001b[31mred"}`, Reason: "why"})
		done <- outcome{answer, err}
	}()
	seen := newScreen()
	go func() { _, _ = io.Copy(seen, keyboard) }()
	seen.await(t, "y: this once", 1)
	seen.await(t, "of 3 tasks", 1)
	if !progress.Held() {
		t.Error("the bar moves while a person is asked")
	}
	if !strings.Contains(seen.String(), `  | code: \u001b[31mred`) {
		t.Errorf("the terminal shows %q", seen)
	}
	if _, err := keyboard.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.answer != (tools.Answer{Approved: true, By: trajectory.ByPerson}) {
		t.Errorf("%+v", got)
	}
	if progress.Held() {
		t.Error("the bar keeps still after the answer")
	}
	progress.Done()
}

// TestShowBodyOnATerminal: a terminal gets escapes in place of what would control
// it, a pipe the bytes that the digest is of.
func TestShowBodyOnATerminal(t *testing.T) {
	const hostile = "red \x1b[31m, a title \x1b]0;owned\a, no newline"
	screen, terminal := openTerminal(t)
	dir, _ := foreignRun(t, "AUD-04/fires-cache-read.txt")
	digest := canonical.Digest([]byte(hostile))
	path := filepath.Join(dir, filepath.FromSlash(trajectory.BodyFile(digest)))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(hostile), 0o644)); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := command(t, "show", "--body", digest, dir); code != exit.OK || stdout != hostile {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
	a := &app{stdout: &view.Screen{File: terminal}, stderr: os.Stderr, getenv: func(string) string { return "" }}
	if code := a.exit(a.executeHere("show", "--body", digest, dir)); code != exit.OK {
		t.Fatalf("exit code %d", code)
	}
	line, err := bufio.NewReader(screen).ReadString('\n')
	if want := `red \u001b[31m, a title \u001b]0;owned\u0007, no newline` + "\r\n"; err != nil || line != want {
		t.Errorf("the terminal gets %q, %v", line, err)
	}
}

// TestTablesFitTheTerminal: a table is as wide as the terminal at most, and whole and without escapes elsewhere.
func TestTablesFitTheTerminal(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	shown := make(chan int)
	go func() {
		widest, lines := 0, bufio.NewScanner(keyboard)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "end") {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSuffix(lines.Text(), "\r")))
		}
		shown <- widest
	}()
	a := &app{stdout: &view.Screen{File: terminal, Colour: true}, stderr: io.Discard, getenv: func(string) string { return "" }}
	if err := a.executeHere("agent", "list"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(terminal, "end")
	if widest := <-shown; widest < 60 || widest > 100 {
		t.Errorf("the table has %d columns on a terminal of 100", widest)
	}
	var piped strings.Builder
	a.stdout = &piped
	if err := a.executeHere("agent", "list"); err != nil {
		t.Fatal(err)
	}
	if widest, _, _ := strings.Cut(piped.String(), "\n"); utf8.RuneCountInString(widest) <= 100 || strings.Contains(piped.String(), "\x1b") {
		t.Errorf("in a pipe the table is:\n%s", piped.String())
	}
}
