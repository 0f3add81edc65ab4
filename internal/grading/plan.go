package grading

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

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
