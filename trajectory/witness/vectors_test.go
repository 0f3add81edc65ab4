package witness

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/go-json-experiment/json"
)

const vectors = "testdata"

// vectorKey is the key that another implementation signed its bundles with.
func vectorKey(t testing.TB) sign.HMACKey {
	t.Helper()
	key, err := sign.NewHMACKey([]byte("witness-vectors-hmac-key-01234567"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// vector is what another implementation reports of its bundle. Violations
// and Rollbacks it knew from elsewhere: of the former, the format holds the denied
// calls.
type vector struct {
	File             string        `json:"file"`
	Policy           string        `json:"policy"`
	PolicyHash       string        `json:"policy_hash"`
	TaskID           string        `json:"task_id"`
	Outcome          uint8         `json:"outcome"`
	Mode             uint8         `json:"mode"`
	Flags            uint16        `json:"flags"`
	Signed           bool          `json:"signed"`
	ToolCalls        int           `json:"tool_calls"`
	Cost             int64         `json:"cost"`
	LatencyMs        int64         `json:"latency_ms"`
	Tokens           int64         `json:"tokens"`
	Retries          int           `json:"retries"`
	Sections         int           `json:"sections"`
	Size             int           `json:"size"`
	EvidenceComplete bool          `json:"evidence_complete"`
	Violations       []string      `json:"violations"`
	Rollbacks        int           `json:"rollbacks"`
	Trace            []vectorEntry `json:"trace"`
}

type vectorEntry struct {
	Action    string `json:"action"`
	Policy    uint8  `json:"policy"`
	LatencyMs int64  `json:"latency_ms"`
	Cost      int64  `json:"cost"`
	Tokens    int64  `json:"tokens"`
}

// readVectors returns what index.json says, with the bundles in its order.
func readVectors(t testing.TB) ([]vector, [][]byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []vector
	if err := json.Unmarshal(data, &index, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(index) != 8 {
		t.Fatalf("%d vectors", len(index))
	}
	bundles := make([][]byte, len(index))
	for i, v := range index {
		if bundles[i], err = os.ReadFile(filepath.Join(vectors, v.File)); err != nil {
			t.Fatal(err)
		}
	}
	return index, bundles
}

// toVector says of a bundle what index.json does, but for what only its writer
// knew.
func toVector(w Bundle, from vector) vector {
	v := vector{File: from.File, Policy: from.Policy, PolicyHash: hex.EncodeToString(w.PolicyHash[:]), TaskID: hex.EncodeToString(w.TaskID[:]),
		Outcome: w.Outcome, Mode: w.Mode, Flags: w.Flags, Signed: w.Signed(), ToolCalls: w.ToolCalls, Cost: w.CostMicroUSD, LatencyMs: w.LatencyMs,
		Tokens: w.Tokens, Retries: w.Retries, Sections: len(w.Sections), Size: w.Size, EvidenceComplete: w.EvidenceComplete(),
		Violations: []string{}, Rollbacks: from.Rollbacks, Trace: []vectorEntry{}}
	for _, c := range w.Trace() {
		v.Trace = append(v.Trace, vectorEntry{c.Action, c.Policy, c.LatencyMs, c.CostMicroUSD, c.Tokens})
		if c.Policy == Deny {
			v.Violations = append(v.Violations, "denied tool: "+c.Action)
		}
	}
	return v
}

// TestWitnessVectors reads what another implementation wrote, to the last field,
// and writes the same bytes.
func TestWitnessVectors(t *testing.T) {
	index, bundles := readVectors(t)
	key := vectorKey(t)
	for i, want := range index {
		w, err := Parse(bundles[i])
		if err != nil {
			t.Fatalf("%s: %v", want.File, err)
		}
		if got := toVector(w, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read\n%+v\nwant\n%+v", want.File, got, want)
		}
		if w.Verify(key) != want.Signed || w.Denied() != len(want.Violations) {
			t.Errorf("%s: verifies: %v, denied calls: %d", want.File, w.Verify(key), w.Denied())
		}
		if again := encode(t, w, key); !bytes.Equal(again, bundles[i]) {
			t.Errorf("%s: written again as\n%x\nwant\n%x", want.File, again, bundles[i])
		}
		calls, err := EncodeTrace(w.Trace())
		if trace, _ := w.Section(Trace); err != nil || !bytes.Equal(calls, trace) {
			t.Errorf("%s: the trace is written again as %x, %v, want %x", want.File, calls, err, trace)
		}
	}
}

// encode writes a bundle as it was read: signed if it was.
func encode(t testing.TB, w Bundle, key sign.HMACKey) []byte {
	t.Helper()
	data, err := w.Encode(nil)
	if w.Signed() {
		data, err = w.Encode(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// vectorSet makes the whole set of 168 that the eight vectors are of: bundle i is
// of a policy, an outcome, a level of evidence and signed or not, the last fastest.
//
// What the eight show is theirs: every field of the header, and what levels 0, 2
// and 6 hold. The set's scorecard gives that level 5 has a trace, levels 1, 3 and 4
// none, and that three levels have complete evidence; which sections stand in these
// four besides is ours. So is the time of the others, since it follows no rule.
func vectorSet(t testing.TB) [][]byte {
	t.Helper()
	key := vectorKey(t)
	times := map[int]uint64{0: 1795189224455646540, 1: 1795189224455690922, 5: 1795189224455757951, 27: 1795189224456095603,
		55: 1795189224456479392, 83: 1795189224456851139, 111: 1795189224457223204, 167: 1795189224458095064}
	var all [][]byte
	for i := range 168 {
		mode, outcome, level := i/56, i/14%4, i/2%7
		w := Bundle{CreatedNs: times[0] + uint64(i)*14_000, Mode: uint8(mode), Outcome: uint8(outcome)}
		if ns, known := times[i]; known {
			w.CreatedNs = ns
		}
		for j := range w.TaskID {
			w.TaskID[j] = byte(7*i + j)
		}
		hex.Decode(w.PolicyHash[:], []byte([]string{"66fb836fa37e48ef", "37174386ed336528", "f9210ee4856ff1e0"}[mode]))
		if i%3 == 0 {
			w.Retries = 2
		}
		w.addSections(t, [][]uint16{{}, {1}, {1, 2, 3}, {1, 4, 5}, {1, 2, 5}, {1, 3, 4, 5}, {1, 2, 3, 4, 5, 6}}[level], vectorTrace(i, mode))
		data, err := w.Encode(nil)
		if i%2 == 1 {
			data, err = w.Encode(key)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// addSections gives a bundle sections of the set, and the sums over its calls.
func (w *Bundle) addSections(t testing.TB, tags []uint16, calls []Entry) {
	t.Helper()
	for _, tag := range tags {
		value := []byte([]string{Spec: "What is the capital of Österreich? – ✓", Plan: "1. search\n2. read\n3. answer", Trace: "",
			Diff: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", TestLog: "exact-match: false\njudge: true\n",
			Postmortem: "root cause: \x00 binary ok \xff"}[tag])
		if tag == Trace {
			trace, err := EncodeTrace(calls)
			if err != nil {
				t.Fatal(err)
			}
			value, w.ToolCalls = trace, len(calls)
			for _, c := range calls {
				w.CostMicroUSD, w.LatencyMs, w.Tokens = w.CostMicroUSD+c.CostMicroUSD, w.LatencyMs+c.LatencyMs, w.Tokens+c.Tokens
			}
		}
		w.Sections = append(w.Sections, Section{tag, value})
	}
}

func vectorTrace(i, mode int) []Entry {
	checks := [][4]uint8{{1, 1, 0, 0}, {2, 2, 2, 2}, {0, 0, 0, 0}}[mode]
	var calls []Entry
	for n, c := range []struct {
		action, args, result  string
		latency, cost, tokens int64
	}{
		{"web_search", "f622c17911d25841", "3a1982d41e126979", 120, 300, 900},
		{"Bash", "3d6d34838733727f", "4ca7df8f3f6b25fb", 3000, 0, 0},
		{"WebFetch", "261290cbab6ac25d", "18c32105e850c68a", 80, 12, 4000},
		{"Read", "ce8bf747ef80c558", "830c365e9f19a106", 1, 0, 0},
	} {
		call := Entry{Action: c.action, Policy: checks[n], LatencyMs: c.latency + int64(i), CostMicroUSD: c.cost, Tokens: c.tokens}
		hex.Decode(call.ArgsHash[:], []byte(c.args))
		hex.Decode(call.ResultHash[:], []byte(c.result))
		calls = append(calls, call)
	}
	return calls
}

// TestWitnessSet: the rule by which the set is made again gives the eight that are
// there, byte for byte. all.bin has the whole of it, one bundle after the other.
func TestWitnessSet(t *testing.T) {
	all := vectorSet(t)
	index, bundles := readVectors(t)
	for n, v := range index {
		var i int
		if _, err := fmt.Sscanf(v.File, "w%d.rvw", &i); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(all[i], bundles[n]) {
			t.Errorf("%s is made as\n%x\nwant\n%x", v.File, all[i], bundles[n])
		}
	}
	file, joined := filepath.Join(vectors, "all.bin"), bytes.Join(all, nil)
	if *update {
		if err := os.WriteFile(file, joined, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, joined) {
		t.Errorf("%s is not the set, %v: go test ./trajectory -run TestWitnessSet -update writes it", file, err)
	}
}
