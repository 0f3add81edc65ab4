package submit

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// full is a run of as many tasks as the validation split has, of six calls
// each.
func full() string {
	var text strings.Builder
	text.WriteString("As many tasks as the validation split has.\n")
	document := strings.Repeat("The ferries of Tolmey left at dawn, and came back in the rain. ", 60)
	for i := range 165 {
		fmt.Fprintf(&text, "-- task fab1e902-0000-4000-8000-%012d --\nquestion: How many ferries left quay %d?\ngold: %d\nlevel: %d\n", i, i, i, 1+i%3)
		for call := range 6 {
			fmt.Fprintf(&text, "-- call web_fetch {\"url\":\"http://harbour.example/quays/%d/%d\"} --\n%s\n", i, call, document)
		}
		fmt.Fprintf(&text, "-- answer %d --\nI counted them.\n", i)
	}
	return text.String()
}

// BenchmarkBuild packages a full run, bytes being those of the package.
func BenchmarkBuild(b *testing.B) {
	c := config(b, full())
	for b.Loop() {
		p := mustBuild(b, c)
		b.SetBytes(size(b, p.Dir))
		if err := os.RemoveAll(p.Dir); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify verifies the package of a full run from a real folder.
func BenchmarkVerify(b *testing.B) {
	p := mustBuild(b, config(b, full()))
	b.SetBytes(size(b, p.Dir))
	for b.Loop() {
		if _, err := Verify(os.DirFS(p.Dir), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func size(b *testing.B, dir string) (n int64) {
	b.Helper()
	for _, data := range load(b, dir) {
		n += int64(len(data))
	}
	return n
}
