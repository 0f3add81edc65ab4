// Package judge gives the two verdicts on an answer: the leaderboard's official
// one and, only where that says no, the one of an LLM judge.
//
// QuestionScorer promises the verdict of the leaderboard's Python scorer for
// every text Python can hold, from tables of one fixed Unicode version.
// TestVectors shows it on recorded verdicts, the properties on any; the TestInterop
// tests and FuzzQuestionScorer hold it (GAIA_INTEROP=1, python3) against a rendering
// of the rules in testdata.
//
// Judge promises that a model can add a verdict but not talk itself into one. The
// answer is sent as a JSON string (package prompt), cut to MaxCandidateBytes. A
// reply counts only if it is the JSON object {"verdict":"correct"} or
// {"verdict":"incorrect"}, white space of JSON allowed; other or repeated keys,
// text or fences around it and other values do not count. What does not count
// is asked again, up to MaxTries in all, and then the answer is not judged: a
// failure is never a verdict. TestScore, TestInjection and FuzzReadVerdict show it.
//
// A verdict counts only from a judge that withstood the null battery ([Battery],
// [Judge.Try]): answers that say nothing, and instructions to the judge. Judge.Fit
// says whether it did; where it did not, the answer is kept from it.
// TestWithheld shows it.
//
// The package reaches no network: an Asker carries the question to a model. Gold
// answers stay in Item and in the request; no error text holds any of it.
package judge

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/gaia-harness/gaia/internal/prompt"
)

// MaxCandidateBytes is how much of an answer the LLM judge is shown; the
// template judge.v1 states it too. The official scorer reads all of it.
const MaxCandidateBytes = 4096

// What is longer is not put to the LLM judge: a part of a question or of an
// expected answer asks for something else. An expected answer of more bytes than
// MaxCandidateBytes could not be matched, either.
const maxQuestionBytes = 32 << 10

const defaultMaxTries = 2

const (
	schemaName    = "verdict"
	verdictSchema = `{"type":"object","properties":{"verdict":{"type":"string","enum":["correct","incorrect"]}},"required":["verdict"],"additionalProperties":false}`
)

// Request is one question to the judging model, at temperature 0. Schema is the
// JSON Schema the reply has to fit.
type Request struct {
	System, User string
	SchemaName   string
	Schema       []byte
}

// Reply is what the model said. Text may repeat the gold answer. CostMicroUSD is
// nil where the price is unknown.
type Reply struct {
	Text, RequestID, ResponseModel string
	TokensIn, TokensOut            int64
	CostMicroUSD                   *int64
	LatencyMs                      int64
}

// Asker puts a request to the judging model. Retries of the transport are its
// own affair: an error ends the judging of that answer.
type Asker interface {
	Ask(ctx context.Context, r Request) (Reply, error)
}

// Item is one answer to be scored. A nil Answer means that none was given.
type Item struct {
	TaskID, Question, Gold string
	Answer                 *string
}

// The ways to a verdict.
const (
	PathOfficial   = "official"         // the official scorer says yes; no judge was asked
	PathJudge      = "judge"            // the LLM judge gave a verdict
	PathUnreadable = "judge_unreadable" // it was asked and gave none that could be read; not judged
	PathError      = "judge_error"      // it could not be asked; not judged
	PathNoAnswer   = "no_answer"        // there is nothing to judge, which is incorrect
	PathNoJudge    = "no_judge"         // there is no LLM judge; not judged
	PathWithheld   = "withheld"         // kept from a judge that did not withstand the null battery, or too long for one; not judged
)

// Verdict holds both verdicts on an item and how they came about.
type Verdict struct {
	Official bool
	Judged   *bool  // nil = not judged
	Path     string // one of the Path constants
	Reply    *Reply // the last reply, read or not; nil where there was none
	Tries    int    // how often the LLM judge was asked
	Err      string // why not judged, in fixed words without anything of item or reply
	Known    bool   // the verdict was given before: nobody was asked
}

// Judge scores items. The zero value has no LLM judge.
type Judge struct {
	Asker    Asker // nil = no LLM judge
	MaxTries int   // how often an unreadable reply is asked for; less than 1 means 2

	// Known returns the LLM judge's verdict on an item if it has given one
	// before; nil = it has not. It is asked only where Asker would be.
	Known func(Item) (correct, found bool)
	// Fit reports whether the LLM judge withstood the null battery: else neither
	// Asker nor Known is asked. Nil means that it did.
	Fit func(context.Context) bool
}

// Score gives both verdicts. The LLM judge is asked only where the official
// verdict is no and the answer has something in it to be seen.
func (j Judge) Score(ctx context.Context, it Item) Verdict {
	switch {
	case QuestionScorer(it.Answer, it.Gold):
		return Verdict{Official: true, Judged: new(true), Path: PathOfficial}
	case it.Answer == nil || Blank(*it.Answer):
		return Verdict{Judged: new(false), Path: PathNoAnswer}
	case j.Asker == nil:
		return Verdict{Path: PathNoJudge}
	}
	if len(it.Question) > maxQuestionBytes || len(it.Gold) > MaxCandidateBytes {
		return Verdict{Path: PathWithheld, Err: "the question or the expected answer is too long for a judge"}
	}
	if j.Fit != nil && !j.Fit(ctx) {
		return Verdict{Path: PathWithheld, Err: "the judge has not withstood the null battery"}
	}
	if j.Known != nil {
		if correct, found := j.Known(it); found {
			return Verdict{Judged: &correct, Path: PathJudge, Known: true}
		}
	}
	return j.ask(ctx, it.Question, *it.Answer, it.Gold)
}

// ask has the LLM judge compare a candidate with the expected answer.
func (j Judge) ask(ctx context.Context, question, candidate, expected string) Verdict {
	tries := j.MaxTries
	if tries < 1 {
		tries = defaultMaxTries
	}
	system, user := prompt.Judge(question, head(candidate), expected)
	v := Verdict{}
	for v.Tries < tries {
		v.Tries++
		reply, err := j.Asker.Ask(ctx, Request{
			System: system, User: user, SchemaName: schemaName, Schema: []byte(verdictSchema),
		})
		if err != nil {
			v.Path, v.Err = PathError, describe(err)
			return v
		}
		v.Reply = &reply
		if correct, ok := readVerdict(reply.Text); ok {
			v.Path, v.Judged = PathJudge, &correct
			return v
		}
	}
	v.Path, v.Err = PathUnreadable, "the judge's reply is not a verdict"
	return v
}

// describe puts an asker's error in fixed words: its own may quote the request,
// and with it the gold answer.
func describe(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "asking the judge took too long"
	case errors.Is(err, context.Canceled):
		return "asking the judge was interrupted"
	}
	return "the judge could not be asked"
}

// readVerdict takes the one object there is to a verdict and nothing else.
func readVerdict(text string) (correct, ok bool) {
	var v struct {
		Verdict string `json:"verdict"`
	}
	if err := json.Unmarshal([]byte(text), &v, json.RejectUnknownMembers(true)); err != nil {
		return false, false
	}
	return v.Verdict == "correct", v.Verdict == "correct" || v.Verdict == "incorrect"
}

// brailleBlank is a pattern of no dots.
const brailleBlank = '\u2800'

// Blank tells an answer that shows nothing: white space, controls, invisible
// characters, fillers and marks without a letter.
func Blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !isSpace(r) && r != brailleBlank && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point)
	}) < 0
}

// head cuts an answer to what the judge is shown, between two characters.
func head(s string) string {
	if len(s) <= MaxCandidateBytes {
		return s
	}
	cut := MaxCandidateBytes
	for cut > MaxCandidateBytes-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
