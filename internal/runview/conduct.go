package runview

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// callAt is a call of a task; a model may use an id again in another turn.
type callAt struct {
	attempt, turn int
	call          string
}

// governed are the events about calls other than running them, in the order of the journal.
type governed map[callAt][]trajectory.Payload

// add adds an event if it is of that kind.
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

// write writes the events about a call, and forgets them.
func (g governed) write(w io.Writer, at callAt) {
	violation := ""
	for _, p := range g[at] {
		switch p := p.(type) {
		case trajectory.PolicyViolation:
			violation = p.Description
		case trajectory.Rollback:
			if p.Reason != violation { // else it was just printed
				fmt.Fprintf(w, "  to be rolled back: %s\n", view.Line(p.Reason))
			}
		}
		fmt.Fprintf(w, "  %s\n", Title(p))
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

// writeChange writes how an attempt changed its workspace, with the whole diff or its first lines.
func writeChange(w io.Writer, c *trajectory.WorkspaceChange, whole bool) {
	if c == nil || len(c.Files) == 0 {
		return
	}
	fmt.Fprintf(w, "  workspace: %s\n", Change(c))
	switch {
	case c.Diff == "":
	case whole:
		fmt.Fprint(w, view.Indent(c.Diff))
	default:
		fmt.Fprint(w, Head(c.Diff))
	}
	if c.Truncated && whole {
		fmt.Fprintln(w, "    … the journal has no more of it")
	}
}

// paths lists the first paths on one line, and counts the others.
func paths(all []string) string {
	const most = 10
	named := all[:min(len(all), most)]
	text := view.Line(strings.Join(named, ", "))
	if more := len(all) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// RulesBroken counts the denied and rolled back calls of a run; "" if there are none.
func RulesBroken(f *rundir.Fold) string {
	var all trajectory.Conduct
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			all.Sum(*a.Conduct, math.MaxInt32)
		}
	}
	if all == (trajectory.Conduct{}) {
		return ""
	}
	return Conduct(all)
}

// Conduct describes the counts of denied and rolled back calls.
func Conduct(c trajectory.Conduct) string {
	text := view.Count(c.Denials.Violations(), "violation") + ", " + view.Count(c.Rollbacks, "rollback")
	for _, more := range []struct {
		n           int
		noun, other string
	}{{c.Denials.Mode, "denial", " by mode"}, {c.Denials.Budget, "denial", " by budget"}, {c.PersonRefusals, "refusal", " by a person"}} {
		if more.n > 0 {
			text += ", " + view.Count(more.n, more.noun) + more.other
		}
	}
	return text
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
