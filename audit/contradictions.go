package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

var contradictoryRecords = Check{
	ID: "AUD-25", Name: "contradictory-records", Severity: High,
	Title: "the times and ids of the records do not contradict each other",
	Why: "who writes a journal by hand, or puts it together from others, also has to make up its times, ids and latencies; " +
		"clocks that are set, computers that sleep and gateways with caches explain one oddity, but not several",
	Fix:   "run with a released build on a computer whose clock is right; where an oddity has a reason, say so beside the run",
	Skips: "never: every line of a journal that verifies has its times",
	Rules: []Rule{
		{"contradictions", High, 1, "two or more things that no honest computer records, of different calls or clocks: a monotonic clock that went back, a call that took less than no time or longer than its process ran, a plan an hour newer than its journal, or a run whose id is of another day than its plan", "none"},
		{"plan-newer-than-journal", ToReview, 1, "a plan that was made more than a minute after its journal began", "a plan before its journal"},
		{"ids-from-another-time", ToReview, 1, "an id of the run that is more than a minute off the time of its plan, or ids of requests that are more than a day off, at least three and half of those that tell a time", "both at the same time"},
		{"clock-moved", ToReview, 1, "a monotonic clock that went back within a process, or a wall clock that went back by more than a minute or ahead by more than a week while a process ran", "clocks that go on together"},
		{"latency-impossible", ToReview, 1, "a call that took less than no time, or over a minute longer than its process had run", "no less than nothing, and no longer than its process had run"},
		{"request-id-repeated", ToReview, 1, "one request id for all replies to the agent, of which there are at least three", "an id for each request"},
		{"dirty-build", ToReview, 1, "a program with changes that no commit has, in a run that is no rehearsal", "a build of a commit"},
		{"build-unknown", Info, 1, "a program that does not know the commit that it was built from", "for the record"},
	},
	run: func(e *evidence, n *notes) {
		hard := madeAt(e, n)
		for _, j := range e.Journals {
			hard += j.contradicts(e, n)
		}
		dirty, unknown := e.Manifest.Harness.Dirty, e.Manifest.Harness.Commit == ""
		for _, j := range e.Journals {
			dirty, unknown = dirty || j.Started.Harness.Dirty, unknown || j.Started.Harness.Commit == ""
		}
		for _, r := range e.Resumed {
			dirty, unknown = dirty || r.Event.Harness.Dirty, unknown || r.Event.Harness.Commit == ""
		}
		n.findIf(dirty && !e.Manifest.Rehearsal, "dirty-build", place{given: true}, "the program has changes that no commit has")
		n.findIf(unknown, "build-unknown", place{given: true}, "the program does not know the commit that it was built from")
		n.findIf(hard > 1, "contradictions", place{}, fmt.Sprintf("%d things that no honest computer records", hard))
	},
}

// contradicts looks at the clocks of each process of a journal, the latencies of calls and the ids of the agent's requests.
// A cache repeats ids, and a gateway may give its own. It returns how much of it no clock that was set explains.
func (j *journalFact) contradicts(e *evidence, n *notes) (hard int) {
	c := j.Clocks
	for _, seq := range c.MonoBack {
		n.find("clock-moved", place{seq: seq, given: true}, "the monotonic clock of a process went back", "a clock that only goes on")
	}
	n.findIf(c.Behind > 0, "clock-moved", place{seq: c.Behind, given: true}, "the wall clock went back by more than a minute while a process ran")
	n.findIf(c.Ahead > 0, "clock-moved", place{seq: c.Ahead, given: true}, "the wall clock went ahead by more than a week while a process ran")
	for _, l := range c.Impossible {
		at := place{attempt: l.Attempt, seq: l.Seq, given: true}
		if i := slices.IndexFunc(e.Tasks, func(t *taskEvidence) bool { return t.Plan.TaskID == l.TaskID }); i >= 0 {
			at.task = e.Tasks[i]
		}
		n.find("latency-impossible", at, fmt.Sprintf("a call took %d ms", l.Ms))
	}
	whole := place{given: true}
	if e.Shards != nil {
		whole.seq = j.Began
	}
	n.findIf(len(c.Names) == 1 && c.Named >= fewestIDs, "request-id-repeated", whole, fmt.Sprintf("all %d replies with an id have the same", c.Named))
	n.findIf(c.Foreign >= fewestIDs && 2*c.Foreign >= c.IDs, "ids-from-another-time", place{seq: c.ForeignAt, given: true}, fmt.Sprintf("%d of %d ids of requests that tell a time are more than a day off", c.Foreign, c.IDs), "ids of the time of their replies")
	return len(c.MonoBack) + len(c.Impossible)
}

// madeAt compares the time of the plan with the journals and the id of the run. It returns how much of it no clock
// that was set explains.
func madeAt(e *evidence, n *notes) (hard int) {
	made, err := time.Parse(trajectory.TimeFormat, e.Manifest.Created)
	begun := slices.DeleteFunc(slices.Clone(e.Journals), func(j *journalFact) bool { return !j.Clocks.begun })
	if err != nil || len(begun) == 0 {
		return 0
	}
	older := slices.MinFunc(begun, func(a, b *journalFact) int { return cmp.Compare(a.Clocks.Began, b.Clocks.Began) })
	if by := time.Duration(made.UnixMilli()-older.Clocks.Began) * time.Millisecond; by > clockStep {
		at, whose := place{given: true}, "its journal"
		if e.Shards != nil {
			at.seq, whose = older.Began, "the journal of "+older.name()
		}
		n.find("plan-newer-than-journal", at, fmt.Sprintf("the plan was made %s after %s began", by, whose))
		if by > clockSet {
			hard++
		}
	}
	if id, err := ulid.ParseStrict(e.Manifest.RunID); err == nil {
		by := (time.Duration(int64(id.Time())-made.UnixMilli()) * time.Millisecond).Abs()
		n.findIf(by > clockStep, "ids-from-another-time", place{given: true}, fmt.Sprintf("the id of the run was made %s before or after its plan", by))
		if by > idsOld {
			hard++
		}
	}
	return hard
}

