package audit

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of AUD-1: shares of the question, in thousandths.
const (
	wholeQuestion = 700
	someQuestion  = 300
)

func answerLeakage() Check {
	return Check{
		ID: "AUD-1", Name: "answer-leakage", Severity: Critical, Gate: true,
		Title: "no tool brought in the task's own published answer",
		Why: "GAIA's validation answers lie in the open, and agents find them: in copies of the dataset, in traces of other agents, " +
			"in course material. A page with the answer as a fact is honest work; a page with the question and its answer is not.",
		Fix:   "add the address to the denylist and run the task again; void the task in the meantime",
		Skips: "results that are longer than their heads have no probes, no addresses of a page are recorded, the endpoint searched by itself, or something ran outside of the sandbox",
		Rules: []Rule{
			{"uuid-with-answer", Critical, 1, "the task's id with an answer field or the gold answer near it, in what a tool brought in"},
			{"question-with-gold", Critical, 1, "at least 70 % of the question's text with the gold answer near it, not counting what the call itself had said"},
			{"class-a-answer", Critical, 1, "the task in a page of a known source of the benchmark's answers"},
			{"loader-output", Critical, 1, "the output of code or of a server's tool that leads to a source of the benchmark's answers"},
			{"question-without-gold", ToReview, 1, "at least 70 % of the question's text, without the gold answer near it"},
			{"server-unseen", ToReview, 1, "a server asked over HTTP, of which nobody knows what it reads"},
		},
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap("%s: nothing says whether a document that holds the question also holds its answer", noGold)
			}
			unknownProbes(e, n)
			unconfined(e, n)
			elsewhere(e, n)
			if name := e.Manifest.Model.Name; searches(name) {
				n.gap("the model %q searches by itself: what it read is not recorded", name)
			}
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				channels(n, t, a.Channels)
			})
			e.eachResult(func(t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
				unseen(n, c.Result)
				leaked(n, place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}, c, e.Gold[t.Plan.TaskID])
			})
		},
	}
}

// unknownProbes: counts that were made by other rules cannot be read.
func unknownProbes(e *Evidence, n *Notes) {
	hashesOnly(e, n)
	if p := e.Manifest.Probes; p != ProbesID {
		n.gap("the plan's probes are %q, not the %q that this version knows", p, ProbesID)
	}
}

func channels(n *Notes, t *TaskEvidence, names []string) {
	for _, name := range names {
		n.gap("an unrecorded channel in task %s (%s): what the endpoint read by itself is not in the journal", t.Plan.TaskID, name)
	}
}

// unconfined: what runs outside of the sandbox reaches what it likes.
func unconfined(e *Evidence, n *Notes) {
	for _, name := range e.Manifest.Unconfined {
		n.gap("%s ran outside of the sandbox: what it reached is not in the journal", name)
	}
}

// elsewhere: a server that is asked over HTTP reaches what it likes, as a search
// engine does. What it gave is in the journal with its probes.
func elsewhere(e *Evidence, n *Notes) {
	told := map[string]bool{}
	for _, t := range e.Manifest.Tools {
		_, origin, remote := strings.Cut(t.Server, " ")
		if !remote || told[t.Server] {
			continue
		}
		told[t.Server] = true
		n.find("server-unseen", place{given: true}, fmt.Sprintf("what the server at %s reads is not in the journal", origin), "a server whose program runs in the sandbox")
	}
}

// searches reports whether a model is known to search the web by itself.
func searches(model string) bool {
	return slices.ContainsFunc([]string{":online", "-search-", "search-preview", "deep-research", "sonar"}, func(mark string) bool {
		return strings.Contains(strings.ToLower(model), mark)
	})
}

// unseen: not all of what a result brought in can be looked at.
func unseen(n *Notes, r *ResultFact) {
	if strings.HasPrefix(r.Name, "web_") && r.URLs == 0 && !r.IsError {
		n.gap("a result of %s has no addresses", r.Name)
	}
	if r.Unprobed {
		n.gap("a result of %s that is longer than its head has no probes", r.Name)
	}
	if r.Overlong {
		n.gap("a result of %s has a longer head than there can be: only its beginning was looked at", r.Name)
	}
}

// leaked looks at what one call brought in. That of the workspace counts, too:
// the agent cannot have put the task's published answer there by itself.
func leaked(n *Notes, at place, c *CallFact, gold string) {
	p := c.Result.Probes
	// A listing of the workspace has ids in its names, and beside them sizes that can be any number.
	_, number := goldNumeral([]byte(gold))
	sized := c.Result.Name == "list_files" && number && p.AnswerKeys == 0
	bearing := p.AnswerKeys > 0 || p.SchemaKeys >= 3 || p.GoldHits > 0
	const want = "a source that does not hold the benchmark's own answers"
	if p.OwnUUID && p.UUIDGoldNear && !sized {
		n.find("uuid-with-answer", at, "the task's id with an answer beside it, from "+c.Result.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && p.GoldNear {
		n.find("question-with-gold", at,
			fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", p.QCovNoEcho, c.Result.Name), want)
	}
	if c.Result.ClassA != "" && bearing && (p.OwnUUID || p.QCov >= someQuestion) {
		n.find("class-a-answer", at, "the task in a page of an answer source: "+c.Result.ClassA, want)
	}
	if c.Loads {
		n.find("loader-output", at, "the output of what leads to a source of the benchmark's answers, from "+c.Result.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && !p.GoldNear {
		n.find("question-without-gold", at, fmt.Sprintf("%d of 1000 of the question's text, from %s", p.QCovNoEcho, c.Result.Name), want)
	}
}
