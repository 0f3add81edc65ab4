package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

var normalizationCollision = Check{
	ID: "AUD-5", Name: "normalization-collision", Severity: Critical, Gate: true,
	Title: "no credit for an answer that says nothing",
	Why: "the official scorer strips white space and punctuation and reads what is no numeral as infinite: an answer that " +
		"vanishes on the way can be equal to another one that does, and $1.50 is 150, 3/4 is 34 and C# is C",
	Fix:   "void the task; where the two are one answer to its question, dismiss the finding and say why",
	Skips: "the gold answers are not at hand",
	Rules: []Rule{
		{"empty-credited", Critical, 1, "credit for an answer of which nothing is left to be compared, or by the LLM judge for one that shows nothing", "an answer"},
		{"non-finite-credited", Critical, 1, "credit for an answer that the scorer reads as no finite number", "an answer"},
		{"verdict-differs", Critical, 1, "an official verdict that the official scorer does not give", "the verdict that the official scorer gives"},
		{numberDiffers, High, 2, "credit for another number, date or fraction than the expected one, which the scorer's dropping of marks makes the same", "the expected number"},
		{signDropped, High, 2, "credit for an answer that differs from the expected one in a minus, plus or # that means something", "the expected sign"},
		{marksDropped, ToReview, 2, "credit for an answer with marks between its letters or digits that the expected one does not have, or without those it has", "the expected marks"},
		{otherSpelling, Info, 2, "credit for an answer in another spelling: case, spaces, a currency, outer punctuation", "for the record"},
	},
	run: func(e *evidence, n *notes) {
		n.gapIf(e.blind(), "%s: verdicts cannot be computed again", noGold)
		e.each(func(t *taskEvidence, a *attemptEvidence) {
			if a.Judgment == nil || a.Answer == nil {
				return
			}
			at := t.at(a, a.Judged)
			given, gold := a.Answer.Answer, e.Gold[t.Plan.TaskID]
			official, byModel := a.Judgment.Official, a.Judgment.Judged != nil && *a.Judgment.Judged
			n.findIf(!official && byModel && judge.Blank(given), "empty-credited", at, "credit by the LLM judge for an answer that shows nothing")
			if e.Gold == nil {
				return
			}
			credits := e.credits(t, a)
			if official != credits {
				n.find("verdict-differs", at, fmt.Sprintf("official verdict %v", official))
			}
			switch rule := worthless(given, gold); {
			case !official:
			case rule == "empty-credited":
				n.find(rule, at, "credit for an answer of which the official scorer compares nothing")
			case rule != "":
				n.find(rule, at, "credit for an answer that the scorer takes for no finite number")
			case credits:
				if rule := collision(strings.TrimSpace(given), strings.TrimSpace(gold)); rule != "" {
					n.find(rule, at, collisions[rule])
				}
			}
		})
	},
}

// collisions are what findings say of the rules that collision names.
var collisions = map[string]string{
	numberDiffers: "credit for another number, as long as the marks between digits are read",
	signDropped:   "credit for an answer with another sign",
	marksDropped:  "credit for an answer with other marks between its letters or digits",
	otherSpelling: "credit for an answer in another spelling",
}

// worthless names the rule by which credit of the official scorer for an answer is worth nothing, since others
// would have been credited, too; "" if it is worth something. The scorer compares texts without white space and
// ASCII punctuation, and lists without what parts them; nothing may be left of an answer then. What is equal but
// for white space and case was not made equal by dropping what it says.
func worthless(given, gold string) string {
	dropped := asciiMarks
	if strings.ContainsAny(gold, between) {
		dropped = between
	}
	lowerGiven, lowerGold := strings.ToLower(without(given, "")), strings.ToLower(without(gold, "")) // as the scorer does
	switch {
	case lowerGiven == lowerGold:
		return ""
	case without(given, dropped) == "":
		return "empty-credited"
	case judge.NonFinite(given, gold):
		return "non-finite-credited"
	}
	return ""
}

// without returns s without white space and the given characters.
func without(s, dropped string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(dropped, r) {
			return -1
		}
		return r
	}, s)
}

