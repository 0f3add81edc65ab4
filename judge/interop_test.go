package judge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// python runs a script of testdata, where a comparison with Python was asked
// for.
func python(t *testing.T, stdin io.Reader, script string, args ...string) []byte {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("not compared with Python: set GAIA_INTEROP=1 and have python3 on the path")
	}
	if !pythonIsHere() {
		t.Skip("SKIPPED: there is no python3 here, so nothing was compared with Python")
	}
	cmd := exec.Command("python3", append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Stdin = stdin
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return out
}

func sameUnicode(t *testing.T) bool {
	return strings.TrimSpace(string(python(t, nil, "question_scorer.py", "version"))) == unicodeVersion
}

// Every code point, alone and around a sigma, as text and as numeral.
func TestInteropCodePoints(t *testing.T) {
	if !sameUnicode(t) {
		t.Skip("this Python knows another version of Unicode than " + unicodeVersion + ": code points are not compared one by one")
	}
	out := bufio.NewScanner(bytes.NewReader(python(t, nil, "question_scorer.py", "facts")))
	plain := func(s string) string { return remains(s, false) }
	n := 0
	for point := range rune(utf8.MaxRune + 1) {
		if !utf8.ValidRune(point) {
			continue
		}
		n++
		c := string(point)
		number := "-"
		if v, ok := pyFloat(c, false); ok {
			number = strconv.Itoa(int(v))
		}
		got := fmt.Sprintf("%x %x %x %x %x %x", point, plain(c), plain(c+"Σ"), plain("A"+c+"Σ"), plain("AΣ"+c+"B"), number)
		if !out.Scan() || out.Text() != got {
			t.Errorf("U+%04X: got %q, Python says %q", point, got, out.Text())
		}
	}
	t.Logf("%d code points", n)
}

func TestInteropTables(t *testing.T) {
	if !sameUnicode(t) {
		t.Skip("the tables can only be made with a Python that knows Unicode " + unicodeVersion)
	}
	want := python(t, nil, "pytables.py")
	got, err := os.ReadFile("pytables.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("pytables.go is not what testdata/pytables.py writes")
	}
}

// interopPairs is how many pairs are made up besides the recorded ones.
const interopPairs = 120000

func TestInteropVerdicts(t *testing.T) {
	anyCodePoint := sameUnicode(t)
	pairs := append(readVectors(t), pinned()...)
	for _, c := range longPairs(1 << 16) {
		if utf8.ValidString(c.answer + c.gold) {
			pairs = append(pairs, vector{"long", &c.answer, c.gold, c.want})
		}
	}
	pairs = append(pairs, madeUp(rand.New(rand.NewPCG(8, 2)), interopPairs, anyCodePoint)...)

	var in bytes.Buffer
	for i := range pairs {
		v := pairs[i]
		v.Category, v.Correct = "", false
		in.Write(asciiJSON(t, v))
	}
	answers := strings.Fields(string(python(t, &in, "question_scorer.py")))
	if len(answers) != len(pairs) {
		t.Fatalf("%d verdicts on %d pairs", len(answers), len(pairs))
	}
	credited, wrong := 0, 0
	for i, v := range pairs {
		want := answers[i] == "1"
		if want {
			credited++
		}
		if got := QuestionScorer(v.Prediction, v.Gold); got != want {
			if wrong++; wrong <= 20 {
				t.Errorf("%.200q for %.200q is %v, Python says %v", show(v.Prediction), v.Gold, got, want)
			}
		}
	}
	t.Logf("%d pairs, %d credited, %d wrong", len(pairs), credited, wrong)
	if credited < len(pairs)/5 || credited > len(pairs)*4/5 {
		t.Errorf("%d of %d pairs credited: the pairs do not try both verdicts", credited, len(pairs))
	}
}

// maker makes pairs in which the answer is often the gold in another dress.
type maker struct {
	*rand.Rand
	anyCodePoint bool
}

func madeUp(r *rand.Rand, n int, anyCodePoint bool) []vector {
	m := maker{r, anyCodePoint}
	all := make([]vector, n)
	for i := range all {
		gold := m.gold()
		answer := m.dress(gold)
		switch m.IntN(8) {
		case 0:
			answer = m.gold()
		case 1:
			answer = m.dress(answer)
		}
		all[i] = vector{Prediction: &answer, Gold: gold}
		if m.IntN(200) == 0 {
			all[i].Prediction = nil
		}
	}
	return all
}

func (m maker) pick(from []string) string { return from[m.IntN(len(from))] }

func (m maker) several(most int, from func() string) string {
	var b strings.Builder
	for range m.IntN(most + 1) {
		b.WriteString(from())
	}
	return b.String()
}

