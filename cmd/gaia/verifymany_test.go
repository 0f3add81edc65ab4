package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// forged copies a run and changes it by commands of a Forger, signed again.
func forged(t *testing.T, dir string, commands ...string) string {
	t.Helper()
	f, err := runs.NewForger(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range append(commands, "sign") {
		if err := f.Do(command); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "forged")
	must(t, os.CopyFS(other, os.DirFS(dir)))
	for name, data := range f.Files {
		must(t, os.WriteFile(filepath.Join(other, name), data, 0o644))
	}
	return other
}

// packed makes a package of a run of oneStory.
func packed(t *testing.T, dir, date string, public bool) string {
	t.Helper()
	c, err := runs.Parse(oneStory)
	if err != nil {
		t.Fatal(err)
	}
	p, err := submit.Build(context.Background(), submit.Config{Run: dir, Out: t.TempDir(), Key: runs.Key(), Date: date, AllowDirty: true, Public: public,
		Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}, Harness: trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	return p.Path
}

// twoHistories are runs, packages and bundles of one run by one key.
type twoHistories struct {
	run, copied, journal, plan         string // another journal; another plan
	open, openFork                     string // the run and the other journal before their last event
	full, later, public, bundle        string // of the run
	fullFork, publicFork, publicOfPlan string
}

func newHistories(t *testing.T) twoHistories {
	h := twoHistories{run: storyRun(t, oneStory)}
	h.copied = filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(h.copied, os.DirFS(h.run)))
	h.journal = forged(t, h.run, "event model_call_completed[0] set latency_ms 12345")
	h.plan = forged(t, h.run, "shift 60")
	for of, to := range map[string]*string{h.run: &h.open, h.journal: &h.openFork} {
		*to = filepath.Join(t.TempDir(), "open")
		must(t, os.CopyFS(*to, os.DirFS(of)))
		unfinish(t, *to)
	}
	h.full, h.later, h.public = packed(t, h.run, "2031-02-03", false), packed(t, h.run, "2031-02-04", false), packed(t, h.run, "2031-02-03", true)
	h.fullFork, h.publicFork, h.publicOfPlan = packed(t, h.journal, "2031-02-03", false), packed(t, h.journal, "2031-02-03", true), packed(t, h.plan, "2031-02-03", true)
	h.bundle = filepath.Join(t.TempDir(), "bundle.json")
	found, err := rundir.Verify(os.DirFS(h.run), rundir.Options{})
	must(t, err)
	data, err := found.Disclose(os.DirFS(h.run), "", runs.Key())
	must(t, err, os.WriteFile(h.bundle, data, 0o644))
	return h
}

// TestEquivocation: two histories of a run by one key are exit code 4 with both digests
// and both paths; a copy, a package or the beginning of one is not.
func TestEquivocation(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	h := newHistories(t)
	for _, tt := range []struct {
		a, b string
		kind string // "": none
		code int
	}{
		{h.run, h.copied, "", exit.OK},
		{h.run, h.full, "", exit.OK},
		{h.full, h.public, "", exit.OK},
		{h.run, h.bundle, "", exit.OK},
		{h.run, h.open, "", exit.Incomplete},
		{h.open, h.open, "", exit.Incomplete},
		{h.open, h.public, "", exit.Incomplete}, // which has no journal to compare
		{h.run, h.journal, "journal", exit.Evidence},
		{h.run, h.plan, "plan", exit.Evidence},
		{h.run, h.openFork, "journal", exit.Evidence},
		{h.open, h.openFork, "journal", exit.Evidence},
		{h.open, h.plan, "plan", exit.Evidence},
		{h.full, h.fullFork, "journal", exit.Evidence},
		{h.full, h.openFork, "journal", exit.Evidence},
		{h.public, h.publicFork, "journal", exit.Evidence},
		{h.public, h.publicOfPlan, "plan", exit.Evidence},
		{h.bundle, h.publicFork, "journal", exit.Evidence},
	} {
		for _, paths := range [][]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			code, stdout, stderr := trusting(t, append([]string{"verify", "--json"}, paths...)...)
			if code != tt.code {
				t.Errorf("%q: exit code %d, want %d\n%s%s", paths, code, tt.code, stdout, stderr)
			}
			var e *rundir.Equivocation
			for _, line := range jsonLines(t, stdout) {
				e = line.Equivocation
			}
			if tt.kind == "" {
				if e != nil {
					t.Errorf("%q: %v", paths, e)
				}
				continue
			}
			if e == nil || e.Kind != tt.kind || e.Paths != [2]string(paths) || e.Digests[0] == e.Digests[1] || e.KeyID != runs.Key().Public().ID() {
				t.Errorf("%q: %+v", paths, e)
				continue
			}
			for _, want := range []string{e.Digests[0] + " at " + paths[0], e.Digests[1] + " at " + paths[1], "gaia: hint: keep both"} {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q: it does not say %q:\n%s", paths, want, stderr)
				}
			}
		}
	}
	for _, fork := range []string{h.journal, h.plan, h.fullFork} {
		for _, args := range [][]string{{"trend", h.run, fork}, {"scorecard", h.run, fork}, {"ledger", "list", "--runs", h.run, "--runs", fork}, {"ledger", "list", "--metrics", "--runs", fork, "--runs", h.run},
			{"compare", h.run, fork}, {"trend", h.open, h.run, fork}} {
			code, _, stderr := trusting(t, args...)
			if args[0] == "trend" && args[1] == h.open && fork != h.plan { // exit code 5 goes after 4
				wantAll(t, stderr, "the run is not complete")
			}
			if code != exit.Evidence || !strings.Contains(stderr, " signed another ") || !strings.Contains(stderr, " at "+h.run) || !strings.Contains(stderr, " at "+fork) {
				t.Errorf("%q: exit code %d\n%s", args, code, stderr)
			}
		}
	}
	if code, _, stderr := trusting(t, "compare", h.run, h.copied); code != exit.Usage || !strings.Contains(stderr, "both are the run ") {
		t.Errorf("compare with a copy: exit code %d\n%s", code, stderr)
	}
	if code, stdout, stderr := trusting(t, "trend", h.run, h.copied, h.full); code != exit.OK || strings.Count(stderr, "gaia: left out: ") != 2 {
		t.Errorf("trend of copies: exit code %d\n%s%s", code, stdout, stderr)
	}
}

