package rundir_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// merged writes a case in parts. Gold answers are no evidence.
func merged(t testing.TB, c runs.Case, shards int, parts ...runs.Part) runs.Merged {
	t.Helper()
	m, err := c.Merged(shards, parts...)
	if err != nil {
		t.Fatal(err)
	}
	delete(m.Files, rundir.PrivateFile)
	return m
}

// twice are the parts of two shards of which the second ran twice.
func twice() []runs.Part { return []runs.Part{{Index: 1}, {Index: 2}, {Index: 2}} }

// fourTasks returns a case of four tasks, of which every second is answered wrong.
func fourTasks(t testing.TB) runs.Case {
	t.Helper()
	var text strings.Builder
	text.WriteString("Four tasks.\n\n")
	for i := range 4 {
		fmt.Fprintf(&text, "-- task fab1e9%02d-0000-4000-8000-000000000001 --\nquestion: How many boats lie at pier %d of Tolmey?\ngold: %d\nlevel: 1\njudge: incorrect\n\n"+
			"-- call calculate {\"expression\":\"%d+1\"} --\n%d\n\n-- answer %d --\nAs counted.\n\n", i, i, i+1, i, i+1, i+i%2+1)
	}
	c, err := runs.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verifies checks files that are to be a complete run, and returns it.
func verifies(t testing.TB, files map[string][]byte) *rundir.Run {
	t.Helper()
	run, err := rundir.Verify(runs.Mutation{Dir: files}.FS(), rundir.Options{})
	if err != nil || !run.Complete {
		t.Fatalf("%v, %+v", err, run)
	}
	return run
}

// TestMergedRun: what a merged run says of its shards, and where its lines are.
func TestMergedRun(t *testing.T) {
	c := fourTasks(t)
	m := merged(t, c, 2, twice()...)
	var shown []int64
	run, err := rundir.Verify(runs.Mutation{Dir: m.Files}.FS(), rundir.Options{Event: func(e trajectory.Event) error {
		shown = append(shown, e.Seq)
		return nil
	}})
	if err != nil || !run.Complete {
		t.Fatalf("%v, %+v", err, run)
	}
	s := run.ShardsSummary()
	if s.Journals != 3 || s.Planned != 2 || s.Lost != 0 || s.Superseded.Tasks != 2 || s.Superseded.Attempts != 2 || *s.Superseded.CostMicroUSD == 0 || s.Superseded.Tokens.In == 0 {
		t.Errorf("%+v", s)
	}
	names := run.Journals()
	if want := []string{"shards/1/events.jsonl", "shards/2/events.jsonl", "shards/2.2/events.jsonl", "events.jsonl"}; !slices.Equal(names, want) {
		t.Fatalf("%q", names)
	}
	var whole [][]byte
	places := map[int64]string{}
	for _, name := range names {
		for i, line := range bytes.SplitAfter(bytes.TrimSuffix(m.Files[name], []byte("\n")), []byte("\n")) {
			places[int64(len(whole))] = fmt.Sprint(name, " ", i+1)
			whole = append(whole, line)
		}
		if name != trajectory.JournalFile && run.Files[name] != canonical.Digest(m.Files[name]) {
			t.Errorf("the digest of %s is not given", name)
		}
	}
	for seq := range int64(len(whole)) {
		if name, line := run.Place(seq); fmt.Sprint(name, " ", line) != places[seq] {
			t.Errorf("line %d is at %s %d, not %s", seq+1, name, line, places[seq])
		}
	}
	started := 0
	for _, seq := range shown {
		if bytes.Contains(whole[seq], []byte(`"type":"run_started"`)) {
			started++
		}
	}
	if started != 4 || len(shown) >= len(whole) || !slices.IsSorted(shown) {
		t.Errorf("%d of %d lines are shown, with %d run_started", len(shown), len(whole), started)
	}
	if outcomes := run.Summary().Outcomes; outcomes != (rundir.Outcomes{Solved: 2, Failed: 2}) {
		t.Errorf("%+v", outcomes)
	}
}

// TestFollowMerged: who follows a merged run sees the events that a reader of it sees, each while the fold is locked.
func TestFollowMerged(t *testing.T) {
	dir := runs.Mutation{Dir: merged(t, fourTasks(t), 2, twice()...).Files}.FS()
	var want, got []int64
	if _, err := rundir.Verify(dir, rundir.Options{Event: func(e trajectory.Event) error {
		want = append(want, e.Seq)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	run, err := rundir.Begin(dir)
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	err = rundir.Follow(dir, run, &lock, func() error { return io.EOF }, func(e trajectory.Event, _ []byte) error {
		if lock.TryLock() {
			t.Error("the fold is not locked")
		}
		got = append(got, e.Seq)
		return nil
	})
	if err != nil || !slices.Equal(got, want) || run.Completed == nil || !lock.TryLock() {
		t.Errorf("%v, %d of %d events", err, len(got), len(want))
	}
}

// TestLostShard: tasks of a shard whose journal is gone were skipped, and are counted as lost.
func TestLostShard(t *testing.T) {
	run := verifies(t, merged(t, fourTasks(t), 2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true}).Files)
	if s := run.ShardsSummary(); s.Lost != 2 || s.Journals != 1 || run.Summary().Outcomes.Skipped != 2 {
		t.Errorf("%+v, %+v", s, run.Summary().Outcomes)
	}
}

// TestWorkers: what a worker began or another one did first does not count.
func TestWorkers(t *testing.T) {
	m := merged(t, fourTasks(t), 0, runs.Part{Index: 1, Tasks: []int{0, 2}, Begun: []int{1}}, runs.Part{Index: 2, Tasks: []int{3, 2, 1}})
	run := verifies(t, m.Files)
	if s := run.ShardsSummary(); s.Planned != 0 || s.Journals != 2 || s.Superseded.Tasks != 2 || s.Superseded.Attempts != 2 {
		t.Errorf("%+v", s)
	}
	if counted := run.Shards.Counted; !slices.Equal(counted, []int{1, 2, 1, 2}) {
		t.Errorf("%v", counted)
	}
}

// TestStoppedWorker: after a journal that was closed since the endpoint could not be reached, the next one is read.
func TestStoppedWorker(t *testing.T) {
	m := merged(t, fourTasks(t), 0, runs.Part{Index: 1, Tasks: []int{0, 2}, Stopped: true}, runs.Part{Index: 2, Tasks: []int{3, 1}})
	if run := verifies(t, m.Files); run.Stopped != nil {
		t.Errorf("%+v", run.Stopped)
	}
}

// edited is a merged run that is changed by who holds the keys of its shards.
type edited struct {
	t     *testing.T
	files map[string][]byte
}

// list changes shards.json.
func (e edited) list(change func(*rundir.Shards)) {
	var s rundir.Shards
	if err := canonical.Decode(e.files[rundir.ShardsFile], &s); err != nil {
		e.t.Fatal(err)
	}
	change(&s)
	data, err := s.Encode()
	if err != nil {
		e.t.Fatal(err)
	}
	e.files[rundir.ShardsFile] = data
}

// journal changes the lines of the journal in a folder, and has its key sign it again; shards.json follows, and the run's
// own journal is left.
func (e edited) journal(folder string, index int, change func([]runs.Line) []runs.Line) {
	name := path.Join(rundir.ShardsDir, folder, trajectory.JournalFile)
	all, err := runs.Lines(e.files[name])
	if err != nil {
		e.t.Fatal(err)
	}
	all = change(all)
	if err := runs.Place(all); err != nil {
		e.t.Fatal(err)
	}
	if e.files[name], err = runs.Chain(e.files[plan.ManifestFile], all); err != nil {
		e.t.Fatal(err)
	}
	e.head(folder, index)
}

// head signs the tree head of the journal in a folder, as far as it can be read, and puts it into shards.json.
func (e edited) head(folder string, index int) {
	dir := path.Join(rundir.ShardsDir, folder)
	journal := e.files[path.Join(dir, trajectory.JournalFile)]
	m, err := plan.Decode(e.files[plan.ManifestFile])
	if err != nil {
		e.t.Fatal(err)
	}
	digest := canonical.Digest(e.files[plan.ManifestFile])
	d, _, err := m.ReadDelegation(e.files[path.Join(dir, plan.DelegationFile)], digest, runs.Key().Public())
	if err != nil {
		return
	}
	f := rundir.NewFold(m, digest, nil)
	f.OfShard(d)
	end, _, err := trajectory.ReadJournal(bytes.NewReader(journal), m.RunID, digest, f.Add)
	if err != nil {
		end = trajectory.End{Events: int64(bytes.Count(journal, []byte("\n")))}
		end.Head = canonical.Digest(bytes.SplitAfter(journal, []byte("\n"))[end.Events-1])
	}
	head, err := f.ShardCheckpoint(end)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.files[path.Join(dir, trajectory.CheckpointFile)], err = head.Sign(runs.ShardKey(index)); err != nil {
		e.t.Fatal(err)
	}
	e.list(func(s *rundir.Shards) {
		for i := range s.Shards {
			if s.Shards[i].Folder == folder {
				s.Shards[i].Events, s.Shards[i].Head = end.Events, end.Head
			}
		}
	})
}

// delegation puts another one into a folder.
func (e edited) delegation(folder string, key sign.Key, change func(*plan.Delegation)) {
	name := path.Join(rundir.ShardsDir, folder, plan.DelegationFile)
	m, err := plan.Decode(e.files[plan.ManifestFile])
	if err != nil {
		e.t.Fatal(err)
	}
	d, _, err := m.ReadDelegation(e.files[name], canonical.Digest(e.files[plan.ManifestFile]), runs.Key().Public())
	if err != nil {
		e.t.Fatal(err)
	}
	change(&d)
	payload, err := canonical.Encode(d)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.files[name], err = sign.Seal(key, plan.DelegationType, payload); err != nil {
		e.t.Fatal(err)
	}
}

// at returns the place of the last line of a type.
func at(all []runs.Line, kind trajectory.Type) int {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i]["type"] == string(kind) {
			return i
		}
	}
	panic("there is no " + kind)
}

// says changes a member of the payload of the last event of a type.
func says(kind trajectory.Type, member string, v any) func([]runs.Line) []runs.Line {
	return func(all []runs.Line) []runs.Line {
		all[at(all, kind)].Payload()[member] = v
		return all
	}
}

// TestSupersededQuestion: an attempt that does not count was asked the planned question, too, or no run is made of it.
func TestSupersededQuestion(t *testing.T) {
	const other = "What is the name of the ferry?"
	for reason, parts := range map[string][]runs.Part{
		"was asked another question than planned in an attempt that does not count": {{Index: 1}, {Index: 2}, {Index: 2, Asks: other}},
		"than a journal before it":                {{Index: 1}, {Index: 2}, {Index: 2}, {Index: 2, Asks: other}},
		"was asked another question than planned": {{Index: 1}, {Index: 2, Asks: other}, {Index: 2}},
	} {
		var fault *trajectory.Fault
		if _, err := fourTasks(t).Merged(2, parts...); !errors.As(err, &fault) || !strings.HasSuffix(fault.Reason, reason) {
			t.Errorf("%v, want %q", err, reason)
		}
	}
}

// TestForgedShards: what a holder of the keys of shards, or of all keys, can do to a merged run is refused, and the file
// named.
func TestForgedShards(t *testing.T) {
	long.NotRaced(t)
	c := fourTasks(t)
	other, err := runs.Parse("Told again.\n\n" + c.Text)
	if err != nil {
		t.Fatal(err)
	}
	static, foreign := merged(t, c, 2, twice()...), merged(t, other, 2)
	dynamic := merged(t, c, 0, runs.Part{Index: 1, Tasks: []int{0, 2}, Begun: []int{1}}, runs.Part{Index: 2, Tasks: []int{3, 2, 1}})
	lost := merged(t, c, 2, runs.Part{Index: 1}, runs.Part{Index: 2, Gone: true})
	verifies(t, static.Files)
	verifies(t, dynamic.Files)
	file := func(folder, name string) string { return path.Join(rundir.ShardsDir, folder, name) }
	const journal, head, delegation = trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile
	take := func(name, from string) func(edited) {
		return func(e edited) { e.files[name] = e.files[from] }
	}
	dynamically := func(change func(edited)) func(edited) {
		return func(e edited) {
			clear(e.files)
			maps.Copy(e.files, dynamic.Files)
			change(e)
		}
	}
	for name, one := range map[string]struct {
		change func(e edited)
		file   string
		words  string
	}{
		"a shard left out": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				*s = rundir.NewShards(plan.Plan{RunID: s.RunID}, []trajectory.ShardMerged{s.Shards[0].ShardMerged}, []int{1, 0, 1, 0})
			})
		}, rundir.ShardsFile, "has no journal of 1 of the 2 shards"},
		"the files of a shard left out": {func(e edited) { delete(e.files, file("2", journal)) }, file("2", journal), rundir.Missing},
		"a shard said to be lost": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				gone := trajectory.ShardMerged{Lost: 2, Shard: trajectory.Shard{Index: 2, Of: 2}}
				*s = rundir.NewShards(plan.Plan{RunID: s.RunID}, []trajectory.ShardMerged{s.Shards[0].ShardMerged, gone}, []int{1, 0, 1, 0})
			})
		}, journal, "merges another shard"},
		"a lost shard hidden": {func(e edited) {
			clear(e.files)
			maps.Copy(e.files, lost.Files)
			e.list(func(s *rundir.Shards) { s.Shards[1].Lost = 0 })
		}, rundir.ShardsFile, "miscounts the tasks that are lost"},
		"lost in place of what superseded": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				gone := trajectory.ShardMerged{Lost: 2, Shard: trajectory.Shard{Index: 2, Of: 2}}
				*s = rundir.NewShards(plan.Plan{RunID: s.RunID}, []trajectory.ShardMerged{s.Shards[0].ShardMerged, gone, s.Shards[2].ShardMerged}, []int{1, 0, 1, 0})
			})
		}, rundir.ShardsFile, "no journal of its shard counts"},
		"two journals of one shard count": {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[2].Superseded = false }) }, rundir.ShardsFile, "two journals of shard 2 that count"},
		"a superseded journal counts": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				s.Shards[1].Superseded, s.Shards[2].Superseded, s.Counted = true, false, []int{1, 3, 1, 3}
			})
		}, rundir.ShardsFile, "began before"},
		"a superseded journal counts for one task": {func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[1] = 3 }) }, rundir.ShardsFile, "does not count in its shard"},
		"a journal twice": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				again := s.Shards[1].ShardMerged
				again.Superseded = true
				*s = rundir.NewShards(plan.Plan{RunID: s.RunID}, []trajectory.ShardMerged{s.Shards[0].ShardMerged, s.Shards[1].ShardMerged, again}, s.Counted)
			})
		}, rundir.ShardsFile, "a journal a second time"},
		"a key for two shards":                   {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[1].Shard.Key = s.Shards[0].Shard.Key }) }, rundir.ShardsFile, "has the key of shard 1"},
		"a task counted in the wrong shard":      {func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[0] = 2 }) }, rundir.ShardsFile, "does not count in its shard"},
		"a task counted nowhere":                 {func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[0] = 0 }) }, rundir.ShardsFile, "does not count in its shard"},
		"a task of a worker counted nowhere":     {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[0] = 0 }) }), rundir.ShardsFile, "no journal that is listed"},
		"a task counted where it is not":         {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[0] = 2 }) }), rundir.TrajectoriesFile, "is not what the journal gives"},
		"a task counted where it has only begun": {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[1] = 1 }) }), file("1", journal), "does not commit task"},
		"a task counted in the other worker":     {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Counted[2] = 2 }) }), rundir.TrajectoriesFile, "is not what the journal gives"},
		"a superseded worker":                    {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[1].Superseded = true }) }), rundir.ShardsFile, "supersedes the whole journal of a worker"},
		"a worker that is gone": {dynamically(func(e edited) {
			e.list(func(s *rundir.Shards) {
				s.Shards[1] = rundir.ShardFile{ShardMerged: trajectory.ShardMerged{Lost: 1, Shard: trajectory.Shard{Index: 2}}}
			})
		}), rundir.ShardsFile, "neither of a journal nor of one that is gone"},
		"more lines than a file can have": {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[1].Events = 1 << 50 }) }, rundir.ShardsFile, "neither of a journal"},
		"more lost than planned":          {dynamically(func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[1].Lost = 1 << 50 }) }), rundir.ShardsFile, "lost more tasks than are planned"},
		"a worker among shards":           {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[2].Shard.Of = 0 }) }, rundir.ShardsFile, "mixes shards and workers"},
		"shards of another number": {func(e edited) {
			e.list(func(s *rundir.Shards) {
				for i := range s.Shards {
					s.Shards[i].Shard.Of = 3
				}
			})
		}, rundir.ShardsFile, "has shards that the plan does not have"},
		"a shard beyond the last": {func(e edited) {
			e.list(func(s *rundir.Shards) { s.Shards[2].Shard.Index = 3; s.Shards[2].Folder = "3" })
		}, rundir.ShardsFile, "lists shard 3 of 2"},
		"another folder":                  {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[2].Folder = "3" }) }, rundir.ShardsFile, "is not written as"},
		"a folder above the run":          {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[2].Folder = "../../other" }) }, rundir.ShardsFile, "is not written as"},
		"an absolute folder":              {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[2].Folder = "/tmp" }) }, rundir.ShardsFile, "is not written as"},
		"the list of another run":         {func(e edited) { e.files[rundir.ShardsFile] = foreign.Files[rundir.ShardsFile] }, rundir.ShardsFile, "is not written as"},
		"no list":                         {func(e edited) { delete(e.files, rundir.ShardsFile) }, plan.ManifestFile, "neither"},
		"an empty list":                   {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards = []rundir.ShardFile{} }) }, rundir.ShardsFile, "lists 0 journals"},
		"too many journals":               {func(e edited) { e.list(func(s *rundir.Shards) { *s = many(*s) }) }, rundir.ShardsFile, "not 1 to 4096"},
		"a list that is too large":        {func(e edited) { e.files[rundir.ShardsFile] = make([]byte, 33<<20) }, rundir.ShardsFile, "is larger"},
		"no delegation":                   {func(e edited) { delete(e.files, file("1", delegation)) }, file("1", delegation), rundir.Missing},
		"a delegation that is too large":  {func(e edited) { e.files[file("1", delegation)] = make([]byte, plan.MaxDelegation+1) }, file("1", delegation), "is larger"},
		"a delegation by another key":     {func(e edited) { e.delegation("1", runs.OtherKey(), func(*plan.Delegation) {}) }, file("1", delegation), "signed by"},
		"a delegation by its own key":     {func(e edited) { e.delegation("1", runs.ShardKey(1), func(*plan.Delegation) {}) }, file("1", delegation), "signed by"},
		"the delegation of another shard": {take(file("1", delegation), file("2", delegation)), file("1", delegation), "is of another shard or key"},
		"a delegation of another plan":    {func(e edited) { e.files[file("1", delegation)] = foreign.Files[file("1", delegation)] }, file("1", delegation), "is of another plan"},
		"a delegation of another digest": {func(e edited) {
			e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.ManifestSHA256 = canonical.Digest(nil) })
		}, file("1", delegation), "is of another plan"},
		"a delegation of another version": {func(e edited) {
			e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Schema = "gaia.delegation/2" })
		}, file("1", delegation), "of another version"},
		"a delegation of a worker": {func(e edited) { e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Of = 0 }) }, file("1", delegation), "is of another shard or key"},
		"a delegation of no shard": {func(e edited) { e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Index = 3 }) }, file("1", delegation), "which the plan does not have"},
		"a delegation of shard 0":  {func(e edited) { e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Index = 0 }) }, file("1", delegation), "which the plan does not have"},
		"a delegation of another key": {func(e edited) {
			e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Key = runs.OtherKey().Public().Line() })
		}, file("1", delegation), "is of another shard or key"},
		"a delegation of the plan's key": {func(e edited) {
			e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Key = runs.Key().Public().Line() })
		}, file("1", delegation), "is of the key of the plan"},
		"a delegation of no key":             {func(e edited) { e.delegation("1", runs.Key(), func(d *plan.Delegation) { d.Shard.Key += " x" }) }, file("1", delegation), "not one ssh-ed25519 key"},
		"no checkpoint":                      {func(e edited) { delete(e.files, file("1", head)) }, file("1", head), rundir.Missing},
		"the checkpoint of another shard":    {take(file("1", head), file("2", head)), file("1", head), ""},
		"the checkpoint of a second journal": {take(file("2", head), file("2.2", head)), file("2", head), ""},
		"the checkpoint of the run":          {take(file("1", head), head), file("1", head), ""},
		"the run's checkpoint by a shard":    {take(head, file("1", head)), head, ""},
		"a checkpoint of another run":        {func(e edited) { e.files[file("1", head)] = foreign.Files[file("1", head)] }, file("1", head), ""},
		"a journal of another run":           {func(e edited) { e.files[file("1", journal)] = foreign.Files[file("1", journal)] }, file("1", journal), "belongs to run"},
		"the journals exchanged": {func(e edited) {
			e.files[file("1", journal)], e.files[file("2", journal)] = e.files[file("2", journal)], e.files[file("1", journal)]
		}, file("1", journal), "contradicts the manifest"},
		"the second journal in place of the first": {take(file("2", journal), file("2.2", journal)), file("2", journal), "does not end where"},
		"a journal that is longer":                 {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[0].Events-- }) }, file("1", journal), "does not end where"},
		"a journal that is shorter": {func(e edited) {
			cut := e.files[file("1", journal)]
			e.files[file("1", journal)] = cut[:bytes.LastIndexByte(cut[:len(cut)-1], '\n')+1]
		}, file("1", journal), "does not end where"},
		"a journal with a torn line": {func(e edited) { e.files[file("1", journal)] = append(bytes.Clone(e.files[file("1", journal)]), '{') }, file("1", journal), "does not end where"},
		"another head":               {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[0].Head = canonical.Digest(nil) }) }, file("1", journal), "does not end where"},
		"no head":                    {func(e edited) { e.list(func(s *rundir.Shards) { s.Shards[0].Head = "" }) }, rundir.ShardsFile, "neither of a journal"},
		"a shard that was changed and signed again": {func(e edited) { e.journal("1", 1, says(trajectory.TypeAnswerCommitted, "reasoning_trace", "I know.")) }, file("1", journal), "is committed with other lines"},
		"superseded lines changed": {func(e edited) {
			e.files[file("2.2", journal)] = bytes.Replace(e.files[file("2.2", journal)], []byte("As counted."), []byte("As guessed."), 1)
		}, file("2.2", journal), "canonical"},
		"superseded lines signed again": {func(e edited) {
			e.journal("2.2", 2, func(all []runs.Line) []runs.Line {
				return says(trajectory.TypeTaskCommitted, "attempts", 2)(all)
			})
		}, file("2.2", journal), "is committed with other lines"},
		"a superseded journal cut and signed again": {func(e edited) { e.journal("2.2", 2, func(all []runs.Line) []runs.Line { return all[:3] }) }, journal, "merges another shard"},
		"another digest at the end of a task":       {func(e edited) { e.journal("1", 1, says(trajectory.TypeTaskCommitted, "digest", canonical.Digest(nil))) }, file("1", journal), "is committed with other lines"},
		"other attempts at the end of a task":       {func(e edited) { e.journal("1", 1, says(trajectory.TypeTaskCommitted, "attempts", 2)) }, file("1", journal), "is committed with other lines"},
		"a line after the end of a task": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				return append(all, maps.Clone(all[at(all, trajectory.TypeAttemptEnded)]))
			})
		}, file("1", journal), "was committed"},
		"a task committed twice": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line { return append(all, maps.Clone(all[len(all)-1])) })
		}, file("1", journal), "was committed"},
		"an attempt committed open": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				end := at(all, trajectory.TypeAttemptEnded)
				return slices.Delete(all, end, end+1)
			})
		}, file("1", journal), "is committed before it is settled"},
		"a task not committed": {func(e edited) { e.journal("1", 1, func(all []runs.Line) []runs.Line { return all[:len(all)-1] }) }, file("1", journal), "does not commit task"},
		"a judgment in a shard": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				own, err := runs.Lines(e.files[journal])
				if err != nil {
					e.t.Fatal(err)
				}
				return append(all, own[at(own, trajectory.TypeJudgment)])
			})
		}, file("1", journal), "grades in the journal of a shard"},
		"a seal in a shard": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				own, err := runs.Lines(e.files[journal])
				if err != nil {
					e.t.Fatal(err)
				}
				return append(all, own[at(own, trajectory.TypeTaskSealed)])
			})
		}, file("1", journal), "grades in the journal of a shard"},
		"an end of the run in a shard": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				own, err := runs.Lines(e.files[journal])
				if err != nil {
					e.t.Fatal(err)
				}
				return append(all, own[len(own)-1])
			})
		}, file("1", journal), "completes the run in the journal of a shard"},
		"a task of another shard": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				theirs, err := runs.Lines(e.files[file("2", journal)])
				if err != nil {
					e.t.Fatal(err)
				}
				return append(all, theirs[1:]...)
			})
		}, file("1", journal), "is not one of shard 1 of 2"},
		"a shard that says it is another": {func(e edited) {
			e.journal("1", 1, func(all []runs.Line) []runs.Line {
				all[0].Payload()["shard"].(map[string]any)["index"] = 2
				return all
			})
		}, file("1", journal), "contradicts the manifest"},
	} {
		e := edited{t, maps.Clone(static.Files)}
		one.change(e)
		run, err := rundir.Verify(runs.Mutation{Dir: e.files}.FS(), rundir.Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != one.file || !strings.Contains(err.Error(), one.words) {
			t.Errorf("%s: %v (%+v); want %s, %q", name, err, run, one.file, one.words)
		}
	}
}

