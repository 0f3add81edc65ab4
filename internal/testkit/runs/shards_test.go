package runs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
)

// TestMerged: runs in shards and by workers verify, as do the folders of which they were made, and have the results of
// the run that was made at once.
func TestMerged(t *testing.T) {
	varied, _ := Varied()
	for name, c := range map[string]Case{"varied": varied, "honest 1": Honest(1), "honest 5": Honest(5), "honest 7": Honest(7)} {
		whole, err := c.Files()
		if err != nil {
			t.Fatal(err)
		}
		n := len(c.tasks)
		for made, m := range map[string]func() (Merged, error){
			"one shard":      func() (Merged, error) { return c.Merged(1) },
			"a shard a task": func() (Merged, error) { return c.Merged(n) },
			"a shard twice":  func() (Merged, error) { return c.Merged(2, Part{Index: 2}, Part{Index: 1}, Part{Index: 2}) },
			"two workers": func() (Merged, error) {
				return c.Merged(0, Part{Index: 1, Tasks: []int{0, 1}, Begun: []int{2}}, worker(2, 1, n))
			},
			"a worker unclaimed": func() (Merged, error) { return c.Merged(0, worker(1, 0, n), Part{Index: 3, Tasks: []int{1}}) },
		} {
			m, err := m()
			if err != nil {
				t.Errorf("%s in %s: %v", name, made, err)
				continue
			}
			dir := filepath.Join(t.TempDir(), "run")
			if err := WriteFiles(dir, m.Files); err != nil {
				t.Fatal(err)
			}
			run, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
			if err != nil || !run.Complete {
				t.Errorf("%s in %s: %v, %+v", name, made, err, run)
				continue
			}
			if string(m.Files[rundir.ResultsFile]) != string(whole[rundir.ResultsFile]) {
				t.Errorf("%s in %s: the results are not those of the run that was made at once:\n%s\n%s", name, made, m.Files[rundir.ResultsFile], whole[rundir.ResultsFile])
			}
			for i, files := range m.Shards {
				dir := filepath.Join(t.TempDir(), "shard")
				if err := WriteFiles(dir, files); err != nil {
					t.Fatal(err)
				}
				if run, err := rundir.Verify(os.DirFS(dir), rundir.Options{}); err != nil || !run.ShardDone || run.Complete {
					t.Errorf("%s in %s, part %d: %v, %+v", name, made, i+1, err, run)
				}
			}
		}
	}
}

// worker has the tasks from a place up to another.
func worker(index, from, to int) Part {
	p := Part{Index: index}
	for i := from; i < to; i++ {
		p.Tasks = append(p.Tasks, i)
	}
	return p
}
