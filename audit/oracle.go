package audit

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/trajectory"
)

var oracleLeakage = Check{
	ID: "AUD-3", Name: "oracle-leakage", Severity: Critical, Gate: true,
	Title: "the agent saw the question and nothing of its answer",
	Why: "a harness that puts the answer, a hint of it or a solved copy of the task into the prompt, the workspace or a tool's " +
		"description measures nothing but whether the model can read",
	Fix: "run the task again with the templates as they are in the plan",
	Skips: "the gold answers are not at hand, the run records digests alone or probes of another version, templates, requests, the question, digests of messages or the start workspace are not recorded " +
		"or not in a form that this version knows, a request lists no more messages than the one before it or has a longer head than heads are, messages that no template gives are not shown whole " +
		"or too many, the plan has no digest of an attachment, a tool gave a file that did not lie there at the start, or a tool is neither one of this version nor a server's, or the tools say more of themselves than is looked through",
	Rules: []Rule{
		{"prompt-residue", Critical, 2, "a message that holds, besides the question and the templates, the answer or fields for one", "the template with the question put in"},
		{"workspace-answer", Critical, 3, "a start workspace with the task's answer in a file that is not the attachment, or in its name, or with the question, or its id, and its answer so called in the attachment", "the attachment alone"},
		{"attachment-differs", Critical, 1, "an attachment with another digest or size than the plan has of it", "the attachment as planned"},
		{"question-with-answer", Critical, 1, "a planned question that states its answer, such as \"the expected answer is …\"", "the question of the dataset"},
		{"template-with-answer", Critical, 1, "a template not of this version with a task, or what it asks about, and its answer, or with the stated answers of three tasks", "a template that says nothing of any task"},
		{"tool-description-answer", Critical, 2, "the task or its answer in what a tool says of itself that is not one of this version as it is", "what the tool does"},
		{"tool-schema-answer", Critical, 1, "the parameters of a server's tool with the task or its answer", "what the tool takes"},
		{"other-task-with-answer", High, 2, "a message that holds, besides the question and the templates, another task of the run with its answer", "the question of the task alone"},
		{"other-task-record", High, 1, "a start workspace or a server's tool with the id of another task of the split and fields for an answer", "the attachment alone"},
		{"workspace-answer-name", High, 1, "a file of a start workspace that is not the attachment, and is named like one with answers", "the attachment alone"},
		{"tool-promises-answers", High, 1, "a server's tool that says it gives reference answers for tasks, or answers of the benchmark", "what the tool does and takes"},
		{"task-id-known", High, 1, "a message of an own agent with the task's id, which nothing that the journal shows had given it", "messages about the question"},
		{"short-answer", ToReview, 2, "a message that holds, besides the question and the templates, an answer of less than 4 characters without a label", "the template with the question put in"},
		{"attachment-with-question", ToReview, 1, "an attachment with the question, and the gold answer near it", "what the question is about"},
		{"workspace-extra-file", ToReview, 1, "a file of a start workspace that is not the attachment", "the attachment alone"},
		{"question-with-answer-word", ToReview, 1, "a planned question with its answer behind a word for answers, under a condition, as an example or in a list", "the question of the dataset"},
		{"template-with-answer-word", ToReview, 1, "a template not of this version with a stated answer, or with three long ones", "a template that says nothing of any task"},
		{"tool-promises-solutions", ToReview, 1, "a server's tool that says it gives reference answers or solutions, of whatever", "what the tool does and takes"},
		{"run-records-mentioned", ToReview, 1, "a message, a template or a server's tool that names the run's own records or a judge cache", "a template about the task"},
		{"tool-schema-word", ToReview, 1, "the parameters of a server's tool with a word of the answer", "what the tool takes"},
		{"prompt-unseen", Info, 1, "messages of an own agent that the journal does not show, or only the beginning of, and that are none of the question, a reply or a result", "for the record: this version judges what the journal shows"},
		{"picture-scaled", Info, 1, "a picture that is not the attachment byte for byte", "for the record: that it was made from the attachment is the signer's word"},
	},
	run: func(e *evidence, n *notes) {
		n.gapIf(e.blind(), noGold)
		unknownProbes(e, n)
		// A prompt can be rendered again only from a template whose text this program has.
		for _, p := range e.Manifest.Prompts {
			if !slices.ContainsFunc(prompt.Templates(), func(t prompt.Template) bool { return t.ID == p.ID && t.Text == p.Text }) {
				n.gap("the template %q is not one that this version knows", p.ID)
			}
		}
		own := e.Manifest.Agent != nil // whose prompts no template gives
		for _, id := range []string{prompt.SystemID, prompt.QuestionID} {
			if !own && !slices.ContainsFunc(e.Manifest.Prompts, func(p plan.Prompt) bool { return p.ID == id }) {
				n.gap("the plan does not name the template %q", id)
			}
		}
		made := own || slices.ContainsFunc(e.Manifest.Tools, func(t plan.ToolPlan) bool { return runs(t.Name) }) // there is something that makes files
		if own {
			unseenPrompts(e, n)
		}
		questions := n.aside()
		each := func(t *taskEvidence, a *attemptEvidence) {
			if own {
				checkOwnPrompts(n, t, a)
			} else {
				checkPrompts(n, t, a)
			}
			toldAnswers(n, t, a)
			checkWorkspace(e, n, t, a)
			if made || e.Manifest.Evidence == plan.EvidenceHashes {
				return
			}
			for _, c := range a.Calls {
				read := c.Result != nil && reads(c.Result.Name) && !c.Result.IsError
				if read && !slices.ContainsFunc(a.Workspace, func(f trajectory.File) bool { return opened(f.Path) == opened(c.Opens) }) {
					n.gap("%s gave a file that is not in the list of the start workspace", c.Result.Name)
				}
			}
		}
		e.eachTask(func(t *taskEvidence) {
			for _, a := range t.Attempts {
				each(t, a)
			}
			if len(t.Attempts) == 0 || e.Gold[t.Plan.TaskID] == "" {
				return
			}
			a := t.Attempts[0]
			at := place{task: t, attempt: a.Number, seq: a.Begun, unasked: true}
			switch s := e.tells(t).stated; {
			case s.Plain:
				questions.find("question-with-answer", at, "the planned question states its answer")
			case s.Hedged:
				questions.find("question-with-answer-word", at, "the planned question has the answer behind a word for answers")
			}
		})
		n.join(questions)
		for _, p := range e.Manifest.Prompts {
			templateStates(e, n, p)
		}
		otherPairs(e, n)
		toolDescriptions(e, n)
		for _, p := range e.Manifest.Prompts {
			n.findIf(namesRecords(e.Manifest.Policy, p.Text), "run-records-mentioned", place{sha256: p.SHA256, unasked: true}, "the template "+p.ID+" names the run's own records or verdicts")
		}
		for _, t := range e.Manifest.Tools {
			n.findIf(!builtin(t.Name) && namesRecords(e.Manifest.Policy, t.Description+"\n"+t.Schema), "run-records-mentioned", place{unasked: true}, "the tool "+t.Name+" names the run's own records or verdicts", "what the tool does and takes")
		}
	},
}

