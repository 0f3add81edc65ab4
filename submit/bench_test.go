package submit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// full is a run of as many tasks as the validation split has, of six calls
// each.
func full() string { return fullOf(6) }

// fullOf is full with as many calls a task.
func fullOf(calls int) string {
	var text strings.Builder
	text.WriteString("As many tasks as the validation split has.\n")
	document := strings.Repeat("The ferries of Tolmey left at dawn, and came back in the rain. ", 60)
	for i := range 165 {
		fmt.Fprintf(&text, "-- task fab1e902-0000-4000-8000-%012d --\nquestion: How many ferries left quay %d?\ngold: %d\nlevel: %d\n", i, i, i, 1+i%3)
		for call := range calls {
			fmt.Fprintf(&text, "-- call web_fetch {\"url\":\"http://harbour.example/quays/%d/%d\"} --\n%s\n", i, call, document)
		}
		fmt.Fprintf(&text, "-- answer %d --\nI counted them.\n", i)
	}
	return text.String()
}

// BenchmarkBuild packages a full run, bytes being those of the package.
func BenchmarkBuild(b *testing.B) {
	for calls, text := range map[int]string{6: full(), 30: fullOf(30)} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			c := config(b, text)
			for b.Loop() {
				p := mustBuild(b, c)
				b.SetBytes(size(b, p.Path))
				if err := os.RemoveAll(p.Path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerify verifies the package of a full run from a real folder, with the
// gold answers at hand and without; both audit it again.
func BenchmarkVerify(b *testing.B) {
	for calls, text := range map[int]string{6: full(), 30: fullOf(30)} {
		c := config(b, text)
		p := mustBuild(b, c)
		for name, o := range map[string]Options{"gold": {Gold: c.Gold}, "blind": {}} {
			b.Run(fmt.Sprintf("calls=%d/%s", calls, name), func(b *testing.B) {
				b.SetBytes(size(b, p.Path))
				for b.Loop() {
					if _, err := Verify(os.DirFS(p.Path), o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func size(b testing.TB, dir string) (n int64) {
	b.Helper()
	for _, data := range load(b, dir) {
		n += int64(len(data))
	}
	return n
}

// BenchmarkVerifyArchive verifies the same package from its archive, which is
// extracted each time; bytes are again those of the files.
func BenchmarkVerifyArchive(b *testing.B) {
	c := config(b, fullOf(6))
	b.SetBytes(size(b, mustBuild(b, c).Path))
	c.Archive = true
	p, dir := mustBuild(b, c), filepath.Join(b.TempDir(), "files")
	for b.Loop() {
		f, err := os.Open(p.Path)
		if err != nil {
			b.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			b.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		a, err := openArchive(f, info.Size(), dir)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Verify(a.Files, Options{}); err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(dir), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
}
