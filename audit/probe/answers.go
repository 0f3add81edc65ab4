package probe

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	ManyAnswers    = 3    // tasks of a run whose answers are in one document
	beginningWords = 6    // of a question that name it
	mostFormWords  = 12   // of a gold that is looked for in lists
	mostKeys       = 4096 // of ids and questions in a document, and as many entries
	keyedChars     = 160  // bytes between a key and its answer
	longestNumber  = 4    // digits before an entry
	filterBits     = 32   // for each form
)

// Answers are the golds of the tasks of a run, prepared to be found together in a document. They never change.
type Answers struct {
	filter  []uint64       // over the hashes of the forms' key words, a power of two
	forms   []answerForm   // sorted by hash
	tasks   map[string]int // by the letters and digits of the id
	golds   []string       // "" for none
	texts   []string       // the golds' words, "" for none
	lengths []int          // of the questions, in bytes
	most    int            // places that are taken in of a document
}

// answerForm is what a task is found by: a distinctive gold, or the beginning of its question.
type answerForm struct {
	text string // its words, with a space between two
	hash uint32 // of its key word
	task int32
	key  int16 // the number of its key word
	gold bool
}

// NewAnswers prepares the tasks of a run in their order, of which the id, the question and the gold are read; nil
// where fewer than three have a gold.
func NewAnswers(tasks []Target) *Answers {
	a := &Answers{tasks: map[string]int{}, golds: make([]string, len(tasks)), texts: make([]string, len(tasks)), lengths: make([]int, len(tasks)), most: mostKeys}
	known, begun := 0, map[string]int{}
	var buf [longestID]byte
	var forms []answerForm
	for i, t := range tasks {
		if t.Gold == "" {
			continue
		}
		known++
		a.golds[i] = t.Gold
		if bare, ok := bareID(buf[:0], []byte(t.TaskID)); ok && len(bare) >= shortestID {
			a.tasks[string(bare)] = i
		}
		gold := wordsIn(canonicalText(t.Gold).b)
		a.texts[i] = string(bytes.Join(gold, []byte(" ")))
		letters := bytes.Join(gold, nil) // a form is no word or number that any list may hold
		if len(letters) > shortGold && (!digits(letters) || len(letters) > longestNumber) && len(gold) <= mostFormWords {
			forms = append(forms, answerForm{text: a.texts[i], task: int32(i), gold: true})
		}
		question := numberedText(unescaped(t.Question))
		a.lengths[i] = len(question.b)
		if words := wordsIn(question.b); len(words) >= beginningWords && goldAlone(t.Gold).readGold(question, reading{}, foundIDs{}).hits == 0 {
			beginning := string(bytes.Join(words[:beginningWords], []byte(" ")))
			begun[beginning]++
			forms = append(forms, answerForm{text: beginning, task: int32(i)})
		}
	}
	if known < ManyAnswers {
		return nil
	}
	a.add(slices.DeleteFunc(forms, func(f answerForm) bool { return !f.gold && begun[f.text] > 1 }))
	return a
}

// add keeps each form under the word of it that fewest documents are likely to have: no word of the fixed phrases,
// rather none of the common words, then one that few forms have, then a long one.
func (a *Answers) add(forms []answerForm) {
	uses := map[string]int{}
	for _, f := range forms {
		for word := range strings.SplitSeq(f.text, " ") {
			uses[word]++
		}
	}
	bits := 64
	for bits < filterBits*len(forms) {
		bits *= 2
	}
	a.filter = make([]uint64, bits/64)
	a.forms = make([]answerForm, 0, len(forms))
	fixed := fixedPhrases().lexicon
	for _, f := range forms {
		var key wordScanner
		best, number := []int(nil), 0
		for s := (wordScanner{b: []byte(f.text)}); s.next(); number++ {
			word := string(s.word())
			common := 0
			if commonWords[word] {
				common = 1
			}
			rank := []int{common, uses[word], -len(word)}
			if fixed.find(&s) == 0 && (best == nil || slices.Compare(rank, best) < 0) {
				best, f.key, key = rank, int16(number), s
			}
		}
		if best != nil {
			a.filter[key.hash>>6&uint32(len(a.filter)-1)] |= 1 << (key.hash & 63)
			f.hash = key.hash
			a.forms = append(a.forms, f)
		}
	}
	slices.SortStableFunc(a.forms, func(a, b answerForm) int { return cmp.Compare(a.hash, b.hash) })
}

// goldAlone returns what looks for a gold and nothing else. It takes 3 kB, so none is held for each task.
func goldAlone(gold string) *Prober {
	fixed := fixedPhrases()
	p := &Prober{lexicon: newLexicon(fixed.lexicon, 0), phrases: fixed}
	p.gold = newGoldForm(canonicalText(gold).b, p.lexicon)
	return p
}

func wordsIn(b []byte) (words [][]byte) {
	for s := (wordScanner{b: b}); s.next(); {
		words = append(words, slices.Clone(s.word()))
	}
	return words
}

// answerEntry is a place where a gold stands.
type answerEntry struct {
	task   int
	place  interval
	number int // that stands before it; -1: none
	called bool
	listed bool // it stands alone between delimiters
}

// answerKey is a place that names a task.
type answerKey struct {
	task  int
	place interval
}

// answerReading is what one walk through a document finds of the run's tasks.
type answerReading struct {
	keys    []answerKey
	entries []answerEntry
	labels  int
}

