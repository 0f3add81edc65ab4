package verify

import (
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// EvidenceVerdict is what a verified run or package comes to: what answered, with
// which exceptions, and which claims this verifier checked.
type EvidenceVerdict struct {
	AnsweredBy plan.AnsweredBy   `json:"answered_by"`
	Claims     []submit.Claim    `json:"claims"`
	Exceptions rundir.Exceptions `json:"exceptions"`
	Future     []string          `json:"future,omitempty"` // see inFuture
}

// inFuture returns which signed times, each with its name, are later than this machine's
// clock. A date can be of any time zone, so a day is no difference.
func inFuture(times ...[2]string) (all []string) {
	limit := time.Now().Add(audit.ClockSkew)
	for _, t := range times {
		at, err := time.Parse(trajectory.TimeFormat, t[1])
		if err != nil {
			if at, err = time.Parse(time.DateOnly, t[1]); err == nil {
				at = at.Add(-24 * time.Hour)
			}
		}
		if err == nil && at.After(limit) {
			all = append(all, t[0]+" "+t[1])
		}
	}
	return all
}

// futureRow is what verify prints of such times; nothing if there are none.
func futureRow(times []string) [][2]string {
	if len(times) == 0 {
		return nil
	}
	return [][2]string{{"future", strings.Join(times, "; ") + ": later than the clock of this machine"}}
}

// lastEvent returns the time of the last event of a journal.
func lastEvent(end trajectory.End) string {
	id, err := ulid.ParseStrict(end.LastID)
	if err != nil {
		return ""
	}
	return ulid.Time(id.Time()).UTC().Format(trajectory.TimeFormat)
}

// runVerdict returns the verdict on a run directory by its journal and decisions.
func runVerdict(run *rundir.Run, decided []audit.Adjudication, dismissals int, g submit.Given) EvidenceVerdict {
	v := EvidenceVerdict{AnsweredBy: run.AnsweredBy(), Claims: submit.RunClaims(run, g), Exceptions: run.Exceptions()}
	void := map[string]bool{}
	for _, a := range decided {
		if a.Decision == audit.Void {
			void[a.TaskID] = true
		}
	}
	v.Exceptions.Dismissals, v.Exceptions.VoidTasks = dismissals, len(void)
	return v
}

// Rows are what verify prints of a verdict: a row a status of claims, by their names.
func (v EvidenceVerdict) Rows() [][2]string {
	by := v.AnsweredBy
	model := by.Model + " at " + by.Origin
	if len(by.ServedAs) > 0 {
		model += ", declared as " + strings.Join(by.ServedAs, ", ")
	}
	replied := by.RepliedAs
	if by.RepliedOther {
		replied = append(replied[:len(replied):len(replied)], "other names")
	}
	if len(replied) == 0 {
		replied = []string{"no name"}
	}
	agent := by.Agent
	for i, h := range by.Harnesses {
		if i > 0 {
			agent += "; resumed by"
		} else {
			agent += ", of"
		}
		agent += " gaia " + harnessBuild(h)
	}
	rows := [][2]string{{"model", model + ", replied as " + strings.Join(replied, ", ")}, {"agent", agent}}
	if s := by.Search; s != nil {
		search := s.Engine
		if s.Origin != "" {
			search += " at " + s.Origin
		}
		rows = append(rows, [2]string{"search", search})
	}
	if len(by.MCPServers) > 0 {
		rows = append(rows, [2]string{"mcp servers", strings.Join(by.MCPServers, ", ")})
	}
	rows = append(rows, [2]string{"exceptions", v.Exceptions.String()})
	rows = append(rows, futureRow(v.Future)...)
	for _, status := range []struct {
		submit.Status
		title string
	}{{submit.ByCheck, "verified"}, {submit.Inferred, "inferred"}, {submit.BySigner, "self-reported"}, {submit.Absent, "not shown"}} {
		var names []string
		for _, c := range v.Claims {
			if c.Status == status.Status {
				names = append(names, c.Claim)
			}
		}
		if len(names) > 0 {
			rows = append(rows, [2]string{status.title, strings.Join(names, ", ")})
		}
	}
	return rows
}

// harnessBuild names a build of this program, and whether its commit is clean.
func harnessBuild(h trajectory.Harness) string {
	switch {
	case h.Commit == "":
		return h.Version + " of an unknown commit"
	case h.Dirty:
		return h.Version + " of commit " + h.Commit + " with changes"
	}
	return h.Version + " of the clean commit " + h.Commit
}
