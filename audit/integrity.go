package audit

import (
	"cmp"
	_ "embed" // schemas
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/calc"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

var trajectoryIntegrity = Check{
	ID: "AUD-12", Name: "trajectory-integrity", Severity: Critical, Gate: true,
	Title: "the run followed its plan, its calls and answers are the model's, and its verdicts follow from them",
	Why: "a plan that another run was made under proves nothing about this one, nor does an answer that the model did not give, " +
		"or gave after others had been thrown away; requests are compared with the recorded events: that no other request was sent is the recorder's word, " +
		"and in which order a turn's results were shown is not checked. An own agent makes its prompts, calls and answers itself: of it only what is recorded is compared with itself",
	Fix:   "run the plan with the program as it is",
	Skips: "recording failed, digests alone were recorded, the gold answers are not at hand, an answer is not shown, or the plan has templates, rules or a null battery that this version does not know",
	Rules: []Rule{
		{"answer-differs", Critical, 3, "a committed answer, or a reasoning for it, that the model's last reply does not give", "what the model gave last"},
		{"in-reply-differs", Critical, 1, "an answer of an own agent that is said to be in a reply, where all replies are shown and none holds it", "an answer that a reply holds"},
		{"origin-differs", Critical, 1, "an answer of an own agent, or bytes of what it sends, that are said to have stood before where the journal shows that they did not", "where they stood"},
		{"head-differs", Critical, 3, "a head that cannot be of a body of the recorded size and digest, or arguments that cannot have been cut or rid of secrets as is said, or a part of a reply that is said to be none", "the beginning of the body"},
		{"discarded-answer", Critical, 1, "an answer that the model gave and that was not committed", "the answer that the model gave first"},
		{"attempts-beyond-plan", Critical, 2, "attempts that the plan has no reason for", "as many attempts as the plan has"},
		{"proposal-differs", Critical, 3, "a call that the reply of its turn does not ask for in these words", "the calls that the model asked for"},
		{"prompt-differs", Critical, 2, "a message that is not what the plan's templates, the tools and the model give, or a request without one that they give", "a conversation that grows with every turn"},
		{"policy-differs", Critical, 2, "a decision, or a resumption, under another policy than the plan's, or a decision that no policy gives", "those of the plan"},
		{"result-replaced", Critical, 1, "something told in place of the result of a call that was allowed", "the result alone"},
		{"allowed-against-policy", Critical, 1, "a call that was allowed though the plan's policy does not", "a call that the plan's policy allows"},
		{"allowed-against-rules", Critical, 1, "a call or an exchange that ran though it breaks a rule", "a call that the Gate refuses"},
		{"ran-without-decision", Critical, 1, "a call that ran without having been proposed and allowed", "proposed, allowed, run"},
		{"tool-mismatch", Critical, 1, "another tool that ran for a call than the one asked for", "the tool that was asked for"},
		{"address-differs", Critical, 1, "a page that web_fetch got without having asked for the call's address first", "the address that was asked for, and then where it led"},
		{"calculation-differs", Critical, 1, "a result of calculate that is not the value of its expression", "the value that calculate gives"},
		{"tool-not-planned", Critical, 1, "a tool that ran and is not in the plan", "a tool of the plan"},
		{"model-differs", Critical, 2, "another model that was asked than the planned one", "the model that the plan has for it"},
		{"search-differs", Critical, 1, "another search engine that was asked than the planned one", ""},
		{"workspace-differs", Critical, 1, "a workspace that is not what the attempt began with, where no call could change it", "the files that the attempt began with"},
		{"budget-exceeded", Critical, 2, "turns beyond the plan's budgets, or a call or a turn after its calls, tokens or money were used up", "one more turn, for the answer alone"},
		{"judge-self-test-differs", Critical, 1, "a null battery that is not the plan's, or not all of it", ""},
		{"judge-differs", Critical, 1, "a verdict of another judge than the planned one", "the judge of the plan"},
		{"scoring-path-inconsistent", Critical, 2, "verdicts that do not go with the path they name, or of a judge asked more often than it ever is", "official first, then the judge of the plan, if it has one"},
		{"judge-self-test-not-passed", Critical, 1, "a verdict of a judge that had not passed its self-test, the null battery", "not judged"},
		{"verdict-differs", Critical, 1, "an official verdict that the official scorer does not give", "the verdict that the official scorer gives"},
		{"replayed", High, 1, "answers that come from a recording and not from a model", "answers that the model was asked for in this run"},
		{"preflight-missing", High, 1, "no request to the model before the tasks, in a run that is neither a rehearsal nor a replay and whose plan does not leave it out", "the requests that the plan does not leave out"},
		{"judge-self-test-incomplete", ToReview, 1, "items of the null battery that did not reach the judge", "a judge that called all of them incorrect"},
		{"judge-self-test-not-planned", ToReview, 1, "verdicts of a judge whose plan names no null battery", "a judge that passed its self-test"},
		{"rollback-incorrect", ToReview, 1, "a workspace that was put back and is not as it had been", "the same tree"},
		{"rollback-missing", ToReview, 1, "a turn that broke rules and whose workspace was not put back", "a rollback"},
		{"violation-missing", ToReview, 2, "a denial by a rule, the deny list, the mode or a budget without a violation of its class", "a violation"},
		{"time-exceeded", ToReview, 1, "a turn that was begun after the time was up", ""},
		{"run-budget-exceeded", ToReview, 1, "a turn that was begun after the money of the run, or of its shard, was spent", "none but one for the answer"},
		{"torn-tail", ToReview, 1, "an unfinished last line of the journal that was cut when the run was taken up again", "a journal that ends with a whole line"},
		{"scaffold-call", Info, 1, "calls of an own agent whose arguments stand in no reply before them", "for the record: the agent's own program made them"},
	},
	run: checkPlan,
}

// checkPlan compares a run with its plan, attempt by attempt.
func checkPlan(e *evidence, n *notes) {
	n.gapIf(e.Marked != "", "recording failed: %s", e.Marked)
	n.gapIf(e.blind(), "%s: verdicts cannot be computed again", noGold)
	hashesOnly(e, n)
	n.findIf(e.Manifest.Cassette == plan.CassetteReplay, "replayed", place{given: true}, "the model's answers come from a recording")
	if m := e.Manifest; !m.Rehearsal && !m.NoPreflight && m.Cassette != plan.CassetteReplay {
		n.findIf(len(e.Preflight) == 0, "preflight-missing", place{given: true}, "no model was asked anything before the tasks")
		for _, j := range e.Journals {
			n.findIf(len(e.Preflight) > 0 && j.Tasks && !j.Asked, "preflight-missing", place{seq: j.Began, given: true}, "no model was asked anything before the tasks of "+j.name())
		}
	}
	known := e.Manifest.ConstitutionSHA256 == canonical.Digest(policy.Constitution(e.Manifest.Policy)) // the plan's rules are this version's
	n.gapIf(!known, "the rules of the plan are not those of this version: calls that they allowed cannot be checked by these")
	if j := e.Manifest.Judge; j != nil && !slices.ContainsFunc(prompt.Templates(), func(t prompt.Template) bool {
		planned := slices.ContainsFunc(e.Manifest.Prompts, func(p plan.Prompt) bool { return p.ID == t.ID && p.Text == t.Text })
		return planned && t.ID == j.Prompt && t.Digest() == j.PromptSHA256
	}) {
		n.gap("the judge's template %q is not one that the plan has and this version knows", j.Prompt)
	}
	checkSelfTests(e, n)
	for _, r := range e.Resumed {
		if t := r.Event.Torn; t != nil {
			n.find("torn-tail", place{seq: r.Seq, given: true}, fmt.Sprintf("an unfinished last line of %d bytes, cut when the run was taken up again", t.Bytes))
		}
		n.findIf(r.Event.PolicyHash != e.Manifest.PolicyHash || r.Event.PolicyMode != e.Manifest.PolicyMode || r.Event.GuidanceHash != e.Manifest.GuidanceHash, "policy-differs", place{seq: r.Seq}, "the run went on under another policy or other rules")
	}
	planned := map[string]bool{}
	for _, t := range e.Manifest.Tools {
		planned[t.Name] = true
	}
	spent := n.aside()
	each := func(t *taskEvidence, a *attemptEvidence) {
		checkCalls(e, n, t, a, planned, known)
		if known {
			checkExchanges(n, t, a)
		}
		if m := a.OtherModel; m != nil {
			n.find("model-differs", t.at(a, m.Seq), fmt.Sprintf("the model %q was asked", m.Requested), fmt.Sprintf("the planned %q", e.Manifest.Model.Name))
		}
		own := e.Manifest.Agent != nil // whose prompts, calls and answers are its own
		for _, p := range a.Prompts {
			at := t.at(a, p.Seq)
			n.findIf(p.Stale, "prompt-differs", at, "a request lists no more messages than the one before it")
			n.findIf(p.Short && !p.Stale, "prompt-differs", at, "a request leaves out a reply or a result since the one before it", "all that the model said and was shown")
			n.findIf(p.Differs, "prompt-differs", at, "what a request adds is not the messages that it lists for the first time", "those messages and nothing else")
		}
		for _, o := range a.Odd {
			if own {
				break
			}
			if o.Unknown {
				n.gap("the plan's template for messages of source %q is not one that this version knows", o.Source)
				continue
			}
			n.find("prompt-differs", place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256}, "a message of source "+o.Source+" is not what the plan's templates give", "the planned template, filled in")
		}
		checkViolations(n, t, a)
		if own {
			checkScaffold(n, t, a)
			n.findIf(a.Unheld, "in-reply-differs", t.at(a, a.Committed), "an answer that is said to be in a reply, and no reply of the attempt holds it")
			n.findIf(a.Misstated > 0, "origin-differs", t.at(a, a.Misstated), "a request with bytes that are said to have stood in what the attempt was given, and all of that is shown and does not hold them")
			n.findIf(a.Misplaced, "origin-differs", t.at(a, a.Committed), "an answer that is said to have stood where the attempt had nothing, or in a question that does not hold it")
		} else { // which alone has a workspace that nothing else changes
			checkRollbacks(e, n, t, a)
			checkWorkspaceCopy(n, t, a)
			checkAnswer(n, t, a)
		}
		if h := a.Contradicts; h != nil {
			n.find("head-differs", t.at(a, h.Seq), "the head of a "+string(h.Of)+" is not that of a body of its size and digest")
		}
		checkJudgment(e, n, t, a)
	}
	e.eachTask(func(t *taskEvidence) {
		for _, a := range t.Attempts {
			each(t, a)
		}
		checkRetries(e, spent, t)
		checkBudgets(e, spent, t)
	})
	n.join(spent)
}

