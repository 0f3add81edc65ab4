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

	"golang.org/x/crypto/ssh"
)

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
	content, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return Key{}, fmt.Errorf("reading signing key %q: %w", path, err)
	}
	key, err := ParseKey(content)
	if info.Mode().Perm()&0o077 != 0 && !errors.Is(err, ErrPublicHalf) { // that one is meant to be read
		return Key{}, &PermissionError{path, info.Mode().Perm()}
	}
	if err != nil {
		return Key{}, fmt.Errorf("reading signing key %q: %w", path, err)
	}
	return key, nil
}

// CreateKey makes a key and writes it to path (0600) and its public line to
// path+".pub". The private file is written aside, synced and then linked, so
// that a crash never leaves half a key and an existing key is never replaced:
// then the error matches fs.ErrExist. A crash between the two files leaves a
// key without its .pub, which [WritePublic] makes up for.
func CreateKey(path string, random io.Reader) (Key, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Key{}, err
	}
	key, err := putKey(path, random, os.Link)
	if err != nil {
		return Key{}, err
	}
	return key, WritePublic(path, key.public)
}

// RenewKey replaces the key at path by a new one. The old one stays as the
// file aside, in the same directory, which must not exist unless it is that
// very key: then an earlier call was cut short. There is a whole key at path at
// every moment; its .pub goes before the key changes and comes after, so that
// it never shows another key's public half. What relies on the old key must
// have been told of it before.
func RenewKey(path, aside string, random io.Reader) (Key, error) {
	var key Key
	for _, step := range renewal(path, aside, random, &key) {
		if err := step(); err != nil {
			return Key{}, err
		}
	}
	return key, nil
}

// renewal returns the steps of [RenewKey], between any two of which a process
// may die.
func renewal(path, aside string, random io.Reader, key *Key) []func() error {
	return []func() error{
		func() error {
			err := os.Link(path, aside)
			if errors.Is(err, fs.ErrExist) && sameFile(path, aside) {
				return nil
			}
			return err
		},
		func() error { return SyncDir(filepath.Dir(path)) },
		func() error {
			if err := os.Remove(path + ".pub"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return SyncDir(filepath.Dir(path))
		},
		func() (err error) {
			*key, err = putKey(path, random, os.Rename)
			return err
		},
		func() error { // over what another process made up for meanwhile
			if err := putPublic(path, key.public, os.Rename); err != nil {
				return err
			}
			return SyncDir(filepath.Dir(path))
		},
	}
}

func sameFile(a, b string) bool {
	one, err := os.Lstat(a)
	if err != nil {
		return false
	}
	other, err := os.Lstat(b)
	return err == nil && os.SameFile(one, other)
}

// putKey makes a key, writes it aside and puts it at path.
func putKey(path string, random io.Reader, put func(from, to string) error) (Key, error) {
	key, err := NewKey(random)
	if err != nil {
		return Key{}, err
	}
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(key.private), "gaia")
	if err != nil {
		return Key{}, fmt.Errorf("encoding signing key: %w", err)
	}
	if err := putFile(path, pem.EncodeToMemory(block), 0o600, put); err != nil {
		return Key{}, err
	}
	return key, nil
}

// WritePublic writes the public half of the key at path to path+".pub", unless
// there is such a file.
func WritePublic(path string, public PublicKey) error {
	if _, err := os.Lstat(path + ".pub"); err == nil {
		return nil
	}
	err := putPublic(path, public, os.Link)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func putPublic(path string, public PublicKey, put func(from, to string) error) error {
	return putFile(path+".pub", []byte(public.Line()+"\n"), 0o644, put)
}

// putFile writes content aside and puts it at path by link, which wants that
// there is no such file, or rename: whole or not at all.
func putFile(path string, content []byte, mode fs.FileMode, put func(from, to string) error) error {
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
	return put(aside.Name(), path)
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
