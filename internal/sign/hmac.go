package sign

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// The least and the most bytes of an HMAC key. RFC 2104 discourages keys shorter than the digest; a file larger than
// this is no key.
const (
	minHMACKey = sha256.Size
	maxHMACKey = 4 << 10
)

// HMACKey is a secret that two parties share. Whoever can check its signatures can make them: they show nothing to a
// third party. There is no default key.
type HMACKey struct{ secret []byte }

// ErrHMACKeySize says that a secret is too short or too long.
var ErrHMACKeySize = fmt.Errorf("want %d to %d", minHMACKey, maxHMACKey)

// NewHMACKey takes a secret of 32 to 4096 bytes, else the error matches [ErrHMACKeySize].
func NewHMACKey(secret []byte) (HMACKey, error) {
	if len(secret) < minHMACKey || len(secret) > maxHMACKey {
		return HMACKey{}, fmt.Errorf("an HMAC key of %d bytes: %w", len(secret), ErrHMACKeySize)
	}
	return HMACKey{bytes.Clone(secret)}, nil
}

// LoadHMACKey reads a key file, all of whose bytes are the key, a newline at its end included. Others must not be able
// to read it (*PermissionError).
func LoadHMACKey(path string) (HMACKey, error) {
	const what = "HMAC key"
	secret, mode, err := readRegular(what, path, maxHMACKey+1)
	if err != nil {
		return HMACKey{}, err
	}
	if mode&0o077 != 0 {
		return HMACKey{}, &PermissionError{what, path, mode}
	}
	key, err := NewHMACKey(secret)
	if err != nil {
		return HMACKey{}, fmt.Errorf("reading %s %q: %w", what, path, err)
	}
	return key, nil
}

// Alg returns AlgHMAC.
func (k HMACKey) Alg() string { return AlgHMAC }

// KeyID returns "hmac-sha256:" and the first 16 bytes, in hexadecimal, of a MAC over a fixed text that no signed
// message is: the id cannot be turned back into the key.
func (k HMACKey) KeyID() string {
	return AlgHMAC + ":" + hex.EncodeToString(k.Sign([]byte("gaia-harness key id"))[:16])
}

// Sign returns the 32-byte MAC of msg.
func (k HMACKey) Sign(msg []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write(msg)
	return h.Sum(nil)
}

// Verify reports whether sig is k's MAC of msg, in constant time. The zero key verifies nothing.
func (k HMACKey) Verify(msg, sig []byte) bool {
	return len(k.secret) > 0 && hmac.Equal(k.Sign(msg), sig)
}
