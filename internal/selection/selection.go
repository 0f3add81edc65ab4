// Package selection chooses tasks of a split by a rule, writes the rule as a label
// and reads it back. A verifier repeats the choice from a plan or from the dataset.
//
// docs/datasets.md has the form of a label. [Parse] reads it, and refuses every other text.
// [Filter.Pick] chooses from a whole split; [Filter.Admits] reports whether a plan's tasks can be the choice, as far as
// the ids and levels in the plan show.
package selection

import (
	"bytes"
	"crypto/sha256"
	"errors"
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
	Levels   []int    // 1 to 3; empty = all
	IDs      []string // empty = all
	Sample   int      // exactly so many of what Levels and IDs leave, drawn by Seed; 0 = all
	Seed     int64    // of the draw; without a sample 0
	Limit    int      // at most so many, the first in the order of the file; 0 = all; not with a sample
	ErrorsOf string   // id of the run in which the tasks named by IDs failed for infrastructure; "" = of none
}

// Rule describes the selection for the record: "all", or its parts in a fixed order, such as
// "level=1,3 task=a,b limit=5" or "level=1 sample=20 seed=7"; a sample always shows its seed. The order of levels and
// ids, and repeating one, does not change it. Tasks that were chosen by their outcome in another run are named:
// "errors-of=01J… task=a,b".
func (f Filter) Rule() string {
	var parts []string
	if f.ErrorsOf != "" {
		parts = append(parts, "errors-of="+f.ErrorsOf)
	}
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

// An Error says that a [Filter] asks for tasks that do not exist.
type Error struct{ reason string }

func (e *Error) Error() string { return e.reason }

func errorf(format string, args ...any) error {
	return &Error{reason: fmt.Sprintf(format, args...)}
}

// Check refuses what no dataset could satisfy.
func (f Filter) Check() error {
	for _, l := range f.Levels {
		if l < 1 || l > 3 {
			return errorf("unknown level %d: want 1, 2 or 3", l)
		}
	}
	switch {
	case f.Limit < 0:
		return errorf("limit %d is negative: want the number of tasks, or 0 for all", f.Limit)
	case f.Sample < 0:
		return errorf("sample %d is negative: want the number of tasks, or 0 for all", f.Sample)
	case f.Sample > 0 && f.Limit > 0:
		return errorf("a sample of %d and a limit of %d: give one of them", f.Sample, f.Limit)
	case f.Sample == 0 && f.Seed != 0:
		return errorf("seed %d without a sample: a seed says which sample is drawn", f.Seed)
	case f.ErrorsOf != "" && (len(f.IDs) == 0 || len(f.Levels) > 0 || f.Sample > 0 || f.Limit > 0):
		return errorf("the errors of run %s are named by their ids, and by nothing else", f.ErrorsOf)
	}
	return nil
}

// A Task is what a [Filter] looks at.
type Task struct {
	ID    string
	Level int
}

// Parse reads a label as [Filter.Rule] writes it, and nothing else.
func Parse(label string) (Filter, error) {
	var f Filter
	if label == f.Rule() {
		return f, nil
	}
	for _, part := range strings.Split(label, " ") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "errors-of":
			f.ErrorsOf = value
		case "level":
			for _, text := range strings.Split(value, ",") {
				level, bad := strconv.Atoi(text)
				f.Levels, err = append(f.Levels, level), errors.Join(err, bad)
			}
		case "task":
			f.IDs = strings.Split(value, ",")
		case "sample":
			f.Sample, err = strconv.Atoi(value)
		case "seed":
			f.Seed, err = strconv.ParseInt(value, 10, 64)
		case "limit":
			f.Limit, err = strconv.Atoi(value)
		default:
			return Filter{}, errorf("unknown part %q", part)
		}
		if err != nil {
			return Filter{}, errorf("%q is not a number", value)
		}
	}
	if err := f.Check(); err != nil {
		return Filter{}, err
	}
	if f.Rule() != label || slices.Contains(f.IDs, "") {
		return Filter{}, errorf("the label for it is %q", f.Rule())
	}
	return f, nil
}

