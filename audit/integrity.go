package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

func trajectoryIntegrity() Check {
	return Check{
		ID: "AUD-12", Name: "trajectory-integrity", Severity: Critical, Gate: true,
		Title: "the run did what its plan says, its calls and answers are the model's, and its verdicts follow from them",
		Why: "a plan that another run was made under proves nothing about this one, nor does an answer that the model did not give, " +
			"or gave after others had been thrown away; requests are compared with the recorded events: that no other request was sent is the recorder's word, " +
			"and in which order a turn's results were shown is not checked",
		Fix:   "run the plan with the program as it is",
		Skips: "recording failed, digests alone were recorded, the gold answers are not at hand, an answer is not shown, or the plan has templates, rules or a null battery that this version does not know",
		Rules: []Rule{
			{"answer-differs", Critical, 3, "a committed answer, or a reasoning for it, that the model's last reply does not give"},
			{"head-differs", Critical, 3, "a head that cannot be of a body of the recorded size and digest, or arguments that cannot have been cut or rid of secrets as is said, or a part of a reply that is said to be none"},
			{"discarded-answer", Critical, 1, "an answer that the model gave and that was not committed"},
			{"attempts-beyond-plan", Critical, 2, "attempts that the plan has no reason for"},
			{"proposal-differs", Critical, 3, "a call that the reply of its turn does not ask for in these words"},
			{"prompt-differs", Critical, 2, "a message that is not what the plan's templates, the tools and the model give, or a request without one that they give"},
			{"policy-differs", Critical, 2, "a decision, or a resumption, under another policy than the plan's, or a decision that no policy gives"},
			{"result-replaced", Critical, 1, "something told in place of the result of a call that was allowed"},
			{"allowed-against-policy", Critical, 1, "a call that was allowed though the plan's policy does not"},
			{"allowed-against-rules", Critical, 1, "a call that ran though it breaks a rule"},
			{"ran-without-decision", Critical, 1, "a call that ran without having been proposed and allowed"},
			{"tool-mismatch", Critical, 1, "another tool that ran for a call than the one asked for"},
			{"address-differs", Critical, 1, "a page that web_fetch got without having asked for the call's address first"},
			{"calculation-differs", Critical, 1, "a result of calculate that is not the value of its expression"},
			{"tool-not-planned", Critical, 1, "a tool that ran and is not in the plan"},
			{"model-differs", Critical, 2, "another model that was asked than the planned one"},
			{"search-differs", Critical, 1, "another search engine that was asked than the planned one"},
			{"workspace-differs", Critical, 1, "a workspace that is not what the attempt began with, where no call could change it"},
			{"budget-exceeded", Critical, 2, "turns beyond the plan's budgets, or a call or a turn after its calls, tokens or money were used up"},
			{"judge-self-test-differs", Critical, 1, "a null battery that is not the plan's, or not all of it"},
			{"judge-differs", Critical, 1, "a verdict of another judge than the planned one"},
			{"scoring-path-inconsistent", Critical, 2, "verdicts that do not go with the path they name, or of a judge asked more often than it ever is"},
			{"judge-self-test-not-passed", Critical, 1, "a verdict of a judge that had not withstood the null battery"},
			{"verdict-differs", Critical, 1, "an official verdict that the official scorer does not give"},
			{"replayed", High, 1, "answers that come from a recording and not from a model"},
			{"preflight-missing", High, 1, "no request to the model before the tasks, in a run that is neither a rehearsal nor a replay and whose plan does not leave it out"},
			{"judge-self-test-incomplete", ToReview, 1, "items of the null battery that did not reach the judge"},
			{"judge-self-test-not-planned", ToReview, 1, "verdicts of a judge whose plan names no null battery"},
			{"rollback-incorrect", ToReview, 1, "a workspace that was put back and is not as it had been"},
			{"rollback-missing", ToReview, 1, "a turn that broke rules and whose workspace was not put back"},
			{"violation-missing", ToReview, 2, "a denial by a rule, the deny list, the mode or a budget without a violation of its class"},
			{"time-exceeded", ToReview, 1, "a turn that was begun after the time was up"},
			{"run-budget-exceeded", ToReview, 1, "a turn that was begun after the money of the run was spent"},
			{"torn-tail", ToReview, 1, "an unfinished last line of the journal that was cut when the run was taken up again"},
		},
		Run: holdToPlan,
	}
}

