// Package keyring finds, creates and rotates the user's signing keys, and decides whose
// signatures the user trusts.
//
// Keys are Ed25519 keys in OpenSSH files (package sign). They are in one directory: the
// user's own key as "signing" with its public half "signing.pub", and the keys that the
// user trusts as NAME.pub or as lines of allowed_signers. Only the user may be able to
// write there: a list or directory that others can write to is an error, and such a
// public key is left out. A list that cannot be read completely is an error, since it may
// limit a key. docs/keys.md describes it for users; key*.txtar in cmd/gaia show it.
package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
)

// Names in the key directory.
const (
	DefaultKey  = "signing"         // the user's own key
	allowedFile = "allowed_signers" // keys that are trusted, and until when
)

// Where a signing key was found.
const (
	fromFlag    = "--key"
	FromContent = "GAIA_SIGNING_KEY"
	FromFile    = "GAIA_SIGNING_KEY_FILE"
	FromDir     = "key directory"
)

// ErrNoKey is the error of Find where there is no signing key.
var ErrNoKey = exit.New(exit.Failure, errors.New("there is no signing key"), "gaia key init")

// Ring is where a user's keys are.
type Ring struct {
	Dir     string       // key directory; "" if there is no place for one
	Content string       // a private key, as in GAIA_SIGNING_KEY; "" if none is given
	File    string       // a private key file, as in GAIA_SIGNING_KEY_FILE; "" likewise
	Notice  func(string) // reports what the user should know; must not be nil
}

// Directory returns the key directory, or the error that there is no place for it.
func (r Ring) Directory() (string, error) {
	if r.Dir == "" {
		return "", exit.New(exit.Failure, errors.New("no place for the signing key: neither XDG_CONFIG_HOME nor HOME is set"),
			"set one of them, or give --key or GAIA_SIGNING_KEY_FILE")
	}
	return r.Dir, nil
}

// Found is a signing key, and where it was found.
type Found struct {
	Key    sign.Key
	Source string // one of the constants
	Path   string // "" if it came as content
}

// Find returns the signing key: that of the file, if file is not empty, else the
// content, the file of the ring, or the default of the key directory. It creates none:
// the error is then ErrNoKey.
func (r Ring) Find(file string) (Found, error) {
	switch {
	case file != "":
		return named(file, fromFlag)
	case r.Content != "":
		key, err := sign.ParseKey([]byte(r.Content))
		if err != nil {
			return Found{}, unusable(fmt.Errorf("reading %s: %w", FromContent, err), "")
		}
		return Found{key, FromContent, ""}, nil
	case r.File != "":
		return named(r.File, FromFile)
	}
	dir, err := r.Directory()
	if err != nil {
		return Found{}, err
	}
	return load(filepath.Join(dir, DefaultKey), FromDir, ErrNoKey)
}

// named loads a key from a file that the user named.
func named(path, source string) (Found, error) {
	return load(path, source, exit.Usagef("gaia key init --key "+view.Quote(path), "there is no signing key at %q", path))
}

// load loads a key from a file; none is the error that there is no such file.
func load(path, source string, none error) (Found, error) {
	key, err := sign.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, none
	}
	if err != nil {
		return Found{}, unusable(err, path)
	}
	return Found{key, source, path}, nil
}

// unusable adds hints to the error of a key that exists and cannot be used.
func unusable(err error, path string) error {
	const own = "gaia key init --key FILE creates a key for gaia alone, without a passphrase and with mode 0600"
	switch {
	case errors.Is(err, sign.ErrPassphrase) && path != "":
		return exit.New(exit.Failure, err, own, "or remove the passphrase from a copy of the file: ssh-keygen -p -f COPY")
	case errors.Is(err, sign.ErrPassphrase):
		return exit.New(exit.Failure, err, own)
	case errors.Is(err, sign.ErrPublicHalf):
		return exit.New(exit.Failure, err, "give the private key file", own)
	}
	return err
}

// Signing returns the key to sign with, as Find does, and creates the default key where
// there is none. It reports a key that the user does not trust now.
func (r Ring) Signing(file string) (sign.Key, error) {
	found, err := r.Find(file)
	if errors.Is(err, ErrNoKey) {
		return r.createDefault()
	}
	if err != nil {
		return sign.Key{}, err
	}
	if found.Source == FromDir {
		if err := r.repairPublic(found.Path); err != nil { // the process that created the key may have died before
			r.Notice("the public half of the signing key is missing or another key's, and cannot be written: " + view.Line(err.Error()))
		}
	}
	if dir, err := r.Directory(); err == nil {
		// An error of the list is reported by whatever needs the list.
		if listed, err := ownList(dir); err == nil {
			if _, outdated := listed.Lookup(found.Key.Public(), time.Now()); outdated != nil {
				r.Notice(fmt.Sprintf("you do not trust your own signing key now, and verify will refuse it: %s", outdated))
			}
		}
	}
	return found.Key, nil
}

