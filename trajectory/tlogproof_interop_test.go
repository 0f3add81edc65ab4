package trajectory

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proofCase is what a verifier of c2sp.org/tlog-proof@v1 files is given.
type proofCase struct {
	Key   string `json:"key"`   // name+hash+key, as sumdb/note writes it
	Leaf  []byte `json:"leaf"`  // canonical
	Proof []byte `json:"proof"` // the file
}

// verifyProofs has cases verified by testdata/tlogproof, which is made of
// other people's code. For each it returns "", or what is wrong.
func verifyProofs(t *testing.T, cases []proofCase) []string {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("proofs are not verified with other people's code: set GAIA_INTEROP=1")
	}
	program := filepath.Join(t.TempDir(), "tlogproof")
	for _, args := range [][]string{{"mod", "download"}, {"build", "-o", program, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join("testdata", "tlogproof")
		if out, err := cmd.CombinedOutput(); err != nil && args[0] == "mod" {
			t.Skipf("SKIPPED: the modules that verify proofs cannot be had: %v\n%s", err, out)
		} else if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	for _, c := range cases {
		if err := encoder.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var verdicts []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var verdict string
		if err := d.Decode(&verdict); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		verdicts = append(verdicts, verdict)
	}
	if len(verdicts) != len(cases) {
		t.Fatalf("%d verdicts on %d proofs", len(verdicts), len(cases))
	}
	return verdicts
}

// provenTree returns, for each leaf of a tree of that many, its proof under a
// checkpoint signed by key.
func provenTree(t *testing.T, key sign.Key, size int, rehearsal bool) []proofCase {
	t.Helper()
	leaves, encoded := make([]Leaf, size), make([][]byte, size)
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, _ error) {
		for _, at := range indexes {
			out = append(out, stored[at])
		}
		return out, nil
	})
	for n := range leaves {
		leaves[n] = Leaf{Attempts: 1, Digest: canonical.Digest([]byte{byte(n)}), Lines: 9, RunID: runID, Salt: strings.Repeat("0f", 32), TaskID: fmt.Sprintf("task %d", n)}
		b, err := canonical.Encode(leaves[n])
		if err != nil {
			t.Fatal(err)
		}
		hashes, err := tlog.StoredHashes(int64(n), b, read)
		if err != nil {
			t.Fatal(err)
		}
		encoded[n], stored = b, append(stored, hashes...)
	}
	root, err := rootOf(leaves)
	if err != nil {
		t.Fatal(err)
	}
	c := checkpoint()
	c.Size, c.Root, c.Rehearsal = int64(size), root, rehearsal
	signed, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	name, err := note.NewEd25519VerifierKey(keyName(runID), key.Public().Raw())
	if err != nil {
		t.Fatal(err)
	}
	var cases []proofCase
	for n := range leaves {
		path, err := tlog.ProveRecord(int64(size), int64(n), read)
		if err != nil {
			t.Fatal(err)
		}
		file := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %d\n", n)
		for _, h := range path {
			file = append(base64.StdEncoding.AppendEncode(file, h[:]), '\n')
		}
		cases = append(cases, proofCase{Key: name, Leaf: encoded[n], Proof: append(append(file, '\n'), signed...)})
	}
	return cases
}

// TestInteropProof: other people's code reads our checkpoints, extension lines
// and all, finds our leaves under our roots, and refuses what was changed.
func TestInteropProof(t *testing.T) {
	var cases []proofCase
	for _, size := range []int{1, 2, 3, 5, 26} {
		cases = append(cases, provenTree(t, signingKey(t, 1), size, size%2 == 0)...)
	}
	good := len(cases)
	// Bit 2 is used in every letter of base64 that stands in a proof; their
	// decoder passes over the lower ones of a last letter.
	changed := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 4
		return b
	}
	for i, c := range cases[:good] {
		for at := range c.Leaf {
			cases = append(cases, proofCase{c.Key, changed(c.Leaf, at), c.Proof})
		}
		if i < 4 || i == good-1 {
			for at := range c.Proof {
				cases = append(cases, proofCase{c.Key, c.Leaf, changed(c.Proof, at)})
			}
		}
		if other := cases[i/2]; !bytes.Equal(other.Leaf, c.Leaf) {
			cases = append(cases, proofCase{c.Key, other.Leaf, c.Proof})
		}
	}
	for _, c := range provenTree(t, signingKey(t, 2), 1, false) {
		cases = append(cases, proofCase{cases[0].Key, c.Leaf, c.Proof})
	}
	for i, verdict := range verifyProofs(t, cases) {
		if c := cases[i]; (verdict == "") != (i < good) {
			t.Errorf("case %d: %q\n%q\n%q", i, verdict, c.Leaf, c.Proof)
		}
	}
	t.Logf("%d proofs accepted, %d changed ones refused", good, len(cases)-good)
}
