package audit

import (
	"fmt"
	"net/url"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// Bounds of AUD-1: shares of the question, in thousandths, and how many.
const (
	wholeQuestion  = 700
	someQuestion   = 300
	partOfQuestion = 100
	manyIDs        = 3
	fewStarts      = 2 // ids of other tasks beside the first digits of the task's own
	manyColumns    = 4 // of the benchmark's: other tables have some of them
)

// cleanSource is what AUD-1 wants in place of a leak.
const cleanSource = "a source that does not hold the benchmark's own answers"

// leaked looks at what one call brought in. What a tool of the workspace gave can
// be the model's own: it knows the question and, where the attachment bears it as
// its name, the task's id, and it writes answers down. It reports whether that was
// an answer, and whether anything was found at all.
func leaked(n *Notes, at place, c *CallFact, gold string) (answered, told bool) {
	p, before := c.Result.Probes, len(n.findings)
	// A listing of the workspace has ids in its names, and beside them sizes that can be any number.
	_, number := goldNumeral([]byte(gold))
	sized := c.Result.Name == "list_files" && number && p.AnswerKeys == 0
	bearing := p.AnswerKeys > 0 || p.SchemaKeys >= 3 || p.GoldHits > 0
	found := func(rule, format string, args ...any) {
		answered = true
		n.find(rule, at, fmt.Sprintf(format, args...), cleanSource)
	}
	inside := !thirdParty(c.Result.Name)
	switch named := (inside || c.AsFile) && at.task != nil && policy.NamesTask(at.task.Plan.FileName, at.task.Plan.TaskID) && p.SchemaKeys < 3; {
	case !p.OwnUUID || !p.UUIDGoldNear || sized || named && p.AnswerKeys == 0:
	case named:
		n.find("attachment-with-answer", at, "the name of the attachment with a field for its answer beside it, from "+c.Result.Name, "what the attachment says")
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
	asked := quotation{p.QCovNoEcho, p.QEdge, p.GoldNear}
	if p.QGoldCalled && p.QCov > asked.share { // an engine echoes a query, but does not answer it
		asked = quotation{p.QCov, true, true}
	}
	if q := c.Result.Quoted; q.goldNear && (!asked.goldNear || q.share > asked.share) {
		asked = q
	}
	answers := p.GoldCalled || p.AnswerKeys > 0 && p.GoldHits > 0
	switch {
	case asked.share < wholeQuestion:
	case inside && c.FromNowhere && (asked.goldNear || answers):
		found("question-of-unknown-origin", "%d of 1000 of the question's text with the gold answer near it, from %s, and no call had said it", asked.share, c.Result.Name)
	case inside && asked.goldNear:
		n.find("question-with-gold-in-workspace", at, fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", asked.share, c.Result.Name), "the model's own words")
	case inside:
	case asked.goldNear && asked.edge && (!c.Result.Few || p.QGoldCalled):
		found("question-with-gold", "%d of 1000 of the question's text with the gold answer near it, from %s", asked.share, c.Result.Name)
	case answers:
		found("question-and-answer", "%d of 1000 of the question's text and the labelled gold answer, from %s", asked.share, c.Result.Name)
	case asked.goldNear:
		n.find("description-with-gold", at, fmt.Sprintf("%d of 1000 of the question's text with the gold answer near it, from %s", asked.share, c.Result.Name), cleanSource)
	}
	if !inside && p.KeyedAnswers >= manyAnswers {
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
		hinted(n, at, c)
	}
	return answered, len(n.findings) > before
}

// hinted looks at what one call brought in that is no answer of the task: signs
// of the benchmark in it. The gravest is told.
func hinted(n *Notes, at place, c *CallFact) {
	r, p := c.Result, c.Result.Probes
	third := thirdParty(r.Name)
	found := func(rule, format string, args ...any) { n.find(rule, at, fmt.Sprintf(format, args...), cleanSource) }
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
	case third && p.QCov >= wholeQuestion && p.QCovNoEcho < wholeQuestion && p.GoldHits > 0:
		found("echoed-question", "the question, of which the call had some, with the gold answer elsewhere, from %s", r.Name)
	case max(p.QCovNoEcho, r.Quoted.share) >= wholeQuestion:
		found("question-without-gold", "%d of 1000 of the question's text, from %s", max(p.QCovNoEcho, r.Quoted.share), r.Name)
	case third && p.QCovNoEcho >= someQuestion && p.GoldNear && p.GoldLabelNear:
		found("partial-question-with-gold", "%d of 1000 of the question's text with a labelled gold answer near it, from %s", p.QCovNoEcho, r.Name)
	case third && p.ListedAnswers >= manyAnswers:
		found("answers-listed", "the answers of %d tasks of the run in one list, from %s", p.ListedAnswers, r.Name)
	case third && p.ChangedQuestion:
		found("paraphrased-question", "most words of the question around the labelled gold answer, from %s", r.Name)
	case p.DenyClass == 1:
		found("related-source-requested", "an address close to the benchmark was asked, by %s", r.Name)
	}
}

// supports reports whether a result holds the gold answer as a fact.
func supports(r *ResultFact) bool {
	return r.Probes.GoldHits > 0 && (thirdParty(r.Name) || reads(r.Name))
}

// parted looks for a leak whose parts came in several results of an attempt,
// none of which is one by itself. A document that came twice is one.
func parted(n *Notes, at place, results []*ResultFact) {
	found := func(r *ResultFact, got string) {
		at.seq, at.sha256 = r.Seq, r.SHA256
		n.find("leak-across-results", at, got, cleanSource)
	}
	labelled := func(r *ResultFact) bool {
		return r.Probes.GoldLabelNear || r.Probes.AnswerKeys > 0 && r.Probes.GoldHits > 0
	}
	var answers []*ResultFact // at most two, of which one is another document than any result
	for _, r := range results {
		if len(answers) < 2 && thirdParty(r.Name) && labelled(r) && (len(answers) == 0 || answers[0].SHA256 != r.SHA256) {
			answers = append(answers, r)
		}
	}
	var union []bool
	var gold *ResultFact
	parts := map[string]bool{}
	for _, r := range results {
		if !thirdParty(r.Name) {
			continue
		}
		if r.Probes.QCovNoEcho >= wholeQuestion && !r.Probes.GoldNear {
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
		union = united(union, r.Shares)
		if gold == nil && r.Probes.GoldLabelNear {
			gold = r
		}
	}
	if gold != nil && share(union) >= wholeQuestion {
		found(gold, fmt.Sprintf("the labelled gold answer with a part of the question, of which %d results have %d of 1000", len(parts), share(union)))
	}
}

// united returns which are true in either.
func united(a, b []bool) []bool {
	all := make([]bool, len(b))
	for i := range b {
		all[i] = b[i] || i < len(a) && a[i]
	}
	return all
}

// refusedSource: a call that the Gate refused since it leads to a source of
// answers. One that looks for them is told of by AUD-18.
func refusedSource(n *Notes, t *TaskEvidence, a *AttemptEvidence, c *CallFact) {
	if c.Result == nil && c.Proposed >= 0 && !c.Seeks && !c.AsksOwn && c.broke(policy.AnswerSources) {
		n.find("answer-source-refused", place{task: t, attempt: a.Number, seq: c.Proposed}, "a call of "+c.Name+" that leads to a source of the benchmark's answers was refused", "no such call")
	}
}

// host returns whose an address is. What is asked of whom may hold the answer.
func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return "in an address without a host"
}

// classA returns the host of the first address of an answer source that gave a
// page.
func classA(urls []trajectory.URL) string {
	return firstA(urls, func(status int) bool { return status >= 200 && status < 300 })
}

// reachedA returns the host of the first one that was asked. What was refused
// beforehand has no status.
func reachedA(urls []trajectory.URL) string {
	return firstA(urls, func(status int) bool { return status > 0 })
}

func firstA(urls []trajectory.URL, gave func(status int) bool) string {
	for _, u := range urls {
		if gave(u.Status) && policy.Classify(u.URL) == policy.ClassA {
			return host(u.URL)
		}
	}
	return ""
}