// checkAnswer compares the committed answer with the last reply before it: there must be one. What the journal does
// not show of a reply cannot be compared: that its answer is the one committed is the signer's word.
func checkAnswer(n *notes, t *taskEvidence, a *attemptEvidence) {
	if a.Answer == nil {
		return
	}
	if last := a.lastReply(a.Committed); last != nil && last.gives(a.Answer) {
		hidden := last.Marked && last.Answers && strings.Contains(last.Answer.Text, trajectory.Redacted)
		n.gapIf(hidden && !strings.Contains(a.Answer.Answer, trajectory.Redacted), "the answer of a reply is not shown, as if it were a secret, and the committed one is")
		return
	}
	n.find("answer-differs", t.at(a, a.Committed), "an answer, or a reasoning for it, that the model's last reply does not give")
}

// checkCalls compares an attempt's tool calls with the plan, the replies that they come from and what was decided;
// known says that the plan's rules are this version's.
func checkCalls(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence, planned map[string]bool, known bool) {
	for _, c := range a.Calls {
		if c.Foreign && e.Manifest.Agent == nil {
			n.find("proposal-differs", t.at(a, c.Proposed), "a call of "+c.Name+" that the reply of its turn does not ask for")
		}
		decided := t.at(a, c.Decided)
		allowed := c.Decided >= 0 && c.Decision.Decision == string(policy.Allow)
		if c.Decided >= 0 && (c.Decision.PolicyHash != e.Manifest.PolicyHash || c.Decision.Mode != e.Manifest.PolicyMode) {
			n.find("policy-differs", decided, "a call was decided under another policy", "the policy of the plan")
		}
		if c.Decided >= 0 && !slices.Contains([]policy.Verdict{policy.Allow, policy.Deny, policy.Confirm}, policy.Verdict(c.Decision.Decision)) {
			n.find("policy-differs", decided, fmt.Sprintf("a call was decided as %q", c.Decision.Decision), "allow, deny or confirm")
		}
		if allowed && c.Decision.Shown != "" {
			n.find("result-replaced", decided, "the model was told something in place of the result of a call that was allowed")
		}
		if c.Against != "" {
			n.find("allowed-against-policy", decided, "a call of "+c.Name+" was allowed, of which the policy says: "+c.Against)
		}
		if c.Result == nil {
			continue
		}
		at := place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}
		if c.Proposed < 0 || !allowed {
			n.find("ran-without-decision", at, "a call of "+c.Result.Name+" ran that was not proposed or not allowed")
		}
		if c.Proposed >= 0 && c.Result.Name != c.Name {
			n.find("tool-mismatch", at, "the tool "+c.Result.Name+" ran for a call of "+c.Name)
		}
		broken := c.Decision.RuleIDs // by the Gate's look at it and, where the plan's rules are those of this version, by the audit's
		if known {
			broken = slices.Concat(c.Hits, broken)
		}
		if slices.ContainsFunc(broken, func(rule string) bool { return rule != policy.Budget }) {
			n.find("allowed-against-rules", at, "a call of "+c.Name+" ran that breaks a rule")
		}
		if c.Fetches != "" && !c.Result.IsError && e.Manifest.Evidence != plan.EvidenceHashes && c.Result.First != c.Fetches && !strings.Contains(c.Result.First, trajectory.Redacted) {
			n.find("address-differs", at, "a page of another address than the one asked for, or of none")
		}
		if c.Miscalculated {
			n.find("calculation-differs", at, "a result of calculate that is not the value of its expression")
		}
		if !planned[c.Result.Name] {
			n.find("tool-not-planned", at, "the tool "+c.Result.Name+" ran")
		}
		switch r := c.Result; {
		case r.Model != nil && (!asksModel(r.Name) || r.Model.RequestedModel == "" || r.Model.RequestedModel != plannedModel(e.Manifest, r.Name)):
			n.find("model-differs", at, fmt.Sprintf("%s asked the model %q", r.Name, r.Model.RequestedModel))
		case asksModel(r.Name) && !r.IsError && (r.Model == nil || r.Model.Tries < 1):
			n.find("model-differs", at, r.Name+" gave a result that no model was asked for")
		}
		if p := e.Manifest.Search; p != nil && c.Result.Name == "web_search" && !strings.HasPrefix(c.Result.First+"/", p.Origin+"/") && c.Result.First != "" && !strings.HasPrefix(c.Result.First, p.Origin+"?") {
			n.find("search-differs", at, "web_search asked another engine than the plan has", "the planned "+p.Origin)
		}
	}
}