// many returns a list of more journals than a run can have.
func many(s rundir.Shards) rundir.Shards {
	var all []trajectory.ShardMerged
	for range plan.MaxShards + 1 {
		all = append(all, s.Shards[0].ShardMerged)
	}
	return rundir.NewShards(plan.Plan{RunID: s.RunID}, all, s.Counted)
}

// TestForgedMerge: nor can who holds the key of the plan have its own journal say other than its shards do.
func TestForgedMerge(t *testing.T) {
	long.NotRaced(t)
	m := merged(t, fourTasks(t), 2, twice()...)
	shard, err := runs.Lines(m.Files["shards/1/events.jsonl"])
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		change func(all []runs.Line) []runs.Line
		words  string
	}{
		"an entry that is not merged": {func(all []runs.Line) []runs.Line { return slices.Delete(all, 3, 4) }, "comes before all shards are merged"},
		"an entry merged twice":       {func(all []runs.Line) []runs.Line { return slices.Insert(all, 4, maps.Clone(all[3])) }, "merges a shard that shards.json does not list"},
		"entries in another order":    {func(all []runs.Line) []runs.Line { all[1], all[2] = all[2], all[1]; return all }, "merges another shard than entry 1"},
		"another count of lines":      {says(trajectory.TypeShardMerged, "events", 7), "merges another shard than entry 3"},
		"an attempt":                  {func(all []runs.Line) []runs.Line { return slices.Insert(all, 4, maps.Clone(shard[1])) }, "is of an attempt, in a journal that has none"},
		"the end of a task of a shard": {func(all []runs.Line) []runs.Line {
			return slices.Insert(all, 4, maps.Clone(shard[at(shard, trajectory.TypeTaskCommitted)]))
		}, "commits a task in a journal that is not a shard's"},
		"a seal with another shard": {says(trajectory.TypeTaskSealed, "shard", 3), "is sealed with the lines of entry 3"},
		"a seal without a shard": {func(all []runs.Line) []runs.Line {
			delete(all[at(all, trajectory.TypeTaskSealed)].Payload(), "shard")
			return all
		}, "is sealed with the lines of entry 0"},
		"a seal of another outcome": {says(trajectory.TypeTaskSealed, "outcome", "solved"), "is sealed as"},
		"a shard's own journal":     {func(all []runs.Line) []runs.Line { all[0] = maps.Clone(shard[0]); return all }, "contradicts the manifest"},
	} {
		all, err := runs.Lines(m.Files[trajectory.JournalFile])
		if err != nil {
			t.Fatal(err)
		}
		all = one.change(all)
		if err := runs.Place(all); err != nil {
			t.Fatal(err)
		}
		files := maps.Clone(m.Files)
		if files[trajectory.JournalFile], err = runs.Chain(files[plan.ManifestFile], all); err != nil {
			t.Fatal(err)
		}
		_, err = rundir.Verify(runs.Mutation{Dir: files}.FS(), rundir.Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != trajectory.JournalFile || !strings.Contains(err.Error(), one.words) {
			t.Errorf("%s: %v; want %q", name, err, one.words)
		}
	}
}

