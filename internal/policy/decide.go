package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Call is a tool call as the model requested it, with all it would touch, known before it runs.
// ToolCalls and CostMicroUSD are what the task has used before. Over names the other budget that the
// call does not fit, in the words of OverMoney, OverTokens, UsedTokens or OverTime; "" = it fits.
// Approved means that a person, or a flag, has approved this call.
type Call struct {
	Tool         string
	TaskID       string // of the task that it is made for: no query and no address may name it
	Known        bool   // there is a tool of this name
	URLs         []string
	Paths        []string
	Texts        []string // queries, whole arguments
	Code         []string // what would be executed
	Lines        []string // what would be given to a shell
	Strings      []string // strings in the arguments of a tool that may do anything with them
	ToolCalls    int
	CostMicroUSD int64
	Over         string
	Approved     bool
}

// ReadCall is a call whose code was read: what looks at it need not read that again.
type ReadCall struct {
	Call
	read []reading // of Code and Lines
}

// Read reads the code of a call.
func Read(c Call) ReadCall {
	r := ReadCall{Call: c}
	for _, code := range c.Code {
		r.read = append(r.read, readCode(code))
	}
	for _, line := range c.Lines {
		of := reading{literals: []string{line}}
		of.shell(line, 0)
		r.read = append(r.read, of)
	}
	return r
}

// Verdict is the result of a decision.
type Verdict string

const (
	Allow   Verdict = "allow"
	Deny    Verdict = "deny"
	Confirm Verdict = "confirm" // only if a person approves
)

// Denial is the class of a denial. It is empty for a call that is not denied, and for one whose denial
// is no violation: its tool does not exist, or its code is too long to read.
type Denial string

const (
	DeniedByRule   Denial = "rule"      // a rule other than R006 fired, whatever else denies the call too
	DeniedByList   Denial = "deny_list" // the tool is on the deny list
	DeniedByMode   Denial = "mode"      // the mode or the allow list excludes the tool
	DeniedByBudget Denial = "budget"    // R006 alone fired
)

// Denials returns all classes.
func Denials() []Denial { return []Denial{DeniedByRule, DeniedByList, DeniedByMode, DeniedByBudget} }

// Decision is a verdict with its class, its reason, which may be shown to the model, and the ids
// of all rules that fired, in the order of Rules, also where something else decided.
type Decision struct {
	Verdict Verdict
	Class   Denial
	RuleIDs []string
	Reason  string
}

// Decide judges one call: deny list, then what is unknown, then rules, then budgets, then mode. An answer
// (SubmitAnswer) is always allowed.
func Decide(p Policy, c Call) Decision {
	if c.Tool == SubmitAnswer && c.Known && known(p.Mode) {
		return Decision{Verdict: Allow}
	}
	return Breaks(p, Read(c)).Decide(p, c)
}

// Broken are the rules, other than budgets, that a call breaks, in the order of Rules.
type Broken []finding

// Decide is the function Decide for a call that breaks these rules by Breaks. The policy may be another one with the
// same AnswerSources, Commands and Packages.
func (b Broken) Decide(p Policy, c Call) Decision {
	if c.Tool == SubmitAnswer && c.Known && known(p.Mode) {
		return Decision{Verdict: Allow}
	}
	fired := slices.Clip(b)
	switch {
	case spent(int64(c.ToolCalls), int64(p.MaxToolCalls)):
		fired = append(fired, finding{Budget, fmt.Sprintf("budget: the %d tool calls of the task are used up", max(p.MaxToolCalls, 0))})
	case spent(c.CostMicroUSD, p.MaxCostMicroUSD):
		fired = append(fired, finding{Budget, fmt.Sprintf("budget: the %d micro-USD of the task are used up", max(p.MaxCostMicroUSD, 0))})
	case c.Over != "":
		fired = append(fired, finding{Budget, c.Over})
	}
	d := denied(fired)
	class := d.Class
	d.Class = ""
	switch {
	case listed(p.Deny, c.Tool):
		d.Class = DeniedByList
		d.Reason = fmt.Sprintf("tool %q is on the deny list", c.Tool)
	case !c.Known:
		d.Reason = fmt.Sprintf("there is no tool %q", c.Tool)
	case !known(p.Mode):
		d.Class = DeniedByMode
		d.Reason = fmt.Sprintf("unknown governance mode %q", p.Mode)
	case len(fired) > 0:
		d.Class = class
	case slices.ContainsFunc(c.Code, func(code string) bool { return len(code) > maxCode }):
		d.Reason = fmt.Sprintf("the code is longer than %d bytes, which is more than is read: write it in parts", maxCode)
	case !p.admits(c.Tool):
		d.Class = DeniedByMode
		d.Reason = fmt.Sprintf("tool %q is not on the allow list of mode %s", c.Tool, p.Mode)
	case p.Mode == Approved && !c.Approved:
		d.Verdict, d.Reason = Confirm, "every call needs a person's approval in mode approved"
	case listed(p.Confirm, c.Tool) && !c.Approved:
		d.Verdict, d.Reason = Confirm, fmt.Sprintf("tool %q needs a person's approval", c.Tool)
	default:
		d.Verdict = Allow
	}
	if class == DeniedByRule {
		d.Class = class
	}
	return d
}

