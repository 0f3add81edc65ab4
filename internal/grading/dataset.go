package grading

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/selection"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

// ComparePlan compares all that a plan says of its dataset with the loaded split:
// ids and their order, levels, the selection, the other splits and the planned tasks
// with their attachments. Of a public package's plan it compares ids and levels only,
// not what the tasks ask. It warns of splits of the plan that the dataset does not have.
func ComparePlan(ctx context.Context, source string, m plan.Plan, set loader.Set, public bool, warn func(string)) error {
	differ := func(format string, args ...any) error { return differsFrom(set, source, format, args...) }
	there := make(map[string]loader.Task, len(set.Tasks))
	for _, t := range set.Tasks {
		there[t.ID] = t
	}
	for _, task := range m.Tasks {
		t, known := there[task.TaskID]
		if !known {
			return differ("plans task %q, which is not in", task.TaskID)
		}
		if what := differs(task, t, public); what != "" {
			return differ("has another %s of task %q than", what, task.TaskID)
		}
	}
	if what := ownSplitDiffers(m, set); what != "" {
		return differ("%s", what+" than")
	}
	if what, err := selectionDiffers(m, set); err != nil {
		return differ("has tasks that selection %q does not give (%v) of", m.Dataset.Selection, err)
	} else if what != "" {
		return differ("%s", what+" of")
	}
	for _, s := range set.Others {
		planned := slices.IndexFunc(m.Splits, func(p plan.SplitPlan) bool { return p.Name == string(s.Split) })
		if planned < 0 && s.Split == loader.Test {
			continue // the hub need not have given it to the run
		}
		if digest, err := plan.IDsDigest(slices.Sorted(slices.Values(s.IDs))); err != nil {
			return err
		} else if want := (plan.SplitPlan{CarriedGold: s.CarriedGold, IDsSHA256: digest, Name: string(s.Split), Size: len(s.IDs)}); planned < 0 || m.Splits[planned] != want {
			return differ("has another split %q beside", s.Split)
		}
	}
	for _, p := range m.Splits {
		if p.Name != m.Dataset.Split && !slices.ContainsFunc(set.Others, func(o loader.Other) bool { return string(o.Split) == p.Name }) {
			warn(fmt.Sprintf("the plan lists split %q, which %s does not have: it was not compared", p.Name, source))
		}
	}
	if public {
		return nil
	}
	return compareAttachments(ctx, m, set, there, differ)
}

// differsFrom is the error of a plan that differs from the dataset it names.
func differsFrom(set loader.Set, source, format string, args ...any) error {
	return exit.New(exit.Evidence, trajectory.Faultf(plan.ManifestFile, "%s %s of %s", fmt.Sprintf(format, args...), set.MetadataFile, source),
		"the plan names this file by its digest and differs from its content: ask the signer of the plan for the reason")
}

// ownSplitDiffers names in what the plan's own split differs from the loaded one;
// "" if in nothing.
func ownSplitDiffers(m plan.Plan, set loader.Set) string {
	d := m.Dataset
	switch own := slices.IndexFunc(m.Splits, func(p plan.SplitPlan) bool { return p.Name == d.Split }); {
	case !slices.Equal(m.SplitIDs, set.IDs):
		return "has other split_ids"
	case d.SplitSize != len(set.IDs):
		return fmt.Sprintf("has another split_size (%d, not %d)", d.SplitSize, len(set.IDs))
	case d.Levels != set.Levels:
		return fmt.Sprintf("has other levels (%d, not %d)", d.Levels, set.Levels)
	case d.CarriedGold != set.CarriedGold:
		return "has another carried_gold"
	case own < 0:
		return fmt.Sprintf("has another split %q", d.Split)
	default:
		digest, err := plan.IDsDigest(slices.Sorted(slices.Values(set.IDs)))
		if want := (plan.SplitPlan{CarriedGold: set.CarriedGold, IDsSHA256: digest, Name: d.Split, Size: len(set.IDs)}); err != nil || m.Splits[own] != want {
			return fmt.Sprintf("has another split %q", d.Split)
		}
	}
	return ""
}

