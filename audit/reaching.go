package audit

import (
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/policy"
)

const (
	shortResult = 400 // bytes of a result that is little more than an answer
	longGold    = 12  // characters of a gold answer that no list of files holds by chance
	longID      = 20  // letters and digits of an id that nobody guesses
)

// reachedAnswers looks at a call that ran for ways to answers that lie on the host: a walk through all of its files,
// a variable that promises them, and the task's id in code where nothing gave it.
func reachedAnswers(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
	if c.Result == nil {
		return
	}
	at := place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}
	if c.Reach.Walks != "" {
		const want = "the files of the workspace"
		if c.Result.walked(t, a, e.Gold[t.Plan.TaskID]) {
			n.find("filesystem-walk-with-answer", at, "a call of "+c.Name+" that goes through all files of the host gave the answer", want)
		} else {
			n.find("filesystem-walk", at, "a call of "+c.Name+" that goes through all files of the host ran", want)
		}
	}
	const want = "variables that say nothing of answers"
	switch policy.Promises(c.Reach.Answers) {
	case policy.CertainPromise:
		n.find("answer-variable", at, "a call of "+c.Name+" that looks up "+c.Reach.Answers+" ran", want)
	case policy.PerhapsPromise:
		n.find("answer-variable-possible", at, "a call of "+c.Name+" that looks up "+c.Reach.Answers+" ran", want)
	}
	if c.Name == "python" && c.HoldsOwn && !a.knewID(t, c) {
		n.find("task-id-unexplained", at, "a call of "+c.Name+" that names the task's id ran, and nothing had given the id before", "names that the task or a result gave")
	}
}

// walked reports whether the result of a walk through all files holds the task's answer. Where there is an attachment, code may
// have found that and worked on it.
func (r *ResultFact) walked(t *TaskEvidence, a *AttemptEvidence, gold string) bool {
	p := r.Probes
	if p.SchemaKeys >= 3 || p.UUIDGoldNear && !policy.NamesTask(t.Plan.FileName, t.Plan.TaskID) {
		return true
	}
	return len(a.Workspace) == 0 && p.GoldHits > 0 && (r.Short || p.GoldLabelNear || p.AnswerKeys > 0 || utf8.RuneCountInString(gold) >= longGold)
}

// knewID reports whether something may have given the agent the task's id before a call: its question, the name of a
// file, a message or a result. Of what was not looked at whole nobody can say.
func (a *AttemptEvidence) knewID(t *TaskEvidence, c *CallFact) bool {
	id := t.Plan.TaskID
	if len(strings.NewReplacer("-", "", "_", "").Replace(id)) < longID || c.Proposed < 0 || len(a.Odd) > 0 || policy.NamesTask(a.Question+"\n"+a.FileName+"\n"+t.Plan.FileName, id) {
		return true
	}
	for _, f := range a.Workspace {
		if policy.NamesTask(f.Path, id) {
			return true
		}
	}
	for _, p := range a.Prompts {
		if p.Seq < c.Proposed && (p.Overlong || p.Differs) {
			return true
		}
	}
	for _, before := range a.Calls {
		if r := before.Result; r != nil && r.Seq < c.Proposed && (r.Probes.OwnUUID || r.Unprobed || r.Overlong) {
			return true
		}
	}
	return false
}

// givenVariables looks for servers that the plan gives variables whose names promise answers.
func givenVariables(e *Evidence, n *Notes) {
	seen := map[string]bool{}
	for _, tool := range e.Manifest.Tools {
		for _, name := range tool.Env {
			if seen[tool.Server+"\n"+name] {
				continue
			}
			seen[tool.Server+"\n"+name] = true
			rule := map[policy.Promise]string{policy.CertainPromise: "answer-variable-given", policy.PerhapsPromise: "answer-variable-possible"}[policy.Promises(name)]
			if rule != "" {
				n.find(rule, place{given: true}, "the server of the tool "+tool.Name+" is given "+name, "variables that say nothing of answers")
			}
		}
	}
}
