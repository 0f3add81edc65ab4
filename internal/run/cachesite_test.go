package run

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// The tasks of these runs are those that the judge is asked about with the
// fewest turns before: it finds for the first and against the others.
const (
	paidTask = "fab1e006-0000-4000-8000-000000000006"
	lostTask = "fab1e014-0000-4000-8000-000000000014"
	lateTask = "fab1e010-0000-4000-8000-000000000010"
)

// judged is a run of these tasks with a judge cache, and the server it asks.
func judged(t *testing.T, dir string) (setup, *fixtures.Server) {
	t.Helper()
	c := config(t, paidTask, lostTask, lateTask)
	server, err := fixtures.Serve(fixtures.KeepRequests())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	client := llm.New(llm.Config{BaseURL: server.ModelURL, Prices: c.env.Prices, MaxTries: 1, Now: c.env.Now})
	c.env.Model, c.env.Judge = client, &grading.Judge{Client: client, Name: c.env.Judge.Name, Origin: c.env.Judge.Origin}
	if c.env.Cache, err = judgecache.Open(dir, c.env.Key, []sign.PublicKey{keyOf(t, 98).Public()}, c.env.Now); err != nil {
		t.Fatal(err)
	}
	return c, server
}

func keyOf(t *testing.T, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// askedAbout counts the requests to the judge about the tasks of a run.
func askedAbout(server *fixtures.Server, c setup) int {
	n := 0
	for _, r := range server.Requests() {
		for _, task := range c.env.Set.Tasks {
			if bytes.Contains(r.Body, []byte(`"model":"`+c.env.Judge.Name+`"`)) && bytes.Contains(r.Body, []byte(task.Question)) {
				n++
			}
		}
	}
	return n
}

// verdicts is the cache that an earlier run left, and what that run came to.
type verdicts struct {
	dir        string
	cold       rundir.Summary
	key        sign.Key
	paid, lost judgecache.Context // of the first two tasks
}

func earlierRun(t *testing.T) verdicts {
	t.Helper()
	v := verdicts{dir: filepath.Join(t.TempDir(), "judgments")}
	c, server := judged(t, v.dir)
	found := verified(t, execute(t, t.TempDir(), c).Dir)
	v.cold, v.key = found.Summary(), c.env.Key
	if v.cold.Judge.Asked != 3 || v.cold.Judge.Cached != 0 || askedAbout(server, c) != 3 || v.cold.JudgeCacheIntegrityEvents != 0 {
		t.Fatalf("with a cold cache: %+v, %d requests", v.cold.Judge, askedAbout(server, c))
	}
	gold, plan := c.env.Gold.Map(), found.Manifest.Judge
	for _, task := range found.Tasks {
		ctx := judgecache.Context{TaskID: task.Plan.TaskID, Answer: task.Attempts[0].Answer.Answer, Expected: gold[task.Plan.TaskID],
			Model: plan.Model, Origin: plan.Origin, PromptDigest: plan.PromptSHA256, Battery: plan.Battery}
		switch j := task.Attempts[0].Judgment; {
		case task.Plan.TaskID == paidTask && *j.Judged:
			v.paid = ctx
		case task.Plan.TaskID == lostTask && !*j.Judged:
			v.lost = ctx
		}
	}
	if v.paid.TaskID == "" || v.lost.TaskID == "" {
		t.Fatal("the tasks are not judged as the table has it")
	}
	return v
}

// site is a copy of that cache, to be attacked.
type site struct {
	*testing.T
	verdicts
}

func (v verdicts) copied(t *testing.T) site {
	t.Helper()
	s := site{t, v}
	s.dir = filepath.Join(t.TempDir(), "judgments")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(v.dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s.write(f.Name(), data)
	}
	return s
}

func (s site) write(name string, data []byte) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s site) read(name string) []byte {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.Fatal(err)
	}
	return data
}

func (s site) remove(name string) {
	s.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.Fatal(err)
	}
}

// entryName is the name of the file that holds the verdict on what was asked.
func entryName(t *testing.T, ctx judgecache.Context) string {
	t.Helper()
	digest, err := ctx.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(digest, "sha256:") + ".json"
}

func (s site) target() string { return entryName(s.T, s.lost) }

// replace changes the text of the entry under attack.
func (s site) replace(old, new string) {
	s.Helper()
	data := s.read(s.target())
	if bytes.Count(data, []byte(old)) != 1 {
		s.Fatalf("%q is not once in %s", old, data)
	}
	s.write(s.target(), bytes.Replace(data, []byte(old), []byte(new), 1))
}

// made is the entry that a cache with another key would keep.
func (s site) made(key sign.Key, ctx judgecache.Context, correct bool) []byte {
	s.Helper()
	dir := s.TempDir()
	cache, err := judgecache.Open(dir, key, nil, func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) })
	if err == nil {
		err = cache.Put(ctx, correct)
	}
	if err != nil {
		s.Fatal(err)
	}
	return site{s.T, verdicts{dir: dir}}.read(entryName(s.T, ctx))
}

// anotherContext is the question under attack, put to another judge.
func (s site) anotherContext(origin, promptDigest string) judgecache.Context {
	ctx := s.lost
	if origin != "" {
		ctx.Origin = origin
	}
	if promptDigest != "" {
		ctx.PromptDigest = promptDigest
	}
	return ctx
}

// instead puts a verdict for another judge in the cache and takes the one of this
// judge out.
func (s site) instead(ctx judgecache.Context) {
	s.Helper()
	s.remove(s.target())
	s.write(entryName(s.T, ctx), s.made(s.key, ctx, true))
}

// checked are the checks of the judge cache that the journal has, without those
// that found nothing.
func checked(t *testing.T, dir string) (all []trajectory.SecurityEvent, s rundir.Summary) {
	t.Helper()
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{Event: func(e trajectory.Event) error {
		if p, ok := e.Payload.(trajectory.SecurityEvent); ok && p.Bad > 0 {
			all = append(all, p)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return all, found.Summary()
}
