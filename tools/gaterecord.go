package tools

import (
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
