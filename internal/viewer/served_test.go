package viewer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/runlist"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestServed: the copies that a server keeps are one run, whose page adds them up, leads to each, and changes with them.
func TestServed(t *testing.T) {
	m, err := runs.Honest(5).Merged(0, runs.Part{Index: 1, Tasks: []int{0, 1}}, runs.Part{Index: 2, Tasks: []int{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(t.TempDir(), "1")
	if err := runs.WriteFiles(one, m.Shards[0]); err != nil {
		t.Fatal(err)
	}
	id := idOf(t, one)
	dir := filepath.Join(t.TempDir(), runfiles.ServerPrefix+id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	join := func(index int, name string) {
		delete(m.Shards[index], trajectory.CheckpointFile)
		if err := runs.WriteFiles(filepath.Join(dir, name), m.Shards[index]); err != nil {
			t.Fatal(err)
		}
		release, err := runfiles.Hold(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { release() })
	}
	join(0, "1")
	watch := runlist.NewWatch([]string{dir}, ledger.Reader{Now: time.Now})
	r := start(t, Config{Runs: watch.Rows, First: dir}).signIn()
	if id2, found := r.runs.at(dir); !found || id2 != id {
		t.Fatalf("%q, %v", id2, found)
	}
	_, body := r.get("/run/" + id)
	if !strings.Contains(body, "1 worker, 2 of ") || !strings.Contains(body, "served") || strings.Contains(body, "worker 2") {
		t.Fatalf("%s", body)
	}
	events := r.listen(live(body))
	join(1, "2")
	r.next(events)
	_, body = r.get("/run/" + id)
	if !strings.Contains(body, "2 workers, 3 of ") || !strings.Contains(body, runs.ShardKey(2).Public().ID()) {
		t.Errorf("%s", body)
	}
	links := strings.Split(body, `href="/run/at-`)[1:]
	if len(links) != 2 {
		t.Fatalf("%d links to workers: %s", len(links), body)
	}
	for i, link := range links {
		link, _, _ = strings.Cut(link, `"`)
		if res, body := r.get("/run/at-" + link); res.StatusCode != 200 || !strings.Contains(body, []string{"worker 1", "worker 2"}[i]) {
			t.Errorf("worker %d: %d %s", i+1, res.StatusCode, body)
		}
	}
	if _, body := r.get("/"); strings.Count(body, `href="/run/`) != 1 || !strings.Contains(body, "by 2 workers") {
		t.Errorf("the list: %s", body)
	}
}
