package audit

import (
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

func answerKeyReads() Check {
	return Check{
		ID: "AUD-8", Name: "answer-key-reads", Severity: High,
		Title: "no tool read a key of answers",
		Why: "a file of answers that lies within reach of the agent's tools decides the score without a word on the web: one that a " +
			"grader left beside the workspace, or a copy of the dataset. The task's own attachment may be called anything, and so may what the agent writes.",
		Fix:   "find out how the file came to be there, take it away, and run the task again; void it in the meantime",
		Skips: "the run records digests alone, or a call's arguments are not recorded whole",
		Rules: []Rule{
			{"answer-key-read", High, 2, "a call that ran and opens a file named like a key of answers that is not the attachment, a member of it, nor of the agent's own making"},
			{"answer-key-origin-unknown", ToReview, 2, "a call that ran and names a file like a key of answers that may be of the agent's own making: a server's in a folder that nobody knows, or one among the temporary files of the host"},
			{"answer-key-refused", ToReview, 2, "a call that opens a file named like a key of answers and did not run, or read nothing: the file is outside of what the tool can reach"},
		},
		Run: func(e *Evidence, n *Notes) {
			hashesOnly(e, n)
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				for _, c := range a.Calls {
					keyRead(e, n, t, a, c)
				}
			})
		},
	}
}

// keyRead looks at the first file of a call that is named like a key of answers
// and that the agent has no business with.
func keyRead(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
	if c.Cut && !thirdParty(c.Name) && c.Name != "calculate" || c.Cut && !builtin(c.Name) {
		n.gap("the arguments of a call of %s are not recorded whole: what else it opens is not known", c.Name)
	}
	const want = "a file of the task, or of the agent's own making"
	at := place{task: t, attempt: a.Number, seq: c.Proposed}
	if c.Result != nil {
		at.seq, at.sha256 = c.Result.Seq, c.Result.SHA256
	}
	rule, got := "", ""
	confined := c.Name == "python" && !slices.Contains(e.Manifest.Unconfined, c.Name)
	for _, name := range c.Keys {
		lies := a.lies(name)
		switch base := path.Base(opened(name)); {
		case lies == ofTask, lies == nowhere && builtin(c.Name), lies == scratch && builtin(c.Name) && (confined || c.Name != "python"):
		case c.Result == nil:
			rule, got = "answer-key-refused", "a call of "+c.Name+" that opens "+base+" did not run"
		case lies == nowhere, lies == scratch:
			if rule == "" {
				rule, got = "answer-key-origin-unknown", "a call of "+c.Name+" names "+base
			}
		case reads(c.Name) && c.Result.IsError, confined && lies == outside:
			rule, got = "answer-key-refused", "a call of "+c.Name+" that opens "+base+" read nothing"
		default:
			n.find("answer-key-read", at, "a call of "+c.Name+" that opens "+base+" ran", want)
			return
		}
	}
	if rule != "" {
		n.find(rule, at, got, want)
	}
}

// lying is where a file lies that a call names.
type lying int

const (
	ofTask  lying = iota // the attachment, or a member of it
	scratch              // where code writes what it needs for a while: a sandbox has a folder of its own there
	nowhere              // not among the files that the attempt began with: made since, if it is there at all
	laid                 // beside the attachment, from the beginning
	outside              // of the workspace, where a sandbox has no such file
)

// lies returns where a file lies.
func (a *AttemptEvidence) lies(name string) lying {
	name = opened(strings.TrimPrefix(strings.ToLower(name), "file://"))
	name = strings.TrimPrefix(name, "/workspace/")
	attachment := opened(a.FileName)
	if a.FileName != "" && (name == attachment || strings.HasPrefix(name, attachment+"/")) {
		return ofTask
	}
	for _, folder := range []string{"/tmp/", "/var/tmp/", "/dev/shm/"} {
		if strings.HasPrefix(name, folder) {
			return scratch
		}
	}
	drive := len(name) > 1 && name[1] == ':'
	switch {
	case slices.ContainsFunc(a.Workspace, func(f trajectory.File) bool { return opened(f.Path) == name }):
		return laid
	case drive, strings.HasPrefix(name, "/"), strings.HasPrefix(name, "~"), strings.HasPrefix(name, "../"):
		return outside
	}
	return nowhere
}
