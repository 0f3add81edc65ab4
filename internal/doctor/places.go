package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Room on disk, in bytes. Below littleRoom four workspaces at their limit of 256 MiB
// fill it; below noRoom four lines of the journal at theirs of 16 MiB do.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

// Temp looks at the temporary directory, which no one makes.
func Temp(dir string, free func(string) (int64, error)) Finding {
	const name, use, instead = "room for temp", "what is not kept", "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp"
	if _, err := os.Stat(dir); err != nil {
		return Fails(name, use, fmt.Errorf("looking at the temporary directory %q: %w", dir, regular.Cause(err)), instead)
	}
	return Room(name, use, dir, instead, free)
}

// Creatable returns the place in which a directory is, or would be made with those
// above it, and an error if it could not be.
func Creatable(dir string) (place string, err error) {
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

// Room looks at the place where a directory is or would be made.
func Room(name, use, dir, instead string, free func(string) (int64, error)) Finding {
	place, err := Creatable(dir)
	if err != nil {
		return Fails(name, use, exit.New(exit.Failure, err, instead), "")
	}
	n, err := free(place)
	if err != nil {
		return Unseen(name, use, fmt.Sprintf("cannot be told of %s: %v", view.Quote(place), err))
	}
	detail := fmt.Sprintf("%s free at %s", mebibytes(n), view.Quote(place))
	switch {
	case n < noRoom:
		return Fails(name, use, exit.New(exit.Failure, errors.New(detail+", which a few steps of an attempt can fill"), "make room, or "+instead), "")
	case n < littleRoom:
		return Lacks(name, use, detail+", which a few attempts can fill", "make room, or "+instead)
	}
	return Good(name, use, detail)
}

func mebibytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// HasRoom is why nothing could be kept in a directory that is still to be made.
func HasRoom(dir string) error {
	place, err := Creatable(dir)
	if err != nil {
		return err
	}
	if n, err := FreeBytes(place); err == nil && n < noRoom { // also of what takes no files, such as /proc
		return fmt.Errorf("%s free at %s", mebibytes(n), view.Quote(place))
	}
	return nil
}

// Signing says which key a run would be signed with.
func Signing(ring keyring.Ring, key string) Finding {
	const name, use = "signing key", "signs plan and run"
	found, err := ring.Find(key)
	if errors.Is(err, keyring.ErrNoKey) {
		return unmadeKey(ring, name, use)
	}
	if err != nil {
		return Fails(name, use, err, otherKey)
	}
	detail := found.Key.Public().ID() + " from "
	if found.Source == keyring.FromDir {
		detail += view.Quote(found.Path)
	} else {
		detail += found.Source
	}
	if t, _, err := QuietTrust(ring, key); err == nil {
		if outdated := t.Outdated(found.Key.Public()); outdated != "" {
			return Lacks(name, use, detail+", which you do not trust now: "+outdated, "verify will refuse what it signs: gaia key init --rotate")
		}
	}
	return Good(name, use, detail)
}

// otherKey is what repairs a key that is of no use.
const otherKey = "'gaia key init --key FILE' makes a key; name it by --key or GAIA_SIGNING_KEY_FILE, or give its content as GAIA_SIGNING_KEY"

// unmadeKey says where the key would be made on first need.
func unmadeKey(ring keyring.Ring, name, use string) Finding {
	dir, err := ring.Directory()
	if err != nil {
		return Fails(name, use, err, otherKey)
	}
	path := filepath.Join(dir, keyring.DefaultKey)
	if _, err := os.Lstat(path + ".pub"); err == nil {
		return Fails(name, use, keyring.NotCreated(path, sign.ErrPublicOnly), otherKey)
	}
	if _, err := Creatable(dir); err != nil {
		return Fails(name, use, fmt.Errorf("creating a signing key: %w", err), otherKey)
	}
	return Good(name, use, "none yet: made on first need at "+view.Quote(path))
}

// QuietTrust is whom the user trusts, and what else would be said of that.
func QuietTrust(ring keyring.Ring, key string) (t keyring.Trust, notes string, err error) {
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

func Trusted(ring keyring.Ring, key string) Finding {
	const name, use = "trusted keys", "whose signatures count"
	dir, err := ring.Directory()
	if err != nil {
		return Lacks(name, use, err.Error(), Fails(name, use, err, otherKey).Remedy)
	}
	t, notes, err := QuietTrust(ring, key)
	if err != nil {
		return Fails(name, use, err, "'gaia key list' shows what counts in "+view.Quote(dir))
	}
	if notes != "" {
		return Lacks(name, use, notes, "gaia key list shows what counts in "+view.Quote(dir))
	}
	return Good(name, use, fmt.Sprintf("%d trusted now; their directory is %s", len(t.Valid()), view.Quote(dir)))
}

// Build says which program signs for what it did.
func Build(h trajectory.Harness, err error) Finding {
	const name, use = "this program", "is named in the signed plan"
	const remedy = "build it from a clean checkout: go build ./cmd/gaia"
	if err != nil {
		return Fails(name, use, err, remedy)
	}
	switch {
	case h.Commit == "":
		return Lacks(name, use, "gaia "+h.Version+" of an unknown commit", remedy)
	case h.Dirty:
		return Lacks(name, use, "gaia "+h.Version+" of commit "+h.Commit+" with changes that are not in it", remedy)
	}
	return Good(name, use, "gaia "+h.Version+" of commit "+h.Commit)
}
