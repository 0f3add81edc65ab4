package audit

import (
	"regexp"
	"strconv"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/oklog/ulid/v2"
)

// What clocks of an honest run differ by.
const (
	clockStep  = time.Minute        // a clock that is set by a time server
	clockSet   = time.Hour          // a clock that somebody set
	idsOld     = 24 * time.Hour     // ids of another computer
	asleep     = 7 * 24 * time.Hour // a computer that sleeps: its monotonic clock stands still
	fewestIDs  = 3
	mostHeld   = 8                 // impossible times that are kept
	sinceEpoch = 1_420_070_400_000 // 2015, in milliseconds
	untilEpoch = 2_208_988_800_000 // 2040
)

// Clocks is what a journal says of clocks, as its lines show it.
type Clocks struct {
	Began      int64           // when the run began by its wall clock, in milliseconds
	Behind     int64           // first line of a wall clock that went back; 0: none
	Ahead      int64           // first line of a wall clock that went far ahead; 0: none
	MonoBack   []int64         // lines of a monotonic clock that went back within a process, the first ones
	Impossible []Latency       // the first ones
	IDs        int             // ids of requests that tell a time
	Foreign    int             // of these, those of another time
	ForeignAt  int64           // first line of these
	Names      map[string]bool // ids of requests of the agent, of which two are kept
	Named      int             // replies to the agent with an id

	lastUs             int64 // of the process
	least, most        int64 // wall clock less monotonic clock, of the process, in milliseconds
	begun, processSeen bool
}

// Latency is a time that a call cannot have taken.
type Latency struct {
	Seq, Ms int64
	TaskID  string
	Attempt int
}

// see takes an event.
func (c *Clocks) see(ev trajectory.Event) {
	at, err := ulid.ParseStrict(ev.ID)
	if err != nil {
		return
	}
	wall := int64(at.Time())
	if !c.begun {
		c.begun, c.Began, c.Names = true, wall, map[string]bool{}
	}
	if _, resumed := ev.Payload.(trajectory.RunResumed); resumed {
		c.processSeen = false
	}
	offset := wall - ev.MonoUs/1000
	if !c.processSeen {
		c.processSeen, c.lastUs, c.least, c.most = true, ev.MonoUs, offset, offset
	}
	if ev.MonoUs < c.lastUs && len(c.MonoBack) < mostHeld {
		c.MonoBack = append(c.MonoBack, ev.Seq)
	}
	if c.Behind == 0 && offset < c.most-clockStep.Milliseconds() && ev.MonoUs >= c.lastUs {
		c.Behind = ev.Seq
	}
	if c.Ahead == 0 && offset > c.least+asleep.Milliseconds() && ev.MonoUs >= c.lastUs {
		c.Ahead = ev.Seq
	}
	if ev.MonoUs < c.lastUs { // what it says from here on is another count
		c.least, c.most = offset, offset
	}
	c.lastUs, c.least, c.most = ev.MonoUs, min(c.least, offset), max(c.most, offset)
	c.call(ev, wall)
}

// call takes what an event says of how long a call took, and of its request.
func (c *Clocks) call(ev trajectory.Event, wall int64) {
	var ms int64
	switch p := ev.Payload.(type) {
	case trajectory.ModelCallCompleted:
		ms = p.LatencyMs
		c.request(ev.Seq, p.RequestID, wall)
	case trajectory.ToolExecuted:
		ms = p.LatencyMs
	default:
		return
	}
	if (ms < 0 || ms > ev.MonoUs/1000+clockStep.Milliseconds()) && len(c.Impossible) < mostHeld {
		c.Impossible = append(c.Impossible, Latency{ev.Seq, ms, ev.TaskID, ev.Attempt})
	}
}

func (c *Clocks) request(seq int64, id string, wall int64) {
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

// timedID are ids that tell when they were made: a UUID of version 7, a ULID, or
// the seconds of a generation.
var timedID = regexp.MustCompile(`(?i)(?:^|[-_])(?:([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|([0-7][0-9a-hjkmnp-tv-z]{25})|gen-(1[0-9]{9})-[0-9a-z]+)$`)

// timeOf returns when an id was made, in milliseconds; false if it does not tell.
func timeOf(id string) (ms int64, ok bool) {
	m := timedID.FindStringSubmatch(id)
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
