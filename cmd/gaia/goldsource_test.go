package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestGoldFor: the answers of a dataset are those of a plan only if the plan has its
// tasks as they stand there.
func TestGoldFor(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs, getenv: func(string) string { return "" }}
	set, _, err := a.user().LoadTasks(t.Context(), runflags.Tasks{Source: runflags.SourceFixtures, Split: "validation"})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.HashAttachments(t.Context()); err != nil {
		t.Fatal(err)
	}
	plan := planpkg.Plan{GoldCommitment: "of these", SplitIDs: set.IDs, Dataset: planpkg.Dataset{CarriedGold: set.CarriedGold, Levels: set.Levels,
		MetadataSHA256: set.Digest, Name: "harbour", Revision: "2", Selection: "all", Split: "validation", SplitSize: len(set.IDs)}}
	for _, s := range append(set.Others, loader.Other{Split: set.Split, IDs: set.IDs, CarriedGold: set.CarriedGold}) {
		digest, err := planpkg.IDsDigest(slices.Sorted(slices.Values(s.IDs)))
		if err != nil {
			t.Fatal(err)
		}
		plan.Splits = append(plan.Splits, planpkg.SplitPlan{CarriedGold: s.CarriedGold, IDsSHA256: digest, Name: string(s.Split), Size: len(s.IDs)})
	}
	attached := -1
	for i, task := range set.Tasks {
		plan.Tasks = append(plan.Tasks, planpkg.PlannedTask{FileBytes: task.Bytes, FileName: task.FileName, FileSHA256: task.SHA256, Level: task.Level,
			TaskID: task.ID})
		if task.FileName != "" {
			attached = i
		}
	}
	if attached < 0 || len(plan.Splits) != 2 {
		t.Fatalf("the fixtures have no attachment or %d splits", len(plan.Splits))
	}
	with, own := plan.Tasks[attached].TaskID, len(plan.Splits)-1
	id := plan.Tasks[1].TaskID
	for _, tt := range []struct {
		name            string
		change          func(*planpkg.Plan)
		file, why, hint string
	}{
		{"the plan's", func(*planpkg.Plan) {}, "", "", ""},
		{"another file", func(m *planpkg.Plan) { m.Dataset.MetadataSHA256 = canonical.Digest(nil) }, set.MetadataFile, "of fixtures is " + set.Digest, `give the dataset that the run was planned from: "harbour" at revision "2"`},
		{"a task that is not there", func(m *planpkg.Plan) { m.Tasks[1].TaskID = "fab1e9ff" }, planpkg.ManifestFile, `plans task "fab1e9ff", which is not in `, "ask the signer"},
		{"another level", func(m *planpkg.Plan) { m.Tasks[1].Level++ }, planpkg.ManifestFile, `has another level of task "` + id + `" than `, "ask the signer"},
		{"another file name", func(m *planpkg.Plan) { m.Tasks[1].FileName += "x" }, planpkg.ManifestFile, `has another file name of task "` + id + `" than `, "ask the signer"},
		{"the first of two", func(m *planpkg.Plan) { m.Tasks[1].Level++; m.Tasks[2].FileName += "x" }, planpkg.ManifestFile, `has another level of task "` + id + `" than `, "ask the signer"},
		{"a task left out", func(m *planpkg.Plan) { m.Tasks = m.Tasks[1:] }, planpkg.ManifestFile, `has 39 tasks that are not the 40 of selection "all" of `, "ask the signer"},
		{"another sample", func(m *planpkg.Plan) { m.Dataset.Selection, m.Tasks = "sample=2 seed=7", m.Tasks[:2] }, planpkg.ManifestFile, `has 2 tasks that are not the 2 of selection "sample=2 seed=7" of `, "ask the signer"},
		{"tasks of a level, not all", func(m *planpkg.Plan) { m.Dataset.Selection, m.Tasks = "level=1 limit=2", m.Tasks[2:4] }, planpkg.ManifestFile, `has 2 tasks that are not the 2 of selection "level=1 limit=2" of `, "ask the signer"},
		{"an unknown label", func(m *planpkg.Plan) { m.Dataset.Selection = "the hard ones" }, planpkg.ManifestFile, `has tasks that selection "the hard ones" does not give`, "ask the signer"},
		{"a split that was cut", func(m *planpkg.Plan) { m.SplitIDs = m.SplitIDs[:3] }, planpkg.ManifestFile, "has other split_ids than ", "ask the signer"},
		{"another order", func(m *planpkg.Plan) { slices.Reverse(m.SplitIDs) }, planpkg.ManifestFile, "has other split_ids than ", "ask the signer"},
		{"another size", func(m *planpkg.Plan) { m.Dataset.SplitSize-- }, planpkg.ManifestFile, "has another split_size (39, not 40) than ", "ask the signer"},
		{"other levels", func(m *planpkg.Plan) { m.Dataset.Levels[0]--; m.Dataset.Levels[1]++ }, planpkg.ManifestFile, "has other levels ([13 18 9], not [14 17 9]) than ", "ask the signer"},
		{"answers that it did not carry", func(m *planpkg.Plan) { m.Dataset.CarriedGold = false }, planpkg.ManifestFile, "has another carried_gold than ", "ask the signer"},
		{"another digest of the split", func(m *planpkg.Plan) { m.Splits[own].IDsSHA256 = m.Splits[0].IDsSHA256 }, planpkg.ManifestFile, `has another split "validation" than `, "ask the signer"},
		{"without the split", func(m *planpkg.Plan) { m.Splits = m.Splits[:own] }, planpkg.ManifestFile, `has another split "validation" than `, "ask the signer"},
		{"another split beside it", func(m *planpkg.Plan) { m.Splits[0].Size++ }, planpkg.ManifestFile, `has another split "test" beside `, "ask the signer"},
		{"another attachment", func(m *planpkg.Plan) { m.Tasks[attached].FileSHA256 = canonical.Digest(nil) }, planpkg.ManifestFile, `has another attachment of task "` + with + `"`, "ask the signer"},
		{"an attachment of another size", func(m *planpkg.Plan) { m.Tasks[attached].FileBytes++ }, planpkg.ManifestFile, `has another attachment of task "` + with + `"`, "ask the signer"},
		{"no digest of an attachment", func(m *planpkg.Plan) { m.Tasks[attached].FileSHA256, m.Tasks[attached].FileBytes = "", 0 }, planpkg.ManifestFile, `has another attachment of task "` + with + `"`, "ask the signer"},
		{"unscored, and a split that was cut", func(m *planpkg.Plan) { m.GoldCommitment, m.SplitIDs = "", m.SplitIDs[:3] }, planpkg.ManifestFile, "has other split_ids than ", "ask the signer"},
	} {
		m := plan
		m.Tasks, m.Splits, m.SplitIDs = slices.Clone(plan.Tasks), slices.Clone(plan.Splits), slices.Clone(plan.SplitIDs)
		tt.change(&m)
		gold, err := a.user().GoldFor(t.Context(), runflags.SourceFixtures, m)
		if tt.why == "" {
			if err != nil || len(gold.Answers) != len(m.Tasks) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		var fault *trajectory.Fault
		errs.Reset()
		if !errors.As(err, &fault) || fault.File != tt.file || !strings.Contains(fault.Reason, tt.why) || a.exit(err) != exit.Evidence ||
			strings.Contains(errs.String(), "gaia: hint: ") != (tt.hint != "") || !strings.Contains(errs.String(), tt.hint) {
			t.Errorf("%s: %v\n%s", tt.name, err, errs.String())
		}
	}
}