// selectionDiffers repeats the selection of a plan on the loaded split and says in
// what the planned tasks differ; "" if in nothing.
func selectionDiffers(m plan.Plan, set loader.Set) (string, error) {
	f, err := selection.Parse(m.Dataset.Selection)
	if err != nil {
		return "", err
	}
	all := make([]selection.Task, len(set.Tasks))
	for i, t := range set.Tasks {
		all[i] = selection.Task{ID: t.ID, Level: t.Level}
	}
	picked, err := f.Pick(all, m.Dataset.Split)
	if err != nil {
		return "", err
	}
	same := slices.EqualFunc(picked, m.Tasks, func(i int, t plan.PlannedTask) bool { return all[i].ID == t.TaskID })
	if !same {
		return fmt.Sprintf("has %d tasks that are not the %d of selection %q", len(m.Tasks), len(picked), m.Dataset.Selection), nil
	}
	return "", nil
}

// compareAttachments reads the attachments of the planned tasks, which fetches them
// from a hub, and compares their sizes and digests with the plan's.
func compareAttachments(ctx context.Context, m plan.Plan, set loader.Set, there map[string]loader.Task, differ func(string, ...any) error) error {
	set.Tasks = nil
	for _, p := range m.Tasks {
		set.Tasks = append(set.Tasks, there[p.TaskID])
	}
	if err := set.HashAttachments(ctx); err != nil {
		return fmt.Errorf("comparing attachments with the plan: %w", err)
	}
	for i, p := range m.Tasks {
		if t := set.Tasks[i]; p.FileBytes != t.Bytes || p.FileSHA256 != t.SHA256 {
			return differ("has another attachment of task %q (%d bytes, %q) than the %d bytes, %q, beside", p.TaskID, p.FileBytes, p.FileSHA256, t.Bytes, t.SHA256)
		}
	}
	return nil
}

// differs names in what a planned task is not the one of the same id in the dataset,
// "" if in nothing. Of a public package's task it compares the level only.
func differs(planned plan.PlannedTask, there loader.Task, public bool) string {
	switch {
	case planned.Level != there.Level:
		return "level"
	case public:
		return ""
	case planned.FileName != there.FileName:
		return "file name"
	}
	return ""
}

// GoldOf returns the gold answers of the plan's tasks from a split that ComparePlan has
// compared with it; nil for a plan without gold answers.
func GoldOf(source string, m plan.Plan, set loader.Set, gold loader.Gold) (*audit.Gold, error) {
	if m.GoldCommitment == "" {
		return nil, nil
	}
	all := gold.Map()
	g := &audit.Gold{Answers: make(map[string]string, len(m.Tasks)), MetadataSHA256: set.Digest}
	for _, task := range m.Tasks {
		answer, known := all[task.TaskID]
		if !known {
			return nil, trajectory.Faultf(set.MetadataFile, "of %s has no answer to task %q of the plan", source, task.TaskID)
		}
		g.Answers[task.TaskID] = answer
	}
	return g, nil
}

// CompareQuestions compares what a run asked with the loaded split.
func CompareQuestions(source string, set loader.Set, of *rundir.Run) error {
	asks := make(map[string]string, len(set.Tasks))
	for _, t := range set.Tasks {
		asks[t.ID] = t.Question
	}
	for _, t := range of.Tasks {
		if !t.Asks(asks[t.Plan.TaskID]) {
			return differsFrom(set, source, "has another question of task %q than", t.Plan.TaskID)
		}
	}
	return nil
}

// PrivateFault says which file holds the gold answers that an audit was given.
func PrivateFault(err error) error {
	if errors.Is(err, audit.ErrGold) {
		return trajectory.Faultf(rundir.PrivateFile, "%v", err)
	}
	return err
}

// PrivateGold reads the gold answers of a run; nil if it has kept none.
func PrivateGold(dir string) (*audit.Gold, error) {
	answers, salts, err := ReadPrivate(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &audit.Gold{Answers: answers, Salt: salts.Salt}, nil
}
