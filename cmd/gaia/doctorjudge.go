package main

import (
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/judge"
)

// judgeProbe carries one question to the judge, and keeps why it could not.
type judgeProbe struct {
	*exam
	meter
	err error
}

// Ask implements judge.Asker.
func (p *judgeProbe) Ask(ctx context.Context, q judge.Request) (judge.Reply, error) {
	var r llm.Response
	r, p.err = p.w.Judge.Client.Chat(ctx, llm.Request{Model: p.judge, MaxTokens: p.bound(), SchemaName: q.SchemaName, Schema: q.Schema,
		Messages: []llm.Message{{Role: "system", Content: q.System}, {Role: "user", Content: q.User}}}, &p.meter)
	return judge.Reply{Text: r.Message.Content, ResponseModel: r.ResponseModel}, p.err
}

// judgeFinding shows the judge one answer that says nothing.
func (x *exam) judgeFinding(ctx context.Context) diagnosis {
	const name, use = "judge", "a second verdict"
	if x.unsettled == nil && x.judge == "" && !x.rehearsal {
		return lacking(name, use, "none: the official verdict alone", "name one with --judge-model")
	}
	if f, not := x.notAsked(name, use); not {
		return f
	}
	limited, cancel := context.WithTimeout(ctx, x.wait)
	defer cancel()
	p := &judgeProbe{exam: x}
	var v judge.Verdict
	for _, null := range judge.Battery() {
		if v = (judge.Judge{Asker: p, MaxTries: 1}).Score(limited, judge.Item{Question: null.Question, Gold: null.Expected, Answer: &null.Candidate}); v.Tries > 0 {
			break // the others are nothing to ask about, by their looks alone
		}
	}
	if p.err != nil {
		return x.untold(limited, name, use, p.err, &p.meter)
	}
	f := x.declared(fine(name, use, servedAs(x.judge, v.Reply.ResponseModel)+" and gives verdicts"), x.judge, v.Reply.ResponseModel)
	switch {
	case v.Judged == nil && p.cutShort():
		f = unlooked(name, use, fmt.Sprintf("its completion reached %d tokens before it gave a verdict", x.bound()))
	case v.Judged == nil:
		f = lacking(name, use, servedAs(x.judge, v.Reply.ResponseModel)+", but its reply is no verdict", "gaia judge check tries it further; or name another with --judge-model")
	case *v.Judged:
		f = lacking(name, use, servedAs(x.judge, v.Reply.ResponseModel)+", and calls an answer correct that says nothing", "gaia judge check tries it further; or name another with --judge-model")
	}
	return p.billed(f)
}
