package runenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/agentdir"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// Signed is the plan of a run as it was signed.
type Signed struct {
	Plan               plan.Plan
	Manifest, Envelope []byte // manifest.json and manifest.dsse.json
}

// Sign completes a plan by its environment, gives it an id, a time and the digests of questions and gold answers, and
// signs it. The salts are those of the digests. A plan whose money is not enough for an attempt at any of its tasks is
// a *budget.LimitError.
func Sign(p plan.Plan, e Env) (Signed, grading.Salts, error) {
	m, err := Complete(p, e)
	if err == nil {
		err = Affords(m, e)
	}
	if err == nil && m.Agent != nil && e.Look != nil {
		m.Agent, err = e.Look(e.Targets())
	}
	if err != nil {
		return Signed{}, grading.Salts{}, err
	}
	id, err := ulid.New(ulid.Timestamp(e.Now()), e.Rand)
	if err != nil {
		return Signed{}, grading.Salts{}, fmt.Errorf("making a run id: %w", err)
	}
	m.RunID, m.Created = id.String(), e.Now().UTC().Format(trajectory.TimeFormat)
	salts, err := grading.NewSalts(e.Rand, m.Rehearsal)
	if err == nil {
		err = salts.Commit(&m, e.Set, e.Gold)
	}
	if err != nil {
		return Signed{}, salts, err
	}
	s := Signed{Plan: m}
	if s.Manifest, err = m.Encode(); err != nil {
		return Signed{}, salts, fmt.Errorf("encoding the manifest: %w", err)
	}
	if s.Envelope, err = sign.Seal(e.Key, plan.ManifestType, s.Manifest); err != nil {
		return Signed{}, salts, fmt.Errorf("signing the manifest: %w", err)
	}
	return s, salts, nil
}

// PlanError means that a run would be resumed with another plan than its own.
type PlanError struct{ Differences []string }

func (e *PlanError) Error() string {
	return "the run cannot go on with another plan: " + strings.Join(e.Differences, "; ")
}

// SamePlan compares the plan that a run would have here with the signed one, of which salts are those of the digests, and
// returns the tools that are approved here. The error is a *PlanError where the plans differ. The program may be another
// version: that is recorded and not refused. dir is where the run is, "" if it is nowhere yet.
func (e Env) SamePlan(dir string, given, old plan.Plan, salts grading.Salts) (approved []string, err error) {
	return e.samePlan(dir, given, old, func(now *plan.Plan) error { return salts.Commit(now, e.Set, e.Gold) })
}

// SamePlanOfShard is SamePlan for a shard, which cannot know the digests of questions and gold answers: metadata_sha256
// covers them. The program must be of the version that made the plan; it may be built for another machine. A shard has
// its own key, and no judge.
func (e Env) SamePlanOfShard(dir string, given, old plan.Plan) (approved []string, err error) {
	return e.samePlan(dir, given, old, func(now *plan.Plan) error {
		if !e.Harness.SameSource(old.Harness) {
			return &PlanError{[]string{fmt.Sprintf("it was made by gaia %s, and this is gaia %s", Version(old.Harness), Version(e.Harness))}}
		}
		now.SigningKey, now.Judge, now.GoldCommitment = old.SigningKey, old.Judge, ""
		if e.Gold.Len() > 0 {
			now.GoldCommitment = old.GoldCommitment
		}
		for i := range min(len(now.Tasks), len(old.Tasks)) {
			now.Tasks[i].QuestionSHA256 = old.Tasks[i].QuestionSHA256
		}
		return nil
	})
}

func (e Env) samePlan(dir string, given, old plan.Plan, complete func(*plan.Plan) error) ([]string, error) {
	now, err := e.complete(given)
	if err != nil {
		return nil, err
	}
	approved := now.Approved // each process has its own, and run_resumed records them
	now.Approved, now.RunID, now.Created, now.Harness = old.Approved, old.RunID, old.Created, old.Harness
	now.Splits = plan.KnownSplits(old.Splits, now.Splits)
	if err := complete(&now); err != nil {
		return nil, err
	}
	differences, err := plan.Diff(old, now)
	if dir != "" && old.Agent != nil && now.Agent != nil && old.Agent.FilesSHA256 != now.Agent.FilesSHA256 {
		if listed, err := os.ReadFile(filepath.Join(dir, plan.AgentFilesFile)); err == nil {
			differences = append(differences, "agent: "+agentdir.Changes(listed, e.AgentFiles))
		}
	}
	if err == nil && len(differences) > 0 {
		err = &PlanError{differences}
	}
	return approved, err
}

// Version names the source that a program was built from. Two programs have the same name if [trajectory.Harness.SameSource]
// holds of them.
func Version(h trajectory.Harness) string {
	text := view.Line(h.Version)
	if h.Commit != "" {
		text += " of commit " + view.Line(h.Commit)
	}
	if h.Dirty {
		text += " with changes"
	}
	if !h.SourceKnown() {
		text += ", executable " + view.Line(h.ExecutableSHA256)
	}
	return text
}
