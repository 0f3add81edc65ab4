package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// losing makes a run whose journal is closed behind its back after n events.
func losing(t *testing.T, c setup, n int64) *Run {
	t.Helper()
	var r *Run
	c.env.Watch = func(e trajectory.Event) {
		if r != nil && e.Seq+1 == n {
			r.files.Journal.Close()
		}
	}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if n == 1 {
		r.files.Journal.Close()
	}
	return r
}

// outcomes are the results without what differs between runs of one plan.
func outcomes(f *rundir.Fold) string {
	var out strings.Builder
	for _, t := range f.Tasks {
		r := f.Result(t)
		answer := ""
		if r.ModelAnswer != nil {
			answer = *r.ModelAnswer
		}
		out.WriteString(r.TaskID + " " + r.Outcome + " " + r.ScoringPath + " " + answer + "\n")
	}
	return out.String()
}

// TestGoesOn loses the journal at one event after another, from the first to the
// last: the run says so at once, comes to the same results, marks them, leaves
// an unfinished journal of what was acknowledged, and can be resumed, after which
// the evidence is whole and the mark stands.
func TestGoesOn(t *testing.T) {
	const second = "fab1e001-0000-4000-8000-000000000001"
	for _, intent := range []bool{true, false} {
		c := config(t, goldenTask, second)
		c.plan.SubmitIntent = intent
		whole := verified(t, execute(t, t.TempDir(), c).Dir)
		for n := int64(1); n <= whole.End.Events; n += int64(long.Step(7)) {
			c := config(t, goldenTask, second)
			c.plan.SubmitIntent, c.env.Continue, c.env.Scratch = intent, true, t.TempDir()
			var warned []string
			c.env.Warn = func(err error) { warned = append(warned, err.Error()) }
			r := losing(t, c, n)
			var before []byte
			err := r.Execute(context.Background(), nil)
			var lost *UnrecordedError
			if err == nil { // the last batch held what came after
				if found := verified(t, r.Dir); found.Marked != "" || !found.Complete || n < whole.End.Events-1 {
					t.Errorf("%d events: complete %v, marked %q", n, found.Complete, found.Marked)
				}
				continue
			}
			if !errors.As(err, &lost) || !errors.Is(err, trajectory.ErrNotRecorded) || lost.Events < n || lost.Events > n+4 || len(warned) != 2 {
				t.Fatalf("%d events: %v, warned %q", n, err, warned)
			}
			state := r.State()
			if got, want := outcomes(state.Fold), outcomes(whole.Fold); got != want {
				t.Errorf("%d events: went on to\n%snot\n%s", n, got, want)
			}
			results, err := os.ReadFile(filepath.Join(r.Dir, runfiles.UnrecordedResults))
			if err != nil || bytes.Count(results, []byte("\n")) != 2 || bytes.Count(results, []byte(`"unrecorded":true}`)) != 2 {
				t.Errorf("%d events: left %s, %v", n, results, err)
			}
			summary, err := os.ReadFile(filepath.Join(r.Dir, runfiles.UnrecordedSummary))
			if err != nil || !bytes.Contains(summary, []byte(`"unrecorded":"evidence could not be recorded: `)) {
				t.Errorf("%d events: left %s, %v", n, summary, err)
			}
			if left, err := os.ReadDir(c.env.Scratch); err != nil || len(left) != 0 {
				t.Errorf("%d events: %v are left in the scratch directory, %v", n, left, err)
			}
			found := verified(t, r.Dir)
			if found.Complete || found.End.Events != lost.Events || !strings.Contains(found.Marked, "evidence could not be recorded") {
				t.Fatalf("%d events: complete %v after %d, marked %q", n, found.Complete, found.End.Events, found.Marked)
			}
			if before, err = os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile)); err != nil {
				t.Fatal(err)
			}
			r.Close()
			c.env.Watch = nil
			finish(t, r.Dir, c)
			found = verified(t, r.Dir)
			if got, want := outcomes(found.Fold), outcomes(whole.Fold); !found.Complete || found.Marked == "" || got != want {
				t.Errorf("%d events, resumed: complete %v, marked %q\n%s", n, found.Complete, found.Marked, got)
			}
			after, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
			if err != nil || !bytes.HasPrefix(after, before) {
				t.Errorf("%d events: what was recorded is not there any longer, %v", n, err)
			}
		}
	}
}

