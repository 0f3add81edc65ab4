package probe

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// aloneLetters is how many letters alone in a row, one character apart, may be a word that is spaced out.
const aloneLetters = 3

// questionWords are words that ask and that do little else, without diacritics.
var questionWords = setOf("who whom whose which what when where why how quel quelle quels quelles qui combien wer wen wem wessen welche welcher welches welchen welchem wann wie " +
	"quien quienes cual cuales cuando cuanto cuanta cuantos cuantas donde qual quale quali quanti quante quantos quantas")

// wordUse says what a word is to the question.
type wordUse uint8

const (
	inIt    wordUse = 1 << iota
	aboutIt         // it says what the question is about
)

// uses returns what the word of a number is to the question.
func (p *Prober) uses(id uint32) wordUse {
	if int(id) >= len(p.inQuestion) {
		return 0
	}
	return p.inQuestion[id]
}

// shingle is a run of words of the question; unused places are 0.
type shingle [shingleWords]uint32

// prepareQuestion numbers the runs of the question that are to be counted. Runs inside of quotation marks are not:
// others quote the same. They have number -1.
func (p *Prober) prepareQuestion(text []byte) {
	words, places := slices.Grow(p.words, len(text)/lettersOfWord), slices.Grow(p.places, len(text)/lettersOfWord)
	var asking []int // the words that ask
	sentence, question := askingSentence(text), string(text)
	for s := (wordScanner{b: text}); s.next(); {
		if sentence.start <= s.start && s.end <= sentence.end && questionWords[string(s.word())] {
			asking = append(asking, len(words))
		}
		words, places = append(words, p.lexicon.add(&s, question)), append(places, interval{s.start, s.end})
	}
	p.words, p.places, p.joined = words, places, strings.Contains(question, "_")
	p.inQuestion = append(p.inQuestion, make([]wordUse, p.lexicon.last+1)...)
	p.questionBytes = len(text)
	if len(words) < fewestWords {
		return
	}
	p.shingleLen = min(len(words), shingleWords)
	quoted := quotedParts(text)
	if inAny(quoted, interval{places[0].start, places[len(places)-1].end}) {
		quoted = nil // all of it
	}
	p.first = -1
	for i := range len(words) - p.shingleLen + 1 {
		var s shingle
		copy(s[:], words[i:i+p.shingleLen])
		end := i + p.shingleLen - 1
		number, known := p.shingles[s]
		switch {
		case inAny(quoted, interval{places[i].start, places[end].end}):
			if !known {
				p.shingles[s] = -1
			}
			continue
		case !known || number < 0:
			number = p.counted
			p.shingles[s] = number
			p.counted++
		}
		if p.first < 0 {
			p.first = number
		}
		p.last = number
		asks := end - max(fewestWords-1, 0)
		switch inside := sentence.start == 0 || asks >= 0 && places[asks].start >= sentence.start && places[end].end <= sentence.end; {
		case !inside:
		case len(asking) == 0 || slices.ContainsFunc(asking, func(w int) bool { return i <= w && w <= end }):
			p.asks = append(p.asks, number)
		}
	}
	for i, id := range words {
		word := text[places[i].start:places[i].end]
		use := &p.inQuestion[id]
		if about := utf8.RuneCount(word) >= 4 && !commonWords[string(word)] || digitByte(word[0]) && len(word) > 1; about && *use&aboutIt == 0 {
			*use |= aboutIt
			p.bag++
		}
		*use |= inIt
	}
	if p.bag < fewestInBag {
		p.bag = 0
	}
}

// inAny reports whether one of several intervals has all of a place.
func inAny(all []interval, place interval) bool {
	return slices.ContainsFunc(all, func(i interval) bool { return i.start <= place.start && place.end <= i.end })
}

// Mostly reports whether a text has most words of the question, each as often as it stands there. Words are runs of letters
// and digits.
func (p *Prober) Mostly(text string) bool {
	l, words := p.lexicon, p.words
	if p.joined {
		l = newLexicon(nil, 0)
		words = l.addAll(withoutUnderscores(p.question))
	}
	said, had := map[uint32]bool{}, 0
	for s := (wordScanner{b: withoutUnderscores(text)}); s.next(); {
		if id := l.find(&s); id > 0 {
			said[id] = true
		}
	}
	for _, id := range words {
		if said[id] {
			had++
		}
	}
	return 2*had > len(words)
}

// withoutUnderscores returns a text in its canonical form, with spaces for underscores.
func withoutUnderscores(text string) []byte {
	return bytes.ReplaceAll(canonicalText(text).b, []byte("_"), []byte(" "))
}

