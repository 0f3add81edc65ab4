package audit

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// builtin reports whether a tool is one of this program's own, whose arguments
// it knows the meaning of. Of any other tool every argument may be run, opened
// or fetched.
func builtin(tool string) bool { return slices.Contains(policy.BuiltinTools(), tool) }

// runs reports whether what a tool is given may be run, and may make files.
func runs(tool string) bool { return tool == "python" || !builtin(tool) }

// reads reports whether a tool gives what is in one file of the workspace.
func reads(tool string) bool {
	return tool == "read_file" || tool == "transcribe_audio" || tool == "describe_image"
}

// thirdParty reports whether a tool brings in what others have written: not the
// attachment, nor what the agent's own code makes.
func thirdParty(tool string) bool {
	return tool == "web_fetch" || tool == "web_search" || !builtin(tool)
}

// propose looks at a call's arguments with the rules that the Gate has, and
// holds it against the reply that it should come from.
func (t *following) propose(a *AttemptEvidence, ev trajectory.Event, p trajectory.ToolProposed) {
	values, text := []string{p.Malformed}, p.Name+"\n"+p.Malformed+"\n"
	for _, name := range slices.Sorted(maps.Keys(p.Args)) {
		values = append(values, p.Args[name])
		text += fmt.Sprintf("%q: %s\n", name, p.Args[name])
	}
	c := &CallFact{ID: p.CallID, Name: p.Name, Turn: ev.Turn, Proposed: ev.Seq, Decided: -1, Foreign: !t.turn.came(p),
		Cut: len(p.ArgsTruncated) > 0 || p.Redactions > 0, args: strings.Join(values, "\n"), text: text}
	if t.turn.replied && len(a.Models) > 0 {
		a.Models[len(a.Models)-1].Called = true
	}
	c.echo = echoed(p.Name, p.Args, c.args)
	shown := p.Args // the most that the journal shows
	if text, whole := t.turn.texts[asked{p.CallID, p.Name, p.ArgsSHA256}]; whole && t.turn.asked != nil && c.Cut {
		c.told = true
		if args, err := policy.Arguments([]byte(text)); err == nil {
			c.echo, shown = echoed(p.Name, args, text), args
		}
	}
	if reads(p.Name) {
		c.Opens = p.Args["path"]
	}
	c.Attached = attached(c, a.FileName)
	if p.Name == "web_fetch" && !c.Cut && p.Args["archived"] == "" {
		c.Fetches = firstAddress(p.Args["url"])
	}
	c.Unread = len(p.ArgsTruncated) > 0 && !c.told
	c.argsSHA256, c.asks = p.ArgsSHA256, policy.CallOf(p.Name, shown)
	c.asks.TaskID, c.asks.Texts = t.Plan.TaskID, append(c.asks.Texts, p.Malformed)
	c.Reach = policy.Reaches(c.asks)
	t.seek(c)
	rules := policy.Decide(t.plan.anything, c.asks)
	c.Hits, c.refusal = rules.RuleIDs, "refused: "+rules.Reason
	c.Answers = policy.Source(t.plan.anything, policy.Call{Paths: c.asks.Paths}) != ""
	c.asks.Known = t.plan.tools[p.Name]
	if runs(p.Name) {
		ran := c.asks
		ran.Strings = append(slices.Clone(ran.Strings), p.Malformed) // which no tool should have got
		c.Loads = policy.Source(t.plan.anything, ran) != ""
		c.Hooks = policy.Hook(ran)
	}
	c.Grades = grades(p)
	if p.Name == "calculate" {
		c.expression = p.Args["expression"]
	}
	a.SaidQuestion = a.SaidQuestion || c.Cut || t.mostly(c.text)
	a.Calls = append(a.Calls, c)
	waiting := t.turn.waiting(p.CallID)
	waiting.undecided = append(waiting.undecided, c)
}

// echoed returns what a result may echo of a call's arguments. A page is asked for
// by its address alone, and that without its fragment.
func echoed(tool string, args map[string]string, all string) string {
	if tool != "web_fetch" {
		return all
	}
	address, _, _ := strings.Cut(args["url"], "#")
	return address
}