// What clocks of an honest run differ by.
const (
	clockStep  = time.Minute        // a clock that is set by a time server
	clockSet   = time.Hour          // a clock that a person set
	idsOld     = 24 * time.Hour     // ids of another computer
	asleep     = 7 * 24 * time.Hour // a computer that sleeps: its monotonic clock stands still
	fewestIDs  = 3
	mostHeld   = 8                 // impossible times that are kept
	sinceEpoch = 1_420_070_400_000 // 2015, in milliseconds
	untilEpoch = 2_208_988_800_000 // 2040
)

// clocks is what a journal says of clocks, as its lines show it.
type clocks struct {
	Began      int64           // when the run began by its wall clock, in milliseconds
	Behind     int64           // first line of a wall clock that went back; 0: none
	Ahead      int64           // first line of a wall clock that went far ahead; 0: none
	MonoBack   []int64         // lines of a monotonic clock that went back within a process, the first ones
	Impossible []latency       // the first ones
	IDs        int             // ids of requests that tell a time
	Foreign    int             // of these, those of another time
	ForeignAt  int64           // first line of these
	Names      map[string]bool // ids of requests of the agent, of which two are kept
	Named      int             // replies to the agent with an id

	lastUs             int64 // of the process
	least, most        int64 // wall clock less monotonic clock, of the process, in milliseconds
	begun, processSeen bool
}

// latency is a time that a call cannot have taken.
type latency struct {
	Seq, Ms int64
	TaskID  string
	Attempt int
}

// see takes an event.
func (c *clocks) see(ev trajectory.Event) {
	at, err := ulid.ParseStrict(ev.ID)
	if err != nil {
		return
	}
	wall := int64(at.Time())
	if !c.begun {
		c.begun, c.Began, c.Names = true, wall, map[string]bool{}
	}
	offset := wall - ev.MonoUs/1000
	if _, resumed := ev.Payload.(trajectory.RunResumed); resumed || !c.processSeen {
		c.processSeen, c.lastUs, c.least, c.most = true, ev.MonoUs, offset, offset
	}
	if ev.MonoUs < c.lastUs {
		if len(c.MonoBack) < mostHeld {
			c.MonoBack = append(c.MonoBack, ev.Seq)
		}
		c.least, c.most = offset, offset // from here on it is another count
	} else {
		if c.Behind == 0 && offset < c.most-clockStep.Milliseconds() {
			c.Behind = ev.Seq
		}
		if c.Ahead == 0 && offset > c.least+asleep.Milliseconds() {
			c.Ahead = ev.Seq
		}
	}
	c.lastUs, c.least, c.most = ev.MonoUs, min(c.least, offset), max(c.most, offset)

	var ms int64
	switch p := ev.Payload.(type) {
	case trajectory.ModelCallCompleted:
		ms = p.LatencyMs
		c.request(ev.Seq, p.RequestID, wall)
	case trajectory.ToolExecuted:
		ms = p.LatencyMs
	}
	if (ms < 0 || ms > ev.MonoUs/1000+clockStep.Milliseconds()) && len(c.Impossible) < mostHeld {
		c.Impossible = append(c.Impossible, latency{ev.Seq, ms, ev.TaskID, ev.Attempt})
	}
}

// request takes the id of a request of the agent.
func (c *clocks) request(seq int64, id string, wall int64) {
	if id == "" {
		return
	}
	if c.Named++; len(c.Names) < 2 {
		c.Names[id] = true
	}
	ms, ok := timeOf(id)
	if !ok {
		return
	}
	c.IDs++
	if by := wall - ms; max(by, -by) > idsOld.Milliseconds() {
		if c.Foreign++; c.Foreign == 1 {
			c.ForeignAt = seq
		}
	}
}

// timedID are ids that tell when they were made: a UUID of version 7, a ULID, or the seconds of a generation.
var timedID = lazily(`(?i)(?:^|[-_])(?:([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|([0-7][0-9a-hjkmnp-tv-z]{25})|gen-(1[0-9]{9})-[0-9a-z]+)$`)

// timeOf returns when an id was made, in milliseconds; false if it does not tell.
func timeOf(id string) (ms int64, ok bool) {
	m := timedID().FindStringSubmatch(id)
	switch {
	case m == nil:
		return 0, false
	case m[1] != "":
		n, err := strconv.ParseInt(m[1]+m[2], 16, 64)
		ms, ok = n, err == nil
	case m[3] != "":
		parsed, err := ulid.ParseStrict(m[3])
		ms, ok = int64(parsed.Time()), err == nil
	default:
		n, err := strconv.ParseInt(m[4], 10, 64)
		ms, ok = n*1000, err == nil
	}
	return ms, ok && ms > sinceEpoch && ms < untilEpoch
}