// checkPrompts looks at what an attempt's model was told.
func checkPrompts(n *notes, t *taskEvidence, a *attemptEvidence) {
	if slices.ContainsFunc(a.Models, func(m modelFact) bool { return !m.Prompted }) {
		n.gap("a reply of the model without the request that it answers")
	}
	for _, p := range a.Prompts {
		n.gapIf(p.Messages < 2, "a request has no system message or no question in its list of messages")
		n.gapIf(p.Stale, "a request lists no more messages than the one before it: what the model said last is not among them")
		n.findIf(p.Scaled, "picture-scaled", t.at(a, p.Seq), "the question came with a picture that is not the attachment byte for byte")
		n.gapIf(p.Overlong, "a request has a longer head than there can be: only its beginning was looked at")
	}
	for _, o := range a.Odd {
		if o.Unknown { // which is a gap already
			continue
		}
		n.gapIf(!o.Seen, "a message that is not its template's is not shown whole")
		at := place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256, unasked: true}
		switch r := o.Residue; {
		case r.GoldHits > 0 || r.AnswerKeys > 0 || r.UUIDGoldNear:
			n.find("prompt-residue", at, "besides the question, a message of source "+o.Source+" holds its answer or fields for one")
		case o.Short:
			n.find("short-answer", at, "besides the question, a message of source "+o.Source+" holds the few characters of its answer")
		}
		n.findIf(o.Records, "run-records-mentioned", at, "a message of source "+o.Source+" names the run's own records or verdicts", "the template with the question put in")
	}
}

