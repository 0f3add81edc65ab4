package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
)

// Room on disk, in bytes. Below littleRoom four workspaces at their limit of 256 MiB
// fill it; below noRoom four lines of the journal at theirs of 16 MiB do.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

// ofPlaces looks at this machine: where runs go, whose keys count, what is kept,
// and which program this is.
func (x *exam) ofPlaces(context.Context) []diagnosis {
	return []diagnosis{
		roomFinding("room for runs", "run directories", x.runs, "choose another place with --out", freeBytes),
		tempFinding(os.TempDir(), freeBytes),
		x.signingFinding(), x.trustFinding(), x.cacheFinding(), buildFinding(),
	}
}

// tempFinding looks at the temporary directory, which nobody makes.
func tempFinding(dir string, free func(string) (int64, error)) diagnosis {
	const name, use, instead = "room for temp", "what is not kept", "set TMPDIR to a directory that you can write to, such as TMPDIR=/var/tmp"
	if _, err := os.Stat(dir); err != nil {
		return troubled(name, use, fmt.Errorf("looking at the temporary directory %q: %w", dir, unwrapPath(err)), instead)
	}
	return roomFinding(name, use, dir, instead, free)
}

// makeable returns the place in which a directory is, or would be made with those
// above it, and an error if it could not be.
func makeable(dir string) (place string, err error) {
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
		return place, fmt.Errorf("looking at %q: %w", place, unwrapPath(err))
	case !info.IsDir():
		return place, fmt.Errorf("%q is not a directory", place)
	case syscall.Access(place, 2) != nil: // to write
		return place, fmt.Errorf("nothing can be made in %q", place)
	}
	return place, nil
}

// roomFinding looks at the place where a directory is or would be made.
func roomFinding(name, use, dir, instead string, free func(string) (int64, error)) diagnosis {
	place, err := makeable(dir)
	if err != nil {
		return troubled(name, use, fail(exitFailure, err, instead), "")
	}
	n, err := free(place)
	if err != nil {
		return unlooked(name, use, fmt.Sprintf("cannot be told of %s: %v", quoteArg(place), err))
	}
	detail := fmt.Sprintf("%s free at %s", mebibytes(n), quoteArg(place))
	switch {
	case n < noRoom:
		return troubled(name, use, fail(exitFailure, errors.New(detail+", which a few steps of an attempt can fill"), "make room, or "+instead), "")
	case n < littleRoom:
		return lacking(name, use, detail+", which a few attempts can fill", "make room, or "+instead)
	}
	return fine(name, use, detail)
}

func mebibytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// signingFinding says which key a run would be signed with.
func (x *exam) signingFinding() diagnosis {
	const name, use = "signing key", "signs plan and run"
	found, err := x.keyring().Find(x.key)
	if errors.Is(err, keyring.ErrNoKey) {
		return x.unmadeKey(name, use)
	}
	if err != nil {
		return troubled(name, use, err, anotherKey)
	}
	detail := found.Key.Public().ID() + " from "
	if found.Source == keyring.FromDir {
		detail += quoteArg(found.Path)
	} else {
		detail += found.Source
	}
	if t, _, err := x.quietTrust(); err == nil {
		if outdated := t.Outdated(found.Key.Public()); outdated != "" {
			return lacking(name, use, detail+", which you do not trust now: "+outdated, "verify will refuse what it signs: gaia key init --rotate")
		}
	}
	return fine(name, use, detail)
}

// anotherKey is what mends a key that is of no use.
const anotherKey = "'gaia key init --key FILE' makes a key; name it by --key or GAIA_SIGNING_KEY_FILE, or give its content as GAIA_SIGNING_KEY"

// unmadeKey says where the key would be made on first need.
func (x *exam) unmadeKey(name, use string) diagnosis {
	dir, err := x.keyring().Directory()
	if err != nil {
		return troubled(name, use, err, anotherKey)
	}
	path := filepath.Join(dir, keyring.DefaultKey)
	if _, err := os.Lstat(path + ".pub"); err == nil {
		return troubled(name, use, keyring.NotCreated(path, sign.ErrPublicOnly), anotherKey)
	}
	if _, err := makeable(dir); err != nil {
		return troubled(name, use, fmt.Errorf("creating a signing key: %w", err), anotherKey)
	}
	return fine(name, use, "none yet: made on first need at "+quoteArg(path))
}