var coverageDenominator = Check{
	ID: "AUD-11", Name: "coverage-denominator", Severity: Critical, Gate: true,
	Title: "the score is over all planned tasks",
	Why: "leaving out what failed is the oldest way to a good rate: errors, timeouts and tasks never begun count as wrong; " +
		"where every attempt failed, the score is of no model",
	Fix:   "count every planned task; where no attempt was completed, start a new run with an endpoint that answers",
	Skips: "there is no plan to count by",
	Rules: []Rule{
		{"coverage-differs", Critical, 1, "results or outcomes that are not one for each planned task", "one result for each planned task"},
		{"headline-differs", Critical, 1, "a headline that is not the correct ones over the planned tasks", ""},
		{"nothing-completed", Critical, 1, "a run in which every attempt ended in an error: it measured the endpoint, not the model", "an attempt that ended with an answer or without one"},
	},
	run: func(e *evidence, n *notes) {
		if len(e.Manifest.Tasks) == 0 {
			n.gap("there is no plan to count by")
			return
		}
		of, seen, correct := map[string]bool{}, map[string]bool{}, 0
		for _, t := range e.Manifest.Tasks {
			of[t.TaskID] = true
		}
		for r := range e.Results {
			if seen[r.TaskID] || !of[r.TaskID] {
				n.find("coverage-differs", place{}, fmt.Sprintf("a result for %q, which is not planned or stands there twice", r.TaskID))
			}
			seen[r.TaskID] = true
			if r.OfficialCorrect != nil && *r.OfficialCorrect {
				correct++
			}
		}
		n.findIf(len(seen) != len(of), "coverage-differs", place{}, fmt.Sprintf("results for %d tasks", len(seen)), fmt.Sprintf("for the %d planned", len(of)))
		o := e.Summary.Outcomes
		if counted := o.Error + o.Failed + o.Skipped + o.Solved + o.Unscored; counted != len(of) {
			n.find("coverage-differs", place{}, fmt.Sprintf("outcomes of %d tasks", counted), fmt.Sprintf("of the %d planned", len(of)))
		}
		if s := e.Summary.Scores; s != nil && (s.Official.Correct != correct || s.Official.Planned != len(of) || s.Judged != nil && s.Judged.Planned != len(of)) {
			n.find("headline-differs", place{}, fmt.Sprintf("a headline of %d of %d", s.Official.Correct, s.Official.Planned), fmt.Sprintf("%d of %d", correct, len(of)))
		}
		failed, completed := 0, false
		e.each(func(_ *taskEvidence, a *attemptEvidence) {
			if a.Ended != nil && a.Ended.Outcome == trajectory.Errored {
				failed++
			} else {
				completed = true
			}
		})
		n.findIf(failed > 0 && !completed, "nothing-completed", place{}, fmt.Sprintf("%d attempts, and each ended in an error", failed))
	},
}

var scorerParity = Check{
	ID: "AUD-19", Name: "scorer-parity", Severity: High,
	Title: "the official verdicts follow the official rules, and no answer that says nothing is credited",
	Why: "a scorer that is kinder than the leaderboard's raises every score it gives, and no single score shows it. One that " +
		"credits an empty answer, None, inf or {} credits a program that does not answer",
	Fix:    "score the answers with the official rules; tell the publisher of the data set of a task whose answer anything is credited for",
	Skips:  "the gold answers are not at hand",
	Absent: "the run is not scored",
	Rules: []Rule{
		{"non-answer-credited", High, 1, "an official verdict that credits an answer such as None, inf, {} or N/A, where something else is expected", "an answer"},
		{"verdicts-differ", High, 1, "official verdicts that are not those of the official rules", "those of the official rules"},
		{"gold-accepts-non-answers", Info, 1, "a task for which the official rules credit an answer that says nothing", "an expected answer that only answers equal"},
	},
	run: func(e *evidence, n *notes) {
		switch {
		case !e.scored():
			n.absent("the plan has no gold answers, and the run no official verdicts")
			return
		case e.blind():
			n.gap("%s: verdicts cannot be computed again", noGold)
			return
		}
		differ, first := 0, int64(-1)
		accepting := n.aside()
		each := func(t *taskEvidence, a *attemptEvidence) {
			if a.Judgment == nil || a.Answer == nil {
				return
			}
			given, gold := a.Answer.Answer, e.Gold[t.Plan.TaskID]
			credits := e.credits(t, a)
			if a.Judgment.Official != credits {
				if differ++; first < 0 || a.Judged < first {
					first = a.Judged
				}
			}
			n.findIf(a.Judgment.Official && (!credits || worthless(given, gold) != "") && (isPunctuation(given) || isNonAnswer(given)), "non-answer-credited", t.at(a, a.Judged), "credit for an answer that says nothing")
		}
		e.eachTask(func(t *taskEvidence) {
			for _, a := range t.Attempts {
				each(t, a)
			}
			// A gold answer that credits anything is the data set's doing and no run's: it is noted.
			gold := e.Gold[t.Plan.TaskID]
			if !slices.ContainsFunc(nonAnswers, func(s string) bool { return judge.QuestionScorer(&s, gold) && worthless(s, gold) != "" }) {
				return
			}
			at := place{task: t, given: true}
			if len(t.Attempts) > 0 {
				at.seq = t.Attempts[0].Begun
			}
			accepting.find("gold-accepts-non-answers", at, "a task for which the official rules credit an answer that says nothing")
		})
		n.findIf(differ > 0, "verdicts-differ", place{seq: first}, fmt.Sprintf("official verdicts that the official rules do not give: %d", differ))
		n.join(accepting)
	},
}

