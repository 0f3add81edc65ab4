package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/witnessfile"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// bundleSet are 168 bundles: eight are another implementation's, and the others are made
// again after them, so that the card over all is its own.
func bundleSet(t testing.TB) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile("../../trajectory/witness/testdata/all.bin")
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		n := binary.LittleEndian.Uint32(data[60:])
		all, data = append(all, data[:n]), data[n:]
	}
	return all
}

// bundleFolder writes n bundles of the set into a new folder. Those beyond the set are of
// other times, so that none is another's copy; the MAC of such a one is not right.
func bundleFolder(t testing.TB, name string, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set := bundleSet(t)
	for i := range n {
		data := bytes.Clone(set[i%len(set)])
		data[35] += byte(i / len(set))
		put(t, filepath.Join(dir, fmt.Sprintf("w%05d.rvw", i)), data)
	}
	return dir
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestScorecardOfBundles: the card over a folder is the other implementation's, but for
// what those bundles do not say.
func TestScorecardOfBundles(t *testing.T) {
	dir := bundleFolder(t, "bundles", 168)
	put(t, filepath.Join(dir, "notes.txt"), []byte("no bundle"))
	theirs, err := os.ReadFile("../../trajectory/witness/testdata/scorecard.json")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(theirs), `"rollback_count":34`, `"rollback_count":null`, 1)
	want = strings.TrimSuffix(want, "}\n") + `,"mode_denials":null,"budget_denials":null,"person_refusals":null}` + "\n"
	for _, args := range [][]string{{dir}, {dir + "/"}, mustGlob(t, dir+"/*.rvw")} {
		if code, out, errs := command(t, append([]string{"scorecard", "--json"}, args...)...); code != exit.OK || out != want || errs != "" {
			t.Errorf("exit code %d\n%s\nwant\n%s%s", code, out, want, errs)
		}
	}
	code, out, _ := command(t, "scorecard", dir)
	for _, line := range []string{"counted     168 witness bundles, signatures not checked\n", "denials     unknown: a bundle does not say\n", "rollbacks   unknown: a bundle does not say\n", "solve rate  25.0 %\n",
		"cost        $0.022464, $0.000534 per solved task\n", "evidence    complete of 42.9 % of what is solved\n"} {
		if code != exit.OK || !strings.Contains(out, line) || strings.Contains(out, "rehearsal") {
			t.Errorf("exit code %d, no %q in\n%s", code, line, out)
		}
	}
	args := []string{"scorecard", "--accept", "--min-solve-rate", "0.25", "--max-violations", "48", "--min-evidence-coverage", "0", "--min-rollback-correctness", "0", dir}
	code, _, errs := command(t, args...)
	if code != exit.Findings || !strings.Contains(errs, "gaia: reason: policies is 3, at most 1\ngaia: hint: give the runs of one policy, or --mixed-policies;") {
		t.Errorf("bundles of three policies: exit code %d\n%s", code, errs)
	}
	code, _, errs = command(t, append(args, "--mixed-policies")...)
	if code != exit.Findings || !strings.Contains(errs, "gaia: reason: rollback_correctness is unknown, at least 0\ngaia: reason: recorded is unknown, wanted true\n") ||
		strings.Count(errs, "reason") != 2 {
		t.Errorf("what is not known: exit code %d\n%s", code, errs)
	}
}

// TestScorecardOfARehearsalsBundles: they say so themselves, whatever folder they lie in.
func TestScorecardOfARehearsalsBundles(t *testing.T) {
	dir := bundleFolder(t, "witness-rehearsal-01J", 2)
	if code, out, _ := command(t, "scorecard", dir); code != exit.OK || strings.Contains(out, "rehearsal") {
		t.Errorf("by the folder's name: exit code %d\n%s", code, out)
	}
	w, err := witness.Parse(bundleSet(t)[2])
	if err != nil {
		t.Fatal(err)
	}
	w.Sections = append(w.Sections, witness.Section{Tag: witness.Note, Value: []byte(witness.Rehearsal)})
	data, err := w.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "z.rvw"), data)
	for _, arg := range []string{dir, filepath.Join(dir, "z.rvw")} {
		if code, out, _ := command(t, "scorecard", arg); code != exit.OK || !strings.HasPrefix(out, "rehearsal: ") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		if code, out, _ := command(t, "scorecard", "--json", arg); code != exit.OK || !strings.HasSuffix(out, `,"rehearsal":true}`+"\n") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	}
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatal(pattern, err)
	}
	return found
}

