package plot

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/stats"
)

var update = flag.Bool("update", false, "write the golden files")

func rate(correct, of int) *stats.Rate { return new(stats.NewRate(correct, of)) }

func micro(n int64) *int64 { return &n }

// comparison compares n tasks of which each run solved some.
func comparison(t testing.TB, n int, a, b func(int) bool) stats.Comparison {
	t.Helper()
	side := func(solved func(int) bool, cost int64) (all []stats.Scored) {
		for i := range n {
			outcome := "failed"
			if solved(i) {
				outcome = "solved"
			}
			all = append(all, stats.Scored{TaskID: strconv.Itoa(i), Question: "q", Outcome: outcome, CostMicroUSD: &cost, Tokens: 1000})
		}
		return all
	}
	c, err := stats.Compare(side(a, 12_000), side(b, 9_000))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// examples are plots of each kind. Each kind is drawn with one value, too, and with very many.
func examples(t testing.TB, label string, n int) map[string]Plot {
	outcomes := []string{"answered", "answered", "error", "no_answer"}
	var (
		levels  []LevelRate
		points  []CostPoint
		spent   []Spent
		turns   []Turn
		spans   []Span
		heat    []HeatRow
		trend   []TrendPoint
		costs   []RunCost
		columns []string
	)
	for i := range n {
		levels = append(levels, LevelRate{label + strconv.Itoa(i+1), rate(i%9+1, 12), rate(i%9+2, 12)})
		points = append(points, CostPoint{label + " " + strconv.Itoa(i), micro(int64(i*i%97) * 130_000), stats.NewRate(i*7%40+1, 60)})
		spent = append(spent, Spent{int64(i) * 4000, int64(i) * 21_337, int64(i) * 900})
		turns = append(turns, Turn{i + 1, int64(1500 + i*211%4000), int64(i * 67 % 700), int64(i*911%5000 + 300), i%5 == 3})
		spans = append(spans, Span{label + strconv.Itoa(i), 1, int64(i/4) * 20_000, int64(i/4)*20_000 + int64(i*37%9+3)*4000, outcomes[i%4], i == n-1})
		heat = append(heat, HeatRow{label + strconv.Itoa(i), []Cell{Cell(i % 5), Cell((i + 1) % 5), Cell((i * 3) % 5)}})
		trend = append(trend, TrendPoint{"day", fmt.Sprintf("20%02d-%02d-%02d", 20+i/336%80, i/28%12+1, i%28+1), i%4 == 3, 1, rate(i*5%30, 40), micro(1000)})
		costs = append(costs, RunCost{trend[i].Start, label + strconv.Itoa(i), label + strconv.Itoa(i/5), i%7 == 6, false, 20, new(i * 5 % 20), micro(int64(800_000 + i*i%97*1000))})
	}
	for i := range min(n, 3) {
		columns = append(columns, label+strconv.Itoa(i))
	}
	all := map[string]Plot{}
	for _, p := range []Plot{
		AccuracyByLevel(levels), AccuracyAgainstCost(points), CostOverTime(spent, int64(n%2)), Turns(turns), Attempts(spans), Repeats(columns, "attempt", heat), Trend(trend), CostCurve(costs),
		Difference(comparison(t, min(n, 2000), func(i int) bool { return i%3 != 0 }, func(i int) bool { return i%4 != 1 }), label+"A", label+"B"),
	} {
		all[p.Name] = p
	}
	return all
}

// maxBytes is how long an SVG is at most.
const maxBytes = 60_000

var (
	elements   = map[string]bool{"svg": true, "title": true, "desc": true, "rect": true, "path": true, "text": true}
	attribute  = map[string]bool{"xmlns": true, "class": true, "role": true, "viewBox": true, "font-family": true, "font-size": true, "width": true, "height": true, "fill": true, "color": true, "stroke": true, "stroke-width": true, "stroke-dasharray": true, "fill-opacity": true, "d": true, "x": true, "y": true, "text-anchor": true}
	coordinate = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)
)