// TestGoesOnNot: a run that is to stop stops, and so does one that was asked to
// or has no place for its workspaces.
func TestGoesOnNot(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for name, change := range map[string]func(*setup){
		"stop":     func(c *setup) { c.env.Continue = false },
		"no place": func(c *setup) { c.env.Scratch = filepath.Join(c.env.Scratch, "missing") },
	} {
		c := config(t, goldenTask)
		c.env.Continue, c.env.Scratch = true, t.TempDir()
		change(&c)
		r := losing(t, c, 5)
		var lost *UnrecordedError
		if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) || errors.As(err, &lost) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, runfiles.UnrecordedResults)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there are results: %v", name, err)
		}
	}
	c := config(t, goldenTask)
	c.env.Continue, c.env.Scratch = true, t.TempDir()
	r := losing(t, c, 5)
	stop := make(chan struct{})
	watch := r.env.Watch
	r.env.Watch = func(e trajectory.Event) {
		watch(e)
		if e.Seq == 4 {
			close(stop)
		}
	}
	var lost *UnrecordedError
	if err := r.Execute(context.Background(), stop); !errors.Is(err, trajectory.ErrNotRecorded) || errors.As(err, &lost) {
		t.Errorf("stopped: %v", err)
	}
}

// TestEvidence: what the journal shows of bodies is as the plan says, and whole
// bodies are those that the journal names.
func TestEvidence(t *testing.T) {
	long.NotRaced(t)
	const secret = "http://museum.example/visit" // stands in pages and arguments
	for _, evidence := range []string{plan.EvidenceHeads, plan.EvidenceBodies, plan.EvidenceHashes} {
		c := config(t)
		c.plan.Evidence, c.plan.SubmitIntent, c.env.Concurrency = evidence, evidence != plan.EvidenceHashes, 4
		c.env.Redact = trajectory.NewRedactor([]string{secret})
		r := execute(t, t.TempDir(), c)
		dir := os.DirFS(r.Dir)
		heads, named, redacted := 0, 0, 0
		show := func(head, original, digest string, redactions int) {
			if head != "" {
				heads++
			}
			if digest == "" {
				return
			}
			named++
			body, err := rundir.ReadBody(dir, digest)
			if err != nil {
				t.Errorf("%s: %v", evidence, err)
				return
			}
			if !bytes.HasPrefix(body, []byte(head)) || bytes.Contains(body, []byte(secret)) {
				t.Errorf("%s: the body does not begin with its head, or holds a secret: %.200s", evidence, body)
			}
			if redactions == 0 && !bytes.Contains(body, []byte(trajectory.Redacted)) && digest != original {
				t.Errorf("%s: nothing was redacted, but the body's digest is %s, not %s", evidence, digest, original)
			}
			redacted += redactions
		}
		found, err := rundir.Verify(dir, rundir.Options{Event: func(e trajectory.Event) error {
			switch p := e.Payload.(type) {
			case trajectory.ContextCompiled:
				show(p.Head, p.ContentSHA256, p.BodySHA256, p.Redactions)
			case trajectory.ModelCallCompleted:
				if p.OutputSHA256 != "" {
					show(p.Head, p.OutputSHA256, p.BodySHA256, p.Redactions)
				}
			case trajectory.ToolExecuted:
				show(p.Head, p.OutputSHA256, p.BodySHA256, p.Redactions)
			case trajectory.ToolProposed:
				show("", p.ArgsSHA256, p.BodySHA256, 0)
				for name, value := range p.Args {
					if (value == "") != (evidence == plan.EvidenceHashes) {
						t.Errorf("%s: argument %s is %q", evidence, name, value)
					}
				}
			}
			return nil
		}})
		if err != nil || !found.Complete {
			t.Fatalf("%s: %v", evidence, err)
		}
		kept, err := filepath.Glob(filepath.Join(r.Dir, trajectory.BodiesDir, "*"))
		if err != nil || (len(kept) > 0) != (evidence == plan.EvidenceBodies) || (named > 0) != (evidence == plan.EvidenceBodies) || named < len(kept) {
			t.Errorf("%s: %d bodies are named, %d kept, %v", evidence, named, len(kept), err)
		}
		if (heads == 0) != (evidence == plan.EvidenceHashes) || evidence == plan.EvidenceBodies && redacted == 0 {
			t.Errorf("%s: %d heads, %d redactions in bodies", evidence, heads, redacted)
		}
		for _, path := range kept[:min(len(kept), 1)] {
			if err := os.WriteFile(path, []byte("another"), 0o644); err != nil {
				t.Fatal(err)
			}
			var fault *trajectory.Fault
			if _, err := rundir.ReadBody(dir, "sha256:"+filepath.Base(path)); !errors.As(err, &fault) || fault.File != trajectory.BodiesDir+"/"+filepath.Base(path) {
				t.Errorf("a changed body: %v", err)
			}
		}
	}
}