func jsonLines(t *testing.T, stdout string) (all []verify.Line) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var l verify.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, l)
	}
	return all
}

// TestVerifyMany: each package has a line, a broken one stops no other, and the exit
// code is the gravest, whatever the order.
func TestVerifyMany(t *testing.T) {
	t.Parallel()
	h := newHistories(t)
	unfit, _ := foreignRun(t, "AUD-04/fires-cache-read.txt")
	broken, _ := foreignRun(t, "honest/search-echo.txt")
	put(t, filepath.Join(broken, "results.jsonl"), []byte("x"))
	gone := filepath.Join(t.TempDir(), "gone")
	for _, tt := range []struct {
		paths            []string
		trusted, unknown int
	}{
		{[]string{h.full, h.later}, exit.OK, exit.Untrusted},
		{[]string{h.full, unfit}, exit.Findings, exit.Untrusted},
		{[]string{h.open, unfit}, exit.Incomplete, exit.Untrusted},
		{[]string{unfit, broken}, exit.Evidence, exit.Evidence},
		{[]string{h.open, broken, h.full}, exit.Evidence, exit.Evidence},
		{[]string{broken, gone, h.full}, exit.Usage, exit.Usage},
	} {
		for range tt.paths {
			tt.paths = append(tt.paths[1:], tt.paths[0])
			for want, run := range map[*int]func(*testing.T, ...string) (int, string, string){&tt.trusted: trusting, &tt.unknown: command} {
				code, stdout, stderr := run(t, append([]string{"verify"}, tt.paths...)...)
				if code != *want || strings.Count(stdout, "\n") != len(tt.paths) || strings.Count(stderr, "gaia: error: ") != min(code, 1) {
					t.Errorf("%q: exit code %d, want %d\n%s%s", tt.paths, code, *want, stdout, stderr)
				}
				for i, line := range slices.Collect(strings.Lines(stdout)) {
					if !strings.HasPrefix(line, tt.paths[i]+": ") {
						t.Errorf("line %d: %s", i+1, line)
					}
				}
			}
		}
	}
	code, stdout, _ := trusting(t, "verify", "--json", h.full, h.later, h.full, h.public, h.run, h.copied, broken)
	all := jsonLines(t, stdout)
	if code != exit.Evidence || len(all) != 7 {
		t.Fatalf("exit code %d, %s", code, stdout)
	}
	for i, want := range []verify.Line{{Kind: "package"}, {Kind: "package", ResubmissionOf: h.full}, {Kind: "package", DuplicateOf: h.full, ResubmissionOf: h.later}, {Kind: "public package", AgreesWith: h.full},
		{Kind: "run"}, {Kind: "run", DuplicateOf: h.run}, {ExitCode: exit.Evidence, Error: "results.jsonl: line 1: "}} {
		got := all[i]
		if got.Kind != want.Kind || got.DuplicateOf != want.DuplicateOf || got.ResubmissionOf != want.ResubmissionOf || got.AgreesWith != want.AgreesWith || got.DiffersFrom != "" || got.ExitCode != want.ExitCode || !strings.HasPrefix(got.Error, want.Error) || (got.Result == nil) != (want.Error != "") {
			t.Errorf("line %d: %+v", i+1, got)
		}
	}
	_, stdout, _ = trusting(t, "verify", h.full, h.later, h.full)
	wantAll(t, stdout, h.full+": ok: package of run ", ", official 1 of 1", ", a resubmission of the run of "+h.full+"\n", ", the same as "+h.full)
	for _, flag := range []string{"--body", "--checkpoint", "--hmac-key-file", "--package"} {
		if code, stdout, stderr := command(t, "verify", h.full, h.later, flag, h.full); code != exit.Usage || stdout != "" || !strings.Contains(stderr, flag+" is about one package") {
			t.Errorf("%s: exit code %d\n%s%s", flag, code, stdout, stderr)
		}
	}
}

