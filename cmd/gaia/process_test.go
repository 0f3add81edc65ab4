package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/heap"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"
)

// exitCode runs a command and wants an exit code: code 2 gaia run …
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// packageDir sets PACKAGE to the newest package under a directory, the working
// directory if none is given.
func packageDir(ts *testscript.TestScript, neg bool, args []string) {
	under := "."
	if len(args) == 1 {
		under = args[0]
	}
	found, err := filepath.Glob(ts.MkAbs(under) + "/submission-*")
	ts.Check(err)
	if neg || len(found) == 0 {
		ts.Fatalf("there is no package under %s", under)
	}
	slices.Sort(found)
	ts.Setenv("PACKAGE", filepath.Join(under, filepath.Base(found[len(found)-1])))
}

// runDir sets RUN to the newest run directory under runs, or under the given
// directory.
func runDir(ts *testscript.TestScript, neg bool, args []string) {
	under := "runs"
	if len(args) == 1 {
		under = args[0]
	}
	found, err := filepath.Glob(ts.MkAbs(under) + "/0*")
	ts.Check(err)
	if neg || len(found) == 0 {
		ts.Fatalf("there is no run directory under %s", under)
	}
	slices.Sort(found)
	ts.Setenv("RUN", under+"/"+filepath.Base(found[len(found)-1]))
}

// edit replaces the first occurrence of a text in a file, which must be there.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit file old new")
	}
	path := ts.MkAbs(args[0])
	old, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(old, []byte(args[1])) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, bytes.Replace(old, []byte(args[1]), []byte(args[2]), 1), 0o644))
}

// program runs gaia, which TestMain put on the path, in a separate directory
// that is also its home.
type program struct {
	t   *testing.T
	dir string
	env []string // beside HOME
}

func newProgram(t *testing.T) program {
	return program{t, t.TempDir(), []string{"HF_ENDPOINT=" + noHub}}
}

func (p program) command(args ...string) *exec.Cmd {
	cmd := exec.Command("gaia", args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"HOME=" + p.dir}, p.env...)
	return cmd
}

// want runs a command to its end and wants an exit code; it returns what was
// printed.
func (p program) want(code int, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("gaia %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

// runDir returns the one run directory.
func (p program) runDir() string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.dir, "runs", "0*"))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("run directories: %v, %v", found, err)
	}
	return found[0]
}

// signalAfter starts a run, sends signals when n attempts have ended, and waits
// for the end.
func (p program) signalAfter(n int, signals ...os.Signal) (code int, stderr string) {
	p.t.Helper()
	cmd := p.command("run", "--submit-intent")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	var seen strings.Builder
	for in := bufio.NewScanner(pipe); in.Scan(); {
		seen.WriteString(in.Text() + "\n")
		if !strings.Contains(in.Text(), "attempt ended") {
			continue
		}
		if n--; n == 0 {
			for _, s := range signals {
				if err := cmd.Process.Signal(s); err != nil {
					p.t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond) // two signals at once are one
			}
		}
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), seen.String()
}

// TestInterrupt: the first Ctrl-C finishes what is under way, the second stops
// at once; both say how to go on, and resume does.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][]os.Signal{
		"drain":   {os.Interrupt},
		"stop":    {os.Interrupt, os.Interrupt},
		"hang-up": {syscall.SIGHUP},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			code, stderr := p.signalAfter(2, signals...)
			if code != exit.Interrupted {
				t.Fatalf("exit code %d, want %d\n%s", code, exit.Interrupted, stderr)
			}
			for _, want := range []string{" under way; interrupt again to stop now\n", "gaia: error: interrupted; the state is saved\n", "gaia: hint: gaia resume runs/"} {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
			journal, err := os.ReadFile(filepath.Join(p.runDir(), "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			begun, ended := bytes.Count(journal, []byte(`"type":"task_started"`)), bytes.Count(journal, []byte(`"type":"attempt_ended"`))
			if len(signals) == 1 && begun != ended {
				t.Errorf("%d attempts began, %d ended: a task under way was cut off", begun, ended)
			}
			p.resumes()
		})
	}
}

