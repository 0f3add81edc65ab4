package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
)

// asked stands for the events of an approval.
type asked struct {
	Kind Type `json:"kind"`
}

func (a asked) Type() Type { return a.Kind }

func TestProjections(t *testing.T) {
	c := NewContents(runID, "")
	payloads := []Payload{RunCompleted{Planned: 1}, ToolProposed{CallID: "c1", Name: "calculate"}, asked{"approval_requested"}, asked{"approval_resolved"},
		PolicyDecision{CallID: "c1", Decision: "allow"}, PolicyViolation{}, ToolExecuted{}, ToolProposed{CallID: "c2"}}
	for i, p := range payloads {
		if err := c.Add(Event{Attempt: 1, Seq: int64(i), TaskID: "t", Turn: 2, Payload: p}, []byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	seqs := func(list []Projection) (out []int64) {
		for _, p := range list {
			out = append(out, p.Seq)
			want, err := canonical.Encode(payloads[p.Seq])
			if err != nil || !bytes.Equal(p.Payload, want) || p.Type != payloads[p.Seq].Type() || p.TaskID != "t" || p.Attempt != 1 || p.Turn != 2 {
				t.Errorf("%+v", p)
			}
		}
		return out
	}
	if !slices.Equal(seqs(c.Proposals), []int64{1, 7}) || !slices.Equal(seqs(c.Approvals), []int64{2, 3}) || !slices.Equal(seqs(c.PolicyVerdicts), []int64{4}) {
		t.Errorf("proposals %v, approvals %v, verdicts %v", seqs(c.Proposals), seqs(c.Approvals), seqs(c.PolicyVerdicts))
	}
	if len(c.Events) != len(payloads) || c.Events[0] != "line" {
		t.Errorf("events %q", c.Events)
	}
}

// TestBundleHashes computes what is hashed and signed from the file, as another
// program would.
func TestBundleHashes(t *testing.T) {
	key := signingKey(t, 1)
	c := NewContents(runID, "a/b <é>")
	if run, task := c.Workflow(); run != runID || task != "a/b <é>" {
		t.Errorf("Workflow = %q, %q", run, task)
	}
	c.Events = []string{`{"a":"\u0000\"é"}`}
	data, err := c.Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"approvals", "chain_transactions", "policy_verdicts", "proposals"} {
		if string(members[name]) != "[]" {
			t.Errorf("%s is %s", name, members[name])
		}
	}
	without := func(names ...string) []byte {
		t.Helper()
		left := map[string]string{}
		for name, value := range members {
			if !slices.Contains(names, name) {
				left[name] = string(value)
			}
		}
		var b strings.Builder
		var sorted []string
		for name := range left {
			sorted = append(sorted, name)
		}
		slices.Sort(sorted)
		for i, name := range sorted {
			b.WriteString([]string{"{", ","}[min(i, 1)] + `"` + name + `":` + left[name])
		}
		return []byte(b.String() + "}")
	}
	b, err := DecodeBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := canonical.Digest(without("content_hash", "signature")); b.ContentHash != want || b.CheckHash() != nil {
		t.Errorf("content_hash is %s, not %s", b.ContentHash, want)
	}
	if err := b.Signature.Verify(key.Public(), "application/vnd.gaia-harness.evidence+json", without("signature")); err != nil {
		t.Error(err)
	}
	if err := b.CheckSignature(key.Public()); err != nil {
		t.Error(err)
	}
	if err := b.CheckSignature(signingKey(t, 2).Public()); err == nil {
		t.Error("another key's signature is good")
	}
	again, err := c.Seal(key)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("sealing twice gives two bundles (%v)", err)
	}
	c.Events = []string{"\xff"}
	if _, err := c.Seal(key); err == nil {
		t.Error("sealed what has no encoding")
	}
}

func TestDecodeBundleRefuses(t *testing.T) {
	data, err := NewContents(runID, "t").Seal(signingKey(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	if _, err := DecodeBundle(data); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, old, new, member string }{
		{"another version", `"version":1`, `"version":2`, "version"},
		{"no version", `"version":1,`, ``, "evidence bundle"},
		{"a transaction", `"chain_transactions":[]`, `"chain_transactions":[{}]`, "chain_transactions"},
		{"an unknown member", `"version":1`, `"version":1,"verson":1`, "evidence bundle"},
		{"an unknown algorithm's member", `"alg":`, `"algorithm":`, "evidence bundle"},
		{"an empty leaf", `"manifest":`, `"leaf":null,"manifest":`, "evidence bundle"},
		{"no signature", good[strings.Index(good, `,"signature"`):strings.Index(good, `,"version"`)], ``, "evidence bundle"},
		{"two signatures", `"signature":`, `"signature":{},"signature":`, "evidence bundle"},
		{"space", `"version":1`, `"version": 1`, "evidence bundle"},
		{"a newline at the end", `/t"}`, "/t\"}\n", "evidence bundle"},
		{"nothing", good, ``, "evidence bundle"},
	}
	for _, tt := range tests {
		if !strings.Contains(good, tt.old) {
			t.Fatalf("%s: nothing to replace", tt.name)
		}
		var fault *Fault
		if _, err := DecodeBundle([]byte(strings.Replace(good, tt.old, tt.new, 1))); !errors.As(err, &fault) || fault.File != tt.member {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// FuzzDecodeBundle: what is read is written the same way again, and reading its
// events ends.
func FuzzDecodeBundle(f *testing.F) {
	c := NewContents(runID, "t")
	c.Events, c.Leaf = []string{"{}", ""}, &Leaf{}
	proof, err := Prove(someLeaves(3), 1)
	if err != nil {
		f.Fatal(err)
	}
	c.Inclusion = &proof
	key, err := sign.NewHMACKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		f.Fatal(err)
	}
	data, err := c.Seal(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBundle(data)
		if err != nil {
			return
		}
		again, err := canonical.Encode(b)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("accepted %q, which encodes to %q (%v)", data, again, err)
		}
		read := 0
		if err := b.ReadTask(func(Event, []byte) error { read++; return nil }); err == nil && read != len(b.Events) {
			t.Fatalf("read %d events of %q", read, data)
		}
	})
}
