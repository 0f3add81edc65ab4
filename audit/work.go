package audit

import (
	"github.com/gaia-harness/gaia/internal/ledger"
)

func noWorkPass() Check {
	return Check{
		ID: "AUD-2", Name: "no-work-pass", Severity: Critical, Gate: true,
		Title: "every correct answer came from a model that was asked",
		Why:   "an answer that was there before any model said a word was written by whoever made the journal",
		Fix:   "void the task, or run it again",
		Skips: "the provider reports no usage, or not of every reply",
		Rules: []Rule{
			{"no-model-call", Critical, 1, "a correct answer that rests on an attempt without a reply of the model"},
			{"no-output-tokens", Critical, 1, "a correct answer that rests on replies of 0 tokens"},
		},
		Run: func(e *Evidence, n *Notes) {
			for _, t := range e.Tasks {
				if !t.credited() {
					continue
				}
				for _, a := range t.votes(e.Manifest.Voting) {
					worked(n, t, a)
				}
			}
		},
	}
}

// votes returns the attempts that a task's verdict rests on: every one with an
// answer where the counted one was chosen by vote.
func (t *TaskEvidence) votes(v ledger.VotingPlan) (all []*AttemptEvidence) {
	for _, a := range t.Attempts {
		if a == t.counted() || v.Attempts > 1 && a.Answer != nil {
			all = append(all, a)
		}
	}
	return all
}

// noUsage is the gap of an answer whose work nobody counted.
const noUsage = "the provider reports no usage, or not of every reply"

// worked looks for the work behind an attempt that a correct answer rests on.
func worked(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	replies, reported, out := 0, 0, int64(0) // tokens count where usage is reported
	for _, m := range a.Models {
		if m.Seq > a.Committed {
			break
		}
		replies++
		if m.UsageReported {
			reported++
			out += m.Out
		}
	}
	at := place{task: t, attempt: a.Number, seq: max(a.Committed, 0)}
	switch {
	case replies == 0:
		n.find("no-model-call", at, "an answer before any reply of the model, which a correct one rests on", "a reply of the model")
	case out > 0:
	case reported < replies:
		n.gap(noUsage)
	default:
		n.find("no-output-tokens", at, "an answer from replies of 0 tokens, which a correct one rests on", "tokens")
	}
}
