package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/spf13/cobra"
)

// allowedFile is the list in the key directory of keys that are trusted, and
// until when.
const allowedFile = "allowed_signers"

// trustFlags are the flags of commands that must know whom the user trusts.
type trustFlags struct {
	keys    []string // --trusted-key
	allowed []string // --allowed-signers
	own     string   // file of the user's own signing key; "" for where it is looked for
}

func (f *trustFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.keys, "trusted-key", nil, "public key file, OpenSSH line or PEM, to trust besides your own")
	cmd.Flags().StringArrayVar(&f.allowed, "allowed-signers", nil, "OpenSSH allowed_signers file to read besides your own")
}

// notEmpty refuses flags that were given and say nothing, as a variable of a
// shell does that is not set: what they were to limit would have no limit.
func notEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return emptyFlag(name)
		}
	}
	return nil
}

func emptyFlag(name string) error {
	return usage("give it a value, or leave it out", "--%s is empty", name)
}

// trust is whom the user trusts: the keys, and the lists that say until when.
// A key on a list counts while one of its lines there holds, wherever else it
// lies.
type trust struct {
	keys   []trustedKey // files, and the user's own
	listed sign.AllowedSigners
	now    time.Time // the times inside a run prove nothing
}

// trustedKey is a key that is trusted for where it lies.
type trustedKey struct {
	sign.PublicKey
	name   string
	source string
}

// The words for what trust says of a key.
const (
	trustOK      = "ok"
	trustUnknown = "unknown key"
	trustExpired = "expired key" // or one whose time has not come
)

// of returns the word for a key and, if it is not ok, the failure to end with, whose
// exit code is exitUntrusted. The caller has checked the signature.
func (t trust) of(key sign.PublicKey) (string, error) {
	listed, outdated := t.listed.Lookup(key, t.now)
	switch {
	case outdated != nil:
		return trustExpired, fail(exitUntrusted, fmt.Errorf("the bytes are what was signed, but by a key that you do not trust now: %s: %w", key.ID(), outdated),
			"the times inside a run prove nothing, so it does not help that the run says it is of another day: ask for a signature by a key that is valid now")
	case listed || slices.ContainsFunc(t.keys, func(k trustedKey) bool { return k.Equal(key) }):
		return trustOK, nil
	}
	return trustUnknown, unknownSigner(key.ID(), key.Line())
}

// unknownSigner is the failure of evidence that is intact and signed by a key that the
// user does not trust; line is its public line, "" where only its id is known.
func unknownSigner(id, line string) error {
	hint := "if you know who holds that key, put its public line into a file and run: gaia key trust FILE; verify and audit also take --trusted-key FILE"
	if line != "" {
		hint += "; the line is: " + line
	}
	return fail(exitUntrusted, fmt.Errorf("the bytes are what was signed, but by a key you do not trust: %s", id), hint)
}

// ofID is of for a key of which only the id is known.
func (t trust) ofID(id string) error {
	all := t.all()
	if at := slices.IndexFunc(all, func(k sign.PublicKey) bool { return k.ID() == id }); at >= 0 {
		_, err := t.of(all[at])
		return err
	}
	return unknownSigner(id, "")
}

// checkSigner fails with exitUntrusted where the user does not trust the key that
// signed a verified run. Commands call it when they have printed their result.
func (a *app) checkSigner(found *rundir.Run) error {
	trusted, err := a.ownTrust("")
	if err == nil {
		_, err = trusted.of(found.Key)
	}
	return err
}

// all returns the keys that t says something of.
func (t trust) all() []sign.PublicKey {
	var all []sign.PublicKey
	for _, k := range t.keys {
		all = append(all, k.PublicKey)
	}
	for _, s := range t.listed {
		all = append(all, s.Key)
	}
	return all
}

// valid returns the keys that are trusted now.
func (t trust) valid() []sign.PublicKey {
	var keys []sign.PublicKey
	for _, k := range t.all() {
		if word, _ := t.of(k); word == trustOK && !slices.ContainsFunc(keys, k.Equal) {
			keys = append(keys, k)
		}
	}
	return keys
}

// trustedKeys returns whom the user trusts: the keys in the key directory, the
// user's own signing key, and the given files. A key that came with a run is
// never among them.
func (a *app) trustedKeys(f trustFlags) (trust, error) {
	if slices.Contains(f.keys, "") {
		return trust{}, emptyFlag("trusted-key")
	}
	if slices.Contains(f.allowed, "") {
		return trust{}, emptyFlag("allowed-signers")
	}
	t, err := a.ownTrust(f.own)
	if err != nil {
		return trust{}, err
	}
	for _, file := range f.keys {
		content, err := readUpTo(file, maxKeyFile)
		if err != nil {
			return trust{}, usage("name a file that holds an OpenSSH public key line, ssh-ed25519 AAAA…, or a PEM block", "reading the trusted key %q: %v", file, err)
		}
		key, err := sign.ParsePublicFile(content)
		if err != nil {
			return trust{}, usage("a trusted key is an OpenSSH public key line, ssh-ed25519 AAAA…, or a PEM block", "the trusted key %q: %v", file, err)
		}
		t.keys = append(t.keys, trustedKey{key, file, "--trusted-key"})
	}
	for _, file := range f.allowed {
		content, err := readUpTo(file, maxAllowed)
		if err != nil {
			return trust{}, usage("name a file as ssh-keygen(1) has it, ALLOWED SIGNERS", "reading allowed signers %q: %v", file, err)
		}
		listed, err := sign.ParseAllowedSigners(content)
		if err != nil {
			return trust{}, usage("see ssh-keygen(1), ALLOWED SIGNERS", "reading allowed signers %q: %v", file, err)
		}
		t.listed = append(t.listed, listed...)
	}
	return t, nil
}

