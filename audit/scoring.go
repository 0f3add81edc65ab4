package audit

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

func normalizationCollision() Check {
	return Check{
		ID: "AUD-5", Name: "normalization-collision", Severity: Critical, Gate: true,
		Title: "no credit for an answer that says nothing",
		Why: "the official scorer strips white space and punctuation and reads what is no numeral as infinite: an answer that " +
			"vanishes on the way can be made equal to anything",
		Fix: "void the task",
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap("%s: verdicts cannot be computed again", noGold)
			}
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				if a.Judgment == nil || a.Answer == nil {
					return
				}
				at := place{t, a.Number, a.Judged, ""}
				given := a.Answer.Answer
				// Credit by the LLM judge alone is no finding unless there was nothing to judge.
				canonical, gold := bare(given), e.Gold[t.Plan.TaskID]
				credited := a.Judgment.Official || a.Judgment.Judged != nil && *a.Judgment.Judged
				switch {
				case credited && canonical == "":
					n.find(Critical, "empty-credited", at, "credit for an answer of nothing but space and punctuation", "an answer")
				case e.Gold == nil:
				case credited && empty(canonical) && bare(gold) != canonical, a.Judgment.Official && judge.NonFinite(given, gold):
					n.find(Critical, "non-finite-credited", at, "credit for an answer that the scorer takes for no value or no finite number", "an answer")
				}
				if e.Gold != nil && a.Judgment.Official != judge.QuestionScorer(&given, e.Gold[t.Plan.TaskID]) {
					n.find(Critical, "verdict-differs", at, fmt.Sprintf("official verdict %v", a.Judgment.Official), "the verdict that the official scorer gives")
				}
			})
		},
	}
}

// bare is a text without white space, punctuation, symbols and case: what is
// left of it says something.
func bare(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return -1
	}, s))
}

// empty reports words for no value at all.
func empty(bare string) bool {
	switch bare {
	case "none", "null", "nan", "na":
		return true
	}
	return false
}

func coverageDenominator() Check {
	return Check{
		ID: "AUD-11", Name: "coverage-denominator", Severity: Critical, Gate: true,
		Title: "the score is over all planned tasks",
		Why:   "leaving out what failed is the oldest way to a good rate: errors, timeouts and tasks never begun count as wrong",
		Fix:   "count every planned task",
		Run: func(e *Evidence, n *Notes) {
			if len(e.Manifest.Tasks) == 0 {
				n.gap("there is no plan to count by")
				return
			}
			of, seen, correct := map[string]bool{}, map[string]bool{}, 0
			for _, t := range e.Manifest.Tasks {
				of[t.TaskID] = true
			}
			for _, r := range e.Results {
				if seen[r.TaskID] || !of[r.TaskID] {
					n.find(Critical, "coverage-differs", place{}, fmt.Sprintf("a result for %q, which is not planned or stands there twice", r.TaskID), "one result for each planned task")
				}
				seen[r.TaskID] = true
				if r.OfficialCorrect != nil && *r.OfficialCorrect {
					correct++
				}
			}
			if len(seen) != len(of) {
				n.find(Critical, "coverage-differs", place{}, fmt.Sprintf("results for %d tasks", len(seen)), fmt.Sprintf("for the %d planned", len(of)))
			}
			o := e.Summary.Outcomes
			if counted := o.Error + o.Failed + o.Skipped + o.Solved + o.Unscored; counted != len(of) {
				n.find(Critical, "coverage-differs", place{}, fmt.Sprintf("outcomes of %d tasks", counted), fmt.Sprintf("of the %d planned", len(of)))
			}
			if s := e.Summary.Scores; s != nil && (s.Official.Correct != correct || s.Official.Planned != len(of) || s.Judged.Planned != len(of)) {
				n.find(Critical, "headline-differs", place{}, fmt.Sprintf("a headline of %d of %d", s.Official.Correct, s.Official.Planned), fmt.Sprintf("%d of %d", correct, len(of)))
			}
		},
	}
}

