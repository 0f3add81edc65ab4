package loader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Filter selects tasks of a split. Its zero value selects all.
type Filter struct {
	Levels []int    // 1 to 3; empty = all
	IDs    []string // empty = all
	Sample int      // so many of them, drawn by Seed; 0 = all
	Seed   int64    // of the draw
	Limit  int      // at most so many, the first in the order of the file; 0 = all
}

// Rule describes the selection for the record: "all", or its parts in a fixed order, such as
// "level=1,3 task=a,b limit=5". The order of levels and ids, and repeating one, does not change it.
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
	if f.Limit < 0 {
		return filterErrorf("limit %d is negative: want the number of tasks, or 0 for all", f.Limit)
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
	return picked, nil
}

func (f Filter) wants(level int) bool { return len(f.Levels) == 0 || slices.Contains(f.Levels, level) }