// checkExchanges compares the exchanges of an attempt with the rules of the plan, which are this version's.
func checkExchanges(n *notes, t *taskEvidence, a *attemptEvidence) {
	for _, c := range a.Network {
		n.findIf(len(c.Hits) > 0 && c.Decision.Decision == string(policy.Allow), "allowed-against-rules", t.at(a, c.Proposed), "an exchange that breaks a rule went out")
	}
}

// checkRollbacks compares the turns of an attempt that broke rules with what autonomous mode promises of them. An
// attempt without files has nothing to put back.
func checkRollbacks(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence) {
	restored := map[int]bool{} // turns
	for _, r := range a.Rollbacks {
		restored[r.Turn] = true
		n.findIf(!r.Correct, "rollback-incorrect", t.at(a, r.Seq), "a workspace that was put back is not as it had been at the start of the turn")
	}
	writes := slices.ContainsFunc(e.Manifest.Tools, func(t plan.ToolPlan) bool { return t.Name == "python" })
	if e.Manifest.Policy.Mode != policy.Autonomous || len(a.Workspace) == 0 && !writes {
		return
	}
	for _, b := range a.Broken {
		n.findIf(!restored[b.Turn] && !a.cutOff(b.Turn), "rollback-missing", t.at(a, b.Seq), "a turn that broke rules, and whose workspace was not put back")
	}
}

