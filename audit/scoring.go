package audit

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

func normalizationCollision() Check {
	return Check{
		ID: "AUD-5", Name: "normalization-collision", Severity: Critical, Gate: true,
		Title: "no credit for an answer that says nothing",
		Why: "the official scorer strips white space and punctuation and reads what is no numeral as infinite: an answer that " +
			"vanishes on the way can be equal to another one that does, and $1.50 is 150, 3/4 is 34 and C# is C",
		Fix:   "void the task; where the two are one answer to its question, dismiss the finding and say why",
		Skips: "the gold answers are not at hand",
		Rules: []Rule{
			{"empty-credited", Critical, 1, "credit for an answer of which nothing is left to be compared, or by the LLM judge for one that shows nothing"},
			{"non-finite-credited", Critical, 1, "credit for an answer that the scorer reads as no finite number"},
			{"verdict-differs", Critical, 1, "an official verdict that the official scorer does not give"},
			{numberDiffers, High, 2, "credit for another number, date or fraction than the expected one, which the scorer's dropping of marks makes the same"},
			{signDropped, High, 2, "credit for an answer that differs from the expected one in a minus, plus or # that means something"},
			{marksDropped, ToReview, 2, "credit for an answer with marks between its letters or digits that the expected one does not have, or without those it has"},
			{otherSpelling, Info, 2, "credit for an answer in another spelling: case, spaces, a currency, outer punctuation"},
		},
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap("%s: verdicts cannot be computed again", noGold)
			}
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				if a.Judgment == nil || a.Answer == nil {
					return
				}
				at := place{task: t, attempt: a.Number, seq: a.Judged}
				given, gold := a.Answer.Answer, e.Gold[t.Plan.TaskID]
				official, byModel := a.Judgment.Official, a.Judgment.Judged != nil && *a.Judgment.Judged
				if !official && byModel && judge.Blank(given) {
					n.find("empty-credited", at, "credit by the LLM judge for an answer that shows nothing", "an answer")
				}
				if e.Gold == nil {
					return
				}
				pays := e.pays(t, a)
				if official != pays {
					n.find("verdict-differs", at, fmt.Sprintf("official verdict %v", official), "the verdict that the official scorer gives")
				}
				switch rule := worthless(given, gold); {
				case !official:
				case rule == "empty-credited":
					n.find(rule, at, "credit for an answer of which the official scorer compares nothing", "an answer")
				case rule != "":
					n.find(rule, at, "credit for an answer that the scorer takes for no finite number", "an answer")
				case pays:
					collided(n, at, collision(strings.TrimSpace(given), strings.TrimSpace(gold)))
				}
			})
		},
	}
}

// collided writes down by which rule a credited answer differs from the gold.
func collided(n *Notes, at place, rule string) {
	switch rule {
	case numberDiffers:
		n.find(rule, at, "credit for another number, as long as the marks between digits are read", "the expected number")
	case signDropped:
		n.find(rule, at, "credit for an answer with another sign", "the expected sign")
	case marksDropped:
		n.find(rule, at, "credit for an answer with other marks between its letters or digits", "the expected marks")
	case otherSpelling:
		n.find(rule, at, "credit for an answer in another spelling", "for the record")
	}
}

// worthless names the rule by which credit of the official scorer for an answer is
// worth nothing, since others would have been credited, too; "" if it is worth
// something.
func worthless(given, gold string) string {
	switch {
	case unspaced(given) == unspaced(gold):
		return ""
	case vanishes(given, gold):
		return "empty-credited"
	case judge.NonFinite(given, gold):
		return "non-finite-credited"
	}
	return ""
}

// unspaced is a text without white space and case. What is equal in this form
// was not made equal by dropping what it says.
func unspaced(s string) string { return strings.ToLower(without(s, "")) }

// vanishes reports whether nothing is left of an answer in the form in which
// the official scorer compares it: without white space and, where the gold is
// no list, without ASCII punctuation; of lists without what parts them.
func vanishes(answer, gold string) bool {
	if strings.ContainsAny(gold, between) {
		return without(answer, between) == ""
	}
	return without(answer, asciiMarks) == ""
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

func coverageDenominator() Check {
	return Check{
		ID: "AUD-11", Name: "coverage-denominator", Severity: Critical, Gate: true,
		Title: "the score is over all planned tasks",
		Why: "leaving out what failed is the oldest way to a good rate: errors, timeouts and tasks never begun count as wrong; " +
			"where every attempt failed, the score is of no model",
		Fix:   "count every planned task; where no attempt was completed, start a new run with an endpoint that answers",
		Skips: "there is no plan to count by",
		Rules: []Rule{
			{"coverage-differs", Critical, 1, "results or outcomes that are not one for each planned task"},
			{"headline-differs", Critical, 1, "a headline that is not the correct ones over the planned tasks"},
			{"nothing-completed", Critical, 1, "a run in which every attempt ended in an error: it measured the endpoint, not the model"},
		},
		Run: func(e *Evidence, n *Notes) {
			if len(e.Manifest.Tasks) == 0 {
				n.gap("there is no plan to count by")
				return
			}
			of, seen, correct := map[string]bool{}, map[string]bool{}, 0
			for _, t := range e.Manifest.Tasks {
				of[t.TaskID] = true
			}
			for _, r := range e.Results {
				if seen[r.TaskID] || !of[r.TaskID] {
					n.find("coverage-differs", place{}, fmt.Sprintf("a result for %q, which is not planned or stands there twice", r.TaskID), "one result for each planned task")
				}
				seen[r.TaskID] = true
				if r.OfficialCorrect != nil && *r.OfficialCorrect {
					correct++
				}
			}
			if len(seen) != len(of) {
				n.find("coverage-differs", place{}, fmt.Sprintf("results for %d tasks", len(seen)), fmt.Sprintf("for the %d planned", len(of)))
			}
			o := e.Summary.Outcomes
			if counted := o.Error + o.Failed + o.Skipped + o.Solved + o.Unscored; counted != len(of) {
				n.find("coverage-differs", place{}, fmt.Sprintf("outcomes of %d tasks", counted), fmt.Sprintf("of the %d planned", len(of)))
			}
			if s := e.Summary.Scores; s != nil && (s.Official.Correct != correct || s.Official.Planned != len(of) || s.Judged != nil && s.Judged.Planned != len(of)) {
				n.find("headline-differs", place{}, fmt.Sprintf("a headline of %d of %d", s.Official.Correct, s.Official.Planned), fmt.Sprintf("%d of %d", correct, len(of)))
			}
			nothingCompleted(e, n)
		},
	}
}

// nothingCompleted looks for a run that has attempts, of which each ended in an
// error.
func nothingCompleted(e *Evidence, n *Notes) {
	failed, completed := 0, false
	e.each(func(_ *TaskEvidence, a *AttemptEvidence) {
		if a.Ended != nil && a.Ended.Outcome == trajectory.Errored {
			failed++
		} else {
			completed = true
		}
	})
	if failed > 0 && !completed {
		n.find("nothing-completed", place{}, fmt.Sprintf("%d attempts, and each ended in an error", failed), "an attempt that ended with an answer or without one")
	}
}

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
