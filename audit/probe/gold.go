package probe

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// goldForm is a gold answer as it is looked for: parts that are numerals or sequences of words.
type goldForm struct {
	parts     int
	short     bool
	numerals  map[string]int // value → part
	sequences []goldSequence
	automaton *automaton // over sequences
	longest   int        // words of a sequence, at least 1
	needed    [][]byte   // see lacks
}

type goldSequence struct {
	words []uint32
	part  int
}

// lacks reports whether a part of the gold cannot stand in canonical text, so that no gold is whole there: the longest word of
// a sequence, or the last digits that each spelling of a numeral has in a row, are not in it.
func (g *goldForm) lacks(b []byte) bool {
	return slices.ContainsFunc(g.needed, func(piece []byte) bool { return !bytes.Contains(b, piece) })
}

// newGoldForm prepares a gold in canonical text.
func newGoldForm(gold []byte, l *lexicon) goldForm {
	text := bytes.TrimSpace(gold)
	g := goldForm{short: utf8.RuneCount(text) < shortGold, longest: 1, automaton: noSequences}
	for part := range bytes.SplitSeq(text, []byte(";")) {
		if g.addNumeral(part) {
			continue
		}
		for part := range bytes.SplitSeq(part, []byte(",")) {
			if !g.addNumeral(part) {
				words := l.addAll(part)
				if len(words) == 0 || slices.ContainsFunc(g.sequences, func(s goldSequence) bool { return slices.Equal(s.words, words) }) {
					continue
				}
				var longest []byte
				for s := (wordScanner{b: part}); s.next(); {
					if len(s.word()) > len(longest) {
						longest = s.word()
					}
				}
				g.needed = append(g.needed, longest)
				g.sequences = append(g.sequences, goldSequence{words, g.parts})
				g.parts++
				g.longest = max(g.longest, len(words))
			}
		}
	}
	if len(g.sequences) > 0 {
		sequences := make([][]uint32, len(g.sequences))
		for i, s := range g.sequences {
			sequences[i] = s.words
		}
		g.automaton = newAutomaton(sequences)
	}
	return g
}

func (g *goldForm) addNumeral(s []byte) bool {
	value, ok := goldNumeral(s)
	if !ok {
		return false
	}
	if _, known := g.numerals[string(value)]; !known {
		if g.numerals == nil {
			g.numerals = map[string]int{}
		}
		g.numerals[string(value)] = g.parts
		g.parts++
		const group = 3 // digits that no comma parts
		whole, fraction, pointed := bytes.Cut(bytes.TrimPrefix(value, []byte("-")), []byte("."))
		piece := bytes.Clone(whole[max(0, len(whole)-group):])
		if pointed { // it may begin with the point
			piece = append(append(bytes.TrimPrefix(piece, []byte("0")), '.'), fraction...)
		}
		g.needed = append(g.needed, piece)
	}
	return true
}

// goldFindings is where a document has the gold.
type goldFindings struct {
	hits                           int
	labelled, nearQuestion, nearID bool
	called, calledNearQuestion     bool // see called
	nearStart                      bool // behind the first digits of the id
	changed                        bool // called, and around it most words of the question
}

// goldReader walks through a document and looks for the gold.
type goldReader struct {
	p                   *Prober
	gold                *goldForm
	text                probeText
	spans, known        cursor // see reading
	places              cursor
	echo                []interval
	own, starts         cursor
	counted             cursor     // line numbers
	all, nearQ, near    goldWindow // anywhere; near a span; near the id
	nearPlace, behindID goldWindow // near a place of the question; behind the first digits of the id
	bagged              int        // where the words around gold were last looked at, and a step
	out                 goldFindings
	listed              *[]interval // where all parts stand, and nothing else is wanted; nil: it is not
}

// goldWord is a word that a part of the gold may begin with.
type goldWord struct {
	start int
	label int // where the last label before it begins, or -1
}

func (p *Prober) readGold(t probeText, read reading, ids foundIDs) goldFindings {
	g := &p.gold
	if g.parts == 0 || g.lacks(t.b) {
		return goldFindings{}
	}
	r := goldReader{
		p: p, gold: g, text: t, spans: cursor{all: read.spans}, known: cursor{all: read.known}, places: cursor{all: read.places}, echo: read.echo,
		own: cursor{all: ids.own}, starts: cursor{all: ids.ownStarts}, counted: cursor{all: t.counted},
		all: newGoldWindow(g.parts), nearQ: newGoldWindow(g.parts), near: newGoldWindow(g.parts), nearPlace: newGoldWindow(g.parts), behindID: newGoldWindow(g.parts),
	}
	p.walkGold(&r)
	return r.out
}