// Pick returns the indexes of the tasks that the filter selects from a split, in its order.
func (f Filter) Pick(tasks []Task, split string) ([]int, error) {
	byID := make(map[string]Task, len(tasks))
	for _, t := range tasks {
		byID[t.ID] = t
	}
	var unknown []string
	for _, id := range f.IDs {
		if t, ok := byID[id]; !ok {
			unknown = append(unknown, id)
		} else if !f.wants(t.Level) {
			return nil, errorf("task %q is of level %d, which the levels asked for leave out", id, t.Level)
		}
	}
	if len(unknown) > 0 {
		return nil, errorf("split %s has no task %s", split, list(unknown))
	}
	for _, l := range f.Levels {
		if !slices.ContainsFunc(tasks, func(t Task) bool { return t.Level == l }) {
			return nil, errorf("split %s has no task of level %d", split, l)
		}
	}
	named, picked := f.named(), []int(nil)
	for i, t := range tasks {
		if f.Limit > 0 && len(picked) == f.Limit {
			break
		}
		if f.wants(t.Level) && (named == nil || named[t.ID]) {
			picked = append(picked, i)
		}
	}
	if f.Sample == 0 {
		return picked, nil
	}
	if f.Sample > len(picked) {
		return nil, errorf("a sample of %d cannot be drawn: the selection has %d tasks of split %s", f.Sample, len(picked), split)
	}
	f.shuffle(picked, func(i int) string { return tasks[i].ID })
	picked = picked[:f.Sample]
	slices.Sort(picked)
	return picked, nil
}

// Admits reports as an error why the filter cannot have selected the planned tasks
// from a split of which only the ids and the number of tasks of each level are known.
// A task that was left out can be of any level that the planned ones leave.
func (f Filter) Admits(planned []Task, ids []string, levels [3]int) error {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	named, last, picked := f.named(), -1, make(map[string]bool, len(planned))
	for _, t := range planned {
		i, known := at[t.ID]
		switch {
		case !known:
			return errorf("task %q is not of the split", t.ID)
		case i <= last:
			return errorf("task %q is not in the order of the split", t.ID)
		case !f.wants(t.Level) || named != nil && !named[t.ID]:
			return errorf("task %q of level %d is not selected by it", t.ID, t.Level)
		}
		last, picked[t.ID] = i, true
	}
	size, others := 0, 0 // tasks that the filter leaves before it draws or cuts, and those that only their level excludes
	for i, n := range levels {
		if !f.wants(i + 1) {
			others += n
			continue
		}
		if size += n; n == 0 && len(f.Levels) > 0 {
			return errorf("the split has no task of level %d", i+1)
		}
	}
	if named != nil {
		size, others = len(named), 0
	}
	want := size
	if f.Sample > 0 {
		want = f.Sample
	} else if f.Limit > 0 {
		want = min(size, f.Limit)
	}
	if len(planned) != want || want > size {
		return errorf("it selects %d of %d tasks, and %d are planned", want, size, len(planned))
	}
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	if f.Sample > 0 {
		f.shuffle(order, func(i int) string { return ids[i] })
	}
	for _, i := range order {
		switch id := ids[i]; {
		case named != nil && !named[id]:
		case picked[id]:
			if want--; want == 0 {
				return nil
			}
		case others == 0:
			return errorf("it selects task %q, which is not planned", id)
		default:
			others--
		}
	}
	return nil
}

// named returns the set of the filter's ids; nil if it names none.
func (f Filter) named() map[string]bool {
	if len(f.IDs) == 0 {
		return nil
	}
	named := make(map[string]bool, len(f.IDs))
	for _, id := range f.IDs {
		named[id] = true
	}
	return named
}

// shuffle puts indexes of tasks in the order in which a sample takes them.
func (f Filter) shuffle(indexes []int, id func(int) string) {
	lots := make(map[int][sha256.Size]byte, len(indexes))
	for _, i := range indexes {
		lots[i] = sha256.Sum256([]byte(strconv.FormatInt(f.Seed, 10) + ":" + id(i)))
	}
	slices.SortFunc(indexes, func(i, j int) int {
		a, b := lots[i], lots[j]
		return bytes.Compare(a[:], b[:])
	})
}

func (f Filter) wants(level int) bool { return len(f.Levels) == 0 || slices.Contains(f.Levels, level) }

// list joins quoted values for an error text, cut where a reader would stop reading.
func list(values []string) string {
	const most = 10
	quoted := make([]string, 0, most)
	for i, v := range values {
		if i == most {
			return strings.Join(quoted, ", ") + fmt.Sprintf(" and %d more", len(values)-most)
		}
		quoted = append(quoted, fmt.Sprintf("%q", v))
	}
	return strings.Join(quoted, ", ")
}
