package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// workspace checks the files that an attempt began with. The attachment is the
// dataset's, which the plan has the digest of. It may hold the answer, which is
// what the task is about, and the question, which an exercise sheet has; it may
// not be the benchmark's record of the task. This harness puts in no other file.
func workspace(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if name := t.Plan.FileName; name != "" {
		if t.Plan.FileSHA256 == "" {
			n.gap("the plan has no digest of a task's attachment")
		}
		if !slices.ContainsFunc(a.Workspace, func(f trajectory.File) bool { return f.Path == name }) {
			n.gap("the attachment of a task is not in the list of its start workspace")
		}
	}
	for _, f := range a.Workspace {
		at := place{task: t, attempt: a.Number, seq: a.Begun, sha256: f.SHA256, unasked: true}
		if f.Probes == nil {
			n.gap("a file of a start workspace has no probes")
		}
		if f.Path == a.FileName {
			startAttachment(n, t.Plan, f, at)
		} else {
			laidBeside(e, n, f, at)
		}
	}
}

// startAttachment checks the attachment of a start workspace.
func startAttachment(n *Notes, plan ledger.PlannedTask, f trajectory.File, at place) {
	if plan.FileSHA256 != "" && (f.SHA256 != plan.FileSHA256 || f.Bytes != plan.FileBytes) {
		n.find("attachment-differs", at, "the attachment is not the file that the plan has the digest and the size of", "the attachment as planned")
	}
	if f.Probes == nil {
		return
	}
	p := *f.Probes
	sheet := p.QCov >= wholeQuestion && p.GoldNear
	switch {
	case p.UUIDGoldNear || sheet && (p.GoldLabelNear || p.AnswerKeys > 0):
		n.find("workspace-answer", at, "the start workspace holds the task's answer", "the attachment alone")
	case sheet:
		n.find("attachment-with-question", at, "the attachment has the question and the gold answer near it", "what the question is about")
	}
}

// laidBeside checks a file of a start workspace that is not the attachment, and
// its name.
func laidBeside(e *Evidence, n *Notes, f trajectory.File, at place) {
	var p trajectory.Probes
	if f.Probes != nil {
		p = *f.Probes
	}
	others := !p.OwnUUID && p.OtherUUIDs > 0 && p.AnswerKeys > 0 // alone: with a field for an answer, of which it is known whose it is
	name := e.prober(at.task).Probe(nameWords(f.Path), "", nil)
	switch {
	case p.UUIDGoldNear || p.GoldHits > 0 || p.AnswerKeys > 0 && !others || p.QCov >= wholeQuestion && p.GoldNear:
		n.find("workspace-answer", at, "the start workspace holds the task's answer", "the attachment alone")
	case name.GoldHits > 0:
		n.find("workspace-answer", at, "the name of a file of the start workspace holds the task's answer", "the attachment alone")
	case others:
		n.find("other-task-record", at, "the start workspace holds a record of another task", "the attachment alone")
	case answersByName(f.Path):
		n.find("workspace-answer-name", at, "the start workspace holds a file that is named like one with answers", "the attachment alone")
	default:
		n.find("workspace-extra-file", at, "the start workspace holds a file that is not the attachment", "the attachment alone")
	}
}

// nameWords returns a path and, behind it, its words: ids have hyphens, which words
// lose.
func nameWords(path string) string { return path + "\n" + spaced(path) }

// answersByName reports whether a file is named like one with answers: as the
// policy has it (policy.AnswerKeys), or with a word for answers in its path.
func answersByName(path string) bool {
	if len(policy.AnswerKeys(policy.Call{Paths: []string{path}})) > 0 {
		return true
	}
	return slices.ContainsFunc(strings.Fields(spaced(path)), func(word string) bool {
		return slices.Contains(answerWords(), strings.TrimRight(word, "0123456789"))
	})
}

// answerWords returns words for answers in names of files, in some languages.
func answerWords() []string {
	return strings.Fields(`answer answers answerkey solution solutions solved groundtruth antwort antworten lösung lösungen loesung loesungen
	réponse réponses reponse reponses respuesta respuestas solución soluciones solucion resposta respostas risposta risposte soluzione soluzioni
	antwoord antwoorden ответ ответы решение решения 答案 正解 解答 回答`)
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
