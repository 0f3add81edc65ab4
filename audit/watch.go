package audit

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// Watch follows a run as it is recorded and tells what will keep it from being
// submitted, so that no more is spent on it. It sees what one event shows by
// itself, and takes the probes in it as they are: the audit of the finished run
// looks at all of it, and trusts less. What a call asks for stands in another
// event than its result, and the Gate refuses by the same rules.
type Watch struct {
	plan  ledger.Manifest
	gold  map[string]string
	tasks map[string]*TaskEvidence
	asked map[string]*taken // of the open attempt of a task
}

// taken is what an attempt's replies are said to have taken.
type taken struct {
	out        int64 // tokens
	unreported bool  // of a reply nobody said it
}

// NewWatch begins to follow a run; gold is nil where there is none.
func NewWatch(m ledger.Manifest, gold map[string]string) *Watch {
	w := &Watch{plan: m, gold: gold, tasks: make(map[string]*TaskEvidence, len(m.Tasks)), asked: map[string]*taken{}}
	for _, p := range m.Tasks {
		w.tasks[p.TaskID] = &TaskEvidence{Plan: p}
	}
	return w
}

// Add takes the next event. It returns what the audit will find in it that keeps
// the run from being submitted, "" if nothing.
func (w *Watch) Add(ev trajectory.Event) string {
	var checks []CheckReport
	look := func(c Check, run func(*Notes)) {
		n := newNotes(c)
		run(n)
		checks = append(checks, n.report())
	}
	t := w.tasks[ev.TaskID]
	at := place{task: t, attempt: ev.Attempt, seq: ev.Seq}
	switch p := ev.Payload.(type) {
	case trajectory.SecurityEvent:
		look(graderIsolation(), func(n *Notes) { judgeCache(&Evidence{Cache: []CacheFact{{ev.Seq, p}}}, n) })
	case trajectory.TaskStarted:
		w.asked[ev.TaskID] = &taken{}
		look(oracleLeakage(), func(n *Notes) {
			workspace(&Evidence{Gold: w.gold}, n, t, &AttemptEvidence{Number: ev.Attempt, Begun: ev.Seq, FileName: p.FileName, Workspace: p.Workspace})
		})
	case trajectory.ModelCallCompleted:
		if u := w.asked[ev.TaskID]; u != nil && p.OutputSHA256 != "" {
			if u.unreported = u.unreported || !p.UsageReported; p.UsageReported {
				u.out += p.Tokens.Out
			}
		}
		look(answerLeakage(), func(n *Notes) { channels(n, t, p.UnrecordedChannels) })
	case trajectory.ToolExecuted:
		r := resultOf(ev.Seq, p)
		look(answerLeakage(), func(n *Notes) {
			unseen(n, r)
			leaked(n, at, &CallFact{Result: r, HoldsOwn: true, HoldsIDs: r.Probes.OtherUUIDs, AsFile: !builtin(r.Name)}, w.gold[ev.TaskID]) // it may: what it asked for stands elsewhere
		})
	case trajectory.AttemptEnded:
		delete(w.asked, ev.TaskID)
	case trajectory.AnswerCommitted:
		gold, scored := w.gold[ev.TaskID]
		if u := w.asked[ev.TaskID]; u != nil && u.out == 0 && u.unreported && scored && judge.QuestionScorer(&p.Answer, gold) { // others rest on nothing
			look(noWorkPass(), func(n *Notes) { n.gap(noUsage) })
		}
	}
	look(modelIdentity(), func(n *Notes) { servedOtherwise(w.plan, n, at, ev.Payload) })
	for _, c := range checks {
		if why := c.unfit(); why != "" {
			if t != nil {
				why += fmt.Sprintf(" (task %s)", ev.TaskID)
			}
			return c.ID + " " + c.Name + ": " + why
		}
	}
	return ""
}

// unfit returns the first thing of a check that keeps a run from being submitted.
func (r CheckReport) unfit() string {
	for _, f := range r.Findings {
		if f.Severity == Critical || f.Severity == High {
			return f.Got
		}
	}
	if r.Gate && len(r.Gaps) > 0 {
		return r.Gaps[0]
	}
	return ""
}
