package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
)

var noWorkPass = Check{
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
		e.eachTask(func(t *taskEvidence) {
			if !t.credited() {
				return
			}
			for _, a := range t.Attempts { // of a vote every attempt with an answer counts
				if a.Number == t.Result.Attempt || e.Manifest.Voting.Attempts > 1 && a.Answer != nil {
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
						if last := a.lastReply(a.Committed); e.Manifest.Agent == nil && last.UsageReported && last.Out == 0 { // which of an own agent's replies gave the answer is not known
							at.seq = last.Seq
							n.find("answer-without-tokens", at, "the reply with the answer took 0 tokens, and others took some")
						}
					case reported < replies:
						n.gap(noUsage)
					default:
						n.find("no-output-tokens", at, "an answer from replies of 0 tokens, which a correct one rests on")
					}
					switch {
					case t.Plan.FileName == "" || a.Pictured || e.Manifest.Agent != nil: // an own agent can open it itself
					case e.Manifest.Evidence == plan.EvidenceHashes:
						n.gap("the run records digests alone: nothing says who opened an attachment")
					case !slices.ContainsFunc(a.Calls, func(c *callFact) bool { // a call that failed to read it has not opened it; how far code had run that failed is not known
						return c.Attached && c.Result != nil && !(reads(c.Result.Name) && c.Result.IsError)
					}):
						n.find("attachment-unopened", place{task: t, attempt: a.Number, seq: max(a.Committed, 0), given: true},
							"an answer that counts as correct, and no call that opened the attachment")
					}
				}
			}
		})
	},
}

// noUsage is the gap of an answer whose tokens are not counted.
const noUsage = "the provider reports no usage, or not of every reply"

var attachmentDelivery = Check{
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
		e.eachTask(func(t *taskEvidence) {
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
		})
	},
}

// wholeSplit is the label of a run of all tasks of a split.
const wholeSplit = "all"

var splitIntegrity = Check{
	ID: "AUD-7", Name: "split-integrity", Severity: Critical, Gate: true,
	Title: "the tasks are those of the split the score is claimed for",
	Why: "a score on validation, whose answers are public, or on tasks picked by hand says nothing about the split it is " +
		"labelled with",
	Fix:   "run the split that the label names, from a pinned revision of the dataset",
	Skips: "the plan does not say which split of which revision, or what it consists of, or a message that no template gives is not shown whole",
	Rules: []Rule{
		{"test-with-gold", Critical, 1, "a split labelled test whose source holds answers", "a source without answers"},
		{"test-ids-of-validation", Critical, 1, "a split labelled test with the ids of validation", "the ids of test"},
		{"ids-not-of-split", Critical, 1, "planned tasks, or a list of ids, that are not the split's", "the ids of the split"},
		{"task-in-prompt", Critical, 1, "a template not of this version that holds a planned task", "templates without tasks of the split"},
		{"split-answer-in-prompt", Critical, 2, "a template with the id of a task of the split that the run does not ask, or a message that no template gives with that of another task, and fields for an answer", "what is not of the split"},
		{"unlabelled-subset", High, 2, "fewer tasks than the split has under a label that says all, or all of a level", ""},
		{"level-mix-misreported", High, 1, "tasks of other levels than those that the label or the counts of the split say", ""},
		{"chosen-by-outcome", High, 1, "tasks that were planned because they failed for infrastructure in another run", "a plan of all tasks, or of tasks named before a run"},
		{"unexpected-split-counts", ToReview, 1, "a split with other counts than GAIA's", "the whole split, or a dataset that is not taken for GAIA"},
		{"answers-are-public", Info, 1, "a run of the split validation", "answers of this split are public: the score is not of unseen tasks"},
	},
	run: func(e *evidence, n *notes) {
		d := e.Manifest.Dataset
		whole := place{given: true}
		n.gapIf(d.Split == "" || d.Revision == "", "the plan does not say which split of which revision")
		var own, validation string
		gold := d.CarriedGold || e.scored()
		for _, s := range e.Manifest.Splits {
			if s.Name == d.Split {
				own = s.IDsSHA256
				gold = gold || s.CarriedGold
			}
			if s.Name == "validation" {
				validation = s.IDsSHA256
			}
		}
		n.gapIf(own == "", "the plan does not say what the split consists of")
		n.findIf(d.Split == "test" && gold, "test-with-gold", whole, "a split labelled test whose source holds answers")
		n.findIf(d.Split == "test" && own != "" && own == validation, "test-ids-of-validation", whole, "a split labelled test with the ids of validation")
		if ids, err := plan.IDsDigest(slices.Sorted(slices.Values(e.Manifest.SplitIDs))); own != "" && (err != nil || ids != own) {
			n.find("ids-not-of-split", whole, "a list of the split's ids that is not the one its digest is of")
		}
		if of := d.ErrorsOf; of.RunID != "" {
			n.find("chosen-by-outcome", whole, "the tasks are the errors of run "+of.RunID)
		}
		if m := d.Mismatch(); m != "" {
			n.find("unexpected-split-counts", whole, m)
		}
		checkLevels(e, n)
		of := map[string]bool{}
		for _, id := range e.Manifest.SplitIDs {
			of[id] = true
		}
		e.eachTask(func(t *taskEvidence) {
			n.findIf(!of[t.Plan.TaskID], "ids-not-of-split", place{task: t, given: true}, "a planned task that the split does not have", "a task of the split")
			for _, i := range e.tells(t).templates {
				p := e.Manifest.Prompts[i]
				n.find("task-in-prompt", place{task: t, sha256: p.SHA256, unasked: true}, "the template "+p.ID+" holds a planned task")
			}
			for _, a := range t.Attempts {
				if e.Manifest.Agent == nil && slices.ContainsFunc(a.Odd, func(o oddMessage) bool { return !o.Seen && !o.Unknown }) {
					n.gap("a message that no template gives is not shown whole")
				}
			}
		})
		// Solved tasks of the split in what the agent reads: in templates those that the run does not ask, in messages all others.
		unasked := e.unplanned()
		for _, p := range e.Manifest.Prompts {
			n.findIf(unasked.Records(p.Text), "split-answer-in-prompt", place{sha256: p.SHA256, unasked: true}, "the template "+p.ID+" holds the id of a task of the split and fields for its answer")
		}
		for _, o := range e.Odd {
			if o.Recorded {
				n.find("split-answer-in-prompt", place{task: o.Task, attempt: o.Attempt, seq: o.Seq, sha256: o.SHA256, unasked: true},
					"a message holds the id of another task of the split and fields for its answer")
			}
		}
		n.findIf(d.Split == "validation", "answers-are-public", whole, "split validation")
	},
}

