// Command tlogproof verifies c2sp.org/tlog-proof@v1 files with the code of
// transparency-dev, which this repository does not use. It is a module of its own, so
// that nothing of it gets into the program's go.mod.
//
// It reads cases from stdin, JSON objects {"key":…,"leaf":…,"proof":…}: a
// verifier key name+hash+key, and base64 of a leaf's and of a file's bytes. For
// each it writes a line: a JSON string, "" where the proof holds, or what is
// wrong.
package main

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/formats/proof"
	inclusion "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

type proofCase struct {
	Key   string `json:"key"`
	Leaf  []byte `json:"leaf"`
	Proof []byte `json:"proof"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c proofCase
		err := in.Decode(&c)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			verdict := ""
			if err := c.verify(); err != nil {
				verdict = err.Error()
			}
			err = out.Encode(verdict)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (c proofCase) verify() error {
	verifier, err := note.NewVerifier(c.Key)
	if err != nil {
		return err
	}
	var p proof.TLogProof
	if err := p.Unmarshal(c.Proof); err != nil {
		return err
	}
	head, _, _, err := log.ParseCheckpoint(p.Checkpoint, verifier.Name(), verifier)
	if err != nil {
		return err
	}
	hasher := rfc6962.New(crypto.SHA256)
	var path [][]byte
	for _, h := range p.Hashes {
		path = append(path, h[:])
	}
	return inclusion.VerifyInclusion(hasher, p.Index, head.Size, hasher.HashLeaf(c.Leaf), path, head.Hash)
}
