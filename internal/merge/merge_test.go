package merge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	runID   = "01KGSQ4Z6X0000000000000001"
	otherID = "01KGSQ4Z6X0000000000000002"
)

// TestPlan: what is merged, by name: each planned task is in one journal that counts, and what rundir reads back of the
// list is the list.
func TestPlan(t *testing.T) {
	s := newSite(t, runID, 7, 3)
	one, two, three := s.shard("shards/a", 1, told{}), s.shard("shards/b", 2, told{}), s.shard("shards/c", 3, told{Told: runs.Told{Turns: 2}})
	hourLate := s.shard("late/b", 2, told{Told: runs.Told{Seed: 1, After: time.Hour}})
	earlier := s.shard("early/b", 2, told{Told: runs.Told{Seed: 2, After: -time.Hour}})
	sameTime := s.shard("same/b", 2, told{Told: runs.Told{Seed: 9}})
	check(t, os.MkdirAll(filepath.Join(s.dir, "shards", ".new-d"), 0o755))
	inOrder, all := []string{one, two, three}, []int{1, 2, 3, 1, 2, 3, 1}
	for name, tt := range map[string]struct {
		given      []string
		lost       []int
		folders    []string
		counted    []int
		superseded []int // entries
	}{
		"each folder":               {given: []string{three, one, two}, folders: inOrder, counted: all},
		"the folder of all":         {given: []string{filepath.Join(s.dir, "shards")}, folders: inOrder, counted: all},
		"a shard twice":             {given: []string{one, hourLate, two, three}, folders: []string{one, two, hourLate, three}, counted: []int{1, 2, 4, 1, 2, 4, 1}, superseded: []int{3}},
		"by a clock that was early": {given: []string{one, two, earlier, three}, folders: []string{one, earlier, two, three}, counted: []int{1, 2, 4, 1, 2, 4, 1}, superseded: []int{3}},
		"three times":               {given: []string{one, two, hourLate, earlier, three}, folders: []string{one, earlier, two, hourLate, three}, counted: []int{1, 2, 5, 1, 2, 5, 1}, superseded: []int{3, 4}},
		"a lost one":                {given: []string{one, three}, lost: []int{2}, folders: []string{one, "", three}, counted: []int{1, 0, 3, 1, 0, 3, 1}},
		"two lost ones":             {given: []string{three}, lost: []int{1, 2}, folders: []string{"", "", three}, counted: []int{0, 0, 3, 0, 0, 3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			shards, folders, err := Plan(s.folder, tt.given, tt.lost, func(string, int, int) { seen++ })
			check(t, err)
			if !slices.Equal(folders, tt.folders) || !slices.Equal(shards.Counted, tt.counted) || seen != len(folders)-len(tt.lost) {
				t.Errorf("folders %q, counted %v, %d verified", folders, shards.Counted, seen)
			}
			for i, f := range shards.Shards {
				if f.Superseded != slices.Contains(tt.superseded, i+1) || (f.Events == 0) != (folders[i] == "") {
					t.Errorf("entry %d is %+v", i+1, f)
				}
			}
			list, err := shards.Encode()
			check(t, err)
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, rundir.ShardsFile), list, 0o644))
			if _, err := rundir.ReadShards(os.DirFS(dir), s.folder.Plan); err != nil {
				t.Error(err)
			}
		})
	}
	// Two journals that began at the same time are told apart by the ids of their first events.
	shards, folders, err := Plan(s.folder, []string{one, sameTime, two, three}, nil, nil)
	check(t, err)
	again, others, err := Plan(s.folder, []string{one, two, sameTime, three}, nil, nil)
	check(t, err)
	if !slices.Equal(folders, others) || !slices.Equal(shards.Shards, again.Shards) || !shards.Shards[2].Superseded {
		t.Errorf("%q, and in another order %q", folders, others)
	}
}

