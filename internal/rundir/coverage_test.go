package rundir_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// thin is by how much the long walks are thinned out but in the thorough run.
const thin = 45

// evidence returns the files of a run that Verify covers. The gold answers are
// no evidence: no one ships them.
func evidence(t testing.TB, c runs.Case) map[string][]byte {
	t.Helper()
	all, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	delete(all, "judgments.jsonl")
	own := 0 // files of an own agent alone
	if all[plan.AgentFilesFile] != nil {
		own = 1
	}
	if len(all) != 8+own {
		t.Fatalf("a run of %d files", len(all))
	}
	return all
}

// dependents are the files that may be blamed for a change to one: itself and
// what must agree with it.
func dependents(changed []string) []string {
	blamed := slices.Clone(changed)
	for _, name := range changed {
		switch name {
		case plan.ManifestFile:
			blamed = append(blamed, plan.EnvelopeFile, trajectory.JournalFile)
		case plan.EnvelopeFile:
			blamed = append(blamed, plan.ManifestFile)
		case trajectory.JournalFile:
			blamed = append(blamed, rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile)
		}
	}
	return blamed
}

// refused checks that a changed run is refused, and a file blamed that the
// change is about.
func refused(t *testing.T, m runs.Mutation) {
	t.Helper()
	run, err := rundir.Verify(m.FS(), rundir.Options{})
	var fault *trajectory.Fault
	switch {
	case err == nil:
		t.Errorf("%s: accepted (complete: %v)", m.Name, run.Complete)
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", m.Name, err)
	case !slices.Contains(dependents(m.Files), fault.File) || fault.Reason == "":
		t.Errorf("%s: %v", m.Name, err)
	}
}

// TestCoverage is the law that every member of every file of a run is under a
// signature or derives from what is: each small change to each of them is
// refused, and a file named that it is about. What the files are written like
// is not the matter here: every change is written as canonically as the rest.
//
// Further files may lie in the directory (formats.md): they are no evidence.
func TestCoverage(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	first, second := runs.Varied()
	run, other := evidence(t, first), evidence(t, second)
	if found, err := rundir.Verify(runs.Mutation{Dir: run}.FS(), rundir.Options{}); err != nil || !found.Complete {
		t.Fatalf("%+v, %v", found, err)
	}
	made := map[string]int{}
	pick := func(file, _ string) bool {
		made[file]++
		return long.Walk(made[file], thin)
	}
	if err := runs.Mutate(run, pick, func(m runs.Mutation) { refused(t, m) }); err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{plan.ManifestFile: 500, plan.EnvelopeFile: 500, plan.ConstitutionFile: 300, trajectory.JournalFile: 2000,
		rundir.TrajectoriesFile: 1000, rundir.ResultsFile: 100, rundir.SummaryFile: 200, trajectory.CheckpointFile: 20} {
		if made[name] < least {
			t.Errorf("%s was changed %d times, which is less than %d", name, made[name], least)
		}
	}
	t.Logf("changes: %v", made)
	whole := 0
	all := func(m runs.Mutation) {
		whole++
		refused(t, m)
	}
	runs.Misplace(run, other, all)
	if err := runs.Swap(run, other, all); err != nil {
		t.Fatal(err)
	}
	if whole < 55 {
		t.Errorf("only %d changes to whole files and signatures", whole)
	}
	t.Logf("%d changes to whole files and signatures", whole)
}

