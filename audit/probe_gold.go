package audit

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// goldForm is a gold answer as it is looked for: parts that are numerals or
// sequences of words.
type goldForm struct {
	parts     int
	short     bool
	numerals  map[string]int // value → part
	sequences []goldSequence
	automaton *automaton // over sequences
	longest   int        // words of a sequence, at least 1
}

type goldSequence struct {
	words []uint32
	part  int
}

func newGoldForm(gold string, l *lexicon) goldForm {
	text := bytes.TrimSpace(canonicalText(gold).b)
	g := goldForm{short: utf8.RuneCount(text) < shortGold, numerals: map[string]int{}, longest: 1}
	for part := range bytes.SplitSeq(text, []byte(";")) {
		if g.addNumeral(part) {
			continue
		}
		for part := range bytes.SplitSeq(part, []byte(",")) {
			if !g.addNumeral(part) {
				g.addWords(l.addAll(part))
			}
		}
	}
	var sequences [][]uint32
	for _, s := range g.sequences {
		sequences = append(sequences, s.words)
	}
	g.automaton = newAutomaton(sequences)
	return g
}

func (g *goldForm) addNumeral(s []byte) bool {
	value, ok := goldNumeral(s)
	if !ok {
		return false
	}
	if _, known := g.numerals[string(value)]; !known {
		g.numerals[string(value)] = g.parts
		g.parts++
	}
	return true
}

func (g *goldForm) addWords(words []uint32) {
	if len(words) == 0 {
		return
	}
	if slices.ContainsFunc(g.sequences, func(s goldSequence) bool { return slices.Equal(s.words, words) }) {
		return
	}
	g.sequences = append(g.sequences, goldSequence{words, g.parts})
	g.parts++
	g.longest = max(g.longest, len(words))
}

// goldFindings is where a document has the gold.
type goldFindings struct {
	hits                           int
	labelled, nearQuestion, nearID bool
	called, calledNearQuestion     bool // see called
	nearStart                      bool // behind the first digits of the id
	changed                        bool // called, and around it most words of the question
}
