package rundir

import (
	"crypto/sha256"
	"github.com/gaia-harness/gaia/internal/plan"
)

// Asks says whether the question of a task can be this one: by the plan and the salt of
// a sealed task, by the journal of one that was begun. Of another task nothing is known.
func (t *Task) Asks(question string) bool {
	if t.Sealed != nil {
		digest, err := plan.QuestionDigest(t.Sealed.Salt, question)
		return err == nil && digest == t.Plan.QuestionSHA256
	}
	return len(t.Attempts) == 0 || t.asked == sha256.Sum256([]byte(question))
}
