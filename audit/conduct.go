package audit

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

func noWorkPass() Check {
	return Check{
		ID: "AUD-2", Name: "no-work-pass", Severity: Critical, Gate: true,
		Title: "every correct answer came from a model that was asked",
		Why:   "an answer that was there before any model said a word was written by whoever made the journal",
		Fix:   "void the task, or run it again",
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
		n.find(Critical, "no-model-call", at, "an answer before any reply of the model, which a correct one rests on", "a reply of the model")
	case out > 0:
	case reported < replies:
		n.gap(noUsage)
	default:
		n.find(Critical, "no-output-tokens", at, "an answer from replies of 0 tokens, which a correct one rests on", "tokens")
	}
}

func graderIsolation() Check {
	return Check{
		ID: "AUD-4", Name: "grader-isolation", Severity: Critical, Gate: true,
		Title: "nothing reached for the grader, its records or its cache",
		Why: "an agent or an operator who can write a verdict, read the answers beside the run or load code into the grader " +
			"decides the score",
		Fix: "find out who changed the judge cache or touched the records, remove the bad entries, and start a new run",
		Run: func(e *Evidence, n *Notes) {
			hashesOnly(e, n)
			unconfined(e, n)
			judgeCache(e, n)
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				for _, c := range a.Calls {
					reached(n, t, a, c)
				}
			})
		},
	}
}

// reached looks at what one call named. A call that ran counts also if it
// failed: it can have read or changed something all the same.
func reached(n *Notes, t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
	if c.Result == nil {
		at := place{task: t, attempt: a.Number, seq: c.Proposed}
		switch {
		case c.Proposed < 0:
		case c.broke(policy.GraderSurfaces):
			n.find(ToReview, "refused-reach", at, "a call of "+c.Name+" that names the run's own records was refused", "no such call")
		case c.broke(policy.Secrets), c.broke(policy.Commands), c.broke(policy.Packages):
			n.find(ToReview, "refused-reach", at, "a call of "+c.Name+" that reaches for keys, the host or the benchmark was refused", "no such call")
		}
		return
	}
	at := place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}
	if c.broke(policy.GraderSurfaces) {
		n.find(Critical, "grader-surface", at, "a call of "+c.Name+" that names the run's own records or verdicts ran", "a call that the Gate refuses")
	}
	if c.broke(policy.Secrets) || c.broke(policy.Commands) {
		n.find(High, "host-reach", at, "a call of "+c.Name+" that reaches for keys or the host ran", "a call that the Gate refuses")
	}
	if c.Answers {
		n.find(Critical, "answer-file", at, "a call of "+c.Name+" that reads a file of the benchmark's answers ran", "a call that the Gate refuses")
	}
	if c.Hooks != "" {
		n.find(Critical, "host-hook", at, "a call of "+c.Name+" with "+c.Hooks+" ran", "code that stays in its own process")
	}
	if c.Cut && c.Decided < 0 {
		n.gap("a call's arguments are cut and no rules were recorded as having seen them whole")
	}
}

func judgeCache(e *Evidence, n *Notes) {
	swept := false
	for _, c := range e.Cache {
		swept = swept || c.Event.Kind == trajectory.JudgeCacheSweep
		if c.Event.Bad == 0 {
			continue
		}
		got := fmt.Sprintf("%d of %d entries of the judge cache do not verify", c.Event.Bad, c.Event.Checked)
		if first := c.Event.Entries; len(first) > 0 && first[0].Name == judgecache.Place {
			got = "the judge cache was " + first[0].Reason
		} else if len(first) > 0 {
			got += fmt.Sprintf("; the first is %s: %s", first[0].Name, first[0].Reason)
		}
		n.find(Critical, "judge-cache-integrity", place{seq: c.Seq, unused: true}, got, "0 judge_cache_integrity_events")
	}
	if j := e.Manifest.Judge; j != nil && j.Cache && (!swept || e.Unswept) {
		n.gap("the judge cache was used without being checked first by the process that used it: judge_cache_integrity_events does not count all")
	}
}

func votingDisclosure() Check {
	return Check{
		ID: "AUD-6", Name: "voting-disclosure", Severity: Critical, Gate: true,
		Title: "no attempt was made with a verdict in view",
		Why:   "whoever sees a grade and may try again is scored by patience; best of many is not one attempt",
		Fix:   "declare voting in the plan and grade once all answers are committed",
		Run: func(e *Evidence, n *Notes) {
			switch v := e.Manifest.Voting; {
			case v.Attempts < 1 || v.Rule == "":
				n.gap("the plan does not declare how many answers are gathered and how one is chosen")
			case v.Attempts == 1 && v.Rule == ledger.VoteFirst, v.Attempts > 1 && v.Rule == ledger.VoteMajority:
			default:
				n.gap("the answer is chosen from %d by the rule %q, which this version does not know", v.Attempts, v.Rule)
			}
			for _, r := range e.Resumed {
				got := fmt.Sprintf("the run was interrupted after %d events and taken up again", r.Event.Events)
				if r.Event.Torn != nil {
					got += fmt.Sprintf("; an unfinished last line of %d bytes was cut", r.Event.Torn.Bytes)
				}
				n.find(Info, "interrupted", place{seq: r.Seq}, got, "for the record")
			}
			firstJudged := int64(-1)
			for _, t := range e.Tasks {
				if a := t.firstGraded(); a != nil && (firstJudged < 0 || a.Judged < firstJudged) {
					firstJudged = a.Judged
				}
			}
			for _, t := range e.Tasks {
				declared(e, n, t)
				ungraded(e, n, t, firstJudged)
			}
		},
	}
}

