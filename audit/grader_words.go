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
)

func (g graderWords) without(other graderWords) graderWords { return g &^ other }

func (g graderWords) names() (all []string) {
	for i, name := range []string{"a verdict", "instructions to a grader", "another role's turn", "members of a judge's case", "hidden words", "known phrases of injections"} {
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
	add(knownPhrases, p.Probe(s, "", nil).InjectionMarkers > 0)
	return found
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
