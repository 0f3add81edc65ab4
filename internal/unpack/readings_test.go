package unpack

import (
	"slices"
	"strings"
	"testing"
)

// TestReadings: what takes no key to read is read.
func TestReadings(t *testing.T) {
	for name, pieces := range map[string][]string{
		"split":           {"The answer is Gr", "ey Heron."},
		"split in words":  {"It is the Grey ", " Heron"},
		"letters":         {"It is G r e y   H e r o n, it seems."},
		"letters by line": {"G\nr\ne\ny\n \nH\ne\nr\no\nn"},
		"letters by dash": {"G-r-e-y--H-e-r-o-n"},
		"base64":          {"Decode R3JleSBIZXJvbg== first."},
		"hex":             {"From 47726579204865726f6e it follows"},
		"backwards":       {"noreH yerG"},
		"rot13":           {"Terl Ureba"},
	} {
		if !slices.ContainsFunc(Readings(pieces), func(s string) bool { return strings.Contains(s, "Grey Heron") }) {
			t.Errorf("%s: %q", name, Readings(pieces))
		}
	}
	for _, text := range []string{"5 2 . 4 2", "52|42|1", "the year 7481"} {
		for _, r := range Readings([]string{text}) {
			if strings.Contains(r, "1847") {
				t.Errorf("%q is read as %q", text, r)
			}
		}
	}
	if all := Readings([]string{"5 2 . 4 2"}); !slices.Contains(all, "52.42\n") {
		t.Errorf("%q", all)
	}
}

func FuzzReadings(f *testing.F) {
	f.Add("a b c d", "R3JleSBIZXJvbg==")
	f.Fuzz(func(t *testing.T, a, b string) {
		size := 0
		for _, r := range Readings([]string{a, b}) {
			size += len(r)
		}
		if size > 64*(len(a)+len(b))+2<<20 {
			t.Errorf("%d bytes are read as %d", len(a)+len(b), size)
		}
	})
}

// BenchmarkReadings reads 100 kB, more than an agent adds to a conversation at once.
func BenchmarkReadings(b *testing.B) {
	text := []string{strings.Repeat("The lighthouse of harbour 17 was painted by Odile Marchetti in 1803, and its keeper kept 12 goats.\n", 1000)}
	b.SetBytes(int64(len(text[0])))
	for b.Loop() {
		Readings(text)
	}
}
