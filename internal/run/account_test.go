package run

import (
	"os"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/trajectory"
)

// account is what a run's journal says, read from its files.
type account struct {
	*rundir.Run
	audited  audit.Report
	started  int            // model calls
	retries  int            // that repeat another
	codes    map[string]int // of those that failed
	cost     int64          // of those whose cost is known, and of recordings
	unpriced int            // replies whose cost is not
	ended    []trajectory.AttemptEnded
	errors   []trajectory.Error
	sealed   map[string]int // by task
	proposed []trajectory.ToolProposed
	decided  []trajectory.PolicyDecision
	executed []trajectory.ToolExecuted
	pictures []trajectory.Image // by request
	limits   []int              // by model call: how many could be under way when it was begun; 0 before the first change
	crowded  []int              // the model calls before each that was one too many
}

// read verifies and audits a complete run and adds up its events. Every retry
// must name the failed try before it, and every call that was begun must end.
func read(t *testing.T, dir string) account {
	t.Helper()
	a := account{codes: map[string]int{}, sealed: map[string]int{}}
	type place struct {
		task          string
		attempt, turn int
	}
	last := map[place]trajectory.Event{} // the try before
	completed, limit := 0, 0
	_, err := rundir.Verify(os.DirFS(dir), rundir.Options{Event: func(e trajectory.Event) error {
		at := place{e.TaskID, e.Attempt, e.Turn}
		switch p := e.Payload.(type) {
		case trajectory.ContextCondensed:
			delete(last, at) // what is asked next is another request
		case trajectory.ModelCallStarted:
			a.started++
			a.limits = append(a.limits, limit)
		case trajectory.ModelCallCompleted:
			completed++
			before, again := last[at]
			if p.Try > 1 {
				a.retries++
			}
			if failed, _ := before.Payload.(trajectory.ModelCallCompleted); again != (p.Try > 1) || again && (p.RetryOf != before.ID || failed.Error == nil || failed.Try != p.Try-1) {
				t.Errorf("event %d is try %d and repeats %q; before it came %+v", e.Seq, p.Try, p.RetryOf, before)
			}
			last[at] = e
			if p.Error != nil && p.Error.Message == endpoint.BeyondCap {
				a.crowded = append(a.crowded, a.started)
			}
			if p.Error != nil {
				a.codes[p.Error.Code]++
			}
			switch {
			case p.CostMicroUSD != nil:
				a.cost += *p.CostMicroUSD
			case p.OutputSHA256 != "":
				a.unpriced++
			}
		case trajectory.AttemptEnded:
			a.ended = append(a.ended, p)
		case trajectory.Error:
			a.errors = append(a.errors, p)
		case trajectory.TaskSealed:
			a.sealed[e.TaskID]++
		case trajectory.ToolProposed:
			a.proposed = append(a.proposed, p)
		case trajectory.PolicyDecision:
			a.decided = append(a.decided, p)
		case trajectory.ToolExecuted:
			a.executed = append(a.executed, p)
			if p.Model != nil && p.Model.CostMicroUSD != nil {
				a.cost += *p.Model.CostMicroUSD
			}
		case trajectory.ContextCompiled:
			for _, m := range p.Messages {
				if m.Image != (trajectory.Image{}) {
					a.pictures = append(a.pictures, m.Image)
				}
			}
		case trajectory.LimitChanged:
			limit = p.To
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	gold, salts, err := grading.ReadPrivate(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.audited, a.Run, err = audit.Run(os.DirFS(dir), audit.Options{Gold: &audit.Gold{Answers: gold, Salt: salts.Salt}}); err != nil {
		t.Fatal(err)
	}
	cut := 0 // attempts whose last call may not have been recorded to its end
	for _, e := range a.ended {
		if e.Reason == trajectory.Interrupted {
			cut++
		}
	}
	if completed > a.started || completed < a.started-cut {
		t.Errorf("%d model calls were begun, %d ended, %d attempts were cut", a.started, completed, cut)
	}
	for _, task := range a.Tasks {
		if a.sealed[task.Plan.TaskID] != 1 {
			t.Errorf("task %s was sealed %d times", task.Plan.TaskID, a.sealed[task.Plan.TaskID])
		}
	}
	return a
}

// agrees holds a run's account against the server's: each request is in the
// journal, and so is what it cost.
func (a account) agrees(t *testing.T, s *endpoint.Server) {
	t.Helper()
	c := s.Counts()
	if a.started != c.Requests {
		t.Errorf("%d requests arrived, the journal has %d", c.Requests, a.started)
	}
	if a.cost != c.CostMicroUSD {
		t.Errorf("the answers cost %d, the journal has %d", c.CostMicroUSD, a.cost)
	}
	total := a.Summary().CostMicroUSD
	if a.unpriced == 0 && (total == nil || *total != a.cost) || a.unpriced > 0 && total != nil {
		t.Errorf("the summary has cost %v; the calls cost %d, beside %d at no known cost", total, a.cost, a.unpriced)
	}
	nothing := !slices.ContainsFunc(a.ended, func(e trajectory.AttemptEnded) bool { return e.Outcome != trajectory.Errored })
	for _, check := range a.audited.Checks {
		for _, f := range check.Findings {
			if nothing && f.RuleID == "AUD-11.nothing-completed" {
				nothing = false
				continue
			}
			if f.Severity == audit.Critical || f.Severity == audit.High {
				t.Errorf("the audit finds %+v", f)
			}
		}
	}
	if nothing || a.audited.Attestation.Clean && a.Summary().Outcomes.Error == len(a.Tasks) {
		t.Error("every attempt ended in an error, and the audit does not find it")
	}
}
