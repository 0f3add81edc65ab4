package audit

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// batteries holds what the journal says of null batteries against the one that the
// plan names, as far as this version knows it.
func batteries(e *Evidence, n *Notes) {
	plan := e.Manifest.Judge
	switch {
	case plan == nil:
		return
	case plan.Battery == "":
		if a := e.firstByJudge(); a != nil {
			n.find("judge-self-test-not-planned", place{seq: a.Judged, unused: true}, "verdicts of a judge that nobody put to the null battery: the plan names none", "a judge that withstood it")
		}
		return
	case plan.Battery != judge.BatteryDigest():
		n.gap("the null battery of the plan is not one that this version knows")
		return
	}
	var names []string
	for _, item := range judge.Battery() {
		names = append(names, item.Name)
	}
	for _, b := range e.Batteries {
		unknown := slices.ContainsFunc(slices.Concat(b.Event.Paid, b.Event.Refused, b.Event.Unreadable), func(name string) bool { return !slices.Contains(names, name) })
		whole := b.Event.Put == len(names)
		if unknown || b.Event.Put > len(names) || !b.Event.Remembered && whole != (b.Event.Problem == "") {
			n.find("judge-self-test-differs", place{seq: b.Seq}, fmt.Sprintf("a null battery of %d items, or of others than the plan's", b.Event.Put), fmt.Sprintf("its %d items", len(names)))
		}
		if refused := len(b.Event.Refused); refused > 0 && b.Event.Withstood {
			n.find("judge-self-test-incomplete", place{seq: b.Seq, unused: true}, fmt.Sprintf("%d of %d items of the null battery did not reach the judge", refused, len(names)), "a judge that called all of them incorrect")
		}
	}
}

// firstByJudge returns the attempt whose answer got the first verdict of the LLM
// judge; nil if none did.
func (e *Evidence) firstByJudge() (first *AttemptEvidence) {
	e.each(func(_ *TaskEvidence, a *AttemptEvidence) {
		if a.Judgment != nil && a.Judgment.Path == judge.PathJudge && (first == nil || a.Judged < first.Judged) {
			first = a
		}
	})
	return first
}

// mostAsked is how often the judge is asked about one answer: for a reply that can
// be read, and once more about another answer where it was forbidden to reply.
// What the transport tries again is not among them.
const mostAsked = judge.DefaultTries + 1

// judged holds a judgment against the plan, the answer and itself.
func judged(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	j := a.Judgment
	if j == nil || a.Answer == nil {
		return
	}
	at := place{task: t, attempt: a.Number, seq: a.Judged}
	if e.Gold != nil && j.Official != e.pays(t, a) {
		n.find("verdict-differs", at, fmt.Sprintf("official verdict %v", j.Official), "the verdict that the official scorer gives")
	}
	byModel := j.Path == judge.PathJudge || j.Path == judge.PathUnreadable || j.Path == judge.PathError
	plan := e.Manifest.Judge
	if byModel && (plan == nil || j.Model != plan.Model || j.Prompt != plan.Prompt) {
		n.find("judge-differs", at, fmt.Sprintf("judged by %q with %q", j.Model, j.Prompt), "the judge of the plan")
	}
	if !consistent(*j, plan) {
		n.find("scoring-path-inconsistent", at, "verdicts that do not go with the path "+j.Path, "official first, then the judge of the plan, if it has one")
	}
	if j.Tries > mostAsked {
		n.find("scoring-path-inconsistent", at, fmt.Sprintf("a judge that was asked %d times about one answer", j.Tries), fmt.Sprintf("at most %d times", mostAsked))
	}
	if j.Path == judge.PathJudge && plan != nil && plan.Battery != "" && !e.withstood(a.Judged) {
		n.find("judge-self-test-not-passed", at, "a verdict of a judge that had not withstood the null battery", "not judged")
	}
}

// withstood reports whether the judge had withstood the null battery, the last
// time it was put to it before an event.
func (e *Evidence) withstood(seq int64) bool {
	withstood := false
	for _, b := range e.Batteries {
		if b.Seq < seq {
			withstood = b.Event.Withstood
		}
	}
	return withstood
}

// consistent reports whether a judgment can come from the path it names. Without a
// planned judge there is no second verdict on any path. A null battery can find the
// judge out of reach before an answer does.
func consistent(j trajectory.Judgment, plan *ledger.JudgePlan) bool {
	asked, tried := j.Tries > 0, plan != nil && plan.Battery != ""
	if plan == nil && (j.Path == judge.PathOfficial || j.Path == judge.PathNoAnswer) {
		return j.Official == (j.Path == judge.PathOfficial) && j.Judged == nil && !asked
	}
	switch j.Path {
	case judge.PathOfficial:
		return j.Official && j.Judged != nil && *j.Judged && !asked
	case judge.PathJudge:
		return !j.Official && j.Judged != nil && asked != j.Cached
	case judge.PathNoAnswer:
		return !j.Official && j.Judged != nil && !*j.Judged && !asked
	case judge.PathUnreadable:
		return !j.Official && j.Judged == nil && asked
	case judge.PathError:
		return !j.Official && j.Judged == nil && (asked || tried)
	case judge.PathNoJudge, judge.PathWithheld, judge.PathTooLong:
		return !j.Official && j.Judged == nil && !asked
	}
	return false
}
