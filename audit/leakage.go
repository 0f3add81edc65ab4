package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

// Bounds of AUD-1: shares of the question, in thousandths.
const (
	wholeQuestion = 700
	someQuestion  = 300
)

func answerLeakage() Check {
	return Check{
		ID: "AUD-1", Name: "answer-leakage", Severity: Critical, Gate: true,
		Title: "no tool brought in the task's own published answer",
		Why: "GAIA's validation answers lie in the open, and agents find them: in copies of the dataset, in traces of other agents, " +
			"in course material. A page with the answer as a fact is honest work; a page with the question and its answer is not.",
		Fix: "add the address to the denylist and run the task again; void the task in the meantime",
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap("%s: nothing says whether a document that holds the question also holds its answer", noGold)
			}
			unknownProbes(e, n)
			unconfined(e, n)
			elsewhere(e, n)
			if name := e.Manifest.Model.Name; searches(name) {
				n.gap("the model %q searches by itself: what it read is not recorded", name)
			}
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				channels(n, t, a.Channels)
			})
			e.eachResult(func(t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
				unseen(n, c.Result)
				leaked(n, place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}, c, e.Gold[t.Plan.TaskID])
			})
		},
	}
}

// unknownProbes: counts that were made by other rules cannot be read.
func unknownProbes(e *Evidence, n *Notes) {
	hashesOnly(e, n)
	if p := e.Manifest.Probes; p != ProbesID {
		n.gap("the plan's probes are %q, not the %q that this version knows", p, ProbesID)
	}
}

func channels(n *Notes, t *TaskEvidence, names []string) {
	for _, name := range names {
		n.gap("an unrecorded channel in task %s (%s): what the endpoint read by itself is not in the journal", t.Plan.TaskID, name)
	}
}

// unconfined: what runs outside of the sandbox reaches what it likes.
func unconfined(e *Evidence, n *Notes) {
	for _, name := range e.Manifest.Unconfined {
		n.gap("%s ran outside of the sandbox: what it reached is not in the journal", name)
	}
}

// elsewhere: a server that is asked over HTTP reaches what it likes, as a search
// engine does. What it gave is in the journal with its probes.
func elsewhere(e *Evidence, n *Notes) {
	told := map[string]bool{}
	for _, t := range e.Manifest.Tools {
		_, origin, remote := strings.Cut(t.Server, " ")
		if !remote || told[t.Server] {
			continue
		}
		told[t.Server] = true
		n.find(ToReview, "server-unseen", place{given: true}, fmt.Sprintf("what the server at %s reads is not in the journal", origin), "a server whose program runs in the sandbox")
	}
}

// searches reports whether a model is known to search the web by itself.
func searches(model string) bool {
	return slices.ContainsFunc([]string{":online", "-search-", "search-preview", "deep-research", "sonar"}, func(mark string) bool {
		return strings.Contains(strings.ToLower(model), mark)
	})
}

// unseen: not all of what a result brought in can be looked at.
func unseen(n *Notes, r *ResultFact) {
	if strings.HasPrefix(r.Name, "web_") && r.URLs == 0 && !r.IsError {
		n.gap("a result of %s has no addresses", r.Name)
	}
	if r.Unprobed {
		n.gap("a result of %s that is longer than its head has no probes", r.Name)
	}
	if r.Overlong {
		n.gap("a result of %s has a longer head than there can be: only its beginning was looked at", r.Name)
	}
}