// TestPlanRefuses: each folder that does not belong to the run, or proves nothing, by what is said of it.
func TestPlanRefuses(t *testing.T) {
	s, other := newSite(t, runID, 7, 3), newSite(t, otherID, 7, 3)
	one, two, three := s.shard("shards/a", 1, told{}), s.shard("shards/b", 2, told{}), s.shard("shards/c", 3, told{})
	foreign := other.shard("shards/b", 2, told{})
	copied := filepath.Join(s.dir, "copy")
	check(t, os.CopyFS(copied, os.DirFS(two)))
	link := filepath.Join(s.dir, "link")
	check(t, os.Symlink(two, link))
	forged := s.shard("forged/b", 2, told{delegate: new(runs.ShardKey(7))})
	worker := s.shard("worker/b", 2, told{worker: true})
	damaged := s.shard("damaged/b", 2, told{})
	change(t, filepath.Join(damaged, trajectory.JournalFile), `"answer":"42"`, `"answer":"43"`)
	otherKey := s.shard("key/b", 2, told{})
	note, err := os.ReadFile(filepath.Join(three, trajectory.CheckpointFile))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(otherKey, trajectory.CheckpointFile), note, 0o644))
	earlier := s.shard("earlier/b", 2, told{})
	change(t, filepath.Join(earlier, plan.ManifestFile), "gaia.manifest/2", "gaia.manifest/1")
	cut := s.shard("cut/b", 2, told{})
	check(t, os.Remove(filepath.Join(cut, trajectory.CheckpointFile)))
	undone, part := s.shard("undone/b", 2, told{Told: runs.Told{Undone: 1, NoHead: true}}), s.shard("part/b", 2, told{Told: runs.Told{Undone: 1}})
	signed := s.shard("signed/b", 2, told{})
	again, err := sign.Seal(runs.ShardKey(7), plan.ManifestType, s.folder.Manifest)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(signed, plan.EnvelopeFile), again, 0o644))
	empty := filepath.Join(s.dir, "done here")
	check(t, os.MkdirAll(empty, 0o755))
	run := filepath.Join(s.dir, "run")
	check(t, os.CopyFS(run, os.DirFS(two)))
	check(t, os.Remove(filepath.Join(run, plan.DelegationFile)))
	for name, tt := range map[string]struct {
		given []string
		lost  []int
		code  int
		error string
		hint  string
	}{
		"nothing":               {nil, nil, exit.Incomplete, "not all of the 3 shards are there: missing: 1-3", "--shard 1/3 --out shards"},
		"no folder":             {[]string{filepath.Join(s.dir, "none")}, nil, exit.Usage, "no such file or directory", "name the folders of the shards"},
		"a missing one":         {[]string{one, three}, nil, exit.Incomplete, "not all of the 3 shards are there: missing: 2", "gaia run --plan plan --shard 2/3 --out " + filepath.Dir(one)},
		"all, of a folder":      {[]string{empty}, nil, exit.Incomplete, "missing: 1-3", "gaia run --plan plan --shard 1/3 --out " + view.Quote(empty)},
		"two missing ones":      {[]string{one}, nil, exit.Incomplete, "missing: 2-3", "if their journals are gone for good: --lost 2-3"},
		"one that is not done":  {[]string{one, undone, three}, nil, exit.Incomplete, "are there: not done: 2", "--shard 2/3 --out " + filepath.Dir(undone)},
		"one with a head only":  {[]string{one, part, three}, nil, exit.Incomplete, "are there: not done: 2", "--shard 2/3 --out " + filepath.Dir(part)},
		"one without its head":  {[]string{one, cut, three}, nil, exit.Incomplete, "are there: not done: 2", "--shard 2/3"},
		"a second, not done":    {[]string{one, two, undone, three}, nil, exit.Incomplete, "are there: not done: 2", "--shard 2/3"},
		"the same folder":       {[]string{one, two, two, three}, nil, exit.Usage, "are the same folder", "give it once"},
		"a link to a folder":    {[]string{one, two, link, three}, nil, exit.Usage, "are the same folder", "give it once"},
		"inside another":        {[]string{one, filepath.Dir(two), three}, nil, exit.Usage, "are the same folder", "give it once"},
		"a copy":                {[]string{one, two, copied, three}, nil, exit.Usage, "hold the same journal of shard 2", "give one of them"},
		"another run":           {[]string{one, foreign, three}, nil, exit.Usage, "is of the plan of run " + otherID, "give the shards of one plan"},
		"an earlier version":    {[]string{one, earlier, three}, nil, exit.Evidence, `schema is "gaia.manifest/1"`, ""},
		"a forged delegation":   {[]string{one, forged, three}, nil, exit.Evidence, "delegation.dsse.json", "copy it again"},
		"another's plan":        {[]string{one, signed, three}, nil, exit.Evidence, "manifest.dsse.json", "copy it again"},
		"a worker":              {[]string{one, worker, three}, nil, exit.Usage, "is the folder of a worker", "gaia serve"},
		"a damaged journal":     {[]string{one, damaged, three}, nil, exit.Evidence, "events.jsonl: line", "gaia verify " + damaged},
		"another's checkpoint":  {[]string{one, otherKey, three}, nil, exit.Evidence, "checkpoint", "copy it again"},
		"no shard":              {[]string{one, run, three}, nil, exit.Usage, "is of this plan, and not of a shard", "gaia run --plan --shard"},
		"a lost one that is":    {[]string{one, two, three}, []int{2}, exit.Usage, "shard 2 is named as lost", "leave out --lost 2"},
		"lost, and one missing": {[]string{one}, []int{2}, exit.Incomplete, "missing: 3", "--shard 3/3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Plan(s.folder, tt.given, tt.lost, nil)
			if err == nil {
				t.Fatal("is merged")
			}
			e := exit.Of(err)
			if fault := (*trajectory.Fault)(nil); e.Code != tt.code || !strings.Contains(e.Error(), tt.error) || !strings.Contains(strings.Join(e.Hints, "\n"), tt.hint) {
				t.Errorf("exit code %d: %v (%v)\n%s", e.Code, e, fault, strings.Join(e.Hints, "\n"))
			}
		})
	}
}

