package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
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
			{"answers-searched", High, 3, "a query, an address or what a server's tool is given that asks for this benchmark's answers, and that went out"},
			{"task-id-searched", High, 3, "a query or an address that holds the id of the task, or of another task of the split, and that went out"},
			{"task-id-sent", ToReview, 1, "the id of the task, but as the name of its attachment, or of another task of the split, in what else a server or a fetch was given"},
			{"search-refused", ToReview, 3, "a call that did not run, and whose query or address asks for this benchmark's answers or holds the id of a task of the split"},
			{"question-as-query", Info, 1, "at least 70 % of the question's text as the query of a search, in the first such search of the task"},
		},
		Run: func(e *Evidence, n *Notes) {
			hashesOnly(e, n)
			for _, t := range e.Tasks {
				asked := false
				for _, a := range t.Attempts {
					for _, c := range a.Calls {
						sought(n, t, a, c)
						if !asked && c.Result != nil && c.Verbatim >= wholeQuestion {
							asked = true
							n.find("question-as-query", place{task: t, attempt: a.Number, seq: c.Proposed},
								fmt.Sprintf("%d of 1000 of the question's text as a query", c.Verbatim), "words of one's own")
						}
					}
				}
			}
		},
	}
}

// sought looks at what one call asked others for.
func sought(n *Notes, t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
	at := place{task: t, attempt: a.Number, seq: c.Proposed}
	ids := c.AsksIDs
	if c.AsksOwn {
		ids++
	}
	const want = "a search for what the question is about"
	switch {
	case c.Proposed < 0:
		return // nothing tells what it asked for: AUD-12
	case c.Result == nil && (c.Seeks || ids > 0):
		n.find("search-refused", at, "a call of "+c.Name+" that looks for the benchmark did not run", want)
	case c.Result == nil:
	case c.Seeks:
		n.find("answers-searched", at, "a call of "+c.Name+" that asks for the benchmark's answers ran", want)
	case c.AsksOwn:
		n.find("task-id-searched", at, "a call of "+c.Name+" that names the task's id ran", want)
	case ids > 0:
		n.find("task-id-searched", at, fmt.Sprintf("a call of %s that names %d other tasks of the split by their ids ran", c.Name, ids), want)
	case c.TellsOwn:
		n.find("task-id-sent", at, "a call of "+c.Name+" that hands on the task's id ran", want)
	case c.TellsIDs > 0:
		n.find("task-id-sent", at, fmt.Sprintf("a call of %s that hands on the ids of %d other tasks of the split ran", c.Name, c.TellsIDs), want)
	}
	if thirdParty(c.Name) && (c.Unread || c.Cut && c.Decided < 0) {
		n.gap("the arguments of a call of %s are not recorded whole: what else it asks for is not known", c.Name)
	}
}

// seek notes what a call that is proposed asks others for.
func (t *following) seek(c *CallFact) {
	for _, text := range c.asks.Searched() {
		known := slices.Contains(c.asks.URLs, text) && policy.Classify(text) == policy.ClassA // AUD-1 tells of it
		c.Seeks = c.Seeks || !known && policy.Seeks(text)
	}
	for _, text := range c.asks.Asked() {
		c.AsksOwn = c.AsksOwn || policy.NamesTask(text, t.Plan.TaskID)
		c.AsksIDs = max(c.AsksIDs, t.otherIDs(text))
	}
	c.HoldsOwn, c.HoldsIDs = policy.NamesTask(c.text, t.Plan.TaskID), t.otherIDs(c.text)
	named := policy.NamesTask(t.Plan.FileName, t.Plan.TaskID)
	for _, text := range c.asks.Told() {
		c.TellsOwn = c.TellsOwn || !named && policy.NamesTask(text, t.Plan.TaskID)
		c.TellsIDs = max(c.TellsIDs, t.otherIDs(text))
	}
	if c.Name == "web_search" {
		c.Verbatim = t.prober.Probe(strings.Join(c.asks.Texts, "\n"), "", nil).QCov
	}
	c.Keys = policy.AnswerKeys(c.asks)
}

// otherIDs returns how many other tasks of the split a text names, with its
// encoding undone up to three times.
func (t *following) otherIDs(text string) (most int) {
	for range 4 {
		most = max(most, t.prober.ids.find(canonicalText(text)).others)
		decoded := percentDecoded(text)
		if decoded == text {
			break
		}
		text = decoded
	}
	return most
}
