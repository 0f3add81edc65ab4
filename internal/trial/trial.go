// Package trial explains one attempt of an own agent to the person who wrote the agent.
//
// [Read] takes what was seen of the attempt from the evidence of a verified run, and from nothing else: model calls,
// tool calls, requests that were refused, the answer and the end of the process. [Report.Text] shows it on one screen,
// with what to change first where the attempt has no answer (TestExplain). [Check] looks at the agent's folder before
// anything runs: an executable that is missing or cannot be executed, an interpreter or a library that the sandbox will
// not have (TestCheck). docs/agents.md has the contract that both refer to.
package trial

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// Report is what was seen of an attempt.
type Report struct {
	Agent          string              `json:"agent"` // its name
	Answer         *string             `json:"answer"`
	AtOnce         int                 `json:"calls_at_once"` // model calls, at most
	Calls          []Calls             `json:"calls"`
	Correct        *bool               `json:"correct"`
	DurationMs     int64               `json:"duration_ms"`
	End            trajectory.AgentEnd `json:"end"`
	Exchanges      []Exchange          `json:"exchanges"`       // over the recorded network
	InReply        bool                `json:"in_reply"`        // a reply of a model held the answer
	Network        string              `json:"network"`         // plan.NetworkNone, NetworkRecord or NetworkHost
	Outcome        string              `json:"outcome"`         // trajectory.Answered, NoAnswer or Errored
	Probed         *plan.AgentProbe    `json:"probed,omitzero"` // what was found in the folders
	PromptBytes    int64               `json:"prompt_bytes"`
	Reason         string              `json:"reason,omitzero"`
	Refused        []Refused           `json:"refused"`
	Rule           string              `json:"rule,omitzero"`        // that found the answer
	SeenIn         []string            `json:"seen_in"`              // where the answer stood before
	SharesWord     bool                `json:"shares_word,omitzero"` // it stood nowhere, and a word of it did
	TaskID         string              `json:"task_id"`
	Tools          []Tool              `json:"tools"`
	Why            []Cause             `json:"why"`             // there is no answer; the most likely cause first
	WitnessedBytes *int64              `json:"witnessed_bytes"` // of PromptBytes; nil: not known
}

// Calls counts the model calls that have these things in common.
type Calls struct {
	Count    int               `json:"count"`
	Aborted  int               `json:"aborted,omitzero"` // the agent hung up
	Dialect  string            `json:"dialect"`
	Model    string            `json:"model"`
	Problem  string            `json:"problem,omitzero"`
	Retries  int               `json:"client_retries,omitzero"`
	Status   int               `json:"status"` // of HTTP; 0: no reply came
	Streamed int               `json:"streamed,omitzero"`
	Tokens   trajectory.Tokens `json:"tokens"`
}

// Tool counts the calls of a tool.
type Tool struct {
	Count  int    `json:"count"`
	Denied int    `json:"denied,omitzero"`
	Failed int    `json:"failed,omitzero"`
	Name   string `json:"name"`
}

// Refused counts the requests that were refused for one reason.
type Refused struct {
	Code    string   `json:"code"`
	Count   int      `json:"count"`
	Hint    string   `json:"hint,omitzero"`
	Model   string   `json:"model,omitzero"`
	Path    string   `json:"path"`
	RuleIDs []string `json:"rule_ids,omitempty"`
	Status  int      `json:"status"`
}

// ErrNotOwn means that the run has no attempt of an own agent that ended.
var ErrNotOwn = errors.New("the run has no attempt of an own agent that ended")

// Read reads the last attempt of the first task of a run. The run is verified.
func Read(dir fs.FS) (Report, error) {
	var r Report
	a := reader{report: &r}
	found, err := rundir.Verify(dir, rundir.Options{Event: a.add})
	if err != nil {
		return r, err
	}
	if found.Manifest.Agent == nil || !a.ended {
		return r, ErrNotOwn
	}
	own := found.Manifest.Agent
	r.Agent, r.Network, r.Probed = own.Name, own.Network, own.Probed
	if r.PromptBytes = found.Inputs.PromptBytes; !found.Inputs.Unknown {
		r.WitnessedBytes = &found.Inputs.WitnessedBytes
	}
	r.explain(own.Tools == plan.AgentToolsGate)
	return r, nil
}

// reader gathers a report from the events of a run.
type reader struct {
	report    *Report
	started   map[int]trajectory.ModelCallStarted // by turn
	exchanges map[int]trajectory.ExchangeStarted  // by number
	tools     map[string]string                   // names of tools, by the call's id
	began     int64
	ended     bool
}

