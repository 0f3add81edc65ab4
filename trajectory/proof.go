package trajectory

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

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
