package audit

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

const (
	longestCall  = 64 // bytes between the beginning of a label and the answer it calls so
	mostFillers  = 4  // words between them, such as "is the"
	bagAround    = 200
	bagStep      = 256
	fewestInBag  = 6   // distinct words of a question, without common ones
	changedShare = 600 // of them, in thousandths
)

// called reports whether what begins at a place is called an answer: a label stands
// before it, with a sign such as a colon, a line break or "is" between them, and
// nothing else but numbers and words such as "the". The single letter "a" is a label
// before a colon.
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
		case answerWord(word):
			return signed
		case string(word) == "a" && colon:
			return true
		case linkWord(word):
			signed = true
		case !digits(word) && !slices.Contains(articles, string(word)):
			return false
		}
	}
	return false
}

var (
	labelNames = foldedWords("ans", "solution", "solutions", "truth", "ground_truth", "groundtruth", "gold", "expected", "correct",
		"antwort", "antworten", "losung", "losungen", "reponse", "reponses", "respuesta", "respuestas", "resposta", "risposta", "soluzione",
		"solucion", "solucao", "antwoord", "svar", "odpowiedz", "ответ", "ответы", "cevap", "答案", "回答", "正解", "答え", "정답", "답")
	articles = foldedWords("the", "a", "an", "to", "for", "no", "nr", "question", "task", "item", "final", "q",
		"finale", "correcte", "exacte", "attendue", "correcta", "esperada", "correta", "corretta", "esatta", "attesa", "правильный", "верный")
	linkWords = []string{"is", "was", "are", "be", "being", "ist", "lautet", "est", "es", "e", "er", "ar", "jest"}
)

// foldedWords returns words in the form that they have in canonical text.
func foldedWords(words ...string) []string {
	for i, w := range words {
		words[i] = string(canonicalText(w).b)
	}
	return words
}

// answerWord reports whether a word is a label of an answer.
func answerWord(word []byte) bool {
	return bytes.HasSuffix(word, []byte("answer")) || bytes.HasSuffix(word, []byte("answers")) || slices.Contains(labelNames, string(word))
}

func linkWord(word []byte) bool { return slices.Contains(linkWords, string(word)) }

// commonWords of at least four letters say nothing of what a question is about.
var commonWords = []string{"about", "after", "also", "answer", "been", "before", "does", "each", "ever", "find", "first", "following", "from", "give", "have", "into", "last", "list",
	"many", "more", "most", "much", "name", "number", "only", "other", "over", "please", "question", "same", "some", "such", "than", "that", "their", "them", "then", "there", "these", "they", "this",
	"those", "under", "used", "using", "were", "what", "when", "where", "which", "while", "whose", "will", "with", "would", "year", "your"}

// newBag returns the distinct words of a question that say what it is about; nil for
// too few of them.
func newBag(question []byte, l *lexicon) map[uint32]bool {
	bag := map[uint32]bool{}
	for s := (wordScanner{b: question}); s.next(); {
		word := s.word()
		if utf8.RuneCount(word) >= 4 && !slices.Contains(commonWords, string(word)) || digitByte(word[0]) && len(word) > 1 {
			bag[l.find(&s)] = true
		}
	}
	if len(bag) < fewestInBag {
		return nil
	}
	return bag
}

// mostOfBag reports whether around a place stand most words of the question that say
// what it is about, outside of the echo.
func (r *goldReader) mostOfBag(place interval) bool {
	around := r.p.questionBytes + bagAround
	from, to := max(0, place.start-around), min(len(r.text.b), place.end+around)
	first, _ := slices.BinarySearchFunc(r.echo, from, func(echo interval, from int) int { return cmp.Compare(echo.end, from) })
	echo := cursor{all: r.echo[first:]}
	seen := map[uint32]bool{}
	for s := (wordScanner{b: r.text.b[from:to]}); s.next(); {
		if id := r.p.lexicon.find(&s); r.p.bag[id] && !seen[id] && !echo.overlaps(interval{from + s.start, from + s.end}) {
			seen[id] = true
		}
	}
	return len(seen)*1000 >= changedShare*len(r.p.bag)
}