// toldAnswers looks at refusals that tell an answer.
func toldAnswers(n *notes, t *taskEvidence, a *attemptEvidence) {
	for _, c := range a.Calls {
		if c.Told {
			n.find("prompt-residue", place{task: t, attempt: a.Number, seq: c.Decided, unasked: true},
				"a refusal tells the answer or fields for one, which the call that it refuses does not", "why the call was refused")
		}
	}
}

// checkWorkspace checks the files that an attempt began with. The attachment is the dataset's, which the plan has
// the digest of. It may hold the answer, which is what the task is about, and the question, which an exercise sheet
// has; it may not be the benchmark's record of the task. This harness puts in no other file.
func checkWorkspace(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence) {
	if t.Plan.FileName != "" {
		n.gapIf(t.Plan.FileSHA256 == "", "the plan has no digest of a task's attachment")
		if _, there := a.attachment(); !there {
			n.gap("the attachment of a task is not in the list of its start workspace")
		}
	}
	for _, f := range a.Workspace {
		at := place{task: t, attempt: a.Number, seq: a.Begun, sha256: f.SHA256, unasked: true}
		var p trajectory.Probes
		if f.Probes == nil {
			n.gap("a file of a start workspace has no probes")
		} else {
			p = *f.Probes
		}
		whole := p.QCov >= probe.WholeQuestion && p.GoldNear
		if f.Path == a.FileName {
			n.findIf(t.Plan.FileSHA256 != "" && (f.SHA256 != t.Plan.FileSHA256 || f.Bytes != t.Plan.FileBytes), "attachment-differs", at, "the attachment is not the file that the plan has the digest and the size of")
			switch {
			case p.UUIDGoldNear || whole && (p.GoldLabelNear || p.AnswerKeys > 0):
				n.find("workspace-answer", at, "the start workspace holds the task's answer")
			case whole:
				n.find("attachment-with-question", at, "the attachment has the question and the gold answer near it")
			}
			continue
		}
		others := !p.OwnUUID && p.OtherUUIDs > 0 && p.AnswerKeys > 0   // alone: with a field for an answer, of which it is known whose it is
		name := e.prober(t).Probe(f.Path+"\n"+spaced(f.Path), "", nil) // ids have hyphens, which words lose
		switch {
		case p.UUIDGoldNear || p.GoldHits > 0 || p.AnswerKeys > 0 && !others || whole:
			n.find("workspace-answer", at, "the start workspace holds the task's answer")
		case name.GoldHits > 0:
			n.find("workspace-answer", at, "the name of a file of the start workspace holds the task's answer")
		case others:
			n.find("other-task-record", at, "the start workspace holds a record of another task")
		case len(policy.AnswerKeys(policy.Read(policy.Call{Paths: []string{f.Path}}))) > 0, slices.ContainsFunc(strings.Fields(spaced(f.Path)), answerWord):
			n.find("workspace-answer-name", at, "the start workspace holds a file that is named like one with answers")
		default:
			n.find("workspace-extra-file", at, "the start workspace holds a file that is not the attachment")
		}
	}
}

// answerWord reports whether a word of a file's name is one for answers, in some languages, with a number behind it
// or none.
func answerWord(word string) bool {
	return slices.Contains(strings.Fields(`answer answers answerkey solution solutions solved groundtruth antwort antworten lösung lösungen loesung loesungen
	réponse réponses reponse reponses respuesta respuestas solución soluciones solucion resposta respostas risposta risposte soluzione soluzioni
	antwoord antwoorden ответ ответы решение решения 答案 正解 解答 回答`), strings.TrimRight(word, "0123456789"))
}

const (
	fewestLong = 3 // gold answers of other tasks in one template that no example explains
	rareGold   = 8 // characters of a gold answer that few texts have by chance
)