// match takes in what stands where a word with this hash does; startOf returns where the words before it begin, of
// which there are n.
func (a *Answers) match(out *answerReading, t probeText, hash uint32, n int, startOf func(words int) int) {
	first, _ := slices.BinarySearchFunc(a.forms, hash, func(f answerForm, hash uint32) int { return cmp.Compare(f.hash, hash) })
	for _, f := range a.forms[first:] {
		if f.hash != hash {
			break
		}
		if int(f.key) >= n || len(out.entries)+len(out.keys) >= a.most {
			continue
		}
		start := startOf(int(f.key) + 1)
		s := wordScanner{b: t.b, end: start}
		if !s.reads(f.text) {
			continue
		}
		place := interval{start, s.end}
		if !f.gold {
			out.keys = append(out.keys, answerKey{int(f.task), place})
			continue
		}
		number, before := numberBefore(t.b, start)
		at, open := lookBack(t.b, before)
		opened := open != 0 || at < before && t.b[at] == ':' // the value of a field
		end := s.end
		if end < len(t.b) && t.b[end] == '.' {
			end++
		}
		_, closed := lookAhead(t.b, end)
		listed := opened && closed != 0 && closed != ':' && closed != '='
		if !listed {
			number = -1
		}
		out.entries = append(out.entries, answerEntry{int(f.task), place, number, called(t.b, start), listed})
	}
}

// reads reports whether the next words are those of a text with a space between two.
func (s *wordScanner) reads(text string) bool {
	for word := range strings.SplitSeq(text, " ") {
		if !s.next() || string(s.word()) != word {
			return false
		}
	}
	return true
}

// numberBefore returns the number that stands before a place, as that of an entry of a list does, and where it
// begins; -1 and the place for none.
func numberBefore(b []byte, start int) (number, begins int) {
	i := start
	for i > 0 && start-i < lookAround && (b[i-1] == ' ' || quoteByte(b[i-1]) || strings.IndexByte(".):\t|,-", b[i-1]) >= 0) {
		i--
	}
	end := i
	for i > 0 && end-i <= longestNumber && digitByte(b[i-1]) {
		i--
	}
	number, err := strconv.Atoi(string(b[i:end]))
	if err != nil || end == start || end-i > longestNumber || i > 0 && wordByte(b[i-1]) {
		return -1, start
	}
	return number, i
}

// count returns how many tasks have their gold under a key of their own, and of how many the gold is an entry of a
// list.
//
// A key is the task's id or its first digits, or the first words of its question, with the gold within some 160
// bytes. Labels are keys where they are at most twice as many as the golds, and numbers where they follow the order
// of the run's tasks: quizzes and lists of capitals have golds of several tasks by chance.
func (a *Answers) count(t probeText, read answerReading, ids []answerKey) (keyed, listed int) {
	named, labelled, entries := map[string]bool{}, map[string]bool{}, map[string]bool{}
	ordered := map[int]map[string]bool{}
	a.underKeys(t, slices.Concat(read.keys, ids), func(task int) { named[a.texts[task]] = true })
	var span interval
	for _, e := range read.entries {
		gold := a.texts[e.task]
		if e.called {
			labelled[gold] = true
		}
		if !e.listed {
			continue
		}
		if len(entries) == 0 {
			span.start = e.place.end
		}
		entries[gold], span.end = true, e.place.start
		if e.number >= 0 {
			offset := e.number - e.task
			if ordered[offset] == nil {
				ordered[offset] = map[string]bool{}
			}
			ordered[offset][gold] = true
		}
	}
	keyed = len(named)
	if len(labelled) > keyed && 2*len(labelled) >= read.labels+bytes.Count(t.b, []byte("\na:"))+bytes.Count(t.b, []byte(" a:")) {
		keyed = len(labelled)
	}
	for _, golds := range ordered {
		keyed = max(keyed, len(golds))
	}
	if len(entries) >= ManyAnswers && span.start < span.end {
		between := bytes.Count(t.b[span.start:span.end], []byte("\n"))
		if between == 0 {
			between = bytes.Count(t.b[span.start:span.end], []byte(",")) + bytes.Count(t.b[span.start:span.end], []byte(";"))
		}
		if 3*len(entries) >= between {
			listed = len(entries)
		}
	}
	return keyed, listed
}

// underKeys calls found with the tasks whose gold stands under a key of their own, once for each gold.
func (a *Answers) underKeys(t probeText, keys []answerKey, found func(task int)) {
	slices.SortFunc(keys, func(a, b answerKey) int { return a.place.start - b.place.start })
	named := map[string]bool{}
	for i, k := range keys {
		gold := a.texts[k.task]
		if gold == "" || named[gold] {
			continue
		}
		from, to := k.place.end, len(t.b)
		if i+1 < len(keys) {
			to = keys[i+1].place.start
		}
		to = max(from, min(to, from+a.lengths[k.task]+keyedChars))
		under := goldAlone(a.golds[k.task]).readGold(probeText{b: t.b[from:to]}, reading{}, foundIDs{own: []interval{{0, 0}}})
		if under.nearID || under.called {
			named[gold] = true
			found(k.task)
		}
	}
}

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
	if p.gold.parts == 0 || p.gold.parts == 1 && p.gold.lacks(t.b) {
		return s
	}
	var places []interval // of the parts of the gold
	p.walkGold(&goldReader{p: p, gold: &p.gold, text: t, counted: cursor{all: t.counted}, listed: &places})
	if len(places) < p.gold.parts {
		return s
	}
	common := strings.Fields("about above according after again against answer before below between could during every first following given great having " +
		"other question should since their there these thing things those through under until using what's where whether which while within without would years")
	var about []string // words of enough letters that few questions have
	for s := (wordScanner{b: canonicalText(question).b}); s.next(); {
		word := string(s.word())
		if utf8.RuneCountInString(word) >= contentLetters && !slices.Contains(common, word) && !slices.Contains(about, word) {
			about = append(about, word)
		}
	}
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
