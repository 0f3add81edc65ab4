package audit

import "slices"

// questions finds the questions of a run in a text, all in one walk: the work
// grows with the text and not with the number of tasks.
type questions struct {
	lexicon *lexicon
	runs    map[shingle][]int // tasks whose question has the run of words
	size    []int             // distinct runs of a task's question; 0 of one that is too short to be told
	lengths [shingleWords + 1]bool
	left    int // how often a run of words may still be found to be a task's
}

// Bounds of looking for the other tasks of a run in its odd messages. Many tasks
// can have nearly the same question, and a message as many of them: each message
// then takes as long as there are tasks. The work is counted in runs of words that
// are a task's, and in bytes that are probed for one, of which a message takes
// pairOverhead besides its own.
const (
	mostShared   = 4 << 20
	mostPaired   = 32 << 20
	pairOverhead = 1 << 10
)

// mostToolText bounds what is looked through for each task of what the tools say of
// themselves, in bytes.
const mostToolText = 256 << 10

func newQuestions(tasks []*TaskEvidence) *questions {
	q := &questions{lexicon: newLexicon(nil), runs: map[shingle][]int{}, size: make([]int, len(tasks)), left: mostShared}
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
// question, in their order. Once too much has been looked at it returns none, and
// left is less than 0.
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
			if q.left -= len(q.runs[s]); q.left < 0 {
				return nil
			}
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

// otherPairs looks in odd messages for the other tasks of the run: who is shown
// solved tasks is told how the benchmark answers, and its other tasks are lost. Of
// each task the first message with it is told.
func otherPairs(e *Evidence, n *Notes) {
	if e.OddUnread {
		n.gap("there are more messages that are not their templates' than are looked through for other tasks")
	}
	if len(e.Odd) == 0 {
		return
	}
	asked := newQuestions(e.Tasks)
	in := make([][]*OddText, len(e.Tasks)) // messages with the question of a task
	for i := range e.Odd {
		for _, task := range asked.in(e.Odd[i].Text) {
			if e.Tasks[task] != e.Odd[i].Task {
				in[task] = append(in[task], &e.Odd[i])
			}
		}
	}
	left := mostPaired
	for i, t := range e.Tasks {
		if len(in[i]) == 0 {
			continue
		}
		prober := e.prober(t)
		for _, o := range in[i] {
			if left -= len(o.Text) + pairOverhead; left < 0 {
				break
			}
			if p := prober.Probe(o.Text, "", nil); p.QCov >= wholeQuestion && p.GoldNear {
				n.find("other-task-with-answer", place{task: o.Task, attempt: o.Attempt, seq: o.Seq, sha256: o.SHA256, unasked: true},
					"a message holds task "+t.Plan.TaskID+" and its answer", "the question of the task alone")
				break
			}
		}
	}
	if left < 0 || asked.left < 0 {
		n.gap("the messages that are not their templates' have the questions of more tasks than are looked through")
	}
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

// bounded cuts texts to what is looked through of them together, and reports
// whether there was more.
func bounded(texts ...*string) (cut bool) {
	left := mostToolText
	for _, text := range texts {
		if len(*text) > left {
			*text, cut = (*text)[:left], true
		}
		left -= len(*text)
	}
	return cut
}
