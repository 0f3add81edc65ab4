package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/loader"
	gocmp "github.com/google/go-cmp/cmp"
)

// killsOfARun bounds how often one run is killed before it may come to its end.
const killsOfARun = 25

// kills is how often each loop kills a run: 'make kills' has 200.
var kills = flag.Int("kills", 0, "how often TestKillLoop and TestKillLoopOfAgent kill a run; 0: as few as show most")

// loopTasks need no web and no child process.
const loopTasks = offlineTasks + ",fab1e003-0000-4000-8000-000000000003,fab1e004-0000-4000-8000-000000000004"

// TestKillLoop kills gaia run and gaia resume at random moments, again and
// again on one run, also while they start, repair and seal. What anybody could
// have seen stays, byte for byte; a request leaves only when its event is on
// disk, and an answer is judged only when it is; the evidence verifies after
// every kill; and the run comes to the result of one that no one disturbed.
func TestKillLoop(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	killLoop(t, 8, 30, "")
}

// TestKillLoopOfAgent: the same while own agents run, of which no process is left.
func TestKillLoopOfAgent(t *testing.T) {
	long.NotRaced(t)
	for _, name := range []string{"bwrap", "/usr/bin/python3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s on this machine, so no own agent runs", name)
		}
	}
	t.Parallel()
	killLoop(t, 4, 30, slowAgent)
}

// slowAgent is an own agent that asks its model and calls a tool, beside a process that outlives it.
const slowAgent = `#!/bin/sh
(setsid sh -c 'sleep 300; :' "$0" >/dev/null 2>&1 </dev/null &)
exec /usr/bin/python3 - "$0" <<'EOF'
import json, os, urllib.request

def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)

question = open("QUESTION.md").read()
post(os.environ["GAIA_TOOLS_URL"] + "/calculate", {"expression": "6*7"})
ask = {"model": os.environ["GAIA_MODEL"], "messages": [{"role": "user", "content": question}]}
said = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", ask)["choices"][0]["message"]["content"]
print(said)
EOF
`

// killLoop kills runs so often, in the thorough run more: with an own agent unless it is "".
func killLoop(t *testing.T, few, thorough int, agent string) {
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	undisturbed := newVictim(t, server, rand.New(rand.NewPCG(0, 0)), agent)
	undisturbed.begin()
	undisturbed.want(exit.OK, undisturbed.args()...)
	want := undisturbed.result()
	if long.Thorough() {
		few = thorough
	}
	all := cmp.Or(*kills, few)
	for n, run := 0, uint64(1); n < all; run++ {
		v := newVictim(t, server, rand.New(rand.NewPCG(run, 0)), agent)
		for v.killed < killsOfARun && n+v.killed < all && !v.lostMost() && v.kill() {
		}
		n += v.killed
		v.begin()
		v.want(exit.OK, v.args()...)
		v.want(exit.OK, "verify", v.runDir())
		if diff := gocmp.Diff(want, v.result()); diff != "" {
			t.Errorf("after %d kills the result is another one (-undisturbed +killed):\n%s", v.killed, diff)
		}
		if got := len(v.summary().Interruptions); got != v.interrupted {
			t.Errorf("%d interruptions are recorded, %d kills interrupted the run", got, v.interrupted)
		}
		if recorded := v.recordedTorn(); recorded != len(v.torn) {
			t.Errorf("%d unfinished lines were cut, %d cuts are recorded", len(v.torn), recorded)
		}
		answers := map[string]int{}
		for line := range bytes.Lines(v.journal()) {
			if bytes.Contains(line, []byte(`"type":"answer_committed"`)) {
				answers[taskOf(line)]++
			}
		}
		for task, n := range answers {
			if n != 1 {
				t.Errorf("task %s has %d committed answers", task, n)
			}
		}
		t.Logf("%d kills, %d of them interrupted the run", v.killed, v.interrupted)
	}
}

