package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestRank: runs that say something of a model are ordered by their solve rate, the same rate is a tie, and only runs of
// the same tasks are compared.
func TestRank(t *testing.T) {
	// An outcome is a letter: solved, failed, error, unscored.
	outcomes := map[rune]string{'s': trajectory.Solved, 'f': trajectory.Failed, 'e': trajectory.Errored, 'u': trajectory.Unscored}
	run := func(id, letters, dataset string, cost int64, change func(*rundir.RunStats)) Run {
		s := rundir.RunStats{RunID: id, Model: "m", Dataset: plan.Dataset{MetadataSHA256: dataset}}
		for i, letter := range letters {
			s.Tasks = append(s.Tasks, rundir.TaskStats{CostMicroUSD: &cost, Level: 1, Outcome: outcomes[letter], TaskID: fmt.Sprint(i)})
		}
		if change != nil {
			change(&s)
		}
		return Run{RunStats: s, Path: "runs/" + id}
	}
	rehearsal := func(s *rundir.RunStats) { s.Rehearsal = true }
	for name, tc := range map[string]struct {
		runs []Run
		want string // run, rank and difference of each
	}{
		"by rate, then cost": {[]Run{run("A", "ssff", "d", 9, nil), run("B", "sssf", "d", 9, nil), run("C", "ssff", "d", 3, nil), run("D", "ffff", "d", 1, nil)},
			"B 1 +1-0 p1000000; C 2 tied +0-0 p1000000; A 2 tied +2-0 p500000; D 4"},
		"other tasks": {[]Run{run("A", "ss", "d", 1, nil), run("B", "sf", "other", 1, nil), run("C", "fff", "other", 1, nil)},
			"A 1 different; B 2 different; C 3"},
		"what says nothing": {[]Run{run("A", "uu", "d", 1, nil), run("B", "sf", "d", 1, nil), run("C", "ss", "d", 1, rehearsal),
			run("D", "ss", "d", 1, func(s *rundir.RunStats) { s.Dataset.ErrorsOf.RunID = "X" }), run("E", "ss", "d", 1, func(s *rundir.RunStats) { s.RecordingFailed = "full disk" })},
			"B 1; C 0; D 0; E 0; A 0"},
		"rehearsals alone":  {[]Run{run("A", "sf", "d", 1, rehearsal), run("B", "ss", "d", 1, rehearsal)}, "B 1 +1-0 p1000000; A 2"},
		"unknown cost last": {[]Run{run("A", "s", "d", 1, func(s *rundir.RunStats) { s.Tasks[0].CostMicroUSD = nil }), run("B", "s", "d", 9, nil)}, "B 1 tied +0-0 p1000000; A 1 tied"},
	} {
		r := &Reader{Trust: keyring.Trust{}}
		var all []RankedRun
		for _, s := range tc.runs {
			one, err := r.ranked(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		rank(all)
		var got []string
		for _, r := range all {
			line := fmt.Sprintf("%s %d", r.RunID, r.Rank)
			if r.Tied {
				line += " tied"
			}
			if n := r.Next; n != nil && n.Compared != nil {
				line += fmt.Sprintf(" +%d-%d p%d", n.Compared.OnlyThis, n.Compared.OnlyNext, n.Compared.PPPM)
			} else if n != nil {
				line += " " + strings.SplitN(n.Why, " ", 2)[0]
			}
			got = append(got, line)
		}
		if joined := strings.Join(got, "; "); joined != tc.want {
			t.Errorf("%s: ranked as %s, want %s", name, joined, tc.want)
		}
		text := rankingText(all)
		if n := strings.Count(text, "different plans"); n != strings.Count(tc.want, "different") || !strings.Contains(text, "NOT trusted") {
			t.Errorf("%s: the table is\n%s", name, text)
		}
		for _, word := range []string{"rehearsal", "only errors", "recording failed", "unscored"} {
			is := slices.ContainsFunc(all, func(r RankedRun) bool {
				return map[string]bool{"rehearsal": r.Rehearsal, "only errors": r.ErrorsOf != "", "recording failed": r.RecordingFailed != "", "unscored": r.Score == nil}[word]
			})
			if strings.Contains(text, word) != is {
				t.Errorf("%s: the table says %q: %t\n%s", name, word, !is, text)
			}
		}
	}
}