// TestBodiesNotKept: a body that cannot be written is evidence that cannot be
// recorded.
func TestBodiesNotKept(t *testing.T) {
	c := config(t, goldenTask)
	c.plan.Evidence = plan.EvidenceBodies
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.WriteFile(filepath.Join(r.Dir, "bodies"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Errorf("error is %v", err)
	}
	if found := verified(t, r.Dir); found.Marked == "" || len(found.Tasks[0].Attempts) != 0 { // the body belongs to its first request
		t.Errorf("marked %q, %d attempts", found.Marked, len(found.Tasks[0].Attempts))
	}
}

// TestMarkIsEvidence: what the marker says is in the journal once the run has
// gone on, so that removing the marker hides nothing.
func TestMarkIsEvidence(t *testing.T) {
	c := config(t, goldenTask)
	r := losing(t, c, 5)
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Fatal(err)
	}
	r.Close()
	finish(t, r.Dir, c)
	want := verified(t, r.Dir).Marked
	if err := os.Remove(filepath.Join(r.Dir, rundir.MarkerFile)); err != nil {
		t.Fatal(err)
	}
	found := verified(t, r.Dir)
	i := found.Summary().Interruptions
	if !found.Complete || found.Marked != want || want == "" || len(i) != 1 || i[0].Unsubmittable != want {
		t.Errorf("complete %v, marked %q, not %q; %+v", found.Complete, found.Marked, want, i)
	}
}

// TestTornAgain: what is cut at one place of the journal, by one resume after
// another that did not live to record it, is kept and recorded together.
func TestTornAgain(t *testing.T) {
	c := config(t, goldenTask)
	r := losing(t, c, 5)
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Fatal(err)
	}
	r.Close()
	journal := filepath.Join(r.Dir, trajectory.JournalFile)
	whole, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprint("torn-", len(whole))
	for _, cut := range []bool{false, true} { // killed before the cut, and after it
		appendTo(t, journal, []byte(`{"half`))
		again := &runfiles.Dir{Path: r.Dir}
		if _, err := again.CutTail(&trajectory.Tail{Offset: int64(len(whole)), Bytes: []byte(`{"half`)}); err != nil {
			t.Fatal(err)
		}
		if !cut {
			appendTo(t, journal, []byte(`{"half`))
		}
	}
	appendTo(t, journal, []byte(`{"attempt":1`))
	finish(t, r.Dir, c)
	kept, err := os.ReadFile(filepath.Join(r.Dir, name))
	if err != nil || string(kept) != `{"half{"attempt":1` {
		t.Errorf("kept %q, %v", kept, err)
	}
	after, err := os.ReadFile(journal)
	if err != nil || !bytes.Contains(after, []byte(`"torn":{"bytes":18,"file":"`+name+`"`)) || !verified(t, r.Dir).Complete {
		t.Errorf("the cut is not recorded: %v", err)
	}
}

// stopping is a model that is asked twice at once: one is told that the key is
// not valid, which stops the run, and while it does the other loses the journal.
type stopping struct {
	asked atomic.Int32
	both  chan struct{}
	lose  func()
}

func (s *stopping) Chat(ctx context.Context, _ llm.Request, o llm.Observer) (llm.Response, error) {
	if s.asked.Add(1) == 1 {
		<-s.both
		return llm.Response{}, &llm.Error{Status: 401, Stop: true}
	}
	close(s.both)
	<-ctx.Done()
	s.lose()
	return llm.Response{}, o.TryStarted(1)
}

// TestMarkedAtOnce: a failure to record marks the run, whatever other error was
// first and also if someone stops the run.
func TestMarkedAtOnce(t *testing.T) {
	c := config(t, goldenTask, "fab1e001-0000-4000-8000-000000000001")
	var r *Run
	c.env.Concurrency = 2
	c.env.Model = &stopping{both: make(chan struct{}), lose: func() { r.files.Journal.Close() }}
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Errorf("error is %v", err)
	}
	if found := verified(t, r.Dir); found.Marked == "" {
		t.Error("the run is not marked")
	}
}

