package rundir

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io/fs"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// Signed is what a verified run, package or bundle shows that a key has signed of a run: its plan and, of a finished
// run, the checkpoint.
type Signed struct {
	Complete       bool
	Events         int64 // of the journal
	Head           string
	KeyID          string
	ManifestSHA256 string
	Root           string // base64; of a finished run
	RunID          string
}

// Signed returns what the run's key has signed of it.
func (r *Run) Signed() Signed {
	return Signed{Complete: r.Complete, Events: r.End.Events, Head: r.End.Head, KeyID: r.Key.ID(), ManifestSHA256: r.ManifestSHA256, Root: r.RootHash, RunID: r.Manifest.RunID}
}

// Equivocation says that a key vouches for two histories of one run, of which neither is the beginning of the other.
type Equivocation struct {
	Digests [2]string `json:"digests"` // of the two plans, journals or trees
	KeyID   string    `json:"key_id"`
	Kind    string    `json:"kind"`  // "plan", "journal" or "tree"
	Paths   [2]string `json:"paths"` // where they are
	RunID   string    `json:"run_id"`
}

// Error names both digests and both paths.
func (e *Equivocation) Error() string {
	what := e.Kind
	if what != "plan" {
		what = "checkpoint with another " + what
	}
	return fmt.Sprintf("the key %s signed another %s of the run %s: %s at %s, %s at %s", e.KeyID, what, e.RunID, e.Digests[0], e.Paths[0], e.Digests[1], e.Paths[1])
}

// Equivocates compares what a key has signed of one run in two places. It returns nil if the runs or keys differ, or
// one journal is the beginning of the other. Only for an unfinished journal it calls headAt, which returns the head
// after so many events of the other journal, "" if that is not at hand. A finished journal is the beginning of no
// other, since run_completed is its last event.
func Equivocates(a, b Signed, paths [2]string, headAt func(path string, events int64) (string, error)) (*Equivocation, error) {
	if a.RunID != b.RunID || a.KeyID != b.KeyID {
		return nil, nil
	}
	found := &Equivocation{KeyID: a.KeyID, Paths: paths, RunID: a.RunID}
	differ := func(kind, of, and string) (*Equivocation, error) {
		if of == and {
			return nil, nil
		}
		found.Kind, found.Digests = kind, [2]string{of, and}
		return found, nil
	}
	switch {
	case a.ManifestSHA256 != b.ManifestSHA256:
		return differ("plan", a.ManifestSHA256, b.ManifestSHA256)
	case a.Head == b.Head && a.Complete && b.Complete:
		return differ("tree", a.Root, b.Root)
	case a.Head == b.Head, a.Complete && b.Complete, a.Events == b.Events:
		return differ("journal", a.Head, b.Head)
	}
	shorter, longer := a, paths[1]
	if b.Events < a.Events {
		shorter, longer = b, paths[0]
	}
	if !shorter.Complete {
		head, err := headAt(longer, shorter.Events)
		if err != nil || head == "" || head == shorter.Head {
			return nil, err
		}
	}
	return differ("journal", a.Head, b.Head)
}

// HeadAt returns the digest of the line of a journal with this number, from 1. It streams the file, whose lines have
// been verified.
func HeadAt(dir fs.FS, number int64) (string, error) {
	f, _, err := OpenFile(dir, trajectory.JournalFile, MaxFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, h := bufio.NewReaderSize(f, 64<<10), sha256.New()
	for line := int64(1); ; {
		part, err := r.ReadSlice('\n')
		if line == number {
			h.Write(part)
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err != nil:
			return "", trajectory.Faultf(trajectory.JournalFile, "ends before line %d: %v", number, err)
		case line == number:
			return canonical.DigestOf(h), nil
		default:
			line++
		}
	}
}
