package verify

import (
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// EvidenceVerdict is the verdict on a verified run or package: what answered, with which exceptions, and which claims
// this verifier checked.
type EvidenceVerdict struct {
	AnsweredBy plan.AnsweredBy   `json:"answered_by"`
	Claims     []submit.Claim    `json:"claims"`
	Exceptions rundir.Exceptions `json:"exceptions"`
	Future     []string          `json:"future,omitempty"` // see inFuture
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

// inFuture returns which signed times, each with its name, are later than this machine's clock. A date can be of any
// time zone, so a day is no difference.
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

// addFuture adds the row of such times; nothing if there are none.
func addFuture(rows *view.List, times []string) {
	if len(times) > 0 {
		rows.Add("future", strings.Join(times, "; ")+": later than the clock of this machine")
	}
}

// lastEvent returns the time of the last event of a journal.
func lastEvent(end trajectory.End) string {
	id, err := ulid.ParseStrict(end.LastID)
	if err != nil {
		return ""
	}
	return ulid.Time(id.Time()).UTC().Format(trajectory.TimeFormat)
}
