package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/trajectory"
)

// asked asks one thing as a run does before its tasks. The context is that which
// bounded it.
func (x *exam) asked(ctx context.Context, kind string) (preflight.Result, context.Context) {
	limited, cancel := context.WithTimeout(ctx, x.wait)
	defer cancel()
	for _, p := range x.w.Preflight.Probes() {
		if p.Kind == kind {
			return p.Run(limited), limited
		}
	}
	return preflight.Result{Kind: kind, Err: errors.New("the run has no such model")}, limited
}

// notAsked says why a model is not to be asked; false if it is.
func (x *exam) notAsked(name, use string) (diagnosis, bool) {
	mode, dir, _ := x.tape()
	switch {
	case x.unsettled != nil:
		return unlooked(name, use, "not asked before the settings come to a run"), true
	case x.noTape != nil:
		return unlooked(name, use, "not asked: see settings"), true
	case x.plan.Rehearsal:
		return fine(name, use, "rehearsal: built-in, nothing to reach"), true
	case mode == plan.CassetteReplay:
		return fine(name, use, "nobody is asked: answers are replayed from "+quoteArg(dir)), true
	case x.noKey != nil:
		return unlooked(name, use, "not asked: see model key"), true
	case x.noCall:
		return unlooked(name, use, "not asked: --no-call"), true
	}
	return diagnosis{}, false
}

// modelFinding asks the model as a run does before its tasks: for a word, and for a
// call of a tool.
func (x *exam) modelFinding(ctx context.Context) diagnosis {
	const name, use = "model", "answers the tasks"
	if f, not := x.notAsked(name, use); not {
		return f
	}
	word, limited := x.asked(ctx, trajectory.PreflightModel)
	if word.Err != nil {
		return x.untold(limited, name, use, word)
	}
	r, limited := x.asked(ctx, trajectory.PreflightTools)
	r = r.After(word)
	if r.Err != nil {
		return x.untold(limited, name, use, r)
	}
	f := fine(name, use, servedAs(x.plan.Model.Name, r.ResponseModel)+" and calls tools")
	switch r.Tool {
	case trajectory.ToolCalled:
		f = x.unfit(x.declared(f, x.plan.Model.Name, r.ResponseModel), r)
	case trajectory.ToolOther:
		f.State, f.Detail = stateMissing, servedAs(x.plan.Model.Name, r.ResponseModel)+", but its call of a tool was not the one that was asked for"
	default:
		f.State, f.Detail = stateMissing, servedAs(x.plan.Model.Name, r.ResponseModel)+", but calls no tool where the question takes one"
		if r.CutShort() {
			f = unlooked(name, use, fmt.Sprintf("%s, but its completion reached %d tokens before it called a tool", servedAs(x.plan.Model.Name, r.ResponseModel), x.w.Preflight.Bound()))
		}
	}
	if f.State == stateMissing && f.Remedy == "" {
		f.Remedy = "name a model that calls tools with --model, or start the server with its parser of tool calls"
	}
	return billed(f, r)
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
	if served == "" || audit.Declares(plan.ModelPlan{ServedAs: x.plan.Model.ServedAs}, served, planned) {
		return f
	}
	f.State, f.Detail = stateMissing, f.Detail+"; the audit takes that for another model"
	f.Remedy = "give --served-as " + quoteArg(served) + " if it is the same model; else name what is there with " + modelFlag(f.Name == "judge")
	if x.plan.SubmitIntent {
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
func (x *exam) unfit(f diagnosis, r preflight.Result) diagnosis {
	switch {
	case len(r.Last.Channels) > 0:
		f.Detail += "; the endpoint did things that nothing records: " + strings.Join(r.Last.Channels, ", ")
	case !r.Usage.Reported:
		f.Detail += "; it reports no usage, so its cost cannot be bounded"
	default:
		return f
	}
	if f.State == stateOK {
		f.State = stateMissing
	}
	f.Remedy = "such a run is not submittable: name another model or endpoint"
	if x.plan.SubmitIntent {
		f.State = stateFailed
	}
	return f
}

// billed adds what a try cost.
func billed(f diagnosis, r preflight.Result) diagnosis {
	if r.Last != nil {
		f.CostMicroUSD = r.CostMicroUSD
		f.Detail += fmt.Sprintf(" (%d tokens in, %d out; cost %s)", r.Usage.In, r.Usage.Out, dollars(r.CostMicroUSD))
	}
	return f
}

// untold is the finding that a request failed, with what would fix it.
func (x *exam) untold(limited context.Context, name, use string, r preflight.Result) diagnosis {
	f := diagnosis{Name: name, Use: use, State: stateFailed, Detail: r.Err.Error(), Remedy: "check --base-url, and " + modelFlag(name == "judge")}
	var asked *llm.Error
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f.Detail = fmt.Sprintf("no answer from %s within %s", originOf(x.baseURL), x.wait)
		f.Remedy = "check --base-url and the network; a model that is slow to begin is given more time by --wait 5m"
	case r.CutShort():
		f.State, f.Remedy, f.Detail = stateUnknown, "", fmt.Sprintf("its completion reached %d tokens before it said anything", x.w.Preflight.Bound())
	case errors.As(r.Err, &asked):
		if asked.Status == http.StatusTooManyRequests && !asked.Stop {
			f.State = stateUnknown // a run waits
		}
		f.Remedy = mendingOf(asked, name == "judge")
	}
	return billed(f, r)
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
