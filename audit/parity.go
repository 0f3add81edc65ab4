package audit

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/judge"
)

func scorerParity() Check {
	return Check{
		ID: "AUD-19", Name: "scorer-parity", Severity: High,
		Title: "the official verdicts are those of the official rules, and no answer that says nothing is paid",
		Why: "a scorer that is kinder than the leaderboard's raises every score it gives, and nobody sees it in a single one. One that " +
			"pays an empty answer, None, inf or {} pays a program that does not answer",
		Fix:    "score the answers with the official rules; tell the publisher of the data set of a task whose answer anything is credited for",
		Skips:  "the gold answers are not at hand",
		Absent: "the run is not scored",
		Rules: []Rule{
			{"non-answer-credited", High, 1, "an official verdict that pays an answer such as None, inf, {} or N/A, where something else is expected"},
			{"verdicts-differ", High, 1, "official verdicts that are not those of the official rules"},
			{"gold-accepts-non-answers", Info, 1, "a task for which the official rules pay an answer that says nothing"},
		},
		Run: func(e *Evidence, n *Notes) {
			switch {
			case !e.scored():
				n.absent("the plan has no gold answers, and the run no official verdicts")
				return
			case e.blind():
				n.gap("%s: verdicts cannot be computed again", noGold)
				return
			}
			differ, first := 0, int64(-1)
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				if a.Judgment == nil || a.Answer == nil {
					return
				}
				given, gold := a.Answer.Answer, e.Gold[t.Plan.TaskID]
				pays := e.pays(t, a)
				if a.Judgment.Official != pays {
					if differ++; first < 0 || a.Judged < first {
						first = a.Judged
					}
				}
				if a.Judgment.Official && (!pays || worthless(given, gold) != "") && (mute(given) || evasive(given)) {
					n.find("non-answer-credited", place{task: t, attempt: a.Number, seq: a.Judged}, "credit for an answer that says nothing", "an answer")
				}
			})
			if differ > 0 {
				n.find("verdicts-differ", place{seq: first}, fmt.Sprintf("official verdicts that the official rules do not give: %d", differ), "those of the official rules")
			}
			payers(e, n)
		},
	}
}

// payers names the tasks whose gold the official rules hold equal to an answer that
// says nothing. That is the data set's doing and no run's: it is noted, and who was
// paid for such an answer is found by another rule.
func payers(e *Evidence, n *Notes) {
	for _, t := range e.Tasks {
		gold := e.Gold[t.Plan.TaskID]
		paid := slices.ContainsFunc(nonAnswers(), func(s string) bool {
			return judge.QuestionScorer(&s, gold) && worthless(s, gold) != ""
		})
		if !paid {
			continue
		}
		at := place{task: t, given: true}
		if len(t.Attempts) > 0 {
			at.seq = t.Attempts[0].Begun
		}
		n.find("gold-accepts-non-answers", at, "a task for which the official rules pay an answer that says nothing", "an expected answer that only answers equal")
	}
}

// nonAnswers are answers that a program gives which has none.
func nonAnswers() []string {
	return []string{"", ".", "?", "-", "...", "{}", "[]", "()", "\"\"", ",", ";", "N/A", "None", "null", "nil", "undefined", "NaN", "inf", "-inf", "infinity",
		"unknown", "unanswerable", "not available", "no answer", "I do not know", "I don't know", "not found", "error"}
}

// evasive reports whether an answer is one of nonAnswers by its words.
func evasive(answer string) bool {
	words := wordsOnly(answer)
	return words != "" && slices.ContainsFunc(nonAnswers(), func(s string) bool { return wordsOnly(s) == words })
}

// mute reports whether an answer is nothing but punctuation and what cannot be
// seen.
func mute(answer string) bool {
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