// checkViolations compares denials with what is recorded of them: each denial by a rule, the deny list, the mode or
// a budget has a violation of its class. Of a call whose arguments are not shown whole nothing shows which rules it
// broke.
func checkViolations(n *notes, t *taskEvidence, a *attemptEvidence) {
	denied := slices.Clone(a.Denied) // each is of one call
	for _, c := range a.Calls {
		class := c.Class
		if slices.ContainsFunc(c.Decision.RuleIDs, func(rule string) bool { return rule != policy.Budget }) {
			class = policy.DeniedByRule
		} else if class == "" && len(c.Decision.RuleIDs) > 0 {
			class = policy.DeniedByBudget
		}
		if c.Decided < 0 || c.Decision.Decision == string(policy.Allow) || class == "" || class == policy.DeniedByRule && len(c.Decision.RuleIDs) == 0 {
			continue
		}
		if at := slices.Index(denied, denialFact{c.Turn, c.ID, class}); at >= 0 {
			denied = slices.Delete(denied, at, at+1)
		} else if !a.cutOff(c.Turn) {
			n.find("violation-missing", t.at(a, c.Decided), fmt.Sprintf("a call that was denied (%s), and no violation of that class", class))
		}
	}
}

// checkWorkspaceCopy compares the first copy of a workspace, made before any tool could change it, with what the
// attempt began with.
func checkWorkspaceCopy(n *notes, t *taskEvidence, a *attemptEvidence) {
	began := map[string]string{}
	for _, f := range a.Workspace {
		began[f.Path] = f.SHA256
	}
	switch w := a.Ended; {
	case a.Kept != nil:
		differs := func(f trajectory.File) bool { return began[f.Path] != f.SHA256 }
		n.findIf(len(began) != len(a.Kept.Workspace) || slices.ContainsFunc(a.Kept.Workspace, differs), "workspace-differs", t.at(a, a.Begun),
			"the first copy of the workspace is not of the files that the attempt began with", "those files")
	case w != nil && w.Workspace != nil && len(w.Workspace.Files) > 0:
		n.find("workspace-differs", t.at(a, a.EndedAt), "a workspace changed that no call could change")
	}
}

// cutOff reports whether an attempt ended in a turn by an interruption.
func (a *attemptEvidence) cutOff(turn int) bool {
	return (turn == len(a.Turns) || a.Sent > 0) && (a.Ended == nil || a.Ended.Outcome == trajectory.Errored)
}

// asksModel reports whether a tool's results are made by a model.
func asksModel(tool string) bool { return tool == "transcribe_audio" || tool == "describe_image" }

// plannedModel is the model that the plan has for who asks it, "" for none.
func plannedModel(m plan.Plan, who string) string {
	switch {
	case who == theAgent:
		return m.Model.Name
	case who == theJudge && m.Judge != nil:
		return m.Judge.Model
	case who == "transcribe_audio" && m.Transcription != nil:
		return m.Transcription.Model
	case who == "describe_image" && m.Vision != nil:
		return m.Vision.Model
	}
	return ""
}

