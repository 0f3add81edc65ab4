package trajectory

import (
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/canonical"
	"golang.org/x/mod/sumdb/tlog"
)

// Leaf is a task's entry in the tree: canonical JSON of these members. Digest is over all lines of the journal that
// have the task's id, in order, newlines included. Salt is the one of its task_sealed event, so that a leaf cannot be
// guessed from a known question and answer.
type Leaf struct {
	Attempts int    `json:"attempts"`
	Digest   string `json:"digest"`
	Lines    int64  `json:"lines"`
	RunID    string `json:"run_id"`
	Salt     string `json:"salt"`
	TaskID   string `json:"task_id"`
}

// Hash returns the leaf's hash in the tree: SHA-256 over a zero byte and its canonical JSON.
func (l Leaf) Hash() (tlog.Hash, error) {
	b, err := canonical.Encode(l)
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("encoding the leaf of task %q: %w", l.TaskID, err)
	}
	return tlog.RecordHash(b), nil
}

// RootOf returns the RFC 6962 root over leaves in plan order, of which only the hashes are known.
func RootOf(leaves []tlog.Hash) (tlog.Hash, error) {
	read, err := tree(leaves)
	if err != nil {
		return tlog.Hash{}, err
	}
	return tlog.TreeHash(int64(len(leaves)), read)
}

// Prove returns the proof that the tree over leaves holds the one at index.
func Prove(leaves []Leaf, index int64) (Inclusion, error) {
	size := int64(len(leaves))
	hashes, err := hashesOf(leaves)
	if err != nil {
		return Inclusion{}, err
	}
	read, err := tree(hashes)
	if err != nil {
		return Inclusion{}, err
	}
	proof, err := tlog.ProveRecord(size, index, read)
	if err != nil {
		return Inclusion{}, fmt.Errorf("proving leaf %d of %d: %w", index, size, err)
	}
	return Inclusion{Hashes: proof, Index: index, Size: size}, nil
}

// hashesOf returns the hashes of leaves.
func hashesOf(leaves []Leaf) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(leaves))
	for i, leaf := range leaves {
		var err error
		if hashes[i], err = leaf.Hash(); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// tree returns the reader of what the tree over leaves consists of.
func tree(leaves []tlog.Hash) (tlog.HashReader, error) {
	var t Tree
	for _, hash := range leaves {
		if err := t.add(hash); err != nil {
			return nil, err
		}
	}
	return t.read(), nil
}

// Tree is a tree that grows leaf by leaf, as that of a shard does with each task that is committed.
type Tree struct {
	stored []tlog.Hash
	size   int64
}

// Add appends a leaf.
func (t *Tree) Add(leaf Leaf) error {
	hash, err := leaf.Hash()
	if err != nil {
		return err
	}
	return t.add(hash)
}

func (t *Tree) add(leaf tlog.Hash) error {
	hashes, err := tlog.StoredHashesForRecordHash(t.size, leaf, t.read())
	if err != nil {
		return fmt.Errorf("hashing leaf %d: %w", t.size+1, err)
	}
	t.stored = append(t.stored, hashes...)
	t.size++
	return nil
}

// Size returns how many leaves the tree has.
func (t *Tree) Size() int64 { return t.size }

// Root returns the RFC 6962 root over the leaves so far.
func (t *Tree) Root() (tlog.Hash, error) { return tlog.TreeHash(t.size, t.read()) }

func (t *Tree) read() tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			out[i] = t.stored[at]
		}
		return out, nil
	})
}

// Inclusion proves that a tree of Size leaves holds a leaf at Index, from 0: the RFC 6962 audit path, from the leaf's
// sibling up. Hashes are base64 in JSON.
type Inclusion struct {
	Hashes []tlog.Hash `json:"hashes"`
	Index  int64       `json:"index"`
	Size   int64       `json:"size"`
}

// Check reports whether the tree of this root holds leaf where i says.
func (i Inclusion) Check(leaf Leaf, root tlog.Hash) error {
	hash, err := leaf.Hash()
	if err != nil {
		return err
	}
	if err := tlog.CheckRecord(i.Hashes, i.Size, root, i.Index, hash); err != nil {
		return errors.New("does not lead from the leaf to the checkpoint's root")
	}
	return nil
}

// TlogProof returns the proof with its signed checkpoint as a c2sp.org/tlog-proof@v1 file. What it proves to be there
// is the canonical JSON of the leaf.
func (i Inclusion) TlogProof(checkpoint []byte) []byte {
	out := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %d\n", i.Index)
	for _, h := range i.Hashes {
		out = fmt.Appendf(out, "%s\n", h)
	}
	return append(append(out, '\n'), checkpoint...)
}
