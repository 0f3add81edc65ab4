package probe

import "slices"

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
	q := &Questions{lexicon: newLexicon(nil), runs: map[shingle][]int{}, size: make([]int, len(questions)), left: mostShared}
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
