package tools

import (
	"cmp"
	"context"
	"slices"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// admit keeps the workspace if a call may change it, asks for the approvals that
// are needed, and records all decisions durably. It changes passes to what is
// decided in the end. Where someone is asked, that is on disk before.
func (s *Session) admit(ctx context.Context, turn int, passes []*pass) error {
	undone, err := s.keep(passes)
	if err != nil {
		return err
	}
	var events []trajectory.Payload
	var open []*pass
	for _, p := range passes {
		proposal := s.proposal(p)
		events = append(events, proposal)
		if p.decision.Verdict == policy.Confirm {
			open = append(open, p)
			events = append(events, trajectory.ApprovalRequested{ArgsSHA256: proposal.ArgsSHA256, CallID: p.id, Name: p.name, RuleIDs: p.decision.RuleIDs})
			continue
		}
		events = append(events, s.decided(p)...)
	}
	if len(open) > 0 && s.gate.Approver != nil {
		if err := s.rec.Append(turn, events...); err != nil {
			return err
		}
		events = nil
	}
	for _, p := range open {
		resolved, err := s.ask(ctx, p)
		if err != nil {
			return err
		}
		events = append(append(events, resolved), s.decided(p)...)
	}
	events = append(events, undone...)
	if at := slices.IndexFunc(passes, func(p *pass) bool { return p.allowed() && p.writes() }); at >= 0 && s.workspace != nil {
		events = append(events, trajectory.CheckpointSaved{CallID: passes[at].id, TreeSHA256: s.workspace.keptSum, Workspace: s.workspace.files(s.rec)})
	}
	return s.rec.Append(turn, events...)
}

// ask has a person approve a call, and decides again with the answer. Where there is no
// person to ask, the mode denies the call.
func (s *Session) ask(ctx context.Context, p *pass) (trajectory.Payload, error) {
	answer := Answer{By: trajectory.ByNoTerminal}
	began := s.gate.Now()
	if s.gate.Approver != nil {
		args, _ := s.rec.Redact.Redact(p.call.Args)
		reason, _ := s.rec.Redact.Redact(p.decision.Reason)
		var err error
		if answer, err = s.gate.Approver.Approve(ctx, Approval{TaskID: s.rec.TaskID, Tool: p.name, Args: args, Reason: reason}); err != nil {
			return nil, err
		}
	}
	latency := s.gate.Now().Sub(began).Milliseconds()
	p.asked.Approved = answer.Approved
	s.mu.Lock()
	p.asked.Over = cmp.Or(p.asked.Over, s.over()) // time has passed
	s.mu.Unlock()
	again := policy.Decide(s.gate.Policy, p.asked)
	switch again.Verdict {
	case policy.Allow:
		p.decision = again
	case policy.Confirm: // it was not approved; or that is not enough, and then it does not run either
		if answer.By == trajectory.ByPerson {
			again.Reason = "a person refused this call: " + again.Reason
		} else {
			again.Class, again.Reason = policy.DeniedByMode, "there is no person to ask: "+again.Reason
		}
		p.deny(again)
	default:
		p.deny(again)
	}
	return trajectory.ApprovalResolved{Approved: answer.Approved, By: answer.By, CallID: p.id, LatencyMs: latency}, nil
}
