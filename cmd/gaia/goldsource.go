package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// goldFor reads the answers of a plan's tasks from a dataset, written as --source
// writes it, at the plan's revision. They count only if they are from the file
// that the tasks of the plan are from, and the plan has the tasks as they stand there:
// anything else is a *trajectory.Fault that names the file, or the plan. Of a plan
// without answers there are none to read, and nothing is asked for.
func (a *app) goldFor(ctx context.Context, source string, m ledger.Manifest) (*audit.Gold, error) {
	t := taskFlags{source: source, split: m.Dataset.Split}
	if source == "" {
		return nil, emptyFlag("gold")
	}
	if err := t.checkSource(); err != nil {
		return nil, err
	}
	if m.GoldCommitment == "" {
		return nil, nil
	}
	if m.Dataset.Hub != "" && t.repo() == m.Dataset.Name {
		t.revision = m.Dataset.Revision
	}
	a.tellNews(&t)
	// All of the split: which file it is, is to be asked before what it holds.
	set, gold, err := a.loadTasks(ctx, t)
	if err != nil {
		return nil, err
	}
	if set.Digest != m.Dataset.MetadataSHA256 {
		return nil, fail(exitEvidence, trajectory.Faultf(set.MetadataFile, "of %s is %s, but the plan's tasks are from %s", source, set.Digest, m.Dataset.MetadataSHA256),
			fmt.Sprintf("give the dataset that the run was planned from: %q at revision %q", m.Dataset.Name, m.Dataset.Revision))
	}
	all, there := gold.Map(), make(map[string]ledger.PlannedTask, len(set.Tasks))
	for _, t := range set.Tasks {
		there[t.ID] = ledger.PlannedTask{FileName: t.FileName, Level: t.Level, QuestionSHA256: sign.Digest([]byte(t.Question)), TaskID: t.ID}
	}
	g := &audit.Gold{Answers: make(map[string]string, len(m.Tasks)), MetadataSHA256: set.Digest}
	for _, task := range m.Tasks {
		answer, known := all[task.TaskID]
		if !known {
			return nil, trajectory.Faultf(set.MetadataFile, "of %s has no answer to task %q of the plan", source, task.TaskID)
		}
		if what := differs(task, there[task.TaskID]); what != "" {
			return nil, fail(exitEvidence, trajectory.Faultf(ledger.ManifestFile, "has another %s of task %q than %s of %s", what, task.TaskID, set.MetadataFile, source),
				"the plan names this very file, but not what stands in it: ask who signed the plan what the tasks were")
		}
		g.Answers[task.TaskID] = answer
	}
	return g, nil
}

// differs names in what a planned task is not the one of the same id in the dataset,
// "" if in nothing.
func differs(planned, there ledger.PlannedTask) string {
	switch {
	case planned.QuestionSHA256 != there.QuestionSHA256:
		return "question"
	case planned.Level != there.Level:
		return "level"
	case planned.FileName != there.FileName:
		return "file name"
	}
	return ""
}

// publishedGold reads the gold answers of a run's plan from a dataset.
func (a *app) publishedGold(ctx context.Context, dir fs.FS, source string) (*audit.Gold, error) {
	m, _, _, err := ledger.ReadPlan(dir)
	if err != nil {
		return nil, err
	}
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	return a.goldFor(ctx, source, m)
}

// privateFault says which file holds the gold answers that an audit was given.
func privateFault(err error) error {
	if errors.Is(err, audit.ErrGold) {
		return trajectory.Faultf(run.PrivateFile, "%v", err)
	}
	return err
}

// privateGold reads the gold answers of a run; nil if it has kept none.
func privateGold(dir string) (*audit.Gold, error) {
	answers, salt, err := run.ReadGold(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &audit.Gold{Answers: answers, Salt: salt}, nil
}