// declared holds the answers of a task against how many the plan declares.
// Fewer attempts can be had where failures or a budget end them.
func declared(e *Evidence, n *Notes, t *TaskEvidence) {
	answers, settled, most := 0, 0, max(e.Manifest.Voting.Attempts, 1)
	for _, a := range t.Attempts {
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			settled++
		}
		if a.Answer == nil {
			continue
		}
		if answers++; answers == most+1 {
			n.find(ToReview, "more-answers-than-declared", place{task: t, attempt: a.Number, seq: a.Committed}, fmt.Sprintf("answer %d of the task", answers), fmt.Sprintf("at most %d", most))
		}
	}
	if most > 1 && settled < most && len(t.Attempts) > 0 {
		n.find(Info, "fewer-answers-than-declared", place{task: t}, fmt.Sprintf("%d attempts that came to an end", settled), fmt.Sprintf("the %d that the plan declares", most))
	}
}

// ungraded looks for attempts and answers that came after a verdict: on the task,
// or on the first of all in a run that is to be submitted.
func ungraded(e *Evidence, n *Notes, t *TaskEvidence, firstJudged int64) {
	graded := t.firstGraded()
	for _, a := range t.Attempts {
		at := place{task: t, attempt: a.Number, seq: a.Begun}
		if graded != nil && graded.Judged < a.Begun {
			n.find(Critical, "judgment-before-attempt", at, fmt.Sprintf("attempt %d began after attempt %d was graded", a.Number, graded.Number), "all attempts before the first grade")
		}
		if e.Manifest.SubmitIntent && firstJudged >= 0 && firstJudged < a.Begun {
			n.find(Critical, "attempt-after-grading", at, "an attempt began after grading had begun", "all answers committed before the first is graded")
		} else if e.Manifest.SubmitIntent && firstJudged >= 0 && firstJudged < a.Committed {
			at.seq = a.Committed
			n.find(Critical, "answer-after-grading", at, "an answer was committed after grading had begun", "all answers committed before the first is graded")
		}
	}
}

// firstGraded returns the attempt that was graded first, nil if none was.
func (t *TaskEvidence) firstGraded() *AttemptEvidence {
	var first *AttemptEvidence
	for _, a := range t.Attempts {
		if a.Judged >= 0 && (first == nil || a.Judged < first.Judged) {
			first = a
		}
	}
	return first
}

// wholeSplit is the label of a run of all tasks of a split.
const wholeSplit = "all"

func splitIntegrity() Check {
	return Check{
		ID: "AUD-7", Name: "split-integrity", Severity: Critical, Gate: true,
		Title: "the tasks are those of the split the score is claimed for",
		Why: "a score on validation, whose answers are public, or on tasks picked by hand says nothing about the split it is " +
			"labelled with",
		Fix: "run the split that the label names, from a pinned revision of the dataset",
		Run: func(e *Evidence, n *Notes) {
			d := e.Manifest.Dataset
			whole := place{}
			if d.Split == "" || d.Revision == "" {
				n.gap("the plan does not say which split of which revision")
			}
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
			if own == "" {
				n.gap("the plan does not say what the split consists of")
			}
			if d.Split == "test" && gold {
				n.find(Critical, "test-with-gold", whole, "a split labelled test whose source holds answers", "a source without answers")
			}
			if d.Split == "test" && own != "" && own == validation {
				n.find(Critical, "test-ids-of-validation", whole, "a split labelled test with the ids of validation", "the ids of test")
			}
			if ids, err := ledger.IDsDigest(slices.Sorted(slices.Values(e.Manifest.SplitIDs))); own != "" && (err != nil || ids != own) {
				n.find(Critical, "ids-not-of-split", whole, "a list of the split's ids that is not the one its digest is of", "the ids of the split")
			}
			if planned, all := len(e.Manifest.Tasks), max(d.SplitSize, len(e.Manifest.SplitIDs)); d.Selection == wholeSplit && planned < all {
				n.find(High, "unlabelled-subset", whole, fmt.Sprintf("%d tasks under a label that says all", planned), fmt.Sprintf("all %d tasks of the split, or the rule that chose them", all))
			}
			if m := d.Mismatch(); m != "" {
				n.find(ToReview, "other-counts", place{given: true}, m, "the whole split, or a dataset that is not taken for GAIA")
			}
			of := map[string]bool{}
			for _, id := range e.Manifest.SplitIDs {
				of[id] = true
			}
			for _, t := range e.Tasks {
				if !of[t.Plan.TaskID] {
					n.find(Critical, "ids-not-of-split", place{task: t}, "a planned task that the split does not have", "a task of the split")
				}
				prober := e.prober(t)
				for _, p := range e.Manifest.Prompts {
					if named := prober.Probe(p.Text, "", nil); named.OwnUUID || named.QCov >= wholeQuestion {
						n.find(Critical, "task-in-prompt", place{task: t, sha256: p.SHA256}, "the template "+p.ID+" holds a planned task", "templates without tasks of the split")
					}
				}
			}
			if d.Split == "validation" {
				n.find(Info, "answers-are-public", whole, "split validation", "answers of this split are public: the score is not of unseen tasks")
			}
		},
	}
}
