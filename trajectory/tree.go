package trajectory

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/mod/sumdb/tlog"
)

// Leaf is a task's entry in the tree: canonical JSON of these members. Digest
// is over all lines of the journal that bear the task's id, in order,
// newlines included. Salt is the one of its task_sealed event, so that a leaf
// cannot be guessed from a known question and answer.
type Leaf struct {
	Attempts int    `json:"attempts"`
	Digest   string `json:"digest"`
	Lines    int64  `json:"lines"`
	RunID    string `json:"run_id"`
	Salt     string `json:"salt"`
	TaskID   string `json:"task_id"`
}

// Root returns the RFC 6962 root over leaves in plan order.
func Root(leaves []Leaf) (tlog.Hash, error) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			out[i] = stored[at]
		}
		return out, nil
	})
	for n, leaf := range leaves {
		b, err := sign.Canonical(leaf)
		if err != nil {
			return tlog.Hash{}, fmt.Errorf("encoding the leaf of task %q: %w", leaf.TaskID, err)
		}
		hashes, err := tlog.StoredHashes(int64(n), b, read)
		if err != nil {
			return tlog.Hash{}, fmt.Errorf("hashing the leaf of task %q: %w", leaf.TaskID, err)
		}
		stored = append(stored, hashes...)
	}
	return tlog.TreeHash(int64(len(leaves)), read)
}
