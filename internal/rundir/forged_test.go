package rundir_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	ferries = "fab1e903-0000-4000-8000-000000000001" // answered, graded
	lights  = "fab1e903-0000-4000-8000-000000000002" // answered in the second attempt
	harbour = "fab1e903-0000-4000-8000-000000000003" // not answered
	// checked is what the tree head says of any journal that holds, but is not
	// the one that was signed.
	checked = "checkpoint: does not say what the journal gives"
)

// story is the journal of a run as a forger edits it.
type story []runs.Line

// at returns where the n-th event of a type stands in a task, "" being the run.
func (s story) at(t *testing.T, task, kind string, n int) int {
	t.Helper()
	for i, l := range s {
		if of, _ := l["task_id"].(string); of == task && l["type"] == kind {
			if n--; n < 0 {
				return i
			}
		}
	}
	t.Fatalf("there is no such %s in %q", kind, task)
	return 0
}

func (s story) without(from, to int) story { return slices.Delete(slices.Clone(s), from, to) }

// unstopped returns the story without the run_completed that a resumption follows.
func (s story) unstopped(t *testing.T) story {
	at := s.at(t, "", "run_completed", 0)
	return s.without(at, at+1)
}

// with returns the story with a copy of a line before another.
func (s story) with(line, before int) story {
	return slices.Insert(slices.Clone(s), before, maps.Clone(s[line]))
}

// moved returns the story with a line somewhere before its place.
func (s story) moved(from, to int) story { return s.with(from, to).without(from+1, from+2) }

// except returns the story without the lines of a task for which drop holds.
func (s story) except(task string, drop func(runs.Line) bool) story {
	return slices.DeleteFunc(slices.Clone(s), func(l runs.Line) bool { return l["task_id"] == task && drop(l) })
}

// exchange exchanges members of two lines.
func (s story) exchange(i, j int, members ...string) story {
	for _, name := range members {
		s[i][name], s[j][name] = s[j][name], s[i][name]
	}
	return s
}

func varied(t *testing.T) (run, other map[string][]byte) {
	t.Helper()
	first, second := runs.Varied()
	return evidence(t, first), evidence(t, second)
}

func lines(t *testing.T, dir map[string][]byte) story {
	t.Helper()
	all, err := runs.Lines(dir[trajectory.JournalFile])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// forged writes a story as a run, chained and derived again.
func forged(t *testing.T, dir map[string][]byte, s story, signs bool) map[string][]byte {
	t.Helper()
	journal, err := runs.Chain(dir[plan.ManifestFile], s)
	if err != nil {
		t.Fatal(err)
	}
	key := runs.Key()
	by := &key
	if !signs {
		by = nil
	}
	all, err := runs.Forge(dir, journal, by)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// raw writes a story with the hashes that its lines had.
func raw(t *testing.T, s story) (journal []byte) {
	t.Helper()
	for _, l := range s {
		line, err := canonical.Encode(map[string]any(l))
		if err != nil {
			t.Fatal(err)
		}
		journal = append(append(journal, line...), '\n')
	}
	return journal
}

// wantWords checks that a run is refused by a fault that says what was done.
func wantWords(t *testing.T, what string, dir map[string][]byte, words string) {
	t.Helper()
	run, err := rundir.Verify(runs.Mutation{Dir: dir}.FS(), rundir.Options{})
	var fault *trajectory.Fault
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v (%+v); want %q", what, err, run, words)
	}
}

// forgery is an edit of a journal. It is placed where lines get the numbers, ids
// and times that a careful forger would give them.
type forgery struct {
	name   string
	placed bool
	edit   func(t *testing.T, s, other story) story
	words  string // of the refusal; checked where only the signature stands in the way
}

// TestForged has each forgery made by someone who chains the journal again and
// derives all files from it, first without the run's key and then with it.
//
// Where only the signature stands in the way (checked), whoever holds the key
// goes undetected by design: answers, verdicts, heads, tokens, times and
// interruptions are what the signer says that they were, and a run may be cut
// and gone on with, or made up as a whole. What stands against that is a
// checkpoint or manifest digest published at the time, the provider's request
// ids, and the audit, which recomputes verdicts from the gold answers.
func TestForged(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	for _, f := range slices.Concat(order(), content(), foreign()) {
		run, again := varied(t)
		s := f.edit(t, lines(t, run), lines(t, again))
		if f.placed {
			if err := runs.Place(s); err != nil {
				t.Fatal(err)
			}
		}
		wantWords(t, f.name, forged(t, run, s, false), f.words)
		if f.words != checked {
			wantWords(t, f.name+", by the signer", forged(t, run, s, true), f.words)
		}
		plain := maps.Clone(run)
		if plain[trajectory.JournalFile] = raw(t, s); string(plain[trajectory.JournalFile]) != string(run[trajectory.JournalFile]) {
			wantWords(t, f.name+", not chained again", plain, trajectory.JournalFile+": line ")
		}
	}
}

// TestForgedContentHash: a line whose hash is not that of what it says is
// refused, also where all lines after it hang on it and the signer signs them.
func TestForgedContentHash(t *testing.T) {
	run, _ := varied(t)
	s := lines(t, run)
	const at = 30
	journal, err := runs.Chain(run[plan.ManifestFile], s[:at])
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.SplitAfter(journal, []byte("\n"))[at-1]
	s[at]["parent_hash"], s[at]["content_hash"] = canonical.Digest(before), canonical.Digest(nil)
	line := raw(t, s[at:at+1])
	end, err := runs.Chain(line, s[at+1:])
	if err != nil {
		t.Fatal(err)
	}
	key := runs.Key()
	all, err := runs.Forge(run, slices.Concat(journal, line, end), &key)
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, "another content hash", all, "events.jsonl: line 31: not the canonical JSON of its type")
}
