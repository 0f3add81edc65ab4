package audit

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/judge"
)

// The rules by which two texts that the official scorer holds equal can differ,
// the gravest first.
const (
	numberDiffers = "number-differs"
	signDropped   = "sign-dropped"
	marksDropped  = "punctuation-dropped"
	otherSpelling = "spelling"
)

// collision names the rule by which an answer differs, as a person reads the two,
// from the gold that the official scorer holds it equal to; "" if it does not. The
// elements of lists are held against each other one by one, as the scorer does.
func collision(given, gold string) string {
	if given == gold {
		return ""
	}
	if numeric(gold) || !strings.ContainsAny(gold, between) {
		return elementCollision(given, gold)
	}
	a, b := elements(given), elements(gold)
	if len(a) != len(b) {
		return otherSpelling // the scorer does not hold them equal
	}
	worst := otherSpelling
	for i := range a {
		worst = graverRule(worst, elementCollision(a[i], b[i]))
	}
	return worst
}

func elementCollision(given, gold string) string {
	if numeric(gold) {
		return numberCollision(given, gold)
	}
	return textCollision(given, gold)
}

func graverRule(a, b string) string {
	order := []string{"", otherSpelling, marksDropped, signDropped, numberDiffers}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// numeric reports whether the official scorer takes a gold, or an element of one,
// for a number: it then takes a word for no finite one.
func numeric(gold string) bool { return judge.NonFinite("word", gold) }

// between is what parts the elements of a list.
const between = ",;"

func elements(s string) []string {
	return strings.Split(strings.ReplaceAll(s, ";", ","), ",")
}

// numberCollision compares where the scorer compares numbers, without the
// answer's $, % and commas.
func numberCollision(given, gold string) string {
	got, want := readings(given), readings(gold)
	if v, err := strconv.ParseFloat(strings.TrimSpace(gold), 64); len(want) == 0 && err == nil {
		want = []string{strconv.FormatFloat(v, 'f', -1, 64)}
	}
	switch {
	case len(got) > 0 && len(want) > 0:
		if meet(got, want) {
			return otherSpelling
		}
		return numberDiffers
	case strings.ContainsAny(strings.TrimFunc(given, outsideNumber), "$%,"):
		return marksDropped
	}
	return otherSpelling // an exponent, other digits: what is read the same everywhere
}

func outsideNumber(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("$%,.+-", r) }

// readings are the values, as numeralValue writes them, that a person can read a
// numeral as: commas or points between groups of three digits, commas as in India
// or between groups of four, and a comma for the decimal point.
func readings(s string) []string {
	var values []string
	add := func(s string) {
		if v, ok := goldNumeral([]byte(s)); ok && !slices.Contains(values, string(v)) {
			values = append(values, string(v))
		}
	}
	s = strings.TrimRight(strings.TrimSpace(s), ",.")
	add(s)
	if whole, fraction, found := strings.Cut(s, ","); found && !strings.Contains(fraction, ",") && !strings.Contains(fraction, ".") {
		add(groupedBy(whole, ".") + "." + fraction)
	}
	for _, separator := range []string{".", " ", "'", "_"} {
		add(groupedBy(s, separator))
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if groups := strings.Split(strings.TrimLeft(whole, "+-$"), ","); grouped(groups, 2, 3) || grouped(groups, 4, 4) {
		add(strings.ReplaceAll(whole, ",", "") + "." + fraction + "0")
	}
	return values
}

// groupedBy returns a numeral with another separator of its groups as one with
// commas.
func groupedBy(s, separator string) string {
	if strings.Contains(s, ",") {
		return s
	}
	return strings.ReplaceAll(s, separator, ",")
}

// grouped reports whether digits stand in groups of a length, but for the first,
// which may be shorter, and the last.
func grouped(groups []string, length, last int) bool {
	for i, g := range groups {
		want := length
		if i == len(groups)-1 {
			want = last
		}
		if !digits([]byte(g)) || len(g) > want || i > 0 && len(g) < want || g == "" {
			return false
		}
	}
	return len(groups) > 1
}

// meet reports whether two numerals have a reading in common. What differs only
// beyond what a float holds is the same, unless both are whole.
func meet(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
			v, errV := strconv.ParseFloat(x, 64)
			w, errW := strconv.ParseFloat(y, 64)
			if errV == nil && errW == nil && v == w && strings.Contains(x+y, ".") {
				return true
			}
		}
	}
	return false
}