// holdToPlan holds a run against its plan, attempt by attempt.
func holdToPlan(e *Evidence, n *Notes) {
	if e.Marked != "" {
		n.gap("recording failed: %s", e.Marked)
	}
	if e.blind() {
		n.gap("%s: verdicts cannot be computed again", noGold)
	}
	hashesOnly(e, n)
	if e.Manifest.Cassette == ledger.CassetteReplay {
		n.find("replayed", place{given: true}, "the model's answers come from a recording", "answers that the model was asked for in this run")
	}
	if m := e.Manifest; len(e.Preflight) == 0 && !m.Rehearsal && !m.NoPreflight && m.Cassette != ledger.CassetteReplay {
		n.find("preflight-missing", place{given: true}, "no model was asked anything before the tasks", "the requests that the plan does not leave out")
	}
	known := e.Manifest.ConstitutionSHA256 == sign.Digest(policy.Constitution(e.Manifest.Policy)) // the plan's rules are this version's
	if !known {
		n.gap("the rules of the plan are not those of this version: calls that they allowed cannot be held against these")
	}
	judgeTemplate(e, n)
	batteries(e, n)
	for _, r := range e.Resumed {
		if t := r.Event.Torn; t != nil {
			n.find("torn-tail", place{seq: r.Seq, given: true}, fmt.Sprintf("an unfinished last line of %d bytes, cut when the run was taken up again", t.Bytes), "a journal that ends with a whole line")
		}
		if r.Event.PolicyHash != e.Manifest.PolicyHash || r.Event.PolicyMode != e.Manifest.PolicyMode || r.Event.GuidanceHash != e.Manifest.GuidanceHash {
			n.find("policy-differs", place{seq: r.Seq}, "the run went on under another policy or other rules", "those of the plan")
		}
	}
	planned := map[string]bool{}
	for _, t := range e.Manifest.Tools {
		planned[t.Name] = true
	}
	e.each(func(t *TaskEvidence, a *AttemptEvidence) {
		calls(e, n, t, a, planned, known)
		asPlanned(e, n, t, a)
		rollbacks(e, n, t, a)
		violations(n, t, a)
		kept(n, t, a)
		answered(n, t, a)
		heads(n, t, a)
		judged(e, n, t, a)
	})
	for _, t := range e.Tasks {
		rerolls(e, n, t)
		budgets(e, n, t)
	}
}

// judgeTemplate: what the judge was asked can be told only of a template whose
// text this version has.
func judgeTemplate(e *Evidence, n *Notes) {
	j := e.Manifest.Judge
	if j == nil {
		return
	}
	for _, t := range prompt.Templates() {
		planned := slices.ContainsFunc(e.Manifest.Prompts, func(p ledger.Prompt) bool { return p.ID == t.ID && p.Text == t.Text })
		if t.ID == j.Prompt && t.Digest() == j.PromptSHA256 && planned {
			return
		}
	}
	n.gap("the judge's template %q is not one that the plan has and this version knows", j.Prompt)
}

// answered holds the committed answer against the last reply before it: there must
// be one. What the journal does not show of a reply cannot be held against it: that
// its answer is the one committed is the signer's word.
func answered(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if a.Answer == nil {
		return
	}
	if last := a.lastReply(a.Committed); last != nil && last.gives(a.Answer) {
		if last.unmarked(a.Answer) {
			n.gap("the answer of a reply is not shown, as if it were a secret, and the committed one is")
		}
		return
	}
	n.find("answer-differs", place{task: t, attempt: a.Number, seq: a.Committed}, "an answer, or a reasoning for it, that the model's last reply does not give", "what the model gave last")
}

