// Package judge gives the two verdicts on an answer: the leaderboard's official
// one and, only where that says no, the one of an LLM judge.
//
// QuestionScorer promises the verdict of the leaderboard's Python scorer for
// every text Python can hold, from tables of one fixed Unicode version.
// TestVectors shows it on recorded verdicts, the property tests on any text; the TestInterop
// tests and FuzzQuestionScorer compare it (GAIA_INTEROP=1, python3) with an implementation
// of the rules in testdata.
//
// Judge promises that a model can add a verdict but not talk itself into one. The
// answer is sent as a JSON string (package prompt), cut to maxCandidateBytes. A
// reply counts only if it is the JSON object {"verdict":"correct"} or
// {"verdict":"incorrect"}, white space of JSON allowed; other or repeated keys,
// text or fences around it and other values do not count. What does not count
// is asked again, up to MaxTries in all, and then the answer is not judged: a
// failure is never a verdict. TestScore, TestInjection and FuzzReadVerdict show it.
//
// A verdict counts only from a judge that passed its self-test, the null battery ([Battery],
// [Judge.SelfTest]): answers without content, and instructions to the judge.
// Judge.Passed reports whether it did; where it did not, it is not shown the answer.
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

// maxCandidateBytes is how much of an answer the LLM judge is shown; the
// template judge.v1 states it too. The official scorer reads all of it.
const maxCandidateBytes = 4096

// maxQuestionBytes bounds the questions that the LLM judge is asked about. It is shown no part of a
// question or of an expected answer, which could have another meaning. An expected answer of more bytes
// than maxCandidateBytes could not be matched, either.
const maxQuestionBytes = 32 << 10

// DefaultTries is how often a Judge asks for a verdict where MaxTries is 0.
const DefaultTries = 2

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

// Asker sends a request to the judging model. It retries transport failures itself:
// an error ends the judging of that answer.
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
	PathError      = "judge_error"      // it could not be asked, or its self-test could not run; not judged
	PathNoAnswer   = "no_answer"        // there is nothing to judge, which is incorrect
	PathNoJudge    = "no_judge"         // there is no LLM judge; not judged
	PathWithheld   = "withheld"         // not shown to an LLM judge that failed its self-test; not judged
	PathTooLong    = "too_long"         // question or expected answer are too long for one; not judged
)

// Verdict holds both verdicts on an item and how they came about.
type Verdict struct {
	Official bool
	Judged   *bool  // nil = not judged, or there is no LLM judge
	Path     string // one of the Path constants
	Reply    *Reply // the last reply, read or not; nil where there was none
	Tries    int    // how often the LLM judge was asked
	Err      string // why not judged, in fixed words without anything of item or reply
	Known    bool   // the verdict was given before: the model was not asked
}

// Judge scores items. The zero value has no LLM judge.
type Judge struct {
	Asker    Asker // nil = no LLM judge
	MaxTries int   // how often an unreadable reply is asked for; less than 1 means DefaultTries

	// Known returns the LLM judge's verdict on an item if it has given one
	// before; nil = it has not. It is asked only where Asker would be.
	Known func(Item) (correct, found bool)
	// Passed reports whether the LLM judge passed its self-test, the null battery; if
	// not, neither Asker nor Known is asked. An error means that this is not known now.
	// Nil means that it passed.
	Passed func(context.Context) (bool, error)
}

// Score gives both verdicts. The LLM judge is asked only where the official
// verdict is no and the answer has something in it to be seen. Without an LLM judge
// Judged is nil whatever the path: there is no second verdict.
func (j Judge) Score(ctx context.Context, it Item) Verdict {
	v := Verdict{Path: PathNoJudge}
	switch official := QuestionScorer(it.Answer, it.Gold); {
	case official:
		v.Official, v.Path = true, PathOfficial
	case it.Answer == nil || Blank(*it.Answer):
		v.Path = PathNoAnswer
	}
	if j.Asker == nil {
		return v
	}
	if v.Path != PathNoJudge {
		v.Judged = new(v.Official)
		return v
	}
	if len(it.Question) > maxQuestionBytes || len(it.Gold) > maxCandidateBytes {
		return Verdict{Path: PathTooLong, Err: "the question or the expected answer is too long for a judge"}
	}
	if j.Passed != nil {
		switch passed, err := j.Passed(ctx); {
		case err != nil:
			return Verdict{Path: PathError, Err: describe(err)}
		case !passed:
			return Verdict{Path: PathWithheld, Err: "the judge has not withstood the null battery"}
		}
	}
	if j.Known != nil {
		if correct, found := j.Known(it); found {
			return Verdict{Judged: &correct, Path: PathJudge, Known: true}
		}
	}
	v, _ = j.ask(ctx, it.Question, *it.Answer, it.Gold)
	return v
}

// ask has the LLM judge compare a candidate with the expected answer. The error is
// the Asker's.
func (j Judge) ask(ctx context.Context, question, candidate, expected string) (Verdict, error) {
	tries := j.MaxTries
	if tries < 1 {
		tries = DefaultTries
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
			return v, err
		}
		v.Reply = &reply
		if correct, ok := readVerdict(reply.Text); ok {
			v.Path, v.Judged = PathJudge, &correct
			return v, nil
		}
	}
	v.Path, v.Err = PathUnreadable, "the judge's reply is not a verdict"
	return v, nil
}

// The fixed words for an asker's error.
const (
	tookTooLong = "asking the judge took too long"
	interrupted = "asking the judge was interrupted"
	notAsked    = "the judge could not be asked"
)

// Problems returns all values of [BatteryResult.Err] besides "".
func Problems() []string { return []string{tookTooLong, interrupted, notAsked} }

// describe puts an asker's error in fixed words: its own may quote the request,
// and with it the gold answer.
func describe(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return tookTooLong
	case errors.Is(err, context.Canceled):
		return interrupted
	}
	return notAsked
}

// readVerdict reads a reply, which must be an object with a verdict and nothing else.
func readVerdict(text string) (correct, ok bool) {
	var v struct {
		Verdict string `json:"verdict"`
	}
	if err := json.Unmarshal([]byte(text), &v, json.RejectUnknownMembers(true)); err != nil {
		return false, false
	}
	return v.Verdict == "correct", v.Verdict == "correct" || v.Verdict == "incorrect"
}

// Blank reports whether an answer has no visible character: white space, controls, invisible
// characters, fillers, marks without a letter, and placeholders for missing objects are none.
func Blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		switch r {
		case '\u2800', '\U0001d159', '\U00013441', '\U00013442', '\ufffc', utf8.RuneError: // a pattern of no dots, a note without a head, blank hieroglyphs, an object, a bad byte
			return false
		}
		return !isSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Me, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
	}) < 0
}

// head cuts an answer to what the judge is shown, between two characters.
func head(s string) string {
	if len(s) <= maxCandidateBytes {
		return s
	}
	cut := maxCandidateBytes
	for cut > maxCandidateBytes-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
