package export

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/submit"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// validationLevels are how many tasks of the validation split are of level 1, 2
// and 3, which the leaderboard counts.
func validationLevels() map[int]int { return map[int]int{1: 53, 2: 86, 3: 26} }

// full is a run of as many tasks as the validation split has.
func full() string { return quays(validationLevels()) }

// quays is a run of so many tasks of each level, level by level. Every seventh has
// no answer.
func quays(levels map[int]int) string {
	var text strings.Builder
	text.WriteString("Ferries are counted.\n")
	n := 0
	for level := 1; level <= 3; level++ {
		for range levels[level] {
			fmt.Fprintf(&text, "-- task fab1e902-0000-4000-8000-%012d --\nquestion: How many ferries left quay %d?\ngold: %d\nlevel: %d\n", n, n, n, level)
			fmt.Fprintf(&text, "-- call web_fetch {\"url\":\"http://harbour.example/quays/%d\"} --\nThe ferries of Tolmey left at dawn.\n", n)
			if n%7 == 3 {
				text.WriteString("-- no answer --\nI do not know.\n")
			} else {
				fmt.Fprintf(&text, "-- answer %d --\nI counted \"them\",\nby the quay.\n", n)
			}
			n++
		}
	}
	return text.String()
}

// accept does with a file what the leaderboard's app does before it scores:
// docs/exporting.md has its rules. levels are those of the split's tasks, by id.
func accept(data []byte, levels map[string]int) error {
	seen, counts := map[string]bool{}, map[int]int{}
	for line := range bytes.Lines(data) {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(line, &members); err != nil {
			return fmt.Errorf("line %d is no JSON object", len(seen))
		}
		var answer, trace, id string
		for name, to := range map[string]*string{"model_answer": &answer, "reasoning_trace": &trace, "task_id": &id} {
			if err := json.Unmarshal(members[name], to); err != nil {
				return fmt.Errorf("line %d has no text %s", len(seen), name)
			}
		}
		level, known := levels[id]
		if !known {
			return fmt.Errorf("%s is not in the split", id)
		}
		if seen[id] {
			return fmt.Errorf("%s is there twice", id)
		}
		seen[id] = true
		counts[level]++
	}
	if !maps.Equal(counts, validationLevels()) {
		return fmt.Errorf("there are %v tasks by level, not %v", counts, validationLevels())
	}
	return nil
}

// TestLeaderboardAccepts: the leaderboard's own rules accept the export of a full
// run, and not one with a line less, more, twice or broken.
func TestLeaderboardAccepts(t *testing.T) {
	s := open(t, parse(t, full()))
	levels := map[string]int{}
	for _, planned := range s.Run.Tasks {
		levels[planned.Plan.TaskID] = planned.Plan.Level
	}
	if len(levels) != 165 {
		t.Fatalf("the run has %d tasks", len(levels))
	}
	data, err := submit.Leaderboard(s.Run, s.Void)
	if err != nil {
		t.Fatal(err)
	}
	if err := accept(data, levels); err != nil {
		t.Error(err)
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	for what, bad := range map[string]string{
		"a line less":     rest,
		"a line twice":    first + "\n" + string(data),
		"a stranger":      strings.Replace(string(data), "fab1e902", "fab1e903", 1),
		"no model_answer": strings.Replace(string(data), `"model_answer"`, `"answer"`, 1),
		"no JSON":         strings.Replace(string(data), `{`, ``, 1),
	} {
		if accept([]byte(bad), levels) == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
