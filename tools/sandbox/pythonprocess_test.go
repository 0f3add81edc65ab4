package sandbox

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzGathered: however output is cut into pieces, the answer is what stands before
// the mark, and the word behind it.
func FuzzGathered(f *testing.F) {
	f.Add([]byte("output\n"), []byte(" ok\nmore"), uint8(3))
	f.Add([]byte("\x1eMAR\x1eMARK"), []byte(" raised\n"), uint8(1))
	f.Add([]byte{}, []byte(" a word without an end"), uint8(7))
	f.Fuzz(func(t *testing.T, before, behind []byte, size uint8) {
		const mark = "\x1eMARK "
		if bytes.Contains(append(append([]byte(nil), before...), mark[:len(mark)-1]...), []byte(mark)) || size == 0 {
			return
		}
		text := append(append(append([]byte(nil), before...), mark...), behind...)
		a := gathered{mark: []byte(mark)}
		done := false
		for at := 0; at < len(text) && !done; at += int(size) {
			done = a.add(text[at:min(at+int(size), len(text))])
		}
		word, _, whole := bytes.Cut(behind, []byte("\n"))
		if want := whole || len(word) > maxStatus; done != want {
			t.Fatalf("it is whole: %v", done)
		}
		if done && (a.text() != string(before) || len(word) <= maxStatus && a.status != string(word) && a.status != "raised") {
			t.Errorf("%q, %q", a.text(), a.status)
		}
		if r := a.lost("it ended"); !done && r.text() != string(text) {
			t.Errorf("of an answer that broke off there is %q", r.text())
		}
	})
}

// FuzzLeaks: no report of the probe is taken for a good one that does not come to
// the end of the script.
func FuzzLeaks(f *testing.F) {
	f.Add("pid:[1]\ndone\nPATH=/bin")
	f.Fuzz(func(t *testing.T, report string) {
		if leaks(report, nil) == "" && !strings.Contains(report, "\n"+probeDone) {
			t.Errorf("%q is taken for a good one", report)
		}
	})
}
