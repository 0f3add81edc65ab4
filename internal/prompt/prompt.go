// Package prompt holds every text this program writes to a model by itself, and
// renders it; and it reads the answer out of what comes back ([FinalAnswer]), in
// the form that the system template asks for.
//
// It promises that a rendering is a pure function of the template and the values
// put in, so that whoever holds the manifest (which lists each template's id,
// text and digest) and the question can write the same prompt again and compare
// it with the one recorded. A template's id ends in its version: a text that has
// been used is not edited, it gets a successor.
//
// The templates are the files of templates/, in the language of text/template.
// Values are put in once and never read as templates. Questions are put in as they
// are, a file name as a JSON string, and what the judge sees of question,
// expected answer and candidate as three strings of one JSON object on
// one line, in which line breaks, control and invisible characters, characters
// that change the writing direction and "<", ">" and "&" are escaped. What a
// candidate says can therefore neither end its string nor look like a role
// marker.
//
// There is nothing it refuses: bytes that are not UTF-8 reach the judge as
// U+FFFD. TestRenderings pins every rendering, TestValuesAreInert shows that
// template syntax and JSON in a value stay text.
package prompt

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"strings"
	"text/template"
)

// The ids of the templates, as the manifest and the sources of a message's text
// name them.
const (
	SystemID    = "system.v1"
	QuestionID  = "question.v1"
	ReminderID  = "reminder.v1"
	LastTurnID  = "last-turn.v1"
	CondensedID = "condensed.v1"
	DescribeID  = "describe.v1"
	JudgeID     = "judge.v1"
)

//go:embed templates/*.txt
var files embed.FS

// Template is one versioned text.
type Template struct{ ID, Text string }

// Digest is "sha256:" and the hex SHA-256 of Text.
func (t Template) Digest() string {
	sum := sha256.Sum256([]byte(t.Text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Templates returns all templates, in a fixed order.
func Templates() []Template {
	ids := []string{SystemID, QuestionID, ReminderID, LastTurnID, CondensedID, DescribeID, JudgeID}
	all := make([]Template, len(ids))
	for i, id := range ids {
		all[i] = Template{ID: id, Text: text(id)}
	}
	return all
}

// System returns the system message of the agent.
func System() string { return render(SystemID, "", nil) }

// Question returns the first user message of an attempt. An empty fileName
// means that no file comes with the question.
func Question(question, fileName string) string {
	file := ""
	if fileName != "" {
		file = encode(fileName)
	}
	return render(QuestionID, "", struct{ Question, File string }{question, file})
}

// Reminder returns the message to a model that stopped without an answer.
func Reminder() string { return render(ReminderID, "", nil) }

// The reasons for a last turn.
const (
	TurnsSpent    = "the turn budget is spent"
	BudgetSpent   = "the tool or cost budget is spent"
	TokensSpent   = "the token budget is spent"
	TimeSpent     = "the time budget is spent"
	RunMoneySpent = "the budget of the whole run is spent"
)

// LastTurnReasons returns every reason that a last turn can have.
func LastTurnReasons() []string {
	return []string{TurnsSpent, BudgetSpent, TokensSpent, TimeSpent, RunMoneySpent}
}

// LastTurn returns the request to answer at once. The reason says, as a clause
// without a full stop, which budget ran out.
func LastTurn(reason string) string {
	return render(LastTurnID, "", struct{ Reason string }{reason})
}

// Condensed returns what replaces, in a conversation, the result of a tool that
// had to make room; bytes is the size of what had been shown.
func Condensed(tool string, bytes int64) string {
	return render(CondensedID, "", struct {
		Tool  string
		Bytes int64
	}{encode(tool), bytes})
}

// Describe returns what a model that sees is asked about a picture.
func Describe(question string) string {
	return render(DescribeID, "", struct{ Question string }{question})
}

// Judge returns the two messages of the LLM judge.
func Judge(question, candidate, expected string) (system, user string) {
	c := struct{ Case string }{caseJSON(question, candidate, expected)}
	return render(JudgeID, "system", nil), render(JudgeID, "user", c)
}

// JudgeDigest is the digest of the template of the LLM judge.
func JudgeDigest() string { return Template{JudgeID, text(JudgeID)}.Digest() }

func text(id string) string {
	b, err := files.ReadFile("templates/" + id + ".txt")
	if err != nil {
		panic(err) // the file is not in the executable: TestRenderings has every id
	}
	return string(b)
}

// render fills the template, or the part of it that is defined under a name.
// The file's own last line break is no part of the message.
func render(id, part string, values any) string {
	t := template.Must(template.New(id).Parse(strings.TrimSuffix(text(id), "\n")))
	if part == "" {
		part = id
	}
	var out strings.Builder
	if err := t.ExecuteTemplate(&out, part, values); err != nil {
		panic(err) // a template that does not fit its values: TestRenderings has every one
	}
	return out.String()
}