// edge reports whether what is seen of the question has its first or its last run, and a run of the sentence that
// asks, with a question word where that has one: a page that a question describes at length has the description
// alone.
func (p *Prober) edge(seen []bool) bool {
	if p.counted == 0 || !seen[p.first] && !seen[p.last] {
		return false
	}
	return len(p.asks) == 0 || slices.ContainsFunc(p.asks, func(n int) bool { return seen[n] })
}

// echo is what the arguments of a call say.
type echo struct {
	lexicon *lexicon
	runs    map[[echoWords]uint32]struct{}
}

func (p *Prober) newEcho(args string) echo {
	e := echo{lexicon: p.lexicon}
	plain := unescaped(args)
	if len(plain) < shortestEncoded && bytes.IndexByte(plain, '%') < 0 { // no form has more words
		words := 0
		for s := (wordScanner{b: folded(plain)}); words < echoWords && s.next(); words++ {
		}
		if words < echoWords {
			return e
		}
	}
	e.lexicon, e.runs = newLexicon(p.lexicon, 0), map[[echoWords]uint32]struct{}{}
	p.eachForm(args, func(t probeText) hints {
		e.add(t)
		return p.read(t, echo{lexicon: p.lexicon}, nil, false).hints
	})
	return e
}

func (e *echo) add(t probeText) {
	words := e.lexicon.addAll(t.b)
	for i := range len(words) - echoWords + 1 {
		e.runs[[echoWords]uint32(words[i:i+echoWords])] = struct{}{}
	}
}

// reading is what one walk through a document finds.
type reading struct {
	covered, coveredNoEcho int        // of the question, in thousandths
	noEcho                 []bool     // its runs that coveredNoEcho counts
	spans                  []interval // of the question, without the echo
	known                  []interval // all of the question and of the echo
	echo                   []interval
	places                 []interval // of the question, with the echo
	schemaKeys, answerKeys int
	answerColumn           bool
	answerKeyNearID        bool
	markers                int
	hints                  hints
	answers                answerReading
}

// passing is a word on its way through reader.recent.
type passing struct {
	start, end int
	id         uint32
	echoed     bool
}

// reader walks through a document. A run of the question is looked at only when the words behind it have shown
// which of its words are echo.
type reader struct {
	p          *Prober
	echo       echo
	throughout bool // a run is echo if all its words are, and not if one is
	recent     [16]passing
	n          int // words so far
	run        int // words of the question in a row, up to the one looked at
	seen       []bool
	seenNoEcho []bool
	out        reading
}

func (p *Prober) read(t probeText, said echo, own []interval, throughout bool) reading {
	r := reader{p: p, throughout: throughout, echo: said, seen: make([]bool, p.counted), seenNoEcho: make([]bool, p.counted)}
	fields := fieldReader{text: t, own: cursor{all: own}}
	var markers uint64
	var seen known
	state := int32(0)
	alone, end := 0, 0 // letters alone in a row, and the end of the last word
	for s := (wordScanner{b: t.b}); s.next(); {
		id := seen.find(r.echo.lexicon, &s)
		if p.isRotated(id) {
			r.out.hints.rotated = true
		}
		if s.end == s.start+1 && s.start == end+1 && letterByte(t.b[s.start]) {
			if alone++; alone >= aloneLetters {
				r.out.hints.spaced = true
			}
		} else {
			alone = 0
		}
		end = s.end
		r.add(passing{start: s.start, end: s.end, id: id})
		if a := p.answers; a != nil && a.filter[s.hash>>6&uint32(len(a.filter)-1)]&(1<<(s.hash&63)) != 0 {
			p.answers.match(&r.out.answers, t, s.hash, r.n, r.startOf)
		}
		state = p.phrases.automaton.step(state, id)
		for _, found := range p.phrases.automaton.found[state] {
			phrase := &p.phrases.all[found]
			place := interval{r.startOf(len(phrase.words)), s.end}
			switch phrase.kind {
			case fieldPhrase:
				fields.add(phrase, place, s.line)
			case markerPhrase:
				if !phrase.colon || t.colonAt(s.end) {
					markers |= 1 << phrase.number
				}
			case labelPhrase:
				if _, behind := lookAhead(t.b, s.end); behind == ':' || behind == '=' {
					r.out.answers.labels++
				}
			}
		}
	}
	for range echoWords {
		r.add(passing{start: len(t.b), end: len(t.b)})
	}
	fields.finish()
	r.out.covered, r.out.coveredNoEcho, r.out.noEcho = Share(r.seen), Share(r.seenNoEcho), r.seenNoEcho
	r.out.schemaKeys, r.out.answerKeys = bits.OnesCount64(fields.schema), bits.OnesCount64(fields.answers)
	r.out.answerKeyNearID = fields.nearID
	r.out.answerColumn = fields.schema&answerColumn != 0
	r.out.markers = bits.OnesCount64(markers)
	r.out.places = p.quotations(t, r.out)
	return r.out
}

