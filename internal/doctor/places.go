package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// Room on disk, in bytes. Below littleRoom four workspaces at their limit of 256 MiB
// fill it; below noRoom four lines of the journal at theirs of 16 MiB do.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

// Temp checks the temporary directory, which no command creates.
func Temp(dir string, free func(string) (int64, error)) Finding {
	const name, use = "room for temp", "what is not kept"
	const instead = "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp"
	if _, err := os.Stat(dir); err != nil {
		return Fails(name, use, fmt.Errorf("looking at the temporary directory %q: %w", dir, regular.Cause(err)), instead)
	}
	return Room(name, use, dir, instead, free)
}

// creatable returns the nearest directory above dir, or dir itself, that exists, and an error if dir could not
// be created there.
func creatable(dir string) (place string, err error) {
	if place, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	info, err := os.Stat(place)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(place) != place {
		place = filepath.Dir(place)
		info, err = os.Stat(place)
	}
	switch {
	case err != nil:
		return place, fmt.Errorf("looking at %q: %w", place, regular.Cause(err))
	case !info.IsDir():
		return place, fmt.Errorf("%q is not a directory", place)
	case syscall.Access(place, 2) != nil: // to write
		return place, fmt.Errorf("nothing can be made in %q", place)
	}
	return place, nil
}

// Room checks the place where a directory is or would be created. instead names another place; free returns the
// free bytes of a place.
func Room(name, use, dir, instead string, free func(string) (int64, error)) Finding {
	place, err := creatable(dir)
	if err != nil {
		return Finding{Name: name, Use: use, State: Failed, Detail: err.Error(), Remedy: instead}
	}
	n, err := free(place)
	if err != nil {
		return unseen(name, use, fmt.Sprintf("cannot be determined for %s: %v", view.Quote(place), err))
	}
	detail := fmt.Sprintf("%s free at %s", mebibytes(n), view.Quote(place))
	switch {
	case n < noRoom:
		return Fails(name, use, errors.New(detail+", which a few steps of an attempt can fill"), "make room, or "+instead)
	case n < littleRoom:
		return lacks(name, use, detail+", which a few attempts can fill", "make room, or "+instead)
	}
	return good(name, use, detail)
}

func mebibytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// HasRoom returns why nothing could be written to a directory that is still to be created; nil if it could.
func HasRoom(dir string) error {
	place, err := creatable(dir)
	if err != nil {
		return err
	}
	if n, err := FreeBytes(place); err == nil && n < noRoom { // also of what takes no files, such as /proc
		return fmt.Errorf("%s free at %s", mebibytes(n), view.Quote(place))
	}
	return nil
}

// Signing checks the key that a run would be signed with.
func Signing(ring keyring.Ring, key string) Finding {
	const name, use = "signing key", "signs plan and run"
	found, err := ring.Find(key)
	if errors.Is(err, keyring.ErrNoKey) {
		return unmadeKey(ring, name, use)
	}
	if err != nil {
		return Fails(name, use, err, otherKey)
	}
	from := found.Source
	if from == keyring.FromDir {
		from = view.Quote(found.Path)
	}
	detail := found.Key.Public().ID() + " from " + from
	if t, _, err := quietTrust(ring, key); err == nil {
		if outdated := t.Outdated(found.Key.Public()); outdated != "" {
			return lacks(name, use, detail+", which you do not trust now: "+outdated, "verify will refuse what it signs: gaia key init --rotate")
		}
	}
	return good(name, use, detail)
}

// otherKey is the remedy for a key that cannot be used.
const otherKey = "'gaia key init --key FILE' makes a key; name it by --key or GAIA_SIGNING_KEY_FILE, or give its content as GAIA_SIGNING_KEY"

// unmadeKey checks the place where the key would be created on first use.
func unmadeKey(ring keyring.Ring, name, use string) Finding {
	dir, err := ring.Directory()
	if err != nil {
		return Fails(name, use, err, otherKey)
	}
	path := filepath.Join(dir, keyring.DefaultKey)
	if _, err := os.Lstat(path + ".pub"); err == nil {
		return Fails(name, use, keyring.NotCreated(path, sign.ErrPublicOnly), otherKey)
	}
	if _, err := creatable(dir); err != nil {
		return Fails(name, use, fmt.Errorf("creating a signing key: %w", err), otherKey)
	}
	return good(name, use, "none yet: made on first need at "+view.Quote(path))
}

