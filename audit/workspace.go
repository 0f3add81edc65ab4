package audit

import (
	"slices"

	"github.com/gaia-harness/gaia/trajectory"
)

// workspace looks at the files an attempt began with. The attachment is the
// dataset's and may hold the answer, which is what the task is about, and the
// question, which is what an exercise sheet has; it may not be the benchmark's
// record of the task.
func workspace(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if name := t.Plan.FileName; name != "" && !slices.ContainsFunc(a.Workspace, func(f trajectory.File) bool { return f.Path == name }) {
		n.gap("the attachment of a task is not in the list of its start workspace")
	}
	for _, f := range a.Workspace {
		if f.Probes == nil {
			n.gap("a file of a start workspace has no probes")
			continue
		}
		p := *f.Probes
		solved, sheet := p.UUIDGoldNear, p.QCov >= wholeQuestion && p.GoldNear
		others := false // alone: with a field for an answer, of which it is known whose it is
		if f.Path != a.FileName {
			others = !p.OwnUUID && p.OtherUUIDs > 0 && p.AnswerKeys > 0
			solved = solved || p.GoldHits > 0 || p.AnswerKeys > 0 && !others
		} else if sheet && (p.GoldLabelNear || p.AnswerKeys > 0) {
			solved = true
		}
		at := place{task: t, attempt: a.Number, seq: a.Begun, sha256: f.SHA256, unasked: true}
		switch {
		case solved:
			n.find("workspace-answer", at, "the start workspace holds the task's answer", "the attachment alone")
		case others:
			n.find("other-record", at, "the start workspace holds a record of another task", "the attachment alone")
		case sheet:
			n.find("attachment-with-question", at, "the attachment has the question and the gold answer near it", "what the question is about")
		}
	}
}

// filesOpened: with tools that make no files, what the tools can read lay in the
// workspace when the attempt began.
func filesOpened(n *Notes, a *AttemptEvidence) {
	files := map[string]bool{}
	for _, f := range a.Workspace {
		files[opened(f.Path)] = true
	}
	for _, c := range a.Calls {
		if c.Result != nil && reads(c.Result.Name) && !c.Result.IsError && !files[opened(c.Opens)] {
			n.gap("%s gave a file that is not in the list of the start workspace", c.Result.Name)
		}
	}
}
