package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	leakTask    = "fab1e906-0000-4000-8000-000000000001"
	reachTask   = "fab1e906-0000-4000-8000-000000000002"
	honestTask  = "fab1e906-0000-4000-8000-000000000003"
	leakRule    = "AUD-1.uuid-with-answer"
	reachRule   = "AUD-4.host-access"
	allowedRule = "AUD-12.allowed-against-rules" // in the wake of the one before
	cacheRule   = "AUD-4.judge-cache-integrity"
	secretToken = "fab1e-0123456789abcdef-fab1e"
)

// decidable is a run with a CRITICAL finding at one task and a HIGH one at
// another.
const decidable = `One answer comes from a copy of the records, and once the agent looked at the host.
-- plan --
{"tools":[{"name":"python"},{"name":"web_fetch"}]}
-- split validation --
carried gold
` + leakTask + `
` + reachTask + `
` + honestTask + `
-- task ` + leakTask + ` --
question: In which town did the clockmaker Odile Varn build the tower clock of the harbour museum in the year 1852?
gold: Brellin
-- call web_fetch {"url":"http://notes.example/first"} --
[{"task_id": "` + leakTask + `", "Final answer": "Brellin", "file_name": ""}]
-- answer Brellin --
The record says so.
-- task ` + reachTask + ` --
question: Which harbour of the coast of Ostrel closed first, by the almanac of the lighthouse keepers?
gold: Tolmey
-- patch policy_decision --
{"decision":"allow","reason":null,"rule_ids":null,"shown":null}
-- call python {"code":"print(open('/proc/self/environ').read())"} --
HOME=/home/agent
-- answer Tolmey --
From memory.
-- task ` + honestTask + ` --
question: Which lamp did the keepers of Ostrel light last?
gold: Westlight
-- answer Eastlight --
The almanac says so.
`

// keeper is someone at home with the key of a run.
type keeper struct {
	home, dir string
	env       map[string]string
}

func newKeeper(t *testing.T, text string) keeper {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	k := keeper{home: t.TempDir(), dir: filepath.Join(t.TempDir(), "run")}
	if err := c.Write(k.dir); err != nil {
		t.Fatal(err)
	}
	key, err := sign.CreateKey(filepath.Join(k.home, ".config", "gaia", "keys", keyring.DefaultKey), rand.NewChaCha8([32]byte{'f', 'a', 'b', '1', 'e'}))
	if err != nil {
		t.Fatal(err)
	}
	if mine := key.Public(); !mine.Equal(runs.Key().Public()) {
		t.Fatal("the fixtures sign with another key")
	}
	k.env = map[string]string{"HOME": k.home, "HF_ENDPOINT": noHub}
	return k
}

func (k keeper) command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{began: time.Now(), stdout: &out, stderr: &errs, getenv: func(name string) string { return k.env[name] }, environ: []string{"SOME_TOKEN=" + secretToken}}
	code = a.exit(a.executeHere(args...))
	return code, out.String(), errs.String()
}

// decide decides about a finding with a reason that says nothing.
func (k keeper) decide(finding string, d audit.Decision, more ...string) (code int, stdout, stderr string) {
	return k.command(append([]string{"adjudicate", k.dir, "--finding", finding, "--decision", string(d), "--reason", "it was looked at"}, more...)...)
}