// Offers reports whether a call of a tool may be allowed: neither the deny list, the allow list nor the
// mode excludes the tool, or it is SubmitAnswer. Other tools are not offered to the model.
func (p Policy) Offers(tool string) bool {
	return known(p.Mode) && (tool == SubmitAnswer || !listed(p.Deny, tool) && p.admits(tool))
}

// admits reports whether the allow list has a tool, and the mode does not exclude it.
func (p Policy) admits(tool string) bool {
	return listed(p.Allow, tool) && (p.Mode != Restricted || slices.Contains(readers(), tool))
}

// DecideURL judges one URL by the rules, for redirects of a task's call that is allowed already.
func DecideURL(p Policy, taskID, url string) Decision {
	if !known(p.Mode) {
		return Decision{Verdict: Deny, Class: DeniedByMode, Reason: fmt.Sprintf("unknown governance mode %q", p.Mode)}
	}
	if fired := Breaks(p, Read(Call{Tool: "web_fetch", TaskID: taskID, URLs: []string{url}})); len(fired) > 0 {
		return denied(fired)
	}
	return Decision{Verdict: Allow}
}

// finding is a rule that fired, and why.
type finding struct{ rule, reason string }

// denied is a denial with the ids of all findings, and the class and the reason of the first: the
// finding of a budget comes last.
func denied(fired []finding) Decision {
	d := Decision{Verdict: Deny}
	for i, f := range fired {
		d.RuleIDs = append(d.RuleIDs, f.rule)
		if i == 0 {
			d.Class, d.Reason = DeniedByRule, f.rule+" "+f.reason
			if f.rule == Budget {
				d.Class = DeniedByBudget
			}
		}
	}
	return d
}

// Breaks looks for the rules that a call breaks. Of the policy it reads AnswerSources, Commands and Packages.
func Breaks(p Policy, c ReadCall) (fired Broken) {
	if id := Source(p, c); id != "" {
		fired = append(fired, finding{AnswerSources, "answer sources: this leads to a known source of the benchmark's answers (" + id + ")"})
	} else if slices.ContainsFunc(c.Searched(), Seeks) {
		fired = append(fired, finding{AnswerSources, "answer sources: this looks for the benchmark's answers"})
	} else if slices.ContainsFunc(c.Asked(), func(text string) bool { return NamesTask(text, c.TaskID) }) {
		fired = append(fired, finding{AnswerSources, "answer sources: this looks for the task by its id"})
	}
	acts := func(name string) bool { // on the host
		return slices.Contains(data().Lists.Commands, name) || strings.HasPrefix(name, "mkfs.") ||
			slices.ContainsFunc(p.Commands, func(own string) bool { return strings.EqualFold(own, name) })
	}
	brings := func(name string) bool { // the benchmark or another harness
		return slices.Contains(data().Lists.Packages, name) ||
			slices.ContainsFunc(p.Packages, func(own string) bool { return distribution(own) == name })
	}
	command := first(c.read, func(r reading) string {
		if r.tangled {
			return "brackets in more than 200 others"
		}
		return find(r.commands, acts)
	})
	for _, rule := range []struct{ id, format, name string }{
		{GraderSurfaces, "grader surfaces: this names the run's own records or verdicts (%s)", graderSurface(c.Call)},
		{Secrets, "secrets: this names key material or credentials (%s)", secret(c)},
		{Commands, "commands: this would act on the host or the network from code (%s)", cmp.Or(command, Hook(c))},
		{Packages, "packages: this loads what brings the benchmark or another harness (%s)",
			first(c.read, func(r reading) string { return find(r.packages, brings) })},
	} {
		if rule.name != "" {
			fired = append(fired, finding{rule.id, fmt.Sprintf(rule.format, rule.name)})
		}
	}
	return fired
}

// OverTime is Call.Over of a call that begins after the time of its attempt is used up.
const OverTime = "budget: the time of the attempt is used up"

// UsedTokens is Call.Over of a call that begins when the tokens of its task are used up.
func UsedTokens(limit int64) string {
	return fmt.Sprintf("budget: the %d tokens of the task are used up", limit)
}

// OverTokens is Call.Over of a call that may take more tokens than are left.
func OverTokens(left int64) string {
	return fmt.Sprintf("budget: the call may take more than the %d tokens that are left of the task's budget", left)
}

// OverMoney is Call.Over of a call that may cost more micro-USD than are left.
func OverMoney(left int64) string {
	return fmt.Sprintf("budget: the call may cost more than the %d micro-USD that are left of the task's budget", left)
}

// Overspent returns what records a spend that ended above a budget of the task; unit is what is counted.
func Overspent(spent, limit int64, unit string) Decision {
	return Decision{Verdict: Deny, Class: DeniedByBudget, RuleIDs: []string{Budget}, Reason: fmt.Sprintf("%s budget: the task has used %d of %d %s", Budget, spent, limit, unit)}
}

func known(m Mode) bool { return m == Restricted || m == Approved || m == Autonomous }

func listed(names []string, tool string) bool {
	return slices.Contains(names, tool) || slices.Contains(names, EveryTool)
}
