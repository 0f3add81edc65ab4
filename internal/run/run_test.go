package run

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// clock goes on by a millisecond whenever it is read, so that a run of one
// task at a time is the same each time.
type clock struct {
	mu sync.Mutex
	n  int64
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(c.n) * time.Millisecond)
}

func (c *clock) mono() time.Duration { return c.now().Sub(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

// setup is what Create takes.
type setup struct {
	plan plan.Plan
	env  Env
}

// config is a rehearsal of the given tasks with fixed clock, ids, salts and
// key, over the real servers.
func config(t testing.TB, ids ...string) setup {
	t.Helper()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	filter := loader.Filter{IDs: ids}
	set, gold, err := loader.Load(context.Background(), loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision), loader.Validation, filter)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.HashAttachments(context.Background()); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		t.Fatal(err)
	}
	prices, err := llm.ParsePrices(fixtures.Prices())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	key, err := sign.NewKey(random)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	client := llm.New(llm.Config{BaseURL: server.ModelURL, Prices: prices, MaxTries: 6, Now: c.now,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	fetcher := web.New(web.Config{Exceptions: server.Hosts, Archive: fixtures.ArchiveURL})
	m := plan.New()
	m.Dataset.Selection, m.Policy, m.SubmitIntent, m.Rehearsal = filter.Rule(), p, true, true
	m.Model = plan.ModelPlan{Name: fixtures.Model, Origin: "builtin:model"}
	m.Budgets.Turns, m.Retry.CallTries = 20, 6
	return setup{m, Env{
		Set: set, Gold: gold, Model: client, Prices: prices, Concurrency: 1,
		Judge: &grading.Judge{Client: client, Name: fixtures.JudgeModel, Origin: "builtin:judge"},
		Tools: []tools.Tool{document.NewReadFile(document.Reader{}), tools.NewListFiles(), tools.NewCalculate(), web.NewWebFetch(fetcher),
			web.NewWebSearch(fetcher, web.Engine{Name: web.SearXNG, URL: fixtures.SearchURL})},
		Key: key, Harness: trajectory.Harness{Commit: strings.Repeat("0123456789", 4), Version: "test", ExecutableSHA256: canonical.Digest(nil)},
		Now: c.now, Mono: c.mono, Rand: random,
	}}
}

func execute(t *testing.T, out string, c setup) *Run {
	t.Helper()
	r, err := Create(out, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// finish resumes a run, takes it to its end and gives it up.
func finish(t *testing.T, dir string, c setup) {
	t.Helper()
	r, err := Resume(dir, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

// verified reads a run as anyone would.
func verified(t *testing.T, dir string) *rundir.Run {
	t.Helper()
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// goldenTask searches, reads a page and computes.
const goldenTask = "fab1e005-0000-4000-8000-000000000005"

// TestGolden pins every byte of the journal and the derived files of one task.
func TestGolden(t *testing.T) {
	r := execute(t, t.TempDir(), config(t, goldenTask))
	for _, name := range []string{trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, plan.ManifestFile, trajectory.CheckpointFile} {
		got, err := os.ReadFile(filepath.Join(r.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "golden", name+".golden")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("%s is not the golden one (go test ./internal/run -update writes it again):\n%s", name, diff)
		}
	}
}

// TestRehearsal runs all built-in tasks and wants each to end as it is meant
// to: right, wrong, right only for the judge, without an answer.
func TestRehearsal(t *testing.T) {
	c := sensing(t, config(t))
	c.env.Concurrency = 4
	found := verified(t, execute(t, t.TempDir(), c).Dir)
	var got bytes.Buffer
	for _, task := range found.Tasks {
		result := found.Result(task)
		fmt.Fprintf(&got, "%s level %d: %s, judged %v by %s, %d turns, %d calls\n", task.Plan.TaskID, task.Plan.Level, result.Outcome,
			result.JudgedCorrect != nil && *result.JudgedCorrect, result.ScoringPath, result.Turns, result.ToolCalls)
	}
	golden := filepath.Join("testdata", "outcomes.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestCommitThenGrade: with submit intent every answer is committed before the
// first is graded; without, a task is graded when it is solved.
func TestCommitThenGrade(t *testing.T) {
	for _, intent := range []bool{true, false} {
		c := config(t)
		c.plan.SubmitIntent, c.env.Concurrency = intent, 4
		firstGrade, lastAnswer, n := 0, 0, 0
		c.env.Watch = func(e trajectory.Event) {
			n++
			switch e.Payload.(type) {
			case trajectory.AnswerCommitted:
				lastAnswer = n
			case trajectory.Judgment:
				if firstGrade == 0 {
					firstGrade = n
				}
			}
		}
		execute(t, t.TempDir(), c)
		if firstGrade == 0 || lastAnswer == 0 || intent != (lastAnswer < firstGrade) {
			t.Errorf("submit intent %v: last answer is event %d, first judgment event %d", intent, lastAnswer, firstGrade)
		}
	}
}

// TestNotRecorded: when the journal cannot be written, nothing more is asked of
// the model, the run is marked, and the mark stays through a resume.
func TestNotRecorded(t *testing.T) {
	c := config(t, goldenTask)
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.files.Journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Fatalf("error is %v", err)
	}
	r.Close()
	if found := verified(t, r.Dir); found.Complete || !strings.Contains(found.Marked, "evidence could not be recorded") {
		t.Errorf("complete %v, marked %q", found.Complete, found.Marked)
	}
	finish(t, r.Dir, c)
	if found := verified(t, r.Dir); !found.Complete || found.Marked == "" {
		t.Errorf("complete %v, marked %q", found.Complete, found.Marked)
	}
}

// TestResume: another plan is refused with the difference, a second process is
// kept out, a torn line is kept aside, and the answer that was committed stays.
func TestResume(t *testing.T) {
	c := config(t)
	out := t.TempDir()
	drain := make(chan struct{})
	answers := map[string]string{}
	collect := func(e trajectory.Event) {
		if p, ok := e.Payload.(trajectory.AnswerCommitted); ok {
			answers[e.TaskID] += p.Answer + ";"
		}
	}
	c.env.Watch = func(e trajectory.Event) {
		collect(e)
		if _, ok := e.Payload.(trajectory.AttemptEnded); ok && len(answers) == 3 {
			close(drain)
		}
	}
	r, err := Create(out, c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.Is(err, runfiles.ErrBusy) {
		t.Errorf("a second process got %v", err)
	}
	if err := r.Execute(context.Background(), drain); !errors.Is(err, ErrDrained) {
		t.Fatalf("error is %v", err)
	}
	r.Close()

	other := c
	other.plan.Model.Name = "another-model"
	var plan *PlanError
	if _, err := Resume(r.Dir, other.plan, other.env); !errors.As(err, &plan) || len(plan.Differences) != 1 ||
		!strings.Contains(plan.Differences[0], `"name":"another-model"`) {
		t.Errorf("resuming with another model: %v", err)
	}

	journal := filepath.Join(r.Dir, trajectory.JournalFile)
	torn := []byte(`{"attempt":1,"content_ha`)
	appendTo(t, journal, torn)
	c.env.Watch = collect
	finish(t, r.Dir, c)
	found := verified(t, r.Dir)
	if !found.Complete || len(found.Interruptions) != 1 || !found.Interruptions[0].Torn {
		t.Errorf("complete %v, interruptions %+v", found.Complete, found.Interruptions)
	}
	for task, given := range answers {
		if strings.Count(given, ";") != 1 {
			t.Errorf("task %s has the answers %q", task, given)
		}
	}
	aside, err := filepath.Glob(filepath.Join(r.Dir, "torn-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("torn lines kept aside: %v, %v", aside, err)
	}
	if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, torn) {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func appendTo(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
}

// slow delays the first answer of a client until it is told.
type slow struct {
	agent.Model
	once    sync.Once
	asked   chan struct{}
	release chan struct{}
}

func (s *slow) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	s.once.Do(func() { close(s.asked); <-s.release })
	return s.Model.Chat(ctx, r, o)
}

// TestDrain: a stop lets what is under way end, also when other tasks wait for
// their turn, and a judgment that is being made is recorded.
func TestDrain(t *testing.T) {
	for _, phase := range []string{"solve", "grade"} {
		t.Run(phase, func(t *testing.T) {
			c := config(t)
			c.env.Concurrency = 4
			model := &slow{Model: c.env.Model, asked: make(chan struct{}), release: make(chan struct{})}
			if phase == "solve" {
				c.env.Model = model
			} else {
				c.env.Judge.Client = model
			}
			begun, ended, judged := 0, 0, 0
			c.env.Watch = func(e trajectory.Event) {
				switch p := e.Payload.(type) {
				case trajectory.TaskStarted:
					begun++
				case trajectory.AttemptEnded:
					ended++
				case trajectory.Judgment:
					if p.Path == judge.PathJudge {
						judged++
					}
				}
			}
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			drain := make(chan struct{})
			go func() {
				<-model.asked
				close(drain)
				close(model.release)
			}()
			want := map[string]error{"solve": ErrDrained, "grade": nil}[phase] // once all tasks were attempted, none is left out
			if err := r.Execute(context.Background(), drain); !errors.Is(err, want) {
				t.Fatalf("error is %v, want %v", err, want)
			}
			if begun == 0 || begun != ended {
				t.Errorf("%d attempts began, %d ended", begun, ended)
			}
			if phase == "grade" && (judged == 0 || !verified(t, r.Dir).Complete) {
				t.Error("the run was not graded and closed")
			}
		})
	}
}

// refusing is a model whose key is not valid.
type refusing struct{}

func (refusing) Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error) {
	return llm.Response{}, &llm.Error{Status: 401, Code: "invalid_api_key", Message: "what was asked: ", Stop: true}
}

// TestJudgeStops: a judge that cannot be asked at all stops the run; its
// answers are judged when that is repaired.
func TestJudgeStops(t *testing.T) {
	c := config(t)
	good := c.env.Judge
	c.env.Judge = &grading.Judge{Client: refusing{}, Name: good.Name, Origin: good.Origin}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), nil); err == nil || err.Error() != "the judge cannot be asked: status 401, invalid_api_key" {
		t.Errorf("error is %v", err)
	}
	r.Close()
	c.env.Judge = good
	finish(t, r.Dir, c)
	if s := verified(t, r.Dir).Summary(); s.Judge.Errors != 0 || s.Judge.Judged != s.Judge.Asked || s.Judge.Asked == 0 {
		t.Errorf("judged %+v", s.Judge)
	}
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.Is(err, ErrComplete) {
		t.Errorf("resuming a complete run: %v", err)
	}
}

// TestLostHelpers: what only helps is made again; what is needed is named.
func TestLostHelpers(t *testing.T) {
	c := config(t)
	drain := make(chan struct{})
	close(drain)
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), drain); !errors.Is(err, ErrDrained) {
		t.Fatal(err)
	}
	r.Close()
	for _, name := range []string{"lock", rundir.PrivateFile, trajectory.JournalFile} {
		path := filepath.Join(r.Dir, name)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/zero", path); err != nil { // opening it would end; reading it would not
			t.Fatal(err)
		}
		var fault *trajectory.Fault
		if _, err := Resume(r.Dir, c.plan, c.env); !errors.As(err, &fault) || fault.File != name {
			t.Errorf("a link in place of %s: %v", name, err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
	journal := filepath.Join(r.Dir, trajectory.JournalFile)
	if err := os.Rename(journal, journal+".away"); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.As(err, &fault) || fault.File != trajectory.JournalFile || fault.Reason != rundir.Missing {
		t.Errorf("without the journal: %v", err)
	}
	if err := os.Rename(journal+".away", journal); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(filepath.Join(r.Dir, runfiles.WorkDir), filepath.Join(r.Dir, "away")), os.Symlink(t.TempDir(), filepath.Join(r.Dir, runfiles.WorkDir))); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(r.Dir, c.plan, c.env); err == nil || err.Error() != "work: is not a directory" {
		t.Errorf("a link in place of the workspaces: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(r.Dir, runfiles.WorkDir)), os.Rename(filepath.Join(r.Dir, "away"), filepath.Join(r.Dir, runfiles.WorkDir))); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(r.Dir, rundir.PrivateFile)
	if err := os.Rename(private, private+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(r.Dir, c.plan, c.env); err == nil || !strings.Contains(err.Error(), "without whose salts") {
		t.Errorf("without the private file: %v", err)
	}
	if err := os.Rename(private+".away", private); err != nil {
		t.Fatal(err)
	}
	appendTo(t, private, []byte(`{"answer":"half a li`))
	for _, name := range []string{runfiles.WorkDir, rundir.MarkerFile} {
		if err := os.RemoveAll(filepath.Join(r.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, r.Dir, c)
	if found := verified(t, r.Dir); !found.Complete || found.Marked != "the marker was missing when the run was resumed" {
		t.Errorf("complete %v, marked %q", found.Complete, found.Marked)
	}
	data, err := os.ReadFile(private)
	if err != nil || bytes.Contains(data, []byte("half a li")) {
		t.Errorf("the half line is still there, or %v", err)
	}
}

// echoing is a model whose endpoint repeats a secret wherever there is room
// beside the message.
type echoing struct {
	agent.Model
	secret string
}

func (e echoing) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	response, err := e.Model.Chat(ctx, r, echoed{o, e.secret})
	response.RequestID, response.ResponseModel, response.FinishReason = e.secret, e.secret, e.secret
	for i := range response.Message.ToolCalls {
		response.Message.ToolCalls[i].ID += e.secret
	}
	return response, err
}

// echoed is an observer of such a model.
type echoed struct {
	llm.Observer
	secret string
}

func (e echoed) TryCompleted(t llm.Try) error {
	if t.Response != nil {
		r := *t.Response
		r.RequestID, r.ResponseModel, r.FinishReason = e.secret, e.secret, e.secret
		t.Response = &r
	}
	if t.Err != nil {
		failed := *t.Err
		failed.Code = e.secret
		t.Err = &failed
	}
	return e.Observer.TryCompleted(t)
}

// TestNothingLeaks: no gold that the agent did not find itself, and no secret,
// in any file but the private one.
func TestNothingLeaks(t *testing.T) {
	const gold, secret = "UNIQUE-GOLD-7c1f", "http://museum.example/visit" // the latter stands in pages and arguments
	c := config(t)
	c.env.Concurrency = 4
	c.env.Transcriber, c.plan.Transcription = c.env.Model.(*llm.Client), &plan.TranscriptionPlan{Model: fixtures.TranscriptionModel, Origin: "builtin:ears"}
	c.env.Redact = trajectory.NewRedactor([]string{secret})
	c.env.Model, c.env.Judge.Client = echoing{c.env.Model, secret}, echoing{c.env.Judge.Client, secret}
	c.plan.Model.ServedAs = []string{"[redacted]"} // which is what is recorded of that name
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for task := range r.secrets.gold {
		r.secrets.gold[task] = gold // the judge is asked about every answer, and told this
	}
	if err := r.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	redactions := false
	err = filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		redactions = redactions || bytes.Contains(data, []byte(trajectory.Redacted))
		if d.Name() == rundir.PrivateFile {
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 || !bytes.Contains(data, []byte(gold)) {
				t.Errorf("%s: %v, %v", rundir.PrivateFile, info.Mode(), err)
			}
			return nil
		}
		if bytes.Contains(data, []byte(gold)) || bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s holds gold or a secret", d.Name())
		}
		return nil
	})
	if err != nil || !redactions {
		t.Errorf("redactions %v, error %v", redactions, err)
	}
}
