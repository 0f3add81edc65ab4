package sign

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// The algorithms of signatures that name theirs.
const (
	AlgEd25519 = "ed25519"
	AlgHMAC    = "hmac-sha256"
)

// Signer makes signatures with one key: a [Key] or an [HMACKey].
type Signer interface {
	Alg() string   // AlgEd25519 or AlgHMAC
	KeyID() string // identifies a key and does not reveal it
	Sign(msg []byte) []byte
}

// Verifier checks signatures by one key: a [PublicKey], or an [HMACKey], whose holder can also make them.
type Verifier interface {
	Alg() string
	KeyID() string
	Verify(msg, sig []byte) bool
}

// Alg returns AlgEd25519.
func (k Key) Alg() string { return AlgEd25519 }

// KeyID returns the fingerprint of the public half.
func (k Key) KeyID() string { return k.public.ID() }

// Alg returns AlgEd25519.
func (p PublicKey) Alg() string { return AlgEd25519 }

// KeyID returns the fingerprint.
func (p PublicKey) KeyID() string { return p.ID() }

// Signature is a member of the value it signs, and names the algorithm and key it was made. Value is base64, standard
// alphabet, padded.
type Signature struct {
	Alg   string `json:"alg"`
	KeyID string `json:"key_id"`
	Value string `json:"value"`
}

// SignTyped signs a payload of a type, over DSSE's pre-authentication encoding: a signature of one type is never good
// for another.
func SignTyped(s Signer, payloadType string, payload []byte) Signature {
	return Signature{Alg: s.Alg(), KeyID: s.KeyID(), Value: base64.StdEncoding.EncodeToString(s.Sign(dsse.PAE(payloadType, payload)))}
}

// Names reports whether s says to be made by v's key.
func (s Signature) Names(v Verifier) bool { return s.Alg == v.Alg() && s.KeyID == v.KeyID() }

// Verify checks that s is v's signature over a payload of a type.
func (s Signature) Verify(v Verifier, payloadType string, payload []byte) error {
	if !s.Names(v) {
		return fmt.Errorf("made by %s key %q, not by %s key %s", s.Alg, s.KeyID, v.Alg(), v.KeyID())
	}
	value, err := DecodeBase64(s.Value)
	if err != nil || !v.Verify(dsse.PAE(payloadType, payload), value) {
		return errors.New("the signature is not good")
	}
	return nil
}