func (a *reader) add(e trajectory.Event) error {
	r := a.report
	if e.TaskID == "" || r.TaskID != "" && e.TaskID != r.TaskID {
		return nil
	}
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		*r = Report{TaskID: e.TaskID, Calls: []Calls{}, Exchanges: []Exchange{}, Tools: []Tool{}, Refused: []Refused{}, SeenIn: []string{}, Why: []Cause{}}
		*a = reader{report: r, started: map[int]trajectory.ModelCallStarted{}, exchanges: map[int]trajectory.ExchangeStarted{}, tools: map[string]string{}, began: e.MonoUs}
	case trajectory.ModelCallStarted:
		a.started[e.Turn] = p
		r.AtOnce = max(r.AtOnce, len(a.started))
	case trajectory.ModelCallCompleted:
		a.completed(a.started[e.Turn], p)
		delete(a.started, e.Turn)
	case trajectory.ToolProposed:
		a.tools[p.CallID] = p.Name
		a.tool(p.CallID).Count++
	case trajectory.PolicyDecision:
		if p.Decision == "deny" {
			a.tool(p.CallID).Denied++
		}
	case trajectory.ToolExecuted:
		if p.IsError {
			a.tool(p.CallID).Failed++
		}
	case trajectory.ExchangeStarted:
		a.exchanges[p.Number] = p
	case trajectory.ExchangeCompleted:
		s := a.exchanges[p.Number]
		of := among(&r.Exchanges, Exchange{Method: s.Method, URL: s.URL, Status: p.Status, Error: p.Error}, func(o Exchange) bool {
			return o.Method == s.Method && o.URL == s.URL && o.Status == p.Status && o.Error == p.Error
		})
		of.Count++
		of.Bytes += p.Bytes
		delete(a.exchanges, p.Number)
	case trajectory.RequestRefused:
		among(&r.Refused, Refused{Code: p.Code, Path: p.Path, Model: p.Model, RuleIDs: p.RuleIDs, Status: p.Status, Hint: hints[p.Code]}, func(o Refused) bool {
			return o.Code == p.Code && o.Path == p.Path && o.Model == p.Model
		}).Count++
	case trajectory.Error:
		r.Reason = p.Message
	case trajectory.AnswerCommitted:
		r.Answer, r.Rule, r.InReply, r.SharesWord = &p.Answer, p.Rule, p.InReply, p.SharesWord
		r.SeenIn = append(r.SeenIn, p.SeenIn...)
	case trajectory.AttemptEnded:
		a.ended = true
		r.Outcome, r.DurationMs = p.Outcome, (e.MonoUs-a.began)/1000
		r.Reason = cmp.Or(r.Reason, p.Reason)
		if p.Agent != nil {
			r.End = *p.Agent
		}
	case trajectory.Judgment:
		r.Correct = &p.Official
	}
	return nil
}

func (a *reader) completed(s trajectory.ModelCallStarted, p trajectory.ModelCallCompleted) {
	c := Calls{Model: p.RequestedModel}
	if s.Request != nil {
		c.Dialect = s.Request.Dialect
	}
	if p.Reply != nil {
		c.Status = p.Reply.Status
	}
	if p.Error != nil {
		c.Problem = cmp.Or(p.Error.Code, p.Error.Message)
	}
	of := among(&a.report.Calls, c, func(o Calls) bool {
		return o.Dialect == c.Dialect && o.Model == c.Model && o.Status == c.Status && o.Problem == c.Problem
	})
	of.Count++
	of.Tokens = of.Tokens.Add(p.Tokens)
	if s.Request != nil && s.Request.Stream {
		of.Streamed++
	}
	if s.Request != nil && s.Request.Retry {
		of.Retries++
	}
	if p.Reply != nil && p.Reply.Aborted {
		of.Aborted++
	}
}

// tool returns the count of the tool that a call is of.
func (a *reader) tool(callID string) *Tool {
	name := a.tools[callID]
	return among(&a.report.Tools, Tool{Name: name}, func(t Tool) bool { return t.Name == name })
}

// among returns the first of all that is the same as one, which is added if none is.
func among[T any](all *[]T, one T, same func(T) bool) *T {
	i := slices.IndexFunc(*all, same)
	if i < 0 {
		i = len(*all)
		*all = append(*all, one)
	}
	return &(*all)[i]
}

// shown bounds the rows of each kind that [Report.Text] shows.
const shown = 6