// ownKeys returns the keys that the user trusts now without further flags.
func (a *app) ownKeys() ([]sign.PublicKey, error) {
	t, err := a.ownTrust("")
	return t.valid(), err
}

// ownTrust is what the key directory and the user's signing key give, which is
// the one in keyFile if that is not empty. A key
// that cannot be read is not trusted, and said; a list that cannot be read is
// an error, since it may be there to limit a key.
func (a *app) ownTrust(keyFile string) (trust, error) {
	t := trust{now: time.Now()}
	own, err := a.existingKey(keyFile)
	if err == nil {
		t.keys = append(t.keys, trustedKey{own.Public(), "you", "your signing key"})
	} else if !errors.Is(err, errNoKey) {
		fmt.Fprintf(a.stderr, "gaia: %s%s\n", ownLeftOut, oneLine(err.Error()))
	}
	dir, err := a.keyDir()
	if err != nil {
		return t, nil // there is no such place
	}
	if t.listed, err = ownList(dir); err != nil {
		return trust{}, err
	}
	files, err := a.publicFiles(dir)
	if err != nil {
		return trust{}, err
	}
	for _, k := range files {
		if len(t.keys) == 0 || !t.keys[0].Equal(k.PublicKey) { // the own key's public half
			t.keys = append(t.keys, k)
		}
	}
	return t, nil
}

// ownLeftOut is said before why a signing key cannot be used.
const ownLeftOut = "your own signing key is left out: "

// publicFiles reads the public keys in the key directory, and leaves out, and
// says, what cannot be read or trusted.
func (a *app) publicFiles(dir string) ([]trustedKey, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the key directory: %w", err)
	}
	var files []trustedKey
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pub") {
			continue
		}
		key, err := publicFile(filepath.Join(dir, e.Name()))
		if err != nil {
			fmt.Fprintf(a.stderr, "gaia: %s in the key directory is left out: %s\n", oneLine(e.Name()), oneLine(err.Error()))
			continue
		}
		files = append(files, trustedKey{key, strings.TrimSuffix(e.Name(), ".pub"), e.Name()})
	}
	return files, nil
}

// publicFile reads a public key that is trusted for where it lies. Beside a
// private key it must be that key's.
func publicFile(path string) (sign.PublicKey, error) {
	content, err := readOwn(path)
	var open *openError
	if errors.As(err, &open) {
		return sign.PublicKey{}, fmt.Errorf("others can write to it (mode %04o); fix it: %s", open.mode, open.hint())
	}
	if err != nil {
		return sign.PublicKey{}, unwrapPath(err)
	}
	key, err := sign.ParsePublicFile(content)
	if err != nil {
		return sign.PublicKey{}, err
	}
	private := strings.TrimSuffix(path, ".pub")
	if own, err := sign.LoadKey(private); err == nil && !own.Public().Equal(key) {
		return sign.PublicKey{}, fmt.Errorf("it is not the public half of %s beside it, but %s", filepath.Base(private), key.ID())
	}
	return key, nil
}

// openError says that others can change what the user's trust rests on.
type openError struct {
	path string
	mode fs.FileMode
}

func (e *openError) Error() string {
	return fmt.Sprintf("others can write to %q (mode %04o), so nobody is trusted", e.path, e.mode)
}

func (e *openError) hint() string { return "chmod go-w " + quoteArg(e.path) }

// closed wants that only the user can write to a file or directory.
func closed(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		return &openError{path, info.Mode().Perm()}
	}
	return err
}

// readOwn reads a file of the key directory.
func readOwn(path string) ([]byte, error) {
	if err := closed(path); err != nil {
		return nil, err
	}
	return readUpTo(path, maxAllowed)
}

// ownList reads the list in the key directory; there need not be one.
func ownList(dir string) (sign.AllowedSigners, error) {
	path := filepath.Join(dir, allowedFile)
	err := closed(dir)
	var content []byte
	if err == nil {
		content, err = readOwn(path)
	}
	var open *openError
	if errors.As(err, &open) {
		return nil, fail(exitFailure, err, open.hint())
	}
	if _, unlinked := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && unlinked != nil { // a link to nothing is a list that is missing
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading allowed signers %q: %w", path, unwrapPath(err))
	}
	listed, err := sign.ParseAllowedSigners(content)
	if err != nil {
		return nil, fail(exitFailure, fmt.Errorf("reading allowed signers %q: %w", path, err), "fix that line or take it out: while it cannot be read, nobody is trusted")
	}
	return listed, nil
}
