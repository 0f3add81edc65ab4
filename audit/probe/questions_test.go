package probe

import (
	"slices"
	"strings"
	"testing"
)

// TestQuestionsInText: a text is searched for all questions at once, and for each
// of them the outcome is that of looking for it alone.
func TestQuestionsInText(t *testing.T) {
	all := []string{
		"In which town did the clockmaker Odile Varn build the tower clock of the harbour museum?",
		"Who paid the clockmaker Odile Varn for the tower clock of the north gate?",
		"How many ferries crossed?", // one run of four words
		"Who won?",                  // too short to be told
		"the same word the same word the same word the same word the same word",
		"", // of a task without an attempt
	}
	q := NewQuestions(all)
	tests := []struct {
		text string
		want []int
	}{
		{"", nil},
		{"Who won?", nil},
		{all[0], []int{0}},
		{strings.ToUpper(all[1]), []int{1}},
		{all[1] + " " + all[0] + " " + all[2], []int{0, 1, 2}},
		{"how many <b>ferries</b> crossed the bay", []int{2}},
		{"how many large ferries crossed", nil},
		{"the same word the same word the same word the same", []int{4}},
		{"In which town did the clockmaker Odile Varn", nil},
		{"Odile Varn build the tower clock of the harbour museum", nil},
	}
	for _, tt := range tests {
		got := q.In(tt.text)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
		for i, question := range all {
			alone := New(Target{Question: question}).Probe(tt.text, "", nil).QCov >= WholeQuestion
			if alone != slices.Contains(got, i) {
				t.Errorf("%q: task %d alone gives %v", tt.text, i, alone)
			}
		}
	}
}

// FuzzQuestionsInText: whatever a text says, looking for all questions at once
// finds what looking for each of them does.
func FuzzQuestionsInText(f *testing.F) {
	all := []string{"How many ferries crossed?", "the same word the same word the same word the same", "In which town of Marrow did Odile Varn build the clock?"}
	for _, seed := range append(all, "HOW many <b>ferries</b>\\ncrossed &amp; crossed", "word the same word") {
		f.Add(seed, all[0]+" "+seed)
	}
	f.Fuzz(func(t *testing.T, question, text string) {
		questions := append(slices.Clone(all), question)
		got := NewQuestions(questions).In(text)
		for i, q := range questions {
			if alone := New(Target{Question: q}).Probe(text, "", nil).QCov >= WholeQuestion; alone != slices.Contains(got, i) {
				t.Errorf("question %q in %q: alone %v", q, text, alone)
			}
		}
	})
}

// TestQuestionsBounded: questions that share their words are not counted without end.
func TestQuestionsBounded(t *testing.T) {
	q := NewQuestions([]string{"How many ferries crossed the bay of Tolm?"})
	q.left = 0
	if got := q.In("How many ferries crossed the bay of Tolm?"); got != nil || !q.Exhausted() {
		t.Errorf("%v, left %d", got, q.left)
	}
}