func (m maker) gold() string {
	switch m.IntN(7) {
	case 0, 1:
		return m.numeral()
	case 2, 3:
		parts := make([]string, 1+m.IntN(4))
		for i := range parts {
			if m.IntN(2) == 0 {
				parts[i] = m.numeral()
			} else {
				parts[i] = m.text()
			}
		}
		return strings.Join(parts, m.pick([]string{",", ", ", ";", "; "}))
	case 4:
		return m.several(12, func() string { return m.pick(numeralParts) })
	}
	return m.text()
}

var (
	numeralParts = strings.Split("0 1 7 9 00 _ __ . .. e E + - $ % , ; inf INF nan infinity \u0661 \u0669 \uff10 \uff19 \U0001d7d3 \u00bd \u00b2 \u2212 x 0x p \u066b", " ")
	spaces       = []string{" ", "\t", "\n", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}
	notSpaces    = []string{"\x00", "\x08", "\x0e", "\x1b", "\x7f", "\u180e", "\u200b", "\u2060", "\ufeff", "\u00ad"}
	textParts    = strings.Split("a B z Q lima PORT the 1 2.5 . ' : - _ ^ ! & \u2019 \u00b7 \u03a3 \u03a3 \u03a3 \u03c3 \u03c2 \u0391 \u03b1 \u0130 I i \u0131 \u0307 \u0301 \u0345 \u1e9e \u00df ss \u212a k \u212b \u00e5 \u01c5 \u02b0 \u0378 \u13a0 \uab70 \u10a0 \U00010400 \U0001e900 \ufb01 \u65e5 \u3002 \uff0c \U0001f600 \ufffd \u00b5 None nan inf", " ")
)

func (m maker) text() string {
	return m.several(9, func() string {
		switch m.IntN(12) {
		case 0:
			return m.pick(spaces)
		case 1:
			return m.pick(notSpaces)
		case 2:
			if r := rune(m.IntN(utf8.MaxRune + 1)); m.anyCodePoint && utf8.ValidRune(r) && r != ',' && r != ';' {
				return string(r)
			}
		}
		return m.pick(textParts)
	})
}

func (m maker) numeral() string {
	var v float64
	switch m.IntN(6) {
	case 0:
		v = float64(m.IntN(20))
	case 1:
		v = math.Float64frombits(m.Uint64())
	case 2:
		v = math.Float64frombits(m.Uint64N(1 << 53)) // small and subnormal
	case 3:
		return m.longNumeral()
	default:
		v = float64(m.IntN(2000000)-1000000) / []float64{1, 10, 1000, 1e6}[m.IntN(4)]
	}
	return strconv.FormatFloat(v, "eEfgG"[m.IntN(5)], []int{-1, -1, -1, 0, 3, 17, 25}[m.IntN(7)], 64)
}

// longNumeral is one whose point is far from its digits.
func (m maker) longNumeral() string {
	places := m.IntN(400)
	if m.IntN(400) == 0 {
		places = 100000 + m.IntN(3000)
	}
	shift := places + m.IntN(3) - 1
	zeros := strings.Repeat("0", places)
	if m.IntN(2) == 0 {
		return fmt.Sprintf("0.%s%de%d", zeros, 1+m.IntN(99), shift)
	}
	return fmt.Sprintf("%d%se-%d", 1+m.IntN(99), zeros, shift)
}

// dress rewrites a gold in ways some of which keep the verdict.
func (m maker) dress(s string) string {
	insert := func(what string) string {
		at := m.IntN(len(s) + 1)
		for at < len(s) && !utf8.RuneStart(s[at]) {
			at++
		}
		return s[:at] + what + s[at:]
	}
	switch m.IntN(14) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return strings.ToLower(s)
	case 2:
		return m.pick(spaces) + s + m.pick(spaces)
	case 3:
		return insert(m.pick(spaces))
	case 4:
		return insert(m.pick(notSpaces))
	case 5:
		return insert(m.pick([]string{"$", "%", ",", ";", "_", ".", "'", "0", "e0", "\u0301", "Σ"}))
	case 6:
		return "$" + s + "%"
	case 7:
		return strings.NewReplacer(",", ";", ";", ",", "\u03c2", "\u03a3", "\u03c3", "\u03a3").Replace(s)
	case 8:
		return strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return r - '0' + rune(digitZeros[m.IntN(len(digitZeros))])
			}
			return r
		}, s)
	case 9:
		if v, ok := pyFloat(s, true); ok {
			return strconv.FormatFloat(v, 'g', 17, 64)
		}
	case 10:
		return s + m.pick([]string{".0", ".", "e0", "_0", ",", ".", "\u03a3", " x"})
	}
	return s
}
