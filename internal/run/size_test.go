package run

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/tidwall/gjson"
)

// mostJournal bounds the bytes that the journal has for a task of three turns.
const mostJournal = 18_000

// TestJournalSize: the journal is short, and with -v says what takes how much of it.
func TestJournalSize(t *testing.T) {
	tasks := endpoint.Tasks{Count: 20, Turns: 3}
	server := serve(t, endpoint.Config{Tasks: tasks})
	c := generated(t, tasks, server.URL, nil)
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	total, sizes, counts := 0, map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(journal)) {
		if e := gjson.Parse(line); e.Get("task_id").Exists() {
			total += len(line)
			sizes[e.Get("type").Str] += len(line)
			counts[e.Get("type").Str]++
		}
	}
	for _, kind := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return sizes[b] - sizes[a] }) {
		t.Logf("%-20s %5d bytes a task, %2d %%, %4d an event", kind, sizes[kind]/tasks.Count, 100*sizes[kind]/total, sizes[kind]/counts[kind])
	}
	if t.Logf("%d bytes a task", total/tasks.Count); total > mostJournal*tasks.Count {
		t.Errorf("the journal has %d bytes a task, and should have at most %d", total/tasks.Count, mostJournal)
	}
}