// TestDatasetLoadedOnce: packages of one dataset are compared with what was loaded for
// the first; runs and bundles among them need no dataset.
func TestDatasetLoadedOnce(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent", "--limit", "2")
	p.want(exit.OK, "submit", "--out", "packages", p.runDir())
	p.want(exit.OK, "submit", "--out", "packages", "--public", p.runDir())
	packages, err := filepath.Glob(filepath.Join(p.dir, "packages", "*"))
	if err != nil || len(packages) != 2 {
		t.Fatal(packages, err)
	}
	out := p.want(exit.OK, append([]string{"verify", "--json", "--dataset", "fixtures", p.runDir()}, packages...)...)
	if strings.Count(out, `"exit_code":0`) != 3 || !strings.Contains(out, `"scores":"re-derived from the gold answers: `) || !strings.Contains(out, `"dataset":"ids and levels only`) {
		t.Error(out)
	}

	data := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(data, fixtures.Dataset()))
	a := &app{stderr: io.Discard, getenv: func(string) string { return "" }}
	m, _, _, err := rundir.ReadPlan(os.DirFS(packages[0]))
	must(t, err)
	for range 2 {
		set, _, err := a.user().PlannedSplit(t.Context(), "dir:"+data, m.Dataset)
		if err != nil || len(set.IDs) == 0 {
			t.Fatal(err)
		}
		must(t, os.RemoveAll(data))
	}
}
