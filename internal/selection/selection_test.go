package selection

import (
	"strings"
	"testing"
)

// TestParse: a label is read only in the form in which Rule writes it.
func TestParse(t *testing.T) {
	for _, label := range []string{"all", "level=1", "level=1,3 task=a,b limit=5", "level=2 sample=20 seed=-7", "sample=1 seed=0", "task=b", "errors-of=01J task=a,b"} {
		if f, err := Parse(label); err != nil || f.Rule() != label {
			t.Errorf("%q: %+v, %v", label, f, err)
		}
	}
	for _, label := range []string{"", "All", "all ", "the hard ones", "level=", "level=x", "level=4", "level=0", "level=3,1", "level=1,1", "level=01", "limit=+5", "limit=0",
		"limit=-1", "limit=5 level=1", "sample=5", "seed=7", "sample=5 limit=5 seed=1", "sample=5 seed=1 limit=5", "task=", "task=b,a", "task=a,a", "all limit=5",
		"limit=99999999999999999999", "level=1  limit=5", "limit=5 limit=6", "errors-of=", "errors-of=01J", "errors-of= task=a", "task=a errors-of=01J", "errors-of=01J level=1", "errors-of=01J task=a limit=1"} {
		if f, err := Parse(label); err == nil {
			t.Errorf("%q is read as %+v", label, f)
		}
	}
}

// TestAdmits: planned tasks are those of a label as far as the ids of the split and
// its counts by level show it.
func TestAdmits(t *testing.T) {
	const split = "abcdef" // of levels 1, 2, 1, 3, 2, 1
	levels := map[string]int{"a": 1, "b": 2, "c": 1, "d": 3, "e": 2, "f": 1}
	ids := strings.Split(split, "")
	for _, tt := range []struct{ label, planned, why string }{
		{"all", "abcdef", ""},
		{"all", "abcde", "it selects 6 of 6 tasks, and 5 are planned"},
		{"all", "abcdfe", `task "e" is not in the order of the split`},
		{"all", "abcdeg", `task "g" is not of the split`},
		{"level=1", "acf", ""},
		{"level=1", "ac", "it selects 3 of 3 tasks, and 2 are planned"},
		{"level=1", "acd", `task "d" of level 3 is not selected by it`},
		{"level=1,3", "acdf", ""},
		{"level=1 limit=2", "ac", ""},
		{"level=1 limit=2", "cf", `it selects task "e", which is not planned`},
		{"level=1 limit=1", "f", `it selects task "d", which is not planned`},
		{"level=1 limit=1", "c", ""}, // a could be of another level: only the dataset shows it
		{"level=1,2,3 limit=2", "bc", `it selects task "a", which is not planned`},
		{"level=1,2 limit=2", "ef", `it selects task "b", which is not planned`},
		{"limit=2", "ab", ""},
		{"limit=2", "ac", `it selects task "b", which is not planned`},
		{"limit=9", "abcdef", ""},
		{"limit=9", "abcde", "it selects 6 of 6 tasks, and 5 are planned"},
		{"task=b,d", "bd", ""},
		{"task=b,d", "b", "it selects 2 of 2 tasks, and 1 are planned"},
		{"task=b,d", "bc", `task "c" of level 1 is not selected by it`},
		{"task=b,d,e limit=2", "bd", ""},
		{"task=b,d,e limit=2", "be", `it selects task "d", which is not planned`},
		{"level=2 task=b,e", "be", ""},
		{"task=b,zz", "b", "it selects 2 of 2 tasks, and 1 are planned"},
		{"sample=9 seed=1", "abcdef", "it selects 9 of 6 tasks, and 6 are planned"},
	} {
		f, err := Parse(tt.label)
		if err != nil {
			t.Fatal(err)
		}
		var planned []Task
		for _, id := range strings.Split(tt.planned, "") {
			planned = append(planned, Task{id, levels[id]})
		}
		err = f.Admits(planned, ids, [3]int{3, 2, 1})
		if tt.why == "" && err != nil || tt.why != "" && (err == nil || err.Error() != tt.why) {
			t.Errorf("%s with %s: %v, want %q", tt.label, tt.planned, err, tt.why)
		}
	}
}

// TestAdmitsPicked: what is picked is admitted, and nothing else of a rule without levels.
func TestAdmitsPicked(t *testing.T) {
	ids, tasks := strings.Split("abcdefgh", ""), []Task(nil)
	var levels [3]int
	for i, id := range ids {
		tasks = append(tasks, Task{id, i%3 + 1})
		levels[i%3]++
	}
	for _, label := range []string{"all", "limit=3", "sample=3 seed=7", "sample=3 seed=8", "task=a,c,h", "task=a,c,d,h sample=2 seed=1", "level=1", "level=1,2 sample=3 seed=5", "level=3 limit=1"} {
		f, err := Parse(label)
		if err != nil {
			t.Fatal(err)
		}
		at, err := f.Pick(tasks, "validation")
		if err != nil {
			t.Fatal(err)
		}
		picked := 0
		for _, i := range at {
			picked |= 1 << i
		}
		for set := 1; set < 1<<len(ids); set++ {
			var planned []Task
			for i, task := range tasks {
				if set>>i&1 == 1 {
					planned = append(planned, task)
				}
			}
			admitted := f.Admits(planned, ids, levels) == nil
			if set == picked && !admitted || set != picked && admitted && len(f.Levels) == 0 {
				t.Errorf("%s with %v: %t", label, planned, admitted)
			}
		}
	}
}