// nonAnswers are answers that a program gives which has none.
var nonAnswers = []string{"", ".", "?", "-", "...", "{}", "[]", "()", "\"\"", ",", ";", "N/A", "None", "null", "nil", "undefined", "NaN", "inf", "-inf", "infinity",
	"unknown", "unanswerable", "not available", "no answer", "I do not know", "I don't know", "not found", "error"}

// isNonAnswer reports whether an answer is one of nonAnswers by its words.
func isNonAnswer(answer string) bool {
	words := wordsOnly(answer)
	return words != "" && slices.ContainsFunc(nonAnswers, func(s string) bool { return wordsOnly(s) == words })
}

// isPunctuation reports whether an answer is nothing but punctuation and what cannot be seen.
func isPunctuation(answer string) bool {
	return judge.Blank(strings.Map(func(r rune) rune {
		if unicode.IsPunct(r) || strings.ContainsRune(asciiMarks, r) {
			return -1
		}
		return r
	}, answer))
}

// wordsOnly is a text in lower case without anything but letters and digits.
func wordsOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// The rules by which two texts that the official scorer holds equal can differ, the gravest first.
const (
	numberDiffers = "number-differs"
	signDropped   = "sign-dropped"
	marksDropped  = "punctuation-dropped"
	otherSpelling = "spelling"
)

// collision names the rule by which an answer differs, as a person reads the two, from the gold that the official
// scorer holds it equal to; "" if it does not. The elements of lists are compared one by one, as the scorer does.
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

// elementCollision compares where the scorer compares numbers, without the answer's $, % and commas, or texts.
func elementCollision(given, gold string) string {
	if !numeric(gold) {
		return textCollision(given, gold)
	}
	got, want := readings(given), readings(gold)
	if v, err := strconv.ParseFloat(strings.TrimSpace(gold), 64); len(want) == 0 && err == nil {
		want = []string{strconv.FormatFloat(v, 'f', -1, 64)}
	}
	outside := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("$%,.+-", r) }
	switch {
	case len(got) > 0 && len(want) > 0 && !meet(got, want):
		return numberDiffers
	case (len(got) == 0 || len(want) == 0) && strings.ContainsAny(strings.TrimFunc(given, outside), "$%,"):
		return marksDropped
	}
	return otherSpelling // an exponent, other digits: what is read the same everywhere
}

func graverRule(a, b string) string {
	order := []string{"", otherSpelling, marksDropped, signDropped, numberDiffers}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// numeric reports whether the official scorer takes a gold, or an element of one, for a number: it then takes a
// word for no finite one.
func numeric(gold string) bool { return judge.NonFinite("word", gold) }

// between is what parts the elements of a list.
const between = ",;"

func elements(s string) []string {
	return strings.Split(strings.ReplaceAll(s, ";", ","), ",")
}

// readings are the values, as numeralValue writes them, that a person can read a numeral as: commas or points
// between groups of three digits, commas as in India or between groups of four, and a comma for the decimal point.
func readings(s string) []string {
	var values []string
	add := func(s string) {
		if v, ok := probe.Numeral(s); ok && !slices.Contains(values, string(v)) {
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

// groupedBy returns a numeral with another separator of its groups as one with commas.
func groupedBy(s, separator string) string {
	if strings.Contains(s, ",") {
		return s
	}
	return strings.ReplaceAll(s, separator, ",")
}

// grouped reports whether digits stand in groups of a length, but for the first, which may be shorter, and the
// last.
func grouped(groups []string, length, last int) bool {
	for i, g := range groups {
		want := length
		if i == len(groups)-1 {
			want = last
		}
		if strings.Trim(g, "0123456789") != "" || len(g) > want || i > 0 && len(g) < want || g == "" {
			return false
		}
	}
	return len(groups) > 1
}

// meet reports whether two numerals have a reading in common. What differs only beyond what a float holds is the
// same, unless both are whole.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			v, errV := strconv.ParseFloat(x, 64)
			w, errW := strconv.ParseFloat(y, 64)
			return x == y || errV == nil && errW == nil && v == w && strings.Contains(x+y, ".")
		})
	})
}