// startOf returns where the last so many words begin.
func (r *reader) startOf(words int) int { return r.recent[(r.n-words)&15].start }

// add takes a word in, and looks for a run of the question that ends with a word so far back that all its echo is
// known.
func (r *reader) add(w passing) {
	r.recent[r.n&15] = w
	if r.n++; r.n < echoWords {
		return
	}
	r.markEcho()
	last, length := r.n-echoWords, r.p.shingleLen
	id := r.recent[last&15].id
	if length == 0 || r.p.uses(id)&inIt == 0 {
		r.run = 0
		return
	}
	if r.run++; r.run < length {
		return
	}
	var key shingle
	first, echoed := last-length+1, 0
	for i := range length {
		w := &r.recent[(first+i)&15]
		key[i] = w.id
		if w.echoed {
			echoed++
		}
	}
	number, ok := r.p.shingles[key]
	if !ok {
		return
	}
	place := interval{r.recent[first&15].start, r.recent[last&15].end}
	r.out.known = addInterval(r.out.known, place)
	if number < 0 {
		return
	}
	r.seen[number] = true
	r.out.places = addInterval(r.out.places, place)
	if echoed == 0 || r.throughout && echoed < length {
		r.seenNoEcho[number] = true
		r.out.spans = addInterval(r.out.spans, place)
	}
}

// markEcho marks the last words if they are a run of the arguments.
func (r *reader) markEcho() {
	if len(r.echo.runs) == 0 {
		return
	}
	var run [echoWords]uint32
	for i := range run {
		if run[i] = r.recent[(r.n-echoWords+i)&15].id; run[i] == 0 {
			return
		}
	}
	if _, ok := r.echo.runs[run]; !ok {
		return
	}
	for i := range run {
		r.recent[(r.n-1-i)&15].echoed = true
	}
	place := interval{r.startOf(echoWords), r.recent[(r.n-1)&15].end}
	r.out.known, r.out.echo = addInterval(r.out.known, place), addInterval(r.out.echo, place)
}

// quotations returns the places where most of the question stands and that are no echo of a query: an engine
// repeats it above its results.
func (p *Prober) quotations(t probeText, read reading) []interval {
	echo, first := cursor{all: read.echo}, true
	return slices.DeleteFunc(read.places, func(place interval) bool {
		if 2*(place.end-place.start) < p.questionBytes {
			return true
		}
		before := bytes.Trim(t.b[:min(place.start, longestEchoHead)], " \t\n{[(\"':") // a document may begin with a field for the question
		asks := len(before) == 0 || string(before) == "question"
		heading := first && (place.start == 0 || read.answerKeys == 0 && asks)
		first = false
		return echo.overlaps(place) && (heading || echoHead(t.b, place))
	})
}

// Share returns how many are true, in thousandths.
func Share(seen []bool) int {
	n := 0
	for _, s := range seen {
		if s {
			n++
		}
	}
	return n * 1000 / max(len(seen), 1)
}

const longestEchoHead = 64 // bytes before an echo, in which words announce it

// quotedParts returns what of a question stands in quotation marks, in order. Where one mark opens and closes, or
// is an apostrophe, the one that opens follows no word, and the one that closes follows no space and precedes no
// word. A mark that is never closed opens nothing.
func quotedParts(b []byte) []interval {
	var parts []interval
	unclosed := map[string]bool{} // marks that close nothing any more
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf && c != '"' && c != '\'' && c != '`' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		i += size
		closers := closingMarks[r]
		if closers == "" || unclosed[closers] || ambiguous(r) && wordBefore(b, i-size) {
			continue
		}
		end := closingMark(b, i, closers)
		if end == 0 {
			unclosed[closers] = true
			continue
		}
		parts = append(parts, interval{i, end})
		i = end
	}
	return parts
}

// closingMarks are the marks that close what a mark opens.
var closingMarks = map[rune]string{'"': `"`, '\'': "'", '`': "`", '“': "”", '„': "“”", '‟': "“”", '«': "»", '»': "«", '‘': "’", '‚': "‘’", '‹': "›", '「': "」", '『': "』"}

// ambiguous reports whether a mark may open, close or be an apostrophe.
func ambiguous(mark rune) bool { return strings.ContainsRune("\"'`’", mark) }

// closingMark returns where the first of the marks behind a place stands, 0 for none.
func closingMark(b []byte, from int, marks string) int {
	for i := from; ; {
		next := bytes.IndexAny(b[i:], marks)
		if next < 0 {
			return 0
		}
		i += next
		r, size := utf8.DecodeRune(b[i:])
		after, _ := utf8.DecodeRune(b[i+size:])
		if !ambiguous(r) || i > from && !asciiSpace(b[i-1]) && !wordRune(after) {
			return i
		}
		i += size
	}
}

