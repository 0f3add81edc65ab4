package audit

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

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
			n.findIf(official != credits, "verdict-differs", at, fmt.Sprintf("official verdict %v", official))
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
		for _, r := range e.Results {
			n.findIf(seen[r.TaskID] || !of[r.TaskID], "coverage-differs", place{}, fmt.Sprintf("a result for %q, which is not planned or stands there twice", r.TaskID))
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
		e.each(func(t *taskEvidence, a *attemptEvidence) {
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
		})
		n.findIf(differ > 0, "verdicts-differ", place{seq: first}, fmt.Sprintf("official verdicts that the official rules do not give: %d", differ))
		for _, t := range e.Tasks { // a gold answer that credits anything is the data set's doing and no run's: it is noted
			gold := e.Gold[t.Plan.TaskID]
			if !slices.ContainsFunc(nonAnswers, func(s string) bool { return judge.QuestionScorer(&s, gold) && worthless(s, gold) != "" }) {
				continue
			}
			at := place{task: t, given: true}
			if len(t.Attempts) > 0 {
				at.seq = t.Attempts[0].Begun
			}
			n.find("gold-accepts-non-answers", at, "a task for which the official rules credit an answer that says nothing")
		}
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