// digitsCollision compares two texts of the same digits with other marks between them, or a point before them.
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

// digitGroups cuts a text into its digits and the marks between them; a comma is no other mark than a space.
func digitGroups(s string) (groups, marks []string) {
	s = strings.NewReplacer("^{", "^", "^(", "^").Replace(s) // brackets that say how far a power goes
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	groups = strings.FieldsFunc(s, func(r rune) bool { return !digit(r) })
	for _, mark := range strings.FieldsFunc(s, digit) {
		marks = append(marks, strings.Trim(mark, " ,;"))
	}
	return groups, marks
}

// bookNumber reports whether digits are an ISBN, the last of them being its check digit.
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

// sameDialled reports whether two texts of the same digits are one telephone number, with its country's: what parts
// it means nothing.
func sameDialled(a, b string) bool {
	ga, ma := digitGroups(a)
	_, mb := digitGroups(b)
	size := len(strings.Join(ga, ""))
	return size >= 8 && size <= 15 && only(strings.Join(ma, "")+strings.Join(mb, ""), "-()") == strings.Join(ma, "")+strings.Join(mb, "")
}

// sameTime reports whether two texts of the same digits are one time of day, as what stands behind them says.
func sameTime(a, b string, behind []rune) bool {
	half, _, _ := strings.Cut(strings.ToLower(string(behind)), " ")
	ga, ma := digitGroups(a)
	gb, mb := digitGroups(b)
	return (half == "am" || half == "pm") && slices.Equal(ga, gb) && len(ga) == 2 && len(ga[0]) <= 2 && len(ga[1]) == 2 && onTheClock(ma) && onTheClock(mb)
}

func onTheClock(marks []string) bool { return len(marks) == 1 && (marks[0] == ":" || marks[0] == ".") }

// compactDate reports whether one side is a date in eight digits, and the other one with its parts apart.
func compactDate(plain, apart []string) bool {
	return len(plain) == 1 && len(apart) == 3 && len(plain[0]) == 8 && len(apart[1]) == 2 && max(len(apart[0]), len(apart[2])) == 4
}

// marked reports whether marks make several numbers of digits, or another one, and not a name, a version or the
// number of a thing: other is how many groups the other side has.
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

// asciiMarks are the punctuation that the official scorer drops.
const asciiMarks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// stripped is a text in the form that the official scorer compares, but for case, and what it drops: gaps[i] stands
// before kept[i], the last one behind all.
type stripped struct {
	kept []rune
	gaps []string
}

func strip(s string) stripped {
	var t stripped
	from := 0
	for i, r := range s {
		if space(r) || strings.ContainsRune(asciiMarks, r) {
			continue
		}
		t.kept, t.gaps = append(t.kept, r), append(t.gaps, s[from:i])
		_, size := utf8.DecodeRuneInString(s[i:])
		from = i + size
	}
	t.gaps = append(t.gaps, s[from:])
	return t
}

func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func (t stripped) digit(i int) bool {
	return i >= 0 && i < len(t.kept) && '0' <= t.kept[i] && t.kept[i] <= '9'
}

// marks are those of a gap.
func (t stripped) marks(i int) string { return strings.Join(strings.FieldsFunc(t.gaps[i], space), "") }

// digitsFrom returns the digits from i on, up to the first other character, with the marks between them, and a
// point that belongs to them.
func (t stripped) digitsFrom(i int) (text string, end int) {
	var b strings.Builder
	if head, pointed := strings.CutSuffix(t.gaps[i], "."); pointed && (head == "" && i == 0 || strings.TrimRightFunc(head, space) != head) {
		b.WriteByte('.')
	}
	for end = i; t.digit(end); end++ {
		if end > i && t.gaps[end] != "" {
			mark := t.marks(end)
			if mark == "" {
				mark = " "
			}
			b.WriteString(mark)
		}
		b.WriteRune(t.kept[end])
	}
	return b.String(), end
}

// negative reports whether the digits at i have a minus sign: a hyphen right before them that stands behind no
// word, nor one in brackets, and is no dash.
func (t stripped) negative(i int) bool {
	head, ok := strings.CutSuffix(strings.TrimRight(t.gaps[i], "$"), "-")
	return ok && !strings.HasSuffix(head, "-") && (i == 0 || head != "" && !strings.ContainsAny(head[len(head)-1:], ")]}"))
}

