package trajectory

import (
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

// TestIDsUnderAnyClock: several processes, one after the other, write one
// journal with several goroutines each, under clocks that step and jump as they
// like, from 1970 to the year 9999. Ids ascend strictly, timestamps are the ids'
// times, and time never goes back nor runs away from the latest clock.
func TestIDsUnderAnyClock(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		sink := &disk{}
		end := End{Head: manifestDigest}
		latest := int64(0) // highest time that any clock has shown
		appended := 0
		processes := rapid.IntRange(1, 4).Draw(draw, "processes")
		for process := range processes {
			clock := &jumpy{at: rapid.Int64Range(0, maxClock).Draw(draw, "start"), steps: rapid.SliceOfN(step(), 1, 8).Draw(draw, "steps")}
			cfg := config()
			cfg.Now, cfg.Rand = clock.now, mathrand.NewChaCha8([32]byte{byte(process), byte(appended)})
			l := newLog(t, sink, end, cfg)
			writers, each := rapid.IntRange(1, 4).Draw(draw, "writers"), rapid.IntRange(1, 6).Draw(draw, "each")
			var group errgroup.Group
			for w := range writers {
				group.Go(func() error { return appendPairs(l, w+1, each) })
			}
			if err := group.Wait(); err != nil {
				draw.Fatal(err)
			}
			appended += writers * each * 2
			end, latest = l.End(), max(latest, clock.highest)
		}
		events, readEnd := read(t, sink.data) // which checks that ids ascend
		if len(events) != appended || readEnd != end {
			draw.Fatalf("%d events, want %d; end %+v, the log's %+v", len(events), appended, readEnd, end)
		}
		before := uint64(0)
		for _, e := range events {
			id := ulid.MustParseStrict(e.ID)
			if e.Timestamp != time.UnixMilli(int64(id.Time())).UTC().Format(TimeFormat) {
				draw.Fatalf("id %s, timestamp %s", e.ID, e.Timestamp)
			}
			// A process that cannot get above the last id in its millisecond goes on in the next.
			if id.Time() < before || id.Time() > uint64(latest)+uint64(processes) {
				draw.Fatalf("time %d after %d, the clocks have shown %d at most", id.Time(), before, latest)
			}
			before = id.Time()
		}
	})
}

// appendPairs appends events two at a time, whose ids must ascend.
func appendPairs(l *Log, n, each int) error {
	last := ""
	for range each {
		ids, err := l.Append(turn(n), turn(n))
		if err != nil || ids[0] <= last || ids[1] <= ids[0] {
			return fmt.Errorf("after %q: %v, %w", last, ids, err)
		}
		last = ids[1]
	}
	return nil
}

// maxClock is the last millisecond that a timestamp has room for.
const maxClock = 253402300799999

// step is how far a clock goes, mostly little and often not at all.
func step() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-3, 3), rapid.Int64Range(-3_600_000, 3_600_000), rapid.Int64Range(-maxClock, maxClock))
}

// jumpy is a clock that goes by the given steps, again and again. The log asks
// it under its lock.
type jumpy struct {
	at, highest int64
	steps       []int64
	n           int
}

func (c *jumpy) now() time.Time {
	c.at = min(max(c.at+c.steps[c.n%len(c.steps)], 0), maxClock)
	c.n++
	c.highest = max(c.highest, c.at)
	return time.UnixMilli(c.at)
}

// TestFirstIDAfterAResume: a process that goes on where the clock
// stands or has stepped back does not begin where a neighbour could guess: its
// first id is as far off as any other.
func TestFirstIDAfterAResume(t *testing.T) {
	now := time.UnixMilli(1_900_000_000_000)
	for _, back := range []time.Duration{0, time.Millisecond, time.Hour, 40 * 365 * 24 * time.Hour} {
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			seen := map[uint64]bool{}
			var last ulid.ULID
			large := 0
			const rounds = 64
			for n := range rounds {
				cfg := config()
				cfg.Now, cfg.Rand = func() time.Time { return now }, mathrand.NewChaCha8([32]byte{byte(n), 7})
				first := newLog(t, &disk{}, End{Head: manifestDigest}, cfg)
				if _, err := first.Append(turn(1)); err != nil {
					t.Fatal(err)
				}
				last = ulid.MustParseStrict(first.End().LastID)
				cfg.Now, cfg.Rand = func() time.Time { return now.Add(-back) }, mathrand.NewChaCha8([32]byte{byte(n), 8})
				ids, err := newLog(t, &disk{}, first.End(), cfg).Append(turn(1))
				if err != nil {
					t.Fatal(err)
				}
				id := ulid.MustParseStrict(ids[0])
				if id.Compare(last) <= 0 || id.Time() < last.Time() || id.Time() > last.Time()+1 {
					t.Fatalf("%s after %s", id, last)
				}
				step := low64(id) - low64(last)
				if seen[step] {
					t.Fatalf("the step %d came twice", step)
				}
				seen[step] = true
				if id.Time() > last.Time() || step > 1<<40 {
					large++
				}
			}
			if large < rounds*9/10 {
				t.Errorf("only %d of %d first ids are far from the last one", large, rounds)
			}
		})
	}
}

// TestIDsAreNotGuessed: within a millisecond each of the 68 low bits of the
// steps is random, so that a neighbour of a disclosed line has no id to guess.
// The ids stay within a few milliseconds of the clock.
func TestIDsAreNotGuessed(t *testing.T) {
	cfg := config()
	now := time.UnixMilli(1_900_000_000_000)
	cfg.Now, cfg.Rand = func() time.Time { return now }, mathrand.NewChaCha8([32]byte{68})
	l := newLog(t, &disk{}, End{Head: manifestDigest}, cfg)
	const events = 20_000
	var last ulid.ULID
	set, steps := [80]int{}, 0
	for n := range events {
		id, err := l.nextID()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && id.Compare(last) <= 0 {
			t.Fatalf("%s after %s", id, last)
		}
		if n > 0 && id.Time() == last.Time() {
			steps++
			step := new(big.Int).Sub(new(big.Int).SetBytes(id[6:]), new(big.Int).SetBytes(last[6:]))
			step.Sub(step, big.NewInt(1))
			for i := range set {
				set[i] += int(step.Bit(i))
			}
		}
		last, l.last = id, id
	}
	for i, n := range set {
		if i < 68 && (n < steps*45/100 || n > steps*55/100) || i >= 68 && n > 0 {
			t.Errorf("bit %d is set in %d of %d steps", i, n, steps)
		}
	}
	if ahead := last.Time() - ulid.Timestamp(now); ahead > events/1000 {
		t.Errorf("%d events took %d milliseconds", events, ahead)
	}
}
