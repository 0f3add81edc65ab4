package audit

import (
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/prompt"
)

func oracleLeakage() Check {
	return Check{
		ID: "AUD-3", Name: "oracle-leakage", Severity: Critical, Gate: true,
		Title: "the agent was told the question and nothing of its answer",
		Why: "a harness that puts the answer, a hint of it or a solved copy of the task into the prompt, the workspace or a tool's " +
			"description measures nothing but whether the model can read",
		Fix: "run the task again with the templates as they are in the plan",
		Skips: "the gold answers are not at hand, the run records digests alone or probes of another version, templates, requests, the question, digests of messages or the start workspace are not recorded " +
			"or not in a form that this version knows, a request lists no more messages than the one before it or has a longer head than heads are, messages that no template gives are not shown whole " +
			"or too many, the plan has no digest of an attachment, a tool gave a file that did not lie there at the start, or a tool is neither one of this version nor a server's, or the tools say more of themselves than is looked through",
		Rules: []Rule{
			{"prompt-residue", Critical, 2, "a message that holds, besides the question and the templates, the answer or fields for one"},
			{"workspace-answer", Critical, 3, "a start workspace with the task's answer in a file that is not the attachment, or in its name, or with the question, or its id, and its answer so called in the attachment"},
			{"attachment-differs", Critical, 1, "an attachment with another digest or size than the plan has of it"},
			{"question-with-answer", Critical, 1, "a planned question that states its answer, such as \"the expected answer is …\""},
			{"template-with-answer", Critical, 1, "a template not of this version with a task, or what it asks about, and its answer, or with the stated answers of three tasks"},
			{"tool-description-answer", Critical, 2, "the task or its answer in what a tool says of itself that is not one of this version as it is"},
			{"tool-schema-answer", Critical, 1, "the parameters of a server's tool with the task or its answer"},
			{"other-task-with-answer", High, 2, "a message that holds, besides the question and the templates, another task of the run with its answer"},
			{"other-task-record", High, 1, "a start workspace or a server's tool with the id of another task of the split and fields for an answer"},
			{"workspace-answer-name", High, 1, "a file of a start workspace that is not the attachment, and is named like one with answers"},
			{"tool-promises-answers", High, 1, "a server's tool that says it gives reference answers for tasks, or answers of the benchmark"},
			{"short-answer", ToReview, 2, "a message that holds, besides the question and the templates, an answer of less than 4 characters without a label"},
			{"attachment-with-question", ToReview, 1, "an attachment with the question, and the gold answer near it"},
			{"workspace-extra-file", ToReview, 1, "a file of a start workspace that is not the attachment"},
			{"question-with-answer-word", ToReview, 1, "a planned question with its answer behind a word for answers, under a condition, as an example or in a list"},
			{"template-with-answer-word", ToReview, 1, "a template not of this version with a stated answer, or with three long ones"},
			{"tool-promises-solutions", ToReview, 1, "a server's tool that says it gives reference answers or solutions, of whatever"},
			{"run-records-mentioned", ToReview, 1, "a message, a template or a server's tool that names the run's own records or a judge cache"},
			{"tool-schema-word", ToReview, 1, "the parameters of a server's tool with a word of the answer"},
			{"picture-scaled", Info, 1, "a picture that is not the attachment byte for byte"},
		},
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap(noGold)
			}
			unknownProbes(e, n)
			unknownTemplates(e, n)
			made := slices.ContainsFunc(e.Manifest.Tools, func(t ledger.ToolPlan) bool { return runs(t.Name) })
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				told(n, t, a)
				workspace(e, n, t, a)
				if !made && e.Manifest.Evidence != ledger.EvidenceHashes { // another tool may have made files
					filesOpened(n, a)
				}
			})
			for _, t := range e.Tasks {
				questionStates(e, n, t)
			}
			for _, p := range e.Manifest.Prompts {
				templateStates(e, n, p)
			}
			otherPairs(e, n)
			toolDescriptions(e, n)
			recordsNamed(e, n)
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

// told looks at what an attempt's model was told.
func told(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if slices.ContainsFunc(a.Models, func(m ModelFact) bool { return !m.Prompted }) {
		n.gap("a reply of the model without the request that it answers")
	}
	for _, p := range a.Prompts {
		if p.Messages < 2 {
			n.gap("a request has no system message or no question in its list of messages")
		}
		if p.Stale {
			n.gap("a request lists no more messages than the one before it: what the model said last is not among them")
		}
		if p.Scaled {
			n.find("picture-scaled", place{task: t, attempt: a.Number, seq: p.Seq}, "the question came with a picture that is not the attachment byte for byte", "for the record: that it was made from the attachment is the signer's word")
		}
		if p.Overlong {
			n.gap("a request has a longer head than there can be: only its beginning was looked at")
		}
	}
	for _, o := range a.Odd {
		if o.Unknown { // of which unknownTemplates tells
			continue
		}
		if !o.Seen {
			n.gap("a message that is not its template's is not shown whole")
		}
		at, want := place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256, unasked: true}, "the template with the question put in"
		switch r := o.Residue; {
		case r.GoldHits > 0 || r.AnswerKeys > 0 || r.UUIDGoldNear:
			n.find("prompt-residue", at, "besides the question, a message of source "+o.Source+" holds its answer or fields for one", want)
		case o.Short:
			n.find("short-answer", at, "besides the question, a message of source "+o.Source+" holds the few characters of its answer", want)
		}
		if o.Records {
			n.find("run-records-mentioned", at, "a message of source "+o.Source+" names the run's own records or verdicts", want)
		}
	}
	for _, c := range a.Calls {
		if c.Told {
			n.find("prompt-residue", place{task: t, attempt: a.Number, seq: c.Decided, unasked: true},
				"a refusal tells the answer or fields for one, which the call that it refuses does not", "why the call was refused")
		}
	}
}
