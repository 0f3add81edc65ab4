package witness

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/trajectory"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readWithPython reads bundles with testdata/read.py, which was written from
// the format and shares no code with this package. It returns a line for each.
func readWithPython(t *testing.T, bundles ...[]byte) []string {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("witness bundles are not read with other programs: set GAIA_INTEROP=1")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: there is no python3 here, so no witness bundle is read with it")
	}
	args := []string{"-I", filepath.Join(vectors, "read.py"), "--values"}
	for i, b := range bundles {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.rvw", i))
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.Command(python, args...)
	cmd.Env, cmd.Stderr = []string{}, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// pythonReads reports whether the other reader takes a bundle.
func pythonReads(t *testing.T, bundle []byte) bool {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: there is no python3 here, so no witness bundle is read with it")
	}
	path := filepath.Join(t.TempDir(), "b.rvw")
	if err := os.WriteFile(path, bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-I", filepath.Join(vectors, "read.py"), path)
	cmd.Env = []string{}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	return err == nil
}

// TestWitnessInterop: another reader finds in the vectors, in the set and in what only
// we write what we do.
func TestWitnessInterop(t *testing.T) {
	_, bundles := readVectors(t)
	bundles = append(bundles, vectorSet(t)...)
	odd := Bundle{Flags: 0xff80, CreatedNs: 1<<64 - 1, Outcome: Skipped, CostMicroUSD: 1<<32 - 1, LatencyMs: 1<<32 - 1, Tokens: 1<<32 - 1, Retries: 1<<16 - 1,
		Sections: []Section{{65535, []byte("\x00")}, {Diff, nil}, {0, []byte("zero")}, {Trace, nil}, {77, nil}}}
	bundles = append(bundles, encode(t, odd, vectorKey(t)))
	for _, note := range []string{Rehearsal, Rehearsal + "\n", ""} { // only the first says so
		bundles = append(bundles, encode(t, Bundle{Sections: []Section{{Note, []byte(note)}}}, vectorKey(t)))
	}
	governed := Bundle{ToolCalls: 1, Sections: []Section{{Trace, []byte("\x00\x00\x01\x00" + strings.Repeat("\x00", 28))}}}
	value, err := Conduct{trajectory.Conduct{Denials: trajectory.Denials{Mode: 1}, Rollbacks: 2, RollbacksCorrect: 1}, true}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	governed.Sections = append(governed.Sections, Section{Governance, value})
	rehearsal := len(bundles) - 3
	bundles = append(bundles, encode(t, governed, vectorKey(t)))
	lines := readWithPython(t, bundles...)
	if len(lines) != len(bundles) {
		t.Fatalf("%d lines for %d bundles", len(lines), len(bundles))
	}
	for i, data := range bundles {
		w, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		v := toVector(w, vector{})
		values, hashes := [][2]any{}, [][2]string{}
		for _, s := range w.Sections {
			values = append(values, [2]any{s.Tag, hex.EncodeToString(s.Value)})
		}
		for _, c := range w.Trace() {
			hashes = append(hashes, [2]string{hex.EncodeToString(c.ArgsHash[:]), hex.EncodeToString(c.ResultHash[:])})
		}
		trace, err := json.Marshal(v.Trace)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := json.Marshal(map[string]any{"values": values, "hashes": hashes})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"task_id":%q,"policy_hash":%q,"created_ns":%d,"outcome":%d,"mode":%d,"flags":%d,"signed":%t,"tool_calls":%d,"cost":%d,"latency_ms":%d,"tokens":%d,`+
			`"retries":%d,"sections":%d,"size":%d,"evidence_complete":%t,"trace":%s,%s`, v.TaskID, v.PolicyHash, w.CreatedNs, v.Outcome, v.Mode, v.Flags, v.Signed, v.ToolCalls, v.Cost,
			v.LatencyMs, v.Tokens, v.Retries, v.Sections, v.Size, v.EvidenceComplete, trace, map[bool]string{true: `"rehearsal":true,`}[i == rehearsal])
		if w.Rehearsal() != (i == rehearsal) {
			t.Errorf("bundle %d is of a rehearsal: %v", i, w.Rehearsal())
		}
		var got, others map[string]json.RawMessage
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(rest, &others); err != nil {
			t.Fatal(err)
		}
		if c, says := w.Conduct(); says != (i == len(bundles)-1) || says && string(got["conduct"]) != string(value) {
			t.Errorf("the conduct of bundle %d is %+v, and %s in Python", i, c, got["conduct"])
		}
		if !strings.HasPrefix(lines[i], want) || !bytes.Equal(got["values"], others["values"]) || !bytes.Equal(got["hashes"], others["hashes"]) || string(got["canonical"]) != "true" {
			t.Errorf("bundle %d is read by Python as\n%s\nwant\n%s\nwith %s", i, lines[i], want, rest)
		}
	}
}
