package ledger

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	ledgerSchema = "gaia.ledger/1"
	ledgerType   = "application/vnd.gaia-harness.ledger+json"

	// maxLedgerLine bounds an event's line, in bytes. The names of the files that it
	// touched and what it broke make it long: some hundred bytes each, of which an
	// attempt has a thousand at most.
	maxLedgerLine = 1 << 20
)

// LedgerSeal is the last line of a ledger file:
//
//	{run event}\n   as many as there are, canonical, ascending by id
//	{"events":2,"key":"ssh-ed25519 AAAA…","schema":"gaia.ledger/1","sha256":"sha256:…","signature":"…"}\n
//
// SHA256 is of all bytes before it. The signature is over DSSE's pre-authentication
// encoding of the canonical seal without it, under a payload type of its own. A file
// has exactly one acceptable form.
type LedgerSeal struct {
	Events    int64  `json:"events"`
	Key       string `json:"key"` // OpenSSH line of the signing key
	Schema    string `json:"schema"`
	SHA256    string `json:"sha256"`
	Signature string `json:"signature,omitzero"` // base64
}

// signed returns the bytes that the signature is over.
func (s LedgerSeal) signed() ([]byte, error) {
	s.Signature = ""
	payload, err := sign.Canonical(s)
	return dsse.PAE(ledgerType, payload), err
}

// check wants the signature to be by the key that the seal names.
func (s LedgerSeal) check() (sign.PublicKey, error) {
	key, err := sign.ParsePublicKey(s.Key)
	if err != nil || key.Line() != s.Key {
		return sign.PublicKey{}, errors.New("its key is not one ssh-ed25519 key")
	}
	signature, err := sign.DecodeBase64(s.Signature)
	if err != nil {
		return sign.PublicKey{}, errors.New("its signature is not base64")
	}
	message, err := s.signed()
	if err != nil || !key.Verify(message, signature) {
		return sign.PublicKey{}, errors.New("its signature is not good")
	}
	return key, nil
}

// LedgerWriter writes a ledger file.
type LedgerWriter struct {
	to     io.Writer
	digest hash.Hash
	last   string
	events int64
}

// NewLedgerWriter begins a ledger file.
func NewLedgerWriter(to io.Writer) *LedgerWriter {
	return &LedgerWriter{to: to, digest: sha256.New()}
}

// Add writes the next event. One that does not come after the last, or that no
// reader would accept, is an error.
func (w *LedgerWriter) Add(e RunEvent) error {
	if e.ID <= w.last {
		return fmt.Errorf("the event %q does not come after %q", e.ID, w.last)
	}
	if err := CheckRunEvent(e); err != nil {
		return fmt.Errorf("the event %q: %w", e.ID, err)
	}
	line, err := sign.Canonical(e)
	if err != nil {
		return err
	}
	if len(line) >= maxLedgerLine {
		return fmt.Errorf("the event %q takes more than %d bytes", e.ID, maxLedgerLine)
	}
	line = append(line, '\n')
	w.digest.Write(line)
	w.last = e.ID
	w.events++
	_, err = w.to.Write(line)
	return err
}

// Seal ends the file.
func (w *LedgerWriter) Seal(key sign.Key) error {
	s := LedgerSeal{Events: w.events, Key: key.Public().Line(), Schema: ledgerSchema, SHA256: sign.DigestOf(w.digest)}
	message, err := s.signed()
	if err != nil {
		return err
	}
	s.Signature = base64.StdEncoding.EncodeToString(key.Sign(message))
	line, err := sign.Canonical(s)
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(line, '\n'))
	return err
}
