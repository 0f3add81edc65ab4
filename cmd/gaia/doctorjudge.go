package main

import (
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/trajectory"
)

// judgeFinding shows the judge one answer that says nothing.
func (x *exam) judgeFinding(ctx context.Context) diagnosis {
	const name, use = "judge", "a second verdict"
	if x.unsettled == nil && x.judge() == "" && !x.plan.Rehearsal {
		return lacking(name, use, "none: the official verdict alone", "name one with --judge-model")
	}
	if f, not := x.notAsked(name, use); not {
		return f
	}
	r, limited := x.asked(ctx, trajectory.PreflightJudge)
	if r.Err != nil {
		return x.untold(limited, name, use, r)
	}
	v := r.Verdict
	f := x.declared(fine(name, use, servedAs(x.judge(), r.ResponseModel)+" and gives verdicts"), x.judge(), r.ResponseModel)
	switch {
	case v.Judged == nil && r.CutShort():
		f = unlooked(name, use, fmt.Sprintf("its completion reached %d tokens before it gave a verdict", x.w.Preflight.Bound()))
	case v.Judged == nil:
		f = lacking(name, use, servedAs(x.judge(), r.ResponseModel)+", but its reply is no verdict", "gaia judge check tries it further; or name another with --judge-model")
	case *v.Judged:
		f = lacking(name, use, servedAs(x.judge(), r.ResponseModel)+", and calls an answer correct that says nothing", "gaia judge check tries it further; or name another with --judge-model")
	}
	return billed(f, r)
}