// quietTrust is whom the user trusts, and what else would be said of that.
func (x *exam) quietTrust() (t keyring.Trust, notes string, err error) {
	var lines []string
	ring := x.keyring()
	ring.Notice = func(line string) {
		if strings.HasPrefix(line, keyring.OwnLeftOut) {
			line = keyring.OwnLeftOut + "see signing key"
		}
		lines = append(lines, line)
	}
	t, err = ring.Own(x.key)
	return t, strings.Join(lines, "; "), err
}

func (x *exam) trustFinding() diagnosis {
	const name, use = "trusted keys", "whose signatures count"
	dir, err := x.keyring().Directory()
	if err != nil {
		return lacking(name, use, err.Error(), troubled(name, use, err, anotherKey).Remedy)
	}
	t, notes, err := x.quietTrust()
	if err != nil {
		return troubled(name, use, err, "'gaia key list' shows what counts in "+quoteArg(dir))
	}
	if notes != "" {
		return lacking(name, use, notes, "gaia key list shows what counts in "+quoteArg(dir))
	}
	return fine(name, use, fmt.Sprintf("%d trusted now; their directory is %s", len(t.Valid()), quoteArg(dir)))
}

// cacheFinding checks every entry of the judge cache, as a run does that uses it.
func (x *exam) cacheFinding() diagnosis {
	const name, use = "judge cache", "verdicts given before"
	if x.noJudgeCache {
		return fine(name, use, "not used: --no-judge-cache")
	}
	dir, err := x.judgeCacheDir("set one of them, or give --no-judge-cache")
	if err != nil {
		return x.unlessJudged(troubled(name, use, err, anotherCache))
	}
	t, _, err := x.quietTrust()
	if err != nil {
		return unlooked(name, use, "not looked at: see trusted keys")
	}
	reader, err := judgecache.Look(dir, t.Valid())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := makeable(dir); err != nil {
			return x.unlessJudged(x.unlessSubmitted(troubled(name, use, fmt.Errorf("making the judge cache: %w", err), anotherCache)))
		}
		return fine(name, use, "none yet: "+quoteArg(dir))
	}
	if err != nil {
		return x.unlessJudged(troubled(name, use, err, anotherCache))
	}
	var bad []judgecache.Bad
	good := 0
	reader.Each(func(e judgecache.Entry) {
		switch {
		case e.Reason != "":
			bad = append(bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		case !e.Leftover && !e.Legacy:
			good++
		}
	})
	if len(bad) == 0 {
		return fine(name, use, entriesOf(good)+" in "+quoteArg(dir))
	}
	err = fmt.Errorf("%d of %s do not verify: %s", len(bad), entriesOf(good+len(bad)), strings.Join(badEntries(dir, bad), "; "))
	if reader.Shut() != "" {
		err = shutCache(openedCache{Reader: reader, dir: dir})
	}
	return x.unlessJudged(x.unlessSubmitted(troubled(name, use, fail(exitFailure, err, cacheHints(dir, bad)...), anotherCache)))
}

// anotherCache is what mends a judge cache of no use.
const anotherCache = "set XDG_CACHE_HOME to another place, or give --no-judge-cache"

// unlessSubmitted lessens what only a run with --submit-intent is refused for: else
// what is bad is not used.
func (x *exam) unlessSubmitted(f diagnosis) diagnosis {
	if !x.plan.SubmitIntent {
		f.State = stateMissing
	}
	return f
}

// unlessJudged lessens what a run without a judge would not meet.
func (x *exam) unlessJudged(f diagnosis) diagnosis {
	if x.judge() == "" && f.State == stateFailed {
		f.State = stateMissing
	}
	return f
}

// buildFinding says which program signs for what it did.
func buildFinding() diagnosis {
	const name, use = "this program", "is named in the signed plan"
	const remedy = "build it from a clean checkout: go build ./cmd/gaia"
	h, f, err := thisProgram()
	if err != nil {
		return troubled(name, use, err, remedy)
	}
	_ = f.Close() // its digest is of the plan alone, and takes a while
	switch {
	case h.Commit == "":
		return lacking(name, use, "gaia "+h.Version+" of an unknown commit", remedy)
	case h.Dirty:
		return lacking(name, use, "gaia "+h.Version+" of commit "+h.Commit+" with changes that are not in it", remedy)
	}
	return fine(name, use, "gaia "+h.Version+" of commit "+h.Commit)
}