// templateStates looks for gold answers of the run in a template that this version does not know. An example may
// have the answer of some task by chance.
func templateStates(e *evidence, n *notes, template plan.Prompt) {
	if slices.ContainsFunc(prompt.Templates(), func(t prompt.Template) bool { return t.Text == template.Text }) {
		return
	}
	text, none := template.Text, ""
	bounded(&text, &none) // that the template is unknown is a gap already
	at := place{sha256: template.SHA256, unasked: true}
	stated, long := map[string]bool{}, map[string]bool{}
	e.eachTask(func(t *taskEvidence) {
		gold := strings.ToLower(strings.TrimSpace(e.Gold[t.Plan.TaskID]))
		if gold == "" || len(t.Attempts) == 0 {
			return
		}
		prober := e.prober(t)
		p := prober.Probe(text, "", nil)
		s := prober.States(text, t.Attempts[0].Question)
		if p.UUIDGoldNear || p.QCov >= probe.WholeQuestion && p.GoldHits > 0 || s.Asked {
			of := at
			of.task = t
			n.find("template-with-answer", of, "the template "+template.ID+" holds a task or what it asks about, with its answer")
		}
		if (s.Plain || s.Hedged) && !s.Short {
			stated[gold] = true
		}
		if p.GoldHits > 0 && utf8.RuneCountInString(gold) >= rareGold {
			long[gold] = true
		}
	})
	switch {
	case len(stated) >= fewestLong:
		n.find("template-with-answer", at, "the template "+template.ID+" states the answers of several tasks")
	case len(stated) > 0 || len(long) >= fewestLong:
		n.find("template-with-answer-word", at, "the template "+template.ID+" has answers of tasks, which examples may have by chance")
	}
}

// Bounds of looking for the other tasks of a run in its odd messages, in bytes that are probed for one task; each
// message takes pairOverhead besides its own. Many tasks can have nearly the same question, and a message as many
// of them.
const (
	mostPaired   = 32 << 20
	pairOverhead = 1 << 10
)

// mostToolText bounds what is looked through for each task of what the tools say of themselves, in bytes.
const mostToolText = 256 << 10

// otherPairs looks in odd messages for the other tasks of the run: who is shown solved tasks is told how the
// benchmark answers, and its other tasks are lost. Of each task the first message with it is told.
func otherPairs(e *evidence, n *notes) {
	n.gapIf(e.OddUnread && e.Manifest.Agent == nil, "there are more messages that are not their templates' than are looked through for other tasks")
	if len(e.Odd) == 0 {
		return
	}
	var questions []string
	e.eachTask(func(t *taskEvidence) {
		question := ""
		if len(t.Attempts) > 0 {
			question = t.Attempts[0].Question
		}
		questions = append(questions, question)
	})
	asked := probe.NewQuestions(questions)
	in := make([][]*oddText, len(e.Tasks)) // messages with the question of a task
	for i := range e.Odd {
		for _, task := range asked.In(e.Odd[i].Text) {
			if e.Tasks[task] != e.Odd[i].Task {
				in[task] = append(in[task], &e.Odd[i])
			}
		}
	}
	left, i := mostPaired, -1
	e.eachTask(func(t *taskEvidence) {
		if i++; len(in[i]) == 0 {
			return
		}
		prober := e.prober(t)
		for _, o := range in[i] {
			if left -= len(o.Text) + pairOverhead; left < 0 {
				break
			}
			if p := prober.Probe(o.Text, "", nil); p.QCov >= probe.WholeQuestion && p.GoldNear {
				n.find("other-task-with-answer", place{task: o.Task, attempt: o.Attempt, seq: o.Seq, sha256: o.SHA256, unasked: true},
					"a message holds task "+t.Plan.TaskID+" and its answer")
				break
			}
		}
	})
	n.gapIf((left < 0 || asked.Exhausted()) && e.Manifest.Agent == nil, "the messages that are not their templates' have the questions of more tasks than are looked through")
}

// unplanned are the ids of the split whose tasks nothing else looks for: those that the run does not ask.
func (e *evidence) unplanned() *probe.IDs {
	asked := map[string]bool{}
	for _, t := range e.Tasks {
		asked[t.Plan.TaskID] = t.begun()
	}
	return probe.NewIDs(slices.DeleteFunc(slices.Clone(e.Manifest.SplitIDs), func(id string) bool { return asked[id] }))
}

// bounded cuts texts to what is looked through of them together, and reports whether there was more.
func bounded(texts ...*string) (cut bool) {
	left := mostToolText
	for _, text := range texts {
		if len(*text) > left {
			*text, cut = (*text)[:left], true
		}
		left -= len(*text)
	}
	return cut
}

