package rundir_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// bundleOf discloses a task of files that verify.
func bundleOf(t *testing.T, files map[string][]byte, task string) []byte {
	t.Helper()
	data, err := verifies(t, files).Disclose(runs.Mutation{Dir: files}.FS(), task, runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contentsOf returns what a bundle says.
func contentsOf(t *testing.T, data []byte) trajectory.Contents {
	t.Helper()
	b, err := trajectory.DecodeBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	return b.Contents
}

// TestDiscloseMerged: each task of a merged run is disclosed with the lines that count, and its bundle verifies.
func TestDiscloseMerged(t *testing.T) {
	long.NotRaced(t)
	c := fourTasks(t)
	for name, files := range map[string]map[string][]byte{
		"shards":       merged(t, c, 2, twice()...).Files,
		"a lost shard": merged(t, c, 2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true}).Files,
		"workers":      merged(t, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2}, Begun: []int{1}}, runs.Part{Index: 2, Tasks: []int{3, 2, 1}}).Files,
	} {
		run := verifies(t, files)
		for i, task := range run.Tasks {
			data := bundleOf(t, files, task.Plan.TaskID)
			d, err := rundir.VerifyBundle(data)
			if err != nil {
				t.Errorf("%s, task %d: %v", name, i+1, err)
				continue
			}
			entry := run.Shards.Counted[i]
			if got := d.Task; got.Sealed.Shard != entry || len(got.Attempts) != len(task.Attempts) || (got.Committed != nil) != (entry > 0) || d.ShardsSummary() != nil {
				t.Errorf("%s, task %d: %+v", name, i+1, got)
			}
			var want []string
			journals := []string{trajectory.JournalFile}
			if entry > 0 {
				journals = []string{run.Shards.Shards[entry-1].Journal(), trajectory.JournalFile}
			}
			for _, journal := range journals {
				for line := range strings.Lines(string(files[journal])) {
					if strings.Contains(line, `"task_id":"`+task.Plan.TaskID+`"`) {
						want = append(want, strings.TrimSuffix(line, "\n"))
					}
				}
			}
			if !slices.Equal(d.Bundle.Events, want) {
				t.Errorf("%s, task %d: %d lines, not %d", name, i+1, len(d.Bundle.Events), len(want))
			}
		}
	}
}

