package audit

import (
	"fmt"
	"github.com/gaia-harness/gaia/internal/plan"
	"net/url"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

var answerLeakage = Check{
	ID: "AUD-1", Name: "answer-leakage", Severity: Critical, Gate: true,
	Title: "no tool returned the task's published answer",
	Why: "GAIA's validation answers lie in the open, and agents find them: in copies of the dataset, in traces of other agents, " +
		"in course material. A page with the answer as a fact is honest work; a page with the question and its answer is not.",
	Fix: "add the address to the denylist and run the task again; void the task in the meantime",
	Skips: "the gold answers are not at hand, the run records digests alone or probes of another version, results that are longer than their heads have no probes, a head is longer than heads are, " +
		"the arguments that a page with the question may echo are not recorded whole, no addresses of a page are recorded, what came over the recorded network was not probed whole, the endpoint searched by itself, a server that is a program had the network, an own agent had that of its host, or something ran outside of the sandbox",
	References: []string{"https://arxiv.org/abs/2508.13180"},
	Rules: []Rule{
		{"uuid-with-answer", Critical, 3, "the task's id, or its first digits among those of two other tasks, with an answer field or the gold answer near it, in what a tool brought in", cleanSource},
		{"question-with-gold", Critical, 4, "from the web or a server, at least 70 % of the question's text, its beginning or end and its question word included, with the gold answer near it, not counting what stands in quotation marks in the question nor what the call itself had said: " +
			"a few words of the question in a call do not hide the whole of it in a page, nor does all of it hide a place that has it with a labelled answer; where the question has fewer than five runs of words, the answer must be labelled", cleanSource},
		{"answer-source-content", Critical, 2, "the task's id or 30 % of its question, with the gold answer, a field for an answer or the benchmark's columns, in a page of a known source of the benchmark's answers", cleanSource},
		{"loader-output", Critical, 1, "the output of code or of a server's tool that leads to a source of the benchmark's answers", cleanSource},
		{"answer-for-id", High, 1, "the gold answer in what a server's tool or a page gave for the task's id, which is not the attachment's name", cleanSource},
		{"question-of-unknown-origin", High, 1, "the question and the gold answer near it, from code in an empty workspace, where no call had said the question", cleanSource},
		{"answer-source-requested", High, 2, "an address of a known source of the benchmark's answers that was asked, whatever it gave", cleanSource},
		{"task-id-in-result", High, 2, "from the web or a server, the task's id without an answer near it, given to a call that did not name it", cleanSource},
		{"other-task-ids", High, 2, "from the web or a server, the ids of three or more other tasks of the split, beyond as many as the call named", cleanSource},
		{"benchmark-columns", High, 2, "four or more of the benchmark's columns, its own column of answers among them, in a page or in what a server gave", cleanSource},
		{"question-and-answer", High, 1, "from the web or a server, at least 70 % of the question's text and, anywhere in the same document, the labelled gold answer", cleanSource},
		{"answers-of-several-tasks", High, 1, "from the web or a server, the answers of three or more tasks of the run in one document, each behind its task's id or first digits, or the beginning of its question, or under a label, or under numbers in the order of the tasks", cleanSource},
		{"id-prefix-with-answer", High, 1, "from the web or a server, the first 6 or more digits of the task's id with the gold answer right behind them; with those of two other tasks it is uuid-with-answer", cleanSource},
		{"leak-across-results", High, 1, "the parts of a leak in several results of an attempt: the question in one and the labelled gold answer in another, or the question in pieces", "a source that does not hold the benchmark's own answers"},
		{"question-with-gold-in-workspace", ToReview, 2, "the question and the gold answer near it in what a tool of the workspace gave: the model's own code and notes can make both", "the model's own words"},
		{"attachment-with-answer", ToReview, 1, "the task's id, which is the attachment's name, with an answer field near it, in what a tool of the workspace gave", "what the attachment says"},
		{"answers-listed", ToReview, 1, "from the web or a server, one list with the answers of three or more tasks of the run, of at least four characters", cleanSource},
		{"description-with-gold", ToReview, 1, "from the web or a server, at least 70 % of the question's text with the gold answer near it, but neither its beginning nor its end, or not its question word, or a question of fewer than five runs of words", "a source that does not hold the benchmark's own answers"},
		{"paraphrased-question", ToReview, 1, "from the web or a server, at least 60 % of the words that the question is about around the labelled gold answer", cleanSource},
		{"question-without-gold", ToReview, 2, "at least 70 % of the question's text, without the gold answer near it", cleanSource},
		{"partial-question-with-gold", ToReview, 1, "from the web or a server, between 30 % and 70 % of the question's text with the gold answer near it, called the answer", cleanSource},
		{"echoed-question", ToReview, 2, "from the web or a server, at least 70 % of the question's text, of which the call itself had some or all, and the gold answer in the same result", cleanSource},
		{"related-source-requested", ToReview, 2, "an address close to the benchmark that was asked: its paper, other repositories and spaces that are named for it", cleanSource},
		{"answer-source-refused", ToReview, 1, "a call to a source of the benchmark's answers that was refused", "no such call"},
		{"remote-server-unobserved", ToReview, 1, "a server asked over HTTP, whose own sources are not recorded", "a server whose program runs in the sandbox"},
		{"evidence-supported", Info, 1, "the gold answer as a fact, in the first result of the task that has it", "the answer's source"},
	},
	run: func(e *evidence, n *notes) {
		n.gapIf(e.blind(), "%s: nothing says whether a document that holds the question also holds its answer", noGold)
		unknownProbes(e, n)
		unconfinedGaps(e, n)
		if a := e.Manifest.Agent; a != nil && a.Network == plan.NetworkHost && !a.Unconfined {
			n.gap("an unrecorded channel: the agent had the network, and what it reached is not in the journal")
		}
		// A server that is asked over HTTP reaches what it likes, as a search engine does; what it gave is in the journal with its probes.
		told := map[string]bool{}
		for _, t := range e.Manifest.Tools {
			_, origin, remote := strings.Cut(t.Server, " ")
			if told[t.Server] || !remote && t.Network != plan.NetworkHost {
				continue
			}
			told[t.Server] = true
			if !remote {
				if !slices.Contains(e.Manifest.Unconfined, t.Server) { // which is said of what ran outside of the sandbox
					n.gap("an unrecorded channel: the server %s had the network, and what it reached is not in the journal", t.Server)
				}
				continue
			}
			n.find("remote-server-unobserved", place{given: true}, fmt.Sprintf("what the server at %s reads is not in the journal", origin))
		}
		searching := []string{":online", "-search-", "search-preview", "deep-research", "sonar"} // models that search the web by themselves
		for _, name := range append([]string{e.Manifest.Model.Name}, e.Manifest.Model.ServedAs...) {
			if slices.ContainsFunc(searching, func(mark string) bool { return strings.Contains(strings.ToLower(name), mark) }) {
				n.gap("the model %q searches by itself: what it read is not recorded", name)
			}
		}
		e.eachTask(func(t *taskEvidence) { checkLeaks(n, t, e.Gold[t.Plan.TaskID]) })
	},
}

// checkLeaks looks at what the attempts at a task brought in, and at calls that the Gate refused since they lead to
// a source of answers; AUD-18 reports those that look for one.
func checkLeaks(n *notes, t *taskEvidence, gold string) {
	supported := false
	for _, a := range t.Attempts {
		channelGaps(n, t, a.Channels)
		var clean []*resultFact // with nothing but facts, or signs
		for _, c := range a.looked() {
			r := c.Result
			if r == nil {
				n.findIf(c.Proposed >= 0 && !c.Seeks && !c.AsksOwn && c.broke(policy.AnswerSources), "answer-source-refused", t.at(a, c.Proposed), "a call of "+c.Name+" that leads to a source of the benchmark's answers was refused")
				continue
			}
			resultGaps(n, r)
			at := place{task: t, attempt: a.Number, seq: r.Seq, sha256: r.SHA256}
			answered, found := checkResult(n, at, c, gold)
			if !answered {
				clean = append(clean, r)
			}
			if !found && !supported && r.Probes.GoldHits > 0 && (thirdParty(r.Name) || reads(r.Name)) {
				supported = true
				n.find("evidence-supported", at, "the gold answer, from "+r.Name)
			}
		}
		checkPartedLeak(n, place{task: t, attempt: a.Number}, clean)
	}
}

// unknownProbes: counts that were made by other rules cannot be read.
func unknownProbes(e *evidence, n *notes) {
	hashesOnly(e, n)
	if p := e.Manifest.Probes; p != probe.Version {
		n.gap("the plan's probes are %q, not the %q that this version knows", p, probe.Version)
	}
}

func channelGaps(n *notes, t *taskEvidence, names []string) {
	for _, name := range names {
		n.gap("an unrecorded channel in task %s (%s): what the endpoint read by itself is not in the journal", t.Plan.TaskID, name)
	}
}

// unconfinedGaps: what runs outside of the sandbox reaches what it likes.
func unconfinedGaps(e *evidence, n *notes) {
	for _, name := range e.Manifest.Unconfined {
		n.gap("%s ran outside of the sandbox: what it reached is not in the journal", name)
	}
}

// resultGaps: not all of what a result brought in can be looked at.
func resultGaps(n *notes, r *resultFact) {
	addressed := r.URLs > 0 || r.IsError || r.Name != "web_fetch" && r.Name != "web_search"
	if addressed && !r.Unheard && !r.Unprobed && !r.Overlong { // as most are
		return
	}
	n.gapIf(!addressed, "a result of %s has no addresses", r.Name)
	n.gapIf(r.Unheard, "a result of %s has the question and the gold answer, and the arguments that it may echo are not recorded whole", r.Name)
	n.gapIf(r.Unprobed && r.Name == theNetwork, "an exchange over %s was not probed, or not all of it", r.Name)
	n.gapIf(r.Unprobed && r.Name != theNetwork, "a result of %s that is longer than its head has no probes", r.Name)
	n.gapIf(r.Overlong, "a result of %s has a longer head than there can be: only its beginning was looked at", r.Name)
}

// Bounds of AUD-1: shares of the question, in thousandths, and how many.
const (
	someQuestion   = 300
	partOfQuestion = 100
	manyIDs        = 3
	fewStarts      = 2 // ids of other tasks beside the first digits of the task's own
	manyColumns    = 4 // of the benchmark's: other tables have some of them
)

// cleanSource is what AUD-1 wants in place of a leak.
const cleanSource = "a source that does not hold the benchmark's own answers"

// checkResult looks at what one call brought in. What a tool of the workspace gave can be the model's own: it knows
// the question and, where the attachment bears it as its name, the task's id, and it writes answers down. It
// reports whether that was an answer, and whether anything was found at all.
func checkResult(n *notes, at place, c *callFact, gold string) (answered, told bool) {
	p, before := c.Result.Probes, len(n.findings)
	// A listing of the workspace has ids in its names, and beside them sizes that can be any number.
	_, number := probe.Numeral(gold)
	sized := c.Result.Name == "list_files" && number && p.AnswerKeys == 0
	bearing := p.AnswerKeys > 0 || p.SchemaKeys >= 3 || p.GoldHits > 0
	found := func(rule, format string, args ...any) {
		answered = true
		n.find(rule, at, fmt.Sprintf(format, args...))
	}
	inside := !thirdParty(c.Result.Name)
	switch named := (inside || c.AsFile) && at.task != nil && policy.NamesTask(at.task.Plan.FileName, at.task.Plan.TaskID) && p.SchemaKeys < 3; {
	case !p.OwnUUID || !p.UUIDGoldNear || sized || named && p.AnswerKeys == 0:
	case named:
		n.find("attachment-with-answer", at, "the name of the attachment with a field for its answer beside it, from "+c.Result.Name)
	default:
		found("uuid-with-answer", "the task's id with an answer beside it, from %s", c.Result.Name)
	}
	switch {
	case inside || !p.OwnIDStart || c.HoldsOwn:
	case p.OtherIDStarts+p.OtherUUIDs >= fewStarts:
		found("uuid-with-answer", "the first digits of the task's id with the gold answer behind them, among those of other tasks, from %s", c.Result.Name)
	default:
		found("id-prefix-with-answer", "the first digits of the task's id with the gold answer behind them, from %s", c.Result.Name)
	}
	asked := probe.Quotation{Share: p.QCovNoEcho, Edge: p.QEdge, GoldNear: p.GoldNear}
	if p.QGoldCalled && p.QCov > asked.Share { // an engine echoes a query, but does not answer it
		asked = probe.Quotation{Share: p.QCov, Edge: true, GoldNear: true}
	}
	if q := c.Result.Quoted; q.GoldNear && (!asked.GoldNear || q.Share > asked.Share) {
		asked = q
	}
	answers := p.GoldCalled || p.AnswerKeys > 0 && p.GoldHits > 0
	switch {
	case asked.Share < probe.WholeQuestion:
	case inside && c.FromNowhere && (asked.GoldNear || answers):
		found("question-of-unknown-origin", "%d of 1000 of the question's text with the gold answer near it, from %s, and no call had said it", asked.Share, c.Result.Name)
	case inside && asked.GoldNear:
		n.find("question-with-gold-in-workspace", at, fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", asked.Share, c.Result.Name))
	case inside:
	case asked.GoldNear && asked.Edge && (!c.Result.Few || p.QGoldCalled):
		found("question-with-gold", "%d of 1000 of the question's text with the gold answer near it, from %s", asked.Share, c.Result.Name)
	case answers:
		found("question-and-answer", "%d of 1000 of the question's text and the labelled gold answer, from %s", asked.Share, c.Result.Name)
	case asked.GoldNear:
		n.find("description-with-gold", at, fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", asked.Share, c.Result.Name))
	}
	if !inside && p.KeyedAnswers >= probe.ManyAnswers {
		found("answers-of-several-tasks", "the answers of %d tasks of the run, each under its key, from %s", p.KeyedAnswers, c.Result.Name)
	}
	if c.Result.ClassA != "" && bearing && (p.OwnUUID || p.QCov >= someQuestion) {
		found("answer-source-content", "the task in a page of an answer source: %s", c.Result.ClassA)
	}
	if (c.TellsOwn || c.AsksOwn) && c.GivesGold {
		found("answer-for-id", "the gold answer for the task's id, from %s", c.Result.Name)
	}
	if c.Loads {
		found("loader-output", "the output of what leads to a source of the benchmark's answers, from %s", c.Result.Name)
	}
	if len(n.findings) == before {
		checkSigns(n, at, c)
	}
	return answered, len(n.findings) > before
}

// checkSigns looks at what one call brought in that is no answer of the task: signs of the benchmark in it. The
// gravest is told.
func checkSigns(n *notes, at place, c *callFact) {
	r, p := c.Result, c.Result.Probes
	third := thirdParty(r.Name)
	found := func(rule, format string, args ...any) { n.find(rule, at, fmt.Sprintf(format, args...)) }
	if r.ReachedA != "" {
		found("answer-source-requested", "an answer source was asked: %s", r.ReachedA)
	}
	switch {
	case third && p.OwnUUID && !c.HoldsOwn && !c.AsFile:
		found("task-id-in-result", "the task's id without an answer beside it, from %s", r.Name)
	case third && p.OtherUUIDs-c.HoldsIDs >= manyIDs:
		found("other-task-ids", "the ids of %d other tasks of the split, from %s", p.OtherUUIDs-c.HoldsIDs, r.Name)
	case third && p.SchemaKeys >= manyColumns && p.AnswerColumn:
		found("benchmark-columns", "%d of the benchmark's columns, that of answers among them, from %s", p.SchemaKeys, r.Name)
	case third && p.QCov >= probe.WholeQuestion && p.QCovNoEcho < probe.WholeQuestion && p.GoldHits > 0:
		found("echoed-question", "the question, of which the call had some, with the gold answer elsewhere, from %s", r.Name)
	case max(p.QCovNoEcho, r.Quoted.Share) >= probe.WholeQuestion:
		found("question-without-gold", "%d of 1000 of the question's text, from %s", max(p.QCovNoEcho, r.Quoted.Share), r.Name)
	case third && p.QCovNoEcho >= someQuestion && p.GoldNear && p.GoldLabelNear:
		found("partial-question-with-gold", "%d of 1000 of the question's text with a labelled gold answer near it, from %s", p.QCovNoEcho, r.Name)
	case third && p.ListedAnswers >= probe.ManyAnswers:
		found("answers-listed", "the answers of %d tasks of the run in one list, from %s", p.ListedAnswers, r.Name)
	case third && p.ChangedQuestion:
		found("paraphrased-question", "most words of the question around the labelled gold answer, from %s", r.Name)
	case p.DenyClass == 1:
		found("related-source-requested", "an address close to the benchmark was asked, by %s", r.Name)
	}
}

// checkPartedLeak looks for a leak whose parts came in several results of an attempt, none of which is one by
// itself. A document that came twice is one.
func checkPartedLeak(n *notes, at place, results []*resultFact) {
	found := func(r *resultFact, got string) {
		at.seq, at.sha256 = r.Seq, r.SHA256
		n.find("leak-across-results", at, got)
	}
	labelled := func(r *resultFact) bool {
		return r.Probes.GoldLabelNear || r.Probes.AnswerKeys > 0 && r.Probes.GoldHits > 0
	}
	var answers []*resultFact // at most two, of which one is another document than any result
	for _, r := range results {
		if len(answers) < 2 && thirdParty(r.Name) && labelled(r) && (len(answers) == 0 || answers[0].SHA256 != r.SHA256) {
			answers = append(answers, r)
		}
	}
	var union []bool
	var gold *resultFact
	parts := map[string]bool{}
	for _, r := range results {
		if !thirdParty(r.Name) {
			continue
		}
		if r.Probes.QCovNoEcho >= probe.WholeQuestion && !r.Probes.GoldNear {
			for _, other := range answers {
				if other.SHA256 != r.SHA256 {
					found(other, fmt.Sprintf("the labelled gold answer, and %d of 1000 of the question's text in another result", r.Probes.QCovNoEcho))
					return
				}
			}
			continue
		}
		if r.Shares == nil {
			continue
		}
		parts[r.SHA256] = true
		union = probe.Union(union, r.Shares)
		if gold == nil && r.Probes.GoldLabelNear {
			gold = r
		}
	}
	if gold != nil && probe.Share(union) >= probe.WholeQuestion {
		found(gold, fmt.Sprintf("the labelled gold answer with a part of the question, of which %d results have %d of 1000", len(parts), probe.Share(union)))
	}
}

// hostOfA returns the host of the first address of an answer source that was reached with such a status; "" for
// none. What was refused beforehand has no status.
func hostOfA(urls []trajectory.URL, reached func(status int) bool) string {
	for _, u := range urls {
		if reached(u.Status) && policy.Classify(u.URL) == policy.ClassA {
			if parsed, err := url.Parse(u.URL); err == nil && parsed.Host != "" {
				return parsed.Host // what is asked of it may hold the answer
			}
			return "in an address without a host"
		}
	}
	return ""
}
