package sign_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
)

func TestSigners(t *testing.T) {
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := sign.NewHMACKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	second, err := sign.NewHMACKey(bytes.Repeat([]byte("l"), 32))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := sign.NewKey(rand.NewChaCha8([32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	const typ = "application/vnd.example+json"
	payload := []byte(`{"a":1}`)
	tests := []struct {
		signer        sign.Signer
		own           sign.Verifier
		others        []sign.Verifier
		alg, idPrefix string
	}{
		{key, key.Public(), []sign.Verifier{stranger.Public(), shared}, "ed25519", "SHA256:"},
		{shared, shared, []sign.Verifier{second, key.Public(), sign.HMACKey{}}, "hmac-sha256", "hmac-sha256:"},
	}
	for _, tt := range tests {
		t.Run(tt.alg, func(t *testing.T) {
			s := sign.SignTyped(tt.signer, typ, payload)
			if s.Alg != tt.alg || !strings.HasPrefix(s.KeyID, tt.idPrefix) || s.KeyID != tt.own.KeyID() || !s.Names(tt.own) {
				t.Errorf("%+v", s)
			}
			if err := s.Verify(tt.own, typ, payload); err != nil {
				t.Error(err)
			}
			for _, other := range tt.others {
				if s.Names(other) || s.Verify(other, typ, payload) == nil {
					t.Errorf("good for %s %s", other.Alg(), other.KeyID())
				}
				// also where the signature claims to be the other's
				claimed := sign.Signature{Alg: other.Alg(), KeyID: other.KeyID(), Value: s.Value}
				if claimed.Verify(other, typ, payload) == nil {
					t.Errorf("good when said to be by %s", other.KeyID())
				}
			}
			if s.Verify(tt.own, typ+"x", payload) == nil || s.Verify(tt.own, typ, append(payload, ' ')) == nil {
				t.Error("good for another type or payload")
			}
			for _, value := range []string{"", s.Value[:len(s.Value)-4], s.Value + "AAAA", strings.TrimRight(s.Value, "="), "!" + s.Value[1:]} {
				loose := s
				loose.Value = value
				if loose.Verify(tt.own, typ, payload) == nil {
					t.Errorf("good as %q", value)
				}
			}
		})
	}
}