// TestBrokenPipe: a run whose output no one reads any longer finishes what is under way.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	cmd := p.command("run", "--submit-intent")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(pipe)
	for in.Scan() && !strings.Contains(in.Text(), "attempt ended") {
	}
	pipe.Close()
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exit.Interrupted {
		t.Errorf("%v, want exit code %d", err, exit.Interrupted)
	}
	p.resumes()
}

// TestMemoryLimit: too low a limit of the address space is a failure, not bad usage.
func TestMemoryLimit(t *testing.T) {
	long.NotRaced(t) // the detector itself needs more
	t.Parallel()
	cmd := newProgram(t).command("version")
	cmd.Args = append([]string{"sh", "-c", `ulimit -v 2000000 && exec "$0" version`}, cmd.Path)
	var err error
	if cmd.Path, err = exec.LookPath("sh"); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Failure || !strings.Contains(string(out), "gaia: hint: raise the limit of this shell: ulimit -v unlimited") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInterruptSays: Ctrl-C says how many tasks are under way. Where it comes when every
// task has ended, the run is graded and closed as one that was not interrupted.
func TestInterruptSays(t *testing.T) {
	t.Parallel()
	model, err := url.Parse(serveModel(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, held string // model whose requests wait until the interrupt was heard
		requests   int    // of them, before the interrupt
		says       string
		code       int
	}{
		{"early", fixtures.Model, 2, "gaia: finishing 2 tasks under way; interrupt again to stop now", exit.Interrupted},
		{"late", fixtures.JudgeModel, 1, "gaia: no task is under way; what is done is graded and closed if no task is left out; interrupt again to stop now", exit.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heard, waiting := make(chan struct{}), make(chan struct{}, 100)
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: model.Scheme, Host: model.Host})
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"model":"`+tt.held+`"`)) {
					waiting <- struct{}{}
					<-heard
				}
				proxy.ServeHTTP(w, r)
			}))
			defer front.Close()
			p := newProgram(t)
			if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
				t.Fatal(err)
			}
			cmd := p.command("run", "--submit-intent", "--no-preflight", "--concurrency", "2", "--dataset", "dir:data", "--base-url", front.URL+model.Path,
				"--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--max-task-cost", "off", "--task", offlineTasks)
			pipe, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for range tt.requests {
				<-waiting
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			var seen strings.Builder
			said := false
			for in := bufio.NewScanner(pipe); in.Scan(); {
				seen.WriteString(in.Text() + "\n")
				if strings.HasSuffix(in.Text(), "interrupt again to stop now") {
					said = in.Text() == tt.says
					close(heard)
				}
			}
			_ = cmd.Wait() // its exit code is checked
			if code := cmd.ProcessState.ExitCode(); !said || code != tt.code {
				t.Fatalf("exit code %d, want %d and %q\n%s", code, tt.code, tt.says, &seen)
			}
			if tt.code == exit.OK {
				p.want(exit.OK, "verify", p.runDir())
				return
			}
			journal, err := os.ReadFile(filepath.Join(p.runDir(), "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if begun, ended := bytes.Count(journal, []byte(`"type":"task_started"`)), bytes.Count(journal, []byte(`"type":"attempt_ended"`)); begun != 2 || ended != 2 {
				t.Errorf("%d attempts began, %d ended", begun, ended)
			}
		})
	}
}

// TestShowFollow: show --follow prints the steps of an attempt that is under way, in
// another process than the one that writes, survives kill -9 and resume of that one,
// and ends with the run. Ctrl-C ends it before.
func TestShowFollow(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	if code, stderr := p.signalAfter(4, syscall.SIGKILL); code != -1 {
		t.Fatalf("was not killed: exit code %d\n%s", code, stderr)
	}
	dir := p.runDir()
	var first struct {
		TaskID string `json:"task_id"`
	}
	follow := func(args ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := p.command(append([]string{"show", dir, "--follow"}, args...)...)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd, bufio.NewScanner(pipe)
	}
	steps, asJSON := follow("--json")
	if !asJSON.Scan() {
		t.Fatalf("prints no step: %v", asJSON.Err())
	}
	if err := json.Unmarshal(asJSON.Bytes(), &first); err != nil || !strings.Contains(asJSON.Text(), `"type":"prompt"`) {
		t.Errorf("the first step is %s, %v", asJSON.Text(), err)
	}
	interrupted, lines := follow()
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "  model ") {
	}
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if interrupted.Wait(); interrupted.ProcessState.ExitCode() != exit.Interrupted {
		t.Errorf("Ctrl-C: exit code %d", interrupted.ProcessState.ExitCode())
	}
	task, lines := follow(first.TaskID)
	run, text := follow()
	p.want(exit.OK, "resume", dir)
	var all, one strings.Builder
	for text.Scan() {
		all.WriteString(text.Text() + "\n")
	}
	for lines.Scan() {
		one.WriteString(lines.Text() + "\n")
	}
	printed := 1
	for asJSON.Scan() {
		printed++
	}
	for name, cmd := range map[string]*exec.Cmd{"run": run, "task": task, "json": steps} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, want := range []string{"rehearsal: ", "run resumed\n", "task fab1e0", ", attempt 1, turn 2\n  model ", "\n  call ", "\n  result of ", "\n  rules hit by ", "\n  refused of ",
		"\n  violation: ", "\n  ended: answered\n", "\n  ended: error (interrupted)\n", "\n  sealed as solved\n", "\nrun completed: "} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if !strings.Contains(one.String(), "task "+first.TaskID+", attempt 1, turn 1\n") || strings.Count(one.String(), "  sealed as ") != 1 || !strings.HasSuffix(one.String(), "\n") {
		t.Errorf("of one task:\n%s", one.String())
	}
	recorded := 0
	records, err := os.ReadFile(filepath.Join(dir, "trajectories.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(records) {
		var r struct {
			Steps []jsontext.Value `json:"steps"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		recorded += len(r.Steps)
	}
	if printed != recorded {
		t.Errorf("--json prints %d steps, the run has %d", printed, recorded)
	}
}

// TestKill: kill -9 at different moments loses nothing that was recorded, and
// resume completes the run.
func TestKill(t *testing.T) {
	t.Parallel()
	for n := 4; n <= 16; n += 4 * long.Step(4) {
		p := newProgram(t)
		if code, stderr := p.signalAfter(n, syscall.SIGKILL); code != -1 {
			t.Fatalf("was not killed: exit code %d\n%s", code, stderr)
		}
		p.resumes()
	}
}

// resumes wants an unfinished run that can be resumed to its end, without
// changing a byte of what had been recorded.
func (p program) resumes() {
	p.t.Helper()
	dir := p.runDir()
	out := p.want(exit.Incomplete, "verify", dir)
	if !strings.Contains(out, "the run is not complete") {
		p.t.Errorf("verify says: %s", out)
	}
	p.want(exit.Incomplete, "show", dir)
	before, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	whole := before[:bytes.LastIndexByte(before, '\n')+1]
	p.want(exit.OK, "resume", dir)
	out = p.want(exit.OK, "verify", dir)
	if !strings.Contains(out, "rehearsal") {
		p.t.Errorf("verify says: %s", out)
	}
	after, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	if !bytes.HasPrefix(after, whole) {
		p.t.Error("resume changed what had been recorded")
	}
	if !bytes.Contains(after[len(whole):], []byte(`"type":"run_resumed"`)) {
		p.t.Error("the interruption was not recorded")
	}
}

// TestGarbage: the ballast is made before the first collection frees memory, and is a part of the heap at each.
func TestGarbage(t *testing.T) {
	cmd := exec.Command("gaia", "doctor", "--json")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GODEBUG=gctrace=1", "GOGC=", "GOMEMLIMIT=")
	out, _ := cmd.CombinedOutput() // which finds something missing
	all := regexp.MustCompile(`gc [0-9]+ @.* ms cpu, ([0-9]+)->`).FindAllSubmatch(out, -1)
	for i, of := range all {
		if mib, err := strconv.Atoi(string(of[1])); err != nil || mib < heap.Size>>20 {
			t.Errorf("collection %d of %d began at %d MiB", i+1, len(all), mib)
		}
	}
	if len(all) < 2 {
		t.Errorf("%d collections", len(all))
	}
}
