package history

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
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

func anyone(sign.PublicKey) error { return nil }

// TestImported: what was imported is read again whole and in order, once each, and is refused where a byte of its
// files is changed or its key is not trusted.
func TestImported(t *testing.T) {
	dir, key := t.TempDir(), newKey(t, 1)
	open := func() Imported {
		t.Helper()
		m, err := OpenImported(dir, anyone)
		must(t, err)
		return m
	}
	source := func(name string, events []rundir.RunEvent) Source {
		return Source{name, func(yield func(rundir.RunEvent, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}}
	}
	a, b := benchEvents(1, 3), benchEvents(2, 2)
	for _, from := range [][]Source{{source("b", b)}, {source("a", a)}} {
		m := open()
		events, err := m.Add(from)
		must(t, err, m.Replace(events, key))
	}
	m := open()
	got, err := collect(m.Each())
	if err != nil || m.Events != 5 || len(got) != 5 || got[0].ID != a[0].ID || got[4].ID != b[1].ID {
		t.Fatalf("%d events, %d, %v", m.Events, len(got), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
	var repeated *RepeatedEvent
	if _, err := m.Add([]Source{source("again", a[:1])}); !errors.As(err, &repeated) || repeated.First != m.Path() || repeated.Second != "again" {
		t.Errorf("again: %v", err)
	}
	if _, err := (Imported{Dir: dir}).Add([]Source{source("x", a), source("y", a)}); !errors.As(err, &repeated) || repeated.First != "x" {
		t.Errorf("twice: %v", err)
	}
	stranger := errors.New("a stranger")
	if _, err := OpenImported(dir, func(sign.PublicKey) error { return stranger }); !errors.Is(err, stranger) {
		t.Errorf("by a stranger: %v", err)
	}
	for _, path := range []string{m.Path(), m.attempts()} {
		flip(t, path, 50)
		if _, err := OpenImported(dir, anyone); !errors.As(err, new(*trajectory.Fault)) {
			t.Errorf("%s changed: %v", path, err)
		}
		flip(t, path, 50)
	}
	must(t, ClearImported(dir))
	if m := open(); m.Events != 0 {
		t.Errorf("after clear there are %d events", m.Events)
	}
}

// TestConvert: the process that reads an export hands its events on, and a reason where it is none; what it
// hands on is checked again.
func TestConvert(t *testing.T) {
	events := benchEvents(1, 5)
	data, envelope, err := SealExport(events, newKey(t, 1))
	must(t, err)
	x, _, err := OpenEnvelope("e", envelope)
	must(t, err, x.Check("f", data))
	convert := func(data []byte) string {
		t.Helper()
		var out bytes.Buffer
		must(t, Convert(bytes.NewReader(data), &out))
		return out.String()
	}
	read := func(lines string) ([]rundir.RunEvent, error) {
		return collect(Converted("f", strings.NewReader(lines), x))
	}
	lines := convert(data)
	if got, err := read(lines); err != nil || len(got) != 5 || got[4].ID != events[4].ID {
		t.Fatalf("%d events, %v", len(got), err)
	}
	first, rest, _ := strings.Cut(lines, "\n")
	for name, lines := range map[string]string{
		"no Parquet":    convert([]byte("nothing of that kind")),
		"half":          convert(data[:len(data)/2]),
		"fewer":         rest,
		"twice":         first + "\n" + lines,
		"not canonical": " " + lines,
		"no run event":  strings.Replace(lines, `"level":1`, `"level":4`, 1),
		"nothing":       "",
	} {
		if _, err := read(lines); !errors.As(err, new(*trajectory.Fault)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := x.Check("f", data[1:]); !errors.As(err, new(*trajectory.Fault)) {
		t.Errorf("another file: %v", err)
	}
	envelope[40] ^= 1
	if _, _, err := OpenEnvelope("e", envelope); !errors.As(err, new(*trajectory.Fault)) {
		t.Errorf("a changed envelope: %v", err)
	}
	events[0], events[1] = events[1], events[0]
	if _, _, err := SealExport(events, newKey(t, 1)); err == nil {
		t.Error("events were sealed that are not in order")
	}
}
