package audit

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/prompt"
)

// Bytes around a place of the gold in which a statement and words of the question are looked for.
const (
	statedBefore = 240
	statedAfter  = 80
)

const (
	nearWords      = 3 // words of the question near a gold answer that make it this question's
	fewestLong     = 3 // gold answers of other tasks in one template that no example explains
	rareGold       = 8 // characters of a gold answer that few texts have by chance
	contentLetters = 5 // of a word that says what a question is about
)

// wordings are the patterns by which a text states an answer. All end where the
// answer begins.
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

// stating is how a text states the gold answer.
type stating struct {
	plain  bool // as the answer
	hedged bool // as one that may be: under a condition, as an example, in a list
	asked  bool // after a colon or the like, near words of the question
}

// states looks for statements of the gold answer in a text.
func (p *Prober) states(text string, about []string) (s stating) {
	t, w := canonicalText(text), wordings()
	places := p.goldPlaces(t)
	if len(places) < p.gold.parts {
		return s
	}
	for _, place := range places {
		before := string(t.b[max(0, place.start-statedBefore):place.start])
		after := string(t.b[place.end:min(len(t.b), place.end+statedAfter)])
		if !p.gold.short && w.assigned.MatchString(before) && sharedWords(before+" "+after, about) >= nearWords {
			s.asked = true
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
		case p.gold.short && !w.end.MatchString(after): // 2 of "2 decimal places"
		case w.hedge.MatchString(clause), w.list.MatchString(after):
			s.hedged = s.hedged || !p.gold.short
		default:
			s.plain = true
		}
	}
	return s
}

// contentWords returns the words that say what a question is about: those of
// enough letters that few questions have.
func contentWords(question string) (all []string) {
	common := strings.Fields("about above according after again against answer before below between could during every first following given great having " +
		"other question should since their there these thing things those through under until using what's where whether which while within without would years")
	t := canonicalText(question)
	for s := (wordScanner{b: t.b}); s.next(); {
		if word := string(s.word()); utf8.RuneCountInString(word) >= contentLetters && !slices.Contains(common, word) && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// sharedWords counts the words that a canonical text has.
func sharedWords(text string, words []string) (n int) {
	seen := map[string]bool{}
	for s := (wordScanner{b: []byte(text)}); s.next(); {
		if word := string(s.word()); !seen[word] && slices.Contains(words, word) {
			seen[word] = true
			n++
		}
	}
	return n
}

// questionStates looks for the gold answer in what is asked. A question that
// merely has the words of the answer is honest.
func questionStates(e *Evidence, n *Notes, t *TaskEvidence) {
	if len(t.Attempts) == 0 || e.Gold[t.Plan.TaskID] == "" {
		return
	}
	a := t.Attempts[0]
	at := place{task: t, attempt: a.Number, seq: a.Begun, unasked: true}
	switch s := e.prober(t).states(a.Question, nil); {
	case s.plain:
		n.find("question-with-answer", at, "the planned question states its answer", "the question of the dataset")
	case s.hedged:
		n.find("question-with-answer-word", at, "the planned question has the answer behind a word for answers", "the question of the dataset")
	}
}

// templateStates looks for gold answers of the run in a template that this
// version does not know. An example may have the answer of some task by chance.
func templateStates(e *Evidence, n *Notes, template ledger.Prompt) {
	if slices.ContainsFunc(prompt.Templates(), func(t prompt.Template) bool { return t.Text == template.Text }) {
		return
	}
	text, none := template.Text, ""
	bounded(&text, &none) // that the template is unknown is a gap already
	at := place{sha256: template.SHA256, unasked: true}
	stated, long := map[string]bool{}, map[string]bool{}
	for _, t := range e.Tasks {
		gold := strings.ToLower(strings.TrimSpace(e.Gold[t.Plan.TaskID]))
		if gold == "" || len(t.Attempts) == 0 {
			continue
		}
		prober := e.prober(t)
		p := prober.Probe(text, "", nil)
		s := prober.states(text, contentWords(t.Attempts[0].Question))
		if p.UUIDGoldNear || p.QCov >= wholeQuestion && p.GoldHits > 0 || s.asked {
			of := at
			of.task = t
			n.find("template-with-answer", of, "the template "+template.ID+" holds a task or what it asks about, with its answer", "a template that says nothing of any task")
		}
		if (s.plain || s.hedged) && !prober.gold.short {
			stated[gold] = true
		}
		if p.GoldHits > 0 && utf8.RuneCountInString(gold) >= rareGold {
			long[gold] = true
		}
	}
	switch {
	case len(stated) >= fewestLong:
		n.find("template-with-answer", at, "the template "+template.ID+" states the answers of several tasks", "a template that says nothing of any task")
	case len(stated) > 0 || len(long) >= fewestLong:
		n.find("template-with-answer-word", at, "the template "+template.ID+" has answers of tasks, which examples may have by chance", "a template that says nothing of any task")
	}
}