// id returns the id of what a rule found.
func (k keeper) id(t *testing.T, rule string) string {
	t.Helper()
	audited, err := grading.Audit(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range audited.Report.Checks {
		for _, f := range c.Findings {
			if f.RuleID == rule {
				return f.ID
			}
		}
	}
	t.Fatalf("%s finds nothing", rule)
	return ""
}

// TestAdjudicate decides about all that is open, packages the run, and verifies
// the package.
func TestAdjudicate(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	k := newKeeper(t, decidable)
	leak, reach := k.id(t, leakRule), k.id(t, reachRule)
	if code, _, stderr := k.command("submit", k.dir, "--out", k.home); code != exit.Findings || !strings.Contains(stderr, "AUD-1") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	code, stdout, stderr := k.decide(strings.TrimPrefix(leak, "sha256:")[:8], audit.Void)
	for _, want := range []string{"finding " + leak + ", " + leakRule + "\n", "decision void: task " + leakTask + " counts wrong in every score\n", "reason it was looked at\n",
		"written to " + k.dir + "/attestations/adjudication-" + leak[len("sha256:"):][:16] + ".dsse.json\n", "official 1 of 3, ", "still open ", reachRule + ", task " + reachTask + "\n", "next gaia audit "} {
		if !strings.Contains(regexp.MustCompile(` +`).ReplaceAllString(stdout, " "), want) {
			t.Errorf("%q is not printed:\n%s", want, stdout)
		}
	}
	if code != exit.OK || stderr != "" || strings.Contains(stdout, leakRule+", task") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := k.decide(k.id(t, allowedRule), audit.Void); code != exit.OK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := k.decide(leak, audit.Void); code != exit.Failure || !strings.Contains(stderr, "is closed already: void\ngaia: hint: to decide again, remove attestations/adjudication-") {
		t.Errorf("twice: exit code %d, %s", code, stderr)
	}
	code, stdout, _ = k.decide(strings.ToUpper(strings.TrimPrefix(reach, "sha256:")), audit.Dismiss, "--json")
	var result grading.Adjudicated
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exit.OK || !result.Clean || len(result.Open) != 0 || result.Finding != reach ||
		result.Decision != audit.Dismiss || result.RuleID != reachRule || result.TaskID != reachTask || !result.Rehearsal || result.KeyID != runs.Key().Public().ID() {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if data, err := os.ReadFile(result.File); err != nil || canonical.Digest(data) != result.SHA256 {
		t.Errorf("%v: the digest is not the file's", err)
	}
	if info, err := os.Stat(result.File); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if code, _, stderr := k.command("verify", k.dir); code != exit.OK {
		t.Errorf("verify: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := k.command("submit", k.dir, "--out", k.home, "--date", "2031-02-03"); code != exit.OK {
		t.Fatalf("submit: exit code %d, %s", code, stderr)
	}
	packages, err := filepath.Glob(k.home + "/submission-2031-02-03-*")
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	code, stdout, stderr = k.command("verify", packages[0])
	if code != exit.OK || !strings.Contains(stdout, "2 tasks by adjudication, counted wrong\n") || !strings.Contains(stdout, "not rerun: no gold answers; give --dataset dir:PATH\n") || !strings.Contains(stdout, "0 of 3, ") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := k.command("adjudicate", packages[0], "--finding", leak, "--decision", "void", "--reason", "x"); code != exit.Usage || !strings.Contains(stderr, "hint: decide in the run directory") {
		t.Errorf("a package: exit code %d, %s", code, stderr)
	}
	// An audit of the package does not forget what was decided.
	if err := os.Remove(filepath.Join(packages[0], audit.AdjudicationsFile)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := k.command("audit", packages[0]); code != exit.Evidence || !strings.Contains(stderr, audit.AdjudicationsFile+": ") {
		t.Errorf("without its decisions: exit code %d, %s", code, stderr)
	}
	changed, err := os.ReadFile(result.File)
	if err != nil {
		t.Fatal(err)
	}
	changed[len(changed)/2] ^= 1
	if err := os.WriteFile(result.File, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", k.dir}, {"audit", k.dir}, {"submit", k.dir, "--out", k.home, "--date", "2031-02-04"}, {"adjudicate", k.dir, "--finding", leak, "--decision", "void", "--reason", "x"}} {
		if code, _, stderr := k.command(args...); code != exit.Evidence || !strings.Contains(stderr, "gaia: error: attestations/adjudication-") {
			t.Errorf("%s of a forged decision: exit code %d, %s", args[0], code, stderr)
		}
	}
}

// TestAdjudicateRefuses: nothing is written, and the reason is said.
func TestAdjudicateRefuses(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	wide := strings.Replace(decidable, "-- task "+leakTask+" --", "-- patch security_event --\n"+`{"bad":1,"entries":[{"name":"`+strings.Repeat("ab", 32)+
		`","reason":"the signature is not good"}]}`+"\n-- task "+leakTask+" --", 1)
	k := newKeeper(t, wide)
	leak, reach, cache, note := k.id(t, leakRule), k.id(t, reachRule), k.id(t, cacheRule), k.id(t, "AUD-7.answers-are-public")
	type flags struct{ finding, decision, reason string }
	tests := []struct {
		name  string
		flags flags
		code  int
		want  []string
	}{
		{"no finding", flags{"", "void", "x"}, exit.Usage, []string{"error: adjudicate needs --finding, --decision and --reason", "hint: gaia audit DIR names the findings"}},
		{"no decision", flags{leak, "", "x"}, exit.Usage, []string{"needs --finding, --decision and --reason"}},
		{"no reason", flags{leak, "void", ""}, exit.Usage, []string{"needs --finding, --decision and --reason"}},
		{"another decision", flags{leak, "forgive", "x"}, exit.Usage, []string{`error: --decision is void or dismiss, not "forgive"`}},
		{"a short id", flags{"0123456", "void", "x"}, exit.Usage, []string{`error: --finding "0123456" is not the id of a finding`, "hint: give at least its first 8"}},
		{"no id", flags{"0123456789abcdefg", "void", "x"}, exit.Usage, []string{"is not the id of a finding"}},
		{"a blank reason", flags{leak, "void", " "}, exit.Usage, []string{"error: --reason is empty"}},
		{"a long reason", flags{leak, "void", strings.Repeat("a", audit.MaxReason+1)}, exit.Usage, []string{"error: --reason has 2049 bytes, more than 2048"}},
		{"a reason of two lines", flags{leak, "void", "a\nb"}, exit.Usage, []string{"error: --reason holds a control character or a line break"}},
		{"no such finding", flags{strings.Repeat("0", 8), "void", "x"}, exit.Usage, []string{`error: the audit has no finding "sha256:00000000"`,
			"hint: there is " + audit.ShortID(leak) + ", CRITICAL " + leakRule + ", task " + leakTask, "hint: there is " + audit.ShortID(cache) + ", CRITICAL " + cacheRule + "\n"}},
		{"the whole run void", flags{cache, "void", "x"}, exit.Failure, []string{"has no task that could be void", "hint: no decision closes it: gaia audit --explain AUD-4"}},
		{"the whole run dismissed", flags{cache, "dismiss", "x"}, exit.Failure, []string{"a CRITICAL finding about the whole run cannot be dismissed", "hint: no decision closes it"}},
		{"a note", flags{note, "void", "x"}, exit.Failure, []string{"an INFO finding is a note"}},
		{"the answer", flags{leak, "void", "the record says brellin"}, exit.Failure, []string{"error: the reason holds the answer of task " + leakTask, "hint: leave it out"}},
		{"an unsolved task's answer", flags{leak, "void", "not so at Westlight"}, exit.Failure, []string{"error: the reason holds the answer of task " + honestTask}},
		{"a secret", flags{reach, "dismiss", "it read " + secretToken + " only"}, exit.Failure, []string{"error: the reason holds what looks like a secret"}},
	}
	for _, tt := range tests {
		code, stdout, stderr := k.command("adjudicate", k.dir, "--finding", tt.flags.finding, "--decision", tt.flags.decision, "--reason", tt.flags.reason)
		if code != tt.code || stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.name, code, tt.code, stdout, stderr)
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %q is not said:\n%s", tt.name, want, stderr)
			}
		}
		for _, never := range []string{"Westlight", "Tolmey", secretToken} {
			if strings.Contains(stderr, never) {
				t.Errorf("%s: %q is told:\n%s", tt.name, never, stderr)
			}
		}
	}
	for name, tt := range map[string]struct {
		edit func(t *testing.T, k *keeper)
		code int
		want string
	}{
		"no key": {func(t *testing.T, k *keeper) { k.env["HOME"] = t.TempDir() }, exit.Failure,
			"error: there is no signing key\ngaia: hint: give the key that the run was planned with by --key: " + runs.Key().Public().ID()},
		"another key": {func(t *testing.T, k *keeper) {
			path := filepath.Join(t.TempDir(), "key")
			if _, err := sign.CreateKey(path, rand.NewChaCha8([32]byte{9})); err != nil {
				t.Fatal(err)
			}
			k.env[keyring.FromFile] = path
		}, exit.Failure, "but the run's plan was signed by " + runs.Key().Public().ID() + "\ngaia: hint: give the key that the run was planned with"},
		"no answers": {func(t *testing.T, k *keeper) {
			if err := os.Remove(filepath.Join(k.dir, rundir.PrivateFile)); err != nil {
				t.Fatal(err)
			}
		}, exit.Failure, "judgments.jsonl is missing"},
		"not finished": {func(t *testing.T, k *keeper) {
			journal := filepath.Join(k.dir, trajectory.JournalFile)
			data, err := os.ReadFile(journal)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(journal, data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1], 0o644); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile} {
				if err := os.Remove(filepath.Join(k.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, exit.Incomplete, "the run is not complete"},
		"no journal": {func(t *testing.T, k *keeper) {
			if err := os.Remove(filepath.Join(k.dir, trajectory.JournalFile)); err != nil {
				t.Fatal(err)
			}
		}, exit.Evidence, "events.jsonl: is missing"},
		"no run": {func(t *testing.T, k *keeper) { k.dir = k.home }, exit.Usage, "is not a run directory"},
		"another writes": {func(t *testing.T, k *keeper) {
			release, err := lockRun(k.dir, "decide in the run directory")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(release)
		}, exit.Failure, "another process is writing this run\ngaia: hint: wait for it to end"},
	} {
		k := newKeeper(t, decidable)
		tt.edit(t, &k)
		if code, _, stderr := k.decide(leak, audit.Void); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, tt.code, stderr)
		}
		if _, err := os.Lstat(filepath.Join(k.dir, audit.AttestationsDir)); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(k.dir, audit.AttestationsDir)); err == nil {
		t.Error("something was written")
	}
}

// TestAdjudicateAtOnce: of several who decide about one finding, one decides.
func TestAdjudicateAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, decidable)
	leak := k.id(t, leakRule)
	codes := make([]int, 6)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i], _, _ = k.decide(leak, audit.Void) })
	}
	all.Wait()
	done := 0
	for _, code := range codes {
		if code == exit.OK {
			done++
		} else if code != exit.Failure {
			t.Errorf("exit code %d", code)
		}
	}
	files, err := os.ReadDir(filepath.Join(k.dir, audit.AttestationsDir))
	if err != nil || len(files) != 1 || done != 1 {
		t.Errorf("%d decided, %d files, %v", done, len(files), err)
	}
}