// checkSelfTests compares what the journal says of null batteries with the one that the plan names, as far as this
// version knows it.
func checkSelfTests(e *evidence, n *notes) {
	plan := e.Manifest.Judge
	switch {
	case plan == nil:
		return
	case plan.Battery == "":
		if first := e.firstByJudge(); first >= 0 {
			n.find("judge-self-test-not-planned", place{seq: first, unused: true}, "verdicts of a judge without a self-test: the plan names no null battery")
		}
		return
	case plan.Battery != judge.BatteryDigest():
		n.gap("the null battery of the plan is not one that this version knows")
		return
	}
	var names []string
	for _, item := range judge.Battery() {
		names = append(names, item.Name)
	}
	for _, b := range e.Batteries {
		unknown := slices.ContainsFunc(slices.Concat(b.Event.Accepted, b.Event.Refused, b.Event.Unreadable), func(name string) bool { return !slices.Contains(names, name) })
		whole := b.Event.Asked == len(names)
		n.findIf(unknown || b.Event.Asked > len(names) || !b.Event.Cached && whole != (b.Event.Problem == ""), "judge-self-test-differs", place{seq: b.Seq}, fmt.Sprintf("a null battery of %d items, or of others than the plan's", b.Event.Asked), fmt.Sprintf("its %d items", len(names)))
		if refused := len(b.Event.Refused); refused > 0 && b.Event.Passed {
			n.find("judge-self-test-incomplete", place{seq: b.Seq, unused: true}, fmt.Sprintf("%d of %d items of the null battery did not reach the judge", refused, len(names)))
		}
	}
}

// firstByJudge returns the line of the first verdict of the LLM judge; -1 if there is none.
func (e *evidence) firstByJudge() int64 {
	first := int64(-1)
	e.each(func(_ *taskEvidence, a *attemptEvidence) { first = a.earlierByJudge(first) })
	return first
}

// earlierByJudge returns the line of the attempt's verdict by the LLM judge, if it has one and that is before a line or there is
// no such line, which is -1 then; else that line.
func (a *attemptEvidence) earlierByJudge(first int64) int64 {
	if a.Judgment != nil && a.Judgment.Path == judge.PathJudge && (first < 0 || a.Judged < first) {
		return a.Judged
	}
	return first
}

// mostAsked is how often the judge is asked about one answer: for a reply that can be read, and once more about
// another answer where it was forbidden to reply. What the transport tries again is not among them.
const mostAsked = judge.DefaultTries + 1

// checkJudgment compares a judgment with the plan, the answer and itself.
func checkJudgment(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence) {
	j := a.Judgment
	if j == nil || a.Answer == nil {
		return
	}
	at := t.at(a, a.Judged)
	if e.Gold != nil && j.Official != e.credits(t, a) {
		n.find("verdict-differs", at, fmt.Sprintf("official verdict %v", j.Official))
	}
	byModel := j.Path == judge.PathJudge || j.Path == judge.PathUnreadable || j.Path == judge.PathError
	plan := e.Manifest.Judge
	if byModel && (plan == nil || j.Model != plan.Model || j.Prompt != plan.Prompt) {
		n.find("judge-differs", at, fmt.Sprintf("judged by %q with %q", j.Model, j.Prompt))
	}
	if !consistent(*j, plan) {
		n.find("scoring-path-inconsistent", at, "verdicts that do not go with the path "+j.Path)
	}
	if j.Tries > mostAsked {
		n.find("scoring-path-inconsistent", at, fmt.Sprintf("a judge that was asked %d times about one answer", j.Tries), fmt.Sprintf("at most %d times", mostAsked))
	}
	if j.Path == judge.PathJudge && plan != nil && plan.Battery != "" && !e.passed(a.Judged) {
		n.find("judge-self-test-not-passed", at, "a verdict of a judge that had not passed its self-test")
	}
}

// passed reports whether the judge had passed its last self-test before an event.
func (e *evidence) passed(seq int64) bool {
	passed := false
	for _, b := range e.Batteries {
		if b.Seq < seq {
			passed = b.Event.Passed
		}
	}
	return passed
}

// consistent reports whether a judgment can come from the path it names. Without a planned judge there is no second
// verdict on any path. A null battery can find the judge out of reach before an answer does.
func consistent(j trajectory.Judgment, plan *plan.JudgePlan) bool {
	asked, tried := j.Tries > 0, plan != nil && plan.Battery != ""
	if plan == nil && (j.Path == judge.PathOfficial || j.Path == judge.PathNoAnswer) {
		return j.Official == (j.Path == judge.PathOfficial) && j.Judged == nil && !asked
	}
	switch j.Path {
	case judge.PathOfficial:
		return j.Official && j.Judged != nil && *j.Judged && !asked
	case judge.PathJudge:
		return !j.Official && j.Judged != nil && asked != j.Cached
	case judge.PathNoAnswer:
		return !j.Official && j.Judged != nil && !*j.Judged && !asked
	case judge.PathUnreadable:
		return !j.Official && j.Judged == nil && asked
	case judge.PathError:
		return !j.Official && j.Judged == nil && (asked || tried)
	case judge.PathNoJudge, judge.PathWithheld, judge.PathTooLong:
		return !j.Official && j.Judged == nil && !asked
	}
	return false
}

