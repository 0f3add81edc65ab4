package audit

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
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
		Fix: "add the address to the denylist and run the task again; void the task in the meantime",
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap("%s: nothing says whether a document that holds the question also holds its answer", noGold)
			}
			if name := e.Manifest.Model.Name; strings.Contains(name, ":online") || strings.Contains(name, "-search-") {
				n.gap("the model %q searches by itself: what it read is not recorded", name)
			}
			e.eachResult(func(t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
				at := place{t, a.Number, c.Result.Seq, c.Result.SHA256}
				if strings.HasPrefix(c.Name, "web_") && c.Result.URLs == 0 && !c.Result.IsError {
					n.gap("a result of %s has no addresses", c.Name)
				}
				if local(c.Name) {
					return
				}
				if c.Result.Probes == nil {
					n.gap("a result of %s that is longer than its head has no probes", c.Name)
					return
				}
				leaked(n, at, c, *c.Result.Probes)
			})
		},
	}
}

// leaked looks at one document that came from outside.
func leaked(n *Notes, at place, c *CallFact, p trajectory.Probes) {
	bearing := p.AnswerKeys > 0 || p.SchemaKeys >= 3 || p.GoldHits > 0
	const want = "a source that does not hold the benchmark's own answers"
	if p.OwnUUID && p.UUIDGoldNear {
		n.find(Critical, "uuid-with-answer", at, "the task's id with an answer beside it, from "+c.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && p.GoldNear {
		n.find(Critical, "question-with-gold", at,
			fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", p.QCovNoEcho, c.Name), want)
	}
	if c.Result.ClassA != "" && bearing && (p.OwnUUID || p.QCov >= someQuestion) {
		n.find(Critical, "class-a-answer", at, "the task in a page of an answer source: "+c.Result.ClassA, want)
	}
	if c.Loads && !c.Result.IsError {
		n.find(Critical, "loader-output", at, "the output of code that names the benchmark's dataset, from "+c.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && !p.GoldNear {
		n.find(ToReview, "question-without-gold", at, fmt.Sprintf("%d of 1000 of the question's text, from %s", p.QCovNoEcho, c.Name), want)
	}
}

func oracleLeakage() Check {
	return Check{
		ID: "AUD-3", Name: "oracle-leakage", Severity: Critical, Gate: true,
		Title: "the agent was told the question and nothing of its answer",
		Why: "a harness that puts the answer, a hint of it or a solved copy of the task into the prompt, the workspace or a tool's " +
			"description measures nothing but whether the model can read",
		Fix: "run the task again with the templates as they are in the plan",
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap(noGold)
			}
			unknownTemplates(e, n)
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				told(n, t, a)
				workspace(e, n, t, a)
			})
			toolDescriptions(e, n)
		},
	}
}

// unknownTemplates: a prompt can be rendered again only from a template whose
// text this program has; what a plan brings along is not executed.
func unknownTemplates(e *Evidence, n *Notes) {
	known := map[string]string{}
	for _, t := range prompt.Templates() {
		known[t.ID] = t.Text
	}
	used := map[string]bool{}
	for _, p := range e.Manifest.Prompts {
		used[p.ID] = true
		if text, ok := known[p.ID]; !ok || text != p.Text {
			n.gap("the template %q is not one that this version knows", p.ID)
		}
	}
	for _, id := range []string{prompt.SystemID, prompt.QuestionID} {
		if !used[id] {
			n.gap("the plan does not name the template %q", id)
		}
	}
}

// told looks at the messages of an attempt.
func told(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if len(a.Models) > 0 && len(a.Prompts) == 0 {
		n.gap("an attempt asked the model without its messages being recorded")
	}
	for _, p := range a.Prompts {
		if p.Messages < 2 {
			n.gap("a request has no system message or no question in its list of messages")
		}
	}
	for _, o := range a.Odd {
		if o.Unknown { // of which unknownTemplates tells
			continue
		}
		if !o.Seen {
			n.gap("a message that is not its template's is not shown whole")
			continue
		}
		if r := o.Residue; r.GoldHits > 0 || r.AnswerKeys > 0 || r.UUIDGoldNear {
			n.find(Critical, "prompt-residue", place{t, a.Number, o.Seq, o.SHA256},
				"besides the question, a message of source "+o.Source+" holds its answer or fields for one", "the template with the question put in")
		}
	}
}

// workspace looks at the files an attempt began with. The attachment is the
// dataset's and may hold the answer, which is what the task is about; it may
// not hold the task.
func workspace(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	for _, f := range a.Workspace {
		if f.Probes == nil {
			n.gap("a file of a start workspace has no probes")
			continue
		}
		p := *f.Probes
		solved := p.UUIDGoldNear || p.QCov >= wholeQuestion && p.GoldNear
		if f.Path != a.FileName {
			solved = solved || p.GoldHits > 0 || p.AnswerKeys > 0
		}
		if solved {
			n.find(Critical, "workspace-answer", place{t, a.Number, a.Begun, f.SHA256}, "the start workspace holds the task's answer", "the attachment alone")
		}
	}
}

// toolDescriptions looks for a task's answer in what every attempt is told of
// the tools. A word of a description that happens to be a gold answer is none.
func toolDescriptions(e *Evidence, n *Notes) {
	var text strings.Builder
	for _, t := range e.Manifest.Tools {
		text.WriteString(t.Name + "\n" + t.Description + "\n")
	}
	for _, t := range e.Tasks {
		if len(t.Attempts) == 0 {
			continue
		}
		p := e.prober(t).Probe(text.String(), "", nil)
		if p.OwnUUID || p.GoldLabelNear || p.QCov >= wholeQuestion && p.GoldNear {
			n.find(Critical, "tool-description-answer", place{t, 0, 0, ""}, "the description of a tool holds the task or its answer", "what the tool does")
		}
	}
}
