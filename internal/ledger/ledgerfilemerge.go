package ledger

import (
	"fmt"
	"iter"
)

// LedgerSource is a ledger file that is merged with others.
type LedgerSource struct {
	Name   string
	Events iter.Seq2[RunEvent, error] // as LedgerEvents gives them
}

// RepeatedEvent is the error that an event is in two files.
type RepeatedEvent struct{ ID, First, Second string }

func (e *RepeatedEvent) Error() string {
	return fmt.Sprintf("%s: the event %s is in %q already", e.Second, e.ID, e.First)
}

// Evicted returns how many of so many events go, the oldest, where at most that many
// are kept: as many tenths of most as are needed, so that not each import evicts. 0 is
// no bound.
func Evicted(events, most int64) int64 {
	if most <= 0 || events <= most {
		return 0
	}
	tenth := max(most/10, 1)
	return min((events-most+tenth-1)/tenth*tenth, events)
}

// Merge gives the events of files in the order of their ids, but not the first ones,
// of which so many go. An event that is in two files is a *RepeatedEvent. It holds one
// event of each file beside what the sources hold.
func Merge(from []LedgerSource, without int64, give func(RunEvent) error) error {
	heads := make([]*mergeHead, len(from))
	for i, s := range from {
		next, stop := iter.Pull2(s.Events)
		defer stop()
		heads[i] = &mergeHead{name: s.Name, next: next}
		if err := heads[i].advance(); err != nil {
			return err
		}
	}
	for {
		least, err := leastHead(heads)
		if err != nil || least == nil {
			return err
		}
		if without > 0 {
			without--
		} else if err := give(least.event); err != nil {
			return err
		}
		if err := least.advance(); err != nil {
			return err
		}
	}
}

// mergeHead is a source, and the next event of it.
type mergeHead struct {
	name  string
	next  func() (RunEvent, error, bool)
	event RunEvent
	more  bool
}

func (h *mergeHead) advance() (err error) {
	h.event, err, h.more = h.next()
	return err
}

// leastHead returns the source of the least event, nil at the end of all.
func leastHead(heads []*mergeHead) (least *mergeHead, err error) {
	for _, h := range heads {
		switch {
		case !h.more:
		case least == nil || h.event.ID < least.event.ID:
			least = h
		case h.event.ID == least.event.ID:
			return nil, &RepeatedEvent{ID: h.event.ID, First: least.name, Second: h.name}
		}
	}
	return least, nil
}
