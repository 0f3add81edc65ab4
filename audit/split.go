package audit

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
)

// wholeSplit is the label of a run of all tasks of a split.
const wholeSplit = "all"

func splitIntegrity() Check {
	return Check{
		ID: "AUD-7", Name: "split-integrity", Severity: Critical, Gate: true,
		Title: "the tasks are those of the split the score is claimed for",
		Why: "a score on validation, whose answers are public, or on tasks picked by hand says nothing about the split it is " +
			"labelled with",
		Fix:   "run the split that the label names, from a pinned revision of the dataset",
		Skips: "the plan does not say which split of which revision, or what it consists of",
		Rules: []Rule{
			{"test-with-gold", Critical, 1, "a split labelled test whose source holds answers"},
			{"test-ids-of-validation", Critical, 1, "a split labelled test with the ids of validation"},
			{"ids-not-of-split", Critical, 1, "planned tasks, or a list of ids, that are not the split's"},
			{"task-in-prompt", Critical, 1, "a template that holds a planned task"},
			{"unlabelled-subset", High, 1, "fewer tasks than the split has under a label that says all"},
			{"other-counts", ToReview, 1, "a split with other counts than GAIA's"},
			{"answers-are-public", Info, 1, "a run of the split validation"},
		},
		Run: func(e *Evidence, n *Notes) {
			d := e.Manifest.Dataset
			whole := place{}
			if d.Split == "" || d.Revision == "" {
				n.gap("the plan does not say which split of which revision")
			}
			var own, validation string
			gold := d.CarriedGold || e.scored()
			for _, s := range e.Manifest.Splits {
				if s.Name == d.Split {
					own = s.IDsSHA256
					gold = gold || s.CarriedGold
				}
				if s.Name == "validation" {
					validation = s.IDsSHA256
				}
			}
			if own == "" {
				n.gap("the plan does not say what the split consists of")
			}
			if d.Split == "test" && gold {
				n.find("test-with-gold", whole, "a split labelled test whose source holds answers", "a source without answers")
			}
			if d.Split == "test" && own != "" && own == validation {
				n.find("test-ids-of-validation", whole, "a split labelled test with the ids of validation", "the ids of test")
			}
			if ids, err := ledger.IDsDigest(slices.Sorted(slices.Values(e.Manifest.SplitIDs))); own != "" && (err != nil || ids != own) {
				n.find("ids-not-of-split", whole, "a list of the split's ids that is not the one its digest is of", "the ids of the split")
			}
			if planned, all := len(e.Manifest.Tasks), max(d.SplitSize, len(e.Manifest.SplitIDs)); d.Selection == wholeSplit && planned < all {
				n.find("unlabelled-subset", whole, fmt.Sprintf("%d tasks under a label that says all", planned), fmt.Sprintf("all %d tasks of the split, or the rule that chose them", all))
			}
			if m := d.Mismatch(); m != "" {
				n.find("other-counts", place{given: true}, m, "the whole split, or a dataset that is not taken for GAIA")
			}
			of := map[string]bool{}
			for _, id := range e.Manifest.SplitIDs {
				of[id] = true
			}
			for _, t := range e.Tasks {
				if !of[t.Plan.TaskID] {
					n.find("ids-not-of-split", place{task: t}, "a planned task that the split does not have", "a task of the split")
				}
				prober := e.prober(t)
				for _, p := range e.Manifest.Prompts {
					if named := prober.Probe(p.Text, "", nil); named.OwnUUID || named.QCov >= wholeQuestion {
						n.find("task-in-prompt", place{task: t, sha256: p.SHA256}, "the template "+p.ID+" holds a planned task", "templates without tasks of the split")
					}
				}
			}
			if d.Split == "validation" {
				n.find("answers-are-public", whole, "split validation", "answers of this split are public: the score is not of unseen tasks")
			}
		},
	}
}