func (r Ring) createDefault() (sign.Key, error) {
	path := filepath.Join(r.Dir, DefaultKey)
	key, err := sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return sign.LoadKey(path)
	}
	if err != nil {
		return sign.Key{}, NotCreated(path, err)
	}
	r.Notice("created a signing key: " + path)
	r.Notice(fmt.Sprintf("its public half: %s.pub (%s)", path, key.Public().ID()))
	return key, nil
}

// repairPublic makes the .pub beside a private key its public half, and reports if it
// held anything else.
func (r Ring) repairPublic(path string) error {
	replaced, err := sign.WritePublic(path)
	if replaced {
		r.Notice(view.Line(path) + ".pub did not hold the public half of the key beside it, and was replaced")
	}
	return err
}

// NotCreated is the error that no key could be created at path.
func NotCreated(path string, err error) error {
	if errors.Is(err, sign.ErrPublicOnly) {
		return exit.New(exit.Failure, fmt.Errorf("creating the signing key %q: %w", path, err),
			"put the private half beside it; or rename "+view.Quote(path+".pub")+" if you trust that key, or remove it")
	}
	err = fmt.Errorf("creating a signing key: %w", err)
	if durable.NoPlace(err) {
		return exit.New(exit.Failure, err, "choose another place with 'gaia key init --key FILE', and give --key FILE to what signs")
	}
	return err
}

// Created describes a new key, and the one that it replaces.
type Created struct {
	KeyID      string `json:"key_id"`
	OldKeyID   string `json:"old_key_id,omitzero"` // this and the other old ones of a rotation only
	OldPath    string `json:"old_path,omitzero"`
	OldReason  string `json:"old_reason,omitzero"` // why it is not trusted now
	OldTrusted string `json:"old_trusted,omitzero"`
	Path       string `json:"path"`
	PublicKey  string `json:"public_key"`
	PublicPath string `json:"public_path"`
	Reason     string `json:"reason,omitzero"` // why it is not trusted where it is
}

// Rows describe the key for a person.
func (k Created) Rows() [][2]string {
	rows := view.List{{"key", k.KeyID}, {"private half", k.Path}, {"public half", k.PublicPath}, {"public", k.PublicKey}}
	rows.AddNonEmpty("not trusted", k.Reason)
	if k.OldKeyID != "" {
		rows.Add("old key", k.OldKeyID)
		rows.Add("kept as", k.OldPath)
		rows.Add("trusted", k.OldTrusted)
	}
	rows.AddNonEmpty("but not now", k.OldReason)
	return rows
}

// created describes the key at path.
func (r Ring) created(path string, key sign.PublicKey) Created {
	c := Created{KeyID: key.ID(), Path: path, PublicKey: key.Line(), PublicPath: path + ".pub"}
	if !samePlace(filepath.Dir(path), r.Dir) {
		c.Reason = "it is outside the key directory: gaia key trust " + view.Quote(c.PublicPath)
	}
	return c
}

// samePlace reports whether two names are of one file or directory.
func samePlace(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// Path returns the path of the key called name in the key directory.
func (r Ring) Path(name string) (string, error) {
	if name == "" || name != filepath.Base(name) || name[0] == '.' || name[0] == filepath.Separator ||
		name == allowedFile || strings.HasSuffix(name, ".pub") {
		return "", exit.Usagef("--name is a file name in the key directory; --key takes a path", "--name %q is not a name for a key", name)
	}
	dir, err := r.Directory()
	return filepath.Join(dir, name), err
}

// Create creates a key at path. It overwrites nothing.
func (r Ring) Create(path string) (Created, error) {
	key, err := sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) {
		if _, err := sign.LoadKey(path); err == nil { // the process that created it may have died before its .pub
			if err := r.repairPublic(path); err != nil {
				return Created{}, fmt.Errorf("writing the public half of the signing key: %w", err)
			}
		}
		return Created{}, exit.New(exit.Failure, fmt.Errorf("there is a file at %q already, and it is not overwritten", path),
			"gaia key show shows your key, gaia key init --rotate replaces it")
	}
	if err != nil {
		return Created{}, NotCreated(path, err)
	}
	return r.created(path, key.Public()), nil
}