// victim is a program that is killed, and the endpoint it talks to.
type victim struct {
	program
	random      *rand.Rand
	base        string // of the endpoint's address, without the process
	questions   map[string]string
	agent       string // folder of the own agent; "": there is none
	killed      int
	interrupted int
	torn        map[int][]byte // unfinished lines that were left at the end of the journal, by offset, all that stood there

	mu       sync.Mutex
	process  int            // number of the process that runs
	seen     []byte         // longest journal that anybody has read
	requests map[string]int // by process and task
	started  map[string]int // model_call_started on disk when a process began, by the same
}

func newVictim(t *testing.T, server *fixtures.Server, random *rand.Rand, agent string) *victim {
	t.Helper()
	v := &victim{program: newProgram(t), random: random, questions: map[string]string{}, torn: map[int][]byte{}, requests: map[string]int{}, started: map[string]int{}}
	if err := os.CopyFS(filepath.Join(v.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	if agent != "" {
		var err error
		if v.agent, err = os.MkdirTemp("/tmp", "gaia-agent-"); err != nil { // below /dev the sandbox has its own files
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(v.agent) })
		if err := os.WriteFile(filepath.Join(v.agent, "agent"), []byte(agent), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	set, _, err := loader.Load(context.Background(), loader.Dir(fixtures.Dataset(), "", ""), loader.Validation, loader.Filter{IDs: strings.Split(loopTasks, ",")})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range set.Tasks {
		v.questions[task.ID] = task.Question
	}
	model, err := url.Parse(server.ModelURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = model.Scheme, model.Host, model.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who asked was killed
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was killed before it had asked
		}
		v.received(r.Header.Get("Authorization"), body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	v.base = front.URL
	return v
}

// begin makes ready for the next process. Its key tells which one asks: a request
// of one that was killed may come late.
func (v *victim) begin() {
	v.process++
	v.env = []string{"HF_ENDPOINT=" + noHub, fmt.Sprintf("OPENAI_API_KEY=key-of-process-%d", v.process), "PATH=" + os.Getenv("PATH")}
}

// asker is how the process that was begun last names itself to the endpoint.
func (v *victim) asker() string { return fmt.Sprintf("Bearer key-of-process-%d", v.process) }

// args begin the run, or take it up if it has its place.
func (v *victim) args() []string {
	endpoint := []string{"--dataset", "dir:data", "--base-url", v.base + "/v1", "--concurrency", "2"}
	if found := v.found(); found != "" {
		return append([]string{"resume", found}, endpoint...)
	}
	if v.agent != "" {
		endpoint = append(endpoint, "--agent", v.agent)
	}
	return append([]string{"run", "--submit-intent", "--model", fixtures.Model, "--judge-model", fixtures.JudgeModel, "--task", loopTasks}, endpoint...)
}

// found returns the run directory, "" while there is none.
func (v *victim) found() string {
	found, err := filepath.Glob(filepath.Join(v.dir, "runs", "0*"))
	if err != nil || len(found) > 1 {
		v.t.Fatalf("run directories: %v, %v", found, err)
	}
	return strings.Join(found, "")
}

// journal returns what is in the journal, nothing while there is none.
func (v *victim) journal() []byte {
	data, err := os.ReadFile(filepath.Join(v.found(), "events.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		v.t.Error(err)
	}
	return data
}

// lostMost reports whether a task has lost as many attempts as are made again: if the next one were lost, too, it would
// have none that counts.
func (v *victim) lostMost() bool {
	data := v.journal()
	for task := range v.questions {
		if count(data, "answer_committed", task) == 0 && count(data, "task_started", task) >= plan.FreeReattempts {
			return true
		}
	}
	return false
}

func whole(data []byte) []byte { return data[:bytes.LastIndexByte(data, '\n')+1] }

func taskOf(line []byte) string {
	_, rest, _ := bytes.Cut(line, []byte(`"task_id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// count returns how many lines of a type there are about a task, any if it is "".
func count(data []byte, kind, task string) (n int) {
	for line := range bytes.Lines(whole(data)) {
		if bytes.Contains(line, []byte(`"type":"`+kind+`"`)) && (task == "" || taskOf(line) == task) {
			n++
		}
	}
	return n
}

// received looks at a request: what allows it must be on disk by now.
func (v *victim) received(process string, body []byte) {
	var request struct {
		Model    string
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		v.t.Errorf("a request that is no JSON: %v", err)
		return
	}
	data := v.journal()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(whole(data)) > len(v.seen) {
		v.seen = whole(data)
	}
	for task, question := range v.questions {
		asked := false
		for _, m := range request.Messages {
			asked = asked || strings.Contains(m.Content, question)
		}
		switch key := process + " " + task; {
		case !asked:
			continue
		case request.Model == fixtures.JudgeModel:
			if count(data, "answer_committed", task) == 0 {
				v.t.Errorf("an answer to task %s is judged that is not on disk", task)
			}
		default:
			v.requests[key]++
			v.requests[process]++
			if there := count(data, "model_call_started", task) - v.started[key]; there < v.requests[key] {
				v.t.Errorf("process %s, task %s: request %d has left, %d are on disk", process, task, v.requests[key], there)
			}
		}
		return
	}
	for _, item := range judge.Battery() {
		for _, m := range request.Messages {
			if request.Model == fixtures.JudgeModel && strings.Contains(m.Content, item.Question) {
				if count(data, "run_started", "") == 1 && count(data, "task_started", "") == 0 { // the preflight's
					return
				}
				if count(data, "answer_committed", "") == 0 {
					v.t.Error("a null battery is put to the judge before any answer is on disk")
				}
				return
			}
		}
	}
	for _, m := range request.Messages {
		if m.Content == prompt.PreflightQuestion || m.Content == prompt.PreflightToolCall || m.Content == prompt.PreflightLook {
			if count(data, "run_started", "") != 1 {
				v.t.Error("a model is asked before the plan is on disk")
			}
			return
		}
	}
	v.t.Error("a request about none of the tasks")
}

// kill starts the program and kills it at a random moment. It reports false if
// the program came to its end first.
func (v *victim) kill() bool {
	v.t.Helper()
	before := v.journal()
	v.mu.Lock()
	v.begin()
	process := v.asker()
	for task := range v.questions {
		v.started[process+" "+task] = count(before, "model_call_started", task)
	}
	v.mu.Unlock()
	cmd := v.command(v.args()...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	reached := v.moment(process, before)
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := errors.New("running")
	for err != nil && err.Error() == "running" && !reached() {
		select {
		case err = <-ended:
		case <-time.After(time.Millisecond):
		}
	}
	if err != nil && err.Error() == "running" {
		time.Sleep(time.Duration(v.random.IntN(3000)) * time.Microsecond)
		v.see(v.journal())
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			v.t.Fatal(err)
		}
		err = <-ended
	}
	if ended := (*exec.ExitError)(nil); err == nil || !errors.As(err, &ended) || ended.Exited() {
		if err != nil {
			v.t.Fatalf("the program was not killed, it failed: %v\n%s", err, &out)
		}
		return false
	}
	v.killed++
	v.examine(whole(before))
	return true
}

// moment chooses when to kill: some time after the start, when a request has
// come, when an event of some type is on disk, or in the midst of repair.
func (v *victim) moment(process string, before []byte) func() bool {
	if end := len(whole(before)); end < len(before) && v.random.IntN(2) == 0 {
		aside := filepath.Join(v.found(), fmt.Sprint("torn-", end))
		return func() bool {
			_, err := os.Stat(aside)
			return err == nil
		}
	}
	switch v.random.IntN(3) {
	case 0:
		until := time.Now().Add(time.Duration(v.random.IntN(80)) * time.Millisecond)
		return func() bool { return time.Now().After(until) }
	case 1:
		n := 1 + v.random.IntN(4)
		return func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.requests[process] >= n
		}
	}
	kinds := []string{"run_resumed", "tool_executed", "answer_committed", "judgment", "task_sealed", "run_completed"}
	if count(before, "answer_committed", "") == len(v.questions) { // or it would come to its end too often
		kinds = []string{"run_resumed", "task_sealed", "run_completed"}
	}
	kind := kinds[v.random.IntN(len(kinds))]
	n := count(before, kind, "")
	return func() bool { return count(v.journal(), kind, "") > n }
}

// see remembers what a reader has read.
func (v *victim) see(data []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if data = whole(data); len(data) > len(v.seen) {
		v.seen = data
	}
}

// examine looks at what a kill has left; before it there were these lines.
func (v *victim) examine(before []byte) {
	v.t.Helper()
	v.noneLeft()
	dir := v.found()
	if dir == "" {
		return // it had no place yet
	}
	data := v.journal()
	if !bytes.HasPrefix(data, v.seen) || !bytes.HasPrefix(data, before) {
		v.t.Fatalf("kill %d: lines that were on disk are gone or changed: %d bytes had been read, %d are there", v.killed, len(v.seen), len(data))
	}
	verify := v.command("verify", dir)
	out, _ := verify.CombinedOutput()
	if code := verify.ProcessState.ExitCode(); code != exit.OK && code != exit.Incomplete {
		v.t.Fatalf("kill %d: verify exits with %d\n%s", v.killed, code, out)
	}
	completed := count(data, "run_completed", "") > 0
	end := len(whole(data))
	if tail := data[end:]; !completed && !bytes.HasSuffix(v.torn[end], tail) { // torn by the kill itself
		v.torn[end] = append(v.torn[end], tail...)
	}
	for offset, lines := range v.torn {
		kept, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("torn-", offset)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			v.t.Fatal(err)
		}
		unmended := offset == end && bytes.HasPrefix(lines, kept) && bytes.HasSuffix(lines, data[end:])
		if !bytes.Equal(kept, lines) && !unmended {
			v.t.Fatalf("kill %d: what was cut at %d is neither in the journal nor aside: %q of %q", v.killed, offset, kept, lines)
		}
	}
	if len(whole(data)) > len(before) && !completed {
		v.interrupted++
	}
	v.see(data)
	if !completed && len(whole(data)) == len(data) && v.torn[len(data)] == nil && v.random.IntN(3) == 0 {
		v.tear(data)
	}
}

// noneLeft waits until no process of the own agent is left: the kernel ends them with the process that was killed.
func (v *victim) noneLeft() {
	v.t.Helper()
	if v.agent == "" {
		return
	}
	var left []string
	for range 500 {
		left = nil
		commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range commands {
			if command, err := os.ReadFile(name); err == nil && bytes.Contains(command, []byte(v.agent)) {
				left = append(left, string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	v.t.Fatalf("kill %d: processes are left: %q", v.killed, left)
}

// tear leaves the start of a line at the end of the journal, as a power cut may
// and a kill seldom does.
func (v *victim) tear(data []byte) {
	last := data[bytes.LastIndexByte(data[:len(data)-1], '\n')+1:]
	line := last[:1+v.random.IntN(len(last)-1)]
	f, err := os.OpenFile(filepath.Join(v.found(), "events.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(line); err != nil {
		v.t.Fatal(err)
	}
	v.torn[len(data)] = bytes.Clone(line)
}

func (v *victim) summary() rundir.Summary {
	v.t.Helper()
	run, err := rundir.Verify(os.DirFS(v.runDir()), rundir.Options{})
	if err != nil {
		v.t.Fatal(err)
	}
	return run.Summary()
}

// recordedTorn returns how many of the unfinished lines the journal says to have
// been cut.
func (v *victim) recordedTorn() (n int) {
	for _, i := range v.summary().Interruptions {
		if i.Torn {
			n++
		}
	}
	return n
}

// result is what a run comes to, however often it was disturbed.
func (v *victim) result() any {
	s := v.summary()
	return []any{s.Scores, s.Levels, s.Outcomes}
}
