package audit

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
)

// saidNumber is a number in an answer: what it can be read as, and the words
// around it that decide what it is of.
type saidNumber struct {
	values     []float64
	start, end int    // in the answer, in lower case
	unit       string // the word behind it; "" for none
}

// otherNumber reports whether an answer gives another number first than a numeric
// gold answer, or several of which the gold is one; why is what it gives. Numbers of
// the question, conversions of units, dates, sums and rounded values are no others.
func otherNumber(answer, gold, question string) (why string, found bool) {
	value, ok := probe.Numeral(gold)
	if !ok {
		return "", false
	}
	want, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return "", false
	}
	text := strings.ToLower(answer)
	said := saidNumbers(text)
	if len(said) == 0 || datedAs(text, want) {
		return "", false
	}
	right := func(n saidNumber) bool {
		return slices.ContainsFunc(n.values, func(v float64) bool { return sameAmount(v, want, n.unit) })
	}
	asked := saidNumbers(strings.ToLower(question))
	fresh := slices.DeleteFunc(slices.Clone(said), func(n saidNumber) bool {
		return !right(n) && slices.ContainsFunc(asked, func(q saidNumber) bool { return q.values[0] == n.values[0] })
	})
	if len(fresh) == 0 {
		fresh = said
	}
	last := fresh[len(fresh)-1]
	if worked := strings.LastIndexAny(text, "=≈→"); worked >= 0 && worked < last.start && right(last) {
		return "", false // a sum with its result
	}
	if !right(fresh[0]) {
		return "another number first than the expected one", true
	}
	for i := 1; i < len(said); i++ {
		a, b := said[i-1], said[i]
		if right(a) != right(b) && alternatives(text[a.end:b.start], a, b) {
			return "several numbers, of which the expected one is one", true
		}
	}
	return "", false
}

// numberWords are the words of English numbers below a hundred.
func numberWords() map[string]float64 {
	all := map[string]float64{}
	for i, word := range strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen") {
		all[word] = float64(i)
	}
	for i, word := range strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety") {
		all[word] = float64(10 * (i + 2))
	}
	return all
}

// spelled returns the number that a text in lower case begins with in English
// words, such as four hundred and thirty-one, and where it ends; 0 if there is none.
func spelled(text string) (value float64, end int) {
	words, below := numberWords(), 0.0
	for rest := 0; ; {
		m := wordBehind.FindStringSubmatchIndex(text[rest:])
		if m == nil {
			break
		}
		word := text[rest+m[2] : rest+m[3]]
		small, known := words[word]
		scale := map[string]float64{"hundred": 1e2, "dozen": 12, "thousand": 1e3, "million": 1e6, "billion": 1e9}[word]
		switch {
		case known && (end == 0 || below == 0 || math.Mod(below, 100) == 0 || small > 0 && small < 10 && math.Mod(below, 10) == 0 && math.Mod(below, 100) >= 20):
			below += small
		case scale == 100 && (end == 0 || below > 0):
			below = max(below, 1) * scale
		case scale > 0 && (end == 0 || below > 0):
			value, below = value+max(below, 1)*scale, 0
		case word == "and" && end > 0 && scaleBefore(text[:end]):
			rest += m[1]
			continue
		default:
			return value + below, end
		}
		rest += m[1]
		end = rest
	}
	return value + below, end
}

// scaleBefore reports whether a text ends in hundred or thousand, behind which
// English numbers go on with and.
func scaleBefore(text string) bool {
	return strings.HasSuffix(text, "hundred") || strings.HasSuffix(text, "thousand") || strings.HasSuffix(text, "million")
}

// scales are the words and letters that multiply the number before them.
func scales() map[string]float64 {
	return map[string]float64{"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "millions": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9, "billions": 1e9, "bn": 1e9, "b": 1e9,
		"trillion": 1e12, "dozen": 12, "dozens": 12, "lakh": 1e5, "crore": 1e7, "%": 0.01, "percent": 0.01, "‰": 0.001}
}

var (
	numberIn   = regexp.MustCompile(`[0-9](?:[0-9.,'’_  ]{0,40}[0-9])?|[a-z]+`)
	powerOfTen = regexp.MustCompile(`^\s*(?:[×x*·]\s*10\s*(?:\^|\*\*)\s*\{?|e)([+-−]?[0-9]{1,2})\}?`)
	slashed    = regexp.MustCompile(`^\s*[/⁄:]\s*([0-9]+)\b`)
	wordBehind = regexp.MustCompile(`^[\s-]*([\p{L}%‰°µ]+)`)
)

