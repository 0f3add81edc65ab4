package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestGoldFor: the answers of a dataset are those of a plan only if the plan has its
// tasks as they stand there.
func TestGoldFor(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs, getenv: func(string) string { return "" }}
	set, _, err := a.loadTasks(t.Context(), taskFlags{source: sourceFixtures, split: "validation"})
	if err != nil {
		t.Fatal(err)
	}
	plan := ledger.Manifest{GoldCommitment: "of these", Dataset: ledger.Dataset{MetadataSHA256: set.Digest, Name: "harbour", Revision: "2", Split: "validation"}}
	for _, task := range set.Tasks {
		plan.Tasks = append(plan.Tasks, ledger.PlannedTask{FileName: task.FileName, Level: task.Level, QuestionSHA256: sign.Digest([]byte(task.Question)), TaskID: task.ID})
	}
	id := plan.Tasks[1].TaskID
	for _, tt := range []struct {
		name            string
		change          func(*ledger.Manifest)
		file, why, hint string
	}{
		{"the plan's", func(*ledger.Manifest) {}, "", "", ""},
		{"another file", func(m *ledger.Manifest) { m.Dataset.MetadataSHA256 = sign.Digest(nil) }, set.MetadataFile, "of fixtures is " + set.Digest, `give the dataset that the run was planned from: "harbour" at revision "2"`},
		{"a task that is not there", func(m *ledger.Manifest) { m.Tasks[1].TaskID = "fab1e9ff" }, set.MetadataFile, `has no answer to task "fab1e9ff" of the plan`, ""},
		{"another question", func(m *ledger.Manifest) { m.Tasks[1].QuestionSHA256 = sign.Digest(nil) }, ledger.ManifestFile, `has another question of task "` + id + `" than `, "ask who signed the plan"},
		{"another level", func(m *ledger.Manifest) { m.Tasks[1].Level++ }, ledger.ManifestFile, `has another level of task "` + id + `" than `, "ask who signed the plan"},
		{"another file name", func(m *ledger.Manifest) { m.Tasks[1].FileName += "x" }, ledger.ManifestFile, `has another file name of task "` + id + `" than `, "ask who signed the plan"},
		{"the first of two", func(m *ledger.Manifest) { m.Tasks[1].Level++; m.Tasks[2].QuestionSHA256 = "" }, ledger.ManifestFile, `has another level of task "` + id + `" than `, "ask who signed the plan"},
	} {
		m := plan
		m.Tasks = slices.Clone(plan.Tasks)
		tt.change(&m)
		gold, err := a.goldFor(t.Context(), sourceFixtures, m)
		if tt.why == "" {
			if err != nil || len(gold.Answers) != len(m.Tasks) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		var fault *trajectory.Fault
		errs.Reset()
		if !errors.As(err, &fault) || fault.File != tt.file || !strings.Contains(fault.Reason, tt.why) || a.exit(err) != exitEvidence ||
			strings.Contains(errs.String(), "gaia: hint: ") != (tt.hint != "") || !strings.Contains(errs.String(), tt.hint) {
			t.Errorf("%s: %v\n%s", tt.name, err, errs.String())
		}
	}
}
