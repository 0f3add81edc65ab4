package judge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// FuzzQuestionScorer holds what no pair may contradict and, where a comparison
// was asked for (GAIA_INTEROP=1, python3), compares with Python both the verdict
// and the readings it rests on: two texts made up by a fuzzer seldom agree, so
// the verdict alone would tell little.
func FuzzQuestionScorer(f *testing.F) {
	for _, v := range append(readVectors(f), pinned()...) {
		if len(v.Gold) < 1000 && len(show(v.Prediction)) < 1000 {
			f.Add(show(v.Prediction), v.Gold)
		}
	}
	var python *pythonReader
	asked := os.Getenv("GAIA_INTEROP") == "1" && pythonIsHere()
	f.Cleanup(func() {
		if python != nil {
			python.close()
		}
	})
	f.Fuzz(func(t *testing.T, answer, gold string) {
		if c := contradiction(answer, gold); c != "" {
			t.Error(c)
		}
		if !asked {
			return
		}
		if python == nil { // in the process that runs this, not in the one that only starts others
			python = startPython(t)
		}
		// What is not UTF-8 no Python text can hold; the rest of it can be compared.
		answer, gold = strings.ToValidUTF8(answer, ""), strings.ToValidUTF8(gold, "")
		if !python.knows(answer + gold) {
			t.Skip()
		}
		for _, pair := range [][2]string{{answer, gold}, {gold, answer}, {answer, answer}, {gold, gold}} {
			if got, want := readings(pair[0], pair[1]), python.readings(t, pair[0], pair[1]); got != want {
				t.Errorf("%q for %q: %s, Python reads %s", pair[0], pair[1], got, want)
			}
		}
	})
}

// contradiction says what of the published rules the verdicts on a pair and on
// its kin break; "" is nothing.
func contradiction(answer, gold string) string {
	got := QuestionScorer(&answer, gold)
	if QuestionScorer(&answer, gold) != got {
		return fmt.Sprintf("%q for %q has two verdicts", answer, gold)
	}
	if v, ok := pyFloat(gold, false); ok {
		if QuestionScorer(&gold, gold) == math.IsNaN(v) {
			return fmt.Sprintf("numeral %q and itself", gold)
		}
		if dressed := "$" + answer + ",%"; QuestionScorer(&dressed, gold) != got {
			return fmt.Sprintf("%q and %q differ for %q", answer, dressed, gold)
		}
		return ""
	}
	separators := func(s string) int { return strings.Count(s, ",") + strings.Count(s, ";") }
	if n := separators(gold); n > 0 {
		if got && separators(answer) != n {
			return fmt.Sprintf("%q has not as many elements as %q", answer, gold)
		}
		if other := swapSeparators(answer); QuestionScorer(&other, gold) != got && n == separators(other) {
			return fmt.Sprintf("%q and %q differ for %q", answer, other, gold)
		}
		if !strings.Contains(strings.ToLower(gold), "nan") && !QuestionScorer(&gold, gold) {
			return fmt.Sprintf("list %q does not agree with itself", gold)
		}
		return ""
	}
	if !QuestionScorer(&gold, gold) {
		return fmt.Sprintf("text %q does not agree with itself", gold)
	}
	if valid := strings.ToValidUTF8(gold, "\ufffd"); valid != gold && QuestionScorer(&valid, gold) {
		return fmt.Sprintf("%q agrees with %q, which is not UTF-8", valid, gold)
	}
	_, answerIsNumber := pyFloat(answer, false)
	if !answerIsNumber && separators(answer) == 0 && QuestionScorer(&gold, answer) != got {
		return fmt.Sprintf("texts %q and %q agree one way only", answer, gold)
	}
	return ""
}

func swapSeparators(s string) string {
	return strings.NewReplacer(",", ";", ";", ",").Replace(s)
}

// readings is what question_scorer.py writes in the mode of this name.
func readings(answer, gold string) string {
	verdict := 0
	if QuestionScorer(&answer, gold) {
		verdict = 1
	}
	wanted := "-"
	if v, ok := pyFloat(gold, false); ok {
		wanted = bits(v)
	}
	return fmt.Sprintf("%d %s %s %x %x", verdict, wanted, bits(amount(answer)), remains(answer, false), remains(answer, true))
}

func bits(v float64) string {
	if math.IsNaN(v) {
		return "nan"
	}
	return fmt.Sprintf("%016x", math.Float64bits(v))
}

// remains is all that a text is compared by.
func remains(s string, dropPunct bool) string {
	p := plainText{s: s, dropPunct: dropPunct}
	var b []byte
	for r := p.next(); r != endOfText; r = p.next() {
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

func pythonIsHere() bool {
	_, err := exec.LookPath("python3")
	return err == nil
}

// pythonReader is one Python that answers pair after pair.
type pythonReader struct {
	cmd         *exec.Cmd
	in          io.WriteCloser
	out         *bufio.Reader
	sameUnicode bool
}

func startPython(t *testing.T) *pythonReader {
	t.Helper()
	p := &pythonReader{
		cmd:         exec.Command("python3", filepath.Join("testdata", "question_scorer.py"), "readings"),
		sameUnicode: sameUnicode(t),
	}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p
}

// close ends the process by ending its input.
func (p *pythonReader) close() {
	p.in.Close()
	p.cmd.Wait()
}

// knows reports whether this Python reads all characters of s as version
// unicodeVersion does: one of another version is asked only about the scripts
// that have been complete for long.
func (p *pythonReader) knows(s string) bool {
	return p.sameUnicode || strings.IndexFunc(s, func(r rune) bool { return r >= 0x530 }) < 0
}

func (p *pythonReader) readings(t *testing.T, answer, gold string) string {
	t.Helper()
	if _, err := p.in.Write(asciiJSON(t, []string{answer, gold})); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("python3 gave up on %q for %q: %v", answer, gold, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// asciiJSON is a line of JSON that reads the same in every encoding.
func asciiJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			line.WriteByte(byte(r))
		case r <= 0xffff:
			fmt.Fprintf(&line, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&line, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	line.WriteByte('\n')
	return line.Bytes()
}