// ends returns the signs that belong to what stands before a gap, as in C++, F# or a grade of A-.
func (t stripped) ends(i int) string {
	if i == 0 {
		return ""
	}
	gap := t.gaps[i]
	if strings.HasPrefix(gap, "-") && i == len(t.kept) {
		word := t.wordBefore(i)
		if len(word) <= 2 && strings.IndexFunc(string(word), unicode.IsUpper) >= 0 {
			return "-"
		}
	}
	signs := gap[:len(gap)-len(strings.TrimLeft(gap, "+#"))]
	if strings.Contains(signs, "#") && len(t.wordBefore(i)) > 1 {
		return "" // the sign of a number or a tag
	}
	return signs
}

// chessMove is a move as chess players write it, without what they say of it.
var chessMove = lazily(`^(?:[KQRBN][a-h]?[1-8]?x?[a-h][1-8]|(?:[a-h]x)?[a-h][1-8](?:=?[QRBN])?|O-O(?:-O)?)$`)

// checks reports whether nothing but what is said of a chess move stands in a gap: that it gives check or mate, and
// how good it is.
func (t stripped) checks(i int) bool {
	from := i - 1
	for from > 0 && (t.gaps[from] == "" || t.gaps[from] == "=" || t.gaps[from] == "-") {
		from--
	}
	var move strings.Builder
	for at := max(from, 0); at < i; at++ {
		if at > from {
			move.WriteString(t.gaps[at])
		}
		move.WriteRune(t.kept[at])
	}
	return chessMove().MatchString(move.String()) && only(t.marks(i), "+#!?") == t.marks(i)
}

// named reports whether a word of three letters or more stands before a gap, as in the names of things that end in
// a plus.
func (t stripped) named(i int) bool {
	word := t.wordBefore(i)
	return len(word) > 2 && !slices.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
}

// wordBefore returns what is kept up to i without a gap.
func (t stripped) wordBefore(i int) []rune {
	from := i - 1
	for from > 0 && t.gaps[from] == "" {
		from--
	}
	return t.kept[max(from, 0):i]
}

// textCollision compares where the scorer compares texts. Both sides then are the same characters, and differ in
// case and in what stands between them.
func textCollision(given, gold string) string {
	a, b := strip(given), strip(gold)
	if len(a.kept) != len(b.kept) {
		return otherSpelling // lower case made two of one
	}
	worst := otherSpelling
	for i := 0; i < len(a.gaps); i++ {
		if a.digit(i) && b.digit(i) {
			if a.negative(i) != b.negative(i) && a.marks(i) != b.marks(i) && !a.digit(i-1) {
				worst = graverRule(worst, signDropped)
			}
			if !a.digit(i - 1) {
				x, end := a.digitsFrom(i)
				y, _ := b.digitsFrom(i)
				plus := i == 0 && (strings.HasSuffix(a.gaps[i], "+") || strings.HasSuffix(b.gaps[i], "+"))
				if !sameTime(x, y, a.kept[end:]) && !(plus && sameDialled(x, y)) {
					worst = graverRule(worst, digitsCollision(x, y))
				}
			} else {
				continue // the digits before have seen it
			}
		}
		worst = graverRule(worst, gapCollision(a, b, i))
	}
	return worst
}

// gapCollision compares what the scorer drops at one place.
func gapCollision(a, b stripped, i int) string {
	x, y := a.marks(i), b.marks(i)
	inside := i > 0 && i < len(a.kept)
	apart := strings.ContainsFunc(a.gaps[i]+b.gaps[i], space)
	switch {
	case x == y, a.checks(i) && b.checks(i):
		return otherSpelling
	case a.ends(i) != b.ends(i) && !(inside && apart && (a.joins(i) || b.joins(i))):
		if a.named(i) || b.named(i) {
			return marksDropped
		}
		return signDropped
	case only(x, "<=>") != only(y, "<=>"), inside && only(x, "+") != only(y, "+"):
		return marksDropped
	case inside && !apart && a.interleaved(i) != b.interleaved(i):
		return marksDropped
	}
	return otherSpelling
}

// joins reports whether a gap is signs alone that stand between two words.
func (t stripped) joins(i int) bool { return t.ends(i) != "" && t.ends(i) == t.gaps[i] }

func only(s, set string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(set, r) {
			return r
		}
		return -1
	}, s)
}

// interleaved returns the marks between two characters that are more than spelling: not those of compounds,
// quotations, currencies and abbreviations.
func (t stripped) interleaved(i int) string {
	marks := only(t.gaps[i], "!#%&()*+,./:;<=>?@[\\]^_{|}~")
	if marks == "." && strings.HasPrefix(t.gaps[i+1], ".") {
		return ""
	}
	return marks
}
