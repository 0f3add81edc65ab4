package trajectory

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// rfc6962 is the definition of the tree hash as it stands in RFC 6962 §2.1.
func rfc6962(leaves [][]byte) [32]byte {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := rfc6962(leaves[:k]), rfc6962(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

// rootOf returns the root over leaves.
func rootOf(leaves []Leaf) (tlog.Hash, error) {
	hashes, err := hashesOf(leaves)
	if err != nil {
		return tlog.Hash{}, err
	}
	return RootOf(hashes)
}

func TestRoot(t *testing.T) {
	var leaves []Leaf
	var encoded [][]byte
	for n := range 21 {
		got, err := rootOf(leaves)
		if want := rfc6962(encoded); err != nil || got != want {
			t.Errorf("%d leaves: %x, %v; want %x", n, got, err, want)
		}
		leaf := Leaf{Attempts: n, Digest: canonical.Digest([]byte{byte(n)}), Lines: int64(10 * n), RunID: runID, Salt: strings.Repeat("0f", 32), TaskID: fmt.Sprintf("task <%d>", n)}
		leaves = append(leaves, leaf)
		encoded = append(encoded, fmt.Appendf(nil, `{"attempts":%d,"digest":"%s","lines":%d,"run_id":"%s","salt":"%s","task_id":"task <%d>"}`,
			n, leaf.Digest, 10*n, runID, leaf.Salt, n))
	}
	if got := fmt.Sprintf("%x", rfc6962(nil)); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("the empty tree is %s", got)
	}
	swapped := append([]Leaf(nil), leaves...)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	a, _ := rootOf(leaves)
	if b, err := rootOf(swapped); err != nil || a == b {
		t.Errorf("the order of leaves does not matter (%v)", err)
	}
	if _, err := rootOf([]Leaf{{TaskID: "\xff"}}); err == nil {
		t.Error("a leaf that has no encoding has a root")
	}
}

func signingKey(t *testing.T, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func checkpoint() Checkpoint {
	return Checkpoint{RunID: runID, Size: 26, Root: sha256.Sum256([]byte("root")), ManifestSHA256: manifestDigest,
		Journal: End{Events: 812, Head: canonical.Digest([]byte("last line")), LastID: "01JZ0000000000000000000000"}}
}

func TestCheckpoint(t *testing.T) {
	key, c := signingKey(t, 1), checkpoint()
	data, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	root := sha256.Sum256([]byte("root"))
	text := "gaia-harness/" + runID + "\n26\n" + base64.StdEncoding.EncodeToString(root[:]) + "\nmanifest " + manifestDigest +
		"\njournal 812 " + canonical.Digest([]byte("last line")) + "\n"
	if !strings.HasPrefix(string(data), text+"\n— gaia-harness/"+runID+" ") {
		t.Errorf("the note is\n%s", data)
	}
	if err := c.Verify(data, key.Public()); err != nil {
		t.Error(err)
	}
	again, err := c.Sign(key)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("signing twice gives two notes (%v)", err)
	}
	// The note package's own verifier reads it.
	text2, err := note.NewEd25519VerifierKey("gaia-harness/"+runID, key.Public().Raw())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(text2)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(data, note.VerifierList(verifier))
	if err != nil || n.Text != text || len(n.Sigs) != 1 {
		t.Errorf("note.Open: %+v, %v", n, err)
	}
}

func TestCheckpointRefuses(t *testing.T) {
	key, other, c := signingKey(t, 1), signingKey(t, 2), checkpoint()
	good, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := c.Sign(other)
	if err != nil {
		t.Fatal(err)
	}
	line := func(note []byte) string { return string(note[bytes.LastIndex(note, []byte("\n\n"))+2:]) }
	resigned := func(change func(*Checkpoint)) []byte {
		c := c
		change(&c)
		b, err := c.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// The last letter before the padding has two bits that say nothing.
	at := bytes.LastIndexByte(good, '=') - 1
	loose := bytes.Clone(good)
	loose[at]++
	const says = "does not say what the journal gives"
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"second signature, another's", append(bytes.Clone(good), line(foreign)...), "has more than one signature"},
		{"second signature, the same", append(bytes.Clone(good), line(good)...), "is not written as a signed note is"},
		{"another's signature first", bytes.Replace(good, []byte("— "), []byte(line(foreign)+"— "), 1), "has more than one signature"},
		{"another's signature", foreign, "note has no verifiable signatures"},
		{"another run", resigned(func(c *Checkpoint) { c.RunID = "01JZ0000000000000000000XXX" }), "note has no verifiable signatures"},
		{"another size", resigned(func(c *Checkpoint) { c.Size++ }), says},
		{"another root", resigned(func(c *Checkpoint) { c.Root[0]++ }), says},
		{"another manifest", resigned(func(c *Checkpoint) { c.ManifestSHA256 = canonical.Digest(nil) }), says},
		{"another length", resigned(func(c *Checkpoint) { c.Journal.Events-- }), says},
		{"another head", resigned(func(c *Checkpoint) { c.Journal.Head = canonical.Digest(nil) }), says},
		{"unused bits of the signature", loose, "is not written as a signed note is"},
		{"no signature", good[:bytes.Index(good, []byte("— "))], "malformed note"},
		{"newline after", append(bytes.Clone(good), '\n'), "malformed note"},
		{"no newline", good[:len(good)-1], "malformed note"},
		{"nothing", nil, "malformed note"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := c.Verify(tt.data, key.Public())
			var fault *Fault
			if !errors.As(err, &fault) || *fault != (Fault{File: CheckpointFile, Reason: tt.want}) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if err := c.Verify(b, key.Public()); err == nil {
				t.Errorf("accepted with byte %d changed: %q", i, b[max(0, i-10):min(len(b), i+10)])
			}
		}
		if err := c.Verify(append(bytes.Clone(good[:i]), good[i+1:]...), key.Public()); err == nil {
			t.Errorf("accepted without byte %d", i)
		}
	}
	if _, err := (Checkpoint{RunID: "a b"}).Sign(key); err == nil {
		t.Error("signed under a name that no note can bear")
	}
}

// TestNoteKeyHash fixes the key id against the note format's description.
func TestNoteKeyHash(t *testing.T) {
	public := signingKey(t, 1).Public()
	sum := sha256.Sum256(append([]byte("gaia-harness/x\n\x01"), public.Raw()...))
	if got := (noteKey{public: public, name: keyName("x")}).KeyHash(); fmt.Sprintf("%08x", got) != hex.EncodeToString(sum[:4]) {
		t.Errorf("KeyHash = %08x, want %x", got, sum[:4])
	}
}

// TestRootOf: who has the hashes of the leaves alone comes to the same root, and
// to another one of other hashes or another order.
func TestRootOf(t *testing.T) {
	for n := 1; n < 20; n++ {
		leaves, hashes := make([]Leaf, n), make([]tlog.Hash, n)
		for i := range leaves {
			leaves[i] = Leaf{Attempts: 1, Lines: int64(i), RunID: "r", TaskID: "t"}
			var err error
			if hashes[i], err = leaves[i].Hash(); err != nil {
				t.Fatal(err)
			}
		}
		want, err := rootOf(leaves)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := RootOf(hashes); err != nil || got != want {
			t.Errorf("%d leaves: %v, want %v (%v)", n, got, want, err)
		}
		if n > 1 {
			hashes[0], hashes[n-1] = hashes[n-1], hashes[0]
		} else {
			hashes[0][0] ^= 1
		}
		if got, err := RootOf(hashes); err != nil || got == want {
			t.Errorf("%d leaves: other hashes give the same root (%v)", n, err)
		}
	}
}
