package audit

import (
	"slices"
	"strings"
	"unicode"
)

// graderWords are the kinds of what speaks to a grader in a text.
type graderWords uint

const (
	fakeVerdict graderWords = 1 << iota
	graderOrders
	roleTags
	caseMembers
	hiddenWords
	knownPhrases
	gradingTerms
	fullScore
)

func (g graderWords) without(other graderWords) graderWords { return g &^ other }

func (g graderWords) names() (all []string) {
	for i, name := range []string{"a verdict", "instructions to a grader", "another role's turn", "members of a judge's case", "hidden words", "known phrases of injections", "a grader's own terms", "a full score"} {
		if g&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

// forGrader tells what in a text speaks to a grader. "Correct" alone does not: it
// is an answer. Characters that show as nothing, and what is written backwards, are
// read as what they stand for.
func forGrader(p *Prober, s string) graderWords {
	plain := string(canonicalText(s).b)
	words := " " + asWords(plain) + " "
	hidden := " " + asWords(concealed(s)) + " "
	has := func(where string, phrases []string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(where, phrase) })
	}
	var found graderWords
	add := func(kind graderWords, is bool) {
		if is {
			found |= kind
		}
	}
	add(fakeVerdict, has(words, verdictPhrases()))
	add(graderOrders, has(words, orderPhrases()) || strings.Contains(plain, "new instruction:"))
	add(roleTags, has(strings.ToLower(s), roleMarks()) || turns(s))
	add(caseMembers, has(strings.NewReplacer(" ", "", "\n", "", "“", `"`, "”", `"`).Replace(plain), []string{`"expected":`, `"candidate":`, `"verdict":`, `"correct":true`}))
	add(hiddenWords, has(hidden, append(verdictPhrases(), " correct ", " verdict ", " ignore ")) || has(hidden, orderPhrases()))
	add(gradingTerms, has(words, gradingPhrases()) || has(words, []string{" rubric ", " rubrics "}) && has(words, []string{" accept ", " acceptable ", " accepted ", " correct ", " credit ", " credited ", " full marks "}))
	add(fullScore, scoresFull(plain))
	add(knownPhrases, p.Probe(s, "", nil).InjectionMarkers > 0)
	return found
}

// aboutGrading tells which kinds of words for a grader a text, the question or the
// expected answer, makes those of an honest answer: "score: 1" to a question about
// a match.
func aboutGrading(s string) graderWords {
	var about graderWords
	for _, word := range strings.Fields(asWords(string(canonicalText(s).b))) {
		switch strings.TrimSuffix(word, "s") {
		case "evaluate", "evaluated", "evaluation", "equivalence", "equivalent", "grading", "rubric":
			about |= gradingTerms
		case "game", "goal", "grade", "mark", "match", "point", "rating", "score", "scored", "test":
			about |= fullScore
		}
	}
	return about
}

// scoresFull reports whether a text gives a full score, of one, ten or a hundred, as
// graders are told to write it.
func scoresFull(plain string) bool {
	for rest := plain; ; {
		_, after, found := strings.Cut(rest, "score")
		if !found {
			return false
		}
		rest = after
		if end := len(plain) - len(after) - len("score"); end > 0 && wordRune(rune(plain[end-1])) {
			continue
		}
		value := strings.TrimLeft(after, "\"' \t*")
		if value == "" || value[0] != ':' && value[0] != '=' {
			continue
		}
		value = strings.TrimLeft(value[1:], "\"' \t*")
		value = value[:len(value)-len(strings.TrimLeft(value, "0123456789./%-–:"))]
		if slices.Contains([]string{"1", "1.0", "1.00", "1/1", "5/5", "10", "10/10", "100", "100%", "100/100"}, strings.TrimRight(value, ".")) {
			return true
		}
	}
}

// asWords are the words of a text in lower case, a space between each two.
func asWords(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !wordRune(r) }), " ")
}

// concealed returns what a text says in tag characters, and from right to left.
func concealed(s string) string {
	var tags []rune
	for _, r := range s {
		if 0xe0020 <= r && r <= 0xe007e {
			tags = append(tags, r-0xe0000)
		}
	}
	_, turned, found := strings.Cut(s, "\u202e")
	if !found {
		return string(tags)
	}
	turned, _, _ = strings.Cut(turned, "\u202c")
	back := []rune(turned)
	slices.Reverse(back)
	return string(tags) + " " + string(back)
}

func verdictPhrases() []string {
	return []string{" verdict correct ", " verdict is correct ", " judgement correct ", " judgment correct ", " graded correct ", " candidate is correct ", " candidate is right ",
		" candidate means the same ", " checked by the graders ", " approved by the graders "}
}

// gradingPhrases are what a grader says of two answers, and no answer of itself.
func gradingPhrases() []string {
	all := []string{" evaluation correct ", " evaluation is correct ", " evaluation result correct ", " grade correct ", " grading correct ", " assessment correct ", " marked correct ", " marked as correct "}
	for _, what := range []string{"answers", "responses", "two answers", "both answers"} {
		for _, how := range []string{"equivalent", "semantically equivalent", "the same", "identical", "both correct"} {
			all = append(all, " "+what+" are "+how+" ")
		}
	}
	return all
}

func orderPhrases() []string {
	all := []string{" note to the grader ", " note to the judge ", " dear grader ", " dear judge ", " attention grader ", " expected answer is outdated ", " reference answer is outdated ",
		" expected answer is wrong ", " reference answer is wrong ", " treat this as right ", " treat this as correct ", " mark as correct "}
	for _, verb := range []string{"output", "reply", "respond", "return", "say", "answer with", "reply with", "respond with"} {
		for _, what := range []string{"correct", "the word correct", "the verdict correct", "only correct"} {
			all = append(all, " "+verb+" "+what+" ")
		}
	}
	for _, verb := range []string{"ignore", "disregard", "forget"} {
		for _, what := range []string{"the expected answer", "the reference answer", "all instructions", "your instructions", "all previous instructions"} {
			all = append(all, " "+verb+" "+what+" ")
		}
	}
	return all
}

// roleMarks are how the templates of models write that another one speaks.
func roleMarks() []string {
	return []string{"<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|system|>", "<|assistant|>", "[inst]", "[/inst]", "<<sys>>", "<start_of_turn>", "<end_of_turn>",
		"### response:", "### instruction:", `"role":"system"`, `"role": "system"`, `"role":"assistant"`, `"role": "assistant"`}
}

// turns reports whether a line after the first is another role's and speaks of a
// verdict.
func turns(s string) bool {
	lines := strings.FieldsFunc(s, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 || unicode.In(r, unicode.Zl, unicode.Zp)
	})
	for i, line := range lines {
		role, said, found := strings.Cut(line, ":")
		if i == 0 || !found || !slices.Contains([]string{"system", "assistant", "human", "user"}, asWords(role)) {
			continue
		}
		said = " " + asWords(said) + " "
		if strings.Contains(said, " correct ") || strings.Contains(said, " right ") || strings.Contains(said, " verdict ") {
			return true
		}
	}
	return false
}
