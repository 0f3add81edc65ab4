package witness

import "testing"

// BenchmarkParseWitness reads a bundle of 446 bytes with all sections and counts
// what its policy denied. Ten thousand are to take well under 50 ms.
func BenchmarkParseWitness(b *testing.B) {
	bundle, _ := full(b)
	b.SetBytes(int64(len(bundle)))
	b.ReportAllocs()
	for b.Loop() {
		if w, err := Parse(bundle); err != nil || w.Denied() != 2 || !w.EvidenceComplete() {
			b.Fatal(err)
		}
	}
}