// Rotate replaces the key at path. The old private file stays under a name with its
// fingerprint. An old key that was trusted stays trusted until the given time, or
// without end if that is zero.
//
// The old key is listed before the new one takes its place, so that whenever a process
// dies there is a key, and what either signed is trusted; and after the new one is
// created, so that a failure limits no key that stays in use. Repeated, it continues
// where it was interrupted, or rotates once more.
func (r Ring) Rotate(path string, until time.Time) (Created, error) {
	dir, err := r.Directory()
	if err != nil {
		return Created{}, err
	}
	release, err := lock(dir)
	if err != nil {
		return Created{}, err
	}
	defer release()
	old, err := named(path, fromFlag)
	if err != nil {
		return Created{}, err
	}
	public := old.Key.Public()
	t, err := r.Own("")
	if err != nil {
		return Created{}, err
	}
	// The start of the fingerprint, in letters that a file name may hold.
	id := strings.NewReplacer("SHA256:", "", "+", "-", "/", "_").Replace(public.ID())
	aside := path + "." + id[:8]
	if !until.IsZero() { // before anything is changed
		s := sign.AllowedSigner{ValidBefore: until, Key: public}
		if _, err := isListed(t.listed, s, filepath.Join(dir, allowedFile)); err != nil {
			return Created{}, err
		}
	}
	kept := "no: it was not before"
	key, err := sign.RenewKey(path, aside, rand.Reader, func() (err error) {
		if word, _ := t.Of(public); word != Unknown {
			kept, err = keepTrusted(dir, filepath.Base(path), public, until)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("replacing the signing key: %w", err)
	}
	if errors.Is(err, fs.ErrExist) {
		return Created{}, exit.New(exit.Failure, err, "move that file away; nothing has changed")
	}
	if err != nil {
		return Created{}, err
	}
	source := FromContent
	if r.Content == "" {
		source = FromFile
	}
	if r.Content != "" || r.File != "" && !samePlace(r.File, path) {
		r.Notice(source + " is set: without --key, runs are still signed with that key")
	}
	c := r.created(path, key.Public())
	c.OldKeyID, c.OldPath, c.OldTrusted = public.ID(), aside, kept
	if t.listed, err = ownList(dir); err != nil {
		return Created{}, err
	}
	c.OldReason = t.Outdated(public)
	return c, nil
}

// keepTrusted lists a key that is about to be replaced, and describes until when it is
// trusted. An entry of the list stays unless a date is given.
func keepTrusted(dir, name string, key sign.PublicKey, until time.Time) (string, error) {
	listed, err := ownList(dir)
	if err != nil {
		return "", err
	}
	if known, _ := listed.Lookup(key, time.Time{}); known && until.IsZero() {
		return "as " + allowedFile + " says already", nil
	}
	s := sign.AllowedSigner{Principals: name, Namespaces: sign.Namespace, ValidBefore: until, Key: key}
	if sign.CheckPrincipals(name) != nil {
		s.Principals = key.ID()
	}
	if _, err := add(dir, s); err != nil {
		return "", err
	}
	if until.IsZero() {
		return "without end", nil
	}
	return "until " + view.Time(until), nil
}

// Shown describes the key that a run would be signed with.
type Shown struct {
	KeyID     string `json:"key_id"`
	Path      string `json:"path,omitzero"` // none if it came as content
	PublicKey string `json:"public_key"`
	Reason    string `json:"reason,omitzero"` // why it is not trusted
	Source    string `json:"source"`
	Trust     string `json:"trust"` // OK, Unknown or Expired
}

// Rows describe the key for a person.
func (k Shown) Rows() [][2]string {
	rows := view.List{{"key", k.KeyID}, {"public", k.PublicKey}, {"from", k.Source}}
	rows.AddNonEmpty("file", k.Path)
	if k.Reason != "" {
		k.Trust += ": " + k.Reason
	}
	rows.Add("trust", k.Trust)
	return rows
}

// Show describes the key that Find returns.
func (r Ring) Show(file string) (Shown, error) {
	found, err := r.Find(file)
	if err != nil {
		return Shown{}, err
	}
	t, err := r.Own("")
	if err != nil {
		return Shown{}, err
	}
	key := found.Key.Public()
	word, _ := t.Of(key)
	return Shown{KeyID: key.ID(), Path: found.Path, PublicKey: key.Line(), Reason: t.Outdated(key), Source: found.Source, Trust: word}, nil
}

// Shared loads an HMAC key that the user asked for by name.
func Shared(path string) (sign.HMACKey, error) {
	key, err := sign.LoadHMACKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sign.HMACKey{}, exit.Usagef("give the file of the key that signer and reader share", "there is no HMAC key at %q", path)
	}
	if errors.Is(err, sign.ErrHMACKeySize) {
		return sign.HMACKey{}, exit.New(exit.Failure, err, "make a key of random bytes: (umask 077; head -c 32 /dev/urandom > shared.key)")
	}
	return key, err
}
