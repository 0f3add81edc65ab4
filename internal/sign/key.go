// Package sign holds key files, signatures and DSSE envelopes.
//
// A signing key is a pure Ed25519 key in an OpenSSH private key file of mode 0600. Its id is the OpenSSH fingerprint:
// "SHA256:" and unpadded base64. An envelope is DSSE v1: canonical JSON {payload, payloadType, signatures} with exactly
// one signature over the pre-authentication encoding of type and payload.
//
// A [Signature] is a member of what it signs and names its algorithm: Ed25519, or HMAC-SHA256 under a secret of at
// least 32 bytes that two parties share.
package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/edwards25519"
	"golang.org/x/crypto/ssh"
)

// PublicKey is an Ed25519 public key that is safe to check signatures with.
type PublicKey struct {
	key  ed25519.PublicKey
	wire ssh.PublicKey
}

// NewPublicKey checks a raw key. Small-order points, for which anyone can make signatures, and non-canonical encodings
// are refused.
func NewPublicKey(raw ed25519.PublicKey) (PublicKey, error) {
	raw = bytes.Clone(raw)
	point, err := new(edwards25519.Point).SetBytes(raw)
	if err != nil || !bytes.Equal(point.Bytes(), raw) {
		return PublicKey{}, errors.New("not an ed25519 public key")
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return PublicKey{}, errors.New("ed25519 public key of small order")
	}
	wire, err := ssh.NewPublicKey(raw)
	if err != nil {
		return PublicKey{}, err
	}
	return PublicKey{raw, wire}, nil
}

// ParsePublicKey reads an OpenSSH line "ssh-ed25519 AAAA…", with or without a comment, and nothing but that line: the
// library would pass over lines it cannot read.
func ParsePublicKey(line string) (PublicKey, error) {
	line = strings.TrimSpace(line)
	wire, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || strings.ContainsAny(line, "\r\n") {
		return PublicKey{}, errors.New("not one OpenSSH public key line")
	}
	return publicKeyOf(wire)
}

func publicKeyOf(wire ssh.PublicKey) (PublicKey, error) {
	holder, ok := wire.(ssh.CryptoPublicKey)
	if !ok || wire.Type() != ssh.KeyAlgoED25519 { // a security key's signatures are over something else
		return PublicKey{}, fmt.Errorf("a %s key, not an ssh-ed25519 key", wire.Type())
	}
	raw, ok := holder.CryptoPublicKey().(ed25519.PublicKey)
	if !ok {
		return PublicKey{}, fmt.Errorf("a %s key, not an ssh-ed25519 key", wire.Type())
	}
	return NewPublicKey(raw)
}

// ID returns the OpenSSH fingerprint, "SHA256:…".
func (p PublicKey) ID() string { return ssh.FingerprintSHA256(p.wire) }

// Line returns the OpenSSH line without comment and newline, the one form of a key in signed files.
func (p PublicKey) Line() string {
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(p.wire)), "\n")
}

// Raw returns the 32 bytes of the key.
func (p PublicKey) Raw() ed25519.PublicKey { return bytes.Clone(p.key) }

// Equal reports whether two keys are the same.
func (p PublicKey) Equal(q PublicKey) bool { return subtle.ConstantTimeCompare(p.key, q.key) == 1 }

// Verify reports whether sig is p's signature over msg.
func (p PublicKey) Verify(msg, sig []byte) bool { return ed25519.Verify(p.key, msg, sig) }

// Key is an Ed25519 signing key.
type Key struct {
	private ed25519.PrivateKey
	public  PublicKey
}

// NewKey makes a key from 32 bytes of random.
func NewKey(random io.Reader) (Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return Key{}, fmt.Errorf("making a signing key: %w", err)
	}
	return keyOf(ed25519.NewKeyFromSeed(seed))
}

func keyOf(private ed25519.PrivateKey) (Key, error) {
	public, err := NewPublicKey(private.Public().(ed25519.PublicKey))
	if err != nil {
		return Key{}, err
	}
	return Key{private, public}, nil
}

// Public returns the public half.
func (k Key) Public() PublicKey { return k.public }

// Sign returns the 64-byte signature over msg.
func (k Key) Sign(msg []byte) []byte { return ed25519.Sign(k.private, msg) }

// Errors of keys that exist but cannot be signed with. The callers say what to do instead.
var (
	ErrPassphrase = errors.New("the signing key is protected by a passphrase, which is not supported")
	ErrPublicHalf = errors.New("it is a public key, and ssh-agent, which might hold the private one, is not supported")
)

// ParseKey reads the content of an OpenSSH private key file. The error never quotes the content. It matches
// [ErrPassphrase] or [ErrPublicHalf] where that is what is wrong.
func ParseKey(content []byte) (Key, error) {
	raw, err := ssh.ParseRawPrivateKey(content)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return Key{}, ErrPassphrase
	}
	if _, public := ParsePublicFile(content); err != nil && public == nil {
		return Key{}, ErrPublicHalf
	}
	private, ok := raw.(*ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, errors.New("not an unencrypted OpenSSH ed25519 private key")
	}
	// The file holds the public half beside the seed. Signing with another one would give signatures that do not verify
	// and that reveal the seed.
	if !private.Equal(ed25519.NewKeyFromSeed(private.Seed())) {
		return Key{}, errors.New("the two halves of the signing key do not belong together")
	}
	return keyOf(*private)
}
