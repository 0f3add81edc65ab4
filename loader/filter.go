package loader

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Filter selects tasks of a split. Its zero value selects all.
//
// A sample is drawn so that anyone can draw it again, in any language: of the tasks that Levels and IDs leave, it takes
// those with the lowest SHA-256 of the UTF-8 text "<seed>:<task id>", such as "7:fab1e001", the seed in decimal and the
// digests compared as bytes. The sample keeps the order of the file.
type Filter struct {
	Levels []int    // 1 to 3; empty = all
	IDs    []string // empty = all
	Sample int      // exactly so many of what Levels and IDs leave, drawn by Seed; 0 = all
	Seed   int64    // of the draw; without a sample 0
	Limit  int      // at most so many, the first in the order of the file; 0 = all; not with a sample
}

// Rule describes the selection for the record: "all", or its parts in a fixed order, such as
// "level=1,3 task=a,b limit=5" or "level=1 sample=20 seed=7"; a sample always shows its seed. The order of levels and
// ids, and repeating one, does not change it.
func (f Filter) Rule() string {
	var parts []string
	if len(f.Levels) > 0 {
		var levels []string
		for _, l := range slices.Compact(slices.Sorted(slices.Values(f.Levels))) {
			levels = append(levels, strconv.Itoa(l))
		}
		parts = append(parts, "level="+strings.Join(levels, ","))
	}
	if len(f.IDs) > 0 {
		parts = append(parts, "task="+strings.Join(slices.Compact(slices.Sorted(slices.Values(f.IDs))), ","))
	}
	if f.Sample > 0 {
		parts = append(parts, "sample="+strconv.Itoa(f.Sample), "seed="+strconv.FormatInt(f.Seed, 10))
	}
	if f.Limit > 0 {
		parts = append(parts, "limit="+strconv.Itoa(f.Limit))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

// A FilterError says that a [Filter] asks for tasks that there are not.
type FilterError struct{ reason string }

func (e *FilterError) Error() string { return e.reason }

func filterErrorf(format string, args ...any) error {
	return &FilterError{reason: fmt.Sprintf(format, args...)}
}

// check refuses what no dataset could satisfy.
func (f Filter) check() error {
	for _, l := range f.Levels {
		if l < 1 || l > 3 {
			return filterErrorf("unknown level %d: want 1, 2 or 3", l)
		}
	}
	switch {
	case f.Limit < 0:
		return filterErrorf("limit %d is negative: want the number of tasks, or 0 for all", f.Limit)
	case f.Sample < 0:
		return filterErrorf("sample %d is negative: want the number of tasks, or 0 for all", f.Sample)
	case f.Sample > 0 && f.Limit > 0:
		return filterErrorf("a sample of %d and a limit of %d: give one of them", f.Sample, f.Limit)
	case f.Sample == 0 && f.Seed != 0:
		return filterErrorf("seed %d without a sample: a seed says which sample is drawn", f.Seed)
	}
	return nil
}

func (f Filter) pick(rows []row, split Split) ([]row, error) {
	byID := make(map[string]row, len(rows))
	for _, r := range rows {
		byID[r.task.ID] = r
	}
	var unknown []string
	for _, id := range f.IDs {
		if r, ok := byID[id]; !ok {
			unknown = append(unknown, id)
		} else if !f.wants(r.task.Level) {
			return nil, filterErrorf("task %q is of level %d, which the levels asked for leave out", id, r.task.Level)
		}
	}
	if len(unknown) > 0 {
		return nil, filterErrorf("split %s has no task %s", split, list(unknown))
	}
	for _, l := range f.Levels {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.task.Level == l }) {
			return nil, filterErrorf("split %s has no task of level %d", split, l)
		}
	}
	var picked []row
	for _, r := range rows {
		if f.Limit > 0 && len(picked) == f.Limit {
			break
		}
		if f.wants(r.task.Level) && (len(f.IDs) == 0 || slices.Contains(f.IDs, r.task.ID)) {
			picked = append(picked, r)
		}
	}
	return f.draw(picked, split)
}

// draw takes the sample of rows.
func (f Filter) draw(rows []row, split Split) ([]row, error) {
	if f.Sample == 0 {
		return rows, nil
	}
	if f.Sample > len(rows) {
		return nil, filterErrorf("a sample of %d cannot be drawn: the selection has %d tasks of split %s", f.Sample, len(rows), split)
	}
	type ticket struct {
		lot [sha256.Size]byte
		at  int
	}
	tickets := make([]ticket, len(rows))
	for i, r := range rows {
		tickets[i] = ticket{sha256.Sum256([]byte(strconv.FormatInt(f.Seed, 10) + ":" + r.task.ID)), i}
	}
	slices.SortFunc(tickets, func(a, b ticket) int { return bytes.Compare(a.lot[:], b.lot[:]) })
	tickets = tickets[:f.Sample]
	slices.SortFunc(tickets, func(a, b ticket) int { return a.at - b.at })
	var drawn []row
	for _, t := range tickets {
		drawn = append(drawn, rows[t.at])
	}
	return drawn, nil
}

func (f Filter) wants(level int) bool { return len(f.Levels) == 0 || slices.Contains(f.Levels, level) }
