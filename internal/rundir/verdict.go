package rundir

import (
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// Exceptions counts what a run has besides one undisturbed attempt at each task. Dismissals and VoidTasks follow from
// the decisions about the audit's findings, all others from the journal.
type Exceptions struct {
	Dismissals      int `json:"dismissals"`       // findings
	Interruptions   int `json:"interruptions"`    // processes that ended without closing the run, which was resumed
	LostAttempts    int `json:"lost_attempts"`    // see Attempt.Lost
	Resumes         int `json:"resumes"`          // also after a stop because a model could not be reached
	RetriedAttempts int `json:"retried_attempts"` // attempts at a task after its first; in a vote, those after one that ended as an error
	RetriedCalls    int `json:"retried_calls"`    // model calls that repeat a failed one
	VoidTasks       int `json:"void_tasks"`
}

// String lists what is not 0, or returns "none".
func (e Exceptions) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, counted(n, what))
		}
	}
	add(e.Dismissals, "dismissal")
	add(e.VoidTasks, "void task")
	add(e.RetriedAttempts, "retried attempt")
	add(e.RetriedCalls, "retried call")
	add(e.LostAttempts, "lost attempt")
	add(e.Interruptions, "interruption")
	add(e.Resumes, "resume")
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Resumed adds the interruptions and resumes of a run.
func (e Exceptions) Resumed(all []Interruption) Exceptions {
	e.Resumes += len(all)
	for _, i := range all {
		if i.Stopped == "" {
			e.Interruptions++
		}
	}
	return e
}

// Exceptions counts those that the journal shows.
func (f *Fold) Exceptions() Exceptions {
	e := Exceptions{}.Resumed(f.Interruptions)
	for _, t := range f.Tasks {
		for i, a := range t.Attempts {
			e.RetriedCalls += a.Retried
			if i > 0 && (!t.votes || t.Attempts[i-1].Ended.Outcome == trajectory.Errored) {
				e.RetriedAttempts++
			}
			if a.Lost() {
				e.LostAttempts++
			}
		}
	}
	return e
}

// MaxReplied is how many of the model's names in its replies are listed.
const MaxReplied = 32

// maxReplied is how long a listed name is at most, in bytes.
const maxReplied = 200

// AnsweredBy names what answered by the plan and the journal.
func (f *Fold) AnsweredBy() plan.AnsweredBy {
	by := f.Manifest.AnsweredBy().Resumed(f.harnesses...)
	by.RepliedAs, by.RepliedOther = list(slices.Sorted(maps.Keys(f.repliedAs))), f.repliedOther
	return by
}