// firstAddress returns how an address that is asked for is recorded as reached; ""
// if it is none that can be reached.
func firstAddress(asked string) string {
	u, err := url.Parse(strings.TrimSpace(asked))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// came reports whether a proposal is one of the turn's reply, each of whose
// calls can be proposed once. Of a reply that is not shown whole nobody can say,
// but that it asks for no such call where all else of it is shown.
func (t *turn) came(p trajectory.ToolProposed) bool {
	if t.asked == nil {
		return t.replied && (t.marked == nil || asksFor(*t.marked, p))
	}
	key := asked{p.CallID, p.Name, p.ArgsSHA256}
	t.asked[key]--
	return t.asked[key] >= 0 && quotes(p, t.texts[key])
}

func (t *turn) waiting(id string) *pending {
	if t.calls[id] == nil {
		t.calls[id] = &pending{}
	}
	return t.calls[id]
}

// take returns the first call of the first queue that has one, and a new one if
// none has: something then happened that nobody proposed.
func (a *AttemptEvidence) take(ev trajectory.Event, id, name string, queues ...*[]*CallFact) *CallFact {
	for _, q := range queues {
		if len(*q) > 0 {
			c := (*q)[0]
			*q = (*q)[1:]
			return c
		}
	}
	c := &CallFact{ID: id, Name: name, Turn: ev.Turn, Proposed: -1, Decided: -1}
	a.Calls = append(a.Calls, c)
	return c
}

func (t *following) decide(a *AttemptEvidence, ev trajectory.Event, p trajectory.PolicyDecision) {
	waiting := t.turn.waiting(p.CallID)
	c := a.take(ev, p.CallID, "", &waiting.undecided)
	c.Decided, c.Decision = ev.Seq, p
	defer func() { c.asks = policy.Call{} }()
	if p.Decision == string(policy.Allow) {
		waiting.allowed = append(waiting.allowed, c)
		c.asks.Approved = c.Approved
		if d := policy.Decide(t.plan.policy, c.asks); d.Verdict != policy.Allow && len(d.RuleIDs) == 0 {
			c.Against = d.Reason
		}
	} else {
		waiting.refused = append(waiting.refused, c)
		c.Class = policy.Decide(t.plan.policy, c.asks).Class
	}
	if p.Shown != "" {
		c.Told = t.tells(p.Shown, c)
		message := trajectory.SentMessage{Content: p.Shown, Role: "tool", ToolCallID: p.CallID}
		t.talk.Result(p.CallID, sign.Digest(message.Canonical()), c.Name, int64(len(p.Shown)))
	}
}

// tells reports whether a refusal tells the model more of the answer than the
// call did that was refused. Refusals quote the call, and the schema that its
// arguments do not fit.
func (t *following) tells(shown string, c *CallFact) bool {
	if t.plan.refusals[shown] || t.tooLittleLeft(shown) || shown == c.refusal {
		return false
	}
	if text, schema, quoted := strings.Cut(shown, "; its parameters are "); quoted && t.plan.schemas[sign.Digest([]byte(schema))] {
		shown = text
	}
	own := t.prober.Probe(c.text+t.plan.words, "", nil)
	p := t.prober.Probe(shown, c.args, nil)
	return p.UUIDGoldNear || p.QCovNoEcho >= wholeQuestion && p.GoldNear || p.AnswerKeys > own.AnswerKeys || p.GoldHits > own.GoldHits
}

// tooLittleLeft reports whether a text is the refusal of a call that does not fit what
// is left of a budget, by what the journal shows to be left.
func (t *following) tooLittleLeft(shown string) bool {
	reason, ok := strings.CutPrefix(shown, "refused: "+policy.Budget+" ")
	b := t.plan.budgets
	return ok && (b.CostMicroUSD > 0 && reason == policy.OverMoney(max(b.CostMicroUSD-t.spent.cost, 0)) ||
		b.Tokens > 0 && reason == policy.OverTokens(max(b.Tokens-t.spent.tokens, 0)))
}

// refusalWords are the fixed words of refusals: a gold answer may be one of
// them. Refusals also name the tools.
const refusalWords = `
refused: there is no tool ""; the tools are
error: the arguments of calculate are not one JSON object: invalid character '' after object value (expecting ',' or '}')
unexpected EOF, cannot unmarshal, duplicate object member name, invalid UTF-8, at start of value, in string, within, literal, escape sequence
error: the arguments do not fit calculate: validating /properties/expression: type: it has type "integer", want "string"
required: missing properties: unexpected additional properties object array boolean null number
`

// budgetRefusals are the refusals of calls that do not fit the budgets.
func budgetRefusals(b ledger.Budgets) map[string]bool {
	reason := func(p policy.Policy, c policy.Call) string {
		p.Mode, p.Allow, c.Known = policy.Autonomous, []string{policy.EveryTool}, true
		return "refused: " + policy.Decide(p, c).Reason
	}
	return map[string]bool{
		"refused: " + policy.Budget + " " + policy.OverTime:                                                                               true,
		"refused: " + policy.Budget + " " + policy.UsedTokens(b.Tokens):                                                                   true,
		reason(policy.Policy{MaxToolCalls: b.ToolCalls, MaxCostMicroUSD: policy.Unlimited}, policy.Call{ToolCalls: b.ToolCalls}):          true,
		reason(policy.Policy{MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: b.CostMicroUSD}, policy.Call{CostMicroUSD: b.CostMicroUSD}): true,
	}
}

func (t *following) execute(a *AttemptEvidence, ev trajectory.Event, p trajectory.ToolExecuted) {
	waiting := t.turn.waiting(p.CallID)
	c := a.take(ev, p.CallID, p.Name, &waiting.allowed, &waiting.refused, &waiting.undecided)
	c.Result = t.result(ev.Seq, p, c)
	t.oracle(a, c, p)
	c.Miscalculated = t.calculated(c, p)
	c.args, c.text, c.echo, c.expression = "", "", "", ""
	t.talk.Result(p.CallID, p.ShownSHA256, p.Name, p.ShownBytes)
	if p.Model != nil {
		a.Unpriced = a.Unpriced || p.Model.CostMicroUSD == nil
		t.spent.use(p.Model.Tokens, p.Model.CostMicroUSD)
	}
}

// resultOf returns what a result shows by itself.
func resultOf(seq int64, p trajectory.ToolExecuted) *ResultFact {
	h := headOf(p)
	r := &ResultFact{Seq: seq, Name: p.Name, SHA256: p.OutputSHA256, IsError: p.IsError, Model: p.Model, URLs: len(p.URLs), ClassA: classA(p.URLs), ReachedA: reachedA(p.URLs),
		Short: p.Bytes <= shortResult, Unprobed: p.Probes == nil && !h.whole(), Overlong: h.overlong()}
	if len(p.URLs) > 0 {
		r.First = p.URLs[0].URL
	}
	if p.Probes != nil {
		r.Probes = *p.Probes
	}
	return r
}

func headOf(p trajectory.ToolExecuted) head {
	return head{p.Head, p.Bytes, p.OutputSHA256, p.Redactions, trajectory.ResultHead}
}

// result returns a result with the graver ones of the probes that it shows and
// those of its head.
func (t *following) result(seq int64, p trajectory.ToolExecuted, c *CallFact) *ResultFact {
	r := resultOf(seq, p)
	var reached []string
	for _, u := range p.URLs {
		if u.Status == 0 {
			continue
		}
		reached = append(reached, u.URL)
	}
	var shares []bool
	text := headOf(p).words()
	r.Probes, shares = t.prober.probe(text, c.echo, reached)
	unknown := c.Cut && !c.told
	if body, ok := t.bodies.text(r.SHA256); ok { // what it only echoes cannot be told where the arguments were cut
		var whole trajectory.Probes
		text = body
		whole, shares = t.prober.probe(text, c.echo, reached)
		r.Probes, r.Unprobed, r.Overlong = graver(r.Probes, whole), r.Unprobed && unknown, false
	} else if body, ok := t.bodies.text(p.BodySHA256); ok { // it shows more than the head, but not what was taken out
		var most trajectory.Probes
		text = body
		most, shares = t.prober.probe(text, c.echo, reached)
		r.Probes = graver(r.Probes, most)
	}
	if r.Probes.QCov >= wholeQuestion && r.Probes.QCovNoEcho < wholeQuestion {
		if !t.mostly(c.echo) { // or the search engine may have mended what the call had said
			r.Quoted = t.prober.quoted(text, c.echo)
		}
	}
	if unknown { // what the arguments said, and the result may echo
		r.Probes.QCovNoEcho, r.Probes.GoldNear, r.Probes.QGoldCalled, r.Probes.ChangedQuestion, r.Quoted = 0, false, false, false, quotation{}
	} else if thirdParty(p.Name) && share(shares) >= partOfQuestion {
		r.Shares = shares
	}
	if p.Probes != nil {
		r.Probes = graver(r.Probes, *p.Probes)
	}
	r.Few = t.prober.few()
	r.Unheard = unknown && r.Probes.QCov >= wholeQuestion && r.Probes.GoldHits > 0
	return r
}

// mostly reports whether a text has most words of the task's question.
func (t *following) mostly(text string) bool {
	said, asked, had := map[string]bool{}, 0, 0
	for word := range wordsOf(text) {
		said[word] = true
	}
	for word := range wordsOf(t.question) {
		if asked++; said[word] {
			had++
		}
	}
	return 2*had > asked
}

// wordsOf yields the words of a text in its canonical form.
func wordsOf(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(string(canonicalText(text).b), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// opened returns the form in which names of files are compared: file systems
// may take letters of either case for the same.
func opened(name string) string {
	return strings.ToLower(path.Clean(strings.ReplaceAll(name, `\`, "/")))
}