// askingSentence returns where the last sentence with a question mark begins and ends, in bytes; the whole question
// if there is none.
func askingSentence(b []byte) interval {
	end := max(bytes.LastIndexByte(b, '?'), bytes.LastIndex(b, []byte("？")))
	if end < 0 {
		return interval{0, len(b)}
	}
	start := 0
	for i := 0; i+1 < end; i++ {
		if c := b[i]; (c == '.' || c == '!' || c == '?') && asciiSpace(b[i+1]) || c == '\n' {
			start = i + 1
		}
	}
	return interval{start, end}
}

// echoStems are what words begin with that stand before the echo of a query.
var echoStems = []string{"query", "queries", "search", "results", "resultados", "resultats", "ergebnisse", "suche", "recherche", "busca", "busqueda",
	"ricerca", "risultati", "zoek", "поиск", "запрос", "検索", "搜索", "showing", "asked", "input", "prompt"}

// echoHead reports whether a place of the question begins as the echo of a query does: behind words such as
// "results for", or in an address. At the beginning of a document the question stands without them.
func echoHead(b []byte, place interval) bool {
	i := place.start
	for i > 0 {
		r, size := utf8.DecodeLastRune(b[:i])
		if wordRune(r) {
			break
		}
		if r == '=' {
			return true
		}
		i -= size
	}
	var last [3][]byte
	words := 0
	for s := (wordScanner{b: b[max(0, i-longestEchoHead):i]}); s.next(); words++ {
		last = [3][]byte{last[1], last[2], s.word()}
	}
	if words == 0 {
		return true
	}
	return slices.ContainsFunc(last[:], func(word []byte) bool {
		return slices.ContainsFunc(echoStems, func(stem string) bool { return bytes.HasPrefix(word, []byte(stem)) })
	})
}

// Union returns which are true in either.
func Union(a, b []bool) []bool {
	all := make([]bool, len(b))
	for i := range b {
		all[i] = b[i] || i < len(a) && a[i]
	}
	return all
}

// WholeQuestion is the share of a question, in thousandths, that makes a text the question.
const WholeQuestion = 700

// mostShared bounds how often runs of words are found to be a task's: many tasks can have nearly the same question.
const mostShared = 4 << 20

// Questions finds the questions of a run in a text, all in one walk: the work grows with the text and not with the
// number of tasks.
type Questions struct {
	lexicon *lexicon
	runs    map[shingle][]int // tasks whose question has the run of words
	size    []int             // distinct runs of a task's question; 0 of one that is too short to be found
	lengths [shingleWords + 1]bool
	left    int // how often a run of words may still be found to be a task's
}

// NewQuestions prepares the questions of tasks; "" for none.
func NewQuestions(questions []string) *Questions {
	q := &Questions{lexicon: newLexicon(nil, 0), runs: map[shingle][]int{}, size: make([]int, len(questions)), left: mostShared}
	for i, question := range questions {
		words := q.lexicon.addAll(canonicalText(question).b)
		if len(words) < fewestWords {
			continue
		}
		length := min(len(words), shingleWords)
		q.lengths[length] = true
		for s := range distinctRuns(words, length) {
			q.runs[s] = append(q.runs[s], i)
			q.size[i]++
		}
	}
	return q
}

// In returns the numbers of the questions that a text has [WholeQuestion] of, in their order. Once too much has
// been looked at (see [Questions.Exhausted]) it returns none.
func (q *Questions) In(text string) (found []int) {
	var words []uint32
	for s := (wordScanner{b: canonicalText(text).b}); s.next(); {
		words = append(words, q.lexicon.find(&s))
	}
	seen := map[int]int{}
	for length, used := range q.lengths {
		if !used {
			continue
		}
		for s := range distinctRuns(words, length) {
			if q.left -= len(q.runs[s]); q.left < 0 {
				return nil
			}
			for _, task := range q.runs[s] {
				seen[task]++
			}
		}
	}
	for task, n := range seen {
		if n*1000 >= WholeQuestion*q.size[task] {
			found = append(found, task)
		}
	}
	slices.Sort(found)
	return found
}

// Exhausted reports whether a text was not looked through because the work had reached its bound.
func (q *Questions) Exhausted() bool { return q.left < 0 }

// distinctRuns are the runs of so many words, those without a word that is in no lexicon.
func distinctRuns(words []uint32, length int) map[shingle]struct{} {
	out := map[shingle]struct{}{}
	for i := range len(words) - length + 1 {
		if run := words[i : i+length]; !slices.Contains(run, 0) {
			var s shingle
			copy(s[:], run)
			out[s] = struct{}{}
		}
	}
	return out
}
