package loader

import (
	"fmt"
	"slices"
	"testing"
)

func TestFilter(t *testing.T) {
	data := encode(t, threeTasks())
	cases := []struct {
		filter Filter
		ids    []string
		rule   string
		err    string
	}{
		{Filter{}, []string{"a", "b", "c"}, "all", ""},
		{Filter{Limit: 2}, []string{"a", "b"}, "limit=2", ""},
		{Filter{Limit: 9}, []string{"a", "b", "c"}, "limit=9", ""},
		{Filter{Levels: []int{2, 1, 2}}, []string{"a", "b", "c"}, "level=1,2", ""},
		{Filter{Levels: []int{1}, Limit: 1}, []string{"a"}, "level=1 limit=1", ""},
		{Filter{IDs: []string{"c", "a", "c"}}, []string{"a", "c"}, "task=a,c", ""},
		{Filter{IDs: []string{"c"}, Levels: []int{1}}, []string{"c"}, "level=1 task=c", ""},
		{Filter{IDs: []string{"a", "zz", "y y"}}, nil, "", `split validation has no task "zz", "y y"`},
		{Filter{IDs: []string{dummyID}}, nil, "", `split validation has no task "0-0-0-0-0"`},
		{Filter{IDs: []string{"b"}, Levels: []int{1}}, nil, "", `task "b" is of level 2, which the levels asked for leave out`},
		{Filter{Levels: []int{3}}, nil, "", "split validation has no task of level 3"},
		{Filter{Levels: []int{1, 4}}, nil, "", "unknown level 4: want 1, 2 or 3"},
		{Filter{Levels: []int{0}}, nil, "", "unknown level 0: want 1, 2 or 3"},
		{Filter{Limit: -1}, nil, "", "limit -1 is negative: want the number of tasks, or 0 for all"},
		{Filter{Sample: 3}, []string{"a", "b", "c"}, "sample=3 seed=0", ""},
		{Filter{Sample: 2, Levels: []int{1}, Seed: -4}, []string{"a", "c"}, "level=1 sample=2 seed=-4", ""},
		{Filter{Sample: 1, IDs: []string{"c"}, Seed: 7}, []string{"c"}, "task=c sample=1 seed=7", ""},
		{Filter{Sample: 4}, nil, "", "a sample of 4 cannot be drawn: the selection has 3 tasks of split validation"},
		{Filter{Sample: 3, Levels: []int{1}}, nil, "", "a sample of 3 cannot be drawn: the selection has 2 tasks of split validation"},
		{Filter{Sample: -1}, nil, "", "sample -1 is negative: want the number of tasks, or 0 for all"},
		{Filter{Sample: 2, Limit: 1}, nil, "", "a sample of 2 and a limit of 1: give one of them"},
		{Filter{Seed: 7}, nil, "", "seed 7 without a sample: a seed says which sample is drawn"},
	}
	for _, c := range cases {
		set, gold, err := load(Validation, data, c.filter)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%+v: error %v, want %s", c.filter, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.filter, err)
			continue
		}
		var ids []string
		for _, task := range set.Tasks {
			ids = append(ids, task.ID)
			if gold.Map()[task.ID] == "" {
				t.Errorf("%+v: no gold for %s", c.filter, task.ID)
			}
		}
		if !slices.Equal(ids, c.ids) || gold.Len() != len(ids) || len(set.IDs) != 3 {
			t.Errorf("%+v: got %v of %d, %v", c.filter, ids, len(set.IDs), gold)
		}
		if got := c.filter.Rule(); got != c.rule {
			t.Errorf("%+v: rule %q, want %q", c.filter, got, c.rule)
		}
	}
}

// The expected ids are drawn by the shell, for each seed and with only the ids that the levels leave:
//
//	for i in 1 2 3 4 5 6 7 8; do printf '7:fab1e00%d' $i | sha256sum | sed s/-/fab1e00$i/; done | LC_ALL=C sort
func TestSample(t *testing.T) {
	var rows []record
	for i := range 8 {
		rows = append(rows, record{ID: fmt.Sprint("fab1e00", i+1), Question: "q", Level: fmt.Sprint(1 + i/5), Gold: new("g")})
	}
	data := encode(t, rows)
	cases := []struct {
		filter Filter
		ids    []string
	}{
		{Filter{Sample: 1, Seed: 7}, []string{"fab1e007"}},
		{Filter{Sample: 4, Seed: 7}, []string{"fab1e003", "fab1e005", "fab1e006", "fab1e007"}},
		{Filter{Sample: 4, Seed: 7, Levels: []int{1}}, []string{"fab1e001", "fab1e003", "fab1e004", "fab1e005"}},
		{Filter{Sample: 2, Seed: 7, IDs: []string{"fab1e008", "fab1e002", "fab1e001"}}, []string{"fab1e001", "fab1e008"}},
		{Filter{Sample: 3}, []string{"fab1e002", "fab1e004", "fab1e008"}},
		{Filter{Sample: 3, Seed: -3}, []string{"fab1e003", "fab1e004", "fab1e007"}},
	}
	for _, c := range cases {
		set, gold, err := load(Validation, data, c.filter)
		if err != nil {
			t.Errorf("%s: %v", c.filter.Rule(), err)
			continue
		}
		var ids []string
		for _, task := range set.Tasks {
			ids = append(ids, task.ID)
		}
		if !slices.Equal(ids, c.ids) || gold.Len() != len(ids) || len(set.IDs) != 8 || set.Levels != [3]int{5, 3, 0} {
			t.Errorf("%s: got %v, want %v", c.filter.Rule(), ids, c.ids)
		}
	}
}