// check checks what holds of any plot: well-formed XML of few elements, numbers in the
// view box, a table whose rows are as long as its columns.
func check(t testing.TB, p Plot) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(p.Name) || p.Title == "" || len(p.Columns) == 0 {
		t.Errorf("a plot %q with the title %q and the columns %q", p.Name, p.Title, p.Columns)
	}
	for _, row := range p.Rows {
		if len(row) != len(p.Columns) {
			t.Fatalf("%s: %d cells under %d columns: %q", p.Name, len(row), len(p.Columns), row)
		}
	}
	table, err := csv.NewReader(strings.NewReader(string(p.CSV()))).ReadAll()
	if err != nil || len(table) != len(p.Rows)+1 {
		t.Errorf("%s: CSV of %d lines for %d rows: %v", p.Name, len(table), len(p.Rows), err)
	}
	if p.SVG == "" {
		if p.Note == "" {
			t.Errorf("%s: neither a picture nor a reason", p.Name)
		}
		return
	}
	if len(p.SVG) > maxBytes {
		t.Errorf("%s: %d bytes", p.Name, len(p.SVG))
	}
	var height float64
	seen := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(p.SVG))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		seen[start.Name.Local]++
		if !elements[start.Name.Local] {
			t.Errorf("%s: an element <%s>", p.Name, start.Name.Local)
		}
		for _, a := range start.Attr {
			if !attribute[a.Name.Local] || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.Contains(a.Value, "url(") {
				t.Errorf("%s: %s=%q of <%s>", p.Name, a.Name.Local, a.Value, start.Name.Local)
			}
			number, _ := strconv.ParseFloat(a.Value, 64)
			switch a.Name.Local {
			case "viewBox":
				if _, err := fmt.Sscanf(a.Value, "0 0 440 %g", &height); err != nil || height < 60 || height > 1200 {
					t.Errorf("%s: the view box %q", p.Name, a.Value)
				}
			case "x":
				if number < 0 || number > width {
					t.Errorf("%s: a text at x %s", p.Name, a.Value)
				}
			case "y":
				if number < 0 || number > height {
					t.Errorf("%s: a text at y %s of %v", p.Name, a.Value, height)
				}
			case "d":
				for _, n := range coordinate.FindAllString(a.Value, -1) {
					if v, err := strconv.ParseFloat(n, 64); err != nil || math.Abs(v) > 1200 {
						t.Errorf("%s: the coordinate %s", p.Name, n)
					}
				}
			}
		}
	}
	if seen["svg"] != 1 || seen["title"] != 1 || seen["desc"] != 1 || seen["path"] == 0 {
		t.Errorf("%s: elements %v", p.Name, seen)
	}
}

