package approve

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

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

// send types a line when someone waits for it.
func send(t *testing.T, p *Terminal, line string) {
	t.Helper()
	select {
	case p.lines <- line:
	case <-t.Context().Done():
		t.Error("no reader takes the answer")
	}
}

func TestApprover(t *testing.T) {
	python := tools.Approval{TaskID: "fab1e001", Tool: "python", Args: `{"code":"print(1)"}`, Reason: "because"}
	for _, tc := range []struct {
		name   string
		before []string
		typed  []string
		want   tools.Answer
		asked  int
		always string // how a second call is approved without asking; "" where it is asked about
	}{
		{name: "once", typed: []string{"y\n"}, want: tools.Answer{Approved: true, By: trajectory.ByPerson}, asked: 1},
		{name: "always", typed: []string{" Always \n"}, want: tools.Answer{Approved: true, By: trajectory.ByPerson}, asked: 1, always: trajectory.ByAlways},
		{name: "no", typed: []string{"n\n"}, want: tools.Answer{By: trajectory.ByPerson}, asked: 1},
		{name: "asked again", typed: []string{"\n", "perhaps\n", "yes\n"}, want: tools.Answer{Approved: true, By: trajectory.ByPerson}, asked: 3},
		{name: "beforehand", before: []string{"web_fetch", "python"}, want: tools.Answer{Approved: true, By: trajectory.Beforehand}, always: trajectory.Beforehand},
		{name: "by another name", before: []string{"Bash"}, want: tools.Answer{Approved: true, By: trajectory.Beforehand}, always: trajectory.Beforehand},
		{name: "by a star", before: []string{"*"}, want: tools.Answer{Approved: true, By: trajectory.Beforehand}, always: trajectory.Beforehand},
		{name: "all beforehand", before: []string{"all"}, want: tools.Answer{Approved: true, By: trajectory.Beforehand}, always: trajectory.Beforehand},
		{name: "another beforehand", before: []string{"web_fetch"}, typed: []string{"n\n"}, want: tools.Answer{By: trajectory.ByPerson}, asked: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := newScreen()
			in, _ := io.Pipe()
			p := New(tc.before, in, progress.New(out, false, 1, 1, false))
			p.lines = make(chan string)
			go func() {
				for _, line := range tc.typed {
					send(t, p, line)
				}
			}()
			got, err := p.Approve(t.Context(), python)
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v, want %+v", got, err, tc.want)
			}
			if n := strings.Count(out.String(), "approve it?"); n != tc.asked {
				t.Errorf("asked %d times, want %d:\n%s", n, tc.asked, out)
			}
			if tc.always != "" {
				if again, err := p.Approve(t.Context(), python); err != nil || again != (tools.Answer{Approved: true, By: tc.always}) {
					t.Errorf("the second time: %+v, %v", again, err)
				}
			}
		})
	}
}

// TestApproverWithoutPerson: end of input, no terminal and the end of the run.
func TestApproverWithoutPerson(t *testing.T) {
	call := tools.Approval{Tool: "python", Args: "{}"}
	denied := tools.Answer{By: trajectory.ByNoTerminal}
	var out strings.Builder
	bar := progress.New(&out, false, 1, 1, false)
	p := New(nil, nil, bar)
	for range 2 {
		if got, err := p.Approve(t.Context(), call); err != nil || got != denied {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := strings.Count(out.String(), "no terminal to ask on"); n != 1 || !strings.Contains(out.String(), "--approve all") {
		t.Errorf("said %d times:\n%s", n, out.String())
	}

	out.Reset()
	p = New(nil, strings.NewReader("y"), bar) // not sent off
	for range 3 {
		if got, err := p.Approve(t.Context(), call); err != nil || got != denied {
			t.Errorf("at the end of input: %+v, %v", got, err)
		}
	}
	if asked, said := strings.Count(out.String(), "approve it?"), strings.Count(out.String(), "the input from the terminal has ended: they are denied"); asked > 1 || said != 1 {
		t.Errorf("at the end of input: asked %d times, said %d times:\n%s", asked, said, out.String())
	}

	in, _ := io.Pipe()
	screen := newScreen()
	p = New(nil, in, progress.New(screen, false, 1, 1, false))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 { // one is asked about, one waits for its turn
		go func() { _, err := p.Approve(ctx, call); done <- err }()
	}
	screen.await(t, "approve it?", 1)
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
}

// TestApproverAsksOneAtATime: of several calls, the next is shown when the one
// before it has its answer; "always" is for all that wait.
func TestApproverAsksOneAtATime(t *testing.T) {
	in, _ := io.Pipe()
	out := newScreen()
	p := New(nil, in, progress.New(out, false, 1, 1, false))
	p.lines = make(chan string)
	answers := make(chan tools.Answer)
	for range 4 {
		go func() {
			answer, err := p.Approve(t.Context(), tools.Approval{Tool: "python", Args: "{}"})
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
	}
	for i, line := range []string{"n\n", "a\n"} {
		out.await(t, "approve it?", i+1)
		if n := strings.Count(out.String(), "approve it?"); n != i+1 {
			t.Errorf("%d questions stand there, want %d", n, i+1)
		}
		send(t, p, line)
		if answer := <-answers; answer.Approved != (line == "a\n") {
			t.Errorf("%q: %+v", line, answer)
		}
	}
	for range 2 {
		if answer := <-answers; answer != (tools.Answer{Approved: true, By: trajectory.ByAlways}) {
			t.Errorf("after always: %+v", answer)
		}
	}
	if n := strings.Count(out.String(), "approve it?"); n != 2 {
		t.Errorf("%d questions", n)
	}
}

func TestShownCall(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{`{}`, ""},
		{`{"path":"a.csv","page":2}`, "  | path: a.csv\n  | page: 2\n"},
		{`{"code":"a\nb"}`, "  | code: \n  | a\n  | b\n"},
		{`{"code":"\u001b[2J\r\u202e x\u009b"}`, "  | code: \\u001b[2J\\u000d\\u202e x\\u009b\n"},
		{`{"code":"\ngaia: approve it? y"}`, "  | code: \n  | \n  | gaia: approve it? y\n"},
		{`{"broken`, "  | {\"broken\n"},
		{"\x1b]0;x\a", "  | \\u001b]0;x\\u0007\n"},
		{`{"a":"` + strings.Repeat("é", 4000) + `"}`, "  | a: " + strings.Repeat("é", 2998) + "\n  … 1003 more characters are not shown\n"},
		{`{"a":"` + strings.Repeat(`x\n`, 100) + `"}`, "  | a: \n" + strings.Repeat("  | x\n", 59) + "  … 83 more characters are not shown\n"},
	} {
		got := shownCall(tools.Approval{TaskID: "fab1e001\x1b", Tool: "py\x07thon", Args: tc.args, Reason: "needs\nit"})
		if want := "gaia: task fab1e001\\u001b wants to call py\\u0007thon: needs it\n" + tc.want; got != want {
			t.Errorf("%.60q:\n%q, want\n%q", tc.args, got, want)
		}
	}
}
