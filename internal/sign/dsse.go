package sign

import (
	"encoding/base64"
	"fmt"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// envelope is DSSE v1 with its members in canonical order.
type envelope struct {
	Payload     string      `json:"payload"` // base64, standard alphabet, padded
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Seal returns a DSSE envelope around payload, signed by key.
func Seal(key Key, payloadType string, payload []byte) ([]byte, error) {
	sig := key.Sign(dsse.PAE(payloadType, payload))
	return canonical.Encode(envelope{
		Payload:     base64.StdEncoding.EncodeToString(payload),
		PayloadType: payloadType,
		Signatures:  []signature{{key.Public().ID(), base64.StdEncoding.EncodeToString(sig)}},
	})
}

// Unseal checks an envelope made by Seal and returns its payload. It must be canonical, of the given type, and have
// exactly one signature, by pub.
func Unseal(data []byte, payloadType string, pub PublicKey) ([]byte, error) {
	return UnsealBy(data, payloadType, func([]byte) (PublicKey, error) { return pub, nil })
}

// UnsealBy is Unseal for an envelope whose payload names the key that signed it. keyOf returns the key of a payload
// that is not verified yet.
func UnsealBy(data []byte, payloadType string, keyOf func(payload []byte) (PublicKey, error)) ([]byte, error) {
	var e envelope
	if err := canonical.Decode(data, &e); err != nil {
		return nil, err
	}
	if e.PayloadType != payloadType {
		return nil, fmt.Errorf("payload type is %q, not %q", e.PayloadType, payloadType)
	}
	if len(e.Signatures) != 1 {
		return nil, fmt.Errorf("%d signatures, not one", len(e.Signatures))
	}
	payload, err := DecodeBase64(e.Payload)
	if err != nil {
		return nil, err
	}
	pub, err := keyOf(payload)
	if err != nil {
		return nil, err
	}
	if e.Signatures[0].KeyID != pub.ID() {
		return nil, fmt.Errorf("signed by %q, not by %s", e.Signatures[0].KeyID, pub.ID())
	}
	sig, err := DecodeBase64(e.Signatures[0].Sig)
	if err != nil {
		return nil, err
	}
	if !pub.Verify(dsse.PAE(e.PayloadType, payload), sig) {
		return nil, fmt.Errorf("the signature is not good")
	}
	return payload, nil
}

// DecodeBase64 reads padded standard base64 and accepts exactly one encoding of each value; anything else is
// ErrMalformed.
func DecodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(s) { // the decoder skips line breaks
		return nil, canonical.ErrMalformed
	}
	return b, nil
}