// toolDescriptions looks for a task's answer in what every attempt is told of tools that are not this version's
// own, which are known to tell none.
func toolDescriptions(e *evidence, n *notes) {
	var descriptions, schemas strings.Builder
	promises := promising()
	for _, t := range e.Manifest.Tools {
		if isBuiltinVersion(t) {
			continue
		}
		n.gapIf(t.Server == "" || builtin(t.Name), "the tool %q is neither one of this version nor a server's: what it says of itself, or takes, is not known", t.Name)
		said := spaced(t.Name + "\n" + t.Description + "\n" + t.Schema)
		switch reference, right := promises.reference.MatchString(said), promises.right.MatchString(said); {
		case promises.asked.MatchString(said) || (reference || right) && promises.benchmark.MatchString(said) || reference && promises.task.MatchString(said):
			n.find("tool-promises-answers", place{unasked: true}, "the tool "+t.Name+" promises answers to the benchmark's tasks")
		case reference:
			n.find("tool-promises-solutions", place{unasked: true}, "the tool "+t.Name+" promises reference answers or solutions")
		}
		descriptions.WriteString(t.Name + "\n" + t.Description + "\n")
		schemas.WriteString(t.Schema + "\n")
	}
	if descriptions.Len() == 0 {
		return
	}
	says, takes := descriptions.String(), schemas.String()
	n.gapIf(bounded(&says, &takes), "the tools say more of themselves than is looked through for each task")
	n.findIf(e.unplanned().Records(says+takes), "other-task-record", place{unasked: true}, "a server's tool holds a record of a task that the run does not ask", "what the tool does and takes")
	e.eachTask(func(t *taskEvidence) {
		if len(t.Attempts) == 0 {
			return
		}
		prober := e.prober(t)
		if p := prober.Probe(says, "", nil); p.OwnUUID || p.GoldHits > 0 || p.QCov >= probe.WholeQuestion {
			n.find("tool-description-answer", place{task: t, unasked: true}, "the description of a tool holds the task or its answer")
		}
		switch s := prober.Probe(takes, "", nil); {
		case s.OwnUUID || s.GoldLabelNear || s.QCov >= probe.WholeQuestion:
			n.find("tool-schema-answer", place{task: t, unasked: true}, "the parameters of a server's tool hold the task or its answer")
		case s.GoldHits > 0: // the name of a parameter can be any word
			n.find("tool-schema-word", place{task: t, unasked: true}, "the parameters of a server's tool hold a word of the answer")
		}
	})
}

// promising are the patterns of what a tool says that knows the answers. Many honest servers give correct answers,
// or solutions of problems: those need words for the benchmark or its tasks beside them.
var promising = sync.OnceValue(func() (p struct{ reference, right, task, benchmark, asked *regexp.Regexp }) {
	p.reference = regexp.MustCompile(`\b(?:(?:reference|expected|gold|golden|official|benchmark|hidden|model) (?:final )?(?:answers?|solutions?)|(?:gold|golden|ground ?truth) (?:labels?|results?|outputs?)|answer keys?|answerkeys?|solution keys?|ground ?truths?)\b`)
	p.right = regexp.MustCompile(`\b(?:correct|right|true|known|canonical|verified|final) (?:final )?(?:answers?|solutions?)\b`)
	p.task = regexp.MustCompile(`\b(?:task ?ids?|(?:this|the|the current|current|given|each|every|any|assigned) (?:benchmark |evaluation )?tasks?)\b`)
	p.benchmark = regexp.MustCompile(`\b(?:benchmark(?: s)? (?:tasks?|questions?|answers?|solutions?|items?)|(?:tasks?|questions?|answers?|keys?|solutions?) (?:of|from|in|for|to) (?:the |this |a )?(?:\w+ )?benchmark|gaia (?:tasks?|questions?|benchmark|answers?|validation|test)|task ?ids?|leaderboard)\b`)
	p.asked = regexp.MustCompile(`\banswers? (?:to|for|of|by) (?:(?:a|an|the|any|each|every|this|given|that) )*(?:task ?ids?|benchmark (?:tasks?|questions?)|gaia (?:tasks?|questions?))\b`)
	return p
})

// spaced returns a text in lower case with spaces between its words and capitals, so that names read like
// sentences.
func spaced(text string) string {
	var out []rune
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			if len(out) == 0 || out[len(out)-1] == ' ' {
				continue
			}
			r = ' '
		} else if len(out) > 0 && unicode.IsUpper(r) && unicode.IsLower(out[len(out)-1]) {
			out = append(out, ' ')
		}
		out = append(out, r)
	}
	return strings.ToLower(string(out))
}
