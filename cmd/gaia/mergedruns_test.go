package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// partedRuns are a run of two shards that was merged, its packages, and the folder of one of its shards, at home with the
// key that signed them.
type partedRuns struct {
	keeper
	run, full, archive, public, shard string
}

func newPartedRuns(t *testing.T) partedRuns {
	t.Helper()
	home := t.TempDir()
	p := partedRuns{keeper: keeper{home: home, env: map[string]string{"HOME": home, "HF_ENDPOINT": noHub}}}
	_, err := sign.CreateKey(filepath.Join(home, ".config", "gaia", "keys", keyring.DefaultKey), rand.NewChaCha8([32]byte{'f', 'a', 'b', '1', 'e'}))
	must(t, err)
	c, err := runs.Parse(strings.Replace(lamps, "-- no answer --\nI do not know.", "-- answer Tolmay --\nThe almanac says so.", 1))
	must(t, err)
	m, err := c.Merged(2)
	must(t, err)
	_, runID, _ := strings.Cut(string(m.Files["manifest.json"]), `"run_id":"`)
	p.run, p.shard = filepath.Join(home, runID[:26]), filepath.Join(home, runID[:26]+".shard-1-of-2")
	must(t, runs.WriteFiles(p.run, m.Files))
	must(t, runs.WriteFiles(p.shard, m.Shards[0]))
	name := filepath.Join(home, "submission-2031-02-03-"+runID[18:26])
	for _, more := range [][]string{nil, {"--archive"}, {"--public"}} {
		if code, _, stderr := p.command(append([]string{"submit", p.run, "--date", "2031-02-03", "--out", home}, more...)...); code != exit.OK {
			t.Fatalf("%q: %d, %s", more, code, stderr)
		}
	}
	p.full, p.archive, p.public = name, name+".tar.gz", name+"-public"
	return p
}

