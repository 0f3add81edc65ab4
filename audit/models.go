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
			{"model-undeclared", High, 2, "replies of a model that the plan neither names nor declares as another name of it"},
			{"judge-is-agent", ToReview, 2, "verdicts of a judge that is the model whose answers it judges"},
		},
		Run: func(e *Evidence, n *Notes) {
			undeclared(e, n)
			unnamedModels(e, n)
			if j, a := e.Manifest.Judge, e.firstByJudge(); j != nil && a != nil && Declares(e.Manifest.Model, j.Model, e.Manifest.Model.Name) {
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
		if u.model == "" || u.planned == "" || Declares(e.Manifest.Model, u.model, u.planned) {
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

// Declares reports whether a model's name in a reply is one that a plan declares
// for a model of its own: the planned name or one that it is served as. A reply may
// name the release that answered, where the plan names none.
func Declares(plan ledger.ModelPlan, model, planned string) bool {
	got := nameOf(model)
	return got.base != "" && slices.ContainsFunc(append(slices.Clone(plan.ServedAs), planned), func(own string) bool {
		want := nameOf(own)
		return got.base == want.base && (want.release == "" || got.release == want.release) && (endsIn(got.owners, want.owners) || endsIn(want.owners, got.owners))
	})
}

// modelName is a model's name taken apart: of one model there are many ways to
// write it.
type modelName struct {
	owners  []string // who made it, or offers it: the last one is the nearest
	base    string
	release string // a day, a month or a number; "" for whichever is the latest
}

// nameOf takes a model's name apart, as providers, gateways and programs that
// serve files write it. What says of what size or kind a model is stays in the
// base: no other model is taken for it.
func nameOf(s string) modelName {
	s = strings.ToLower(strings.TrimSpace(s))
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	if len(parts) == 0 {
		return modelName{}
	}
	var n modelName
	base := parts[len(parts)-1]
	for owner := ownerBefore.FindStringSubmatch(base); owner != nil; owner = ownerBefore.FindStringSubmatch(base) {
		n.owners, base = append(n.owners, owner[1]), base[len(owner[1])+1:]
	}
	if !strings.HasPrefix(s, "/") { // as the path of a file does, which says nothing of who made it
		folders := slices.DeleteFunc(parts[:len(parts)-1], func(part string) bool { return part == "models" })
		n.owners = append(folders, n.owners...)
	}
	base = routes.ReplaceAllString(base, "")
	base = strings.ReplaceAll(base, "@", "-")
	base = pointBetween.ReplaceAllString(base, "$1-$2")
	base = latest.ReplaceAllString(base, "")
	if m := released.FindStringSubmatch(base); m != nil {
		base, n.release = m[1], strings.ReplaceAll(m[2], "-", "")
	}
	n.base = base
	return n
}

var (
	// ownerBefore is an owner or a region before a name, as in us.anthropic.name.
	ownerBefore = regexp.MustCompile(`^([a-z][a-z-]*)\.[a-z]`)
	// routes are what gateways and clouds put after a model's name to say where they
	// send a request, or in which form they take it.
	routes = regexp.MustCompile(`(?::(?:exacto|extended|floor|free|latest|nitro)|-v[0-9]+:[0-9]+)$`)
	// pointBetween is the point of a version, which some write as a hyphen.
	pointBetween = regexp.MustCompile(`([0-9])\.([0-9])`)
	// latest is what stands for the newest release of a name.
	latest = regexp.MustCompile(`-(?:latest|0)$`)
	// released is a release of a model: its name and a day with the year or without,
	// a month of a year, or a number from 001 on.
	released = regexp.MustCompile(`^(.+)-(20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])|20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])|` +
		`(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])|2[3-9](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])-20[0-9]{2}|00[1-9])$`)
)

// endsIn reports whether a list ends in another one.
func endsIn(all, end []string) bool {
	return len(end) <= len(all) && slices.Equal(all[len(all)-len(end):], end)
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
	case trajectory.Preflight:
		usesOfPreflight(m, at, p, func(asked use) { u = asked })
	case trajectory.Judgment:
		if m.Judge != nil && p.Path != judge.PathOfficial && !p.Cached {
			u.who, u.planned, u.model = theJudge, m.Judge.Model, p.ResponseModel
		}
	}
	if u.model != "" && u.planned != "" && !Declares(m.Model, u.model, u.planned) {
		n.find("model-undeclared", at, fmt.Sprintf("%q answered %s, and the plan has %q; if that is another name of the same model, plan with --served-as", u.model, u.who, u.planned), "")
	}
}
