// Package agent takes one Question in and gives one Answer out: render the
// context, ask the model, pass its tool calls through the Gate, show it the
// results, until it answers or a budget runs out.
//
// The package is not an API for other programs.
//
// The agent cannot name the type that holds a gold answer: it imports neither
// the loader nor the judge, and internal/run copies a task into a Question
// (TestFloors).
//
// Every step is recorded before it has an effect. A tool runs only when the
// decision about it is durable, and a request leaves only when the list of its
// messages is, and every result among them: two waits for the disk in a turn,
// and one more for each further call of it that asks a model.
package agent

import (
	"context"
	"errors"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Question is what the agent learns of a task.
type Question struct {
	Text     string
	FileName string     // attachment in the workspace; "" for none
	Picture  *llm.Image // the attachment, if it is one and the model sees; else nil
}

// Answer is the result of an attempt. Found false means that the model gave
// none; Reason then says why.
type Answer struct {
	Found     bool
	Text      string
	Rule      string // id of the extraction rule
	Reasoning string // the model's own short account
	Reason    string

	// Of an own agent:
	InReply    bool                 // a reply of a model holds the text
	SeenIn     []string             // where it stood before: trajectory.AnswerCommitted says how
	SharesWord bool                 // it stood nowhere, and a word of it did
	End        *trajectory.AgentEnd // how its process ended
}

// Solver makes one attempt at a question: [Agent] does, and an agent of the user's own in agent/external. Everything
// that it brings in or sends out is recorded before it has an effect. An error means that the attempt could not be
// completed and says nothing about the task: the model could not be asked, the harness failed, the context ended, or
// (trajectory.ErrNotRecorded) the evidence could not be written.
type Solver interface {
	Solve(context.Context, Question, *tools.Session, *trajectory.Attempt) (Answer, error)
}

// Model is asked for the next message.
type Model interface {
	Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error)
}

// Budget is the run's budget of money, as one attempt sees it.
type Budget interface {
	// Reserve sets aside what a request of so many tokens may cost, and unless
	// it is the last one as much again, for the answer after it. It replaces
	// what was set aside before; where there is not enough left it is false and
	// changes nothing.
	Reserve(tokensIn int64, last bool) bool
	// Charge takes what a request cost, in micro-USD; nil is unknown.
	Charge(microUSD *int64)
}

// Agent solves tasks with one model. It may solve many at once.
type Agent struct {
	Model     Model
	Name      string // the model to request
	Tools     []tools.Spec
	MaxTurns  int            // the last of them is for the answer alone
	MaxTokens int            // of one completion; 0 leaves it to the endpoint
	Window    int            // tokens that a conversation may have; 0: until the endpoint refuses it
	Extra     map[string]any // further members of each request, such as stop
	Limits    Limits
	Now       func() time.Time
}

// Limits are what an attempt may use, besides turns and the Gate's budgets.
type Limits struct {
	Tokens int64         // read and written; 0: no limit
	Used   int64         // of them, by earlier attempts
	Wall   time.Duration // no request but the last one after it; 0: no limit
	Budget Budget        // nil: the run's cost is not bounded
}

// maxCalls bounds the calls of one reply. No model asks for as many in earnest,
// and each of them is recorded.
const maxCalls = 128

// graceTime is what the last request may take once the time budget is spent.
const graceTime = 2 * time.Minute

// Solve makes one attempt. An error means that it could not be completed: the
// model could not be asked, the context ended, or (trajectory.ErrNotRecorded)
// the evidence could not be written.
func (a Agent) Solve(ctx context.Context, q Question, session *tools.Session, rec *trajectory.Attempt) (Answer, error) {
	t := a.begin(q, session, rec)
	reminded := false
	for turn := 1; ; turn++ {
		why := t.spent(turn)
		if why != "" {
			t.talk.add(prompt.LastTurnID, llm.Message{Role: "user", Content: prompt.LastTurn(why)})
		}
		reply, calls, err := t.turn(ctx, turn, why != "")
		if errors.Is(err, errTimeSpent) {
			continue
		}
		var none unanswered
		if errors.As(err, &none) {
			return Answer{Reason: string(none)}, nil
		}
		if err != nil {
			return Answer{}, err
		}
		if calls > 0 {
			continue
		}
		if found, ok := prompt.FinalAnswer(reply.Content); ok {
			return Answer{Found: true, Text: found.Text, Rule: found.Rule, Reasoning: found.Reasoning}, nil
		}
		switch {
		case why != "":
			return Answer{Reason: why + ", and the last turn gave no answer"}, nil
		case reminded:
			return Answer{Reason: "no final answer after a reminder"}, nil
		}
		reminded = true
		t.talk.add(prompt.ReminderID, llm.Message{Role: "user", Content: prompt.Reminder()})
	}
}
