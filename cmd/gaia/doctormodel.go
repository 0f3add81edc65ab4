package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/go-json-experiment/json/jsontext"
)

// probeTokens bounds what a model may write when it is tried: enough for one that
// thinks before it calls, and a few cents of the dearest.
const probeTokens = 1024

// bound is the most that a completion of a try may have, in tokens.
func (x *exam) bound() int {
	if x.maxTokens > 0 {
		return min(x.maxTokens, probeTokens)
	}
	return probeTokens
}

// meter adds up what a try cost, useless replies included.
type meter struct {
	cost *int64 // micro-USD; nil: nothing known yet
	last *llm.Response
}

func (m *meter) TryStarted(int) error { return nil }

func (m *meter) TryCompleted(t llm.Try) error {
	if t.Response == nil {
		return nil
	}
	m.last = t.Response
	if t.Response.CostMicroUSD != nil {
		sum := *t.Response.CostMicroUSD
		if m.cost != nil {
			sum += *m.cost
		}
		m.cost = &sum
	}
	return nil
}

// cutShort reports whether the last reply ended at the bound.
func (m *meter) cutShort() bool { return m.last != nil && m.last.FinishReason == "length" }

// notAsked says why a model is not to be asked; false if it is.
func (x *exam) notAsked(name, use string) (diagnosis, bool) {
	mode, dir, _ := x.tape()
	switch {
	case x.unsettled != nil:
		return unlooked(name, use, "not asked before the settings come to a run"), true
	case x.noTape != nil:
		return unlooked(name, use, "not asked: see settings"), true
	case x.rehearsal:
		return fine(name, use, "rehearsal: built-in, nothing to reach"), true
	case mode == ledger.CassetteReplay:
		return fine(name, use, "nobody is asked: answers are replayed from "+quoteArg(dir)), true
	case x.noKey != nil:
		return unlooked(name, use, "not asked: see model key"), true
	case x.noCall:
		return unlooked(name, use, "not asked: --no-call"), true
	}
	return diagnosis{}, false
}

// The question that takes a tool: nobody knows what a gauge reads who does not call it.
const (
	probeTool     = "read_gauge"
	probeQuestion = "What does the water gauge called mill read now? Call the tool read_gauge to find out."
)

func probeSpec() llm.ToolSpec {
	return llm.ToolSpec{Name: probeTool, Description: "Reads a water gauge and returns its level in centimetres.",
		Parameters: []byte(`{"type":"object","properties":{"name":{"type":"string","description":"what the gauge is called"}},"required":["name"],"additionalProperties":false}`)}
}

// modelFinding asks the model one question, as a run would ask it.
func (x *exam) modelFinding(ctx context.Context) diagnosis {
	const name, use = "model", "answers the tasks"
	if f, not := x.notAsked(name, use); not {
		return f
	}
	limited, cancel := context.WithTimeout(ctx, x.wait)
	defer cancel()
	m := &meter{}
	r, err := x.w.Model.Client.Chat(limited, llm.Request{Model: x.model, MaxTokens: x.bound(), Tools: []llm.ToolSpec{probeSpec()},
		Messages: []llm.Message{{Role: "user", Content: probeQuestion}}}, m)
	if err != nil {
		return x.untold(limited, name, use, err, m)
	}
	f := fine(name, use, servedAs(x.model, r.ResponseModel)+" and calls tools")
	switch callAmong(r.Message.ToolCalls) {
	case callGood:
		f = x.unfit(x.declared(f, x.model, r.ResponseModel), r)
	case callBroken:
		f.State, f.Detail = stateFailed, servedAs(x.model, r.ResponseModel)+", but its call of a tool was not the one that was asked for"
	case callNone:
		f.State, f.Detail = stateFailed, servedAs(x.model, r.ResponseModel)+", but calls no tool where the question takes one"
		if m.cutShort() {
			f = unlooked(name, use, fmt.Sprintf("%s, but its completion reached %d tokens before it called a tool", servedAs(x.model, r.ResponseModel), x.bound()))
		}
	}
	if f.State == stateFailed && f.Remedy == "" {
		f.Remedy = "name a model that calls tools with --model, or start the server with its parser of tool calls"
	}
	return m.billed(f)
}

// What became of the call that a question takes.
const (
	callGood = iota
	callBroken
	callNone
)

func callAmong(calls []llm.ToolCall) int {
	if len(calls) == 0 {
		return callNone
	}
	for _, c := range calls {
		if v := jsontext.Value(c.Arguments); c.Name == probeTool && v.IsValid() && v.Kind() == '{' {
			return callGood
		}
	}
	return callBroken
}

