package sign

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/edwards25519"
	"golang.org/x/crypto/ssh"
)

// PublicKey is an Ed25519 public key that is safe to check signatures with.
type PublicKey struct {
	key  ed25519.PublicKey
	wire ssh.PublicKey
}

// NewPublicKey checks a raw key. Small-order points, for which anybody can
// make signatures, and non-canonical encodings are refused.
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

// ParsePublicKey reads an OpenSSH line "ssh-ed25519 AAAA…", with or without a
// comment, and nothing but that line: the library would pass over lines it
// cannot read.
func ParsePublicKey(line string) (PublicKey, error) {
	line = strings.TrimSpace(line)
	wire, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || strings.ContainsAny(line, "\r\n") {
		return PublicKey{}, errors.New("not one OpenSSH public key line")
	}
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

// Line returns the OpenSSH line without comment and newline, the one form in
// which a key stands in signed files.
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

// ParseKey reads the content of an OpenSSH private key file. The error never
// quotes the content.
func ParseKey(content []byte) (Key, error) {
	raw, err := ssh.ParseRawPrivateKey(content)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return Key{}, errors.New("the signing key is protected by a passphrase, which is not supported")
	}
	private, ok := raw.(*ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, errors.New("not an unencrypted OpenSSH ed25519 private key")
	}
	// The file holds the public half beside the seed. Signing with another one
	// would give signatures that nobody can check and that betray the seed.
	if !private.Equal(ed25519.NewKeyFromSeed(private.Seed())) {
		return Key{}, errors.New("the two halves of the signing key do not belong together")
	}
	return keyOf(*private)
}

// PermissionError says that others can read a key file.
type PermissionError struct {
	Path string
	Mode fs.FileMode
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("signing key %q can be read by others (mode %04o)", e.Path, e.Mode)
}

// LoadKey reads a key file. The mode is taken from the open file, so the file
// that was checked is the file that is read.
func LoadKey(path string) (Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, err
	}
	if !info.Mode().IsRegular() {
		return Key{}, fmt.Errorf("signing key %q is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Key{}, &PermissionError{path, info.Mode().Perm()}
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return Key{}, fmt.Errorf("reading signing key %q: %w", path, err)
	}
	key, err := ParseKey(content)
	if err != nil {
		return Key{}, fmt.Errorf("reading signing key %q: %w", path, err)
	}
	return key, nil
}

// CreateKey makes a key and writes it to path (0600) and its public line to
// path+".pub". The private file is written aside, synced and then linked, so
// that a crash never leaves half a key and an existing key is never replaced:
// then the error matches fs.ErrExist.
func CreateKey(path string, random io.Reader) (Key, error) {
	key, err := NewKey(random)
	if err != nil {
		return Key{}, err
	}
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(key.private), "gaia")
	if err != nil {
		return Key{}, fmt.Errorf("encoding signing key: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Key{}, err
	}
	if err := linkNew(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return Key{}, err
	}
	if err := linkNew(path+".pub", []byte(key.public.Line()+"\n"), 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return Key{}, err
	}
	return key, SyncDir(dir)
}

// linkNew writes content to a file that must not exist, whole or not at all.
func linkNew(path string, content []byte, mode fs.FileMode) error {
	aside, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(aside.Name())
	defer aside.Close()
	if _, err := aside.Write(content); err != nil {
		return err
	}
	if err := aside.Chmod(mode); err != nil {
		return err
	}
	if err := aside.Sync(); err != nil {
		return err
	}
	return os.Link(aside.Name(), path)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
