package rundir

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io/fs"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
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

	Journals []SignedJournal // of the shards of a merged run, or of the one whose folder it is
}

// SignedJournal is a journal of which the key of a shard signed the tree head.
type SignedJournal struct {
	Events int64
	Head   string
	KeyID  string
	Name   string // of its file
}

// Signed returns what the keys of the run have signed of it. Of the folder of a shard the key of the plan signed the plan
// alone; Events and Head are then those of no journal.
func (r *Run) Signed() Signed {
	if r.Shard != nil {
		s := Signed{KeyID: r.Key.ID(), ManifestSHA256: r.ManifestSHA256, RunID: r.Manifest.RunID}
		if r.ShardDone {
			s.Journals = []SignedJournal{{Events: r.End.Events, Head: r.End.Head, KeyID: r.ShardKey.ID(), Name: trajectory.JournalFile}}
		}
		return s
	}
	var journals []SignedJournal
	if r.Shards != nil {
		for _, s := range r.Shards.Shards {
			if key, err := sign.ParsePublicKey(s.Shard.Key); err == nil && s.Events > 0 {
				journals = append(journals, SignedJournal{Events: s.Events, Head: s.Head, KeyID: key.ID(), Name: s.Journal()})
			}
		}
	}
	return Signed{Journals: journals, Complete: r.Complete, Events: r.End.Events, Head: r.End.Head, KeyID: r.Key.ID(), ManifestSHA256: r.ManifestSHA256, Root: r.RootHash, RunID: r.Manifest.RunID}
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
// after so many events of the journal of this name at the other path, "" if that is not at hand. A finished journal is
// the beginning of no other, since run_completed is its last event.
//
// The key of a shard vouches for two histories if it signed the tree head of a journal that a merged run does not list,
// and that is the beginning of none that it lists by this key, nor one of these of it. Both journals of a shard that ran
// twice can be listed.
func Equivocates(a, b Signed, paths [2]string, headAt func(path, journal string, events int64) (string, error)) (*Equivocation, error) {
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
	case a.Head == "" && b.Head == "": // two shards: no list says which of their journals count
		return nil, nil
	case a.Head == "":
		return unlisted(b, a, [2]string{paths[1], paths[0]}, headAt)
	case b.Head == "":
		return unlisted(a, b, paths, headAt)
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
		head, err := headAt(longer, trajectory.JournalFile, shorter.Events)
		if err != nil || head == "" || head == shorter.Head {
			return nil, err
		}
	}
	return differ("journal", a.Head, b.Head)
}

// unlisted looks for a journal of a shard that the merged run does not list, as Equivocates says.
func unlisted(merged, shard Signed, paths [2]string, headAt func(path, journal string, events int64) (string, error)) (*Equivocation, error) {
	for _, own := range shard.Journals {
		var found *Equivocation
		for _, listed := range merged.Journals {
			if listed.KeyID != own.KeyID {
				continue
			}
			shorter, longer, path := own, listed, paths[0]
			if listed.Events < own.Events {
				shorter, longer, path = listed, own, paths[1]
			}
			head := longer.Head
			if shorter.Events != longer.Events {
				var err error
				if head, err = headAt(path, longer.Name, shorter.Events); err != nil {
					return nil, err
				}
			}
			if head == shorter.Head || head == "" {
				found = nil
				break
			}
			found = &Equivocation{Digests: [2]string{listed.Head, own.Head}, KeyID: own.KeyID, Kind: "journal", Paths: paths, RunID: merged.RunID}
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, nil
}

// HeadAt returns the digest of the line of a journal with this number, from 1. It streams the file, whose lines have
// been verified.
func HeadAt(dir fs.FS, journal string, number int64) (string, error) {
	f, _, err := OpenFile(dir, journal, MaxFile)
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
			return "", trajectory.Faultf(journal, "ends before line %d: %v", number, err)
		case line == number:
			return canonical.DigestOf(h), nil
		default:
			line++
		}
	}
}
