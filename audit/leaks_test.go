package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestPartedPairs: a result with the question, and another document with the
// answer, are found wherever they stand among others.
func TestPartedPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 6))
	for range 2000 {
		var results []*resultFact
		for range r.IntN(6) {
			f := &resultFact{Name: []string{"web_fetch", "web_fetch", "read_file"}[r.IntN(3)], SHA256: fmt.Sprint(r.IntN(3)), Seq: int64(len(results))}
			f.Probes = trajectory.Probes{GoldLabelNear: r.IntN(2) == 0, QCovNoEcho: r.IntN(2) * probe.WholeQuestion, GoldNear: r.IntN(4) == 0}
			results = append(results, f)
		}
		want := int64(-1)
		for _, q := range results {
			for _, a := range results {
				whole := q.Probes.QCovNoEcho == probe.WholeQuestion && !q.Probes.GoldNear
				if want < 0 && whole && thirdParty(q.Name) && thirdParty(a.Name) && a.Probes.GoldLabelNear && a.SHA256 != q.SHA256 {
					want = a.Seq
				}
			}
		}
		n := newNotes(answerLeakage)
		checkPartedLeak(n, place{}, results)
		got := int64(-1)
		for _, f := range n.findings {
			got = f.Seq
		}
		if got != want || len(n.findings) > 1 {
			t.Fatalf("%v, want that of %d", n.findings, want)
		}
	}
}

// BenchmarkParted: twice the results take twice the time.
func BenchmarkParted(b *testing.B) {
	for _, size := range []int{10_000, 20_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			results := make([]*resultFact, size)
			for i := range results {
				results[i] = &resultFact{Name: "web_fetch", SHA256: fmt.Sprint(i), Probes: trajectory.Probes{QCovNoEcho: probe.WholeQuestion}}
			}
			for b.Loop() {
				checkPartedLeak(newNotes(answerLeakage), place{}, results)
			}
		})
	}
}
