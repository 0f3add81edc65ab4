package runview

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
)

// shownPaths bounds how many paths show names in a line.
const shownPaths = 10

// callAt is a call of a task; a model may use an id again in another turn.
type callAt struct {
	attempt, turn int
	call          string
}

// governed is what was done about calls beside running them, in the order of the
// journal.
type governed map[callAt][]trajectory.Payload

// add takes an event if it is of that kind.
func (g governed) add(e trajectory.Event) {
	at := callAt{attempt: e.Attempt, turn: e.Turn}
	switch p := e.Payload.(type) {
	case trajectory.ApprovalRequested:
		at.call = p.CallID
	case trajectory.ApprovalResolved:
		at.call = p.CallID
	case trajectory.PolicyViolation:
		at.call = p.CallID
	case trajectory.CheckpointSaved:
		at.call = p.CallID
	case trajectory.Rollback:
		at.call = p.CallID
	default:
		return
	}
	g[at] = append(g[at], e.Payload)
}

// write says what was done about a call, once.
func (g governed) write(w io.Writer, at callAt) {
	violation := ""
	for _, p := range g[at] {
		switch p := p.(type) {
		case trajectory.ApprovalRequested:
			why := "the policy wants it"
			if len(p.RuleIDs) > 0 {
				why = "for " + strings.Join(p.RuleIDs, ", ")
			}
			fmt.Fprintf(w, "  approval asked: %s\n", view.Line(why))
		case trajectory.ApprovalResolved:
			fmt.Fprintf(w, "  approval %s\n", resolved(p))
		case trajectory.PolicyViolation:
			violation = p.Description
			what := "violation"
			if p.Class == string(policy.DeniedByMode) {
				what = "denial by mode"
			}
			fmt.Fprintf(w, "  %s: %s\n", what, view.Line(p.Description))
		case trajectory.CheckpointSaved:
			fmt.Fprintf(w, "  checkpoint: %s kept\n", view.Count(len(p.Workspace), "file"))
		case trajectory.Rollback:
			writeRollback(w, p, violation)
		}
	}
	delete(g, at)
}

func resolved(p trajectory.ApprovalResolved) string {
	answer := "denied"
	if p.Approved {
		answer = "given"
	}
	switch p.By {
	case trajectory.ByPerson:
		return fmt.Sprintf("%s by a person, after %d ms", answer, p.LatencyMs)
	case trajectory.Beforehand:
		return answer + " beforehand"
	case trajectory.ByNoTerminal:
		return answer + ": there is no terminal to ask on"
	}
	return answer + " by " + view.Line(p.By)
}

// writeRollback leaves out a reason that has just been told as that of a violation.
func writeRollback(w io.Writer, p trajectory.Rollback, told string) {
	if p.Reason != told {
		fmt.Fprintf(w, "  to be rolled back: %s\n", view.Line(p.Reason))
	}
	restored := "nothing had changed"
	if len(p.Restored) > 0 {
		restored = "put back: " + paths(p.Restored)
	}
	state := "the workspace is as it was"
	if p.TreeAfter != p.TreeBefore {
		state = "the workspace is NOT as it was"
	}
	fmt.Fprintf(w, "  rollback: %s; %s\n", restored, state)
}

// writeChange says what an attempt made of its workspace, with the whole diff if
// it is asked for.
func writeChange(w io.Writer, c *trajectory.WorkspaceChange, whole bool) {
	if c == nil || len(c.Files) == 0 {
		return
	}
	fmt.Fprintf(w, "  workspace: %s changed: %s; %d lines added, %d removed, %d reworked\n",
		view.Count(len(c.Files), "file"), paths(c.Files), c.Added, c.Removed, c.Reworked)
	switch {
	case c.Diff == "":
	case whole:
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(strings.TrimRight(c.Diff, "\n"), "\n", "\n    "))
	default:
		fmt.Fprint(w, Head(c.Diff))
	}
	if c.Truncated && whole {
		fmt.Fprintln(w, "    … the journal has no more of it")
	}
}

func paths(all []string) string {
	named := all[:min(len(all), shownPaths)]
	text := view.Line(strings.Join(named, ", "))
	if more := len(all) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// RulesBroken counts what was done about the calls of a run, "" if nothing was.
func RulesBroken(f *rundir.Fold) string {
	var all trajectory.Conduct
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			all.Sum(a.Conduct, math.MaxInt32)
		}
	}
	if all == (trajectory.Conduct{}) {
		return ""
	}
	return Conduct(all)
}

// Conduct says what was done about calls.
func Conduct(c trajectory.Conduct) string {
	text := view.Count(c.Denials.Violations(), "violation") + ", " + view.Count(c.Rollbacks, "rollback")
	for _, more := range []struct {
		n    int
		what string
	}{{c.Denials.Mode, "denial by mode"}, {c.Denials.Budget, "denial by budget"}, {c.PersonRefusals, "refusal by a person"}} {
		switch {
		case more.n == 1:
			text += ", 1 " + more.what
		case more.n > 1:
			noun, rest, _ := strings.Cut(more.what, " ")
			text += fmt.Sprintf(", %d %ss %s", more.n, noun, rest)
		}
	}
	return text
}

// argument is the value of an argument as JSON. The journal keeps texts as they
// are and other values as their JSON: a text that reads as one is taken for it.
func argument(value string) string {
	if v := jsontext.Value(value); v.IsValid() && v.Kind() != '"' && strings.TrimSpace(value) == value {
		return value
	}
	return fmt.Sprintf("%q", value)
}

// AllFailed reports whether there were attempts, and all ended in an error.
func AllFailed(f *rundir.Fold) bool {
	attempts := 0
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			if attempts++; a.Ended == nil || a.Ended.Outcome != trajectory.Errored {
				return false
			}
		}
	}
	return attempts > 0
}