// calls holds an attempt's tool calls against the plan, the replies that they
// come from and what was decided; known says that the plan's rules are this
// version's.
func calls(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence, planned map[string]bool, known bool) {
	for _, c := range a.Calls {
		if c.Foreign {
			n.find("proposal-differs", place{task: t, attempt: a.Number, seq: c.Proposed}, "a call of "+c.Name+" that the reply of its turn does not ask for", "the calls that the model asked for")
		}
		decided := place{task: t, attempt: a.Number, seq: c.Decided}
		allowed := c.Decided >= 0 && c.Decision.Decision == string(policy.Allow)
		if c.Decided >= 0 && (c.Decision.PolicyHash != e.Manifest.PolicyHash || c.Decision.Mode != e.Manifest.PolicyMode) {
			n.find("policy-differs", decided, "a call was decided under another policy", "the policy of the plan")
		}
		if c.Decided >= 0 && !slices.Contains([]policy.Verdict{policy.Allow, policy.Deny, policy.Confirm}, policy.Verdict(c.Decision.Decision)) {
			n.find("policy-differs", decided, fmt.Sprintf("a call was decided as %q", c.Decision.Decision), "allow, deny or confirm")
		}
		if allowed && c.Decision.Shown != "" {
			n.find("result-replaced", decided, "the model was told something in place of the result of a call that was allowed", "the result alone")
		}
		if c.Against != "" {
			n.find("allowed-against-policy", decided, "a call of "+c.Name+" was allowed, of which the policy says: "+c.Against, "a call that the plan's policy allows")
		}
		if c.Result == nil {
			continue
		}
		at := place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}
		if c.Proposed < 0 || !allowed {
			n.find("ran-without-decision", at, "a call of "+c.Result.Name+" ran that was not proposed or not allowed", "proposed, allowed, run")
		}
		if c.Proposed >= 0 && c.Result.Name != c.Name {
			n.find("tool-mismatch", at, "the tool "+c.Result.Name+" ran for a call of "+c.Name, "the tool that was asked for")
		}
		if c.lawless(known) {
			n.find("allowed-against-rules", at, "a call of "+c.Name+" ran that breaks a rule", "a call that the Gate refuses")
		}
		if c.Fetches != "" && !c.Result.IsError && e.Manifest.Evidence != ledger.EvidenceHashes && c.Result.First != c.Fetches && !strings.Contains(c.Result.First, trajectory.Redacted) {
			n.find("address-differs", at, "a page of another address than the one asked for, or of none", "the address that was asked for, and then where it led")
		}
		if c.Miscalculated {
			n.find("calculation-differs", at, "a result of calculate that is not the value of its expression", "the value that calculate gives")
		}
		if !planned[c.Result.Name] {
			n.find("tool-not-planned", at, "the tool "+c.Result.Name+" ran", "a tool of the plan")
		}
		switch r := c.Result; {
		case r.Model != nil && (r.Model.RequestedModel == "" || r.Model.RequestedModel != toolModel(e.Manifest, r.Name)):
			n.find("model-differs", at, fmt.Sprintf("%s asked the model %q", r.Name, r.Model.RequestedModel), "the model that the plan has for it")
		case asksModel(r.Name) && !r.IsError && (r.Model == nil || r.Model.Tries < 1):
			n.find("model-differs", at, r.Name+" gave a result that no model was asked for", "the model that the plan has for it")
		}
		if p := e.Manifest.Search; p != nil && c.Result.Name == "web_search" && !strings.HasPrefix(c.Result.First+"/", p.Origin+"/") && c.Result.First != "" && !strings.HasPrefix(c.Result.First, p.Origin+"?") {
			n.find("search-differs", at, "web_search asked another engine than the plan has", "the planned "+p.Origin)
		}
	}
}

