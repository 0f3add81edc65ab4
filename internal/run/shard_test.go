package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/merge"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// divided is a signed plan for shards.
type divided struct {
	setup
	Signed
	salts grading.Salts
	out   string // for the shards, and the run
}

// divide signs a plan for n shards.
func divide(t testing.TB, c setup, n int) divided {
	t.Helper()
	c.plan.Shards = n
	s, salts, err := Sign(c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	return divided{c, s, salts, t.TempDir()}
}

// part delegates a part of the plan to a fresh key; of is 0 for a worker. The environment has that key and no judge.
func (d divided) part(t testing.TB, index, of int) (Part, Env) {
	t.Helper()
	key, err := sign.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	delegation := d.Plan.NewDelegation(canonical.Digest(d.Manifest), trajectory.Shard{Index: index, Key: key.Public().Line(), Of: of})
	envelope, err := delegation.Sign(d.env.Key)
	if err != nil {
		t.Fatal(err)
	}
	e := d.env
	e.Key, e.Judge, e.Rand = key, nil, rand.Reader
	e.Harness.ExecutableSHA256 = canonical.Digest([]byte("for another kind of machine"))
	return Part{Delegation: delegation, Envelope: envelope, Key: key}, e
}

func (d divided) dir(p Part) string {
	return filepath.Join(d.out, strings.ReplaceAll(d.Plan.RunID+"."+p.Delegation.String(), " ", "-"))
}

// solve executes a part to its end.
func (d divided) solve(t testing.TB, p Part, e Env) string {
	t.Helper()
	r, err := CreateShard(d.dir(p), d.Signed, p, e)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return r.Dir
}

// shards executes all shards and returns their folders.
func (d divided) shards(t testing.TB) (folders []string) {
	for i := 1; i <= d.Plan.Shards; i++ {
		p, e := d.part(t, i, d.Plan.Shards)
		folders = append(folders, d.solve(t, p, e))
	}
	return folders
}

// list is shards.json of the folders of all shards.
func (d divided) list(t testing.TB, folders []string) (rundir.Shards, []string) {
	t.Helper()
	f := planfolder.Folder{Plan: d.Plan, ManifestSHA256: canonical.Digest(d.Manifest), EnvelopeSHA256: canonical.Digest(d.Envelope), Key: d.env.Key.Public()}
	shards, folders, err := merge.Plan(&f, folders, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return shards, folders
}

// merged is what the run of the shards is made of.
func (d divided) merged(t testing.TB, shards rundir.Shards, folders []string) Merged {
	t.Helper()
	signed, err := rundir.NewSigned(d.Manifest, d.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{plan.ManifestFile: {Data: d.Manifest}, plan.EnvelopeFile: {Data: d.Envelope}}
	return Merged{Signed: signed, Files: files, Given: d.Plan, Salts: d.salts, Shards: shards, Folders: folders}
}

// merge makes the run of the shards, grades it and verifies it.
func (d divided) merge(t testing.TB, shards rundir.Shards, folders []string) *rundir.Run {
	t.Helper()
	r, err := CreateMerged(d.out, d.merged(t, shards, folders), d.env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return d.whole(t)
}

// whole verifies the run.
func (d divided) whole(t testing.TB) *rundir.Run {
	t.Helper()
	found, err := rundir.Verify(os.DirFS(filepath.Join(d.out, d.Plan.RunID)), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !found.Complete {
		t.Fatalf("the run is not complete: %s", found.Missing)
	}
	return found
}

// workers executes the plan by n workers which take tasks from one channel, and merges what they claimed first. Each
// spends from one budget.
func (d divided) workers(t testing.TB, n int) *rundir.Run {
	t.Helper()
	tasks := make(chan int, len(d.Plan.Tasks))
	for i := range d.Plan.Tasks {
		tasks <- i
	}
	close(tasks)
	counted, merged, folders := make([]int, len(d.Plan.Tasks)), make([]trajectory.ShardMerged, n), make([]string, n)
	var mu sync.Mutex
	money := make([][2]int64, n)
	var all sync.WaitGroup
	for w := range n {
		p, e := d.part(t, w+1, 0)
		p.Next = func(ctx context.Context) (int, bool, error) {
			select {
			case i, ok := <-tasks:
				return i, ok, nil
			case <-ctx.Done():
				return 0, false, ctx.Err()
			}
		}
		p.Money = func(_ context.Context, spent, reserved int64) (ok, later bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			before, others := money[w][0]+money[w][1], int64(0)
			for i, other := range money {
				if i != w {
					others += other[0] + other[1]
					later = later || other[1] > 0
				}
			}
			money[w][0] = spent
			if ok = spent+reserved <= before || others+spent+reserved <= d.Plan.Budgets.RunCostMicroUSD; ok {
				money[w][1] = reserved
			}
			return ok, later, nil
		}
		r, err := CreateShard(d.dir(p), d.Signed, p, e)
		if err != nil {
			t.Fatal(err)
		}
		r.part.Committed = func(_ context.Context, task int, digest string) error {
			mu.Lock()
			defer mu.Unlock()
			if committed := r.fold.Task(d.Plan.Tasks[task].TaskID).Committed; counted[task] != 0 || committed == nil || committed.Digest != digest {
				return fmt.Errorf("task %d is committed twice, or not durably", task)
			}
			counted[task] = w + 1
			_, err := r.Head()
			return err
		}
		all.Go(func() {
			defer r.Close()
			if err := r.Execute(t.Context(), nil); err != nil {
				t.Error(err)
			}
			merged[w], folders[w] = trajectory.ShardMerged{Events: r.end.Events, Head: r.end.Head, Shard: p.Delegation.Shard}, r.Dir
		})
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	return d.merge(t, rundir.NewShards(d.Plan, merged, counted), folders)
}

var latency = regexp.MustCompile(`"latency_ms":[0-9]+,`)

// resultsOf returns results.jsonl without latencies.
func resultsOf(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, rundir.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(latency.ReplaceAll(data, nil))
}

// sameWays executes a plan in one process, as one, two and three shards, and by two workers, and wants the same results.
// from returns what each starts from.
func sameWays(t *testing.T, from func(t *testing.T) setup) {
	t.Helper()
	c := from(t)
	whole := execute(t, t.TempDir(), c)
	want := resultsOf(t, whole.Dir)
	attempts := verified(t, whole.Dir).Summary().Attempts
	if len(want) == 0 || attempts == 0 {
		t.Fatal("the run has no results")
	}
	check := func(way string, d divided, found *rundir.Run) {
		t.Helper()
		if diff := cmp.Diff(want, resultsOf(t, filepath.Join(d.out, d.Plan.RunID))); diff != "" {
			t.Errorf("%s: the results differ:\n%s", way, diff)
		}
		s := found.Summary()
		if s.Shards == nil || s.Shards.Superseded.Attempts != 0 || s.Attempts != attempts {
			t.Errorf("%s: %+v with %d attempts, not %d", way, s.Shards, s.Attempts, attempts)
		}
		for i, task := range found.Tasks {
			if n := found.Shards.Counted[i]; n == 0 || task.Sealed.Shard != n {
				t.Errorf("%s: task %d is sealed with the lines of entry %d, and entry %d counts", way, i, task.Sealed.Shard, n)
			}
		}
	}
	for n := 1; n <= 3; n++ {
		d := divide(t, from(t), n)
		shards, folders := d.list(t, d.shards(t))
		check(fmt.Sprint(n, " shards"), d, d.merge(t, shards, folders))
	}
	d := divide(t, from(t), 1)
	check("2 workers", d, d.workers(t, 2))
}

// TestSameResults: a plan gives the same results in one process, as shards and by workers: by a deterministic endpoint
// with submit intent, by one cassette without it, with a vote, with a budget, and with an own agent.
func TestSameResults(t *testing.T) {
	tasks := endpoint.Tasks{Count: 9, Turns: 2}
	served := func(t *testing.T) setup { return generated(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, nil) }
	t.Run("endpoint", func(t *testing.T) { sameWays(t, served) })
	t.Run("budget", func(t *testing.T) {
		sameWays(t, func(t *testing.T) setup {
			c := served(t)
			c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = 200, 2_000_000
			return c
		})
	})
	t.Run("voting", func(t *testing.T) {
		sameWays(t, func(t *testing.T) setup {
			return opinions(t, 3, "GOLD|Mist|mist.", "Mist||GOLD|GOLD", "I do not know.|I do not know.|GOLD|Mist", "|||")
		})
	})
	t.Run("own agent", func(t *testing.T) {
		few := endpoint.Tasks{Count: 3, Turns: 1}
		sameWays(t, func(t *testing.T) setup { return own(t, few, serve(t, endpoint.Config{Tasks: few}).URL, askingAgent) })
	})
	t.Run("cassette", func(t *testing.T) {
		tape := t.TempDir()
		recorder, err := llm.NewRecorder(tape, nil)
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, endpoint.Config{Tasks: tasks}).URL
		first := generated(t, tasks, url, func(c *llm.Config) { c.Transport = recorder })
		first.plan.Cassette, first.plan.SubmitIntent = plan.CassetteRecord, false
		execute(t, t.TempDir(), first)
		sameWays(t, func(t *testing.T) setup {
			player, err := llm.NewPlayer(tape)
			if err != nil {
				t.Fatal(err)
			}
			c := generated(t, tasks, url, func(c *llm.Config) { c.Transport = player })
			c.plan.Cassette, c.plan.SubmitIntent = plan.CassetteReplay, false
			return c
		})
	})
}

// few is a plan of n shards for a few tasks that one request each solves.
func few(t *testing.T, count, n int) divided {
	tasks := endpoint.Tasks{Count: count, Turns: 1}
	return divide(t, generated(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, nil), n)
}

// TestShardHoldsNoGold: no file of a shard has a gold answer or a salt, and its environment needs no key of the plan.
func TestShardHoldsNoGold(t *testing.T) {
	const gold = "UNIQUE-GOLD-7c1f"
	d := few(t, 4, 2)
	p, e := d.part(t, 2, 2)
	r, err := CreateShard(d.dir(p), d.Signed, p, e)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for id := range r.secrets.gold {
		r.secrets.gold[id] = gold
	}
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	never := []string{gold, d.salts.Salt, d.salts.Secret}
	for _, task := range d.Plan.Tasks {
		salt, err := plan.TaskSalt(d.salts.Secret, task.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		never = append(never, salt)
	}
	var names []string
	err = filepath.WalkDir(r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		names = append(names, entry.Name())
		data, err := os.ReadFile(path)
		if slices.ContainsFunc(never, func(s string) bool { return bytes.Contains(data, []byte(s)) }) {
			t.Errorf("%s holds gold or a salt", path)
		}
		return err
	})
	want := []string{trajectory.CheckpointFile, plan.ConstitutionFile, plan.DelegationFile, trajectory.JournalFile, "lock", plan.EnvelopeFile, plan.ManifestFile, rundir.TrajectoriesFile}
	if slices.Sort(names); err != nil || !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q, %v", names, want, err)
	}
	if found := verified(t, r.Dir); !found.ShardDone || found.Complete || len(found.Tasks) != 2 {
		t.Errorf("done %v, complete %v, %d tasks", found.ShardDone, found.Complete, len(found.Tasks))
	}
	if _, err := ResumeShard(r.Dir, d.Signed, p, e); !errors.Is(err, runfiles.ErrBusy) {
		t.Errorf("while it is open: %v", err)
	}
	if r.Close(); r.Close() != nil {
		t.Log("closed twice")
	}
	if _, err := ResumeShard(r.Dir, d.Signed, p, e); !errors.Is(err, ErrComplete) {
		t.Errorf("a shard that is done: %v", err)
	}
	if _, err := CreateShard(r.Dir, d.Signed, p, e); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is there: %v", err)
	}
}

// TestShardRefused: a shard begins only with what was signed, and leaves nothing where it does not begin.
func TestShardRefused(t *testing.T) {
	d := few(t, 4, 2)
	paid := few(t, 4, 2)
	paid.plan.Model.MaxTokens, paid.plan.Budgets.RunCostMicroUSD = 200, 1_000_000
	paid = divide(t, paid.setup, 2)
	for name, c := range map[string]struct {
		change func(s *Signed, p *Part, e *Env)
		want   string
	}{
		"another version":    {func(_ *Signed, _ *Part, e *Env) { e.Harness.Version = "older" }, "it was made by gaia test of commit 0123456789012345678901234567890123456789, and this is gaia older of commit"},
		"another commit":     {func(_ *Signed, _ *Part, e *Env) { e.Harness.Commit = "f00" }, "and this is gaia test of commit f00"},
		"no known version":   {func(_ *Signed, _ *Part, e *Env) { e.Harness.Version, e.Harness.Commit = trajectory.Devel, "" }, "and this is gaia devel, executable sha256:"},
		"another model":      {func(s *Signed, _ *Part, _ *Env) { s.Plan.Model.Name = "another" }, `model was`},
		"other tasks":        {func(_ *Signed, _ *Part, e *Env) { e.Set.Tasks = e.Set.Tasks[1:] }, "tasks"},
		"without gold":       {func(_ *Signed, _ *Part, e *Env) { e.Gold = loader.Gold{} }, "gold_commitment differs"},
		"another key":        {func(_ *Signed, p *Part, e *Env) { p.Key = d.env.Key }, "its key is not the one given"},
		"a shard of another": {func(s *Signed, _ *Part, _ *Env) { *s = paid.Signed }, plan.DelegationFile},
		"a forged manifest": {func(s *Signed, _ *Part, _ *Env) {
			s.Manifest = bytes.Replace(s.Manifest, []byte(`"turns":20`), []byte(`"turns":21`), 1)
		}, plan.DelegationFile},
		"a forged envelope": {func(s *Signed, _ *Part, _ *Env) { s.Envelope = paid.Envelope }, plan.EnvelopeFile},
		"a shard as worker": {func(_ *Signed, p *Part, _ *Env) {
			p.Next = func(context.Context) (int, bool, error) { return 0, false, nil }
		}, "one by one"},
	} {
		t.Run(name, func(t *testing.T) {
			p, e := d.part(t, 1, 2)
			s := d.Signed
			c.change(&s, &p, &e)
			if _, err := CreateShard(d.dir(p), s, p, e); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
	p, e := paid.part(t, 1, 0)
	p.Next = func(context.Context) (int, bool, error) { return 0, false, nil }
	if _, err := CreateShard(d.dir(p), paid.Signed, p, e); err == nil || !strings.Contains(err.Error(), "nothing keeps") {
		t.Errorf("a worker without a budget: %v", err)
	}
	whole := few(t, 4, 0)
	p, e = whole.part(t, 1, 0)
	p.Next = func(context.Context) (int, bool, error) { return 0, false, nil }
	if _, err := CreateShard(d.dir(p), whole.Signed, p, e); !errors.Is(err, errNotDivided) {
		t.Errorf("a plan for one process: %v", err)
	}
	if left, err := os.ReadDir(d.out); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// cut makes a folder what a kill would have left when the journal had some whole lines and a half one.
func cut(t *testing.T, from, to string, lines int) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(from, trajectory.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(journal, []byte("\n"))
	kept := append(bytes.Join(all[:lines], nil), all[lines][:len(all[lines])/2]...)
	for name, data := range map[string][]byte{trajectory.JournalFile: kept, rundir.TrajectoriesFile: nil, rundir.MarkerFile: []byte(rundir.MarkerOpen + "\n")} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{trajectory.CheckpointFile, rundir.ResultsFile, rundir.SummaryFile, "lock"} {
		if err := os.Remove(filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// linesOf counts the lines of the journal in a folder.
func linesOf(t *testing.T, dir string) int {
	t.Helper()
	journal, err := os.ReadFile(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(journal, []byte("\n"))
}

// TestShardKilled: a shard and a worker that were killed after any line of their journal, within the next one, go on to
// the same answers; no committed answer is replaced, and each committed task is said to be.
func TestShardKilled(t *testing.T) {
	for _, of := range []int{2, 0} {
		d := few(t, 4, 2)
		p, e := d.part(t, 1, of)
		e.Concurrency = 2
		said := map[int]string{}
		var mu sync.Mutex
		p.Committed = func(_ context.Context, task int, digest string) error {
			mu.Lock()
			defer mu.Unlock()
			said[task] = digest
			return nil
		}
		if of == 0 {
			given := 0
			p.Next = func(context.Context) (int, bool, error) {
				given++
				return (given - 1) % 4, given <= 2*4, nil // each twice
			}
		}
		give := p.Next
		whole := d.solve(t, p, e)
		want := map[int]string{}
		for _, task := range verified(t, whole).Tasks {
			want[task.Index] = task.Attempts[0].Answer.Answer
		}
		if of == 0 && len(want) != 4 || of != 0 && len(want) != 2 {
			t.Fatalf("%d tasks were solved", len(want))
		}
		if len(said) != len(want) {
			t.Errorf("%d tasks of %d are said to be committed", len(said), len(want))
		}
		for n := 1; n < linesOf(t, whole); n++ {
			dir := filepath.Join(d.out, fmt.Sprint(of, ".", n))
			cut(t, whole, dir, n)
			before := verified(t, dir)
			if p.Next = nil; of == 0 {
				given := 0
				p.Next = func(context.Context) (int, bool, error) { given++; return given - 1, given <= 4, nil }
			}
			clear(said)
			r, err := ResumeShard(dir, d.Signed, p, e)
			if err != nil {
				t.Fatalf("after line %d: %v", n, err)
			}
			err = r.Execute(t.Context(), nil)
			if r.Close(); err != nil {
				t.Fatalf("after line %d: %v", n, err)
			}
			found := verified(t, dir)
			if !found.ShardDone || len(found.Tasks) != len(want) || len(said) != len(want) || !found.Interruptions[0].Torn {
				t.Errorf("after line %d: done %v, %d tasks, %d said, interruptions %+v", n, found.ShardDone, len(found.Tasks), len(said), found.Interruptions)
			}
			for _, task := range found.Tasks {
				if a := task.Counted(); a == nil || a.Answer == nil || a.Answer.Answer != want[task.Index] || said[task.Index] != task.Committed.Digest {
					t.Errorf("after line %d: task %d has another answer, or is said with another digest", n, task.Index)
				}
			}
			for _, task := range before.Tasks {
				if now := found.Task(task.Plan.TaskID); task.Committed != nil && *now.Committed != *task.Committed {
					t.Errorf("after line %d: task %d was committed, and is so again", n, task.Index)
				}
			}
		}
		p.Next = give
	}
}

// TestMergedKilled: a merged run that was killed after any line of the journal that it writes is resumed, and judges no answer twice;
// one that was killed while it was made is made again.
func TestMergedKilled(t *testing.T) {
	d := few(t, 4, 2)
	folders := d.shards(t)
	shards, folders := d.list(t, folders)
	hidden := filepath.Join(d.out, ".new-"+d.Plan.RunID)
	if err := os.MkdirAll(hidden, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hidden, trajectory.JournalFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	release, err := runfiles.Hold(hidden)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateMerged(d.out, d.merged(t, shards, folders), d.env); !errors.Is(err, runfiles.ErrBusy) {
		t.Errorf("while another process makes it: %v", err)
	}
	release()
	d.merge(t, shards, folders)
	place := filepath.Join(d.out, d.Plan.RunID)
	want := resultsOf(t, place)
	if _, err := CreateMerged(d.out, d.merged(t, shards, folders), d.env); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a run that is there: %v", err)
	}
	for i, shard := range shards.Shards { // whole copies that no one else writes
		for _, name := range []string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile} {
			from, a := os.Stat(filepath.Join(folders[i], name))
			to, b := os.Stat(filepath.Join(place, shard.Dir(), name))
			if a != nil || b != nil || from.Size() != to.Size() || os.SameFile(from, to) {
				t.Errorf("%s of %s: %v, %v", name, shard.Dir(), a, b)
			}
		}
	}
	first := 1 + len(shards.Shards) // events that are durable before the run is in its place
	for n := first; n < linesOf(t, place); n++ {
		dir := filepath.Join(d.out, fmt.Sprint(n))
		cut(t, place, dir, n)
		finish(t, dir, d.setup)
		if found := verified(t, dir); !found.Complete || resultsOf(t, dir) != want {
			t.Errorf("after line %d: complete %v, or other results", n, found.Complete)
		}
	}
}

// TestMergedRefused: what a shard does not hold as it was signed is found in the copies, and nothing is left of the run.
func TestMergedRefused(t *testing.T) {
	d := few(t, 4, 2)
	folders := d.shards(t)
	shards, folders := d.list(t, folders)
	journal := filepath.Join(folders[1], trajectory.JournalFile)
	whole, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, bytes.Replace(whole, []byte(`"outcome":"answered"`), []byte(`"outcome":"no_answer"`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := CreateMerged(d.out, d.merged(t, shards, folders), d.env); !errors.As(err, &fault) || fault.File != "shards/2/events.jsonl" {
		t.Errorf("a changed journal: %v", err)
	}
	if err := os.WriteFile(journal, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	p, _ := d.part(t, 2, 2)
	again, told := t.TempDir(), runs.Told{After: time.Hour}
	for range d.Plan.Tasks {
		told.Questions = append(told.Questions, "What is the name of the ferry?")
	}
	if err := runs.WriteShard(again, d.merged(t, shards, folders).Signed.Plan, d.Manifest, d.Envelope, p.Delegation, p.Envelope, p.Key, told); err != nil {
		t.Fatal(err)
	}
	twice, three := d.list(t, append(slices.Clone(folders), again))
	if _, err := CreateMerged(d.out, d.merged(t, twice, three), d.env); !errors.As(err, &fault) || !strings.Contains(fault.Reason, "asks another question than planned") {
		t.Errorf("another question in a journal that does not count: %v", err)
	}
	other, err := grading.NewSalts(rand.Reader, true)
	if err != nil {
		t.Fatal(err)
	}
	var plan *PlanError
	with := d.merged(t, shards, folders)
	with.Salts = other
	if _, err := CreateMerged(d.out, with, d.env); !errors.As(err, &plan) {
		t.Errorf("other salts: %v", err)
	}
	if _, err := CreateMerged(d.out, d.merged(t, shards, folders[:1]), d.env); err == nil {
		t.Error("a folder is missing")
	}
	for _, name := range []string{d.Plan.RunID, ".new-" + d.Plan.RunID} {
		if _, err := os.Lstat(filepath.Join(d.out, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left over: %s, %v", name, err)
		}
	}
	d.merge(t, shards, folders)
}

// TestWorkerStops: a worker that drains finishes what it began and closes its journal; one whose claim fails, or whose
// money cannot be asked about, stops, and commits nothing that was left out since no one answered.
func TestWorkerStops(t *testing.T) {
	worker := func(t *testing.T, budget int64, change func(*Part)) (*Run, error) {
		tasks := endpoint.Tasks{Count: 6, Turns: 1}
		c := generated(t, tasks, serve(t, endpoint.Config{Tasks: tasks}).URL, nil)
		c.plan.Model.MaxTokens, c.plan.Budgets.RunCostMicroUSD = 200, budget
		d := divide(t, c, 1)
		p, e := d.part(t, 3, 0)
		given := 0
		p.Next = func(context.Context) (int, bool, error) { given++; return given - 1, given <= 6, nil }
		drain := make(chan struct{})
		change(&p)
		if old := p.Committed; old == nil {
			p.Committed = func(_ context.Context, task int, _ string) error {
				if task == 1 {
					close(drain)
				}
				return nil
			}
			next := p.Next
			p.Next = func(ctx context.Context) (int, bool, error) {
				if given < 3 {
					return next(ctx)
				}
				<-ctx.Done() // no more tasks for now
				return 0, false, ctx.Err()
			}
		}
		r, err := CreateShard(d.dir(p), d.Signed, p, e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r, r.Execute(t.Context(), drain)
	}
	r, err := worker(t, 0, func(*Part) {})
	if found := verified(t, r.Dir); err != nil || !found.ShardDone || len(found.Tasks) < 2 || len(found.Tasks) > 3 || !found.AllCommitted() {
		t.Errorf("drained: %v, done %v, %d tasks", err, found.ShardDone, len(found.Tasks))
	}
	refused := errors.New("the claim fails")
	r, err = worker(t, 0, func(p *Part) {
		p.Committed = func(context.Context, int, string) error { return refused }
	})
	if found := verified(t, r.Dir); !errors.Is(err, refused) || found.ShardDone {
		t.Errorf("a claim that fails: %v, done %v", err, found.ShardDone)
	}
	gone := errors.New("the server is gone")
	r, err = worker(t, 1_000_000, func(p *Part) {
		p.Committed = func(context.Context, int, string) error { return nil }
		p.Money = func(_ context.Context, spent, reserved int64) (ok, later bool, err error) {
			if spent > 0 {
				return false, false, gone
			}
			return true, false, nil
		}
	})
	found := verified(t, r.Dir)
	if !errors.Is(err, gone) || found.ShardDone {
		t.Errorf("money that cannot be asked about: %v, done %v", err, found.ShardDone)
	}
	for _, task := range found.Tasks {
		if task.Committed != nil && len(task.Attempts) == 0 {
			t.Errorf("task %d is left out", task.Index)
		}
	}
}