// checkLevels compares the planned tasks with the label that says which they are. Where a label says less than all,
// it is not known which tasks it left out.
func checkLevels(e *evidence, n *notes) {
	d, mix := e.Manifest.Dataset, [4]int{} // by level; at 0 what is none
	for _, t := range e.Manifest.Tasks {
		mix[max(0, min(t.Level, 4)%4)]++
	}
	labelled, only := labelledLevels(d.Selection)
	all := 0
	for i, count := range d.Levels {
		if labelled[i] {
			all += count
		}
	}
	if d.Selection == wholeSplit {
		all = max(all, d.SplitSize, len(e.Manifest.SplitIDs))
	}
	planned := len(e.Manifest.Tasks)
	if only && planned < all {
		n.find("unlabelled-subset", place{given: true}, fmt.Sprintf("%d tasks under a label that says %s", planned, d.Selection),
			fmt.Sprintf("all %d tasks that it says, or the rule that chose them", all))
	}
	for i, count := range d.Levels {
		if got := mix[i+1]; got > 0 && !labelled[i] || got > count {
			n.find("level-mix-misreported", place{given: true}, fmt.Sprintf("%d tasks of level %d under the label %q", got, i+1, d.Selection),
				fmt.Sprintf("tasks as the label says, of a split with %d of that level", count))
		}
	}
}

// labelledLevels returns the levels that a label speaks of, as loader.Filter.Rule writes it, and whether it says
// that all of their tasks are planned. One that names none speaks of all levels.
func labelledLevels(label string) (labelled [3]bool, only bool) {
	named, rest, _ := strings.Cut(label, " ")
	list, ok := strings.CutPrefix(named, "level=")
	if !ok {
		return [3]bool{true, true, true}, label == wholeSplit
	}
	for _, level := range strings.Split(list, ",") {
		if i, err := strconv.Atoi(level); err == nil && i >= 1 && i <= 3 {
			labelled[i-1] = true
		}
	}
	return labelled, rest == ""
}
