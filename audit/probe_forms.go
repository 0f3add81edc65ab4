package audit

// hints say what a reading found that another form of the text may undo.
type hints struct {
	rotated bool // words of the task in rot13
	spaced  bool // letters that stand alone, one after the other
}

// eachForm calls visit with the forms of a text: in canonical form, with its
// encodings undone (see decoded), then also with its layout undone (see laidOut),
// then also with the task's words out of rot13. It leaves out a form that differs
// in nothing. What is written in an encoding is replaced where it stands, so that
// it is read together with what stands around it. All forms together take time
// and memory linear in the text.
func (p *Prober) eachForm(s string, visit func(probeText) hints) {
	b := unescaped(s)
	plain := p.decoded(b)
	t := numberedText(b)
	found := visit(t)
	if plain != nil {
		t = numberedText(plain)
		more := visit(t)
		found = hints{found.rotated || more.rotated, found.spaced || more.spaced}
	}
	if b := p.laidOut(t, found.spaced); b != nil {
		t = probeText{b: b}
		t.index()
		visit(t)
	}
	if found.rotated {
		p.unrotate(t.b)
		visit(t)
	}
}

// numberedText is foldedText with its line numbers.
func numberedText(b []byte) probeText {
	t := foldedText(b)
	t.numbered, t.counted = lineNumbers(t.b)
	return t
}

// rotation returns a word in rot13.
func rotation(word []byte) []byte {
	out := make([]byte, len(word))
	for i, c := range word {
		out[i] = rot13(c)
	}
	return out
}

func rot13(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return 'a' + (c-'a'+13)%26
	}
	return c
}

// shortestRotated is the letters of a word that is known in rot13. A shorter one
// is known behind another.
const shortestRotated = 3

// prepareRotated adds the rot13 of the task's words, of labels and of common
// words, unless it is a word that is looked for itself.
func (p *Prober) prepareRotated(task ...string) {
	known := p.lexicon.last
	words := []byte("the and was were that this with for from which what how answer question final correct solution gold expected ")
	for _, text := range task {
		words = append(append(words, canonicalText(text).b...), ' ')
	}
	for s := (wordScanner{b: words}); s.next(); {
		if r := rotation(s.word()); s.end-s.start >= shortestRotated && string(r) != string(s.word()) {
			p.lexicon.addAll(r)
		}
	}
	p.firstRotated, p.lastRotated = known+1, p.lexicon.last
}

// isRotated reports whether the number of a word is that of one in rot13.
func (p *Prober) isRotated(id uint32) bool { return id >= p.firstRotated && id <= p.lastRotated }

// unrotate undoes rot13 in place: of the task's words, and of words of one or two
// letters behind them.
func (p *Prober) unrotate(b []byte) {
	end := -2 // of the last word that it changed
	for s := (wordScanner{b: b}); s.next(); {
		short := s.end-s.start < shortestRotated && s.start-end <= 2
		if !short && !p.isRotated(p.lexicon.find(&s)) {
			continue
		}
		for i := s.start; i < s.end; i++ {
			b[i] = rot13(b[i])
		}
		end = s.end
	}
}
