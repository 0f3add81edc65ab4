package judge_test

import (
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/judge"
)

// The gold answer decides how an answer is compared: as a number, as a list, or as text.
func ExampleQuestionScorer() {
	for _, pair := range [][2]string{
		{"$1,234.50", "1234.5"},
		{"Paris ; london", "paris, London"},
		{"St. Petersburg", "st petersburg"},
		{"about 17", "17"},
	} {
		fmt.Println(judge.QuestionScorer(&pair[0], pair[1]))
	}
	fmt.Println(judge.QuestionScorer(nil, "17"))
	// Output:
	// true
	// true
	// true
	// false
	// false
}

// agreeing is a model that calls every answer correct.
type agreeing struct{}

func (agreeing) Ask(context.Context, judge.Request) (judge.Reply, error) {
	return judge.Reply{Text: `{"verdict":"correct"}`}, nil
}

// The model is asked only where the official scorer says no. A real judge also needs a self-test before
// its verdicts count: see [judge.Judge.SelfTest].
func ExampleJudge_Score() {
	j := judge.Judge{Asker: agreeing{}}
	answer := "seventeen"
	v := j.Score(context.Background(), judge.Item{Question: "How many arches?", Gold: "17", Answer: &answer})
	fmt.Println(v.Official, *v.Judged, v.Path)
	fmt.Println(j.SelfTest(context.Background()).Passed())
	// Output:
	// false true judge
	// false
}