// Text returns the report for one screen.
func (r Report) Text() string {
	var l view.List
	l.Addf("agent", "%s, task %s", r.Agent, r.TaskID)
	answer := "none"
	if r.Answer != nil {
		answer = fmt.Sprintf("%q, by %s", clip(*r.Answer, 120), by[r.Rule])
		switch {
		case len(r.SeenIn) > 0:
			answer += "; it stood in: " + strings.Join(r.SeenIn, ", ")
		case !r.InReply:
			answer += "; it stood in nothing that the agent was given, and an audit reports such answers"
		}
		if r.Correct != nil {
			answer += map[bool]string{true: "; correct", false: "; incorrect"}[*r.Correct]
		}
	}
	l.Add("answer", answer)
	l.Addf("time", "%.1f s", float64(r.DurationMs)/1000)
	var rows []string
	for _, c := range r.Calls {
		row := fmt.Sprintf("%s of %s to %s: ", view.Count(c.Count, "call"), c.Dialect, c.Model)
		if c.Status == 0 {
			row += "no reply"
		} else {
			row += fmt.Sprintf("status %d", c.Status)
		}
		if c.Problem != "" {
			row += " (" + clip(c.Problem, 60) + ")"
		}
		row += fmt.Sprintf(", %d tokens in, %d out", c.Tokens.In, c.Tokens.Out)
		for _, n := range []struct {
			count int
			what  string
		}{{c.Streamed, "streamed"}, {c.Retries, "repeated"}, {c.Aborted, "hung up"}} {
			if n.count > 0 {
				row += fmt.Sprintf(", %d %s", n.count, n.what)
			}
		}
		rows = append(rows, row)
	}
	if r.AtOnce > 1 {
		rows = append(rows, fmt.Sprintf("at most %d at once", r.AtOnce))
	}
	addRows(&l, "model", rows)
	l.AddNonEmpty("prompts", r.share())
	rows = nil
	for _, t := range r.Tools {
		row := fmt.Sprintf("%s: %s", t.Name, view.Count(t.Count, "call"))
		if t.Denied > 0 {
			row += fmt.Sprintf(", %d denied", t.Denied)
		}
		if t.Failed > 0 {
			row += fmt.Sprintf(", %d failed", t.Failed)
		}
		rows = append(rows, row)
	}
	addRows(&l, "tools", rows)
	if rows = r.networkRows(); len(rows) > 0 || r.Network == plan.NetworkRecord {
		addRows(&l, "network", rows)
	}
	rows = nil
	hinted := map[string]bool{}
	for _, f := range r.Refused {
		f.Path = clip(f.Path, 100)
		row := fmt.Sprintf("%s: %s, %s", f.Path, f.Code, view.Count(f.Count, "request"))
		if f.Status > 0 {
			row = fmt.Sprintf("%s: %s, status %d, %s", f.Path, f.Code, f.Status, view.Count(f.Count, "request"))
		}
		if len(f.RuleIDs) > 0 {
			row += " by rule " + strings.Join(f.RuleIDs, ", ")
		}
		if f.Model != "" {
			row += fmt.Sprintf(" of the model %q", clip(f.Model, 60))
		}
		if f.Hint != "" && len(r.Why) == 0 && !hinted[f.Hint] {
			row += "; " + f.Hint
			hinted[f.Hint] = true
		}
		rows = append(rows, row)
	}
	if more := r.End.Refused - trajectory.MostRequestsRefused; more > 0 {
		rows = append(rows, fmt.Sprintf("and %d more", more))
	}
	addRows(&l, "refused", rows)
	l.AddNonEmpty("folder", r.folderRow())
	l.Add("ended", r.ended())
	text := view.RowsText(l)
	if _, warning := runview.Found(r.Probed); warning != "" {
		text += "\nwarning: " + warning + "\n"
	}
	lines := strings.Split(strings.TrimSpace(colours.ReplaceAllString(r.End.Stderr, "")), "\n")
	if tail := strings.Join(lines[max(0, len(lines)-8):], "\n"); tail != "" {
		text += "standard error ended in:\n" + view.Indent(visible.Text(tail))
	}
	for _, w := range r.Why {
		text += "\n" + view.Line(w.What) + "\n"
		if w.Hint != "" {
			text += "  hint: " + view.Line(w.Hint) + "\n"
		}
	}
	return text
}

// addRows adds rows of one kind: the first ones, and how many more.
func addRows(l *view.List, name string, rows []string) {
	if len(rows) == 0 {
		rows = []string{"none"}
	}
	for i, row := range view.First(shown, rows) {
		if i > 0 {
			name = ""
		}
		l.Add(name, row)
	}
}

// ended says how the process ended.
func (r Report) ended() string {
	switch e := r.End; {
	case e.Ended == "":
		return "not seen: " + cmp.Or(r.Reason, r.Outcome)
	case e.Ended == trajectory.AgentExited && e.Exit < 0:
		return "a signal ended it"
	case e.Ended == trajectory.AgentExited:
		return fmt.Sprintf("exit code %d", e.Exit)
	default:
		return cmp.Or(ends[e.Ended], e.Ended)
	}
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
