package submit

import (
	"fmt"
	"strconv"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// Rescore asks the official scorer about every answer that was graded, with the
// gold answers at hand, and wants the verdicts that are recorded, of which the
// statement's score is made; else it returns a *trajectory.Fault. Tasks that an
// adjudication made void are left out: they count wrong whatever is recorded. Where the
// verdicts cannot be told, v.NotRescored says why. The error matches audit.ErrGold for
// answers that are not the plan's.
func (v *Verified) Rescore(gold *audit.Gold) error {
	v.NotRescored = ""
	if !v.Run.Scored() {
		v.NotRescored = "the run is unscored"
		return nil
	}
	answers, err := gold.Of(v.Run.Manifest)
	if err != nil {
		return err
	}
	if answers == nil {
		v.NotRescored = noGold
		return nil
	}
	void := audit.Voided(v.Report.Checks)
	for _, t := range v.Run.Tasks {
		if void[t.Plan.TaskID] {
			continue
		}
		for _, a := range t.Attempts {
			if a.Judgment == nil {
				continue // it has no answer, or is not the one that counts
			}
			if is := judge.QuestionScorer(&a.Answer.Answer, answers[t.Plan.TaskID]); a.Judgment.Official != is {
				return wrongVerdict(t, a, is)
			}
		}
	}
	return nil
}

// wrongVerdict blames the line of a task in which an answer has the wrong verdict.
func wrongVerdict(t *rundir.Task, a *rundir.Attempt, is bool) error {
	says, but := "is correct", "is not"
	if is {
		says, but = "is not correct", "is"
	}
	which := "the answer"
	if len(t.Attempts) > 1 {
		which = "the answer of attempt " + strconv.Itoa(a.Number)
	}
	return &trajectory.Fault{File: rundir.ResultsFile, Line: int64(t.Index) + 1, Reason: fmt.Sprintf("says that %s %s, and by the gold answers it %s", which, says, but)}
}
