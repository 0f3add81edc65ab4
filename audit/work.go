package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
)

func noWorkPass() Check {
	return Check{
		ID: "AUD-2", Name: "no-work-pass", Severity: Critical, Gate: true,
		Title: "every correct answer has a preceding model call",
		Why: "an answer that was there before any model replied was written by whoever made the journal, and one about a file " +
			"that was not opened was known before",
		Fix:   "void the task, or run it again",
		Skips: "the provider reports no usage, or not of every reply, or no arguments are recorded that would show who opened an attachment",
		Rules: []Rule{
			{"no-model-call", Critical, 1, "a correct answer that rests on an attempt without a reply of the model", "a reply of the model"},
			{"no-output-tokens", Critical, 1, "a correct answer that rests on replies of 0 tokens", "tokens"},
			{"answer-without-tokens", High, 1, "a correct answer whose own reply took 0 tokens, unlike others of its attempt", "tokens"},
			{"attachment-unopened", ToReview, 2, "a correct answer to a question about a file that no call opened and no picture showed, where no code and no server's tool ran that could have", "a call that reads it, or a picture that shows it"},
		},
		run: func(e *evidence, n *notes) {
			for _, t := range e.Tasks {
				if !t.credited() {
					continue
				}
				for _, a := range t.Attempts { // of a vote every attempt with an answer counts
					if a == t.counted() || e.Manifest.Voting.Attempts > 1 && a.Answer != nil {
						checkWork(e, n, t, a)
					}
				}
			}
		},
	}
}

// noUsage is the gap of an answer whose tokens are not counted.
const noUsage = "the provider reports no usage, or not of every reply"

// checkWork looks for the work behind an attempt that a correct answer rests on, and for a question about a file
// that was answered without the file.
func checkWork(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence) {
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
	at := t.at(a, max(a.Committed, 0))
	switch {
	case replies == 0:
		n.find("no-model-call", at, "an answer before any reply of the model, which a correct one rests on")
	case out > 0:
		if last := a.lastReply(a.Committed); last.UsageReported && last.Out == 0 {
			at.seq = last.Seq
			n.find("answer-without-tokens", at, "the reply with the answer took 0 tokens, and others took some")
		}
	case reported < replies:
		n.gap(noUsage)
	default:
		n.find("no-output-tokens", at, "an answer from replies of 0 tokens, which a correct one rests on")
	}
	switch {
	case t.Plan.FileName == "" || a.Pictured:
	case e.Manifest.Evidence == plan.EvidenceHashes:
		n.gap("the run records digests alone: nothing says who opened an attachment")
	case !slices.ContainsFunc(a.Calls, func(c *callFact) bool { // a call that failed to read it has not opened it; how far code had run that failed is not known
		return c.Attached && c.Result != nil && !(reads(c.Result.Name) && c.Result.IsError)
	}):
		n.find("attachment-unopened", place{task: t, attempt: a.Number, seq: max(a.Committed, 0), given: true},
			"an answer that counts as correct, and no call that opened the attachment")
	}
}

// attached reports whether a call asks for the attachment, or can: code puts names of files together as it likes,
// and what a server's tool reads is not known.
func attached(c *callFact, file string) bool {
	return file != "" && (runs(c.Name) || strings.HasSuffix("/"+opened(c.Opens), "/"+opened(file)))
}

func attachmentDelivery() Check {
	return Check{
		ID: "AUD-21", Name: "attachment-delivery", Severity: ToReview,
		Title:  "every attempt at a task with an attachment had it",
		Why:    "a question about a file cannot be answered without it: a wrong answer then says nothing about the agent, and a right one came from elsewhere",
		Fix:    "see why the file was not there, and run the task again with it",
		Skips:  "the start workspace of an attempt at such a task is not recorded",
		Absent: "no planned task has an attachment",
		Rules: []Rule{
			{"attachment-missing", ToReview, 1, "an attempt that began without the attachment of its task in the workspace", "the attachment in the workspace"},
			{"attachment-empty", ToReview, 1, "an attempt whose attachment was an empty file", "the attachment as the dataset has it"},
			{"attachment-differs", ToReview, 1, "an attempt whose attachment was another file than that of the first attempt at its task", "the same file in every attempt"},
		},
		run: func(e *evidence, n *notes) {
			if !slices.ContainsFunc(e.Manifest.Tasks, func(p plan.PlannedTask) bool { return p.FileName != "" }) {
				n.absent("no planned task has an attachment")
				return
			}
			for _, t := range e.Tasks {
				if t.Plan.FileName != "" {
					// The digest of the attachment is no gold: the file is part of the question.
					first := ""
					for _, a := range t.Attempts {
						at := place{task: t, attempt: a.Number, seq: a.Begun, given: true}
						if a.Workspace == nil {
							n.gap("a start workspace is not recorded")
							continue
						}
						file, there := a.attachment()
						at.sha256 = file.SHA256
						switch {
						case !there:
							n.find("attachment-missing", at, "the attempt began without the attachment")
						case file.Bytes == 0:
							n.find("attachment-empty", at, "the attachment was an empty file")
						case first != "" && file.SHA256 != first:
							n.find("attachment-differs", at, "the attachment was another file than before")
						}
						if first == "" && file.Bytes > 0 {
							first = file.SHA256
						}
					}
				}
			}
		},
	}
}
