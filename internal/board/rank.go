package board

import (
	"cmp"
	"math"
	"slices"

	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// levelPPM bounds, in parts per million, the chance that luck alone separates any pair of a board.
const levelPPM = 50_000

// Tests by which two packages are compared.
const (
	testPaired = "mcnemar" // of the same tasks: exact McNemar test
	testRates  = "fisher"  // of other tasks: exact test of Fisher, two-sided as twice the smaller side
)

// pair is the comparison of two ranked packages, by their places; a is the better one.
type pair struct {
	a, b int
	ppm  int64 // p-value in parts per million, rounded up
	test string
}

// rank orders the packages that count and gives each the range of ranks that it can have: from one more than the number
// of those that are better by more than chance, to as many as there are less those that are worse. A difference is more
// than chance by Holm's method over all pairs, at levelPPM. Of two packages that tie with a third, one can be better
// than the other, and the ranges say so. It returns the pairs.
func rank(all []*entry) []pair {
	slices.SortFunc(all, func(a, b *entry) int {
		x, y := a.row.Score, b.row.Score
		// An unknown cost is the greatest.
		unknown := int64(math.MaxInt64)
		costA, costB := cmp.Or(a.row.CostMicroUSD, &unknown), cmp.Or(b.row.CostMicroUSD, &unknown)
		return cmp.Or(cmp.Compare(int64(y.Correct)*int64(x.Planned), int64(x.Correct)*int64(y.Planned)), cmp.Compare(*costA, *costB),
			cmp.Compare(a.row.AttestationSHA256, b.row.AttestationSHA256))
	})
	for _, e := range all {
		e.row.Rank = Rank{First: 1, Last: len(all)}
	}
	pairs := compareAll(all)
	for i, p := range pairs {
		if p.ppm*int64(len(pairs)-i) > levelPPM { // this and all after it
			break
		}
		all[p.a].row.Rank.Last--
		all[p.b].row.Rank.First++
	}
	return pairs
}

// compareAll compares all pairs of packages in the order of their scores, and returns them by their p-values.
func compareAll(all []*entry) (pairs []pair) {
	byID := make([]map[string]stats.Scored, len(all))
	for i, e := range all {
		byID[i] = map[string]stats.Scored{}
		for _, t := range e.tasks {
			byID[i][t.TaskID] = t
		}
	}
	for b := range all {
		for a := range b {
			p := pair{a: a, b: b, test: testPaired}
			if onlyA, onlyB, same := paired(byID[a], byID[b]); same {
				p.ppm = min(1_000_000, stats.McNemar(onlyA, onlyB)+1) // it is rounded to the nearest
			} else {
				x, y := all[a].row.Score, all[b].row.Score
				p.test, p.ppm = testRates, min(1_000_000, 2*stats.Greater(x.Correct, x.Planned, y.Correct, y.Planned))
			}
			pairs = append(pairs, p)
		}
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(x.ppm, y.ppm) })
	return pairs
}

// paired counts the tasks that only one of two packages solved. same reports that they are of the same tasks: the same
// ids and files, and the same questions, or where these are not known, the same file of the dataset.
func paired(a, b map[string]stats.Scored) (onlyA, onlyB int, same bool) {
	if len(a) != len(b) {
		return 0, 0, false
	}
	for id, x := range a {
		y, there := b[id]
		known := x.Question != "" && y.Question != ""
		if !there || x.FileName != y.FileName || known && x.Question != y.Question || !known && x.MetadataSHA256 != y.MetadataSHA256 {
			return 0, 0, false
		}
		switch {
		case x.Outcome == trajectory.Solved && y.Outcome != trajectory.Solved:
			onlyA++
		case x.Outcome != trajectory.Solved && y.Outcome == trajectory.Solved:
			onlyB++
		}
	}
	return onlyA, onlyB, true
}