// toolDigests is what a tool of this program says of itself, by digest. TestBuiltins compares it with the tools.
type toolDigests struct {
	descriptions []string // of the description, without Python's version
	schema       string   // of the schema of its parameters
}

// builtinDigests are those of the tools that a plan can have, by name.
func builtinDigests() map[string]toolDigests {
	return map[string]toolDigests{
		"calculate":      {[]string{"sha256:ec5c049456c052289fb7ea6ed625052441c25efce175ae391f1b8cad64bf50e8"}, "sha256:5f0beb0b79d467bd8509d51dd897455752ec211e1d75bef7d708c071f6f72977"},
		"describe_image": {[]string{"sha256:c2ba6b92a28f96ed7a15618d5555a099ecdbb24e2dfab833432177c9eb6f5c2d"}, "sha256:dc1c1205e53892bdbd4f6114078098b21975ed9ded63cf649df63f928dd24e26"},
		"list_files":     {[]string{"sha256:051901ddf195f0b9ca66c31c7a7a51865b580b1dd7411f52bdb30d550fc084c9"}, "sha256:8243f0af367f188a376f2c17b5eabe872a2f7a979813e0d4e2be6d594c2aa259"},
		"python": {[]string{ // in the sandbox, and without one
			"sha256:23c2086f916cb7ce5d59de8b76326bf63aabf4666e5c8ed11b4cd733dbe77eda",
			"sha256:43400ce78c8e18f14af990a52a80acf8764cca46871d14f64ac76e6a198d2f90",
		}, "sha256:53b7d94542a62e8e393e19ed93c195a22b36d01c2df4c0e5121af6b77ea5f70b"},
		"read_file":        {[]string{"sha256:45d240e0584607d1eac812005f68ce3288c5549401be971838a2d3cb3e53672f"}, "sha256:91eac04a1e1a6cd9d4feed358adc2fdc9b3ab67410e4408f4e8a97b478aa4897"},
		"submit_answer":    {[]string{"sha256:be4e5534a0f0f55186ddd5fa9b1dcd3781086129b9738571e453d8f3c77dae6b"}, "sha256:14fd978e32378a29bcafe5d839fe7df8af6213074bb683aa31cbd153210d584f"},
		"transcribe_audio": {[]string{"sha256:a22fcb17aa46c00852cc3519433146a2df116ff5c00f784572b3f777e84b8d0c"}, "sha256:c07df0d7d89d5025c617e77b699087e01f6332fac5eb62a8b2af8f834647b945"},
		"web_fetch":        {[]string{"sha256:0a1a2f055740be3b1c534ee3b2ede737cd3db8f8cb2e0b9ad893c44dce8b62bc"}, "sha256:84af40b1724751eadfa72c4b338953632d888312983426cf483a69df406a8244"},
		"web_search":       {[]string{"sha256:75bf608ab56cc365f7171739d6643e838464963387f7a9e5cfc217c6399231f9"}, "sha256:57917cfda3cfc5c5c730bcc1205f3aea20c12064c7e23644528cc3a3b0b37ae0"},
	}
}

// digestsOf returns what a tool of a plan says of itself as sayings have it.
func digestsOf(t plan.ToolPlan) (description, schema string) {
	text := t.Description
	const runs = "Runs Python "
	if rest, ok := strings.CutPrefix(text, runs); ok && t.Name == "python" {
		if version, after, ok := strings.Cut(rest, " "); ok && len(version) < 12 && strings.Trim(version, "0123456789.abrc+") == "" {
			text = runs + after
		}
	}
	return canonical.Digest([]byte(text)), t.SchemaSHA256
}

// builtinSchemas are the schemas of the tools of this version, which plans have the digests of, a line each.
//
//go:embed builtins.txt
var builtinSchemas string

// builtinSchema returns the schema with a digest; "" if it is not one of this version's.
func builtinSchema(sha256 string) string {
	for line := range strings.Lines(builtinSchemas) {
		if line = strings.TrimSuffix(line, "\n"); canonical.Digest([]byte(line)) == sha256 {
			return line
		}
	}
	return ""
}

// isBuiltinVersion reports whether a tool of a plan is one of this version's, which says of itself what it does in
// this version, and takes what it takes.
func isBuiltinVersion(t plan.ToolPlan) bool {
	own, known := builtinDigests()[t.Name]
	description, schema := digestsOf(t)
	return known && t.Server == "" && slices.Contains(own.descriptions, description) && schema == own.schema
}

// shownValue is a number as calculate writes it.
var shownValue = lazily(`^([-−]?[0-9][0-9,]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,4}))?`)