// TestCompareQuestions: the question of each task that was sealed, asked or not, is the
// dataset's.
func TestCompareQuestions(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs, getenv: func(string) string { return "" }}
	set, _, err := a.user().LoadTasks(t.Context(), runflags.Tasks{Source: runflags.SourceFixtures, Split: "validation"})
	if err != nil {
		t.Fatal(err)
	}
	m := planpkg.New()
	m.Dataset = planpkg.Dataset{MetadataSHA256: set.Digest, Name: set.Dataset, Split: "validation"}
	secret := strings.Repeat("c4", 32)
	for _, task := range set.Tasks {
		p := planpkg.PlannedTask{TaskID: task.ID}
		if err := p.SaltQuestion(secret, task.Question); err != nil {
			t.Fatal(err)
		}
		m.Tasks = append(m.Tasks, p)
	}
	f := rundir.NewFold(m, "", nil)
	for _, task := range f.Tasks {
		salt, err := planpkg.TaskSalt(secret, task.Plan.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		task.Sealed = &rundir.Seal{}
		if _, err := hex.Decode(task.Salt[:], []byte(salt)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.user().CompareQuestions(t.Context(), runflags.SourceFixtures, &rundir.Run{Fold: f}); err != nil {
		t.Error(err)
	}
	if err := f.Tasks[1].Plan.SaltQuestion(secret, "How much is one and one?"); err != nil {
		t.Fatal(err)
	}
	err = a.user().CompareQuestions(t.Context(), runflags.SourceFixtures, &rundir.Run{Fold: f})
	if a.exit(err) != exit.Evidence || !strings.Contains(errs.String(), `has another question of task "`+f.Tasks[1].Plan.TaskID+`" than `) || !strings.Contains(errs.String(), "ask the signer") {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

// TestGoldForAttachments: the attachments of the planned tasks are read from the
// dataset. A changed one is an evidence fault, and a missing one an error.
func TestGoldForAttachments(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	a := &app{stderr: &errs, getenv: func(string) string { return "" }}
	p := newProgram(t)
	p.want(exit.OK, "run", "--sample", "20", "--seed", "1")
	m, _, _, err := rundir.ReadPlan(os.DirFS(p.runDir()))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(m.Tasks, func(task planpkg.PlannedTask) bool { return task.FileName != "" })
	if at < 0 {
		t.Fatal("no planned task has an attachment")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.user().GoldFor(t.Context(), runflags.SourceDir+dir, m); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "2023", "validation", m.Tasks[at].FileName)
	if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.user().GoldFor(t.Context(), runflags.SourceDir+dir, m); a.exit(err) != exit.Evidence || !strings.Contains(errs.String(), "manifest.json: has another attachment of task ") {
		t.Errorf("%v\n%s", err, errs.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := a.user().GoldFor(t.Context(), runflags.SourceDir+dir, m); a.exit(err) != exit.Failure || !strings.Contains(errs.String(), "comparing attachments with the plan: the attachment of task ") {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

// TestLookAlikeSource: a dataset of the hub whose name can be mistaken for GAIA's is a
// usage error.
func TestLookAlikeSource(t *testing.T) {
	for name, want := range map[string]int{"gaia-benchmark/GAIA": exit.OK, "alice/my-gaia": exit.OK, "gaia-benchmark/GAΙA": exit.Usage, "gaia-benchmark/GAIA\u200b": exit.Usage, "gaia-benchmark/GAlA": exit.Usage} {
		var errs bytes.Buffer
		a := &app{stderr: &errs}
		if err := (&runflags.Tasks{Source: runflags.SourceRepo + name}).CheckSource(); err == nil && want != exit.OK || err != nil && (a.exit(err) != want || !strings.Contains(errs.String(), "gaia: error: the dataset name ")) {
			t.Errorf("%q: %v\n%s", name, err, errs.String())
		}
	}
}