// digitsCollision compares two texts of the same digits with other marks between
// them, or a point before them.
func digitsCollision(a, b string) string {
	if a == b || meet(readings(a), readings(b)) {
		return otherSpelling
	}
	ga, ma := digitGroups(a)
	gb, mb := digitGroups(b)
	marks := strings.Join(ma, "") + strings.Join(mb, "")
	switch {
	case strings.HasPrefix(a, ".") != strings.HasPrefix(b, "."):
		return numberDiffers
	case slices.Equal(ga, gb) && slices.Equal(ma, mb), compactDate(ga, gb), compactDate(gb, ga):
		return otherSpelling
	case bookNumber(ga) && bookNumber(gb) && strings.Trim(marks, "- ") == "":
		return otherSpelling
	case strings.ContainsAny(marks, arithmetic):
		return numberDiffers
	case slices.Equal(ga, gb) && len(ga) > 2:
		return otherSpelling // a date or the number of a thing, parted by other marks
	case slices.Equal(ga, gb) && strings.Contains(marks, "/") && strings.Contains(marks, "."):
		return numberDiffers // a fraction is no decimal
	case !slices.Equal(ga, gb) && (marked(ga, ma, len(gb)) || marked(gb, mb, len(ga))):
		return numberDiffers
	}
	return marksDropped
}

const arithmetic = "+*^"

// digitGroups cuts a text into its digits and the marks between them; a comma is
// no other mark than a space.
func digitGroups(s string) (groups, marks []string) {
	s = strings.NewReplacer("^{", "^", "^(", "^").Replace(s) // brackets that say how far a power goes
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	groups = strings.FieldsFunc(s, func(r rune) bool { return !digit(r) })
	for _, mark := range strings.FieldsFunc(s, digit) {
		marks = append(marks, strings.Trim(mark, " ,;"))
	}
	return groups, marks
}

// bookNumber reports whether digits are an ISBN, the last of them being its check
// digit.
func bookNumber(groups []string) bool {
	all := strings.Join(groups, "")
	sum, short := 0, len(all) == 10
	for i := range len(all) {
		switch d := int(all[i] - '0'); {
		case short:
			sum += (10 - i) * d
		case i%2 == 1:
			sum += 3 * d
		default:
			sum += d
		}
	}
	return short && sum%11 == 0 || len(all) == 13 && (strings.HasPrefix(all, "978") || strings.HasPrefix(all, "979")) && sum%10 == 0
}

// sameDialled reports whether two texts of the same digits are one telephone
// number, with its country's: what parts it means nothing.
func sameDialled(a, b string) bool {
	ga, ma := digitGroups(a)
	_, mb := digitGroups(b)
	size := len(strings.Join(ga, ""))
	return size >= 8 && size <= 15 && only(strings.Join(ma, "")+strings.Join(mb, ""), "-()") == strings.Join(ma, "")+strings.Join(mb, "")
}

// sameTime reports whether two texts of the same digits are one time of day, as
// what stands behind them says.
func sameTime(a, b string, behind []rune) bool {
	half, _, _ := strings.Cut(strings.ToLower(string(behind)), " ")
	ga, ma := digitGroups(a)
	gb, mb := digitGroups(b)
	return (half == "am" || half == "pm") && slices.Equal(ga, gb) && len(ga) == 2 && len(ga[0]) <= 2 && len(ga[1]) == 2 && onTheClock(ma) && onTheClock(mb)
}

func onTheClock(marks []string) bool { return len(marks) == 1 && (marks[0] == ":" || marks[0] == ".") }

// compactDate reports whether one side is a date in eight digits, and the other one
// with its parts apart.
func compactDate(plain, apart []string) bool {
	return len(plain) == 1 && len(apart) == 3 && len(plain[0]) == 8 && len(apart[1]) == 2 && max(len(apart[0]), len(apart[2])) == 4
}

// marked reports whether marks make several numbers of digits, or another one,
// and not a name, a version or the number of a thing: other is how many groups the
// other side has.
func marked(groups, marks []string, other int) bool {
	all := strings.Join(marks, "")
	short := func(g string) bool { return len(g) <= 2 }
	switch {
	case strings.Contains(all, "/"):
		return true
	case strings.Contains(all, "."):
		return len(marks) == 1 || other > 1
	case !strings.Contains(all, "-"):
		return false
	case len(groups) == 2:
		return short(groups[0]) && short(groups[1])
	}
	year := slices.IndexFunc(groups, func(g string) bool { return len(g) == 4 })
	return len(groups) == 3 && other == 3 && (year == 0 || year == 2) && short(groups[1]) && short(groups[2-year])
}