// TestForgedFolder: the folder of a shard alone is refused as its part of a merged run is.
func TestForgedFolder(t *testing.T) {
	c := fourTasks(t)
	m, again := merged(t, c, 2), merged(t, c, 1)
	const journal, head, delegation = trajectory.JournalFile, trajectory.CheckpointFile, plan.DelegationFile
	run, err := rundir.Verify(runs.Mutation{Dir: m.Shards[0]}.FS(), rundir.Options{})
	if err != nil || !run.ShardDone || run.Complete {
		t.Fatalf("%v, %+v", err, run)
	}
	for name, one := range map[string]struct {
		change func(files map[string][]byte)
		file   string
	}{
		"no delegation":                   {func(f map[string][]byte) { delete(f, delegation) }, plan.ManifestFile},
		"the delegation of another shard": {func(f map[string][]byte) { f[delegation] = m.Shards[1][delegation] }, journal},
		"a delegation of another plan":    {func(f map[string][]byte) { f[delegation] = again.Shards[0][delegation] }, delegation},
		"the checkpoint of another shard": {func(f map[string][]byte) { f[head] = m.Shards[1][head] }, head},
		"the journal of another shard":    {func(f map[string][]byte) { f[journal] = m.Shards[1][journal] }, journal},
		"the checkpoint of the run":       {func(f map[string][]byte) { f[head] = m.Files[head] }, head},
		"a record changed":                {func(f map[string][]byte) { f[rundir.TrajectoriesFile] = m.Shards[1][rundir.TrajectoriesFile] }, rundir.TrajectoriesFile},
		"a torn line":                     {func(f map[string][]byte) { f[journal] = append(bytes.Clone(f[journal]), '{') }, journal},
		"the records of one left out":     {func(f map[string][]byte) { f[rundir.TrajectoriesFile] = nil }, rundir.TrajectoriesFile},
	} {
		files := maps.Clone(m.Shards[0])
		one.change(files)
		_, err := rundir.Verify(runs.Mutation{Dir: files}.FS(), rundir.Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != one.file {
			t.Errorf("%s: %v; want %s", name, err, one.file)
		}
	}
	files := maps.Clone(m.Shards[0])
	delete(files, head)
	if run, err := rundir.Verify(runs.Mutation{Dir: files}.FS(), rundir.Options{}); err != nil || run.ShardDone {
		t.Errorf("without a tree head: %v, %+v", err, run)
	}
}

// TestShardsBehindLinks: a folder of a shard that is a link leads anywhere, and is refused.
func TestShardsBehindLinks(t *testing.T) {
	m := merged(t, fourTasks(t), 2)
	for _, moved := range []string{rundir.ShardsDir, "shards/1"} {
		dir := filepath.Join(t.TempDir(), "run")
		if err := runs.WriteFiles(dir, m.Files); err != nil {
			t.Fatal(err)
		}
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(filepath.Join(dir, moved), elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(dir, moved)); err != nil {
			t.Fatal(err)
		}
		_, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || !strings.HasPrefix(fault.File, "shards/1/") {
			t.Errorf("%s is a link: %v", moved, err)
		}
	}
}
