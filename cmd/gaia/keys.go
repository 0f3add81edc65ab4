package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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
	found, err := a.findKey(flag)
	if err == nil && found.source == fromDir {
		if err := a.mendPublic(found.path); err != nil { // whoever made the key may have died before
			fmt.Fprintf(a.stderr, "gaia: the public half of the signing key is missing or another key's, and cannot be written: %s\n", oneLine(err.Error()))
		}
	}
	if err == nil {
		a.noticeExpired(found.key.Public())
	}
	if !errors.Is(err, errNoKey) {
		return found.key, err
	}
	dir, err := a.keyDir()
	if err != nil {
		return sign.Key{}, err
	}
	path := filepath.Join(dir, defaultKey)
	key, err := sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return sign.LoadKey(path)
	}
	if err != nil {
		return sign.Key{}, notMade(path, err)
	}
	fmt.Fprintf(a.stderr, "gaia: made a signing key: %s\ngaia: its public half: %s.pub (%s)\n", path, path, key.Public().ID())
	return key, nil
}

// mendPublic makes the .pub beside a private key what it should be, and says
// so if it was something else.
func (a *app) mendPublic(path string) error {
	replaced, err := sign.WritePublic(path)
	if replaced {
		fmt.Fprintf(a.stderr, "gaia: %s.pub did not hold the public half of the key beside it, and was made anew\n", oneLine(path))
	}
	return err
}

// notMade is the failure of making a key.
func notMade(path string, err error) error {
	if errors.Is(err, sign.ErrPublicOnly) {
		return fail(exitFailure, fmt.Errorf("making the signing key %q: %w", path, err),
			"put the private half beside it; or give "+quoteArg(path+".pub")+" another name if you trust that key, or remove it")
	}
	err = fmt.Errorf("making a signing key: %w", err)
	if noPlace(err) {
		return fail(exitFailure, err, "choose another place with 'gaia key init --key FILE', and give --key FILE to what signs")
	}
	return err
}

// noticeExpired says so before work is signed with a key that verify refuses.
func (a *app) noticeExpired(key sign.PublicKey) {
	dir, err := a.keyDir()
	if err != nil {
		return
	}
	listed, err := ownList(dir)
	if err != nil {
		return // who needs the list says what is wrong with it
	}
	if _, outdated := listed.Lookup(key, time.Now()); outdated != nil {
		fmt.Fprintf(a.stderr, "gaia: you do not trust your own signing key now, and verify will refuse it: %s\n", outdated)
	}
}

var errNoKey = errors.New("there is no signing key")

// existingKey is signingKey, but makes none.
func (a *app) existingKey(flag string) (sign.Key, error) {
	found, err := a.findKey(flag)
	return found.key, err
}

// Where a signing key was found.
const (
	fromFlag    = "--key"
	fromContent = "GAIA_SIGNING_KEY"
	fromFile    = "GAIA_SIGNING_KEY_FILE"
	fromDir     = "key directory"
)

// foundKey is a signing key, and where it was found.
type foundKey struct {
	key    sign.Key
	source string
	path   string // "" if it came as content
}

func (a *app) findKey(flag string) (foundKey, error) {
	if flag != "" {
		return namedKey(flag, fromFlag)
	}
	if content := a.getenv(fromContent); content != "" {
		key, err := sign.ParseKey([]byte(content))
		if err != nil {
			return foundKey{}, unusable(fmt.Errorf("reading %s: %w", fromContent, err), "")
		}
		return foundKey{key, fromContent, ""}, nil
	}
	if path := a.getenv(fromFile); path != "" {
		return namedKey(path, fromFile)
	}
	dir, err := a.keyDir()
	if err != nil {
		return foundKey{}, err
	}
	path := filepath.Join(dir, defaultKey)
	key, err := sign.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundKey{}, errNoKey
	}
	if err != nil {
		return foundKey{}, unusable(err, path)
	}
	return foundKey{key, fromDir, path}, nil
}

// namedKey loads a key that the user asked for by name.
func namedKey(path, source string) (foundKey, error) {
	key, err := sign.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundKey{}, usage("gaia key init makes one", "there is no signing key at %q", path)
	}
	if err != nil {
		return foundKey{}, unusable(err, path)
	}
	return foundKey{key, source, path}, nil
}

// unusable adds what can be done about a key that is there and of no use.
func unusable(err error, path string) error {
	const own = "gaia key init --key FILE makes a key for gaia alone, without a passphrase and with mode 0600"
	switch {
	case errors.Is(err, sign.ErrPassphrase) && path != "":
		return fail(exitFailure, err, own, "or take the passphrase off a copy of the file: ssh-keygen -p -f COPY")
	case errors.Is(err, sign.ErrPassphrase):
		return fail(exitFailure, err, own)
	case errors.Is(err, sign.ErrPublicHalf):
		return fail(exitFailure, err, "give the private key file", own)
	}
	return err
}

// judgeCache opens the signed cache of the judge's verdicts. Those by the user's
// own key and by the keys in the key directory count. A run that goes on cannot
// do without the cache of its plan.
func (a *app) judgeCache(key sign.Key, resumed bool) (*judgecache.Cache, error) {
	instead := "fix that, or give --no-judge-cache"
	if resumed {
		instead = "fix that: the run was planned with a judge cache"
	}
	dir, err := a.judgeCacheDir(instead)
	if err != nil {
		return nil, err
	}
	trusted, err := a.ownKeys()
	if err != nil {
		return nil, err
	}
	return judgecache.Open(dir, key, trusted, time.Now)
}

// judgeCacheDir is where the judge's verdicts are kept; hint says what to do
// where there is no such place.
func (a *app) judgeCacheDir(hint string) (string, error) {
	base := a.xdg("XDG_CACHE_HOME", ".cache")
	if base == "" {
		return "", fail(exitFailure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), hint)
	}
	return filepath.Join(base, "gaia", "judgments"), nil
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
	f := &failure{Code: code, Err: err, Reasons: badEntries(err.Dir, err.Sweep.Bad), Hints: cacheHints(err.Dir, err.Sweep.Bad)}
	f.Hints = append(f.Hints, then)
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
