package runview

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// A Filter selects tasks of a run for a list. Its zero value selects all.
type Filter struct {
	Failed bool              // wrong, unanswered, in error or never begun
	Levels []int             // empty: all
	Tools  []string          // an attempt used each of them; empty: any
	Gold   map[string]string // answers to show beside those of the run; nil: none
}

// Any reports whether the list is another one than that of a run without a filter.
func (f Filter) Any() bool { return f.Selects() || f.Gold != nil }

// Selects reports whether tasks may be left out.
func (f Filter) Selects() bool { return f.Failed || len(f.Levels)+len(f.Tools) > 0 }

// Check rejects levels that there are not, and tools that the plan does not have.
func (f Filter) Check(m plan.Plan) error {
	for _, l := range f.Levels {
		if l < 1 || l > 3 {
			return exit.Usagef("such as --level 1,2", "--level is %d, and levels are 1, 2 and 3", l)
		}
	}
	var names []string
	for _, t := range m.Tools {
		names = append(names, t.Name)
	}
	for _, name := range f.Tools {
		if !slices.Contains(names, name) {
			hint := "the plan has no tools"
			if len(names) > 0 {
				hint = "its tools are " + strings.Join(names, ", ")
			}
			return exit.Usagef(hint, "the run has no tool %q", name)
		}
	}
	return nil
}

// takes reports whether a task is listed.
func (f Filter) takes(found *rundir.Run, t *rundir.Task) bool {
	used := func(name string) bool {
		return slices.ContainsFunc(t.Attempts, func(a *rundir.Attempt) bool { return slices.Contains(a.ToolsUsed, name) })
	}
	return (!f.Failed || failed(found, t)) && (len(f.Levels) == 0 || slices.Contains(f.Levels, t.Plan.Level)) &&
		!slices.ContainsFunc(f.Tools, func(name string) bool { return !used(name) })
}

// failed reports whether a task is not solved, or has no answer where nothing says what is solved. A task that another
// attempt is due at has not failed.
func failed(found *rundir.Run, t *rundir.Task) bool {
	a := t.Counted()
	if t.Sealed == nil {
		return a != nil && a.Answer == nil && found.Settled(t)
	}
	return t.Sealed.Outcome != trajectory.Solved && (t.Sealed.Outcome != trajectory.Unscored || a.Answer == nil)
}

// List is a list of tasks for programs.
type List struct {
	Listed  int          `json:"listed"`
	Planned int          `json:"planned"`
	Tasks   []ListedTask `json:"tasks"` // in plan order
}

// ListedTask is a task of a list.
type ListedTask struct {
	Answer   *string  `json:"answer"` // null: none was committed
	Attempts int      `json:"attempts"`
	Gold     *string  `json:"gold,omitzero"` // left out: no dataset was given
	Level    int      `json:"level"`
	Official *bool    `json:"official_correct"` // null: unscored, or not sealed
	Outcome  string   `json:"outcome"`          // of an unfinished run also "not begun" or "open", or how the attempt ended
	TaskID   string   `json:"task_id"`
	Tools    []string `json:"tools_used"` // by all attempts, sorted
}

// List returns the tasks that a filter selects.
func (f Filter) List(found *rundir.Run) *List {
	l := &List{Planned: len(found.Tasks), Tasks: []ListedTask{}}
	for _, t := range found.Tasks {
		if !f.takes(found, t) {
			continue
		}
		listed := ListedTask{Attempts: len(t.Attempts), Level: t.Plan.Level, Outcome: outcome(t), TaskID: t.Plan.TaskID, Tools: []string{}}
		if gold, known := f.Gold[t.Plan.TaskID]; known {
			listed.Gold = &gold
		}
		if a := t.Counted(); a != nil && a.Answer != nil {
			listed.Answer = &a.Answer.Answer
		}
		if t.Sealed != nil {
			listed.Official = found.Result(t).OfficialCorrect
		}
		for _, a := range t.Attempts {
			listed.Tools = append(listed.Tools, a.ToolsUsed...)
		}
		slices.Sort(listed.Tools)
		listed.Tools = slices.Compact(listed.Tools)
		l.Tasks = append(l.Tasks, listed)
	}
	l.Listed = len(l.Tasks)
	return l
}

// outcome returns how a task ended, or how far it is.
func outcome(t *rundir.Task) string {
	a := t.Counted()
	switch {
	case t.Sealed != nil:
		return t.Sealed.Outcome
	case a == nil:
		return "not begun"
	case a.Ended == nil:
		return "open"
	}
	return a.Ended.Outcome
}
