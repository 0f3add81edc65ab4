package tools

import (
	"errors"
	"slices"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// keep copies the workspace before the first call of a turn that may change it. One
// that cannot be kept is restored as it was after the last such turn, which is
// recorded; where there was none, no call may change it.
func (s *Session) keep(passes []*pass) ([]trajectory.Payload, error) {
	first := slices.IndexFunc(passes, func(p *pass) bool { return p.decision.Verdict != policy.Deny && p.writes() })
	if first < 0 || s.workspace == nil {
		return nil, nil
	}
	_, err := s.workspace.keep()
	u, bad := errors.AsType[*unkeepable](err)
	if !bad {
		return nil, err
	}
	if s.workspace.kept == nil || s.shared {
		for _, p := range passes {
			if p.decision.Verdict != policy.Deny && p.writes() {
				p.deny(policy.Decision{Reason: "the workspace cannot be kept before it is changed: " + u.text})
			}
		}
		return nil, nil
	}
	done, err := s.restore(breach{callID: passes[first].id, reason: unkept + u.text}, true)
	return []trajectory.Payload{done}, err
}

const unkept = "the workspace cannot be kept: "

// breach is why a workspace is restored.
type breach struct {
	callID, reason string
	rules          []string
}

// leave prepares the workspace for the next turn: it is restored if a call of
// this one broke rules in mode autonomous, or if it cannot be kept as it is now. The
// results of calls that may have changed it say so.
func (s *Session) leave(passes []*pass) ([]trajectory.Payload, error) {
	if s.workspace == nil {
		return nil, nil
	}
	writers := slices.DeleteFunc(slices.Clone(passes), func(p *pass) bool { return !p.allowed() || !p.writes() })
	var b breach // the first of a rule. A denial by deny list, mode or budget is none: that call did not run
	violated := false
	for _, p := range passes {
		p.mu.Lock()
		all := append([]policy.Decision{p.decision}, p.refused...)
		p.mu.Unlock()
		i := slices.IndexFunc(all, func(d policy.Decision) bool { return d.Class == policy.DeniedByRule })
		if i >= 0 && s.gate.Policy.Mode == policy.Autonomous {
			b, violated = breach{p.id, all[i].Reason, all[i].RuleIDs}, true
			break
		}
	}
	if !violated && (len(writers) == 0 || s.shared) {
		return nil, nil
	}
	if s.shared { // the call did not run
		reason, _ := s.rec.Redact.Redact(b.reason)
		return []trajectory.Payload{trajectory.Rollback{CallID: b.callID, Reason: reason, Restored: []string{}, RuleIDs: b.rules}}, nil
	}
	if !violated {
		removed, err := s.workspace.keep()
		u, bad := errors.AsType[*unkeepable](err)
		if !bad {
			if len(removed) > 0 {
				note(writers, "removed from the workspace, since it was neither file, folder nor link: "+PlainName(removed[0]))
			}
			return nil, err
		}
		b = breach{callID: writers[0].id, reason: unkept + u.text}
	}
	done, err := s.restore(b, len(writers) > 0)
	note(writers, "the workspace was put back as it was before this turn, and nothing kept between calls is left, because: "+done.Reason)
	return []trajectory.Payload{done}, err
}

// note adds a line to the results that the model is shown.
func note(writers []*pass, line string) {
	for _, p := range writers {
		p.output.Shown += "\n[" + line + "]"
	}
}

// restore makes the workspace as it was kept last, if it differs, after ending
// what tools keep: their state is of files that are no more. wrote says that a call
// may have changed it in this turn. Where the workspace could not be looked through, all
// of it is made again, and listed.
func (s *Session) restore(b breach, wrote bool) (done trajectory.Rollback, err error) {
	w := s.workspace
	done = trajectory.Rollback{CallID: b.callID, Restored: []string{}, RuleIDs: b.rules}
	done.Reason, _ = s.rec.Redact.Redact(b.reason)
	if w.kept == nil { // nothing was allowed to change it yet
		_, sum, err := w.now()
		done.TreeBefore, done.TreeFound, done.TreeAfter = sum, sum, sum
		return done, err
	}
	if !wrote { // also a program that an earlier call left behind may have
		if _, sum, err := w.now(); err == nil && sum == w.keptSum {
			done.TreeBefore, done.TreeFound, done.TreeAfter = sum, sum, sum
			return done, nil
		}
	}
	if err := s.kept.Close(); err != nil {
		return done, err
	}
	found, sum, err := w.now()
	if err != nil {
		return done, err
	}
	done.TreeBefore, done.TreeFound = w.keptSum, sum
	for _, path := range changed(found, w.kept) {
		done.Restored = append(done.Restored, w.recorded(s.rec, path))
	}
	slices.Sort(done.Restored)
	if sum != w.keptSum {
		if err := w.restore(); err != nil {
			return done, err
		}
	}
	_, done.TreeAfter, err = w.now()
	if err == nil && done.TreeAfter != done.TreeBefore {
		err = errors.New("restoring the workspace: it is not as it was")
	}
	return done, err
}
