package runflags

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// CheckOnlyErrors rejects what --only-errors cannot be combined with; given reports which flags were given.
func (s *Settings) CheckOnlyErrors(given func(string) bool) error {
	switch {
	case !s.OnlyErrors:
		return nil
	case s.LikeWhat == "":
		return exit.Usagef("give --like RUN, too", "--only-errors is of the run that --like names")
	case given("submit-intent") && s.Plan.SubmitIntent:
		return exit.Usagef("leave one of them out", "--only-errors chooses tasks by their outcomes, and such a run cannot be submitted")
	}
	for _, flag := range []string{"split", "level", "task", "sample", "seed", "limit"} {
		if given(flag) {
			return exit.Usagef("leave one of them out", "--only-errors chooses the tasks, and so does --%s", flag)
		}
	}
	return nil
}

// reasons explain why tasks failed, in the order in which they are counted.
var reasons = []struct {
	failed rundir.Failed
	text   string
}{
	{rundir.FailedEndpoint, "the model's endpoint or the network to it failed, after all tries"},
	{rundir.FailedStop, "a failure that every task would meet stopped the run"},
	{rundir.FailedInterrupted, "the process was interrupted, or evidence could not be recorded"},
	{rundir.FailedSandbox, "the agent's program could not be started"},
	{rundir.FailedRequest, "the endpoint refused the request or its reply was unusable: the agent or the model may be the cause"},
	{rundir.FailedLost, "it was interrupted after a reply that may have been an answer"},
	{rundir.FailedOther, "a tool failed or an event was too large: the agent may be the cause"},
}

// TakeErrors selects of a finished run's tasks those that failed for infrastructure, which is no fault of the agent. It
// returns lines that say how many tasks were taken, and why or why not. The plan is of no run to be submitted.
func (s *Settings) TakeErrors(found *rundir.Run) (lines []string, err error) {
	m := found.Manifest
	taken, others, skipped := map[rundir.Failed]int{}, map[rundir.Failed]int{}, 0
	s.Selected, s.Filter.IDs, s.Plan.SubmitIntent = &m.Dataset, nil, false
	for _, t := range found.Tasks {
		switch t.Sealed.Outcome {
		case trajectory.Skipped:
			skipped++
		case trajectory.Errored:
			why := t.Counted().Failed()
			if !why.Infrastructure() {
				others[why]++
				continue
			}
			taken[why]++
			s.Filter.IDs = append(s.Filter.IDs, t.Plan.TaskID)
		}
	}
	s.Filter.ErrorsOf = m.RunID
	s.Plan.Dataset.ErrorsOf = plan.ErrorsOf{ManifestSHA256: found.ManifestSHA256, Planned: len(m.Tasks), RunID: m.RunID}
	n := len(s.Filter.IDs)
	lines = append(lines, fmt.Sprintf("%d of %s of run %s failed for infrastructure", n, view.Count(len(m.Tasks), "task"), m.RunID))
	for _, r := range reasons {
		if n := taken[r.failed]; n > 0 {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", view.Count(n, "task"), r.failed, r.text))
		}
		if n := others[r.failed]; n > 0 {
			lines = append(lines, fmt.Sprintf("not taken: %s, %s: %s", view.Count(n, "task"), r.failed, r.text))
		}
	}
	if skipped > 0 {
		lines = append(lines, fmt.Sprintf("not taken: %s, skipped: the budget of the run was used up before they began", view.Count(skipped, "task")))
	}
	if n == 0 {
		return nil, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("no task of run %s failed for infrastructure, so no run was planned", m.RunID), Reasons: lines[1:],
			Hints: []string{"--task names tasks to run again, whatever their outcome"}}
	}
	return lines, nil
}

// CheckSelected rejects a dataset other than that of the run whose errors are planned: its tasks may be others.
func (s *Settings) CheckSelected(digest string) error {
	if s.OnlyErrors && s.Selected.MetadataSHA256 != digest {
		return exit.Usagef("give the --dataset and --revision of that run", "the tasks are of another version of the dataset than those of run %s", s.Filter.ErrorsOf)
	}
	return nil
}
