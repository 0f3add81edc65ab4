package doctor

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
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// ask asks one question of the preflight. The context that it returns is the one with the time limit.
func (p Planned) ask(ctx context.Context, kind string) (preflight.Result, context.Context) {
	limited, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	for _, probe := range p.Preflight.Probes() {
		if probe.Kind == kind {
			return probe.Run(limited), limited
		}
	}
	return preflight.Result{Kind: kind, Err: errors.New("the run has no such model")}, limited
}

// notAsked returns the finding for a model that is not to be asked; false if it is.
func (p Planned) notAsked(name, use string) (Finding, bool) {
	switch {
	case p.Invalid != nil:
		return unseen(name, use, invalid), true
	case p.NoCassette != nil:
		return unseen(name, use, "not asked: see settings"), true
	case p.Rehearsal:
		return good(name, use, "rehearsal: built-in, nothing to reach"), true
	case p.Replay != "":
		return good(name, use, "no request is sent: answers are replayed from "+view.Quote(p.Replay)), true
	case p.NoKey != nil:
		return unseen(name, use, "not asked: see model key"), true
	case p.NoCall:
		return unseen(name, use, "not asked: --no-call"), true
	}
	return Finding{}, false
}

// CheckModel asks the model as a run does before its tasks: for a word, and for a call of a tool.
func (p Planned) CheckModel(ctx context.Context) Finding {
	const name, use = "model", "answers the tasks"
	if f, not := p.notAsked(name, use); not {
		return f
	}
	word, limited := p.ask(ctx, trajectory.PreflightModel)
	if word.Err != nil {
		return p.failedRequest(limited, name, use, word)
	}
	r, limited := p.ask(ctx, trajectory.PreflightTools)
	r = r.After(word)
	if r.Err != nil {
		return p.failedRequest(limited, name, use, r)
	}
	answers := servedAs(p.Model, r.ResponseModel)
	const remedy = "name a model that calls tools with --model, or start the server with its parser of tool calls"
	var f Finding
	switch {
	case r.Tool == trajectory.ToolCalled:
		f = p.checkRecords(p.checkName(good(name, use, answers+" and calls tools"), p.Model, r.ResponseModel), r)
	case r.Tool == trajectory.ToolOther:
		f = lacks(name, use, answers+", but its call of a tool was not the one that was asked for", remedy)
	case r.CutShort():
		f = unseen(name, use, fmt.Sprintf("%s, but its completion reached %d tokens before it called a tool", answers, p.Preflight.Bound()))
	default:
		f = lacks(name, use, answers+", but calls no tool where the question takes one", remedy)
	}
	return withCost(f, r)
}

// servedAs describes which model answered, by its own account.
func servedAs(asked, served string) string {
	switch served {
	case "":
		return "answers without naming a model"
	case asked:
		return "answers as " + asked
	}
	return "answers as " + served + ", asked for " + asked
}

// checkName reports a reply by another name than the plan would declare, which the audit finds.
func (p Planned) checkName(f Finding, planned, served string) Finding {
	if served == "" || audit.Declares(plan.ModelPlan{ServedAs: p.ServedAs}, served, planned) {
		return f
	}
	f.State, f.Detail = Missing, f.Detail+"; the audit takes that for another model"
	f.Remedy = "give --served-as " + view.Quote(served) + " if it is the same model; else name what is there with " + modelFlag(f.Name)
	if p.SubmitIntent {
		f.State = Failed
	}
	return f
}

// modelFlag returns the flag that names the model of a finding.
func modelFlag(finding string) string {
	return map[bool]string{true: "--judge-model", false: "--model"}[finding == "judge"]
}

