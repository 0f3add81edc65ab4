package ledger

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// TestEvicted: as many tenths go as are needed, and never more than there are.
func TestEvicted(t *testing.T) {
	for _, c := range []struct{ events, most, want int64 }{
		{0, 0, 0}, {1000, 0, 0}, {0, 1, 0}, // no bound, and none there
		{1, 1, 0}, {2, 1, 1}, {3, 1, 2},
		{9, 9, 0}, {10, 9, 1}, {12, 9, 3},
		{10, 10, 0}, {11, 10, 1}, {25, 10, 15},
		{79, 79, 0}, {80, 79, 7}, {86, 79, 7}, {87, 79, 14}, {158, 79, 84},
		{100_001, 100_000, 10_000}, {1 << 40, 100_000, (1<<40 - 100_000 + 9_999) / 10_000 * 10_000},
	} {
		got := Evicted(c.events, c.most)
		if got != c.want || got > c.events || c.most > 0 && c.events-got > c.most {
			t.Errorf("of %d, at most %d: %d go, not %d", c.events, c.most, got, c.want)
		}
	}
}

// sourceOf gives events by their ids, and after them the error if there is one.
func sourceOf(name, ids string, end error) LedgerSource {
	var events iter.Seq2[RunEvent, error] = func(yield func(RunEvent, error) bool) {
		for id := range strings.FieldsSeq(ids) {
			if !yield(RunEvent{ID: id}, nil) {
				return
			}
		}
		if end != nil {
			yield(RunEvent{}, end)
		}
	}
	return LedgerSource{Name: name, Events: events}
}

func TestMerge(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		from    []string
		end     error // of the last of them
		without int64
		want    string
		err     string
	}{
		"no file":                 {},
		"empty ones":              {from: []string{"", ""}},
		"one":                     {from: []string{"a b"}, want: "a b"},
		"one is empty":            {from: []string{"", "a b", ""}, want: "a b"},
		"mixed":                   {from: []string{"b e", "a d", "c f"}, want: "a b c d e f"},
		"behind each other":       {from: []string{"c d", "a b"}, want: "a b c d"},
		"the first goes":          {from: []string{"b e", "a d"}, without: 1, want: "b d e"},
		"all but one go":          {from: []string{"b e", "a d"}, without: 3, want: "e"},
		"all go":                  {from: []string{"b e", "a d"}, without: 4},
		"twice in two":            {from: []string{"a c", "b c d"}, want: "a b", err: `f1: the event c is in "f0" already`},
		"the first is twice":      {from: []string{"a", "a"}, err: `f1: the event a is in "f0" already`},
		"twice, and goes":         {from: []string{"a c", "b", "a"}, without: 2, err: `f2: the event a is in "f0" already`},
		"twice, before the least": {from: []string{"b", "b", "a"}, err: `f1: the event b is in "f0" already`},
		"broken at once":          {from: []string{"a", ""}, end: broken, err: "broken"},
		"broken at the end":       {from: []string{"b", "a"}, end: broken, want: "a", err: "broken"},
	} {
		var from []LedgerSource
		for i, ids := range c.from {
			s := sourceOf(fmt.Sprint("f", i), ids, nil)
			if i == len(c.from)-1 {
				s = sourceOf(s.Name, ids, c.end)
			}
			from = append(from, s)
		}
		var got []string
		err := Merge(from, c.without, func(e RunEvent) error {
			got = append(got, e.ID)
			return nil
		})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if ids := strings.Join(got, " "); ids != c.want || said != c.err {
			t.Errorf("%s: %q, %v; want %q, %s", name, ids, err, c.want, c.err)
		}
		repeated := (*RepeatedEvent)(nil)
		if errors.As(err, &repeated) != strings.Contains(c.err, "already") {
			t.Errorf("%s: %T", name, err)
		}
	}
	if err := Merge([]LedgerSource{sourceOf("f", "a b", nil)}, 0, func(RunEvent) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("who takes them gave up: %v", err)
	}
}