// TestDiscloseMergedRefuses: a merged run as a whole, and a shard, have no bundle.
func TestDiscloseMergedRefuses(t *testing.T) {
	m := merged(t, fourTasks(t), 2)
	dir := runs.Mutation{Dir: m.Files}.FS()
	run := verifies(t, m.Files)
	if _, err := run.Disclose(dir, "", runs.Key()); !errors.Is(err, rundir.ErrMerged) {
		t.Errorf("a merged run: %v", err)
	}
	shard, err := rundir.Verify(runs.Mutation{Dir: m.Shards[0]}.FS(), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shard.Disclose(runs.Mutation{Dir: m.Shards[0]}.FS(), shard.Tasks[0].Plan.TaskID, runs.Key()); !errors.Is(err, rundir.ErrIncomplete) {
		t.Errorf("a shard: %v", err)
	}
	changed := maps.Clone(m.Files)
	changed["shards/1/events.jsonl"] = m.Files["shards/2/events.jsonl"]
	var fault *trajectory.Fault
	if _, err := run.Disclose(runs.Mutation{Dir: changed}.FS(), run.Tasks[0].Plan.TaskID, runs.Key()); !errors.As(err, &fault) || fault.File != "shards/1/events.jsonl" {
		t.Errorf("a journal that changed: %v", err)
	}
}

// TestForgedMergedBundle: who holds the key of the run can sign a bundle of other lines, but not one that verifies.
func TestForgedMergedBundle(t *testing.T) {
	long.NotRaced(t)
	c := fourTasks(t)
	files := merged(t, c, 2, twice()...).Files
	run := verifies(t, files)
	task := run.Tasks[1].Plan.TaskID
	good := bundleOf(t, files, task)
	ofShard := slices.IndexFunc(contentsOf(t, good).Events, func(line string) bool { return strings.Contains(line, `"type":"task_committed"`) }) + 1
	var superseded []string
	for line := range strings.Lines(string(files["shards/2.2/events.jsonl"])) {
		if strings.Contains(line, `"task_id":"`+task+`"`) {
			superseded = append(superseded, strings.TrimSuffix(line, "\n"))
		}
	}
	for name, one := range map[string]struct {
		change func(c *trajectory.Contents)
		file   string
	}{
		"the superseded lines":    {func(c *trajectory.Contents) { c.Events = append(superseded, c.Events[ofShard:]...) }, "leaf"},
		"the run's lines alone":   {func(c *trajectory.Contents) { c.Events = c.Events[ofShard:] }, trajectory.EventsMember},
		"the shard's lines alone": {func(c *trajectory.Contents) { c.Events = c.Events[:ofShard] }, trajectory.EventsMember},
		"no task_committed":       {func(c *trajectory.Contents) { c.Events = slices.Delete(slices.Clone(c.Events), ofShard-1, ofShard) }, trajectory.EventsMember},
		"task_committed twice": {func(c *trajectory.Contents) {
			c.Events = slices.Insert(slices.Clone(c.Events), ofShard, c.Events[ofShard-1])
		}, trajectory.EventsMember},
		"both journals": {func(c *trajectory.Contents) {
			c.Events = slices.Concat(c.Events[:ofShard], superseded, c.Events[ofShard:])
		}, trajectory.EventsMember},
		"a judgment before": {func(c *trajectory.Contents) {
			c.Events = slices.Insert(slices.Clone(c.Events), ofShard-1, c.Events[ofShard])
		}, trajectory.EventsMember},
		"a line left out": {func(c *trajectory.Contents) { c.Events = slices.Delete(slices.Clone(c.Events), 1, 2) }, trajectory.EventsMember},
		"the seal alone":  {func(c *trajectory.Contents) { c.Events = c.Events[len(c.Events)-1:] }, trajectory.EventsMember},
		"the leaf of another task": {func(c *trajectory.Contents) {
			*c.Leaf = *contentsOf(t, bundleOf(t, files, run.Tasks[0].Plan.TaskID)).Leaf
		}, "leaf"},
		"a bundle of the whole run": {func(c *trajectory.Contents) {
			whole := trajectory.NewContents(run.Manifest.RunID, "")
			whole.Rehearsal, whole.Manifest, whole.ManifestEnvelope, whole.Checkpoint = c.Rehearsal, c.Manifest, c.ManifestEnvelope, c.Checkpoint
			whole.Events = strings.Split(strings.TrimSuffix(string(files[trajectory.JournalFile]), "\n"), "\n")
			*c = whole
		}, "manifest"},
	} {
		c := contentsOf(t, good)
		one.change(&c)
		data, err := c.Seal(runs.Key())
		if err != nil {
			t.Fatal(err)
		}
		var fault *trajectory.Fault
		if _, err := rundir.VerifyBundle(data); !errors.As(err, &fault) || fault.File != one.file {
			t.Errorf("%s: %v; want %s", name, err, one.file)
		}
	}
}

// TestCommittedOutsideOfShards: task_committed in a bundle of a run without shards is refused.
func TestCommittedOutsideOfShards(t *testing.T) {
	files := evidence(t, fourTasks(t))
	contents := contentsOf(t, bundleOf(t, files, verifies(t, files).Tasks[0].Plan.TaskID))
	at := len(contents.Events) - 1
	lines, err := runs.Lines([]byte(contents.Events[at] + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines[0]["type"], lines[0]["payload"] = "task_committed", map[string]any{"attempts": 1, "digest": canonical.Digest([]byte(strings.Join(contents.Events[:at], "\n") + "\n"))}
	forged, err := runs.Chain([]byte(contents.Events[at-1]+"\n"), lines)
	if err != nil {
		t.Fatal(err)
	}
	contents.Events[at] = strings.TrimSuffix(string(forged), "\n")
	data, err := contents.Seal(runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := rundir.VerifyBundle(data); !errors.As(err, &fault) || !strings.Contains(fault.Reason, "not a shard's") {
		t.Error(err)
	}
}

// TestShardEquivocation: a key of a shard signed two histories where a merged run does not list one of them.
func TestShardEquivocation(t *testing.T) {
	long.NotRaced(t)
	c := fourTasks(t)
	again, err := runs.Parse("Told again.\n\n" + c.Text)
	if err != nil {
		t.Fatal(err)
	}
	once, both, other := merged(t, c, 2), merged(t, c, 2, twice()...), merged(t, again, 2)
	dynamic := merged(t, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2}}, runs.Part{Index: 2, Tasks: []int{3, 1}})
	longer := merged(t, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2, 1}}, runs.Part{Index: 2, Tasks: []int{3, 1}})
	open := maps.Clone(both.Shards[2])
	delete(open, trajectory.CheckpointFile)
	at := map[string]map[string][]byte{"once": once.Files, "both": both.Files, "other": other.Files, "dynamic": dynamic.Files, "longer": longer.Files, "its 1": once.Shards[0], "its 2": once.Shards[1],
		"the second 2": both.Shards[2], "open": open, "another 2": other.Shards[1], "worker 1": dynamic.Shards[0], "worker 1 on": longer.Shards[0]}
	signed := map[string]rundir.Signed{}
	for name, files := range at {
		run, err := rundir.Verify(runs.Mutation{Dir: files}.FS(), rundir.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signed[name] = run.Signed()
	}
	headAt := func(path, journal string, events int64) (string, error) {
		return rundir.HeadAt(runs.Mutation{Dir: at[path]}.FS(), journal, events)
	}
	second := runs.ShardKey(2).Public().ID()
	for _, one := range []struct{ a, b, key string }{
		{"once", "its 1", ""}, {"once", "its 2", ""}, {"both", "its 2", ""}, {"both", "the second 2", ""}, {"once", "open", ""},
		{"its 2", "the second 2", ""}, {"its 1", "its 2", ""}, {"other", "its 2", ""},
		{"once", "the second 2", second},
		{"dynamic", "worker 1", ""}, {"dynamic", "worker 1 on", ""}, {"longer", "worker 1", ""}, {"longer", "worker 1 on", ""},
		{"once", "both", runs.Key().Public().ID()},
	} {
		for _, paths := range [][2]string{{one.a, one.b}, {one.b, one.a}} {
			found, err := rundir.Equivocates(signed[paths[0]], signed[paths[1]], paths, headAt)
			switch {
			case err != nil:
				t.Errorf("%v: %v", paths, err)
			case one.key == "" && found != nil, one.key != "" && (found == nil || found.KeyID != one.key || found.Kind != "journal" || !slices.Contains(found.Paths[:], one.a)):
				t.Errorf("%v: %+v", paths, found)
			}
		}
	}
}

// mergedShell writes the shell lines of docs/verifying.md about merged runs to a file.
func mergedShell(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"sh", "openssl", "jq", "sha256sum", "base64", "split", "awk", "paste", "xargs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here, so the shell lines of docs/verifying.md were not tried", program)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "verifying.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## A merged run\n")
	_, block, opened := strings.Cut(section, "\n```shell\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !ok || !opened || !closed {
		t.Fatal("docs/verifying.md has no shell lines about merged runs")
	}
	script := filepath.Join(t.TempDir(), "check.sh")
	if err := os.WriteFile(script, []byte(block+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestMergedShell runs the lines on merged runs, and on forged ones, which they refuse; outside of the thorough run, on a
// third of these.
func TestMergedShell(t *testing.T) {
	long.NotRaced(t)
	script := mergedShell(t)
	c := fourTasks(t)
	static := merged(t, c, 2, twice()...).Files
	try := func(name string, files map[string][]byte, key string, accepted bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			if err := runs.WriteFiles(dir, files); err != nil {
				t.Fatal(err)
			}
			keyFile := filepath.Join(t.TempDir(), "KEY.pub")
			if err := os.WriteFile(keyFile, []byte(key+" ada@harbour.example\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", script, keyFile)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if said := strings.HasSuffix(string(out), "accepted\n"); said != accepted || said != (err == nil) {
				t.Errorf("the lines say %q and end with %v", out, err)
			}
		})
	}
	key := runs.Key().Public().Line()
	try("shards", static, key, true)
	try("a lost shard", merged(t, c, 2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true}).Files, key, true)
	try("workers", merged(t, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2}, Begun: []int{1}}, runs.Part{Index: 2, Tasks: []int{3, 2, 1}}).Files, key, true)
	try("another key", static, runs.OtherKey().Public().Line(), false)
	replaced := func(name, old, with string) func(map[string][]byte) {
		return func(f map[string][]byte) { f[name] = bytes.Replace(f[name], []byte(old), []byte(with), 1) }
	}
	changes := []struct {
		name   string
		change func(f map[string][]byte)
	}{
		{"the plan's budget", replaced(plan.ManifestFile, `"turns":40`, `"turns":41`)},
		{"a delegation exchanged", func(f map[string][]byte) { f["shards/1/delegation.dsse.json"] = f["shards/2/delegation.dsse.json"] }},
		{"a superseded line", replaced("shards/2.2/events.jsonl", "As counted.", "As guessed.")},
		{"a line of a shard", replaced("shards/1/events.jsonl", "As counted.", "As guessed.")},
		{"the last line of a shard", func(f map[string][]byte) {
			b := f["shards/1/events.jsonl"]
			f["shards/1/events.jsonl"] = b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
		}},
		{"a checkpoint exchanged", func(f map[string][]byte) { f["shards/2/checkpoint"] = f["shards/2.2/checkpoint"] }},
		{"the second journal for the first", func(f map[string][]byte) {
			for _, name := range ofShards {
				f["shards/2/"+name] = f["shards/2.2/"+name]
			}
		}},
		{"what counts", replaced(rundir.ShardsFile, `"counted":[1,2,1,2]`, `"counted":[1,3,1,2]`)},
		{"a task counted nowhere", replaced(rundir.ShardsFile, `"counted":[1,2,1,2]`, `"counted":[0,2,1,2]`)},
		{"an entry left out", func(f map[string][]byte) {
			var s rundir.Shards
			if err := canonical.Decode(f[rundir.ShardsFile], &s); err != nil {
				t.Fatal(err)
			}
			s.Shards = s.Shards[:2]
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			f[rundir.ShardsFile] = data
		}},
		{"a line of the run", replaced(trajectory.JournalFile, `"outcome":"failed"`, `"outcome":"solved"`)},
		{"the root", func(f map[string][]byte) { f[trajectory.CheckpointFile] = f["shards/1/checkpoint"] }},
	}
	for i, one := range changes {
		files := maps.Clone(static)
		one.change(files)
		if same := maps.EqualFunc(files, static, bytes.Equal); same {
			t.Errorf("%s is as it was", one.name)
		} else if i%long.Step(3) == 0 {
			try(fmt.Sprint("changed: ", one.name), files, key, false)
		}
	}
}