// rollbacks holds the turns of an attempt that broke rules against what autonomous
// mode promises of them. An attempt without files has nothing to put back.
func rollbacks(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	put := map[int]bool{}
	for _, r := range a.Rollbacks {
		put[r.Turn] = true
		if !r.Correct {
			n.find("rollback-incorrect", place{task: t, attempt: a.Number, seq: r.Seq}, "a workspace that was put back is not as it had been at the start of the turn", "the same tree")
		}
	}
	writes := slices.ContainsFunc(e.Manifest.Tools, func(t ledger.ToolPlan) bool { return t.Name == "python" })
	if e.Manifest.Policy.Mode != policy.Autonomous || len(a.Workspace) == 0 && !writes {
		return
	}
	for _, b := range a.Broken {
		if !put[b.Turn] && !a.cutOff(b.Turn) {
			n.find("rollback-missing", place{task: t, attempt: a.Number, seq: b.Seq}, "a turn that broke rules, and whose workspace was not put back", "a rollback")
		}
	}
}

// violations compares denials with what is recorded of them: each denial by a rule, the
// deny list, the mode or a budget has a violation of its class. Of a call whose arguments
// are not shown whole nothing shows which rules it broke.
func violations(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
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
		if at := slices.Index(denied, DenialFact{c.Turn, c.ID, class}); at >= 0 {
			denied = slices.Delete(denied, at, at+1)
		} else if !a.cutOff(c.Turn) {
			n.find("violation-missing", place{task: t, attempt: a.Number, seq: c.Decided}, fmt.Sprintf("a call that was denied (%s), and no violation of that class", class), "a violation")
		}
	}
}

// kept holds the first copy of a workspace, made before any tool could change it,
// against what the attempt began with.
func kept(n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	began := map[string]string{}
	for _, f := range a.Workspace {
		began[f.Path] = f.SHA256
	}
	if a.Kept == nil {
		if w := a.Ended; w != nil && w.Workspace != nil && len(w.Workspace.Files) > 0 {
			n.find("workspace-differs", place{task: t, attempt: a.Number, seq: a.EndedAt}, "a workspace changed that no call could change", "the files that the attempt began with")
		}
		return
	}
	same := len(began) == len(a.Kept.Workspace)
	for _, f := range a.Kept.Workspace {
		same = same && began[f.Path] == f.SHA256
	}
	if !same {
		n.find("workspace-differs", place{task: t, attempt: a.Number, seq: a.Begun}, "the first copy of the workspace is not of the files that the attempt began with", "those files")
	}
}

// cutOff reports whether an attempt ended in a turn by an interruption.
func (a *AttemptEvidence) cutOff(turn int) bool {
	return turn == len(a.Turns) && (a.Ended == nil || a.Ended.Outcome == trajectory.Errored)
}

// asksModel reports whether a tool's results are made by a model.
func asksModel(tool string) bool { return tool == "transcribe_audio" || tool == "describe_image" }

// toolModel is the model that the plan has for a tool, "" for none.
func toolModel(m ledger.Manifest, tool string) string {
	switch {
	case tool == "transcribe_audio" && m.Transcription != nil:
		return m.Transcription.Model
	case tool == "describe_image" && m.Vision != nil:
		return m.Vision.Model
	}
	return ""
}

// asPlanned holds an attempt's prompts and models against the plan.
func asPlanned(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if m := a.Astray; m != nil {
		n.find("model-differs", place{task: t, attempt: a.Number, seq: m.Seq}, fmt.Sprintf("the model %q was asked", m.Requested), fmt.Sprintf("the planned %q", e.Manifest.Model.Name))
	}
	for _, p := range a.Prompts {
		at := place{task: t, attempt: a.Number, seq: p.Seq}
		if p.Stale {
			n.find("prompt-differs", at, "a request lists no more messages than the one before it", "a conversation that grows with every turn")
		}
		if p.Short && !p.Stale {
			n.find("prompt-differs", at, "a request leaves out a reply or a result since the one before it", "all that the model said and was shown")
		}
		if p.Differs {
			n.find("prompt-differs", at, "what a request adds is not the messages that it lists for the first time", "those messages and nothing else")
		}
	}
	for _, o := range a.Odd {
		if o.Unknown {
			n.gap("the plan's template for messages of source %q is not one that this version knows", o.Source)
			continue
		}
		n.find("prompt-differs", place{task: t, attempt: a.Number, seq: o.Seq, sha256: o.SHA256}, "a message of source "+o.Source+" is not what the plan's templates give", "the planned template, filled in")
	}
}
