package grading

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/selection"
	"github.com/gaia-harness/gaia/judgecache"
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
	all := make([]selection.Task, len(set.Tasks))
	for i, t := range set.Tasks {
		there[t.ID], all[i] = t, selection.Task{ID: t.ID, Level: t.Level}
	}
	for _, task := range m.Tasks {
		t, known := there[task.TaskID]
		switch {
		case !known:
			return differ("plans task %q, which is not in", task.TaskID)
		case task.Level != t.Level:
			return differ("has another level of task %q than", task.TaskID)
		case !public && task.FileName != t.FileName:
			return differ("has another file name of task %q than", task.TaskID)
		}
	}
	d := m.Dataset
	switch {
	case !slices.Equal(m.SplitIDs, set.IDs):
		return differ("has other split_ids than")
	case d.SplitSize != len(set.IDs):
		return differ("has another split_size (%d, not %d) than", d.SplitSize, len(set.IDs))
	case d.Levels != set.Levels:
		return differ("has other levels (%d, not %d) than", d.Levels, set.Levels)
	case d.CarriedGold != set.CarriedGold:
		return differ("has another carried_gold than")
	case !hasSplit(m, d.Split, set.CarriedGold, set.IDs):
		return differ("has another split %q than", d.Split)
	}
	if err := compareSelection(m, all, differ); err != nil {
		return err
	}
	for _, s := range set.Others {
		planned := slices.ContainsFunc(m.Splits, func(p plan.SplitPlan) bool { return p.Name == string(s.Split) })
		if !planned && s.Split == loader.Test {
			continue // the hub need not have given it to the run
		}
		if !hasSplit(m, string(s.Split), s.CarriedGold, s.IDs) {
			return differ("has another split %q beside", s.Split)
		}
	}
	for _, p := range m.Splits {
		if p.Name != d.Split && !slices.ContainsFunc(set.Others, func(o loader.Other) bool { return string(o.Split) == p.Name }) {
			warn(fmt.Sprintf("the plan lists split %q, which %s does not have: it was not compared", p.Name, source))
		}
	}
	if public {
		return nil
	}
	set.Tasks = nil
	for _, p := range m.Tasks {
		set.Tasks = append(set.Tasks, there[p.TaskID])
	}
	if err := set.HashAttachments(ctx); err != nil { // which fetches them from a hub
		return fmt.Errorf("comparing attachments with the plan: %w", err)
	}
	for i, p := range m.Tasks {
		if t := set.Tasks[i]; p.FileBytes != t.Bytes || p.FileSHA256 != t.SHA256 {
			return differ("has another attachment of task %q (%d bytes, %q) than the %d bytes, %q, beside", p.TaskID, p.FileBytes, p.FileSHA256, t.Bytes, t.SHA256)
		}
	}
	return nil
}

// differsFrom is the error of a plan that differs from the dataset it names.
func differsFrom(set loader.Set, source, format string, args ...any) error {
	return exit.New(exit.Evidence, trajectory.Faultf(plan.ManifestFile, "%s %s of %s", fmt.Sprintf(format, args...), set.MetadataFile, source),
		"the plan names this file by its digest and differs from its content: ask the signer of the plan for the reason")
}

// hasSplit reports whether a plan lists a split with these ids.
func hasSplit(m plan.Plan, name string, carriedGold bool, ids []string) bool {
	digest, err := plan.IDsDigest(slices.Sorted(slices.Values(ids)))
	at := slices.IndexFunc(m.Splits, func(p plan.SplitPlan) bool { return p.Name == name })
	return err == nil && at >= 0 && m.Splits[at] == plan.SplitPlan{CarriedGold: carriedGold, IDsSHA256: digest, Name: name, Size: len(ids)}
}

// compareSelection repeats the selection of a plan on all tasks of its split.
func compareSelection(m plan.Plan, all []selection.Task, differ func(string, ...any) error) error {
	rule := m.Dataset.Selection
	f, err := selection.Parse(rule)
	var picked []int
	if err == nil {
		picked, err = f.Pick(all, m.Dataset.Split)
	}
	if err != nil {
		return differ("has tasks that selection %q does not give (%v) of", rule, err)
	}
	if !slices.EqualFunc(picked, m.Tasks, func(i int, t plan.PlannedTask) bool { return all[i].ID == t.TaskID }) {
		return differ("has %d tasks that are not the %d of selection %q of", len(m.Tasks), len(picked), rule)
	}
	return nil
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

// Describe fills in what a plan says of its dataset: the split that was loaded, its
// tasks, and the other splits. The tasks have no digests of their questions yet.
func Describe(m *plan.Plan, set loader.Set) (err error) {
	m.Dataset = plan.Dataset{CarriedGold: set.CarriedGold, ErrorsOf: m.Dataset.ErrorsOf, Hub: set.Hub, Levels: set.Levels, MetadataFile: set.MetadataFile,
		MetadataSHA256: set.Digest, Name: set.Dataset, Revision: set.Revision, Selection: m.Dataset.Selection,
		Split: string(set.Split), SplitSize: len(set.IDs)}
	m.SplitIDs, m.Tasks, m.Splits = set.IDs, nil, nil
	if m.Dataset.IDsSHA256, err = plan.IDsDigest(set.IDs); err != nil {
		return err
	}
	for _, t := range set.Tasks {
		m.Tasks = append(m.Tasks, plan.PlannedTask{FileBytes: t.Bytes, FileName: t.FileName, FileSHA256: t.SHA256, Level: t.Level, TaskID: t.ID})
	}
	own := loader.Other{Split: set.Split, IDs: set.IDs, CarriedGold: set.CarriedGold}
	for _, s := range append([]loader.Other{own}, set.Others...) {
		digest, err := plan.IDsDigest(slices.Sorted(slices.Values(s.IDs)))
		if err != nil {
			return err
		}
		m.Splits = append(m.Splits, plan.SplitPlan{CarriedGold: s.CarriedGold, IDsSHA256: digest, Name: string(s.Split), Size: len(s.IDs)})
	}
	slices.SortFunc(m.Splits, func(a, b plan.SplitPlan) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Commit adds to a plan of a set the digests of its questions and, if there are gold
// answers, the commitment to them.
func (s Salts) Commit(m *plan.Plan, set loader.Set, gold loader.Gold) (err error) {
	m.GoldCommitment = ""
	if gold.Len() > 0 {
		if m.GoldCommitment, err = plan.Commitment(gold.Map(), s.Salt); err != nil {
			return err
		}
	}
	for i, t := range set.Tasks {
		if err := m.Tasks[i].SaltQuestion(s.Secret, t.Question); err != nil {
			return err
		}
	}
	return nil
}

// maxBad bounds the entries that one event names.
const maxBad = 100

// BadEntries is the event of entries of the judge cache that do not verify, of those
// that were checked.
func BadEntries(kind string, checked int, bad []judgecache.Bad) trajectory.SecurityEvent {
	e := trajectory.SecurityEvent{Bad: len(bad), Checked: checked, Kind: kind}
	for _, b := range bad[:min(len(bad), maxBad)] {
		e.Entries = append(e.Entries, trajectory.BadEntry{Name: b.Name, Reason: b.Reason})
	}
	return e
}
