package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
)

const (
	answerFile = "ANSWER"
	maxAnswer  = 64 << 10 // bytes
)

// checked returns an answer without outer white space, and why it is none.
func checked(text string) (answer, why string) {
	switch answer = strings.TrimSpace(text); {
	case len(text) > maxAnswer:
		return "", fmt.Sprintf("is larger than %d KiB", maxAnswer>>10)
	case !utf8.ValidString(answer):
		return "", "is not UTF-8"
	case answer == "":
		return "", "is empty"
	}
	return answer, ""
}

// submitted is an answer that the tool was given.
type submitted string

// Close implements io.Closer.
func (submitted) Close() error { return nil }

type submitArgs struct {
	Answer string `json:"answer" jsonschema:"the answer, and nothing else"`
}

// SubmitAnswer makes submit_answer, by which an own agent gives its answer. The first answer counts.
func SubmitAnswer() tools.Tool {
	return tools.Define(tools.Definition[submitArgs]{Name: policy.SubmitAnswer,
		Description: "Submits the final answer to the question. It can be called once.",
		Run: func(_ context.Context, env *tools.Env, a submitArgs) (tools.Output, error) {
			text, why := checked(a.Answer)
			if why != "" {
				return tools.Failed("the answer %s", why), nil
			}
			first := false
			_, err := env.Kept.Get(policy.SubmitAnswer, func() (io.Closer, error) {
				first = true
				return submitted(text), nil
			})
			if !first {
				return tools.Failed("an answer was submitted before, and counts"), err
			}
			const done = "The answer is submitted."
			return tools.Output{Document: done, Shown: done}, err
		}})
}

// answer returns the answer of an agent that has ended, and its rule: the first of the tool, the file and standard output
// that is there. Without a rule, why says what is wrong with the one that is there; "" if there is none.
func (a Agent) answer(session *tools.Session, stdout string) (text, rule, why string) {
	given, err := session.Kept().Get(policy.SubmitAnswer, func() (io.Closer, error) { return nil, fs.ErrNotExist })
	if err == nil {
		return string(given.(submitted)), plan.RuleSubmitted, ""
	}
	switch text, why, there := a.fromFile(); {
	case why != "":
		return "", "", "the file " + answerFile + " " + why
	case there:
		return text, plan.RuleAnswerFile, ""
	}
	if found, ok := prompt.FinalAnswer(strings.ToValidUTF8(stdout, "\ufffd")); ok {
		return found.Text, found.Rule, ""
	}
	return "", "", ""
}

// fromFile reads the answer from its file. Nothing is followed and nothing waited for: what is no regular file is no answer.
func (a Agent) fromFile() (text, why string, there bool) {
	const cannot = "cannot be read"
	root, err := os.OpenRoot(a.Workspace)
	if err != nil {
		return "", cannot, false
	}
	defer root.Close()
	info, err := root.Lstat(answerFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", false
	case err != nil:
		return "", cannot, false
	case !info.Mode().IsRegular():
		return "", "is not a regular file", false
	}
	f, err := root.OpenFile(answerFile, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", cannot, false
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return "", cannot, false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAnswer+1))
	if err != nil {
		return "", cannot, false
	}
	text, why = checked(string(data))
	return text, why, why == ""
}
