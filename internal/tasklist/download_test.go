package tasklist

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/loader"
)

// TestNamed: a task is named by its id or the start of it, which must be of one task only.
func TestNamed(t *testing.T) {
	set := loader.Set{Split: loader.Validation}
	for _, id := range []string{"a", "ab1", "ab2", "b1"} {
		set.Tasks = append(set.Tasks, loader.Task{ID: id})
	}
	for name, want := range map[string]string{"a": "a", "ab1": "ab1", "b": "b1"} {
		if got, err := Named(set, []string{name}); err != nil || len(got) != 1 || got[0].ID != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	if _, err := Named(set, []string{"c"}); err == nil || !strings.Contains(err.Error(), `no task "c" among the 4 selected ones`) {
		t.Error(err)
	}
	e := (*exit.Error)(nil)
	if _, err := Named(set, []string{"ab"}); !errors.As(err, &e) || e.Code != exit.Usage || !slices.Equal(e.Reasons, []string{"ab1", "ab2"}) {
		t.Errorf("%+v", err)
	}
	many := make([]string, 12)
	for i := range many {
		many[i] = "x" + string(rune('a'+i))
	}
	if _, err := Find("x", len(many), func(i int) string { return many[i] }); !errors.As(err, &e) || len(e.Reasons) != 11 || e.Reasons[10] != "and 2 more" {
		t.Errorf("%+v", e)
	}
}