// miscalculated reports whether a result of calculate is not the value of its expression. Fewer digits of the value
// are the same; what is no number says nothing. Of an expression without a value nothing but an error can come: a
// number for one without a digit is made up.
func miscalculated(expression, shown string) bool {
	if at := strings.LastIndex(shown, " = "); at >= 0 {
		shown = shown[at+len(" = "):]
	}
	shown = strings.TrimSpace(shown)
	value, text, err := calc.Value(expression)
	if err == nil && shown == text && strings.Trim(text, "0123456789") == "" { // as most are
		return false
	}
	m := shownValue().FindStringSubmatch(shown)
	if m == nil {
		return false
	}
	if err != nil {
		return !strings.ContainsAny(expression, "0123456789")
	}
	got, ok := new(big.Rat).SetString(strings.ReplaceAll(strings.ReplaceAll(m[0], ",", ""), "−", "-"))
	if !ok {
		return false
	}
	apart := got.Sub(got, value)
	if apart.Abs(apart).Sign() == 0 {
		return false
	}
	power, _ := strconv.Atoi(m[3])
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(power-len(m[2]), len(m[2])-power))), nil))
	if power < len(m[2]) {
		unit.Inv(unit)
	}
	return value.IsInt() && m[2] == "" && m[3] == "" || apart.Cmp(unit) >= 0
}

// of returns what is noted of a turn in its attempt.
func (t *turn) of(a *attemptEvidence) *turnFact {
	if t.fact < 0 || t.fact >= len(a.Turns) {
		return &turnFact{}
	}
	return &a.Turns[t.fact]
}

// spend adds up what is known of the costs of a journal, its judge's included.
func (g *gatherer) spend(ev trajectory.Event) {
	_, cost, requests := trajectory.Usage(ev.Payload)
	if requests == 0 || cost == nil {
		return
	}
	j := g.e.journal(ev.Seq)
	if j.spent += *cost; j.Limit > 0 && j.spent > j.Limit && j.Spent == 0 {
		j.Spent = ev.Seq
	}
}

// spending is what attempts have used of budgets.
type spending struct {
	calls  int
	tokens int64
	cost   int64 // as far as it is known, in micro-USD
}

// use counts what an event says of a model that was asked.
func (s *spending) use(tokens trajectory.Tokens, microUSD *int64) {
	s.tokens += tokens.In + tokens.Out
	if microUSD != nil {
		s.cost += *microUSD
	}
}

// spend is what one reply of a model, or one result that a model made, took.
type spend struct {
	seq     int64
	tokens  int64
	cost    int64 // 0 where it is not known
	decided int64 // when the call was that asked a tool's model; -1: it is a reply of the agent's
}