func trajectoryIntegrity() Check {
	return Check{
		ID: "AUD-12", Name: "trajectory-integrity", Severity: Critical, Gate: true,
		Title: "the run did what its plan says, and its verdicts follow from its answers",
		Why:   "a plan that another run was made under proves nothing about this one",
		Fix:   "run the plan with the program as it is",
		Run: func(e *Evidence, n *Notes) {
			if e.Marked != "" {
				n.gap("recording failed: %s", e.Marked)
			}
			if e.blind() {
				n.gap("%s: verdicts cannot be computed again", noGold)
			}
			for _, r := range e.Resumed {
				if r.Event.PolicyHash != e.Manifest.PolicyHash || r.Event.GuidanceHash != e.Manifest.GuidanceHash {
					n.find(Critical, "policy-differs", place{seq: r.Seq}, "the run went on under another policy or other rules", "those of the plan")
				}
			}
			planned := map[string]bool{}
			for _, t := range e.Manifest.Tools {
				planned[t.Name] = true
			}
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				calls(e, n, t, a, planned)
				asPlanned(e, n, t, a)
				judged(e, n, t, a)
			})
		},
	}
}

// calls holds an attempt's tool calls against the plan.
func calls(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence, planned map[string]bool) {
	for _, c := range a.Calls {
		if c.Decided >= 0 && (c.Decision.PolicyHash != e.Manifest.PolicyHash || c.Decision.Mode != e.Manifest.PolicyMode) {
			n.find(Critical, "policy-differs", place{t, a.Number, c.Decided, ""}, "a call was decided under another policy", "the policy of the plan")
		}
		if c.Result == nil {
			continue
		}
		at := place{t, a.Number, c.Result.Seq, c.Result.SHA256}
		if c.Proposed < 0 || c.Decided < 0 || c.Decision.Decision != string(policy.Allow) {
			n.find(Critical, "ran-without-decision", at, "a call of "+c.Name+" ran that was not proposed or not allowed", "proposed, allowed, run")
		}
		if !planned[c.Name] {
			n.find(Critical, "tool-not-planned", at, "the tool "+c.Name+" ran", "a tool of the plan")
		}
	}
}

// asPlanned holds an attempt's prompts and models against the plan.
func asPlanned(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	for _, m := range a.Models {
		if m.Requested != e.Manifest.Model.Name {
			n.find(Critical, "model-differs", place{t, a.Number, m.Seq, ""}, fmt.Sprintf("the model %q was asked", m.Requested), fmt.Sprintf("the planned %q", e.Manifest.Model.Name))
		}
	}
	for _, o := range a.Odd {
		if o.Unknown {
			n.gap("the plan's template for messages of source %q is not one that this version knows", o.Source)
			continue
		}
		n.find(Critical, "prompt-differs", place{t, a.Number, o.Seq, o.SHA256}, "a message of source "+o.Source+" is not what the plan's templates give", "the planned template, filled in")
	}
}

// judged holds a judgment against the plan, the answer and itself.
func judged(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	j := a.Judgment
	if j == nil || a.Answer == nil {
		return
	}
	at := place{t, a.Number, a.Judged, ""}
	if e.Gold != nil && j.Official != judge.QuestionScorer(&a.Answer.Answer, e.Gold[t.Plan.TaskID]) {
		n.find(Critical, "verdict-differs", at, fmt.Sprintf("official verdict %v", j.Official), "the verdict that the official scorer gives")
	}
	byModel := j.Path == judge.PathJudge || j.Path == judge.PathUnreadable || j.Path == judge.PathError
	plan := e.Manifest.Judge
	if byModel && (plan == nil || j.Model != plan.Model || j.Prompt != plan.Prompt) {
		n.find(Critical, "judge-differs", at, fmt.Sprintf("judged by %q with %q", j.Model, j.Prompt), "the judge of the plan")
	}
	if !consistent(*j) {
		n.find(Critical, "judged-oddly", at, "verdicts that do not go with the path "+j.Path, "official first, then the judge")
	}
}

// consistent reports whether a judgment can come from the path it names.
func consistent(j trajectory.Judgment) bool {
	asked := j.Tries > 0
	switch j.Path {
	case judge.PathOfficial:
		return j.Official && j.Judged != nil && *j.Judged && !asked
	case judge.PathJudge:
		return !j.Official && j.Judged != nil && asked != j.Cached
	case judge.PathNoAnswer:
		return !j.Official && j.Judged != nil && !*j.Judged && !asked
	case judge.PathUnreadable, judge.PathError:
		return !j.Official && j.Judged == nil && asked
	case judge.PathNoJudge:
		return !j.Official && j.Judged == nil && !asked
	}
	return false
}
