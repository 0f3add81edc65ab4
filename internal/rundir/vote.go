package rundir

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Vote chooses among the answers to one question, in the order of their attempts, by the rule majority.v1
// ([VoteMajority]): the answer that most of them give; of several that as many give, the one that was given first. It
// returns the index of the first answer that says it, -1 if there are no answers, and for each answer how many say the
// same, itself included.
//
// The rule knows no gold, and so not whether a number, a list or a text is asked for. Two answers say the same if their
// values are equal:
//
//   - The value of an answer that is a number is that number, exactly. It is one
//     if, with all $ and % and the white space at both ends taken away, it has
//     the form [+-] digits [.digits] [e [+-] exponent], with digits before or
//     behind the point. Digits before it may stand in groups of three parted by
//     single commas, the first of one to three. The exponent is E or e and one to
//     three digits, and at most 308.
//   - Of any other answer that has a comma or a semicolon, it is the list of the
//     values of its parts, cut at each of these: the same number of them, in the
//     same order. A part is a number or a text.
//   - Of any other, it is the text in lower case (Unicode 15.0, character by
//     character), without white space and without ASCII punctuation; where nothing
//     is left of it so, with its punctuation.
//
// A number never equals a text, and neither a list. White space is what has the Unicode property White_Space. TestVote
// and FuzzVote show it.
func Vote(answers []string) (winner int, votes []int) {
	winner, votes = -1, make([]int, len(answers))
	values, count := make([]string, len(answers)), make(map[string]int, len(answers))
	for i, a := range answers {
		values[i] = value(a)
		count[values[i]]++
	}
	for i, v := range values {
		votes[i] = count[v]
		if winner < 0 || votes[i] > votes[winner] {
			winner = i
		}
	}
	return winner, votes
}

// value returns a text that two answers share if and only if they say the same.
func value(answer string) string {
	if n, ok := number(answer); ok {
		return n
	}
	if !strings.ContainsAny(answer, ",;") {
		return text(answer)
	}
	parts := strings.Split(strings.ReplaceAll(answer, ";", ","), ",")
	for i, part := range parts {
		n, ok := number(part)
		if !ok {
			n = text(part)
		}
		parts[i] = n
	}
	return strings.Join(parts, ",") // a part has none
}

// numeral is a number without $ and %: sign, digits before the point, digits behind it, exponent.
var numeral = regexp.MustCompile(`^([+-]?)([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,3}))?$`)

// maxExponent bounds the exponent of a number: what is larger is a text.
const maxExponent = 308

// number returns the value of an answer that is a number: its digits from the first to the last that is not 0, and the
// power of ten of the last.
func number(answer string) (value string, ok bool) {
	m := numeral.FindStringSubmatch(strings.TrimSpace(without(answer, func(r rune) bool { return r == '$' || r == '%' })))
	if m == nil || m[2]+m[3] == "" {
		return "", false
	}
	power, _ := strconv.Atoi(m[4]) // at most three digits
	if power < -maxExponent || power > maxExponent {
		return "", false
	}
	digits := strings.TrimLeft(strings.ReplaceAll(m[2], ",", "")+m[3], "0")
	last := strings.TrimRight(digits, "0")
	if last == "" {
		return "n0", true
	}
	sign := strings.TrimPrefix(m[1], "+")
	return "n" + sign + last + "e" + strconv.Itoa(power-len(m[3])+len(digits)-len(last)), true
}

// text returns the value of an answer that is a text.
func text(answer string) string {
	whole := without(strings.ToLower(answer), unicode.IsSpace)
	words := without(whole, func(r rune) bool { return strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) })
	if words == "" {
		words = whole
	}
	return "t" + words
}

func without(s string, drop func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	}, s)
}

// vote returns the attempt whose answer counts, by the rule of the plan, nil if
// there is none; and where that is a vote, for each attempt how many committed
// answers say what its own does, 0 if it has none.
func (t *Task) vote() (counted *Attempt, votes []int) {
	var answered []*Attempt
	for _, a := range t.Attempts {
		if a.Answer != nil {
			answered = append(answered, a)
		}
	}
	if len(answered) > 0 {
		counted = answered[0]
	} else if n := len(t.Attempts); n > 0 {
		counted = t.Attempts[n-1]
	}
	if !t.votes {
		return counted, nil
	}
	votes = make([]int, len(t.Attempts))
	answers := make([]string, len(answered))
	for i, a := range answered {
		answers[i] = a.Answer.Answer
	}
	winner, same := Vote(answers)
	for i, a := range answered {
		votes[a.Number-1] = same[i]
	}
	if winner >= 0 {
		counted = answered[winner]
	}
	return counted, votes
}

// Counted returns the attempt whose answer counts, nil if there is none: the
// first with a committed answer, or where the plan votes the one that was voted
// for; without such an answer the last.
func (t *Task) Counted() *Attempt {
	counted, _ := t.vote()
	return counted
}

// Votes returns for each attempt how many committed answers say what its own
// does, 0 if it has committed none; nil where the plan does not vote.
func (t *Task) Votes() []int {
	_, votes := t.vote()
	return votes
}

// Settled reports whether no further attempt at a task is due by the plan: as
// many as it votes with ended with or without an answer, or as many failed as it
// allows, or more were lost than it makes again. In a merged run none is due: the shards made them.
func (f *Fold) Settled(t *Task) bool {
	if f.Shards != nil && f.part.shard == nil {
		return true
	}
	made, failed, lost := 0, 0, 0
	for _, a := range t.Attempts {
		switch {
		case a.Ended == nil:
			return false
		case a.Ended.Outcome != trajectory.Errored:
			made++
		case !a.Ended.Lost():
			failed++
		case a.Lost():
			lost++
		}
	}
	m := f.Manifest
	if free := m.Retry.FreeReattempts; free > 0 && lost > free {
		return true
	}
	return made >= max(m.Voting.Attempts, 1) || failed >= max(m.Retry.AttemptsPerTask, 1)
}

// votingSummary describes the scores of a completed run of so many tasks, of which the first attempt of passedFirst
// and any attempt of passed gave a correct answer; nil if its plan has no vote.
func votingSummary(m plan.Plan, planned, passedFirst, passed int) *VotingSummary {
	if m.Voting.Rule != plan.VoteMajority {
		return nil
	}
	s := &VotingSummary{Attempts: m.Voting.Attempts, Rule: m.Voting.Rule}
	if !m.Scored() {
		return s
	}
	s.PassAt1, s.PassAtK = new(stats.NewRate(passedFirst, planned)), new(stats.NewRate(passed, planned))
	return s
}

func (a *Attempt) correct() bool { return a.Judgment != nil && a.Judgment.Official }
