// Package prompt holds every text this program writes to a model by itself, and renders it; and it reads the answer out
// of what comes back ([FinalAnswer]), in the form that the system template asks for.
//
// It promises that a rendering is a pure function of the template and its values, so that whoever has the manifest
// (which lists each template's id, text and digest) and the question can write the same prompt again and compare it
// with the one recorded. A template's id ends in its version: a text that has been used is not edited, it gets a
// successor.
//
// The templates are the files of templates/, in the language of text/template. Values are inserted once and never read
// as templates. Questions are inserted as they are, a file name as a JSON string, and what the judge sees of question,
// expected answer and candidate as three strings of one JSON object on one line, in which line breaks, control and
// invisible characters, characters that change the writing direction and "<", ">" and "&" are escaped. What a candidate
// says can therefore neither end its string nor look like a role marker.
//
// There is nothing it refuses: bytes that are not UTF-8 reach the judge as U+FFFD. TestRenderings pins every rendering,
// TestValuesAreInert shows that template syntax and JSON in a value stay text.
package prompt

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"
	"unicode/utf16"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The ids of the templates, as the manifest and the sources of a message's text name them.
const (
	SystemID    = "system.v2"
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
	return canonical.Digest([]byte(t.Text))
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

// Question returns the first user message of an attempt. An empty fileName means that no file comes with the question.
func Question(question, fileName string) string {
	if fileName == "" {
		before, after := aroundQuestion()
		return before + question + after
	}
	return render(QuestionID, "", struct{ Question, File string }{question, encode(fileName)})
}

// aroundQuestion are the texts before and after a question without a file.
var aroundQuestion = sync.OnceValues(func() (before, after string) {
	const mark = "\x00"
	before, after, _ = strings.Cut(render(QuestionID, "", struct{ Question, File string }{mark, ""}), mark)
	return before, after
})

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

// LastTurn returns the request to answer at once. The reason says, as a clause without a full stop, which budget ran
// out.
func LastTurn(reason string) string {
	return render(LastTurnID, "", struct{ Reason string }{reason})
}

// Condensed returns what replaces, in a conversation, the result of a tool that had to make room; bytes is the size of
// what had been shown.
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
	// What the judge grades is one JSON object on one line.
	c := struct{ Case string }{encode(struct {
		Question  string `json:"question"`
		Expected  string `json:"expected"`
		Candidate string `json:"candidate"`
	}{question, expected, candidate}, jsontext.EscapeForHTML(true))}
	return render(JudgeID, "system", nil), render(JudgeID, "user", c)
}

// JudgeDigest is the digest of the template of the LLM judge.
func JudgeDigest() string { return Template{JudgeID, text(JudgeID)}.Digest() }

// What models are asked before the first task of a run, and the tool that one of them is asked to call. A gauge is read
// by no model that does not call it.
const (
	PreflightQuestion = "Reply with the word ready."
	PreflightLook     = "Which colour is this picture? Reply with one word."
	PreflightToolCall = "What does the water gauge called mill read now? Call the tool read_gauge to find out."
	PreflightTool     = "read_gauge"
)

func text(id string) string {
	b, err := files.ReadFile("templates/" + id + ".txt")
	if err != nil {
		panic(err) // the file is not in the executable: TestRenderings has every id
	}
	return string(b)
}

// parsed are the templates. A file's own last line break is no part of the message.
var parsed = sync.OnceValue(func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, t := range Templates() {
		all[t.ID] = template.Must(template.New(t.ID).Parse(strings.TrimSuffix(t.Text, "\n")))
	}
	return all
})

// render fills the template, or the part of it that is defined under a name.
func render(id, part string, values any) string {
	if part == "" {
		part = id
	}
	var out strings.Builder
	if err := parsed()[id].ExecuteTemplate(&out, part, values); err != nil {
		panic(err) // a template that does not fit its values: TestRenderings has every one
	}
	return out.String()
}

func encode(v any, o ...json.Options) string {
	b, err := json.Marshal(v, append(o, jsontext.AllowInvalidUTF8(true))...)
	if err != nil {
		panic(err) // strings always marshal
	}
	return escapeUnseen(string(b))
}

// escapeUnseen writes what is unseen in a JSON text as \u escapes. Outside ASCII, a JSON text has characters only
// within its strings, so that the value stays the same.
func escapeUnseen(s string) string {
	if strings.IndexFunc(s, unseen) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch high, low := utf16.EncodeRune(r); {
		case !unseen(r):
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// unseen reports whether a character can hide or reorder text: controls, joiners and direction marks, fillers,
// variation selectors, tags. The ranges are written out because a rendering must not change with the toolchain's
// Unicode tables.
func unseen(r rune) bool {
	switch {
	case r < 0x7f:
		return false
	case r <= 0x9f,
		r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5,
		0x180b <= r && r <= 0x180f,
		0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f,
		r == 0x3164, 0xfe00 <= r && r <= 0xfe0f, r == 0xfeff, r == 0xffa0, 0xfff9 <= r && r <= 0xfffb,
		0xe0000 <= r && r <= 0xe0fff:
		return true
	}
	return false
}