// servedAs says which model answered, by its own account.
func servedAs(asked, served string) string {
	switch served {
	case "":
		return "answers without naming a model"
	case asked:
		return "answers as " + asked
	}
	return "answers as " + served + ", asked for " + asked
}

// declared says of a reply by another name than the plan would declare that the
// audit finds it.
func (x *exam) declared(f diagnosis, planned, served string) diagnosis {
	if served == "" || audit.Declares(ledger.ModelPlan{ServedAs: x.servedAs}, served, planned) {
		return f
	}
	f.State, f.Detail = stateMissing, f.Detail+"; the audit takes that for another model"
	f.Remedy = "give --served-as " + quoteArg(served) + " if it is the same model; else name what is there with " + modelFlag(f.Name == "judge")
	if x.submitIntent {
		f.State = stateFailed
	}
	return f
}

func modelFlag(ofJudge bool) string {
	if ofJudge {
		return "--judge-model"
	}
	return "--model"
}

// unfit says of a reply what will be held against a run.
func (x *exam) unfit(f diagnosis, r llm.Response) diagnosis {
	switch {
	case len(r.Channels) > 0:
		f.Detail += "; it did things of its own that nothing records: " + strings.Join(r.Channels, ", ")
	case !r.Usage.Reported:
		f.Detail += "; it reports no usage, so its cost cannot be bounded"
	default:
		return f
	}
	if f.State == stateOK {
		f.State = stateMissing
	}
	f.Remedy = "such a run is not submittable: name another model or endpoint"
	if x.submitIntent {
		f.State = stateFailed
	}
	return f
}

// billed adds what a try cost.
func (m *meter) billed(f diagnosis) diagnosis {
	f.CostMicroUSD = m.cost
	if m.last != nil {
		f.Detail += fmt.Sprintf(" (%d tokens in, %d out; cost %s)", m.last.Usage.In, m.last.Usage.Out, dollars(m.cost))
	}
	return f
}

// untold is the finding that a request failed, with what would mend it.
func (x *exam) untold(limited context.Context, name, use string, err error, m *meter) diagnosis {
	f := diagnosis{Name: name, Use: use, State: stateFailed, Detail: err.Error(), Remedy: "check --base-url, and " + modelFlag(name == "judge")}
	var asked *llm.Error
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f.Detail = fmt.Sprintf("no answer from %s within %s", originOf(x.baseURL), x.wait)
		f.Remedy = "check --base-url and the network; a model that is slow to begin is given more time by --wait 5m"
	case m.cutShort():
		f.State, f.Remedy, f.Detail = stateUnknown, "", fmt.Sprintf("its completion reached %d tokens before it said anything", x.bound())
	case errors.As(err, &asked):
		if asked.Status == http.StatusTooManyRequests && !asked.Stop {
			f.State = stateUnknown // a run waits
		}
		f.Remedy = mendingOf(asked, name == "judge")
	}
	return m.billed(f)
}

// mendingOf is what would mend a failed request.
func mendingOf(e *llm.Error, ofJudge bool) string {
	flag := modelFlag(ofJudge)
	quota := []string{"insufficient_quota", "account_deactivated", "access_terminated"}
	switch {
	case e.Hint != "":
		return e.Hint
	case e.Status == http.StatusUnauthorized:
		return "set OPENAI_API_KEY to a key of the endpoint"
	case e.Status == http.StatusPaymentRequired || slices.Contains(quota, e.Code) || strings.Contains(e.Code, "billing"):
		return "see to the account: it cannot pay, or is closed"
	case e.Status == http.StatusForbidden:
		return "use a key that may ask this model, or name another with " + flag
	case e.Code == "responses_api_required" || e.Code == "not_a_chat_model":
		if ofJudge {
			return "name another judge: --api is of --model alone"
		}
		return "give --api responses"
	case e.Code == "model_not_found":
		return "check " + flag + " against the models that the endpoint has, and --base-url"
	case e.Status == http.StatusNotFound || e.Code == "redirect" || e.Code == "not_json":
		return "check --base-url: it ends before /chat/completions, commonly in /v1"
	case e.Code == "unreachable" || e.Code == "transport":
		return "check --base-url and the network, and that the endpoint is up"
	case e.Status == http.StatusTooManyRequests:
		return "wait a minute and try again; --rpm and --tpm keep a run below the limits of the account"
	case e.Retryable:
		return "try again: the endpoint is in trouble"
	}
	return "see what the endpoint says: it may not take tools, or want another interface (--api)"
}