// walkGold goes through the words of a document.
func (p *Prober) walkGold(r *goldReader) {
	g, t := r.gold, r.text
	var state, labelState int32
	var seen known
	recent := make([]goldWord, g.longest)
	label, previous, numeralEnd, n := -1, 0, 0, 0
	buf := make([]byte, 0, 64)
	for s := (wordScanner{b: t.b}); !r.done() && s.next(); {
		recent[n%g.longest] = goldWord{s.start, label}
		n++
		if len(g.numerals) > 0 && s.start >= numeralEnd && digitByte(t.b[s.start]) && !r.counted.overlaps(interval{s.start, s.end}) {
			numeralEnd = t.numerals(s.start, buf, func(value []byte, place interval) {
				if part, ok := g.numerals[string(value)]; ok {
					r.hit(part, place, label)
				}
			})
		}
		id := seen.find(p.lexicon, &s)
		state = g.automaton.step(state, id)
		for _, found := range g.automaton.found[state] {
			sequence := &g.sequences[found]
			first := recent[(n-len(sequence.words))%g.longest]
			r.hit(sequence.part, interval{first.start, s.end}, first.label)
		}
		labelState = p.phrases.automaton.step(labelState, id)
		for _, found := range p.phrases.automaton.found[labelState] {
			if ph := &p.phrases.all[found]; ph.kind == labelPhrase {
				label = s.start
				if len(ph.words) > 1 {
					label = previous
				}
			}
		}
		previous = s.start
	}
}

// done says whether nothing more can be learnt.
func (r *goldReader) done() bool {
	return r.out.hits == mostHits && r.out.labelled && r.out.called && (r.out.changed || r.p.bag == 0) &&
		(r.out.nearQuestion || len(r.spans.all) == 0) && (r.out.nearID || len(r.own.all) == 0) &&
		(r.out.calledNearQuestion || len(r.places.all) == 0) && (r.out.nearStart || len(r.starts.all) == 0)
}

// hit takes in a place where a part of the gold stands.
func (r *goldReader) hit(part int, place interval, label int) {
	if r.listed != nil {
		*r.listed = append(*r.listed, place)
		return
	}
	h := goldHit{part: part, start: r.text.pos(place.start), end: r.text.pos(place.end)}
	h.labelled = label >= 0 && h.start-r.text.pos(label) <= labelChars
	h.called = h.labelled && !r.gold.short || called(r.text.b, place.start)
	besideStart := r.gold.short && r.starts.beside(r.text, place)
	h.counts = !r.gold.short || h.labelled || besideStart || r.spans.beside(r.text, place) || r.own.beside(r.text, place)
	found := r.all.add(h)
	if found.whole {
		r.out.labelled = r.out.labelled || found.labelled
		r.out.called = r.out.called || found.called
		if found.counts && r.out.hits < mostHits {
			r.out.hits++
		}
	}
	if r.known.overlaps(place) {
		return
	}
	if !r.out.nearQuestion && r.spans.near(r.text, place, windowChars) {
		r.out.nearQuestion = r.nearQ.add(h).counts
	}
	if !r.out.calledNearQuestion && r.places.near(r.text, place, windowChars) {
		r.out.calledNearQuestion = r.nearPlace.add(h).called
	}
	if !r.out.nearID && r.own.near(r.text, place, windowChars) {
		r.out.nearID = r.near.add(h).counts
	}
	if !r.out.nearStart && (besideStart || r.starts.near(r.text, place, startChars)) {
		r.out.nearStart = r.behindID.add(h).counts
	}
	if found.called && !r.out.changed && r.p.bag > 0 && place.start >= r.bagged {
		r.bagged = place.start + bagStep
		r.out.changed = r.mostOfBag(place)
	}
}

// goldHit is a part of the gold, in characters.
type goldHit struct {
	part, start, end int
	labelled, called bool
	counts, whole    bool // see goldWindow.add
}

// goldWindow gathers hits that stand within 400 characters until every part is among them.
type goldWindow struct {
	hits    []goldHit
	first   int   // of hits, those before it are too far away
	of      []int // hits of each part
	present int   // parts with a hit
}

func newGoldWindow(parts int) goldWindow { return goldWindow{of: make([]int, parts)} }

// add takes a hit in. If the gold is whole with it, it returns whether a part has a label, is called an answer, and
// counts; the next place begins behind it.
func (w *goldWindow) add(h goldHit) (found goldHit) {
	for w.first < len(w.hits) && h.end-w.hits[w.first].start > windowChars {
		w.drop(w.hits[w.first].part)
		w.first++
	}
	if w.first > len(w.hits)/2 {
		w.hits, w.first = append(w.hits[:0], w.hits[w.first:]...), 0
	}
	w.hits = append(w.hits, h)
	if w.of[h.part]++; w.of[h.part] == 1 {
		w.present++
	}
	if w.present < len(w.of) {
		return found
	}
	for _, h := range w.hits[w.first:] {
		found.labelled, found.called, found.counts = found.labelled || h.labelled, found.called || h.called, found.counts || h.counts
		w.drop(h.part)
	}
	w.hits, w.first, found.whole = w.hits[:0], 0, true
	return found
}