// checkRecords reports a reply that makes a run unfit for submission.
func (p Planned) checkRecords(f Finding, r preflight.Result) Finding {
	switch {
	case len(r.Last.Channels) > 0:
		f.Detail += "; the endpoint did things that nothing records: " + strings.Join(r.Last.Channels, ", ")
	case !r.Usage.Reported:
		f.Detail += "; it reports no usage, so its cost cannot be bounded"
	default:
		return f
	}
	if f.State == OK {
		f.State = Missing
	}
	f.Remedy = "such a run is not submittable: name another model or endpoint"
	if p.SubmitIntent {
		f.State = Failed
	}
	return f
}

// withCost adds the cost of a request.
func withCost(f Finding, r preflight.Result) Finding {
	if r.Last != nil {
		f.CostMicroUSD = r.CostMicroUSD
		f.Detail += fmt.Sprintf(" (%d tokens in, %d out; cost %s)", r.Usage.In, r.Usage.Out, view.Dollars(r.CostMicroUSD))
	}
	return f
}

// failedRequest returns the finding that a request failed, with what would fix it.
func (p Planned) failedRequest(limited context.Context, name, use string, r preflight.Result) Finding {
	f := Finding{Name: name, Use: use, State: Failed, Detail: r.Err.Error(), Remedy: "check --base-url, and " + modelFlag(name)}
	var failed *llm.Error
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f.Detail = fmt.Sprintf("no answer from %s within %s", p.Endpoint, p.Wait)
		f.Remedy = "check --base-url and the network; a model that is slow to begin is given more time by --wait 5m"
	case r.CutShort():
		f = unseen(name, use, fmt.Sprintf("its completion reached %d tokens before it wrote anything", p.Preflight.Bound()))
	case errors.As(r.Err, &failed):
		if failed.Status == http.StatusTooManyRequests && !failed.Stop {
			f.State = Unknown // a run waits
		}
		f.Remedy = remedyOf(failed, name)
	}
	return withCost(f, r)
}

// remedyOf returns what would fix a failed request to the model of a finding.
func remedyOf(e *llm.Error, finding string) string {
	flag := modelFlag(finding)
	quota := []string{"insufficient_quota", "account_deactivated", "access_terminated"}
	switch {
	case e.Hint != "":
		return e.Hint
	case e.Status == http.StatusUnauthorized:
		return "set OPENAI_API_KEY to a key of the endpoint"
	case e.Status == http.StatusPaymentRequired || slices.Contains(quota, e.Code) || strings.Contains(e.Code, "billing"):
		return "check the account: it cannot pay, or is closed"
	case e.Status == http.StatusForbidden:
		return "use a key that may ask this model, or name another with " + flag
	case e.Code == "responses_api_required" || e.Code == "not_a_chat_model":
		if finding == "judge" {
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
	return "read the endpoint's message: it may not take tools, or need another interface (--api)"
}

// CheckJudge shows the judge one empty answer.
func (p Planned) CheckJudge(ctx context.Context) Finding {
	const name, use = "judge", "a second verdict"
	if p.Invalid == nil && p.Judge == "" && !p.Rehearsal {
		return lacks(name, use, "none: the official verdict alone", "name one with --judge-model")
	}
	if f, not := p.notAsked(name, use); not {
		return f
	}
	r, limited := p.ask(ctx, trajectory.PreflightJudge)
	if r.Err != nil {
		return p.failedRequest(limited, name, use, r)
	}
	const remedy = "gaia judge check tries it further; or name another with --judge-model"
	answers, verdict := servedAs(p.Judge, r.ResponseModel), r.Verdict.Judged
	var f Finding
	switch {
	case verdict == nil && r.CutShort():
		f = unseen(name, use, fmt.Sprintf("its completion reached %d tokens before it gave a verdict", p.Preflight.Bound()))
	case verdict == nil:
		f = lacks(name, use, answers+", but its reply is no verdict", remedy)
	case *verdict:
		f = lacks(name, use, answers+", and calls an answer correct that says nothing", remedy)
	default:
		f = p.checkName(good(name, use, answers+" and gives verdicts"), p.Judge, r.ResponseModel)
	}
	return withCost(f, r)
}
