package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// scored returns a package of a score, of which the tasks from first on are solved. metadata names the dataset.
func scored(name string, right, tasks, first int, metadata string, cost int64) *entry {
	e := &entry{file: name, row: &Row{AttestationSHA256: name, CostMicroUSD: &cost, Score: new(stats.NewRate(right, tasks))}}
	for n := range tasks {
		outcome := trajectory.Failed
		if (n-first+tasks)%tasks < right {
			outcome = trajectory.Solved
		}
		e.tasks = append(e.tasks, stats.Scored{MetadataSHA256: metadata, Outcome: outcome, TaskID: fmt.Sprint(n)})
	}
	return e
}

// TestRank: packages that differ by less than chance can give tie, and a range says of every pair that differs which is
// the better one.
func TestRank(t *testing.T) {
	for _, tc := range []struct {
		name string
		all  []*entry
		want string
	}{
		{"none", nil, ""},
		{"one", []*entry{scored("a", 1, 3, 0, "x", 1)}, "a 1"},
		{"the same", []*entry{scored("b", 50, 100, 0, "x", 1), scored("a", 50, 100, 50, "x", 1)}, "a 1–2, b 1–2"},
		{"by cost in a tie", []*entry{scored("a", 50, 100, 0, "x", 2), scored("b", 50, 100, 0, "x", 1)}, "b 1–2, a 1–2"},
		// 5 tasks that only one solves: p = 2/2⁵ = 6.3 %; 6: 3.1 %.
		{"five only one solves", []*entry{scored("a", 55, 100, 0, "x", 1), scored("b", 50, 100, 0, "x", 1)}, "a 1–2, b 1–2"},
		{"six only one solves", []*entry{scored("a", 56, 100, 0, "x", 1), scored("b", 50, 100, 0, "x", 1)}, "a 1, b 2"},
		// The same rates differ by less than chance where the tasks are others.
		{"six, of another dataset", []*entry{scored("a", 56, 100, 0, "x", 1), scored("b", 50, 100, 0, "y", 1)}, "a 1–2, b 1–2"},
		{"many, of another dataset", []*entry{scored("a", 80, 100, 0, "x", 1), scored("b", 50, 100, 0, "y", 1)}, "a 1, b 2"},
		{"of another number of tasks", []*entry{scored("a", 80, 100, 0, "x", 1), scored("b", 20, 50, 0, "x", 1)}, "a 1, b 2"},
		// Three pairs: the smallest p-value must be below 5 % / 3, the next below 5 % / 2.
		{"six of three", []*entry{scored("a", 56, 100, 0, "x", 1), scored("b", 50, 100, 0, "x", 1), scored("c", 50, 100, 0, "x", 1)}, "a 1–3, b 1–3, c 1–3"},
		{"a chain", []*entry{scored("a", 60, 100, 0, "x", 1), scored("b", 55, 100, 0, "x", 1), scored("c", 50, 100, 0, "x", 1)}, "a 1–2, b 1–3, c 2–3"},
		{"Holm's second step", []*entry{scored("a", 60, 100, 0, "x", 1), scored("b", 57, 100, 0, "x", 1), scored("c", 50, 100, 0, "x", 1)}, "a 1–2, b 1–2, c 3"},
		{"nothing solved", []*entry{scored("a", 0, 10, 0, "x", 1), scored("b", 0, 10, 0, "x", 1)}, "a 1–2, b 1–2"},
	} {
		rank(tc.all)
		var got []string
		for _, e := range tc.all {
			got = append(got, e.file+" "+e.row.Rank.Text())
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, text, tc.want)
		}
	}
}

// TestRankHolds: whatever the scores, a range is one, holds the place of its package, and of two packages that differ
// the better one's begins and ends before the other's.
func TestRankHolds(t *testing.T) {
	for seed := range 200 {
		var all []*entry
		n := 2 + seed%9
		for i := range n {
			all = append(all, scored(fmt.Sprint(i), (seed*7+i*i*13)%61, 60, (seed*i)%60, []string{"x", "y"}[seed*i%3/2], int64(i)))
		}
		pairs := rank(all)
		for i, e := range all {
			if r := e.row.Rank; r.First < 1 || r.First > i+1 || r.Last < i+1 || r.Last > n {
				t.Fatalf("seed %d: the package at place %d has the range %s", seed, i+1, r.Text())
			}
		}
		if len(pairs) != n*(n-1)/2 || !slices.IsSortedFunc(pairs, func(a, b pair) int { return int(a.ppm - b.ppm) }) {
			t.Fatalf("seed %d: %d pairs of %d packages, or not in order", seed, len(pairs), n)
		}
		for _, p := range pairs {
			if a, b := all[p.a].row.Score, all[p.b].row.Score; a.Correct < b.Correct {
				t.Fatalf("seed %d: %d is held for better than %d", seed, a.Correct, b.Correct)
			}
		}
	}
}

// TestPaired: tasks are the same by their ids, files and questions; where these are not known, by their dataset.
func TestPaired(t *testing.T) {
	task := func(id, question, metadata, file, outcome string) map[string]stats.Scored {
		return map[string]stats.Scored{id: {TaskID: id, Question: question, MetadataSHA256: metadata, FileName: file, Outcome: outcome}}
	}
	for _, tc := range []struct {
		name         string
		a, b         map[string]stats.Scored
		onlyA, onlyB int
		same         bool
	}{
		{"same question, other dataset", task("1", "q", "x", "", "solved"), task("1", "q", "y", "", "failed"), 1, 0, true},
		{"no question, same dataset", task("1", "", "x", "", "failed"), task("1", "q", "x", "", "solved"), 0, 1, true},
		{"no question, other dataset", task("1", "", "x", "", "failed"), task("1", "q", "y", "", "solved"), 0, 0, false},
		{"other question", task("1", "q", "x", "", "failed"), task("1", "r", "x", "", "solved"), 0, 0, false},
		{"other file", task("1", "q", "x", "f", "failed"), task("1", "q", "x", "", "solved"), 0, 0, false},
		{"other task", task("1", "q", "x", "", "failed"), task("2", "q", "x", "", "solved"), 0, 0, false},
		{"errors are not solved", task("1", "q", "x", "", "error"), task("1", "q", "x", "", "skipped"), 0, 0, true},
	} {
		if a, b, same := paired(tc.a, tc.b); a != tc.onlyA || b != tc.onlyB || same != tc.same {
			t.Errorf("%s: %d, %d, %t", tc.name, a, b, same)
		}
	}
}

// BenchmarkRank ranks 100 packages of 165 tasks: 4,950 pairs.
func BenchmarkRank(b *testing.B) {
	for b.Loop() {
		var all []*entry
		for i := range 100 {
			all = append(all, scored(fmt.Sprint(i), 40+i, 165, i, "x", int64(i)))
		}
		rank(all)
	}
}