// unsynced makes a run whose run_completed was written and could not be synced;
// marker says whether the marker could be written.
func unsynced(t *testing.T, c setup, marker bool) (r *Run, events int64) {
	t.Helper()
	whole := execute(t, t.TempDir(), c)
	events = verified(t, whole.Dir).End.Events
	r = losing(t, c, events-1)
	if !marker {
		r.files.Marker.Close()
	}
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Fatal(err)
	}
	r.Close()
	before := verified(t, r.Dir)
	if before.End.Events != events-1 {
		t.Fatalf("%d of %d events", before.End.Events, events)
	}
	f, err := os.OpenFile(filepath.Join(r.Dir, trajectory.JournalFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done, _ := before.RunCompleted()
	last, err := trajectory.NewLog(f, before.End, trajectory.LogConfig{RunID: before.Manifest.RunID, Now: c.env.Now, Mono: c.env.Mono, Rand: c.env.Rand})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Append(trajectory.Draft{Payload: done}); err != nil {
		t.Fatal(err)
	}
	return r, events
}

// TestLastLineNotSynced: a run_completed that was written and could not be synced
// does not hide that recording failed, whether or not the marker could be
// written, and whether or not it is removed afterwards.
func TestLastLineNotSynced(t *testing.T) {
	for _, marker := range []bool{true, false} {
		c := config(t, goldenTask)
		r, events := unsynced(t, c, marker)
		if found := verified(t, r.Dir); found.Complete || found.Missing == "" {
			t.Errorf("marker %v: complete %v", marker, found.Complete)
		}
		finish(t, r.Dir, c)
		if err := os.Remove(filepath.Join(r.Dir, rundir.MarkerFile)); err != nil {
			t.Fatal(err)
		}
		found := verified(t, r.Dir)
		if i := found.Interruptions; !found.Complete || found.Marked == "" || len(i) != 1 || !i[0].Torn || i[0].Events != events-1 {
			t.Errorf("marker %v: complete %v, marked %q, %+v", marker, found.Complete, found.Marked, i)
		}
	}
}

// TestNothingCutWhenClosed: of a run that had been closed nothing is cut, whatever
// a marker says that someone has put there: what is missing is written again.
func TestNothingCutWhenClosed(t *testing.T) {
	for _, missing := range [][]string{{trajectory.CheckpointFile}, {rundir.SummaryFile, trajectory.CheckpointFile}, {rundir.ResultsFile}} {
		c := config(t, goldenTask)
		r := execute(t, t.TempDir(), c)
		r.Close()
		journal, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range missing {
			if err := os.Remove(filepath.Join(r.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(r.Dir, rundir.MarkerFile), []byte("made up"), 0o644); err != nil {
			t.Fatal(err)
		}
		finish(t, r.Dir, c)
		after, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
		if err != nil || !bytes.Equal(after, journal) || !verified(t, r.Dir).Complete {
			t.Errorf("without %v: the journal was changed, or %v", missing, err)
		}
	}
}

// TestStrays: what a killed process was about to put in its place is removed, in
// a directory of any name.
func TestStrays(t *testing.T) {
	for _, name := range []string{"runs", "a[b", "runs[1]", `x\y`} {
		c := config(t, goldenTask)
		c.plan.Evidence = plan.EvidenceBodies
		ctx, cancel := context.WithCancel(t.Context())
		c.env.Watch = func(e trajectory.Event) {
			if e.Seq == 8 {
				cancel()
			}
		}
		r, err := Create(filepath.Join(t.TempDir(), name), c.plan, c.env)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.Close()
		strays := []string{"." + rundir.TrajectoriesFile + "123", "." + rundir.ResultsFile + "9", ".torn-55", filepath.Join(trajectory.BodiesDir, ".00ff123")}
		for _, stray := range append(strays, ".mine") {
			if err := os.WriteFile(filepath.Join(r.Dir, stray), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		copied := filepath.Join(runfiles.WorkDir, "0001-1"+tools.KeptSuffix)
		if err := os.MkdirAll(filepath.Join(r.Dir, copied, "some"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.env.Watch = nil
		finish(t, r.Dir, c)
		for _, stray := range append(strays, copied) {
			if _, err := os.Lstat(filepath.Join(r.Dir, stray)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s is still there: %v", name, stray, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(r.Dir, ".mine")); err != nil {
			t.Errorf("%s: a foreign file is gone: %v", name, err)
		}
	}
}

// TestMarkerLost: results without evidence are a mark, also when someone has
// made the marker say that nothing happened; and where the marker cannot be
// written it is removed, which is a mark as well.
func TestMarkerLost(t *testing.T) {
	c := config(t, goldenTask)
	c.env.Continue, c.env.Scratch = true, t.TempDir()
	r := losing(t, c, 5)
	var lost *UnrecordedError
	if err := r.Execute(context.Background(), nil); !errors.As(err, &lost) {
		t.Fatal(err)
	}
	r.Close()
	if err := os.WriteFile(filepath.Join(r.Dir, rundir.MarkerFile), []byte(rundir.MarkerOpen), 0o644); err != nil {
		t.Fatal(err)
	}
	c.env.Continue = false
	finish(t, r.Dir, c)
	if found := verified(t, r.Dir); !found.Complete || found.NotRecorded == "" {
		t.Errorf("complete %v, marked %q", found.Complete, found.Marked)
	}

	r = losing(t, c, 5)
	r.files.Marker.Close()
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) || errors.Is(err, runfiles.ErrUnmarked) {
		t.Fatal(err)
	}
	r.Close()
	finish(t, r.Dir, c)
	if found := verified(t, r.Dir); !found.Complete || found.NotRecorded == "" {
		t.Errorf("without a marker: complete %v, marked %q", found.Complete, found.Marked)
	}
}

// TestNoVerdictsWithoutEvidence: what a judge says in the part that is not
// recorded stays out of the cache.
func TestNoVerdictsWithoutEvidence(t *testing.T) {
	c := config(t)
	c.env.Continue, c.env.Scratch = true, t.TempDir()
	cache, err := judgecache.Open(t.TempDir(), c.env.Key, []sign.PublicKey{c.env.Key.Public()}, c.env.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.env.Cache = cache
	r := losing(t, c, 6)
	var lost *UnrecordedError
	if err := r.Execute(context.Background(), nil); !errors.As(err, &lost) || r.State().Summary().Judge.Judged == 0 {
		t.Fatal(err)
	}
	if swept := cache.Sweep(); swept.Checked != 0 {
		t.Errorf("%d verdicts are in the cache", swept.Checked)
	}
}

// TestTwoWriters: a process that finds no lock file is kept out all the same.
func TestTwoWriters(t *testing.T) {
	c := config(t, goldenTask)
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Remove(filepath.Join(r.Dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.Is(err, runfiles.ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
}

// TestHalfASalt: a first line without its end is not a salt, and is not cut off.
func TestHalfASalt(t *testing.T) {
	c := config(t, goldenTask)
	r := losing(t, c, 5)
	if err := r.Execute(context.Background(), nil); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Fatal(err)
	}
	r.Close()
	path := filepath.Join(r.Dir, rundir.PrivateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if err := os.WriteFile(path, line, 0o600); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.As(err, &fault) || fault.File != rundir.PrivateFile {
		t.Errorf("half a salt: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, line) {
		t.Errorf("the salt is gone: %q, %v", after, err)
	}
}

// huge is a model whose calls have more arguments than a line can hold the
// beginnings of.
type huge struct{}

func (huge) Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error) {
	var args strings.Builder
	for i := range 2 * trajectory.MaxLine / trajectory.ArgumentHead {
		fmt.Fprintf(&args, `,"a%d":"%s"`, i, strings.Repeat("x", trajectory.ArgumentHead))
	}
	call := llm.ToolCall{ID: "c", Name: "calculate", Arguments: "{" + args.String()[1:] + "}"}
	return llm.Response{Message: llm.Message{Role: "assistant", ToolCalls: []llm.ToolCall{call}}}, nil
}

// TestHugeCall: what is too large to be recorded ends its attempt, and nothing
// else.
func TestHugeCall(t *testing.T) {
	long.NotRaced(t)
	c := config(t, goldenTask)
	c.env.Model = huge{}
	found := verified(t, execute(t, t.TempDir(), c).Dir)
	if task := found.Tasks[0]; !found.Complete || found.Marked != "" || len(task.Attempts) != runenv.FailuresPerTask+1 || task.Sealed.Outcome != trajectory.Errored || task.Attempts[0].Error == nil {
		t.Errorf("complete %v, marked %q, %+v", found.Complete, found.Marked, found.Tasks[0].Sealed)
	}
}
