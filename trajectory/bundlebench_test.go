package trajectory

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const manyWitnesses = 10_000

// BenchmarkParseWitness reads a bundle of 446 bytes with all sections and counts
// what its policy denied. Ten thousand are to take well under 50 ms.
func BenchmarkParseWitness(b *testing.B) {
	bundle, _ := full(b)
	b.SetBytes(int64(len(bundle)))
	b.ReportAllocs()
	for b.Loop() {
		if w, err := ParseWitness(bundle); err != nil || w.Denied() != 2 || !w.EvidenceComplete() {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadWitnesses reads ten thousand files that the system has in memory,
// and in the other case also what is in them: the difference is ours.
func BenchmarkReadWitnesses(b *testing.B) {
	bundle, _ := full(b)
	dir := b.TempDir()
	for i := range manyWitnesses {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.rvw", i)), bundle, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, parse := range []bool{false, true} {
		b.Run(map[bool]string{false: "read", true: "read and parsed"}[parse], func(b *testing.B) {
			for b.Loop() {
				bytes, denied := 0, 0
				for i := range manyWitnesses {
					data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%05d.rvw", i)))
					if err != nil {
						b.Fatal(err)
					}
					bytes += len(data)
					if !parse {
						continue
					}
					w, err := ParseWitness(data)
					if err != nil {
						b.Fatal(err)
					}
					denied += w.Denied()
				}
				if bytes != manyWitnesses*len(bundle) || parse && denied != 2*manyWitnesses {
					b.Fatalf("read %d bytes with %d denied calls", bytes, denied)
				}
			}
		})
	}
}
