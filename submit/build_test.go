package submit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	firstTask  = "fab1e901-0000-4000-8000-000000000001"
	secondTask = "fab1e901-0000-4000-8000-000000000002"
)

// two is an honest run of two tasks, which are all of their split.
const two = `Two tasks: one looked up and right, one without an answer.
-- split validation --
carried gold
` + firstTask + `
` + secondTask + `
-- task ` + firstTask + ` --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- call web_fetch {"url":"http://almanac.example/heights.html"} --
The lamps of Ostrel were fourteen in number, and were put out one by one.
-- answer 14 --
The almanac counts fourteen lamps.
-- task ` + secondTask + ` --
question: Which harbour closed first?
gold: Tolmey
level: 2
-- no answer --
I do not know.
`

// change returns a case with old, which stands there once, replaced.
func change(t testing.TB, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q does not stand once in the case", old)
	}
	return strings.Replace(text, old, new, 1)
}

// planned returns a case with a merge patch over its plan.
func planned(text, patch string) string {
	about, rest, _ := strings.Cut(text, "\n")
	return about + "\n-- plan --\n" + patch + "\n" + rest
}

// config writes a case as a run directory and returns how to package it.
func config(t testing.TB, text string) Config {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return configOf(t, c)
}

func configOf(t testing.TB, c runs.Case) Config {
	t.Helper()
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return configIn(t, c, files)
}

// configIn is configOf for a run of the case that has these files.
func configIn(t testing.TB, c runs.Case, files map[string][]byte) Config {
	t.Helper()
	dir := t.TempDir()
	run, out := filepath.Join(dir, "run"), filepath.Join(dir, "out")
	if err := runs.WriteFiles(run, files); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	config := Config{Run: run, Out: out, Key: runs.Key(), Date: "2031-02-03",
		Harness: trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}}
	if gold := c.Gold(); gold != nil {
		config.Gold = &audit.Gold{Answers: gold, Salt: c.Salt()}
	}
	return config
}

