package audit

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestAttachmentDelivery: no journal that verifies leaves out what an attempt
// began with, so that it is missing can only be shown on facts as they are
// gathered.
func TestAttachmentDelivery(t *testing.T) {
	file := func(name, sha256 string, bytes int64) []trajectory.File {
		return []trajectory.File{{Bytes: bytes, Path: name, SHA256: sha256}}
	}
	tests := []struct {
		name       string
		planned    string // the attachment
		workspaces [][]trajectory.File
		status     Status
		rules      []string
	}{
		{"none planned", "", [][]trajectory.File{nil}, NotApplicable, nil},
		{"not begun", "a.csv", nil, Pass, nil},
		{"there", "a.csv", [][]trajectory.File{file("a.csv", "1", 5), file("a.csv", "1", 5)}, Pass, nil},
		{"not recorded", "a.csv", [][]trajectory.File{nil}, Skip, nil},
		{"not recorded once", "a.csv", [][]trajectory.File{file("a.csv", "1", 5), nil}, Skip, nil},
		{"an empty workspace", "a.csv", [][]trajectory.File{{}}, Review, []string{"attachment-missing"}},
		{"not recorded, and empty", "a.csv", [][]trajectory.File{nil, file("a.csv", "0", 0)}, Review, []string{"attachment-empty"}},
		{"another after an empty one", "a.csv", [][]trajectory.File{file("a.csv", "0", 0), file("a.csv", "1", 5), file("a.csv", "2", 5)}, Review,
			[]string{"attachment-empty", "attachment-differs"}},
	}
	for _, tt := range tests {
		planned := plan.PlannedTask{FileName: tt.planned, TaskID: "fab1e121"}
		task := &taskEvidence{Plan: &planned}
		for i, files := range tt.workspaces {
			task.Attempts = append(task.Attempts, &attemptEvidence{Number: i + 1, Committed: -1, Judged: -1, FileName: tt.planned, Workspace: files})
		}
		e := &evidence{Tasks: []*taskEvidence{task}}
		e.Manifest.Tasks = []plan.PlannedTask{planned}
		n := newNotes(attachmentDelivery)
		n.check.run(e, n)
		got := n.report()
		if got.Status != tt.status || len(got.Findings) != len(tt.rules) || (got.Absent != "") != (tt.status == NotApplicable) {
			t.Errorf("%s: %s %v %q", tt.name, got.Status, got.Findings, got.Gaps)
			continue
		}
		for i, rule := range tt.rules {
			if got.Findings[i].RuleID != "AUD-21."+rule {
				t.Errorf("%s: %s, want %s", tt.name, got.Findings[i].RuleID, rule)
			}
		}
	}
}

// TestLevelsOfTheLabel: decoding refuses a plan with more tasks of a level than
// its split has, so of a whole split no other mix verifies. The check counts by
// itself.
func TestLevelsOfTheLabel(t *testing.T) {
	tests := []struct {
		label   string
		split   [3]int
		planned []int // levels
		want    string
	}{
		{"all", [3]int{1, 1, 0}, []int{1, 2}, ""},
		{"all", [3]int{1, 1, 0}, []int{1, 1}, "level-mix-misreported"},
		{"all", [3]int{2, 0, 0}, []int{1, 3}, "level-mix-misreported"},
		{"all", [3]int{1, 1, 1}, []int{1, 2}, "unlabelled-subset"},
		{"limit=2", [3]int{1, 1, 1}, []int{1, 2}, ""},
		{"limit=2", [3]int{1, 1, 1}, []int{1, 1}, "level-mix-misreported"},
		{"task=a,b", [3]int{1, 1, 1}, []int{3}, ""},
		{"level=3", [3]int{1, 1, 1}, []int{3}, ""},
		{"level=3", [3]int{1, 1, 2}, []int{3}, "unlabelled-subset"},
		{"level=3 limit=1", [3]int{1, 1, 2}, []int{3}, ""},
		{"level=3 limit=1", [3]int{1, 1, 2}, []int{2}, "level-mix-misreported"},
		{"level=2,3", [3]int{1, 1, 1}, []int{3, 2}, ""},
		{"level=1,2", [3]int{1, 1, 1}, []int{1, 3}, "level-mix-misreported"},
		{"level=x", [3]int{1, 1, 1}, []int{1}, "level-mix-misreported"},
	}
	for _, tt := range tests {
		e := &evidence{}
		e.Manifest.Dataset = plan.Dataset{Selection: tt.label, Levels: tt.split, SplitSize: tt.split[0] + tt.split[1] + tt.split[2]}
		for _, level := range tt.planned {
			e.Manifest.Tasks = append(e.Manifest.Tasks, plan.PlannedTask{Level: level})
		}
		n := newNotes(splitIntegrity)
		checkLevels(e, n)
		got := ""
		if len(n.findings) > 0 {
			got = n.findings[0].RuleID
		}
		if tt.want == "" && got != "" || tt.want != "" && got != "AUD-7."+tt.want {
			t.Errorf("%s of %v with %v: %q, want %q", tt.label, tt.split, tt.planned, got, tt.want)
		}
	}
}

// TestAttemptsLost: they are listed once for a task, at the first of them, and
// what ended by itself is none.
func TestAttemptsLost(t *testing.T) {
	tests := []struct {
		ended []string
		want  string
		at    int // attempt
	}{
		{nil, "", 0},
		{[]string{trajectory.NoAnswer, trajectory.Answered}, "", 0},
		{[]string{trajectory.NoAnswer, trajectory.Errored, trajectory.Answered}, "1 of 3 attempts ended as an error without an answer", 2},
		{[]string{trajectory.Errored, trajectory.Errored}, "2 of 2 attempts ended as an error without an answer", 1},
	}
	for _, tt := range tests {
		task := &taskEvidence{Plan: &plan.PlannedTask{}}
		for i, outcome := range tt.ended {
			task.Attempts = append(task.Attempts, &attemptEvidence{Number: i + 1, EndedAt: int64(10 * i), Ended: &trajectory.AttemptEnded{Outcome: outcome}})
		}
		n := newNotes(votingDisclosure)
		checkDeclared(&evidence{}, n, task)
		switch {
		case tt.want == "" && len(n.findings) > 0,
			tt.want != "" && (len(n.findings) != 1 || n.findings[0].Got != tt.want || n.findings[0].Attempt != tt.at || n.findings[0].Seq != int64(10*tt.at-10)):
			t.Errorf("%v: %v", tt.ended, n.findings)
		}
	}
}

// TestDenialsOfOneID: a violation is of one denial, also where a reply gives two calls
// the same id.
func TestDenialsOfOneID(t *testing.T) {
	call := &callFact{ID: "c", Turn: 1, Decided: 7, Decision: trajectory.PolicyDecision{Decision: string(policy.Deny)}, Class: policy.DeniedByMode}
	told := denialFact{Turn: 1, CallID: "c", Class: policy.DeniedByMode}
	for _, denied := range [][]denialFact{nil, {told}, {told, told}} {
		n := &notes{check: trajectoryIntegrity}
		a := &attemptEvidence{Calls: []*callFact{call, call}, Denied: denied, Ended: &trajectory.AttemptEnded{Outcome: trajectory.NoAnswer}}
		checkViolations(n, &taskEvidence{Plan: &plan.PlannedTask{}}, a)
		if want := 2 - len(denied); len(n.findings) != want {
			t.Errorf("%d violations of two denials: %d findings, want %d", len(denied), len(n.findings), want)
		}
	}
}