// saidNumbers returns the numbers of a text in lower case: numerals, and English
// words.
func saidNumbers(text string) (all []saidNumber) {
	for from := 0; ; {
		at := numberIn.FindStringIndex(text[from:])
		if at == nil {
			return all
		}
		start, end := from+at[0], from+at[1]
		from = end
		said := text[start:end]
		var values []float64
		if value, length := spelled(text[start:]); length > 0 && !isDigit(said[0]) {
			values, end = []float64{value}, start+length
		} else if isDigit(said[0]) {
			if r := strings.TrimRight(text[:start], " "); strings.HasSuffix(r, ".") && (len(r) == 1 || !isDigit(r[len(r)-2])) && strings.HasSuffix(text[:start], ".") {
				said = "." + said
			}
			values, end = numeralsOf(said, end)
			from = end
		}
		if len(values) == 0 {
			continue
		}
		n := saidNumber{values: values, start: start, end: end}
		if m := powerOfTen.FindStringSubmatchIndex(text[end:]); m != nil {
			if power, err := strconv.Atoi(strings.ReplaceAll(text[end+m[2]:end+m[3]], "−", "-")); err == nil {
				n.values, n.end = []float64{values[0] * math.Pow10(power)}, end+m[1]
			}
		} else if m := slashed.FindStringSubmatchIndex(text[end:]); m != nil {
			if by, err := strconv.ParseFloat(text[end+m[2]:end+m[3]], 64); err == nil && by != 0 { // a fraction, or a time
				n.values, n.end = append(n.values, values[0]/by, values[0]*60+by, values[0]+by/60), end+m[1]
			}
		}
		for m := wordBehind.FindStringSubmatchIndex(text[n.end:]); m != nil; m = wordBehind.FindStringSubmatchIndex(text[n.end:]) {
			n.unit = text[n.end+m[2] : n.end+m[3]]
			by, known := scales()[n.unit]
			if !known {
				break
			}
			for _, v := range n.values {
				n.values = append(n.values, v*by)
			}
			if n.end += m[1]; len(n.values) > 16 {
				break
			}
		}
		all, from = append(all, n), n.end
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// numeralsOf returns what digits and the marks between them can be read as, and
// where they end. Marks that part no groups part two numbers, of which the first
// is returned.
func numeralsOf(said string, end int) (values []float64, ends int) {
	for {
		for _, value := range readings(strings.NewReplacer(" ", " ", " ", " ", "’", "'").Replace(said)) {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			return values, end
		}
		cut := strings.LastIndexFunc(said, func(r rune) bool { return !('0' <= r && r <= '9') })
		if cut <= 0 {
			return nil, end
		}
		end -= len(said) - cut
		rest := strings.TrimRightFunc(said[:cut], func(r rune) bool { return !('0' <= r && r <= '9') })
		end -= cut - len(rest)
		said = rest
	}
}

// conversions are the ratios of units of one kind that answers convert.
func conversions() []float64 {
	return []float64{10, 100, 1000, 1e4, 1e6, 1e9, 7, 12, 24, 52, 60, 365, 1440, 3600, 86400, 3, 36, 16, 2.54, 25.4, 0.3048, 0.9144, 1.609344, 1.852, 0.45359237, 28.349523, 3.785412, 4.54609, 4.184}
}

// sameAmount reports whether a number of an answer is the expected one: but for its
// sign, rounded on either side, or in another unit that is named behind it.
func sameAmount(said, want float64, unit string) bool {
	said, want = math.Abs(said), math.Abs(want)
	if closeTo(said, want, 1e-9) || roundsTo(said, want) || roundsTo(want, said) {
		return true
	}
	if unit == "" || slices.Contains(joiningWords(), unit) || said == 0 || want == 0 {
		return false
	}
	ratio := max(said/want, want/said)
	return slices.ContainsFunc(conversions(), func(c float64) bool { return closeTo(ratio, max(c, 1/c), 5e-3) })
}

func closeTo(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b))
}

// roundsTo reports whether a number, written with fewer digits, is another one of
// at least two digits.
func roundsTo(exact, short float64) bool {
	digits := strconv.FormatFloat(short, 'f', -1, 64)
	_, fraction, _ := strings.Cut(digits, ".")
	if len(digits) < 2 || exact == 0 {
		return false
	}
	scale := math.Pow10(len(fraction))
	cut := math.Trunc(exact*scale) / scale
	return closeTo(math.Round(exact*scale)/scale, short, 1e-9) || len(fraction) > 0 && closeTo(cut, short, 1e-9)
}

// month reports whether a word in lower case is the name of a month, or begins it.
func month(word string) bool {
	months := strings.Fields("january february march april may june july august september october november december")
	return len(word) >= 3 && slices.ContainsFunc(months, func(name string) bool { return strings.HasPrefix(name, word) })
}

// datedAs reports whether a text is a date of which a number is a part: what day
// or year is asked for decides which.
func datedAs(text string, want float64) bool {
	parts := strings.FieldsFunc(text, func(r rune) bool { return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z') })
	dated := calendarDate.MatchString(text)
	for _, part := range parts {
		dated = dated || month(part)
	}
	return dated && slices.ContainsFunc(parts, func(part string) bool {
		v, err := strconv.ParseFloat(strings.TrimRight(part, "dhnrst"), 64)
		return err == nil && v == want
	})
}

var calendarDate = regexp.MustCompile(`\b(?:[0-9]{4}([-/.])[0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})\b`)

// joiningWords stand between numbers of which either may be meant.
func joiningWords() []string {
	return []string{"or", "to", "and", "maybe", "perhaps", "possibly", "probably", "likely", "either", "alternatively", "otherwise", "even", "also", "else", "if", "not", "then", "at", "most", "least",
		"more", "about", "around", "approximately", "roughly", "though", "but", "could", "might", "be", "it", "is", "as", "well", "but", "up", "through", "until", "between", "oder", "ou", "o", "bis", "à", "y", "und", "et"}
}

// alternatives reports whether what stands between two numbers offers both: words
// such as or, a dash, a comma. Units behind each that differ make them two amounts.
func alternatives(gap string, a, b saidNumber) bool {
	joined := strings.ContainsAny(gap, ",;/|–—-~")
	for _, word := range strings.FieldsFunc(gap, func(r rune) bool { return !probe.IsWordRune(r) }) {
		switch {
		case slices.Contains(joiningWords(), word):
			joined = true
		case word != a.unit || b.unit != "" && a.unit != b.unit:
			return false
		}
	}
	return joined && !strings.ContainsAny(gap, "(=≈→±+*×÷[")
}
