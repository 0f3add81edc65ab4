package tools

import (
	"cmp"
	"context"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// decided records the decision about a call, with the words for the model.
func (s *Session) decided(p *pass) []trajectory.Payload {
	p.refusal, _ = s.rec.Redact.Redact(p.refusal)
	p.decision.Reason, _ = s.rec.Redact.Redact(p.decision.Reason)
	events := []trajectory.Payload{trajectory.PolicyDecision{
		CallID: p.id, Decision: string(p.decision.Verdict), Mode: string(s.gate.Policy.Mode), PolicyHash: s.gate.policyHash,
		Reason: p.decision.Reason, RuleIDs: p.decision.RuleIDs, Shown: p.refusal,
	}}
	if p.decision.Class != "" {
		events = append(events, violation(p.id, p.decision))
	}
	return events
}

func violation(callID string, d policy.Decision) trajectory.Payload {
	return trajectory.PolicyViolation{CallID: callID, Class: string(d.Class), Description: d.Reason, RuleIDs: d.RuleIDs}
}

// proposal records the arguments one by one, each cut by itself, so that a
// long one does not hide the others.
func (s *Session) proposal(p *pass) trajectory.ToolProposed {
	whole := s.rec.Excerpt(p.call.Args, trajectory.ArgumentHead)
	out := trajectory.ToolProposed{Args: map[string]string{}, ArgsSHA256: whole.SHA256, BodySHA256: whole.BodySHA256, CallID: p.id, Name: p.name}
	args, err := policy.Arguments([]byte(p.call.Args))
	if err != nil {
		out.Malformed, out.Redactions = whole.Head, whole.Redactions
		if s.rec.Hashes {
			out.Malformed = "[not recorded]"
		}
		return out
	}
	for name, text := range args {
		x := s.rec.Part(text, trajectory.ArgumentHead)
		name = s.rec.Redact.Label(name)
		out.Args[name] = x.Head
		out.Redactions += x.Redactions
		if x.Truncated {
			out.ArgsTruncated = append(out.ArgsTruncated, name)
		}
	}
	slices.Sort(out.ArgsTruncated)
	return out
}

// refusedEvents are the violations of a call while it ran.
func (s *Session) refusedEvents(p *pass) []trajectory.Payload {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []trajectory.Payload
	for _, d := range p.refused {
		d.Reason, _ = s.rec.Redact.Redact(d.Reason)
		events = append(events, violation(p.id, d))
	}
	return events
}

func (s *Session) executedEvent(p *pass) trajectory.Payload {
	x := s.rec.Excerpt(p.output.Document, trajectory.ResultHead)
	p.shown = messageDigest(p.call.ID, p.output.Shown)
	urls := make([]trajectory.URL, len(p.output.URLs))
	for i, u := range p.output.URLs {
		urls[i] = u
		urls[i].URL, _ = s.rec.Redact.Redact(u.URL)
		urls[i].ContentType, _ = s.rec.Redact.Redact(u.ContentType) // the server's words
		if s.rec.Hashes {                                           // the rest is an argument, or derived from one
			urls[i].URL = Origin(u.URL)
		}
	}
	model := p.output.Model
	if model != nil { // with the endpoint's words as they may be recorded
		use := *model
		use.RequestID, use.ResponseModel = s.rec.Redact.Label(use.RequestID), s.rec.Redact.Label(use.ResponseModel)
		model = &use
	}
	return trajectory.ToolExecuted{
		BodySHA256: x.BodySHA256, Bytes: x.Bytes, CallID: p.id, Head: x.Head, IsError: p.output.IsError,
		LatencyMs: p.latency.Milliseconds(), Model: model, Name: p.name, OutputSHA256: x.SHA256, Own: p.own, Probes: p.probes,
		Redactions: x.Redactions, ShownBytes: int64(len(p.output.Shown)), ShownSHA256: p.shown, Truncated: x.Truncated, URLs: urls,
	}
}

// messageDigest returns the digest of the message that shows the model a text for
// a call.
func messageDigest(callID, text string) string {
	return canonical.Digest(trajectory.SentMessage{Content: text, Role: "tool", ToolCallID: callID}.Canonical())
}

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
