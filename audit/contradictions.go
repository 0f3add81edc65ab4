package audit

import (
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

func contradictoryRecords() Check {
	return Check{
		ID: "AUD-25", Name: "contradictory-records", Severity: High,
		Title: "the times and ids of the records do not contradict each other",
		Why: "who writes a journal by hand, or puts it together from others, also has to make up its times, ids and latencies; " +
			"clocks that are set, computers that sleep and gateways with caches explain one oddity, but not several",
		Fix:   "run with a released build on a computer whose clock is right; where an oddity has a reason, say so beside the run",
		Skips: "never: every line of a journal that verifies has its times",
		Rules: []Rule{
			{"contradictions", High, 1, "two or more things that no honest computer records, of different calls or clocks: a monotonic clock that went back, a call that took less than no time or longer than its process ran, a plan an hour newer than its journal, or a run whose id is of another day than its plan"},
			{"plan-newer-than-journal", ToReview, 1, "a plan that was made more than a minute after its journal began"},
			{"ids-from-another-time", ToReview, 1, "an id of the run that is more than a minute off the time of its plan, or ids of requests that are more than a day off, at least three and half of those that tell a time"},
			{"clock-moved", ToReview, 1, "a monotonic clock that went back within a process, or a wall clock that went back by more than a minute or ahead by more than a week while a process ran"},
			{"latency-impossible", ToReview, 1, "a call that took less than no time, or over a minute longer than its process had run"},
			{"request-id-repeated", ToReview, 1, "one request id for all replies to the agent, of which there are at least three"},
			{"dirty-build", ToReview, 1, "a program with changes that no commit has, in a run that is no rehearsal"},
			{"build-unknown", Info, 1, "a program that does not know the commit that it was built from"},
		},
		Run: func(e *Evidence, n *Notes) {
			hard := madeAt(e, n) + clocks(e.Clocks, n) + latencies(e, n)
			requestIDs(e.Clocks, n)
			build(e, n)
			if hard > 1 {
				n.find("contradictions", place{}, fmt.Sprintf("%d things that no honest computer records", hard), "none")
			}
		},
	}
}

// madeAt holds when the plan was made against the journal and the id of the run. It
// returns how much of it no clock that was set explains.
func madeAt(e *Evidence, n *Notes) (hard int) {
	made, err := time.Parse(trajectory.TimeFormat, e.Manifest.Created)
	if err != nil || !e.Clocks.begun {
		return 0
	}
	if by := time.Duration(made.UnixMilli()-e.Clocks.Began) * time.Millisecond; by > clockStep {
		n.find("plan-newer-than-journal", place{given: true}, fmt.Sprintf("the plan was made %s after its journal began", by), "a plan before its journal")
		if by > clockSet {
			hard++
		}
	}
	if id, err := ulid.ParseStrict(e.Manifest.RunID); err == nil {
		by := (time.Duration(int64(id.Time())-made.UnixMilli()) * time.Millisecond).Abs()
		if by > clockStep {
			n.find("ids-from-another-time", place{given: true}, fmt.Sprintf("the id of the run was made %s before or after its plan", by), "both at the same time")
		}
		if by > idsOld {
			hard++
		}
	}
	return hard
}

// clocks looks at the clocks of each process, and returns how many monotonic ones
// went back.
func clocks(c Clocks, n *Notes) (hard int) {
	for _, seq := range c.MonoBack {
		n.find("clock-moved", place{seq: seq, given: true}, "the monotonic clock of a process went back", "a clock that only goes on")
	}
	if c.Behind > 0 {
		n.find("clock-moved", place{seq: c.Behind, given: true}, "the wall clock went back by more than a minute while a process ran", "clocks that go on together")
	}
	if c.Ahead > 0 {
		n.find("clock-moved", place{seq: c.Ahead, given: true}, "the wall clock went ahead by more than a week while a process ran", "clocks that go on together")
	}
	return len(c.MonoBack)
}

// latencies returns how many calls took a time that they cannot have taken.
func latencies(e *Evidence, n *Notes) (hard int) {
	byID := map[string]*TaskEvidence{}
	for _, t := range e.Tasks {
		byID[t.Plan.TaskID] = t
	}
	for _, l := range e.Clocks.Impossible {
		n.find("latency-impossible", place{task: byID[l.TaskID], attempt: l.Attempt, seq: l.Seq, given: true}, fmt.Sprintf("a call took %d ms", l.Ms), "no less than nothing, and no longer than its process had run")
	}
	return len(e.Clocks.Impossible)
}

// requestIDs looks at the ids that the endpoint gave the agent's requests. A cache
// repeats the ids of what it kept, and a gateway may give its own.
func requestIDs(c Clocks, n *Notes) {
	if len(c.Names) == 1 && c.Named >= fewestIDs {
		n.find("request-id-repeated", place{given: true}, fmt.Sprintf("all %d replies with an id have the same", c.Named), "an id for each request")
	}
	if c.Foreign >= fewestIDs && 2*c.Foreign >= c.IDs {
		n.find("ids-from-another-time", place{seq: c.ForeignAt, given: true}, fmt.Sprintf("%d of %d ids of requests that tell a time are more than a day off", c.Foreign, c.IDs), "ids of the time of their replies")
	}
}

// build looks at which program wrote the records.
func build(e *Evidence, n *Notes) {
	programs := []trajectory.Harness{e.Manifest.Harness}
	for _, r := range e.Resumed {
		programs = append(programs, r.Event.Harness)
	}
	dirty, unknown := false, false
	for _, p := range programs {
		dirty, unknown = dirty || p.Dirty, unknown || p.Commit == ""
	}
	if dirty && !e.Manifest.Rehearsal {
		n.find("dirty-build", place{given: true}, "the program has changes that no commit has", "a build of a commit")
	}
	if unknown {
		n.find("build-unknown", place{given: true}, "the program does not know the commit that it was built from", "for the record")
	}
}
