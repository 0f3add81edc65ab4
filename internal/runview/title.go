package runview

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Title describes an event on one line. Text from outside is escaped; it is as long as the event has it.
func Title(payload trajectory.Payload) string {
	switch p := payload.(type) {
	case trajectory.RunStarted:
		return "run started"
	case trajectory.RunResumed:
		return "run resumed"
	case trajectory.RunCompleted:
		end := "run completed"
		if p.Stopped != "" {
			end = "run stopped by its " + view.Line(p.Stopped)
		}
		return fmt.Sprintf("%s: %d planned, %d solved, %d failed, %d skipped, %d error, %d unscored", end, p.Planned, p.Solved, p.Failed, p.Skipped, p.Error, p.Unscored)
	case trajectory.SecurityEvent:
		return fmt.Sprintf("judge cache: %d of %d entries do not verify", p.Bad, p.Checked)
	case trajectory.JudgeBattery:
		return battery(&rundir.BatterySummary{Accepted: p.Accepted, Asked: p.Asked, Cached: p.Cached, Passed: p.Passed, Problem: p.Problem, Refused: p.Refused, Unreadable: p.Unreadable})
	case trajectory.LimitChanged:
		return fmt.Sprintf("requests at once to %s: %d, before %d (%s)", view.Line(p.Origin), p.To, p.From, view.Line(p.Reason))
	case trajectory.Preflight:
		if p.Error != nil {
			return fmt.Sprintf("preflight %s of %s failed: %d %s", view.Line(p.Kind), view.Line(p.Model), p.Error.Status, view.Line(p.Error.Message))
		}
		return fmt.Sprintf("preflight %s: %s answered, %d ms", view.Line(p.Kind), view.Line(p.Model), p.LatencyMs)
	case trajectory.TaskStarted:
		return "question"
	case trajectory.TurnStarted:
		return "turn started"
	case trajectory.TurnCompleted:
		return fmt.Sprintf("turn completed: %s, %d ms", view.Count(p.ToolCalls, "tool call"), p.LatencyMs)
	case trajectory.ContextCompiled:
		return fmt.Sprintf("prompt: %s, %d bytes", view.Count(len(p.Messages), "new message"), p.Bytes)
	case trajectory.ContextCondensed:
		return fmt.Sprintf("condensed: %s taken out to make room (%s)", view.Count(len(p.Messages), "result"), view.Line(p.Reason))
	case trajectory.ModelCallStarted:
		again := ""
		if p.Try > 1 {
			again = fmt.Sprintf(", try %d", p.Try)
		}
		return "request to model " + view.Line(p.RequestedModel) + again
	case trajectory.PolicyDecision:
		return "decision: " + view.Line(p.Decision) + because(p.Reason)
	case trajectory.PolicyViolation:
		what := "violation"
		if p.Class == string(policy.DeniedByMode) {
			what = "denial by mode"
		}
		return what + because(p.Description)
	case trajectory.ApprovalRequested:
		why := "the policy requires it"
		if len(p.RuleIDs) > 0 {
			why = "for " + strings.Join(p.RuleIDs, ", ")
		}
		return "approval asked: " + view.Line(why)
	case trajectory.ApprovalResolved:
		return "approval " + resolved(p)
	case trajectory.CheckpointSaved:
		return fmt.Sprintf("checkpoint: %s kept", view.Count(len(p.Workspace), "file"))
	case trajectory.Rollback:
		restored, state := "nothing had changed", "the workspace is as it was"
		if len(p.Restored) > 0 {
			restored = "put back: " + paths(p.Restored)
		}
		if p.TreeAfter != p.TreeBefore {
			state = "the workspace is NOT as it was"
		}
		return fmt.Sprintf("rollback: %s; %s", restored, state)
	case trajectory.RequestRefused:
		return fmt.Sprintf("request refused: %s (%s)", view.Line(p.Path), view.Line(p.Code))
	case trajectory.ExchangeStarted:
		return fmt.Sprintf("exchange %d: %s %s", p.Number, view.Line(p.Method), view.Line(p.URL))
	case trajectory.ExchangeCompleted:
		return fmt.Sprintf("exchange %d: %s", p.Number, exchanged(p.Status, p.Bytes, p.LatencyMs, p.Error))
	case trajectory.Error:
		return fmt.Sprintf("failed: %s: %s", view.Line(p.Stage), view.Line(p.Message))
	case trajectory.AnswerCommitted:
		return fmt.Sprintf("answer: %s (rule %s)", view.Line(p.Answer), view.Line(p.Rule))
	case trajectory.AttemptEnded:
		return "ended: " + view.Line(p.Outcome) + inParentheses(p.Reason)
	case trajectory.Judgment:
		return verdicts(&p)
	case trajectory.TaskCommitted:
		return "committed in its shard: " + view.Count(p.Attempts, "attempt")
	case trajectory.ShardMerged:
		what := plan.Delegation{Shard: p.Shard}.String() + " merged"
		switch {
		case p.Events == 0:
			what = plan.Delegation{Shard: p.Shard}.String() + " is gone"
		case p.Superseded:
			what += ", superseded"
		}
		return fmt.Sprintf("%s: %d events, %s lost", what, p.Events, view.Count(p.Lost, "task"))
	case trajectory.TaskSealed:
		return "sealed as " + view.Line(p.Outcome)
	}
	return stepTitle(new(rundir.Attempt).StepOf(trajectory.Event{Payload: payload}))
}

// because returns a reason after a colon, "" for none.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + view.Line(reason)
}

// stepTitle describes a step of a trajectory that is a model call, a tool call or a result, "" for another one.
func stepTitle(step any) string {
	switch s := step.(type) {
	case rundir.LLMCallStep:
		if s.Error != nil {
			return fmt.Sprintf("model failed: %d %s", s.Error.Status, view.Line(s.Error.Message))
		}
		return fmt.Sprintf("model %s: %d tokens in, %d out, %d ms", view.Line(s.ResponseModel), s.TokensIn, s.TokensOut, s.LatencyMs)
	case rundir.ToolCallStep:
		return fmt.Sprintf("call %s(%s)", view.Line(s.Name), view.Line(arguments(s)))
	case rundir.ToolResultStep:
		what := "result"
		if s.Refused {
			what = "refused"
		} else if s.IsError {
			what = "error"
		}
		return fmt.Sprintf("%s of %s: %d bytes", what, view.Line(s.Name), s.Bytes)
	}
	return ""
}

// exchanged describes the reply to an exchange.
func exchanged(status int, bytes, latencyMs int64, problem string) string {
	switch {
	case status == 0:
		return "no reply: " + view.Line(problem)
	case problem != "":
		return fmt.Sprintf("%d, %d bytes, not whole: %s", status, bytes, view.Line(problem))
	}
	return fmt.Sprintf("%d, %d bytes, %d ms", status, bytes, latencyMs)
}

// Change describes how an attempt changed its workspace.
func Change(c *trajectory.WorkspaceChange) string {
	return fmt.Sprintf("%s changed: %s; %d lines added, %d removed, %d reworked", view.Count(len(c.Files), "file"), paths(c.Files), c.Added, c.Removed, c.Reworked)
}

// Process describes how the process of an own agent ended.
func Process(end *trajectory.AgentEnd) string {
	text := view.Line(end.Ended)
	if end.Ended == trajectory.AgentExited {
		text += fmt.Sprintf(" with code %d", end.Exit)
	}
	return text + fmt.Sprintf(", %d bytes of standard output, %d of standard error", end.StdoutBytes, end.StderrBytes)
}