// leaked looks at what one call brought in. That of the workspace counts, too:
// the agent cannot have put the task's published answer there by itself.
func leaked(n *Notes, at place, c *CallFact, gold string) {
	p := c.Result.Probes
	// A listing of the workspace has ids in its names, and beside them sizes that can be any number.
	_, number := goldNumeral([]byte(gold))
	sized := c.Result.Name == "list_files" && number && p.AnswerKeys == 0
	bearing := p.AnswerKeys > 0 || p.SchemaKeys >= 3 || p.GoldHits > 0
	const want = "a source that does not hold the benchmark's own answers"
	if p.OwnUUID && p.UUIDGoldNear && !sized {
		n.find(Critical, "uuid-with-answer", at, "the task's id with an answer beside it, from "+c.Result.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && p.GoldNear {
		n.find(Critical, "question-with-gold", at,
			fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", p.QCovNoEcho, c.Result.Name), want)
	}
	if c.Result.ClassA != "" && bearing && (p.OwnUUID || p.QCov >= someQuestion) {
		n.find(Critical, "class-a-answer", at, "the task in a page of an answer source: "+c.Result.ClassA, want)
	}
	if c.Loads {
		n.find(Critical, "loader-output", at, "the output of what leads to a source of the benchmark's answers, from "+c.Result.Name, want)
	}
	if p.QCovNoEcho >= wholeQuestion && !p.GoldNear {
		n.find(ToReview, "question-without-gold", at, fmt.Sprintf("%d of 1000 of the question's text, from %s", p.QCovNoEcho, c.Result.Name), want)
	}
}

func oracleLeakage() Check {
	return Check{
		ID: "AUD-3", Name: "oracle-leakage", Severity: Critical, Gate: true,
		Title: "the agent was told the question and nothing of its answer",
		Why: "a harness that puts the answer, a hint of it or a solved copy of the task into the prompt, the workspace or a tool's " +
			"description measures nothing but whether the model can read",
		Fix: "run the task again with the templates as they are in the plan",
		Run: func(e *Evidence, n *Notes) {
			if e.blind() {
				n.gap(noGold)
			}
			unknownProbes(e, n)
			unknownTemplates(e, n)
			made := slices.ContainsFunc(e.Manifest.Tools, func(t ledger.ToolPlan) bool { return runs(t.Name) })
			e.each(func(t *TaskEvidence, a *AttemptEvidence) {
				told(n, t, a)
				workspace(n, t, a)
				if !made && e.Manifest.Evidence != ledger.EvidenceHashes { // another tool may have made files
					filesOpened(n, a)
				}
			})
			toolDescriptions(e, n)
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
			n.find(Info, "picture-scaled", place{task: t, attempt: a.Number, seq: p.Seq}, "the question came with a picture that is not the attachment byte for byte", "for the record: that it was made from the attachment is the signer's word")
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
			continue
		}
		if r := o.Residue; r.GoldHits > 0 || r.AnswerKeys > 0 || r.UUIDGoldNear {
			n.find(Critical, "prompt-residue", place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256},
				"besides the question, a message of source "+o.Source+" holds its answer or fields for one", "the template with the question put in")
		}
	}
	for _, c := range a.Calls {
		if c.Told {
			n.find(Critical, "prompt-residue", place{task: t, attempt: a.Number, seq: c.Decided},
				"a refusal tells the answer or fields for one, which the call that it refuses does not", "why the call was refused")
		}
	}
}

// workspace looks at the files an attempt began with. The attachment is the
// dataset's and may hold the answer, which is what the task is about; it may
// not hold the task.
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
		solved := p.UUIDGoldNear || p.QCov >= wholeQuestion && p.GoldNear
		if f.Path != a.FileName {
			solved = solved || p.GoldHits > 0 || p.AnswerKeys > 0
		}
		if solved {
			n.find(Critical, "workspace-answer", place{task: t, attempt: a.Number, seq: a.Begun, sha256: f.SHA256}, "the start workspace holds the task's answer", "the attachment alone")
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

// toolDescriptions looks for a task's answer in what every attempt is told of
// the tools. A word in the description of a built-in tool that happens to be a
// gold answer is none.
func toolDescriptions(e *Evidence, n *Notes) {
	var own, others, schemas strings.Builder
	for _, t := range e.Manifest.Tools {
		text := &others
		if builtin(t.Name) {
			text = &own
		}
		text.WriteString(t.Name + "\n" + t.Description + "\n")
		schemas.WriteString(t.Schema + "\n")
	}
	for _, t := range e.Manifest.Tools {
		if builtin(t.Name) != (t.Server == "") {
			n.gap("the tool %q is neither this program's own nor a server's: nobody knows what it says of itself", t.Name)
		}
	}
	for _, t := range e.Tasks {
		if len(t.Attempts) == 0 {
			continue
		}
		prober := e.prober(t)
		stray := prober.Probe(others.String(), "", nil)
		p := graver(prober.Probe(own.String(), "", nil), stray)
		if p.OwnUUID || p.GoldLabelNear || stray.GoldHits > 0 || p.QCov >= wholeQuestion && p.GoldNear {
			n.find(Critical, "tool-description-answer", place{task: t}, "the description of a tool holds the task or its answer", "what the tool does")
		}
		switch s := prober.Probe(schemas.String(), "", nil); {
		case s.OwnUUID || s.GoldLabelNear || s.QCov >= wholeQuestion:
			n.find(Critical, "tool-schema-answer", place{task: t}, "the parameters of a server's tool hold the task or its answer", "what the tool takes")
		case s.GoldHits > 0: // the name of a parameter can be any word
			n.find(ToReview, "tool-schema-word", place{task: t}, "the parameters of a server's tool hold a word of the answer", "what the tool takes")
		}
	}
}
