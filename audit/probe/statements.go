package probe

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	statedBefore   = 240 // bytes before the gold in which a statement is looked for
	statedAfter    = 80
	nearWords      = 3 // words of the question near a gold answer that make it this question's
	contentLetters = 5 // of a word that says what a question is about
)

// wordings are the patterns by which a text states an answer. All end where the answer begins.
var wordings = sync.OnceValue(func() (w struct{ answer, assigned, hedge, list, end *regexp.Regexp }) {
	const (
		english = `(?:(?:expected|correct|right|true|final|gold(?:en)?|reference|official|known|accepted|actual|required)[ _-]?)?` +
			`(?:answers?(?:[ _-]?key)?|solutions?|ground[ _-]?truth|gold(?: (?:label|standard))?|expected[ _-](?:output|result|value|response)|correct (?:value|response|result|choice|option)|hint)`
		others   = `antwort|lösung|réponse|reponse|respuesta|solución|solucion|risposta|soluzione|resposta|solução|antwoord|odpowiedź|ответ|答案|答え|正解|정답`
		assigned = `["'”’»)\]*_]*\s*(?::|=>?|->|→|–|—|\s(?:is|was|would be|should be|must be|should read|reads|equals|ist|lautet|est|es|è|é|это)\s|是|为|は)\s*:?\s*`
		lead     = `(?:(?:exactly|simply|just|therefore|thus|namely|of course|the|an?)\s+)?["'“”‘’«»„(\[{*_<` + "`" + `]*$`
	)
	w.answer = regexp.MustCompile(`(?:^|[^\pL\pN])(?:` + english + `|` + others + `)[^.?!:=;\n]{0,40}?` + assigned + lead)
	w.assigned = regexp.MustCompile(assigned + lead)
	w.hedge = regexp.MustCompile(`(?:^|[^\pL])(?:if|whether|unless|when|where|whose|suppose|assum(?:e|ing)|examples?|e\.g|instance|format(?:ted)?|such as|like|sa(?:ys?|id)|claim(?:s|ed)?|thinks?|believes?|state[sd]?|told|tells|suggest(?:s|ed)?|guess(?:es|ed)?|wrong|incorrect|not|never|instead|wenn|falls|beispiel|ejemplo|exemple|если)(?:[^\pL]|$)`)
	w.list = regexp.MustCompile(`^["'”’»)\]*_]*\s*(?:/|\||,?[^.?!\n]{0,60}[^\pL](?:or|oder|ou|o|if|when)[^\pL])`)
	w.end = regexp.MustCompile(`^["'”’»)\]}*_` + "`" + `]*\s*(?:[.!?;\n。]|$)`)
	return w
})

// Statement is how a text states the gold answer.
type Statement struct {
	Plain  bool // as the answer
	Hedged bool // as one that may be: under a condition, as an example, in a list
	Asked  bool // after a colon or the like, near words of the question
	Short  bool // the gold is too short to stand in a text by its words alone
}

// States looks for statements of the gold answer in a text. Asked is set only near the words that say what a
// question is about; "" for no question.
func (p *Prober) States(text, question string) Statement {
	t, w := canonicalText(text), wordings()
	s := Statement{Short: p.gold.short}
	var places []interval // of the parts of the gold
	if p.gold.parts > 0 {
		p.walkGold(&goldReader{p: p, gold: &p.gold, text: t, counted: cursor{all: t.counted}, listed: &places})
	}
	if len(places) < p.gold.parts {
		return s
	}
	about := contentWords(question)
	for _, place := range places {
		before := string(t.b[max(0, place.start-statedBefore):place.start])
		after := string(t.b[place.end:min(len(t.b), place.end+statedAfter)])
		if !s.Short && w.assigned.MatchString(before) && sharedWords(before+" "+after, about) >= nearWords {
			s.Asked = true
		}
		at := w.answer.FindStringIndex(before)
		if at == nil {
			continue
		}
		clause := before[:at[1]]
		if i := strings.LastIndexAny(before[:at[0]+1], ".?!;\n。？！"); i >= 0 {
			clause = clause[i:]
		}
		switch {
		case s.Short && !w.end.MatchString(after): // 2 of "2 decimal places"
		case w.hedge.MatchString(clause), w.list.MatchString(after):
			s.Hedged = s.Hedged || !s.Short
		default:
			s.Plain = true
		}
	}
	return s
}

// contentWords returns the words that say what a question is about: those of enough letters that few questions
// have.
func contentWords(question string) (all []string) {
	common := strings.Fields("about above according after again against answer before below between could during every first following given great having " +
		"other question should since their there these thing things those through under until using what's where whether which while within without would years")
	for s := (wordScanner{b: canonicalText(question).b}); s.next(); {
		word := string(s.word())
		if utf8.RuneCountInString(word) >= contentLetters && !slices.Contains(common, word) && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// sharedWords counts the words that a canonical text has.
func sharedWords(text string, words []string) int {
	seen := map[string]bool{}
	for s := (wordScanner{b: []byte(text)}); s.next(); {
		if word := string(s.word()); slices.Contains(words, word) {
			seen[word] = true
		}
	}
	return len(seen)
}