func (w *goldWindow) drop(part int) {
	if w.of[part]--; w.of[part] == 0 {
		w.present--
	}
}

const (
	longestCall  = 64 // bytes between the beginning of a label and the answer it calls so
	mostFillers  = 4  // words between them, such as "is the"
	bagAround    = 200
	bagStep      = 256
	fewestInBag  = 6   // distinct words of a question, without common ones
	changedShare = 600 // of them, in thousandths
)

// called reports whether what begins at a place is called an answer: a label stands before it, with a sign such as
// a colon, a line break or "is" between them, and nothing else but numbers and words such as "the". The single
// letter "a" is a label before a colon.
func called(b []byte, start int) bool {
	from := max(0, start-longestCall)
	signed, colon := false, false
	i := start
	for fillers := 0; fillers <= mostFillers; fillers++ {
		colon = false
		for i > from {
			r, size := utf8.DecodeLastRune(b[:i])
			if wordRune(r) {
				break
			}
			switch r {
			case ':', '：':
				signed, colon = true, true
			case '=', '|', '\t', '\n', '→', '⇒', '>', '-', '–', '—':
				signed = true
			case '.', '!', '?', ';', ',', '。':
				if fillers > 0 { // "17. Brellin" is numbered, "no answer. Brellin" is not called one
					return false
				}
			}
			i -= size
		}
		end := i
		for i > from {
			r, size := utf8.DecodeLastRune(b[:i])
			if !wordRune(r) {
				break
			}
			i -= size
		}
		word := b[i:end]
		switch {
		case len(word) == 0 || i == from && from > 0:
			return false
		case bytes.HasSuffix(word, []byte("answer")), bytes.HasSuffix(word, []byte("answers")), slices.Contains(labelNames(), string(word)):
			return signed
		case string(word) == "a" && colon:
			return true
		case slices.Contains(linkWords, string(word)):
			signed = true
		case !digits(word) && !slices.Contains(articles(), string(word)):
			return false
		}
	}
	return false
}

var (
	labelNames = sync.OnceValue(func() []string {
		return foldedWords("ans", "solution", "solutions", "truth", "ground_truth", "groundtruth", "gold", "expected", "correct",
			"antwort", "antworten", "losung", "losungen", "reponse", "reponses", "respuesta", "respuestas", "resposta", "risposta", "soluzione",
			"solucion", "solucao", "antwoord", "svar", "odpowiedz", "ответ", "ответы", "cevap", "答案", "回答", "正解", "答え", "정답", "답")
	})
	articles = sync.OnceValue(func() []string {
		return foldedWords("the", "a", "an", "to", "for", "no", "nr", "question", "task", "item", "final", "q",
			"finale", "correcte", "exacte", "attendue", "correcta", "esperada", "correta", "corretta", "esatta", "attesa", "правильный", "верный")
	})
	linkWords = []string{"is", "was", "are", "be", "being", "ist", "lautet", "est", "es", "e", "er", "ar", "jest"}
)

// foldedWords returns words in the form that they have in canonical text.
func foldedWords(words ...string) []string {
	for i, w := range words {
		words[i] = string(canonicalText(w).b)
	}
	return words
}

// commonWords of at least four letters say nothing of what a question is about.
var commonWords = setOf(`about after also answer been before does each ever find first following from give have into last list
	many more most much name number only other over please question same some such than that their them then there these they this
	those under used using were what when where which while whose will with would year your`)

// setOf returns the words of a text.
func setOf(text string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		all[word] = true
	}
	return all
}

// mostOfBag reports whether around a place stand most words of the question that say what it is about, outside of
// the echo.
func (r *goldReader) mostOfBag(place interval) bool {
	around := r.p.questionBytes + bagAround
	from, to := max(0, place.start-around), min(len(r.text.b), place.end+around)
	first, _ := slices.BinarySearchFunc(r.echo, from, func(echo interval, from int) int { return cmp.Compare(echo.end, from) })
	echo := cursor{all: r.echo[first:]}
	seen := map[uint32]bool{}
	for s := (wordScanner{b: r.text.b[from:to]}); s.next(); {
		if id := r.p.lexicon.find(&s); r.p.uses(id)&aboutIt != 0 && !seen[id] && !echo.overlaps(interval{from + s.start, from + s.end}) {
			seen[id] = true
		}
	}
	return len(seen)*1000 >= changedShare*r.p.bag
}