// spends returns what the journal says that the attempt took, in its order.
func (a *attemptEvidence) spends() (all []spend) {
	add := func(seq, tokens int64, cost *int64, decided int64) {
		s := spend{seq: seq, tokens: tokens, decided: decided}
		if cost != nil {
			s.cost = *cost
		}
		all = append(all, s)
	}
	for _, m := range a.Models {
		add(m.Seq, m.In+m.Out, m.CostMicroUSD, -1)
	}
	for _, c := range a.Calls {
		if c.Result != nil && c.Result.Model != nil {
			m := c.Result.Model
			add(c.Result.Seq, m.Tokens.In+m.Tokens.Out, m.CostMicroUSD, max(c.Decided, 0))
		}
	}
	slices.SortFunc(all, func(a, b spend) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// checkBudgets holds a task against the budgets of the plan, of which 0 is none. They are of an attempt that ends
// with an answer or without one, with those that failed since the last such one. No call is allowed once one is
// used up, and one more turn is for the answer alone.
func checkBudgets(e *evidence, n *notes, t *taskEvidence) {
	b := e.Manifest.Budgets
	var used spending
	for _, a := range t.Attempts {
		if b.Turns > 0 && len(a.Turns) > b.Turns {
			n.find("budget-exceeded", t.at(a, a.Begun), fmt.Sprintf("%d turns", len(a.Turns)), fmt.Sprintf("at most %d", b.Turns))
		}
		spends, unaware, late := a.spends(), 0, 1
		if own := e.Manifest.Agent; own != nil {
			n.findIf(a.Sent > own.Calls, "budget-exceeded", t.at(a, a.Begun), fmt.Sprintf("%d requests to a model", a.Sent), fmt.Sprintf("at most %d", own.Calls))
			unaware, late, b.WallMs = parallelCalls, 0, own.TimeoutMs+lateness // it is stopped then
		}
		checkAllowed(e, n, t, a, used, spends)
		if turn := a.late(unaware, b.Tokens, used.tokens, spends, func(s spend) int64 { return s.tokens }); turn != nil {
			n.find("budget-exceeded", t.at(a, turn.Seq), fmt.Sprintf("a turn that was begun after the %d tokens were used up", b.Tokens))
		}
		if turn := a.late(unaware, b.CostMicroUSD, used.cost, spends, func(s spend) int64 { return s.cost }); turn != nil {
			n.find("budget-exceeded", t.at(a, turn.Seq), fmt.Sprintf("a turn that was begun after the %d micro-USD were spent", b.CostMicroUSD))
		}
		// Time and the money of the run are spent while the attempt is doing something else. When it knew of that,
		// the journal cannot show to the turn.
		if turn := a.beyond(late, func(turn turnFact) bool { return b.WallMs > 0 && turn.Us/1000 > b.WallMs }); turn != nil {
			n.find("time-exceeded", t.at(a, turn.Seq), fmt.Sprintf("a turn that was begun %d ms after its attempt", turn.Us/1000), fmt.Sprintf("none but one for the answer after %d ms", b.WallMs))
		}
		j := e.journal(a.Begun)
		if a.Begun < j.Spent {
			unaware = max(unaware, 1)
		}
		if turn := a.beyond(unaware, func(turn turnFact) bool { return j.Spent > 0 && turn.Seq > j.Spent }); turn != nil {
			n.find("run-budget-exceeded", t.at(a, turn.Seq), fmt.Sprintf("a turn that was begun after the %d micro-USD of %s were spent", j.Limit, j.name()))
		}
		used.calls += len(a.Calls)
		for _, s := range spends {
			used.tokens += s.tokens
			if !a.Unpriced { // else no sum can be carried on
				used.cost += s.cost
			}
		}
		if a.Ended != nil && a.Ended.Outcome != trajectory.Errored {
			used = spending{}
		}
	}
}

// checkAllowed holds each call that was allowed against what had been used before its decision; used is of earlier
// attempts. Calls of a turn count in the order of the reply, so those of earlier turns all come before. Of two
// calls that ask models the second is decided when it is known what the first took: that counts, also where the
// journal has it later. Of an own agent only what was recorded before the turn of a call began is known to have been
// counted: a reply beside it may be counted after the decision, and recorded before it. Its answer is always allowed.
func checkAllowed(e *evidence, n *notes, t *taskEvidence, a *attemptEvidence, used spending, spends []spend) {
	b := e.Manifest.Budgets
	decided := slices.DeleteFunc(slices.Clone(a.Calls), func(c *callFact) bool {
		return c.Decided < 0 || c.Decision.Decision != string(policy.Allow) || e.Manifest.Agent != nil && c.Name == policy.SubmitAnswer
	})
	known := func(c *callFact) int64 { // what was used before counts
		if e.Manifest.Agent != nil && c.Turn <= len(a.Turns) {
			return a.Turns[c.Turn-1].Seq
		}
		return c.Decided
	}
	slices.SortFunc(decided, func(a, b *callFact) int { return cmp.Compare(known(a), known(b)) })
	inOrder := slices.Clone(spends) // by decisions
	for i, s := range inOrder {
		if s.decided >= 0 {
			inOrder[i].seq = s.decided
		}
	}
	slices.SortStableFunc(inOrder, func(a, b spend) int { return cmp.Compare(a.seq, b.seq) })
	proposed := map[int]int{} // calls, by turn
	for _, c := range a.Calls {
		proposed[c.Turn]++
	}
	take := func(sum *spending, from *[]spend, before int64) {
		for ; len(*from) > 0 && (*from)[0].seq < before; *from = (*from)[1:] {
			sum.tokens, sum.cost = sum.tokens+(*from)[0].tokens, sum.cost+(*from)[0].cost
		}
	}
	recorded, counted, turn, inTurn, calls := used, used, 0, 0, used.calls
	found := map[string]bool{}
	for _, c := range decided {
		for ; turn < c.Turn && e.Manifest.Agent == nil; turn++ { // turns of an own agent overlap: its calls count as they are decided
			calls, inTurn = calls+proposed[turn], 0
		}
		take(&recorded, &spends, known(c))
		take(&counted, &inOrder, known(c))
		now := recorded
		if asksModel(c.Name) {
			now = counted
		}
		for _, over := range []struct {
			unit        string
			used, limit int64
		}{{"tool calls", int64(calls + inTurn), int64(b.ToolCalls)}, {"tokens", now.tokens, b.Tokens}, {"micro-USD", now.cost, b.CostMicroUSD}} {
			if over.limit > 0 && over.used >= over.limit && !found[over.unit] {
				found[over.unit] = true
				n.find("budget-exceeded", t.at(a, c.Decided),
					fmt.Sprintf("a call of %s that was allowed when %d %s were used", c.Name, over.used, over.unit), fmt.Sprintf("none once %d are", over.limit))
			}
		}
		inTurn++
	}
}

// late returns the first turn that cannot be the one kept for the answer, of those that were begun when more than a
// limit had been used; nil if there is none.
func (a *attemptEvidence) late(unaware int, limit, used int64, spends []spend, of func(spend) int64) *turnFact {
	next := 0
	return a.beyond(unaware, func(turn turnFact) bool {
		for ; next < len(spends) && spends[next].seq < turn.Seq; next++ {
			used += of(spends[next])
		}
		return limit > 0 && used > limit
	})
}

// beyond returns the first turn with a request, of those after a budget was spent, that is neither one of the first
// few that may have been begun before this could be known, nor the one after them that is kept for the answer.
func (a *attemptEvidence) beyond(unaware int, spent func(turnFact) bool) *turnFact {
	over := 0
	for i, turn := range a.Turns {
		if !spent(turn) || !turn.Asked {
			continue
		}
		if over > unaware || over == unaware && !turn.Last {
			return &a.Turns[i]
		}
		over++
	}
	return nil
}
