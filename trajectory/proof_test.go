package trajectory

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"golang.org/x/mod/sumdb/tlog"
)

func someLeaves(n int) []Leaf {
	leaves := make([]Leaf, n)
	for i := range leaves {
		leaves[i] = Leaf{Attempts: 1, Digest: canonical.Digest([]byte{byte(i)}), Lines: int64(i), RunID: runID, Salt: strings.Repeat("0f", 32), TaskID: fmt.Sprint("task-", i)}
	}
	return leaves
}

// climb computes a root from an audit path as RFC 9162 §2.1.3.2 says.
func climb(leaf []byte, index, size int64, path [][]byte) (root []byte, ok bool) {
	node := func(left, right []byte) []byte {
		sum := sha256.Sum256(append(append([]byte{1}, left...), right...))
		return sum[:]
	}
	sum := sha256.Sum256(append([]byte{0}, leaf...))
	r, fn, sn := sum[:], index, size-1
	for _, p := range path {
		if sn == 0 {
			return nil, false
		}
		if fn%2 == 1 || fn == sn {
			for r = node(p, r); fn%2 == 0 && fn != 0; fn, sn = fn/2, sn/2 {
			}
		} else {
			r = node(r, p)
		}
		fn, sn = fn/2, sn/2
	}
	return r, sn == 0
}

// TestProve reads the tlog-proof file of every leaf of trees of up to 27 as
// another program would.
func TestProve(t *testing.T) {
	key := signingKey(t, 1)
	for size := range int64(28) {
		leaves := someLeaves(int(size))
		root, err := rootOf(leaves)
		if err != nil {
			t.Fatal(err)
		}
		c := checkpoint()
		c.Size, c.Root = size, root
		note, err := c.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		for index := range size {
			proof, err := Prove(leaves, index)
			if err != nil {
				t.Fatal(err)
			}
			if err := proof.Check(leaves[index], root); err != nil {
				t.Errorf("leaf %d of %d: %v", index, size, err)
			}
			lines := strings.Split(string(proof.TlogProof(note)), "\n")
			end := 2
			var path [][]byte
			for ; lines[end] != ""; end++ {
				hash, err := base64.StdEncoding.DecodeString(lines[end])
				if err != nil || len(hash) != 32 {
					t.Fatalf("leaf %d of %d: line %q", index, size, lines[end])
				}
				path = append(path, hash)
			}
			if lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != "index "+strconv.FormatInt(index, 10) || strings.Join(lines[end+1:], "\n") != string(note) {
				t.Fatalf("leaf %d of %d:\n%s", index, size, proof.TlogProof(note))
			}
			encoded, err := canonical.Encode(leaves[index])
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := climb(encoded, index, size, path); !ok || !bytes.Equal(got, root[:]) {
				t.Errorf("leaf %d of %d: the file leads to %x, not to %x", index, size, got, root)
			}
			for name, other := range map[string]Inclusion{
				"another index": {proof.Hashes, (index + 1) % size, size},
				"no such index": {proof.Hashes, size, size},
				"below nothing": {proof.Hashes, -1, size},
				"a hash more":   {append([]tlog.Hash{{}}, proof.Hashes...), index, size},
				"no size":       {proof.Hashes, index, 0},
			} {
				if (size > 1 || name != "another index") && other.Check(leaves[index], root) == nil {
					t.Errorf("leaf %d of %d: %s is accepted", index, size, name)
				}
			}
			changed := leaves[index]
			changed.Lines++
			if proof.Check(changed, root) == nil {
				t.Errorf("leaf %d of %d: another leaf is accepted", index, size)
			}
		}
		for _, index := range []int64{-1, size} {
			if _, err := Prove(leaves, index); err == nil {
				t.Errorf("proved leaf %d of %d", index, size)
			}
		}
	}
}

func TestParseCheckpoint(t *testing.T) {
	for _, rehearsal := range []bool{false, true} {
		want := checkpoint()
		want.Rehearsal = rehearsal
		data, err := want.Sign(signingKey(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseCheckpoint(data)
		want.Journal.LastID = "" // no note tells it
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestParseCheckpointRefuses(t *testing.T) {
	data, err := checkpoint().Sign(signingKey(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	root := strings.Split(good, "\n")[2]
	digest := canonical.Digest([]byte("last line"))
	tests := []struct{ name, old, new string }{
		{"no signature", good[strings.Index(good, "\n\n"):], ""},
		{"another origin", "gaia-harness/", "gaia/"},
		{"no origin", "gaia-harness/" + runID, ""},
		{"size with a zero", "\n26\n", "\n026\n"},
		{"size with a sign", "\n26\n", "\n+26\n"},
		{"below nothing", "\n26\n", "\n-26\n"},
		{"no leaves", "\n26\n", "\n0\n"},
		{"too large", "\n26\n", "\n99999999999999999999\n"},
		{"short root", root, root[4:]},
		{"long root", root, "AAAA" + root},
		{"loose root", root, root[:42] + string(root[42]+1) + "="},
		{"no root", root + "\n", ""},
		{"another line", "\nmanifest ", "\nplan "},
		{"a digest in upper case", digest, "sha256:" + strings.ToUpper(digest[7:])},
		{"a short digest", digest, digest[:69]},
		{"no digest", digest, "last"},
		{"no events", " 812 ", " 0 "},
		{"two spaces", " 812 ", "  812 "},
		{"another remark", "\n\n", "\nrehearsed\n\n"},
		{"two remarks", "\n\n", "\nrehearsal\nrehearsal\n\n"},
		{"nothing", good, ""},
	}
	for _, tt := range tests {
		if strings.Count(good, tt.old) < 1 {
			t.Fatalf("%s: nothing to replace", tt.name)
		}
		if got, err := ParseCheckpoint([]byte(strings.Replace(good, tt.old, tt.new, 1))); err == nil || got != (Checkpoint{}) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// FuzzParseCheckpoint: what is read is written the same way again.
func FuzzParseCheckpoint(f *testing.F) {
	for _, rehearsal := range []bool{false, true} {
		c := checkpoint()
		c.Rehearsal = rehearsal
		f.Add([]byte(c.text() + "\n— a b\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCheckpoint(data)
		if err == nil && !bytes.HasPrefix(data, []byte(c.text()+"\n")) {
			t.Fatalf("%q is read as %+v", data, c)
		}
	})
}