// TestScorecardChecksBundles: with a key all bundles must be signed with it.
func TestScorecardChecksBundles(t *testing.T) {
	dir, set := t.TempDir(), bundleSet(t)
	key, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	put(t, key, []byte("witness-vectors-hmac-key-01234567"))
	put(t, other, []byte("witness-vectors-hmac-key-76543210"))
	signed, unsigned := filepath.Join(dir, "signed"), filepath.Join(dir, "unsigned")
	for _, folder := range []string{signed, unsigned} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(signed, "a.rvw"), set[1])
	put(t, filepath.Join(signed, "b.rvw"), set[3])
	put(t, filepath.Join(unsigned, "c.rvw"), set[0])
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"the key's", []string{"--hmac-key-file", key, signed}, exit.OK, "2 witness bundles, all signed with the key of --hmac-key-file\n"},
		{"another's", []string{"--hmac-key-file", other, signed}, exit.Evidence, "a.rvw: is not what this key signed\n"},
		{"not signed", []string{"--hmac-key-file", key, signed, unsigned}, exit.Evidence, "c.rvw: is not signed\n"},
		{"not asked", []string{signed, unsigned}, exit.OK, "3 witness bundles, signatures not checked\n"},
		{"no key there", []string{"--hmac-key-file", key + "x", signed}, exit.Usage, "there is no HMAC key at"},
		{"no key given", []string{"--hmac-key-file", "", signed}, exit.Usage, "--hmac-key-file is empty"},
	} {
		code, out, errs := command(t, append([]string{"scorecard"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s", tt.name, code, out, errs)
		}
	}
}

// TestScorecardRefuses: what is no bundle is none, whatever else is counted.
func TestScorecardRefuses(t *testing.T) {
	t.Parallel()
	dir, whole := t.TempDir(), bundleSet(t)[167]
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, data := range map[string][]byte{"good.rvw": whole, "cut.rvw": whole[:len(whole)-1], "longer.rvw": append(bytes.Clone(whole), 0), "empty.rvw": {}, "text.txt": whole} {
		put(t, at(name), data)
	}
	put(t, at("large.rvw"), whole)
	if err := os.Truncate(at("large.rvw"), witness.MaxBundle+1); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"none", "folder.rvw"} {
		if err := os.Mkdir(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("pipe.rvw"), 0o600); err != nil {
		t.Fatal(err)
	}
	run, _ := foreignRun(t, "honest/search-echo.txt")
	copied, key := filepath.Join(t.TempDir(), "copy.rvw"), filepath.Join(t.TempDir(), "key")
	put(t, copied, whole)
	put(t, key, []byte("witness-vectors-hmac-key-01234567"))
	damaged := `: is not a witness bundle, or a damaged one`
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{at("good.rvw"), at("cut.rvw")}, exit.Evidence, "cut.rvw" + damaged},
		{[]string{at("longer.rvw")}, exit.Evidence, "longer.rvw" + damaged},
		{[]string{at("empty.rvw")}, exit.Evidence, "empty.rvw" + damaged},
		{[]string{at("large.rvw")}, exit.Evidence, "large.rvw" + damaged},
		{[]string{at("pipe.rvw")}, exit.Failure, "pipe.rvw\": it is not a regular file"},
		{[]string{dir}, exit.Evidence, "cut.rvw" + damaged},
		{[]string{at("text.txt")}, exit.Usage, "is neither a package's archive nor called as a witness bundle"},
		{[]string{at("none")}, exit.Usage, "holds no run\ngaia: hint: " + witnessfile.WantScored},
		{[]string{at("folder.rvw")}, exit.Usage, "holds no run"},
		{[]string{at("nowhere")}, exit.Usage, "no such file or directory"},
		{[]string{at("good.rvw"), at("good.rvw")}, exit.Usage, "is given twice"},
		{[]string{dir, at("good.rvw")}, exit.Usage, "lies in a folder that is given, too"},
		{[]string{at("good.rvw"), run}, exit.Usage, "are not counted together"},
		{[]string{at("good.rvw"), copied}, exit.Usage, "copy.rvw\" is of the same task, policy and time as "},
		{[]string{"--hmac-key-file", key, at("good.rvw"), copied}, exit.Usage, "is of the same task, policy and time as"},
		{[]string{"--hmac-key-file", at("good.rvw"), run}, exit.Usage, "--hmac-key-file is for witness bundles"},
		{[]string{"--min-solve-rate", "0.5", run}, exit.Usage, "--min-solve-rate is a threshold of --accept"},
		{[]string{"--accept", "--min-solve-rate", "1.5", run}, exit.Usage, `--min-solve-rate is "1.5", which is not a fraction from 0 to 1`},
		{[]string{"--accept", "--min-solve-rate", "NaN", run}, exit.Usage, "which is not a fraction from 0 to 1"},
		{[]string{"--accept", "--max-violations", "-1", run}, exit.Usage, "--max-violations is -1"},
		{nil, exit.Usage, "scorecard takes runs, or witness bundles"},
	} {
		code, out, errs := command(t, append([]string{"scorecard"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%q: exit code %d\n%s%s", tt.args, code, out, errs)
		}
	}
}

// TestGravestOfRuns: of several runs that cannot be counted, the one whose evidence
// does not verify is told, wherever it stands.
func TestGravestOfRuns(t *testing.T) {
	t.Parallel()
	unfinished, _ := foreignRun(t, "honest/search-echo.txt")
	for _, name := range []string{"results.jsonl", "summary.json", "checkpoint"} {
		if err := os.Remove(filepath.Join(unfinished, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(unfinished, "unsubmittable"), []byte("open\n"))
	tampered, _ := foreignRun(t, "honest/search-echo.txt")
	put(t, filepath.Join(tampered, "results.jsonl"), []byte("x"))
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{unfinished}, exit.Incomplete, "run: the run is not complete"},
		{[]string{unfinished, tampered}, exit.Evidence, "results.jsonl"},
		{[]string{tampered, unfinished}, exit.Evidence, "results.jsonl"},
	} {
		code, out, errs := trusting(t, append([]string{"scorecard"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%q: exit code %d\n%s%s", tt.args, code, out, errs)
		}
	}
}

// BenchmarkScorecardBundles reads 10,000 files from the page cache, parses and counts
// them, which is to take less than 0.2 s on one core.
func BenchmarkScorecardBundles(b *testing.B) {
	dir := bundleFolder(b, "bundles", 10_000)
	for b.Loop() {
		var found witnessfile.Tally
		if err := found.AddPaths([]string{dir}); err != nil || found.Scorecard().TotalTasks != 10_000 {
			b.Fatal(found.Bundles, err)
		}
	}
}