// TestGolden compares each kind of plot with the file that was looked at.
func TestGolden(t *testing.T) {
	for name, p := range examples(t, "task <b> & ", 9) {
		check(t, p)
		if p.SVG == "" {
			t.Errorf("%s is empty: %s", name, p.Note)
		}
		file := filepath.Join("testdata", name+".svg")
		if *update {
			if err := os.WriteFile(file, []byte(p.SVG), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != string(p.SVG) {
			t.Errorf("%s is not %s (%v); look at what -update writes", name, file, err)
		}
	}
}

// TestLargeInput: 10,000 values of each kind, and the largest numbers, make a picture of bounded size.
func TestLargeInput(t *testing.T) {
	for _, n := range []int{1, 2, 60, 61, 500, 10_000} {
		for name, p := range examples(t, "x", n) {
			check(t, p)
			if p.SVG == "" {
				t.Errorf("%s of %d is empty: %s", name, n, p.Note)
			}
		}
	}
	huge := int64(math.MaxInt64)
	for _, p := range []Plot{
		AccuracyAgainstCost([]CostPoint{{"a", &huge, *rate(1, 2)}, {"b", micro(0), *rate(1, 2)}}),
		CostOverTime([]Spent{{huge, huge, huge}, {0, 0, 0}}, huge),
		Turns([]Turn{{1, huge, huge, huge, true}, {2, -huge, -huge, -huge, false}}),
		Attempts([]Span{{"a", 1, huge, huge, "", false}, {"b", 1, -huge, 0, "", true}}),
		CostCurve([]RunCost{{"0001-01-01", "a", "m", false, false, 1, new(1), &huge}, {"9999-12-31", "b", "n", false, false, math.MaxInt, new(math.MaxInt), &huge}}),
	} {
		check(t, p)
	}
}

// TestEmptyInput: without values there is a reason in place of a picture.
func TestEmptyInput(t *testing.T) {
	for _, p := range []Plot{
		AccuracyByLevel(nil), AccuracyByLevel([]LevelRate{{Name: "1"}}), AccuracyAgainstCost(nil), AccuracyAgainstCost([]CostPoint{{Label: "a", Rate: *rate(1, 2)}}),
		CostOverTime(nil, 0), Turns(nil), Attempts(nil), Repeats(nil, "run", nil), Repeats([]string{"1"}, "run", nil), Trend(nil),
		Trend([]TrendPoint{{Start: "soon", Rate: rate(1, 2)}}), Difference(stats.Comparison{}, "", ""),
		CostCurve(nil), CostCurve([]RunCost{{Day: "soon", Tasks: 1, CostMicroUSD: micro(1)}, {Day: "2031-02-03", Tasks: 1}, {Day: "2031-02-03", CostMicroUSD: micro(1)}}),
	} {
		if check(t, p); p.SVG != "" {
			t.Errorf("%s draws nothing as %s", p.Name, p.SVG)
		}
	}
}

// TestUnknownCost: a run of an unknown price is in the table, is not drawn as free, and the note says so.
func TestUnknownCost(t *testing.T) {
	p := AccuracyAgainstCost([]CostPoint{{"known", micro(500_000), *rate(3, 5)}, {"unknown", nil, *rate(5, 5)}})
	check(t, p)
	if len(p.Rows) != 2 || p.Rows[1][2] != "unknown" || p.Rows[1][8] != "" || p.Rows[0][8] != "yes" {
		t.Errorf("the table %q", p.Rows)
	}
	if !strings.HasPrefix(p.Note, "1 of 2 have no place in the picture") || strings.Contains(string(p.SVG), "2  unknown") {
		t.Errorf("the note %q, the picture %s", p.Note, p.SVG)
	}
	if p := CostOverTime([]Spent{{0, 5, 1}}, 3); !strings.Contains(p.Note, "The price of 3 calls is unknown") {
		t.Errorf("the note %q", p.Note)
	}
}

// TestCostCurve: an unknown number is in the table as unknown and is not drawn as 0; rehearsals are drawn only if there is
// nothing else, and runs of the errors of others never.
func TestCostCurve(t *testing.T) {
	runs := []RunCost{
		{"2031-02-03", "a", "m", false, false, 20, new(8), micro(1_000_000)}, {"2031-02-04", "b", "m", false, false, 20, new(0), micro(1_000_000)},
		{"2031-02-05", "c", "m", false, false, 20, nil, nil}, {"2031-02-06", "d", "r", true, false, 6, new(4), micro(2_638)},
		{"2031-02-07", "e", "m", false, true, 2, new(2), micro(9)}}
	p := CostCurve(runs)
	check(t, p)
	for i, want := range []string{"1.000000 0.050000 0.125000 ", "1.000000 0.050000 unknown ", "unknown unknown unknown ", "0.002638 0.000439 0.000659 rehearsal", "0.000009 0.000004 0.000004 only errors"} {
		if got := strings.Join(p.Rows[i][5:], " "); got != want {
			t.Errorf("run %d: %q, want %q", i, got, want)
		}
	}
	marks := func(p Plot) [2]int {
		return [2]int{strings.Count(string(p.SVG), "a3 3 0 1 0 6 0"), strings.Count(string(p.SVG), "h6v6")}
	}
	if got := marks(p); got != [2]int{2, 1} || strings.Contains(p.Note, "rehearsals") || strings.Contains(p.Note, "another model") {
		t.Errorf("%v marks, %s", got, p.Note)
	}
	if p := CostCurve(runs[3:4]); marks(p) != [2]int{1, 1} || !strings.Contains(p.Note, "All runs are rehearsals") {
		t.Errorf("rehearsals alone: %v marks, %s", marks(p), p.Note)
	}
	runs[1].Model = "n"
	if p := CostCurve(runs); !strings.Contains(p.Note, "another model") {
		t.Errorf("another model: %s", p.Note)
	}
}

// TestParetoFront compares the front with one that is counted by its definition.
func TestParetoFront(t *testing.T) {
	var points []CostPoint
	for i := range 40 {
		points = append(points, CostPoint{strconv.Itoa(i), micro(int64(i * 37 % 11)), stats.NewRate(i*23%13, 13)})
	}
	p := AccuracyAgainstCost(points)
	for i, a := range points {
		beaten := false
		for _, b := range points {
			beaten = beaten || *b.CostMicroUSD <= *a.CostMicroUSD && b.Rate.AccuracyPPM >= a.Rate.AccuracyPPM &&
				(*b.CostMicroUSD < *a.CostMicroUSD || b.Rate.AccuracyPPM > a.Rate.AccuracyPPM)
		}
		if on := p.Rows[i][8] == "yes"; on == beaten {
			t.Errorf("run %d, %d for %d: on the front %t, beaten %t", i, a.Rate.AccuracyPPM, *a.CostMicroUSD, on, beaten)
		}
	}
}

// TestAtOnce counts how many attempts are under way by a table of parts of time.
func TestAtOnce(t *testing.T) {
	var spans []Span
	for i := range 100 { // ten at a time, each 1,200 ms long, every 1,200 ms
		spans = append(spans, Span{"t", 1, int64(i/10) * 1200, int64(i/10)*1200 + 1200, answered, false})
	}
	p := Attempts(spans)
	ended := 0
	for i, row := range p.Rows {
		if row[2] != "10" {
			t.Errorf("part %d: %s at once", i, row[2])
		}
		n, _ := strconv.Atoi(row[3])
		ended += n
	}
	if ended != 100 {
		t.Errorf("%d ended", ended)
	}
}

// TestTicks: ticks are round numbers, and few.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		step      func(int64, int64) int64
		span, max int64
		want      int64
	}{{roundStep, 97, 5, 20}, {roundStep, 100, 5, 20}, {roundStep, 1, 5, 1}, {roundStep, 1_340_000, 6, 200_000},
		{timeStep, 95_000, 6, 15_000}, {timeStep, 3 * 3_600_000, 6, 1_800_000}, {timeStep, 400 * 86_400_000, 6, 100 * 86_400_000}, {timeStep, 0, 6, 1}} {
		if got := c.step(c.span, c.max); got != c.want {
			t.Errorf("the step for %d is %d, not %d", c.span, got, c.want)
		}
	}
	for want, got := range map[string]string{"$0": dollars(0), "$0.50": dollars(500_000), "$12": dollars(12_000_000), "$0.000001": dollars(1), "-$1.25": dollars(-1_250_000),
		"1.5k": count(1500), "2M": count(2_000_000), "999": count(999), "1.5 min": clock(90_000, 60_000), "30 s": clock(30_000, 15_000), "0": clock(0, 1)} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// TestContrast: each colour has a contrast of 4.5 with the background; the lines of the grid are no information.
func TestContrast(t *testing.T) {
	for class, colour := range colours {
		if c := contrast(colour, background); c < 4.5 && class != "grid" {
			t.Errorf("%s: %s has a contrast of %.2f", class, colour, c)
		}
	}
}

// contrast is the ratio of two colours by WCAG 2.
func contrast(a, b string) float64 {
	luminance := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestCSVFormula: a spreadsheet takes no cell for a formula; numbers stay numbers.
func TestCSVFormula(t *testing.T) {
	p := Plot{Columns: []string{"a"}, Rows: [][]string{{"=1+1"}, {"@x"}, {"+1"}, {"-1.5"}, {"-x"}}}
	if got, want := string(p.CSV()), "a\n'=1+1\n'@x\n'+1\n-1.5\n'-x\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// FuzzLabels: no label ends an element, is a link, or makes the XML invalid.
func FuzzLabels(f *testing.F) {
	for _, s := range []string{"", "</text><script>alert(1)</script>", `" onload="x`, "\x00\x1b[2J", "\xff\xfe", "\u202egnp.exe", "]]><!--", "&amp;&#0;", strings.Repeat("w", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		for _, p := range examples(t, label, 2) {
			check(t, p)
		}
	})
}