// change replaces the first occurrence of a text in a file.
func change(t *testing.T, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	changed := strings.Replace(string(data), old, new, 1)
	if changed == string(data) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	check(t, os.WriteFile(path, []byte(changed), 0o644))
}

// TestMissingMany: of many missing shards all are named, and so many commands given as can be read.
func TestMissingMany(t *testing.T) {
	s := newSite(t, runID, 100, 100)
	_, _, err := Plan(s.folder, []string{s.shard("a", 7, told{})}, nil, nil)
	e := exit.Of(err)
	if e.Code != exit.Incomplete || !strings.HasSuffix(e.Error(), "missing: 1-6,8-100") || len(e.Hints) != maxCommands+2 || !strings.HasPrefix(e.Hints[maxCommands], "and so on for 83 more") {
		t.Errorf("%v\n%s", e, strings.Join(e.Hints, "\n"))
	}
}

func TestLost(t *testing.T) {
	for _, tt := range []struct {
		flags string
		want  string // as Ranges writes it; "": refused
	}{
		{"3", "3"}, {"3 7-9", "3,7-9"}, {"9 7-8 8", "7-9"}, {"1-9", "1-9"}, {"10", "10"},
		{"0", ""}, {"11", ""}, {"9-7", ""}, {"3-", ""}, {"-3", ""}, {"", ""}, {"x", ""}, {"03", ""}, {"+3", ""}, {"1-99999999999999999999", ""}, {"1-10", ""},
	} {
		lost, err := Lost(strings.Split(tt.flags, " "), 10)
		switch {
		case tt.want == "" && (err == nil || exit.Of(err).Code != exit.Usage || len(exit.Of(err).Hints) != 1):
			t.Errorf("%q: %v, %v", tt.flags, lost, err)
		case tt.want != "" && (err != nil || Ranges(lost) != tt.want):
			t.Errorf("%q: %v, %v", tt.flags, lost, err)
		}
	}
}

// TestUnspent: what is said of tasks without money depends on what other shards had left.
func TestUnspent(t *testing.T) {
	for name, tt := range map[string]struct {
		limit int64
		first told
		want  string
	}{
		"no limit":       {0, told{Told: runs.Told{Cost: 10, Skipped: 1}}, ""},
		"all had enough": {600, told{Told: runs.Told{Cost: 10}}, ""},
		"one had none":   {600, told{Told: runs.Told{Cost: 100, Skipped: 1}}, "1 task skipped, since the money of shard 1 was spent, while shard 2 had $0.000280 left: a plan of fewer shards divides --max-cost less"},
		"none had any":   {30, told{Told: runs.Told{Cost: 10, Skipped: 1}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, runID, 4, 2)
			f := rundir.NewFold(s.folder.Plan, s.folder.ManifestSHA256, nil)
			shards, folders, err := Plan(s.folder, []string{s.shard("a", 1, tt.first), s.shard("b", 2, told{Told: runs.Told{Cost: 10}})}, nil, nil)
			check(t, err)
			for i, file := range shards.Shards { // where the merged run has them
				dir := filepath.Join(s.dir, "run", file.Dir())
				check(t, os.MkdirAll(dir, 0o755))
				for _, name := range []string{trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile} {
					check(t, os.Link(filepath.Join(folders[i], name), filepath.Join(dir, name)))
				}
			}
			f.Merge(shards)
			check(t, f.ReadShards(os.DirFS(filepath.Join(s.dir, "run")), s.folder.Key, nil, nil))
			f.Manifest.Budgets.RunCostMicroUSD = tt.limit
			if got := Unspent(f); got != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestBegun: the run that the same command began is continued, another one is left alone.
func TestBegun(t *testing.T) {
	s := newSite(t, runID, 4, 2)
	one, two := s.shard("a", 1, told{}), s.shard("b", 2, told{})
	shards, _, err := Plan(s.folder, []string{one, two}, nil, nil)
	check(t, err)
	place := filepath.Join(s.dir, runID)
	if is, err := begun(place, s.folder, shards); is || err != nil {
		t.Errorf("before: %v, %v", is, err)
	}
	list, err := shards.Encode()
	check(t, err)
	check(t, os.Mkdir(place, 0o755))
	check(t, os.WriteFile(filepath.Join(place, plan.ManifestFile), s.folder.Manifest, 0o644))
	if is, err := begun(place, s.folder, shards); is || exit.Of(err).Code != exit.Usage {
		t.Errorf("a run that is no merged one: %v, %v", is, err)
	}
	check(t, os.WriteFile(filepath.Join(place, rundir.ShardsFile), list, 0o644))
	if is, err := begun(place, s.folder, shards); !is || err != nil {
		t.Errorf("the same: %v, %v", is, err)
	}
	others, _, err := Plan(s.folder, []string{one, two, s.shard("c", 2, told{Told: runs.Told{Seed: 1, After: time.Hour}})}, nil, nil)
	check(t, err)
	if is, err := begun(place, s.folder, others); is || exit.Of(err).Code != exit.Usage {
		t.Errorf("of other journals: %v, %v", is, err)
	}
}
