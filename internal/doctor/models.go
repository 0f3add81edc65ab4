package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Models are the models of a run that would be, and what prevents asking them.
type Models struct {
	Unsettled    error // why the settings make no run; nil if they do
	NoTape       error // why answers could not be recorded or replayed
	NoKey        error // why the endpoint cannot be asked
	Rehearsal    bool
	SubmitIntent bool
	NoCall       bool     // the user wants no request
	Replay       string   // directory that answers are replayed from; "" if a model is asked
	Model, Judge string   // "" is none
	ServedAs     []string // names by which the plan expects the model to answer
	Endpoint     string   // origin of the base URL
	Wait         time.Duration
	Preflight    *preflight.Models
}

// asked asks one thing as a run does before its tasks. The context is that which
// bounded it.
func (m Models) asked(ctx context.Context, kind string) (preflight.Result, context.Context) {
	limited, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	for _, p := range m.Preflight.Probes() {
		if p.Kind == kind {
			return p.Run(limited), limited
		}
	}
	return preflight.Result{Kind: kind, Err: errors.New("the run has no such model")}, limited
}

// notAsked says why a model is not to be asked; false if it is.
func (m Models) notAsked(name, use string) (Finding, bool) {
	switch {
	case m.Unsettled != nil:
		return Unseen(name, use, "not asked before the settings come to a run"), true
	case m.NoTape != nil:
		return Unseen(name, use, "not asked: see settings"), true
	case m.Rehearsal:
		return Good(name, use, "rehearsal: built-in, nothing to reach"), true
	case m.Replay != "":
		return Good(name, use, "no request is sent: answers are replayed from "+view.Quote(m.Replay)), true
	case m.NoKey != nil:
		return Unseen(name, use, "not asked: see model key"), true
	case m.NoCall:
		return Unseen(name, use, "not asked: --no-call"), true
	}
	return Finding{}, false
}

// CheckModel asks the model as a run does before its tasks: for a word, and for a
// call of a tool.
func (m Models) CheckModel(ctx context.Context) Finding {
	const name, use = "model", "answers the tasks"
	if f, not := m.notAsked(name, use); not {
		return f
	}
	word, limited := m.asked(ctx, trajectory.PreflightModel)
	if word.Err != nil {
		return m.untold(limited, name, use, word)
	}
	r, limited := m.asked(ctx, trajectory.PreflightTools)
	r = r.After(word)
	if r.Err != nil {
		return m.untold(limited, name, use, r)
	}
	f := Good(name, use, servedAs(m.Model, r.ResponseModel)+" and calls tools")
	switch r.Tool {
	case trajectory.ToolCalled:
		f = m.unfit(m.declared(f, m.Model, r.ResponseModel), r)
	case trajectory.ToolOther:
		f.State, f.Detail = Missing, servedAs(m.Model, r.ResponseModel)+", but its call of a tool was not the one that was asked for"
	default:
		f.State, f.Detail = Missing, servedAs(m.Model, r.ResponseModel)+", but calls no tool where the question takes one"
		if r.CutShort() {
			f = Unseen(name, use, fmt.Sprintf("%s, but its completion reached %d tokens before it called a tool", servedAs(m.Model, r.ResponseModel), m.Preflight.Bound()))
		}
	}
	if f.State == Missing && f.Remedy == "" {
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
func (m Models) declared(f Finding, planned, served string) Finding {
	if served == "" || audit.Declares(plan.ModelPlan{ServedAs: m.ServedAs}, served, planned) {
		return f
	}
	f.State, f.Detail = Missing, f.Detail+"; the audit takes that for another model"
	f.Remedy = "give --served-as " + view.Quote(served) + " if it is the same model; else name what is there with " + modelFlag(f.Name == "judge")
	if m.SubmitIntent {
		f.State = Failed
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
func (m Models) unfit(f Finding, r preflight.Result) Finding {
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
	if m.SubmitIntent {
		f.State = Failed
	}
	return f
}

// billed adds what a try cost.
func billed(f Finding, r preflight.Result) Finding {
	if r.Last != nil {
		f.CostMicroUSD = r.CostMicroUSD
		f.Detail += fmt.Sprintf(" (%d tokens in, %d out; cost %s)", r.Usage.In, r.Usage.Out, view.Dollars(r.CostMicroUSD))
	}
	return f
}

// untold is the finding that a request failed, with what would fix it.
func (m Models) untold(limited context.Context, name, use string, r preflight.Result) Finding {
	f := Finding{Name: name, Use: use, State: Failed, Detail: r.Err.Error(), Remedy: "check --base-url, and " + modelFlag(name == "judge")}
	var asked *llm.Error
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		f.Detail = fmt.Sprintf("no answer from %s within %s", m.Endpoint, m.Wait)
		f.Remedy = "check --base-url and the network; a model that is slow to begin is given more time by --wait 5m"
	case r.CutShort():
		f.State, f.Remedy, f.Detail = Unknown, "", fmt.Sprintf("its completion reached %d tokens before it said anything", m.Preflight.Bound())
	case errors.As(r.Err, &asked):
		if asked.Status == http.StatusTooManyRequests && !asked.Stop {
			f.State = Unknown // a run waits
		}
		f.Remedy = remedyOf(asked, name == "judge")
	}
	return billed(f, r)
}

// remedyOf is what would repair a failed request.
func remedyOf(e *llm.Error, ofJudge bool) string {
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

// CheckJudge shows the judge one answer that says nothing.
func (m Models) CheckJudge(ctx context.Context) Finding {
	const name, use = "judge", "a second verdict"
	if m.Unsettled == nil && m.Judge == "" && !m.Rehearsal {
		return Lacks(name, use, "none: the official verdict alone", "name one with --judge-model")
	}
	if f, not := m.notAsked(name, use); not {
		return f
	}
	r, limited := m.asked(ctx, trajectory.PreflightJudge)
	if r.Err != nil {
		return m.untold(limited, name, use, r)
	}
	v := r.Verdict
	f := m.declared(Good(name, use, servedAs(m.Judge, r.ResponseModel)+" and gives verdicts"), m.Judge, r.ResponseModel)
	switch {
	case v.Judged == nil && r.CutShort():
		f = Unseen(name, use, fmt.Sprintf("its completion reached %d tokens before it gave a verdict", m.Preflight.Bound()))
	case v.Judged == nil:
		f = Lacks(name, use, servedAs(m.Judge, r.ResponseModel)+", but its reply is no verdict", "gaia judge check tries it further; or name another with --judge-model")
	case *v.Judged:
		f = Lacks(name, use, servedAs(m.Judge, r.ResponseModel)+", and calls an answer correct that says nothing", "gaia judge check tries it further; or name another with --judge-model")
	}
	return billed(f, r)
}

// CheckSense asks the model that a tool asks.
func (m Models) CheckSense(ctx context.Context, kind, use, model, flag string) Finding {
	if f, not := m.notAsked(kind, use); not {
		f.Detail = model + ", " + f.Detail
		return f
	}
	r, limited := m.asked(ctx, kind)
	if r.Err != nil {
		f := m.untold(limited, kind, use, r)
		f.Remedy = strings.ReplaceAll(f.Remedy, "--model", flag)
		return f
	}
	return billed(Good(kind, use, servedAs(model, r.ResponseModel)), r)
}
