package trajectory

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// CheckpointFile is the name of the signed tree head in a run directory.
const CheckpointFile = "checkpoint"

// Checkpoint is a signed tree head: a C2SP tlog-checkpoint whose origin and key name are gaia-harness/<run id>, with
// two extension lines, and a third in a rehearsal:
//
//	gaia-harness/01JZ…
//	26
//	<root, base64>
//	manifest sha256:…
//	journal 812 sha256:…
//	rehearsal
//
//	— gaia-harness/01JZ… <key hash and Ed25519 signature, base64>
//
// There is exactly one signature line, and one way to write all of it.
type Checkpoint struct {
	RunID          string
	Size           int64
	Root           tlog.Hash
	ManifestSHA256 string
	Journal        End
	Rehearsal      bool
}

func (c Checkpoint) text() string {
	text := fmt.Sprintf("%s\n%d\n%s\nmanifest %s\njournal %d %s\n",
		keyName(c.RunID), c.Size, c.Root, c.ManifestSHA256, c.Journal.Events, c.Journal.Head)
	if c.Rehearsal {
		text += "rehearsal\n"
	}
	return text
}

// ParseCheckpoint reads what a signed note says and does not look at who signed it: Verify does. Journal.LastID is not
// in a note. Any other text than the one that Sign writes is a *Fault.
func ParseCheckpoint(data []byte) (Checkpoint, error) {
	malformed := Faultf(CheckpointFile, "is not written as a signed note is")
	text, _, found := strings.Cut(string(data), "\n\n")
	lines := strings.Split(text, "\n")
	if !found || len(lines) < 5 {
		return Checkpoint{}, malformed
	}
	c := Checkpoint{RunID: strings.TrimPrefix(lines[0], keyName("")), Rehearsal: len(lines) > 5}
	c.ManifestSHA256 = strings.TrimPrefix(lines[3], "manifest ")
	count, head, _ := strings.Cut(strings.TrimPrefix(lines[4], "journal "), " ")
	c.Journal.Head = head
	for _, n := range []struct {
		text string
		into *int64
	}{{lines[1], &c.Size}, {count, &c.Journal.Events}} {
		value, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || value < 1 {
			return Checkpoint{}, malformed
		}
		*n.into = value
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || copy(c.Root[:], root) != tlog.HashSize || !canonical.IsDigest(c.ManifestSHA256) || !canonical.IsDigest(head) || c.text() != text+"\n" {
		return Checkpoint{}, malformed
	}
	return c, nil
}

// Sign returns the signed note.
func (c Checkpoint) Sign(key sign.Key) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.text()}, noteKey{key.Public(), keyName(c.RunID), key})
}

// Verify reports, with a *Fault, how data differs from what c signed by pub must be.
func (c Checkpoint) Verify(data []byte, pub sign.PublicKey) error {
	verifier := noteKey{public: pub, name: keyName(c.RunID)}
	n, err := note.Open(data, note.VerifierList(verifier))
	if err != nil {
		return Faultf(CheckpointFile, "%v", err)
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 {
		return Faultf(CheckpointFile, "has more than one signature")
	}
	if n.Text != c.text() {
		return Faultf(CheckpointFile, "does not say what the journal gives")
	}
	raw, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64) // which passes over unused bits
	if err != nil {
		return Faultf(CheckpointFile, "%v", err)
	}
	want := fmt.Sprintf("%s\n— %s %s\n", n.Text, n.Sigs[0].Name, base64.StdEncoding.EncodeToString(raw))
	if !bytes.Equal(data, []byte(want)) {
		return Faultf(CheckpointFile, "is not written as a signed note is")
	}
	return nil
}

func keyName(runID string) string { return "gaia-harness/" + runID }

// noteKey is a signing key under the name of one run, as note.Signer and note.Verifier.
type noteKey struct {
	public  sign.PublicKey
	name    string
	private sign.Key
}

func (k noteKey) Name() string { return k.name }

// KeyHash is the note format's key id: the first four bytes of SHA-256 over name, newline, algorithm 1 (Ed25519) and
// key.
func (k noteKey) KeyHash() uint32 {
	h := sha256.New()
	h.Write([]byte(k.name))
	h.Write([]byte("\n\x01"))
	h.Write(k.public.Raw())
	return binary.BigEndian.Uint32(h.Sum(nil))
}

func (k noteKey) Sign(msg []byte) ([]byte, error) { return k.private.Sign(msg), nil }
func (k noteKey) Verify(msg, sig []byte) bool     { return k.public.Verify(msg, sig) }