func mustBuild(t testing.TB, c Config) Package {
	t.Helper()
	p, err := Build(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustEvidence(t testing.TB, run *rundir.Run, report audit.Report, s Predicate) evidence {
	t.Helper()
	e, err := newEvidence(run, report, 0, s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// load reads all files of a folder and of those in it.
func load(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files, pkg := map[string][]byte{}, os.DirFS(dir)
	err := fs.WalkDir(pkg, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files[name], err = fs.ReadFile(pkg, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// memory is a package for tests that change thousands of bytes.
func memory(files map[string][]byte) fstest.MapFS {
	out := fstest.MapFS{}
	for name, data := range files {
		out[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	return out
}

func TestBuild(t *testing.T) {
	c := config(t, two)
	p := mustBuild(t, c)
	if p.Path != filepath.Join(c.Out, p.Name) || !strings.HasPrefix(p.Name, "submission-2031-02-03-") ||
		!strings.HasSuffix(p.Run.Manifest.RunID, strings.TrimPrefix(p.Name, "submission-2031-02-03-")) || len(p.Name) != len("submission-2031-02-03-")+8 {
		t.Errorf("the package of run %s is %q in %q", p.Run.Manifest.RunID, p.Name, p.Path)
	}
	run, pkg := load(t, c.Run), load(t, p.Path)
	if len(pkg) != 15 || len(Files()) != 15 || !slices.IsSorted(Files()) {
		t.Errorf("%d files, %d are listed", len(pkg), len(Files()))
	}
	for to, from := range copied() {
		if !bytes.Equal(pkg[to], run[from]) {
			t.Errorf("%s is not the run's %s", to, from)
		}
	}
	want := `{"model_answer":"14","reasoning_trace":"The almanac counts fourteen lamps.","task_id":"` + firstTask + `"}` + "\n" +
		`{"model_answer":"","reasoning_trace":"","task_id":"` + secondTask + `"}` + "\n"
	if string(pkg[LeaderboardFile]) != want {
		t.Errorf("leaderboard.jsonl:\n%s", pkg[LeaderboardFile])
	}
	v, err := Verify(os.DirFS(p.Path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := v.Statement.Predicate
	if !v.Key.Equal(runs.Key().Public()) || s.Dirty || len(s.DirtyReasons) != 0 || !s.Audit.Clean || !s.GoldAtHand || s.Harness != c.Harness ||
		s.Name != p.Name || s.TasksPlanned != 2 || s.GaiaSplit != "validation" || s.Selection != "all" || s.VotingAttempts != 1 ||
		s.Scores.Official != (Score{1, 2, 500_000}) || *s.Scores.Judged != (Score{1, 2, 500_000}) || s.Root != v.Run.RootHash ||
		s.ManifestSHA256 != canonical.Digest(run[plan.ManifestFile]) || s.Journal.Events != v.Run.End.Events {
		t.Errorf("%+v", s)
	}
	if !s.Rehearsal || !s.NotForLeaderboard || !bytes.Contains(pkg[ReadmeFile], []byte("**Rehearsal.**")) {
		t.Error("the package of a rehearsal does not say so")
	}
	if !IsPackage(os.DirFS(p.Path)) || IsPackage(os.DirFS(c.Run)) {
		t.Error("a package and a run are not told apart")
	}
}

// TestGoodRuns: every honest run can be packaged.
func TestGoodRuns(t *testing.T) {
	for name, c := range runs.Good() {
		p := mustBuild(t, configOf(t, c))
		if v, err := Verify(os.DirFS(p.Path), Options{}); err != nil || v.Statement.Predicate.Dirty {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBuildIsDeterministic: the same run, key and date give the same bytes.
func TestBuildIsDeterministic(t *testing.T) {
	c := config(t, two)
	first := load(t, mustBuild(t, c).Path)
	c.Out = t.TempDir()
	second := load(t, mustBuild(t, c).Path)
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs from one time to the next", name)
		}
	}
	c.Out, c.Date = t.TempDir(), "2031-02-04"
	if third := load(t, mustBuild(t, c).Path); bytes.Equal(first[AttestationFile], third[AttestationFile]) {
		t.Error("the date does not stand in the attestation")
	}
}

func TestUnscored(t *testing.T) {
	text := change(t, change(t, change(t, two, "gold: 14\n", ""), "gold: Tolmey\n", ""), "-- split validation --\ncarried gold\n", "-- split test --\n")
	c := config(t, planned(text, `{"dataset":{"split":"test"}}`))
	p := mustBuild(t, c)
	if p.Statement.Predicate.Scores != nil || p.Statement.Predicate.GoldAtHand {
		t.Errorf("%+v", p.Statement.Predicate)
	}
	if readme := load(t, p.Path)[ReadmeFile]; !bytes.Contains(readme, []byte("Unscored: there were no gold answers.")) {
		t.Errorf("README.md does not say that the run is unscored:\n%s", readme)
	}
	for _, claim := range p.Statement.Predicate.Claims {
		if (claim.Claim == "scores" || claim.Claim == "official-verdicts") && claim.Status != Absent {
			t.Errorf("%s is %s in an unscored run", claim.Claim, claim.Status)
		}
	}
}

// nothingLeft checks that a folder is empty but for what was there.
func nothingLeft(t *testing.T, out string, there ...string) {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(there, e.Name()) {
			t.Errorf("%q was left behind", e.Name())
		}
	}
}

// TestBrokenEvidence: what does not verify is a fault under the name that the
// file has in the run.
func TestBrokenEvidence(t *testing.T) {
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
		for what, edit := range map[string]func(path string) error{
			"changed": func(path string) error {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				data[len(data)/2] ^= 1
				return os.WriteFile(path, data, 0o644)
			},
			"missing": os.Remove,
			"a link": func(path string) error {
				if err := os.Rename(path, path+".aside"); err != nil {
					return err
				}
				return os.Symlink(filepath.Base(path)+".aside", path)
			},
		} {
			c := config(t, two)
			if err := edit(filepath.Join(c.Run, name)); err != nil {
				t.Fatal(err)
			}
			_, err := Build(context.Background(), c)
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != name && name != plan.ManifestFile {
				t.Errorf("%s %s: %v", name, what, err)
			}
			nothingLeft(t, c.Out)
		}
	}
}

func TestIncomplete(t *testing.T) {
	marker := []byte(rundir.MarkerOpen + strings.Repeat("\n", 100))
	for what, edit := range map[string]func(run string) error{
		"under way": func(run string) error {
			for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
				if err := os.Remove(filepath.Join(run, name)); err != nil {
					return err
				}
			}
			journal := filepath.Join(run, trajectory.JournalFile)
			data, err := os.ReadFile(journal)
			if err != nil {
				return err
			}
			data = data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1]
			if err := os.WriteFile(journal, data, 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(run, rundir.MarkerFile), marker, 0o644)
		},
		"being closed": func(run string) error { return os.WriteFile(filepath.Join(run, rundir.MarkerFile), marker, 0o644) },
		"without its last file, though recording failed": func(run string) error {
			if err := os.Remove(filepath.Join(run, trajectory.CheckpointFile)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(run, rundir.MarkerFile), []byte("no space left"), 0o644)
		},
	} {
		c := config(t, two)
		c.AllowDirty = true
		if err := edit(c.Run); err != nil {
			t.Fatal(err)
		}
		if _, err := Build(context.Background(), c); !errors.Is(err, audit.ErrIncomplete) || !strings.Contains(err.Error(), ": ") {
			t.Errorf("%s: %v", what, err)
		}
		nothingLeft(t, c.Out)
	}
}

func TestBuildPlaces(t *testing.T) {
	c := config(t, two)
	for _, date := range []string{"", "today", "2031-2-3", "2031-02-30", "../2031-02-03"} {
		bad := c
		bad.Date = date
		if _, err := Build(context.Background(), bad); err == nil || !strings.Contains(err.Error(), "date") {
			t.Errorf("date %q: %v", date, err)
		}
	}
	p := mustBuild(t, c)
	before := load(t, p.Path)
	if _, err := Build(context.Background(), c); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("twice: %v", err)
	}
	nothingLeft(t, c.Out, p.Name)
	if len(load(t, p.Path)) != len(before) {
		t.Error("the package that was there was touched")
	}
	if err := os.RemoveAll(p.Path); err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(c.Out, ".new-"+p.Name+"-1")
	if err := os.Mkdir(stage, 0o755); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, c)
	if _, err := os.Stat(stage); err != nil {
		t.Errorf("what another process is writing was removed: %v", err)
	}
	c.Out = filepath.Join(c.Out, "a", "b")
	mustBuild(t, c)
	if info, err := os.Stat(filepath.Join(c.Out, p.Name)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the package's folder: %v, %v", info, err)
	}
}

// TestBuildIsStopped: what is stopped leaves nothing, not even the folders that
// were made for it.
func TestBuildIsStopped(t *testing.T) {
	c := config(t, two)
	outer := c.Out
	c.Out = filepath.Join(outer, "a", "b")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Build(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	nothingLeft(t, outer)
	c.Key = otherKey(t)
	if _, err := Build(context.Background(), c); err == nil {
		t.Error("signed with a foreign key")
	}
	nothingLeft(t, outer)
}