// quietTrust returns the keys that the user trusts, and the notices of reading them.
func quietTrust(ring keyring.Ring, key string) (t keyring.Trust, notes string, err error) {
	var lines []string
	ring.Notice = func(line string) {
		if strings.HasPrefix(line, keyring.OwnLeftOut) {
			line = keyring.OwnLeftOut + "see signing key"
		}
		lines = append(lines, line)
	}
	t, err = ring.Own(key)
	return t, strings.Join(lines, "; "), err
}

// Trusted checks the keys whose signatures the user trusts.
func Trusted(ring keyring.Ring, key string) Finding {
	const name, use = "trusted keys", "whose signatures count"
	dir, err := ring.Directory()
	if err != nil {
		return lacks(name, use, err.Error(), Fails(name, use, err, otherKey).Remedy)
	}
	t, notes, err := quietTrust(ring, key)
	if err != nil {
		return Fails(name, use, err, "'gaia key list' shows what counts in "+view.Quote(dir))
	}
	if notes != "" {
		return lacks(name, use, notes, "gaia key list shows what counts in "+view.Quote(dir))
	}
	return good(name, use, fmt.Sprintf("%d trusted now; their directory is %s", len(t.Valid()), view.Quote(dir)))
}

// Build checks which build of this program would be named in the plan.
func Build(h trajectory.Harness, err error) Finding {
	const name, use = "this program", "is named in the signed plan"
	const remedy = "build it from a clean checkout: go build ./cmd/gaia"
	if err != nil {
		return Fails(name, use, err, remedy)
	}
	switch {
	case h.Commit == "" && h.Version == trajectory.Devel:
		return lacks(name, use, "gaia "+h.Version+" of an unknown commit", remedy)
	case h.Commit == "":
		return good(name, use, "gaia "+h.Version)
	case h.Dirty:
		return lacks(name, use, "gaia "+h.Version+" of commit "+h.Commit+" with changes that are not in it", remedy)
	}
	return good(name, use, "gaia "+h.Version+" of commit "+h.Commit)
}

// Cache is the judge cache of a run.
type Cache struct {
	Off   bool   // --no-judge-cache
	Dir   string // where it is, or would be created
	NoDir error  // why there is no place for it
	// Bad returns the error of entries that do not verify, beside so many good ones.
	Bad func(r *judgecache.Reader, good int, bad []judgecache.Bad) error
}

// CheckCache checks every entry of the judge cache, as a run does that uses it.
func (p Planned) CheckCache(c Cache, ring keyring.Ring, key string) Finding {
	const name, use = "judge cache", "verdicts given before"
	// A run without a judge would not use it, and only a run with --submit-intent is refused for its content.
	fails := func(err error, ifSubmitted bool) Finding {
		f := Fails(name, use, err, "set XDG_CACHE_HOME to another place, or give --no-judge-cache")
		if p.Judge == "" || ifSubmitted && !p.SubmitIntent {
			f.State = Missing
		}
		return f
	}
	if c.Off {
		return good(name, use, "not used: --no-judge-cache")
	}
	if c.NoDir != nil {
		return fails(c.NoDir, false)
	}
	t, _, err := quietTrust(ring, key)
	if err != nil {
		return unseen(name, use, "not checked: see trusted keys")
	}
	reader, err := judgecache.Look(c.Dir, t.Valid())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := creatable(c.Dir); err != nil {
			return fails(fmt.Errorf("creating the judge cache: %w", err), true)
		}
		return good(name, use, "none yet: "+view.Quote(c.Dir))
	}
	if err != nil {
		return fails(err, false)
	}
	verified := 0
	var bad []judgecache.Bad
	reader.Each(func(e judgecache.Entry) {
		switch {
		case e.Reason != "":
			bad = append(bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		case !e.Leftover && !e.Legacy:
			verified++
		}
	})
	if len(bad) > 0 {
		return fails(c.Bad(reader, verified, bad), true)
	}
	return good(name, use, view.Count(verified, "entry")+" in "+view.Quote(c.Dir))
}
