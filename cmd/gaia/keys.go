package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

// keyDir is where the user's own keys lie: public keys there (*.pub) are
// trusted.
func (a *app) keyDir() (string, error) {
	base := a.xdg("XDG_CONFIG_HOME", ".config")
	if base == "" {
		return "", fail(exitFailure, errors.New("no place for the signing key: neither XDG_CONFIG_HOME nor HOME is set"),
			"set one of them, or give --key or GAIA_SIGNING_KEY_FILE")
	}
	return filepath.Join(base, "gaia", "keys"), nil
}

const defaultKey = "signing"

// signingKey returns the key to sign with: --key, GAIA_SIGNING_KEY (content),
// GAIA_SIGNING_KEY_FILE, or the default, which is made when it is first
// needed.
func (a *app) signingKey(flag string) (sign.Key, error) {
	key, err := a.existingKey(flag)
	if !errors.Is(err, errNoKey) {
		return key, err
	}
	dir, err := a.keyDir()
	if err != nil {
		return sign.Key{}, err
	}
	path := filepath.Join(dir, defaultKey)
	key, err = sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return sign.LoadKey(path)
	}
	if err != nil {
		return sign.Key{}, fmt.Errorf("making a signing key: %w", err)
	}
	fmt.Fprintf(a.stderr, "gaia: made a signing key: %s\ngaia: its public half: %s.pub (%s)\n", path, path, key.Public().ID())
	return key, nil
}

var errNoKey = errors.New("there is no signing key")

// existingKey is signingKey, but makes none.
func (a *app) existingKey(flag string) (sign.Key, error) {
	if flag != "" {
		return namedKey(flag)
	}
	if content := a.getenv("GAIA_SIGNING_KEY"); content != "" {
		key, err := sign.ParseKey([]byte(content))
		if err != nil {
			return sign.Key{}, fmt.Errorf("reading GAIA_SIGNING_KEY: %w", err)
		}
		return key, nil
	}
	if path := a.getenv("GAIA_SIGNING_KEY_FILE"); path != "" {
		return namedKey(path)
	}
	dir, err := a.keyDir()
	if err != nil {
		return sign.Key{}, err
	}
	key, err := sign.LoadKey(filepath.Join(dir, defaultKey))
	if errors.Is(err, fs.ErrNotExist) {
		return sign.Key{}, errNoKey
	}
	return key, err
}

// namedKey loads a key that the user asked for by name.
func namedKey(path string) (sign.Key, error) {
	key, err := sign.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sign.Key{}, usage("", "there is no signing key at %q", path)
	}
	return key, err
}

// trustedKeys returns the keys the user trusts: those in the key directory,
// the user's own signing key, and the given files. A key that came with a run
// is never among them.
func (a *app) trustedKeys(files []string) ([]sign.PublicKey, error) {
	trusted, err := a.ownKeys()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("", "reading the trusted key %q: %v", file, unwrapPath(err))
		}
		key, err := sign.ParsePublicKey(string(line))
		if err != nil {
			return nil, usage("a trusted key is an OpenSSH public key line, ssh-ed25519 AAAA…", "the trusted key %q: %v", file, err)
		}
		trusted = append(trusted, key)
	}
	return trusted, nil
}

// ownKeys returns the public keys in the key directory and that of the user's
// signing key. What cannot be read is not trusted, and said.
func (a *app) ownKeys() ([]sign.PublicKey, error) {
	var keys []sign.PublicKey
	own, err := a.existingKey("")
	if err == nil {
		keys = append(keys, own.Public())
	} else if !errors.Is(err, errNoKey) {
		fmt.Fprintf(a.stderr, "gaia: your own signing key is left out: %s\n", oneLine(err.Error()))
	}
	dir, err := a.keyDir()
	if err != nil {
		return keys, nil // there is no such place
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the key directory: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pub") {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a trusted key: %w", err)
		}
		key, err := sign.ParsePublicKey(string(line))
		if err != nil {
			fmt.Fprintf(a.stderr, "gaia: %s in the key directory is left out: %v\n", oneLine(e.Name()), err)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// judgeCache opens the signed cache of the judge's verdicts. Those by the user's
// own key and by the keys in the key directory count. A run that goes on cannot
// do without the cache of its plan.
func (a *app) judgeCache(key sign.Key, resumed bool) (*judgecache.Cache, error) {
	instead := "mend that, or give --no-judge-cache"
	if resumed {
		instead = "mend that: the run was planned with a judge cache"
	}
	base := a.xdg("XDG_CACHE_HOME", ".cache")
	if base == "" {
		return nil, fail(exitFailure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), instead)
	}
	trusted, err := a.ownKeys()
	if err != nil {
		return nil, err
	}
	cache, err := judgecache.Open(filepath.Join(base, "gaia", "judgments"), key, trusted, time.Now)
	if err != nil {
		return nil, fail(exitFailure, err, instead)
	}
	return cache, nil
}

// xdg returns a base directory of the XDG specification, which wants relative
// ones to be ignored; "" if there is no home either.
func (a *app) xdg(name, below string) string {
	if base := a.getenv(name); filepath.IsAbs(base) {
		return base
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, below)
	}
	return ""
}

// badCache is the failure of a run that a judge cache keeps from beginning or
// going on.
func (a *app) badCache(err *run.CacheError, code int, then string) error {
	f := &failure{code: code, err: err}
	stranger := false
	for i, b := range err.Sweep.Bad {
		if i < maxHinted {
			f.reasons = append(f.reasons, fmt.Sprintf("%s: %s", b.Name, b.Reason))
		}
		stranger = stranger || b.Reason == judgecache.Untrusted
	}
	f.hints = append(f.hints, "the cache is "+quoteArg(err.Dir)+": find out who changed these entries, then remove them")
	if stranger {
		f.hints = append(f.hints, "entries by a key of your own are trusted once its public line lies in your key directory as a file NAME.pub")
	}
	f.hints = append(f.hints, then)
	return f
}

// maxHinted bounds the entries that an error lists.
const maxHinted = 10

// unwrapPath leaves the path out of an error that names it already.
func unwrapPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
