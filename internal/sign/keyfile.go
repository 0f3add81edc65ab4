package sign

import (
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/durable"
	"golang.org/x/crypto/ssh"
)

// PermissionError says that others can read a key file.
type PermissionError struct {
	What string // kind of key
	Path string
	Mode fs.FileMode
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("%s %q can be read by others (mode %04o)", e.What, e.Path, e.Mode)
}

// readRegular reads at most limit bytes of a regular file, called what in errors. The permissions are taken from the
// open file, so the file that was checked is the file that is read.
func readRegular(what, path string, limit int64) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path) // opening a pipe would wait for its writer
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s %q is not a regular file", what, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s %q is not a regular file", what, path)
	}
	content, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s %q: %w", what, path, err)
	}
	return content, info.Mode().Perm(), nil
}

// LoadKey reads a key file.
func LoadKey(path string) (Key, error) {
	key, _, err := LoadKeyBefore(path)
	return key, err
}

// LoadKeyBefore reads a key file that has more after the key, and returns that, too.
func LoadKeyBefore(path string) (key Key, rest []byte, err error) {
	const what = "signing key"
	content, mode, err := readRegular(what, path, 1<<16)
	if err != nil {
		return Key{}, nil, err
	}
	key, err = ParseKey(content)
	if mode&0o077 != 0 && !errors.Is(err, ErrPublicHalf) { // that one is meant to be read
		return Key{}, nil, &PermissionError{what, path, mode}
	}
	if err != nil {
		return Key{}, nil, fmt.Errorf("reading %s %q: %w", what, path, err)
	}
	_, rest = pem.Decode(content)
	return key, rest, nil
}

// ErrPublicOnly says that there is a .pub where a key was to be made. It may be all that is left of a key, or another
// person's key.
var ErrPublicOnly = errors.New("a public key is there already, without its private half")

// CreateKey makes a key and writes it to path (0600) and its public line to path+".pub". The private file is written
// aside, synced and then linked, so that a crash never leaves half a key and an existing key is never replaced: then
// the error matches fs.ErrExist, or [ErrPublicOnly] if there is but a .pub. A crash between the two files leaves a key
// without its .pub, which [WritePublic] repairs.
func CreateKey(path string, random io.Reader) (Key, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Key{}, err
	}
	if _, err := os.Lstat(path + ".pub"); err == nil {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // whoever makes a key writes it before its .pub
			return Key{}, ErrPublicOnly
		}
	}
	key, err := putKey(path, random)
	if err != nil {
		return Key{}, err
	}
	_, err = WritePublic(path)
	return key, err
}

// RenewKey replaces the key at path by a new one. The old one stays as the file aside, in the same directory: if there
// is such a file it must hold that very key, as an earlier call or a copy of the directory leaves it, else the error
// matches fs.ErrExist. There is a whole key at path at every moment; its .pub goes before the key changes and comes
// after, so that it never shows another key's public half. Once all is written and before the key changes, ready is
// called to inform whatever relies on the old key; its error ends the renewal.
func RenewKey(path, aside string, random io.Reader, ready func() error) (Key, error) {
	r := renewal{path: path, aside: aside}
	defer func() { os.Remove(r.next) }()
	for _, step := range r.steps(random, ready) {
		if err := step(); err != nil {
			return Key{}, err
		}
	}
	return r.key, nil
}

// renewal is the state of [RenewKey].
type renewal struct {
	path, aside string
	key         Key
	next        string // the new key's file, before it is renamed
}

// steps are what [RenewKey] does; a process may die between any two of them.
func (r *renewal) steps(random io.Reader, ready func() error) []func() error {
	dir := filepath.Dir(r.path)
	return []func() error{
		func() error { return keepAside(r.path, r.aside) },
		func() (err error) {
			r.key, r.next, err = writeKey(dir, random)
			return err
		},
		ready,
		func() error {
			if err := os.Remove(r.path + ".pub"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return durable.SyncDir(dir)
		},
		func() error { return os.Rename(r.next, r.path) },
		func() error { // over what another process made up for meanwhile
			if err := putPublic(r.path, r.key.public, os.Rename); err != nil {
				return err
			}
			return durable.SyncDir(dir)
		},
	}
}

// keepAside gives the key at path a second name.
func keepAside(path, aside string) error {
	err := os.Link(path, aside)
	if errors.Is(err, fs.ErrExist) {
		err = isKept(path, aside)
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// isKept requires a regular file at aside: a symbolic link could lead to the file that is about to be replaced.
func isKept(path, aside string) error {
	if durable.SameFile(path, aside) {
		return nil
	}
	other := fmt.Errorf("another file is at %q: %w", aside, fs.ErrExist)
	if info, err := os.Lstat(aside); err != nil || !info.Mode().IsRegular() {
		return other
	}
	key, err := LoadKey(path)
	if err != nil {
		return err
	}
	kept, err := LoadKey(aside)
	var open *PermissionError
	if errors.As(err, &open) {
		return err
	}
	if err != nil || !kept.public.Equal(key.public) {
		return other
	}
	return nil
}

// putKey makes a key, writes it aside and links it to path, where no file may exist.
func putKey(path string, random io.Reader) (Key, error) {
	key, aside, err := writeKey(filepath.Dir(path), random)
	if err != nil {
		return Key{}, err
	}
	defer os.Remove(aside)
	return key, os.Link(aside, path)
}

// writeKey makes a key and writes it to a new file, whose name it returns.
func writeKey(dir string, random io.Reader) (Key, string, error) {
	key, err := NewKey(random)
	if err != nil {
		return Key{}, "", err
	}
	content, err := key.Encode()
	if err != nil {
		return Key{}, "", err
	}
	name, err := durable.WriteAside(dir, content, 0o600)
	return key, name, err
}

// Encode returns the content of a key file, which has no passphrase.
func (k Key) Encode() ([]byte, error) {
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(k.private), "gaia")
	if err != nil {
		return nil, fmt.Errorf("encoding signing key: %w", err)
	}
	return pem.EncodeToMemory(block), nil
}

// WritePublic writes the public half of the key at path to path+".pub", unless that is what the file holds. It reports
// whether there was a file with anything else, which is replaced, also where it is a link.
func WritePublic(path string) (replaced bool, err error) {
	// The .pub is read before the key, as a renewal writes it after the key: a new .pub is never held against an old
	// key.
	found, unread := readPublic(path + ".pub")
	key, err := LoadKey(path)
	if err != nil || unread == nil && found.Equal(key.public) {
		return false, err
	}
	put := os.Rename
	if errors.Is(unread, fs.ErrNotExist) {
		put = os.Link
	}
	err = putPublic(path, key.public, put)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return !errors.Is(unread, fs.ErrNotExist), durable.SyncDir(filepath.Dir(path))
}

// readPublic reads a public key file; the error matches fs.ErrNotExist only if nothing has that name, not even a link.
func readPublic(path string) (PublicKey, error) {
	if _, err := os.Lstat(path); err != nil {
		return PublicKey{}, err
	}
	content, _, err := readRegular("public key", path, 1<<16)
	if err != nil {
		return PublicKey{}, errors.New("not a file that can be read")
	}
	return ParsePublicFile(content)
}

// putPublic writes a public key aside and moves it beside the key at path by link, which requires that there is no such
// file, or rename: whole or not at all.
func putPublic(path string, public PublicKey, put func(from, to string) error) error {
	aside, err := durable.WriteAside(filepath.Dir(path), []byte(public.Line()+"\n"), 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(aside)
	return put(aside, path+".pub")
}
