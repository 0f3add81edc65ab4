package audit

import (
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// use is what one event of the journal says of requests to a model.
type use struct {
	at         place
	who        string // asked it: agent, judge or the name of a tool
	planned    string // the model that the plan has; "" for none
	answered   bool   // there was a reply
	model      string // that it names; "" for none
	id         string // of its request; "" for none
	tokens     int64  // in and out, as far as they were reported
	nameless   int    // requests of which the journal has no id
	unmeasured int    // requests of which it has no tokens
}

// Who asks a model, besides tools.
const (
	theAgent = "the agent"
	theJudge = "the judge"
)

// uses calls visit with all that the journal says of requests to models: before
// the tasks, attempt by attempt, and then of the null battery.
func (e *Evidence) uses(visit func(use)) {
	judged := ""
	if e.Manifest.Judge != nil {
		judged = e.Manifest.Judge.Model
	}
	for _, p := range e.Preflight {
		usesOfPreflight(e.Manifest, place{seq: p.Seq, given: true}, p.Event, visit)
	}
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		for _, m := range a.Models {
			u := use{at: place{task: t, attempt: a.Number, seq: m.Seq}, who: theAgent, planned: e.Manifest.Model.Name, answered: true,
				model: m.Responded, id: m.RequestID, tokens: m.In + m.Out}
			if !m.UsageReported {
				u.unmeasured = 1
			}
			visit(u.named(1))
		}
		if a.Unheard > 0 {
			visit(use{at: place{task: t, attempt: a.Number, seq: a.Begun}, who: theAgent, nameless: a.Unheard, unmeasured: a.Unheard})
		}
		for _, c := range a.Calls {
			if c.Result != nil && c.Result.Model != nil {
				m := *c.Result.Model
				u := use{at: place{task: t, attempt: a.Number, seq: c.Result.Seq}, who: c.Result.Name, planned: toolModel(e.Manifest, c.Result.Name),
					answered: !c.Result.IsError, model: m.ResponseModel, id: m.RequestID, tokens: m.Tokens.In + m.Tokens.Out}
				if !m.UsageReported {
					u.unmeasured = max(m.Tries, 1)
				}
				visit(u.named(m.Tries))
			}
		}
		if a.Judgment != nil && a.Judgment.Tries > 0 {
			visit(useOfJudge(*a.Judgment, place{task: t, attempt: a.Number, seq: a.Judged}, judged))
		}
	})
	for _, b := range e.Batteries { // whose requests the journal adds up
		u := use{at: place{seq: b.Seq}, who: theJudge, tokens: b.Event.TokensIn + b.Event.TokensOut, nameless: b.Event.Tries}
		if u.tokens == 0 {
			u.unmeasured = b.Event.Tries
		}
		visit(u)
	}
}

// usesOfPreflight calls visit with what a model was asked before the tasks: the
// tokens of all its requests, and each reply that has an id.
func usesOfPreflight(m ledger.Manifest, at place, p trajectory.Preflight, visit func(use)) {
	u := use{at: at, who: theAgent, planned: m.Model.Name, answered: p.Error == nil, model: p.ResponseModel, tokens: p.Tokens.In + p.Tokens.Out}
	switch p.Kind {
	case trajectory.PreflightJudge:
		u.who, u.planned = theJudge, ""
		if m.Judge != nil {
			u.planned = m.Judge.Model
		}
	case trajectory.PreflightVision:
		u.who = "describe_image"
		u.planned = toolModel(m, u.who)
	case trajectory.PreflightTranscription:
		u.who = "transcribe_audio"
		u.planned = toolModel(m, u.who)
	}
	if !p.UsageReported {
		u.unmeasured = p.Requests
	}
	u.nameless = max(p.Requests-len(p.RequestIDs), 0)
	if len(p.RequestIDs) > 0 {
		u.id = p.RequestIDs[0]
	}
	if p.Requests > 0 {
		visit(u)
	}
	for _, id := range p.RequestIDs[min(1, len(p.RequestIDs)):] {
		visit(use{at: at, who: u.who, planned: u.planned, answered: u.answered, model: u.model, id: id})
	}
}

// useOfJudge is what a verdict says that was not in the cache.
func useOfJudge(j trajectory.Judgment, at place, planned string) use {
	u := use{at: at, who: theJudge, planned: planned, answered: j.Path == judge.PathJudge || j.Path == judge.PathUnreadable,
		model: j.ResponseModel, id: j.RequestID, tokens: j.TokensIn + j.TokensOut}
	if u.tokens == 0 {
		u.unmeasured = j.Tries
	}
	return u.named(j.Tries)
}

// named is u of so many requests, one of which may have an id.
func (u use) named(requests int) use {
	u.nameless = max(requests, 1)
	if u.id != "" {
		u.nameless--
	}
	return u
}
