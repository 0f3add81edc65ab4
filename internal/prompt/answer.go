package prompt

import (
	"regexp"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

// The extraction rules, by the ids that answer_committed records.
const (
	ruleMarker = "final-answer.v1"      // the text after the last marker, on its line
	ruleNext   = "final-answer-next.v1" // the marker ends its line: the next line that is not empty
)

// marker is GAIA's own answer format, tolerant of case and markdown around it.
var marker = regexp.MustCompile("(?i)final[ \\t]+answer[*_`]*[ \\t]*[:：][*_`]*")

// Limits of what is kept, in bytes.
const (
	maxAnswer    = 4 << 10
	maxReasoning = 2 << 10
)

// An Answer is what a final message gives: its text, the rule that found it, and the text before it.
type Answer struct{ Text, Rule, Reasoning string }

// FinalAnswer finds the answer in a final message, in the form that the template system.v2 asks for. The last marker
// counts, because models quote the format before they use it; prose after the answer's line is left out.
func FinalAnswer(content string) (Answer, bool) {
	from := finals(content)
	marks := marker.FindAllStringIndex(content[from:], -1)
	if len(marks) == 0 {
		return Answer{}, false
	}
	at := marks[len(marks)-1]
	at[0], at[1] = from+at[0], from+at[1]
	answer := Answer{Rule: ruleMarker, Reasoning: trajectory.CutUTF8(strings.TrimSpace(content[:at[0]]), maxReasoning)}
	opening := content[strings.LastIndexByte(content[:at[0]], '\n')+1 : at[1]] // the marker's line, up to the answer
	for line := range strings.Lines(content[at[1]:]) {
		if text := unwrap(line, opening+line); text != "" {
			answer.Text = trajectory.CutUTF8(text, maxAnswer)
			return answer, true
		}
		answer.Rule, opening = ruleNext, ""
	}
	return Answer{}, false
}

// finals returns where the word final first stands in a text, its length if nowhere: every marker begins so, and the expression
// looks at every character before it.
func finals(content string) int {
	const word = "final"
	for i := range len(content) - len(word) + 1 {
		if content[i]|0x20 == word[0] && strings.EqualFold(content[i:i+len(word)], word) {
			return i
		}
	}
	return len(content)
}

// unwrap takes white space from around an answer, and markdown that is paired within its line: the star of "A*" is part
// of the answer.
func unwrap(s, line string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{"**", "__", "`", "*"} {
		if n := strings.Count(line, mark); n > 0 && n%2 == 0 {
			s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, mark), mark))
		}
	}
	return s
}
