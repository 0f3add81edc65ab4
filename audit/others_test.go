package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestOtherPairs: what an odd message has of the same task is another rule's.
func TestOtherPairs(t *testing.T) {
	const question, gold = "In which town did the clockmaker Odile Varn build the tower clock of the harbour museum?", "Brellin"
	own := &taskEvidence{Plan: &plan.PlannedTask{TaskID: "a"}, Attempts: []*attemptEvidence{{Number: 1, Question: question}}}
	other := &taskEvidence{Plan: &plan.PlannedTask{TaskID: "b"}, Attempts: []*attemptEvidence{{Number: 1, Question: "How many ferries crossed the bay of Tolm on the second day of March?"}}}
	for _, of := range []*taskEvidence{own, other} {
		e := &evidence{Tasks: []*taskEvidence{own, other}, Gold: map[string]string{"a": gold, "b": "431"},
			Odd: []oddText{{Task: of, Attempt: 1, Seq: 7, Text: question + " " + gold}}}
		n := newNotes(oracleLeakage)
		otherPairs(e, n)
		if of == own && len(n.findings) > 0 || of == other && (len(n.findings) != 1 || n.findings[0].TaskID != "b" || n.findings[0].Seq != 7) {
			t.Errorf("told in task %s: %v", of.Plan.TaskID, n.findings)
		}
	}
}

// TestUnplanned: of the split, the tasks that have been asked are not among those
// that only their ids tell.
func TestUnplanned(t *testing.T) {
	ids := []string{"fab1e103-0001", "fab1e103-0002", "fab1e103-0003"}
	e := &evidence{Tasks: []*taskEvidence{
		{Plan: &plan.PlannedTask{TaskID: ids[0]}, Attempts: []*attemptEvidence{{}}}, {Plan: &plan.PlannedTask{TaskID: ids[1]}}}}
	e.Manifest.SplitIDs = ids
	for i, id := range ids {
		if got := e.unplanned().Records(fmt.Sprintf("{\"task_id\":%q,\"Final answer\":\"Ostrel\"}", id)); got != (i > 0) {
			t.Errorf("%s: %v", id, got)
		}
	}
	if e.unplanned().Records("task " + ids[2]) {
		t.Error("an id without a field for an answer is taken for a record")
	}
}

// TestOddTexts: each distinct text is kept once, and no more of them than a run
// may take.
func TestOddTexts(t *testing.T) {
	o := &oddTexts{said: map[string]bool{}}
	long := strings.Repeat("x", 2000)
	for i := range 2 * mostOddBytes / len(long) {
		for range 2 {
			o.add(oddText{Text: fmt.Sprint(long, i/2)})
		}
	}
	if want := mostOddBytes / len(long); len(o.all) < want-3 || len(o.all) > want || o.unread == (len(o.all) == want) && len(o.all) == want {
		t.Errorf("%d texts are kept, unread %v", len(o.all), o.unread)
	}
	o.add(oddText{Text: strings.Repeat("y", mostOddBytes)})
	if !o.unread || o.bytes > mostOddBytes {
		t.Errorf("%d bytes are kept, unread %v", o.bytes, o.unread)
	}
	n := newNotes(oracleLeakage)
	otherPairs(&evidence{OddUnread: true}, n)
	if got := n.report(); got.Status != Skip {
		t.Errorf("%s", got.Status)
	}
}

// TestOtherPairsOnce: of each task one message is told, however many have it, and
// what is looked through does not grow with tasks times messages.
func TestOtherPairsOnce(t *testing.T) {
	long.NotRaced(t)
	for _, tt := range []struct {
		name            string
		tasks, messages int
		size            int // of a message
		told            string
		findings        int
		gap             bool
	}{
		{name: "each has all, and one task is told in the second", tasks: 40, messages: 40, told: "431", findings: 40},
		{name: "no answers", tasks: 40, messages: 40},
		{name: "more pairs than are looked through", tasks: 400, messages: 400, gap: true},
		{name: "long messages", tasks: 300, messages: 2, size: 400 << 10, gap: true},
	} {
		const question = "How many ferries crossed the bay of Tolm on the second day of March, as the harbour's book has it?"
		e := &evidence{Gold: map[string]string{}}
		for i := range tt.tasks {
			id := fmt.Sprint("task", i)
			e.Gold[id] = "431"
			e.Tasks = append(e.Tasks, &taskEvidence{Plan: &plan.PlannedTask{TaskID: id}, Attempts: []*attemptEvidence{{Number: 1, Question: question}}})
		}
		for i := range tt.messages {
			e.Odd = append(e.Odd, oddText{Task: e.Tasks[i], Attempt: 1, Text: fmt.Sprint(question, " ", tt.told, " #", i, strings.Repeat(" ferry", tt.size/6))})
		}
		n := newNotes(oracleLeakage)
		otherPairs(e, n)
		if len(n.findings) != tt.findings || (n.report().Status == Skip) != tt.gap {
			t.Errorf("%s: %d findings, %s", tt.name, len(n.findings), n.report().Status)
		}
	}
}

// TestToolTextBounded: of tools that say very much of themselves the rest is not
// looked at, which is told.
func TestToolTextBounded(t *testing.T) {
	for size, gap := range map[int]bool{mostToolText / 2: false, mostToolText + 1: true} {
		e := &evidence{Gold: map[string]string{"a": "Brellin"}, Tasks: []*taskEvidence{{Plan: &plan.PlannedTask{TaskID: "a"}, Attempts: []*attemptEvidence{{Question: "Which town has the clock?"}}}}}
		e.Manifest.Tools = []plan.ToolPlan{{Name: "notes__find", Server: "mcp:notes", Description: "Finds Brellin.", Schema: strings.Repeat("lamp ", size/5)}}
		n := newNotes(oracleLeakage)
		toolDescriptions(e, n)
		if len(n.findings) != 1 || (len(n.gaps) > 0) != gap {
			t.Errorf("%d bytes: %v %v", size, n.findings, n.gaps)
		}
	}
}

// BenchmarkOtherPairs: the time does not grow with tasks times messages.
func BenchmarkOtherPairs(b *testing.B) {
	const question = "How many ferries crossed the bay of Tolm on the second day of March, as the harbour's book has it?"
	for _, tasks := range []int{250, 500, 1000} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			e := &evidence{Gold: map[string]string{}}
			for i := range tasks {
				id := fmt.Sprint("task", i)
				e.Gold[id] = "431"
				e.Tasks = append(e.Tasks, &taskEvidence{Plan: &plan.PlannedTask{TaskID: id}, Attempts: []*attemptEvidence{{Question: question}}})
			}
			for i, t := range e.Tasks {
				e.Odd = append(e.Odd, oddText{Task: t, Text: fmt.Sprint(question, i)})
			}
			for b.Loop() {
				otherPairs(e, newNotes(oracleLeakage))
			}
		})
	}
}
