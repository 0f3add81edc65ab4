package audit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/trajectory"
)

func benchmarkSeeking() Check {
	return Check{
		ID: "AUD-18", Name: "benchmark-seeking", Severity: High,
		Title: "no query and no address looks for the benchmark",
		Why: "an agent that searches for the benchmark's answers, or for a task by its id, does not work on the task: what it finds is " +
			"where others have put the answer, and a page that no list knows is as good as a known one. The question itself as a query is how many agents begin, and is noted.",
		Fix:        "look at what the search brought in; void the task if it was of use, and let the policy refuse such calls",
		Skips:      "the run records digests alone, or a call's arguments are not recorded whole",
		References: []string{"https://arxiv.org/abs/2508.13180"},
		Rules: []Rule{
			{"answers-searched", High, 3, "a query, an address or what a server's tool is given that asks for this benchmark's answers, and that went out", "a search for what the question is about"},
			{"task-id-searched", High, 3, "a query or an address that holds the id of the task, or of another task of the split, and that went out", "a search for what the question is about"},
			{"task-id-sent", ToReview, 1, "the id of the task, but as the name of its attachment, or of another task of the split, in what else a server or a fetch was given", "a search for what the question is about"},
			{"search-refused", ToReview, 3, "a call that did not run, and whose query or address asks for this benchmark's answers or holds the id of a task of the split", "a search for what the question is about"},
			{"question-as-query", Info, 1, "at least 70 % of the question's text as the query of a search, in the first such search of the task", "words of one's own"},
		},
		run: func(e *evidence, n *notes) {
			hashesOnly(e, n)
			for _, t := range e.Tasks {
				asked := false
				for _, a := range t.Attempts {
					for _, c := range a.Calls {
						checkSearch(n, t, a, c)
						if !asked && c.Result != nil && c.Verbatim >= probe.WholeQuestion {
							asked = true
							n.find("question-as-query", t.at(a, c.Proposed),
								fmt.Sprintf("%d of 1000 of the question's text as a query", c.Verbatim))
						}
					}
				}
			}
		},
	}
}

// checkSearch looks at what one call asked others for.
func checkSearch(n *notes, t *taskEvidence, a *attemptEvidence, c *callFact) {
	at := t.at(a, c.Proposed)
	ids := c.AsksIDs
	if c.AsksOwn {
		ids++
	}
	switch {
	case c.Proposed < 0:
		return // nothing tells what it asked for: AUD-12
	case c.Result == nil && (c.Seeks || ids > 0):
		n.find("search-refused", at, "a call of "+c.Name+" that looks for the benchmark did not run")
	case c.Result == nil:
	case c.Seeks:
		n.find("answers-searched", at, "a call of "+c.Name+" that asks for the benchmark's answers ran")
	case c.AsksOwn:
		n.find("task-id-searched", at, "a call of "+c.Name+" that names the task's id ran")
	case ids > 0:
		n.find("task-id-searched", at, fmt.Sprintf("a call of %s that names %d other tasks of the split by their ids ran", c.Name, ids))
	case c.TellsOwn:
		n.find("task-id-sent", at, "a call of "+c.Name+" that hands on the task's id ran")
	case c.TellsIDs > 0:
		n.find("task-id-sent", at, fmt.Sprintf("a call of %s that hands on the ids of %d other tasks of the split ran", c.Name, c.TellsIDs))
	}
	n.gapIf(thirdParty(c.Name) && (c.Unread || c.Cut && c.Decided < 0), "the arguments of a call of %s are not recorded whole: what else it asks for is not known", c.Name)
}

func answerKeyReads() Check {
	return Check{
		ID: "AUD-8", Name: "answer-key-reads", Severity: High,
		Title: "no tool read a key of answers",
		Why: "a file of answers that lies within reach of the agent's tools decides the score without a word on the web: one that a " +
			"grader left beside the workspace, or a copy of the dataset. The task's own attachment may be called anything, and so may what the agent writes.",
		Fix:   "find out how the file came to be there, take it away, and run the task again; void it in the meantime",
		Skips: "the run records digests alone, or a call's arguments are not recorded whole",
		Rules: []Rule{
			{"answer-key-read", High, 2, "a call that ran and opens a file named like a key of answers that is not the attachment, a member of it, nor of the agent's own making", "a file of the task, or of the agent's own making"},
			{"answer-key-origin-unknown", ToReview, 2, "a call that ran and names a file like a key of answers that may be of the agent's own making: a server's in an unknown folder, or one among the temporary files of the host", "a file of the task, or of the agent's own making"},
			{"answer-key-refused", ToReview, 2, "a call that opens a file named like a key of answers and did not run, or read nothing: the file is outside of what the tool can reach", "a file of the task, or of the agent's own making"},
		},
		run: func(e *evidence, n *notes) {
			hashesOnly(e, n)
			e.each(func(t *taskEvidence, a *attemptEvidence) {
				for _, c := range a.Calls {
					checkKeyFiles(e, n, t, a, c)
				}
			})
		},
	}
}

// checkKeyFiles looks at the first file of a call that is named like a key of answers and that the agent has no
// business with.
func checkKeyFiles(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence, c *callFact) {
	n.gapIf(c.Cut && !thirdParty(c.Name) && c.Name != "calculate" || c.Cut && !builtin(c.Name), "the arguments of a call of %s are not recorded whole: what else it opens is not known", c.Name)
	at := t.at(a, c.Proposed)
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
			n.find("answer-key-read", at, "a call of "+c.Name+" that opens "+base+" ran")
			return
		}
	}
	n.findIf(rule != "", rule, at, got)
}

// lying is where a file lies that a call names.
type lying int

const (
	ofTask  lying = iota // the attachment, or a member of it
	scratch              // where code writes what it needs for a while: a sandbox has a separate folder there
	nowhere              // not among the files that the attempt began with: made since, if it is there at all
	laid                 // beside the attachment, from the beginning
	outside              // of the workspace, where a sandbox has no such file
)

// lies returns where a file lies.
func (a *attemptEvidence) lies(name string) lying {
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
