package audit

import "slices"

// questions finds the questions of a run in a text, all in one walk: the work
// grows with the text and not with the number of tasks.
type questions struct {
	lexicon *lexicon
	runs    map[shingle][]int // tasks whose question has the run of words
	size    []int             // distinct runs of a task's question; 0 of one that is too short to be told
	lengths [shingleWords + 1]bool
}

func newQuestions(tasks []*TaskEvidence) *questions {
	q := &questions{lexicon: newLexicon(nil), runs: map[shingle][]int{}, size: make([]int, len(tasks))}
	for i, t := range tasks {
		if len(t.Attempts) == 0 {
			continue
		}
		words := q.lexicon.addAll(canonicalText(t.Attempts[0].Question).b)
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

// in returns the tasks of whose question a text has as much as makes it the
// question, in their order.
func (q *questions) in(text string) (found []int) {
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
			for _, task := range q.runs[s] {
				seen[task]++
			}
		}
	}
	for task, n := range seen {
		if n*1000 >= wholeQuestion*q.size[task] {
			found = append(found, task)
		}
	}
	slices.Sort(found)
	return found
}

// distinctRuns are the runs of so many words, those without a word that is in no
// lexicon.
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

// unplanned are the ids of the split whose tasks nothing else looks for: those
// that the run does not ask.
func (e *Evidence) unplanned() *IDs {
	asked := map[string]bool{}
	for _, t := range e.Tasks {
		asked[t.Plan.TaskID] = len(t.Attempts) > 0
	}
	return NewIDs(slices.DeleteFunc(slices.Clone(e.Manifest.SplitIDs), func(id string) bool { return asked[id] }))
}

// records reports whether a text holds the id of a task with a field for its
// answer.
func (ids *IDs) records(text string) bool {
	p := NewProber(Target{SplitIDs: ids}).Probe(text, "", nil)
	return p.OtherUUIDs > 0 && p.AnswerKeys > 0
}

// shortStands reports whether a gold answer that is too short to be found
// without a label stands in a text all the same.
func (p *Prober) shortStands(text string) bool {
	lenient := *p
	lenient.gold.short = false
	return p.gold.short && lenient.Probe(text, "", nil).GoldHits > 0
}
