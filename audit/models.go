package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

func modelIdentity() Check {
	return Check{
		ID: "AUD-14", Name: "model-identity", Severity: High,
		Title: "the models that answered are those that the plan names",
		Why: "an endpoint can answer with another model than the one that was asked for, behind a gateway or once a quota is used up: " +
			"the score is then not of the model that it is published for",
		Fix: "ask an endpoint that serves the planned model; where it only calls it otherwise, plan with --served-as NAME, which everybody can read in the plan; " +
			"let another model judge than the one that answers",
		Skips:      "the replies of the agent's or of the judge's model, or some of them, name no model",
		References: []string{"https://arxiv.org/abs/2504.04715", "https://arxiv.org/abs/2404.13076"},
		Rules: []Rule{
			{"model-undeclared", High, 1, "replies of a model that the plan neither names nor declares as another name of it"},
			{"judge-is-agent", ToReview, 1, "verdicts of a judge that is the model whose answers it judges"},
		},
		Run: func(e *Evidence, n *Notes) {
			undeclared(e, n)
			unnamedModels(e, n)
			if j, a := e.Manifest.Judge, e.firstByJudge(); j != nil && a != nil && declaresModel(e.Manifest.Model, j.Model, e.Manifest.Model.Name) {
				n.find("judge-is-agent", place{seq: a.Judged, given: true}, fmt.Sprintf("the model %q judged answers of %q", j.Model, e.Manifest.Model.Name), "another model as the judge")
			}
		},
	}
}

// undeclared looks for replies of models that the plan does not declare, each of
// them told once: at its first reply.
func undeclared(e *Evidence, n *Notes) {
	type served struct{ who, planned, model string }
	var found []served
	first, replies := map[served]place{}, map[served]int{}
	e.uses(func(u use) {
		if u.model == "" || u.planned == "" || declaresModel(e.Manifest.Model, u.model, u.planned) {
			return
		}
		s := served{u.who, u.planned, u.model}
		if replies[s]++; replies[s] == 1 {
			found, first[s] = append(found, s), u.at
		}
	})
	for _, s := range found {
		got := fmt.Sprintf("%q answered %s, in %d replies", s.model, s.who, replies[s])
		if replies[s] == 1 {
			got = fmt.Sprintf("%q answered %s, in one reply", s.model, s.who)
		}
		n.find("model-undeclared", first[s], got, fmt.Sprintf("the planned %q", s.planned))
	}
}

// unnamedModels: which model answered, only the endpoint says. Endpoints that
// write down or look at things for tools commonly name none.
func unnamedModels(e *Evidence, n *Notes) {
	for _, who := range []string{theAgent, theJudge} {
		replies, unnamed := 0, 0
		e.uses(func(u use) {
			if u.who != who || !u.answered {
				return
			}
			if replies++; u.model == "" {
				unnamed++
			}
		})
		switch {
		case unnamed > 0 && unnamed == replies:
			n.gap("the endpoint of %s names no model in its replies", who)
		case unnamed > 0:
			n.gap("%d of %d replies to %s name no model", unnamed, replies, who)
		}
	}
}

// routes are what gateways put after a model's name to say where they send a
// request, not to which model.
var routes = regexp.MustCompile(`:(exacto|extended|floor|free|nitro|online)$`)

// dated is a release of a model: its name and a day.
var dated = regexp.MustCompile(`^(.+)-20[0-9]{2}(-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))$`)

// declaresModel reports whether a model's name in a reply is one that the plan
// declares for a model of its own: the planned name and those it is served as,
// each also without the provider before it and the route after it, and as a
// dated release.
func declaresModel(plan ledger.ModelPlan, model, planned string) bool {
	names := []string{model, routes.ReplaceAllString(model, "")}
	for _, name := range names {
		if release := dated.FindStringSubmatch(name); release != nil {
			names = append(names, release[1])
		}
	}
	return slices.ContainsFunc(append(slices.Clone(plan.ServedAs), planned), func(own string) bool {
		own = routes.ReplaceAllString(own, "")
		return slices.ContainsFunc(names, func(name string) bool {
			return isPart(name, own) || isPart(name, strings.TrimSuffix(own, "-latest"))
		})
	})
}

// isPart reports whether a name is another, or what stands behind a slash in it.
func isPart(name, whole string) bool {
	name, whole = strings.ToLower(name), strings.ToLower(whole)
	return name != "" && (name == whole || strings.HasSuffix(whole, "/"+name))
}

// servedOtherwise is what an event by itself shows of a model that the plan does
// not declare.
func servedOtherwise(m ledger.Manifest, n *Notes, at place, p trajectory.Payload) {
	u := use{at: at, who: theAgent, planned: m.Model.Name}
	switch p := p.(type) {
	case trajectory.ModelCallCompleted:
		u.model = p.ResponseModel
	case trajectory.ToolExecuted:
		if p.Model != nil {
			u.who, u.planned, u.model = p.Name, toolModel(m, p.Name), p.Model.ResponseModel
		}
	case trajectory.Judgment:
		if m.Judge != nil && p.Path != judge.PathOfficial && !p.Cached {
			u.who, u.planned, u.model = theJudge, m.Judge.Model, p.ResponseModel
		}
	}
	if u.model != "" && u.planned != "" && !declaresModel(m.Model, u.model, u.planned) {
		n.find("model-undeclared", at, fmt.Sprintf("%q answered %s, and the plan has %q; if that is another name of the same model, plan with --served-as", u.model, u.who, u.planned), "")
	}
}