// TestCoverageOfAChain is the same for the members of a journal, changed by
// someone who chains it again and derives all files from it, but cannot sign.
func TestCoverageOfAChain(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	first, _ := runs.Varied()
	run := evidence(t, first)
	journal := map[string][]byte{trajectory.JournalFile: run[trajectory.JournalFile]}
	was := bytes.SplitAfter(run[trajectory.JournalFile], []byte("\n"))
	// chained returns the run with the lines from one on hung on those before.
	chained := func(name string, from int, lines [][]byte) map[string][]byte {
		before := run[plan.ManifestFile]
		if from > 0 {
			before = was[from-1]
		}
		s, err := runs.Lines(bytes.Join(lines, nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		end, err := runs.Chain(before, s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		changed := maps.Clone(run)
		changed[trajectory.JournalFile] = append(bytes.Join(was[:from], nil), end...)
		return changed
	}
	// refuses is the line of the journal at which it is refused.
	refuses := func(dir map[string][]byte) int {
		_, err := rundir.Verify(runs.Mutation{Dir: dir}.FS(), rundir.Options{})
		if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && fault.File == trajectory.JournalFile {
			return int(fault.Line)
		}
		return 0
	}
	made, held := 0, 0
	try := func(m runs.Mutation) {
		now := bytes.SplitAfter(m.Dir[trajectory.JournalFile], []byte("\n"))
		at := 0
		for bytes.Equal(was[at], now[at]) {
			at++
		}
		made++
		if refuses(chained(m.Name, at, now[at:at+1])) == at+1 {
			return // by the line itself, whatever comes after it
		}
		changed := chained(m.Name, at, now[at:])
		if bytes.Equal(changed[trajectory.JournalFile], run[trajectory.JournalFile]) || refuses(changed) > 0 {
			return // a hash, which chaining puts right; or no journal, from which nothing derives
		}
		changed, err := runs.Forge(run, changed[trajectory.JournalFile], nil)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		if refuses(changed) > 0 {
			return // by a later line, which a record of an attempt before it had hidden
		}
		held++
		wantWords(t, m.Name, changed, checked)
	}
	n := 0
	pick := func(_, what string) bool {
		if !strings.Contains(what, ": .") { // no member
			return false
		}
		n++
		return n%long.Step(thin) == 0
	}
	err := runs.Mutate(journal, pick, try)
	if err != nil {
		t.Fatal(err)
	}
	if made < 2000/long.Step(thin) || held < 300/long.Step(thin) {
		t.Errorf("%d changes, of which %d give a journal that holds", made, held)
	}
	t.Logf("%d changes, of which %d give a journal that holds", made, held)
}

// voted is a run with a vote, a model that a tool asked, and an endpoint that
// says more of itself.
const voted = `-- plan --
{"budgets":{"run_cost_microusd":100000,"tokens":5000,"wall_ms":60000},"cassette":"record","retry":{"attempts_per_task":4},"voting":{"attempts":3,"rule":"majority.v1"}}

-- task fab1e904-0000-4000-8000-000000000001 --
question: What does the keeper of the lighthouse say of the fog?
gold: It lifts
file: keeper.csv

-- patch tool_executed --
{"model":{"cost_microusd":7,"request_id":"req-1","requested_model":"listener","response_model":"listener-2","tokens":{"in":9,"out":4},"tries":1,"usage_reported":true}}

-- patch model_call_completed --
{"fingerprint":"fp-1","unrecorded_channels":["citations"]}

-- call read_file {"path":"keeper.csv"} --
fog,days

-- answer It stays --
By the first page.

-- answer it stays. --
By the second.

-- no answer --
I cannot tell.
`

// TestCoverageOfAVote is the same for what only a run that votes has.
func TestCoverageOfAVote(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	c, err := runs.Parse(voted)
	if err != nil {
		t.Fatal(err)
	}
	run := evidence(t, c)
	if found, err := rundir.Verify(runs.Mutation{Dir: run}.FS(), rundir.Options{}); err != nil || !found.Complete || found.Summary().Voting.PassAtK.Correct != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	made := map[string]int{}
	pick := func(_, what string) bool {
		for _, member := range []string{".voting", ".model", ".fingerprint", ".unrecorded_channels", ".budgets", ".cassette"} {
			if strings.Contains(what, member) {
				made[member]++
				return long.Walk(made[member], 5)
			}
		}
		return false
	}
	err = runs.Mutate(run, pick, func(m runs.Mutation) { refused(t, m) })
	if err != nil {
		t.Fatal(err)
	}
	for member, least := range map[string]int{".voting": 60, ".model": 60, ".fingerprint": 3, ".unrecorded_channels": 5, ".budgets": 15, ".cassette": 3} {
		if made[member] < least {
			t.Errorf("%s was changed %d times, which is less than %d", member, made[member], least)
		}
	}
	t.Logf("changes: %v", made)
}

// TestCoverageOfAnOwnAgent is the same for what only a run of an own agent has.
func TestCoverageOfAnOwnAgent(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	c, err := runs.Parse(`-- plan --
{"agent":{"env":["LC_TIME"],"models":{"small":"small-2026"}}}
-- task fab1e904-0000-4000-8000-000000000011 --
question: What does the keeper of the lighthouse say of the fog?
gold: It lifts
file: keeper.csv
-- workspace keeper.csv --
fog,days
-- patch model_call_started --
{"request":{"body_sha256":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","edits":["store"],"sent_sha256":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","stream":true}}
-- patch attempt_ended --
{"agent":{"stderr":"warning","stderr_bytes":7}}
-- refused budget_spent --
-- call calculate {"expression":"2+2"} --
4
-- answer It lifts --
By the first page.
`)
	if err != nil {
		t.Fatal(err)
	}
	run := evidence(t, c)
	if found, err := rundir.Verify(runs.Mutation{Dir: run}.FS(), rundir.Options{}); err != nil || !found.Complete {
		t.Fatalf("%+v, %v", found, err)
	}
	made := map[string]int{}
	pick := func(file, what string) bool {
		if file == plan.AgentFilesFile {
			made[file]++
			return true
		}
		for _, member := range []string{".agent", ".request.", ".reply.", ".in_reply", ".shown_as", ".kept", ".code"} {
			if strings.Contains(what, member) {
				made[member]++
				return long.Walk(made[member], 5)
			}
		}
		return false
	}
	if err := runs.Mutate(run, pick, func(m runs.Mutation) { refused(t, m) }); err != nil {
		t.Fatal(err)
	}
	for member, least := range map[string]int{plan.AgentFilesFile: 20, ".agent": 60, ".request.": 20, ".reply.": 10, ".in_reply": 2, ".shown_as": 2, ".kept": 2, ".code": 2} {
		if made[member] < least {
			t.Errorf("%s was changed %d times, which is less than %d", member, made[member], least)
		}
	}
	t.Logf("changes: %v", made)
}