// TestMergedRuns gives every command that takes a run one that was merged, its packages and the folder of a shard: it gives
// what it gives for any run, or one error that says what is not done and what to do.
func TestMergedRuns(t *testing.T) {
	t.Parallel()
	p := newPartedRuns(t)
	const task, finding = "fab1e901-0000-4000-8000-000000000001", "0123456789"
	n := 0
	out := func(name string) string { n++; return filepath.Join(p.home, fmt.Sprintf("%02d-%s", n, name)) }
	const merge = "it is shard 1 of 2 of a run, which gaia merge makes of all"
	type want struct {
		code int
		says string
	}
	notRun, notShard := want{exit.Usage, "is a package, not a run directory"}, want{exit.Incomplete, merge}
	table := map[string]struct { // by the command, and a word more for a second way to give it
		args                 func(at string) []string
		run, packaged, shard want
	}{
		"adjudicate": {func(at string) []string {
			return []string{"adjudicate", at, "--finding", finding, "--decision", "void", "--reason", "it was tried"}
		}, want{exit.Usage, "no finding"}, notRun, notShard},
		"audit": {func(at string) []string { return []string{"audit", at} }, want{exit.OK, "AUD-1"}, want{exit.Findings, "could not see"}, notShard},
		"compare": {func(at string) []string { return []string{"compare", at, at} },
			want{exit.Usage, "both are the run"}, want{exit.Usage, "both are the run"}, notShard},
		"disclose": {func(at string) []string { return []string{"disclose", at, "--task", task, "-o", out("bundle.json")} },
			want{exit.OK, "outcome     solved"}, want{exit.OK, "outcome     solved"}, notShard},
		"disclose all": {func(at string) []string { return []string{"disclose", at, "-o", out("bundle.json")} },
			want{exit.Usage, "a merged run has no evidence bundle of all its tasks"}, want{exit.Usage, "give one task by --task"}, notShard},
		"export": {func(at string) []string { return []string{"export", at, "--format", "csv"} },
			want{exit.OK, task + ",1,solved,1,1,true"}, want{exit.OK, task + ",1,solved,1,1,true"}, notShard},
		"export leaderboard": {func(at string) []string { return []string{"export", at, "--format", "leaderboard"} },
			want{exit.OK, `"model_answer":"14"`}, want{exit.OK, `"model_answer":"14"`}, notShard},
		"export inspect": {func(at string) []string { return []string{"export", at, "--format", "inspect", "-o", out("log.eval")} },
			want{exit.OK, "wrote "}, want{exit.OK, "wrote "}, notShard},
		"judge run": {func(at string) []string { return []string{"judge", "run", at} }, want{exit.OK, "judged      1 of 2, 50.0 %, by this judge"}, notRun, notShard},
		"ledger":    {func(at string) []string { return []string{"ledger", "list", "--runs", at} }, want{exit.OK, "2 events"}, want{exit.OK, "2 events"}, notShard},
		"like": {func(at string) []string { return []string{"run", "--like", at, "--dry-run"} },
			want{exit.Usage, "has no task"}, want{exit.Usage, "has no task"}, want{exit.Usage, "has no task"}},
		"prune bodies": {func(at string) []string { return []string{"prune", "bodies", at, "--keep", "0", "--dry-run"} },
			want{exit.OK, "0 folders"}, want{exit.OK, "0 folders"}, want{exit.OK, "0 folders"}},
		"prune runs": {func(at string) []string { return []string{"prune", "runs", at, "--keep", "0", "--dry-run"} },
			want{exit.OK, "would remove 1 run"}, want{exit.OK, "would remove 0 runs"}, want{exit.Incomplete, "is the folder of a shard, not a run"}},
		"report": {func(at string) []string { return []string{"report", at, "-o", out("report.html")} }, want{exit.OK, "wrote "}, want{exit.OK, "wrote "}, notShard},
		"resume": {func(at string) []string { return []string{"resume", at} }, want{exit.OK, "nothing to do: the run is complete"}, notRun, want{exit.Usage, "is of shard 1 of 2 of a run, which its plan folder resumes"}},
		"runs":   {func(at string) []string { return []string{"runs", at} }, want{exit.OK, "1/2 50.0 %"}, want{exit.OK, "1/2 50.0 %"}, want{exit.OK, "1/"}},
		"scorecard": {func(at string) []string { return []string{"scorecard", at} },
			want{exit.OK, "2: 1 solved, 1 failed"}, want{exit.OK, "2: 1 solved, 1 failed"}, notShard},
		"show":      {func(at string) []string { return []string{"show", at} }, want{exit.OK, "1 solved, 1 failed"}, notRun, notShard},
		"show task": {func(at string) []string { return []string{"show", at, task} }, want{exit.OK, "answer: 14"}, notRun, notShard},
		"submit":    {func(at string) []string { return []string{"submit", at, "--out", out("packages")} }, want{exit.OK, "1 of 2, 50.0 %"}, notRun, notShard},
		"trend":     {func(at string) []string { return []string{"trend", at} }, want{exit.OK, "50.0 %"}, want{exit.OK, "50.0 %"}, notShard},
		"verify": {func(at string) []string { return []string{"verify", at} },
			want{exit.OK, "2 journals of 2 shards merged, 0 tasks lost, 0 attempts superseded"}, want{exit.OK, "2 journals of 2 shards merged"}, notShard},
		"witness export": {func(at string) []string { return []string{"witness", "export", at, "-o", out("witness")} },
			want{exit.OK, "bundles     2: 1 solved, 1 failed"}, want{exit.OK, "bundles     2: 1 solved, 1 failed"}, notShard},
	}
	for path, tests := range table {
		for at, w := range map[string]want{p.run: tests.run, p.full: tests.packaged, p.archive: tests.packaged, p.shard: tests.shard} {
			args := tests.args(at)
			if at == p.archive && strings.HasPrefix(path, "prune") { // which names it as what it is not
				continue
			}
			if at == p.archive && w == notRun {
				w.says = "not a run directory"
			}
			code, stdout, stderr := p.command(args...)
			if code != w.code || !strings.Contains(stdout+stderr, w.says) || strings.Contains(stderr, "panic") || strings.Count(stderr, "gaia: error") > 1 ||
				(code != exit.OK) != strings.Contains(stderr, "gaia: error") {
				t.Errorf("gaia %s: %d, want %d and %q\n%s%s", strings.Join(args, " "), code, w.code, w.says, stdout, stderr)
			}
		}
	}
	for path := range takesRuns {
		if _, given := table[path]; !given && path != "view" { // internal/overview has the pages
			t.Errorf("no merged run is given to gaia %s", path)
		}
	}
	if code, stdout, stderr := p.command("verify", p.public); code != exit.OK || !strings.Contains(stdout, "trajectories.jsonl, 2 journals of shards") {
		t.Errorf("the public package: %d\n%s%s", code, stdout, stderr)
	}
	bundle := out("bundle.json")
	p.command("disclose", p.run, "--task", task, "-o", bundle)
	for _, at := range []string{p.full, p.archive, p.public} {
		if code, stdout, stderr := p.command("verify", bundle, "--package", at); code != exit.OK {
			t.Errorf("the bundle against %s: %d\n%s%s", at, code, stdout, stderr)
		}
	}
	if code, _, stderr := p.command("verify", p.full, "--package", p.public); code != exit.OK {
		t.Errorf("the public package is not that of the full one: %d\n%s", code, stderr)
	}
	code, stdout, _ := p.command("verify", "--json", p.public)
	for _, part := range []string{`"shards":{"`, `"journals":2`, `"merged":[{"`, `"folder":"2"`, `"task_ids":["` + task + `"]`} {
		if code != exit.OK || !strings.Contains(stdout, part) {
			t.Errorf("verify --json does not have %s\n%s", part, stdout)
		}
	}
}

// TestMergedRunsKept: a record of a merged run is used only while no file of a shard has changed.
func TestMergedRunsKept(t *testing.T) {
	p := newPartedRuns(t)
	for _, at := range []string{p.run, p.full} {
		stamp := func() string {
			names, err := ledger.Files(at)
			must(t, err)
			stamp, _ := history.Stamp(at, names, "program", time.Now())
			return stamp
		}
		before := stamp()
		if before != stamp() {
			t.Errorf("%s has two stamps", at)
		}
		touch(t, filepath.Join(at, "shards", "2", "events.jsonl"))
		if before == stamp() {
			t.Errorf("the record of %s would still be used", at)
		}
	}
}
