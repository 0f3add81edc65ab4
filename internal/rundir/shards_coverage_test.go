package rundir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
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

// ofShards are the files of each shard of a merged run.
var ofShards = []string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile}

// refusedMerged is refused for a merged run, whose list and whose shards' files must agree, too.
func refusedMerged(t *testing.T, m runs.Mutation) {
	t.Helper()
	run, err := rundir.Verify(m.FS(), rundir.Options{})
	blamed := dependents(m.Files)
	for _, name := range m.Files {
		if dir := path.Dir(name); dir != "." {
			for _, of := range ofShards {
				blamed = append(blamed, path.Join(dir, of))
			}
		}
		if name == rundir.ShardsFile || path.Dir(name) != "." {
			blamed = append(blamed, rundir.ShardsFile, trajectory.JournalFile, rundir.TrajectoriesFile)
		}
		if name == rundir.ShardsFile {
			blamed = append(blamed, plan.ManifestFile)
		}
	}
	var fault *trajectory.Fault
	switch {
	case err == nil:
		t.Errorf("%s: accepted (complete: %v)", m.Name, run.Complete)
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", m.Name, err)
	case fault.Reason == "" || !slices.Contains(blamed, fault.File) && !listed(m.Files, fault.File):
		t.Errorf("%s: %v", m.Name, err)
	}
}

// listed reports whether a list was changed, and a file of a shard is blamed that it names.
func listed(changed []string, file string) bool {
	return slices.Contains(changed, rundir.ShardsFile) && strings.HasPrefix(file, rundir.ShardsDir+"/")
}

// TestCoverageOfShards is TestCoverage for a merged run.
func TestCoverageOfShards(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	c := fourTasks(t)
	again, err := runs.Parse("Told again.\n\n" + c.Text)
	if err != nil {
		t.Fatal(err)
	}
	run, other := merged(t, c, 2, twice()...).Files, merged(t, again, 2, twice()...).Files
	verifies(t, run)
	made := map[string]int{}
	pick := func(file, _ string) bool {
		made[file]++
		return long.Walk(made[file], thin)
	}
	if err := runs.Mutate(run, pick, func(m runs.Mutation) { refusedMerged(t, m) }); err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{rundir.ShardsFile: 60, trajectory.JournalFile: 300, "shards/1/delegation.dsse.json": 30, "shards/2/events.jsonl": 400,
		"shards/2.2/events.jsonl": 400, "shards/2.2/delegation.dsse.json": 30, "shards/2.2/checkpoint": 15} {
		if made[name] < least {
			t.Errorf("%s was changed %d times, which is less than %d", name, made[name], least)
		}
	}
	t.Logf("changes: %v", made)
	folder := merged(t, c, 2).Shards[1]
	if err := runs.Mutate(folder, func(file, what string) bool {
		return slices.Contains(append(ofShards, rundir.TrajectoriesFile), file) && pick("folder/"+file, what)
	}, func(m runs.Mutation) { refusedMerged(t, m) }); err != nil {
		t.Fatal(err)
	}
	whole := 0
	runs.Misplace(run, other, func(m runs.Mutation) {
		if own := m.Files[0] == rundir.ShardsFile || path.Dir(m.Files[0]) != "."; !own && whole > 0 && whole%long.Step(thin) != 0 {
			whole++
			return
		}
		whole++
		refusedMerged(t, m)
	})
	if whole < 150 {
		t.Errorf("only %d changes to whole files", whole)
	}
}

// FuzzShards: a list that is read is written in the one way, and leads nowhere but to files of the run.
func FuzzShards(f *testing.F) {
	c := fourTasks(f)
	files := merged(f, c, 2, twice()...).Files
	m, err := plan.Decode(files[plan.ManifestFile])
	if err != nil {
		f.Fatal(err)
	}
	dynamic := m
	dynamic.Shards = 1
	f.Add(files[rundir.ShardsFile])
	f.Add(merged(f, c, 2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true}).Files[rundir.ShardsFile])
	f.Add(merged(f, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2}}, runs.Part{Index: 2, Tasks: []int{3, 1}}).Files[rundir.ShardsFile])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []plan.Plan{m, dynamic} {
			s, err := rundir.ReadShards(runs.Mutation{Dir: map[string][]byte{rundir.ShardsFile: data}}.FS(), m)
			if err != nil {
				continue
			}
			again, err := s.Encode()
			if err != nil || string(again) != string(data) {
				t.Fatalf("%q is written as %q (%v)", data, again, err)
			}
			fold := rundir.NewFold(m, "", nil)
			fold.Merge(s)
			for _, name := range fold.Journals() {
				if !fs.ValidPath(name) || name != trajectory.JournalFile && !strings.HasPrefix(name, "shards/") {
					t.Fatalf("%q leads to %q", data, name)
				}
			}
			if sum := fold.ShardsSummary(); sum.Lost < 0 || sum.Lost > len(m.Tasks)*plan.MaxShards || sum.Journals > len(s.Shards) {
				t.Fatalf("%+v", sum)
			}
		}
	})
}

// FuzzDelegation: without the key of the plan no one makes a delegation.
func FuzzDelegation(f *testing.F) {
	files := merged(f, fourTasks(f), 2).Files
	m, err := plan.Decode(files[plan.ManifestFile])
	if err != nil {
		f.Fatal(err)
	}
	digest, known := canonical.Digest(files[plan.ManifestFile]), map[string]bool{}
	for _, folder := range []string{"1", "2"} {
		data := files[path.Join(rundir.ShardsDir, folder, plan.DelegationFile)]
		known[string(data)] = true
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, key, err := m.ReadDelegation(data, digest, runs.Key().Public())
		if err == nil && (!known[string(data)] || key.Line() != d.Shard.Key) {
			t.Fatalf("accepted %q", data)
		}
	})
}

// BenchmarkVerifyMerged verifies a run of 200 tasks that was made at once, and the same in 8 shards.
func BenchmarkVerifyMerged(b *testing.B) {
	var text strings.Builder
	text.WriteString("Many tasks.\n\n")
	for i := range 200 {
		fmt.Fprintf(&text, "-- task fab1e8%02d-0000-4000-8000-%012d --\nquestion: How many boats lie at pier %d of Tolmey?\ngold: %d\nlevel: 1\n\n", i%100, i, i, i)
		for range 10 {
			fmt.Fprintf(&text, "-- call calculate {\"expression\":\"%d+1\"} --\n%d\n\n", i, i+1)
		}
		fmt.Fprintf(&text, "-- answer %d --\nAs counted.\n\n", i)
	}
	c, err := runs.Parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	whole, err := c.Files()
	if err != nil {
		b.Fatal(err)
	}
	for name, files := range map[string]map[string][]byte{"at once": whole, "in 8 shards": merged(b, c, 8).Files} {
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "run")
			if err := runs.WriteFiles(dir, maps.Clone(files)); err != nil {
				b.Fatal(err)
			}
			size := 0
			for name, data := range files {
				if path.Base(name) == trajectory.JournalFile {
					size += len(data)
				}
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				if run, err := rundir.Verify(os.DirFS(dir), rundir.Options{}); err != nil || !run.Complete {
					b.Fatal(err)
				}
			}
		})
	}
}
