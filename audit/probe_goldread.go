package audit

// goldReader walks through a document and looks for the gold.
type goldReader struct {
	gold             *goldForm
	text             probeText
	spans, known     cursor // see reading
	own              cursor
	counted          cursor     // line numbers
	all, nearQ, near goldWindow // anywhere; near a span; near the id
	out              goldFindings
}

// goldWord is a word that a part of the gold may begin with.
type goldWord struct {
	start int
	label int // where the last label before it begins, or -1
}

func (p *Prober) readGold(t probeText, read reading, own []interval) goldFindings {
	g := &p.gold
	if g.parts == 0 {
		return goldFindings{}
	}
	r := goldReader{
		gold: g, text: t, spans: cursor{all: read.spans}, known: cursor{all: read.known}, own: cursor{all: own},
		counted: cursor{all: t.counted}, all: newGoldWindow(g.parts), nearQ: newGoldWindow(g.parts), near: newGoldWindow(g.parts),
	}
	var state, labelState int32
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
		id := p.lexicon.find(&s)
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
	return r.out
}

// done says whether nothing more can be learnt.
func (r *goldReader) done() bool {
	return r.out.hits == mostHits && r.out.labelled &&
		(r.out.nearQuestion || len(r.spans.all) == 0) && (r.out.nearID || len(r.own.all) == 0)
}

// hit takes in a place where a part of the gold stands.
func (r *goldReader) hit(part int, place interval, label int) {
	h := goldHit{part: part, start: r.text.pos(place.start), end: r.text.pos(place.end)}
	h.labelled = label >= 0 && h.start-r.text.pos(label) <= labelChars
	h.counts = !r.gold.short || h.labelled || r.spans.beside(r.text, place) || r.own.beside(r.text, place)
	if whole, labelled, counts := r.all.add(h); whole {
		r.out.labelled = r.out.labelled || labelled
		if counts && r.out.hits < mostHits {
			r.out.hits++
		}
	}
	if r.known.overlaps(place) {
		return
	}
	if !r.out.nearQuestion && r.spans.near(r.text, place, windowChars) {
		whole, _, counts := r.nearQ.add(h)
		r.out.nearQuestion = whole && counts
	}
	if !r.out.nearID && r.own.near(r.text, place, windowChars) {
		whole, _, counts := r.near.add(h)
		r.out.nearID = whole && counts
	}
}

// goldHit is a part of the gold, in characters.
type goldHit struct {
	part, start, end int
	labelled         bool
	counts           bool
}

// goldWindow gathers hits that stand within 400 characters until every part is
// among them.
type goldWindow struct {
	hits    []goldHit
	first   int   // of hits, those before it are too far away
	of      []int // hits of each part
	present int   // parts with a hit
}

func newGoldWindow(parts int) goldWindow { return goldWindow{of: make([]int, parts)} }

// add takes a hit in. It says whether the gold is whole with it, and then
// whether a part has a label and whether one counts; the next place begins behind it.
func (w *goldWindow) add(h goldHit) (whole, labelled, counts bool) {
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
		return false, false, false
	}
	for _, h := range w.hits[w.first:] {
		labelled, counts = labelled || h.labelled, counts || h.counts
		w.drop(h.part)
	}
	w.hits, w.first = w.hits[:0], 0
	return true, labelled, counts
}

func (w *goldWindow) drop(part int) {
	if w.of[part]--; w.of[part] == 0 {
		w.present--
	}
}
